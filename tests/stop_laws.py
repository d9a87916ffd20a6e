"""The laws of the stop engine, once: each a function that fails if it does not hold.

Two judges, neither of them the stop engine: the slow reference (``tests/stop_reference.py``), where
the bytes of each token are known, and for any tokenizer DecodeStream, whose own laws
(``tests/laws.py``) say what the text is before anything is withheld or cut.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import pytest

from streamdec import Chunk, DecodeStream, StopConditions, StopSequenceDecoder
from streamdec.errors import FinishedError, TokenIdError
from streamdec.protocols import BPESuffix, Tokenizer
from tests.stop_reference import (
    FLUSH_REASONS,
    Conditions,
    Match,
    Observation,
    Options,
    Situation,
    Trace,
    reference,
    tokenizer_of,
)
from tests.support.caches import small_caches


class Setup(NamedTuple):
    """What a stream is made of."""

    tokenizer: Tokenizer
    conditions: Conditions
    prompt: Sequence[int] = ()
    options: Options = Options()
    clean_up: bool = False

    def decoder(self) -> StopSequenceDecoder:
        conditions = StopConditions(**self.conditions.arguments())
        return StopSequenceDecoder(self.tokenizer, conditions, self.prompt, **self._decoding)

    def stream(self) -> DecodeStream:
        """The same text, nothing withheld for a stop."""
        return DecodeStream(self.tokenizer, self.prompt, **self._decoding)

    @property
    def _decoding(self) -> dict[str, Any]:
        return {**asdict(self.options), "clean_up_tokenization_spaces": self.clean_up}


def setup_of(situation: Situation) -> Setup:
    tokenizer = tokenizer_of(situation.table)
    return Setup(tokenizer, situation.conditions, situation.prompt, situation.options)


def seen(decoder: StopSequenceDecoder, text: str) -> Observation:
    """The observable state of a decoder that has output ``text``."""
    match = decoder.match
    assert decoder.finished == (decoder.finish_reason is not None)
    return Observation(
        text,
        decoder.jailed,
        decoder.held,
        decoder.num_tokens,
        decoder.finish_reason,
        match.stop if match else None,
        Match(*(getattr(match, name) for name in Match._fields)) if match else None,
    )


def fits(chunk: Chunk, decoder: StopSequenceDecoder, unread: int = 0) -> Chunk:
    """Checks that ``chunk``, just given, says what the decoder says; and hands it on."""
    assert chunk.unread_tokens == unread
    assert chunk.finish_reason == decoder.finish_reason
    assert chunk.stop_reason == (decoder.match.stop if decoder.match else None)
    assert chunk.is_empty == (not chunk.text and chunk.finish_reason is None)
    return chunk


def one_by_one(setup: Setup, ids: Sequence[int]) -> list[Observation]:
    """What is seen before any token and after each, up to the finish or an unknown id."""
    decoder = setup.decoder()
    steps = [seen(decoder, "")]
    for token_id in ids:
        if decoder.finished:
            break
        try:
            chunk = decoder.step(token_id)
        except TokenIdError:
            break
        fits(chunk, decoder)
        steps.append(seen(decoder, steps[-1].text + chunk.text))
    return steps


def ended(decoder: StopSequenceDecoder, text: str) -> dict[str, Observation]:
    """The result of each flush, on forks."""
    ends: dict[str, Observation] = {}
    for reason in FLUSH_REASONS:
        fork = decoder.fork()
        chunk = fits(fork.flush(reason), fork)
        ends[reason] = seen(fork, text + chunk.text)
    return ends


# --- all laws at once, where the bytes of tokens are known ----------------------------------------


def as_the_reference(situation: Situation) -> None:
    """After each token, and at each end that could come there; with cold caches and with warm."""
    expected = reference(
        situation.table,
        situation.conditions,
        situation.prompt,
        situation.ids,
        situation.options,
    )
    setup = setup_of(situation)
    for round_ in range(2):
        _as_expected(setup, situation.ids, expected, round_)


def _as_expected(setup: Setup, ids: Sequence[int], expected: Trace, round_: int) -> None:
    decoder = setup.decoder()
    text = ""
    for count, (step, ends) in enumerate(zip(expected.steps, expected.ends, strict=True)):
        if count:
            text += fits(decoder.step(ids[count - 1]), decoder).text
        assert seen(decoder, text) == step, (count, round_)
        assert ended(decoder, text) == ends, (count, round_)
    if expected.unknown is not None:
        with pytest.raises(TokenIdError) as raised:
            decoder.step(ids[expected.unknown])
        assert raised.value.index == expected.unknown
        assert seen(decoder, text) == expected.steps[-1]


# --- law 0: chunk-invariance ----------------------------------------------------------------------


def chunk_invariance(setup: Setup, ids: Sequence[int], cuts: Sequence[int]) -> None:
    """Grouping, snapshots, forks and a reset change nothing that can be seen."""
    steps = one_by_one(setup, ids)
    ids = _read(steps, ids)
    grouped, moved, forked = setup.decoder(), setup.decoder(), setup.decoder()
    texts = ["", "", ""]
    for start, end in itertools.pairwise([0, *cuts, len(ids)]):
        if grouped.finished:
            break
        part = ids[start:end]
        other = forked.fork()
        with suppress(FinishedError, TokenIdError):
            other.step_batch(ids[:3])  # what a fork does is its own
        moved = StopSequenceDecoder.restore(
            setup.tokenizer, json.loads(json.dumps(moved.snapshot()))
        )
        for place, decoder in enumerate((grouped, moved, forked)):
            unread = max(end - steps[-1].num_tokens, 0) if steps[-1].finish_reason else 0
            texts[place] += fits(decoder.step_batch(part), decoder, unread).text
            assert seen(decoder, texts[place]) == steps[min(end, len(steps) - 1)]
    again = StopSequenceDecoder.restore(setup.tokenizer, json.loads(json.dumps(moved.snapshot())))
    ends = ended(grouped, texts[0])
    assert ended(moved, texts[1]) == ended(forked, texts[2]) == ended(again, texts[1]) == ends
    for decoder in (grouped, moved, again):
        decoder.reset()
        assert seen(decoder, "") == steps[0]
        assert _seen_at_once(decoder, ids) == steps[-1]
        assert ended(decoder, steps[-1].text) == ends


def _read(steps: list[Observation], ids: Sequence[int]) -> Sequence[int]:
    """All of ``ids``, or those before one that was refused."""
    return ids if steps[-1].finish_reason else ids[: steps[-1].num_tokens]


def _seen_at_once(decoder: StopSequenceDecoder, ids: Sequence[int]) -> Observation:
    text = decoder.step_batch(ids).text
    return seen(decoder, text)


def with_small_caches(setup: Setup, ids: Sequence[int], most: int) -> None:
    """Caches that are emptied all the time give what others give."""
    steps = one_by_one(setup, ids)
    ids = _read(steps, ids)
    with small_caches(most):
        decoder = setup.decoder()
        for round_ in range(3):  # cold and warm
            decoder.reset()
            text = ""
            for token_id, step in zip(ids, steps[1:], strict=False):
                text += fits(decoder.step(token_id), decoder).text
                assert seen(decoder, text) == step, round_


def at_once(setup: Setup, ids: Sequence[int], beyond: Sequence[Any] = (-1, None, 2**32)) -> None:
    """A batch is one Chunk; what follows the finish is counted, and not even looked at."""
    steps = one_by_one(setup, ids)
    ids = _read(steps, ids)
    decoder = setup.decoder()
    fed: list[Any] = [*ids, *beyond] if steps[-1].finish_reason else [*ids]
    chunk = fits(decoder.step_batch(fed), decoder, len(fed) - steps[-1].num_tokens)
    assert seen(decoder, chunk.text) == steps[-1]
    assert seen(decoder, chunk.text).num_tokens + chunk.unread_tokens == len(fed)


def order_of_lists(setup: Setup, ids: Sequence[int]) -> None:
    """Repetition in the lists of conditions changes nothing, nor does their order.

    Patterns and sections keep their order: the first of two patterns with equal matches wins.
    """
    turned: dict[str, Any] = {}
    for name, value in setup.conditions.arguments().items():
        turned[name] = value
        if name in ("stop_regex", "ignore_stops_between"):
            turned[name] = (*value, *reversed(value))
        elif isinstance(value, tuple):
            turned[name] = (*reversed(value), *value)
    other = setup._replace(conditions=Conditions(**turned))
    assert one_by_one(setup, ids) == one_by_one(other, ids)


# --- laws 1, 3, 9 and 11, for any tokenizer -------------------------------------------------------


def least_hold(setup: Setup, ids: Sequence[int]) -> None:
    """Withheld is exactly the longest end of the text that is a hidden stop's beginning.

    For stops that are strings, in force all the time.
    """
    decoder, stream = setup.decoder(), setup.stream()
    hidden = setup.conditions.hidden
    beginnings = {stop[:size] for stop in hidden for size in range(1, len(stop))}
    given = decided = ""
    for token_id in ids:
        try:
            given += decoder.step(token_id).text
        except TokenIdError:
            break
        if decoder.finished:
            break
        decided += stream.step(token_id)
        assert given + decoder.jailed == decided
        longest = next((end for end in _ends_of(decided) if end in beginnings), "")
        assert decoder.jailed == longest
        assert decoder.held == stream.held
    else:
        text = given + decoder.flush().text
        if not decoder.match:
            assert text == decided + stream.flush()


def _ends_of(text: str) -> Iterator[str]:
    """All suffixes, from the longest."""
    return (text[start:] for start in range(len(text)))


def which_stop(setup: Setup, ids: Sequence[int]) -> None:
    """The earliest code point that completes one; the longest there; the rest is cut.

    For stops that are strings, in force all the time, except for min_tokens.
    """
    conditions = setup.conditions
    stops = sorted({*conditions.stop, *conditions.visible_stop}, key=len, reverse=True)
    text, deciders = _text_and_deciders(setup, ids)
    found = next(
        (
            (end, stop)
            for end in range(1, len(text) + 1)
            if not conditions.min_tokens or deciders[end - 1] + 1 > conditions.min_tokens
            for stop in stops
            if text.endswith(stop, 0, end)
        ),
        None,
    )
    decoder = setup.decoder()
    given = decoder.step_batch(ids).text + decoder.flush("abort").text
    if found is None:
        assert (given, decoder.match, decoder.finish_reason) == (text, None, "abort")
        return
    end, stop = found
    visible, start = stop not in conditions.hidden, end - len(stop)
    assert given == text[: end if visible else start]
    match = decoder.match
    assert match is not None
    assert decoder.finish_reason == "stop"
    assert (match.stop, match.visible, match.start, match.end) == (stop, visible, start, end)
    assert match.byte_start == len(text[:start].encode())
    assert match.byte_end == len(text[:end].encode())
    assert match.token_index == (deciders[end - 1] if ids else None)


def _text_and_deciders(setup: Setup, ids: Sequence[int]) -> tuple[str, list[int]]:
    """The whole text, and the index of the token that decided each code point."""
    stream = setup.stream()
    text = ""
    deciders: list[int] = []
    for index, token_id in enumerate(ids):
        piece = stream.step(token_id)
        text, deciders = text + piece, deciders + [index] * len(piece)
    tail = stream.flush()
    return text + tail, deciders + [len(ids) - 1] * len(tail)


def hidden_stops_are_hidden(setup: Setup, ids: Sequence[int]) -> None:
    """No hidden stop occurs in the output, with any end of the stream.

    For strings without a gate, and without visible stops, whose text may contain a hidden one.
    """
    for count in {0, len(ids) // 2, len(ids)}:
        decoder = setup.decoder()
        with suppress(TokenIdError):
            text = decoder.step_batch(ids[:count]).text + decoder.flush("abort").text
            assert not any(stop in text for stop in setup.conditions.hidden)


# --- ids, for any tokenizer -----------------------------------------------------------------------


def what_an_id_leaves(setup: Setup, ids: Sequence[int]) -> None:
    """Of a stream that one id or sequence ends: the whole text before it, and its own if shown.

    For conditions that are one stop id or sequence, hidden or shown, and nothing else.
    """
    conditions = setup.conditions
    sequence = (*conditions.stop_token_ids, *conditions.visible_stop_token_ids)
    if conditions.stop_token_sequences:
        (sequence,) = conditions.stop_token_sequences
    shown = conditions.include_stop_str_in_output or bool(conditions.visible_stop_token_ids)
    end = next((n for n in range(len(ids) + 1) if tuple(ids[:n][-len(sequence) :]) == sequence), 0)
    ids = ids[:end] if end else ids
    decoder = setup.decoder()
    given = ""
    for count, token_id in enumerate(ids, 1):
        given += decoder.step(token_id).text
        live = _live(sequence, ids[:count])
        if not shown and not decoder.finished and live:
            assert len(given) <= len(whole_text(setup, ids[: count - live]))
    assert decoder.finished == bool(end)
    first = len(ids) - len(sequence) if end else len(ids)
    expected = whole_text(setup, ids if shown else ids[:first])
    assert given + decoder.flush("abort").text == expected
    match = decoder.match
    if match is None:
        return
    stop = sequence[0] if not conditions.stop_token_sequences else sequence
    assert (match.stop, match.visible, match.token_index) == (stop, shown, len(ids) - 1)
    assert match.end == len(expected)
    assert match.tokens_before <= first
    if match.tokens_before:
        assert len(whole_text(setup, ids[: match.tokens_before])) <= match.start


def _live(sequence: tuple[int, ...], ids: Sequence[int]) -> int:
    """How many of the last ids may begin ``sequence``."""
    sizes = range(len(sequence) - 1, 0, -1)
    return next((size for size in sizes if tuple(ids[-size:]) == sequence[:size]), 0)


def whole_text(setup: Setup, ids: Sequence[int]) -> str:
    """What a stream gives from its beginning to its end."""
    stream = setup.stream()
    return "".join(stream.step_batch(ids)) + stream.flush()


# --- law 6: the full decode -----------------------------------------------------------------------


def whole_decode(setup: Setup, ids: Sequence[int]) -> None:
    """With stops that never match, the chunks joined are the library's own decode."""
    skip = setup.options.skip_special_tokens
    whole = setup.tokenizer.decode(list(ids), skip_special_tokens=skip)
    conditions = setup.conditions
    never = [stop for stop in conditions.stop if stop not in whole]
    decoder = setup._replace(conditions=replace(conditions, stop=tuple(never))).decoder()
    chunks = [decoder.step(token_id).text for token_id in ids]
    assert "".join(chunks) + decoder.flush().text == whole
    assert decoder.match is None
    assert (decoder.held, decoder.jailed) == (b"", "")


# --- law 14: finality -----------------------------------------------------------------------------


def finality(setup: Setup, ids: Sequence[int]) -> None:
    """After the finish there is no text; a step is an error; a flush returns the same end."""
    decoder = setup.decoder()
    with suppress(TokenIdError):
        decoder.step_batch(ids)
    decoder.flush("abort")
    last = seen(decoder, "")
    assert (decoder.jailed, decoder.held) == ("", b"")
    restored = StopSequenceDecoder.restore(setup.tokenizer, decoder.snapshot())
    for stopped in (decoder, decoder.fork(), restored):
        for token_id in (*ids[:3], 0, 2**32 - 1):
            with pytest.raises(FinishedError):
                stopped.step(token_id)
        with pytest.raises(FinishedError):
            stopped.step_batch([0])
        assert ended(stopped, "") == dict.fromkeys(FLUSH_REASONS, last)
        assert seen(stopped, "") == last


# --- law 15: bounds -------------------------------------------------------------------------------


def bounded(setup: Setup, ids: Sequence[int]) -> None:
    """However often the ids repeat, the state stays as small."""
    decoder = setup.decoder()
    sizes = []
    for _ in range(12):
        with suppress(TokenIdError, FinishedError):
            decoder.step_batch(ids)
        sizes.append(len(json.dumps(decoder.snapshot())))
    numbers = 8 * 4  # the counters have more digits
    longest = max(map(len, setup.conditions.stop), default=0)
    assert max(sizes) <= sizes[0] + 24 * longest + numbers + 64


# --- law 16: nothing lost -------------------------------------------------------------------------


def nothing_lost(setup: Setup, before: Sequence[int], bad: Any, after: Sequence[int]) -> None:
    """A bad id raises; what was decoded is on the error; the stream continues without it."""
    steps = one_by_one(setup, before)
    if steps[-1].finish_reason or len(steps) <= len(before):
        return
    decoder = setup.decoder()
    with pytest.raises(TokenIdError) as raised:
        decoder.step_batch([*before, bad, *after])
    assert raised.value.index == len(before)
    chunk = raised.value.chunk
    assert chunk is not None
    assert seen(decoder, chunk.text) == steps[-1]
    with pytest.raises(TokenIdError):
        decoder.step(bad)
    assert seen(decoder, chunk.text) == steps[-1]
    plain = setup.decoder()
    plain.step_batch(before)
    for token_id in after:
        if decoder.finished:
            break
        with suppress(TokenIdError):
            assert decoder.step(token_id) == plain.step(token_id)
    assert seen(decoder, "") == seen(plain, "")


# --- positions ------------------------------------------------------------------------------------


def what_an_engine_may_keep(setup: Setup, ids: Sequence[int]) -> None:
    """The tokens before a match have their text wholly before it; the next one reaches into it.

    Not for exact runs, whose text may change with what follows them; and the second half only where
    the token of a byte is known.
    """
    decoder = setup.decoder()
    try:
        decoder.step_batch(ids)
    except TokenIdError:
        return
    decoder.flush("abort")
    match = decoder.match
    if match is None:
        return
    kept = match.tokens_before
    assert match.token_index is not None or not ids
    assert 0 <= kept <= decoder.num_tokens
    lenient = setup._replace(options=replace(setup.options, unknown_ids="skip"))
    stream = lenient.stream()
    text = "".join(stream.step_batch(ids[:kept]))
    assert len(text) <= match.start, "kept text is before the match"
    if match.start < match.end and _tells_tokens_apart(lenient):
        longer = lenient.stream()
        rules = getattr(setup.tokenizer, "rules", None)
        # The space of a suffix is the token's, and comes only if another one follows.
        more = 2 if rules is not None and isinstance(rules.rule, BPESuffix) else 1
        if isinstance(match.stop, tuple):  # of which the first may have no text
            more = max(more, len(match.stop))
        text = "".join(longer.step_batch(ids[: kept + more])) + longer.flush()
        assert len(text) > match.start, "the next token is the match's"


def _tells_tokens_apart(setup: Setup) -> bool:
    """Whether each code point can be traced to its tokens; assumed on the windowed route."""
    try:
        DecodeStream(setup.tokenizer, spans=True, **asdict(setup.options))
    except ValueError:
        return setup.decoder().route == "window"
    return True


# --- law 13: bad conditions -----------------------------------------------------------------------


BAD_CONDITIONS: tuple[dict[str, Any], ...] = (
    {"stop": ("",)},
    {"stop": ("a", "")},
    {"visible_stop": ("",)},
    {"stop": ("\ud800",)},
    {"visible_stop": ("a\udfff",)},
    {"stop_token_ids": (-1,)},
    {"stop_token_ids": (2**32,)},
    {"stop_token_ids": (True,)},
    {"visible_stop_token_ids": (False,)},
    {"eos_token_ids": (-1,)},
    {"eos_token_ids": (True,)},
    {"stop_token_sequences": ((),)},
    {"stop_token_sequences": ((1, -1),)},
    {"stop_token_sequences": ((1, True),)},
    {"min_tokens": -1},
    {"min_tokens": True},
    {"max_tokens": 0},
    {"max_tokens": -1},
    {"max_tokens": True},
    {"min_tokens": 3, "max_tokens": 2},
    {"enable_stops_after": ""},
    {"enable_stops_after": "\udc00"},
    {"enable_stops_after": -1},
    {"enable_stops_after": True},
    {"disable_stops_after": ""},
    {"disable_stops_after": False},
)
