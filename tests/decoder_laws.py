"""The laws that every decoder keeps, with stops or without. Each is a function that fails if not.

``new`` makes a decoder before its first token.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, get_args

import pytest

from streamdec import Chunk, FinishReason, StopSequenceDecoder
from streamdec.errors import FinishedError, RewriteError, TokenIdError, TokenizerLibraryError
from tests.support.caches import small_caches

New = Callable[[], Any]
FLUSH_REASONS: tuple[FinishReason, ...] = get_args(FinishReason)
REFUSALS = (RewriteError, TokenizerLibraryError)
"""What a step may end in where all there is is a decode that takes back text, or panics."""
MEMBERS = (
    *("held", "jailed", "pending_text", "match", "finished", "finish_reason", "route"),
    *("num_tokens", "num_characters", "num_prompt_tokens", "unknown_tokens"),
    *("prefix_offset", "read_offset", "num_pending_tokens"),
)
State = tuple[str, dict[str, Any]]
"""The text so far, and all that can be asked of a decoder."""


def observe(decoder: Any) -> dict[str, Any]:
    return {name: getattr(decoder, name) for name in MEMBERS}


def text_of(given: str | Chunk) -> str:
    return given if isinstance(given, str) else given.text


def fits(given: Any, decoder: Any, unread: int = 0) -> Any:
    """Checks that what was just given says what the decoder says; and hands it on."""
    if isinstance(given, Chunk):
        assert given.unread_tokens == unread
        assert given.finish_reason == decoder.finish_reason
        assert given.stop_reason == (decoder.match.stop if decoder.match else None)
    return given


def trail(decoder: Any, ids: Sequence[int]) -> list[State]:
    """The state before any token and after each, up to the finish or a token that is refused."""
    states = [("", observe(decoder))]
    for token_id in ids:
        if decoder.finished:
            break
        try:
            given = decoder.step(token_id)
        except (TokenIdError, *REFUSALS):
            break
        states.append((states[-1][0] + text_of(fits(given, decoder)), observe(decoder)))
    return states


def accepted(states: Sequence[State], ids: Sequence[int]) -> Sequence[int]:
    """All of ``ids``, or those before one that was refused."""
    last = states[-1][1]
    return ids if last["finished"] else ids[: last["num_tokens"]]


def ends(decoder: Any, text: str) -> list[State | None]:
    """The state after each flush, on forks; None if the windowed route cannot end the text."""
    found: list[State | None] = []
    for reason in FLUSH_REASONS if isinstance(decoder, StopSequenceDecoder) else [None]:
        fork = decoder.fork()
        try:
            given = fork.flush(reason) if reason else fork.flush()
        except RewriteError:
            found.append(None)
        else:
            found.append((text + text_of(fits(given, fork)), observe(fork)))
    return found


def moved_as_json(decoder: Any) -> Any:
    snapshot = json.loads(json.dumps(decoder.snapshot()))
    return type(decoder).restore(decoder.tokenizer, snapshot)


# --- law 0 ----------------------------------------------------------------------------------------


def chunk_invariance(new: New, ids: Sequence[int], cuts: Sequence[int]) -> None:
    """Grouping, snapshots, forks and a reset change nothing that can be seen."""
    states = trail(new(), ids)
    ids, (text, last) = accepted(states, ids), states[-1]
    grouped, moved, forked = new(), new(), new()
    texts = ["", "", ""]
    for start, end in itertools.pairwise([0, *cuts, len(ids)]):
        if grouped.finished:
            break
        part = ids[start:end]
        other = forked.fork()
        with suppress(FinishedError, TokenIdError, *REFUSALS):
            other.feed(ids[:3])  # what a fork does is its own
        moved = moved_as_json(moved)
        for place, decoder in enumerate((grouped, moved, forked)):
            unread = max(end - last["num_tokens"], 0) if last["finished"] else 0
            texts[place] += text_of(fits(decoder.feed(part), decoder, unread))
            assert (texts[place], observe(decoder)) == states[min(end, len(states) - 1)]
    expected = ends(grouped, text)
    for decoder in (moved, forked, moved_as_json(moved)):
        assert ends(decoder, text) == expected
    for decoder in (grouped, moved):
        decoder.reset()
        assert ("", observe(decoder)) == states[0]
        given = [*itertools.accumulate(map(text_of, decoder.step_batch(ids)))]
        assert given == [each for each, _ in states[1:]]
        assert observe(decoder) == last
        assert ends(decoder, text) == expected


def with_small_caches(new: New, ids: Sequence[int], most: int) -> None:
    """Caches that are emptied all the time give what others give."""
    states = trail(new(), ids)
    with small_caches(most):
        decoder = new()
        for round_ in range(3):  # cold and warm
            decoder.reset()
            assert trail(decoder, accepted(states, ids)) == states, round_


def the_same_spans_and_states(first: Any, second: Any, ids: Sequence[int]) -> None:
    """Two decoders, made alike, cannot be told apart after any token."""
    pairs = itertools.zip_longest(_with_spans(first, ids), _with_spans(second, ids))
    for one, other in pairs:
        assert one == other


def _with_spans(decoder: Any, ids: Sequence[int]) -> list[Any]:
    has_spans = "spans" in decoder.snapshot()
    found: list[Any] = []
    for token_id in ids:
        if decoder.finished:
            break
        try:
            given = decoder.step(token_id)
        except TokenIdError as error:
            given = str(error)
        found.append((given, observe(decoder), has_spans and decoder.fork().take_spans()))
    return [*found, ends(decoder, "")]


# --- law 15 ---------------------------------------------------------------------------------------


def does_not_grow(new: New, begun: Sequence[int], cycle: Sequence[int]) -> None:
    """However often ids repeat, the state of a stream that has not ended stays as small."""
    decoder, sizes = new(), []
    for token_id in [*begun, *[*cycle] * 120]:
        decoder.step(token_id)
        if decoder.finished:
            return
        sizes.append(len(json.dumps(decoder.snapshot())))
    half = len(sizes) // 2
    digits = 24  # each counter and index may have one digit more
    assert max(sizes[half:]) <= max(sizes[:half]) + digits


# --- laws 14, 16 and 17 ---------------------------------------------------------------------------


def finality(new: New, ids: Sequence[int]) -> None:
    """After the end there is no text; a further step is an error; a flush returns the same end."""
    decoder = new()
    with suppress(TokenIdError):
        decoder.feed(ids)
    decoder.flush()
    last = observe(decoder)
    assert (last["held"], last["jailed"], last["finished"]) == (b"", "", True)
    for stopped in (decoder, decoder.fork(), moved_as_json(decoder)):
        for token_id in (*ids[:3], 0, 2**32 - 1):
            with pytest.raises(FinishedError):
                stopped.step(token_id)
        for call in (lambda each=stopped: each.feed([0]), stopped.release):
            with pytest.raises(FinishedError):
                call()
        assert all(each == ("", last) for each in ends(stopped, ""))
        assert observe(stopped) == last


def nothing_lost(new: New, before: Sequence[int], bad: Any, after: Sequence[int]) -> None:
    """A bad id raises; what was decoded is on the error; the stream continues without it."""
    states = trail(new(), before)
    if states[-1][1]["finished"] or len(states) <= len(before):
        return
    plain = new()
    plain.feed(before)
    later = trail(plain, after)
    for method in ("feed", "step_batch"):
        decoder = new()
        with pytest.raises(TokenIdError) as raised:
            getattr(decoder, method)([*before, bad, *after])
        assert raised.value.num_taken == raised.value.index == len(before)
        assert raised.value.chunk is not None
        assert (raised.value.chunk.text, observe(decoder)) == states[-1]
        with pytest.raises(TokenIdError):
            decoder.step(bad)
        assert trail(decoder, after) == later
        assert ends(decoder, "") == ends(plain, "")


def spans_whenever_taken(new: New, ids: Sequence[int], cuts: Sequence[int]) -> None:
    """Spans that are taken along the way are those that are taken at the end."""
    along, at_end = new(), new()
    taken = []
    for count, token_id in enumerate(ids):
        if count in cuts:
            taken += along.take_spans()
        if along.finished:
            break
        for decoder in (along, at_end):
            with suppress(TokenIdError):
                decoder.step(token_id)
    for decoder in (along, at_end):
        decoder.flush()
    assert [*taken, *along.take_spans()] == at_end.take_spans()
