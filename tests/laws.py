"""The laws of design, once: each a function that fails if it does not hold for what it is given.

pytest tries them on drawn tokenizers and ids (``tests/test_laws.py``), the fuzzers for hours
(``fuzz/``). The oracle is the tokenizer library's own ``decode`` and the slow definitions of
``tests/reference.py``, never streamdec.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from typing import Any

import pytest

from streamdec import DecodeStream
from streamdec import Sequence as TokenSequence
from streamdec.chunks import Anchor
from streamdec.core import program, rows
from streamdec.errors import FinishedError, TokenIdError, UnknownTokenError
from streamdec.protocols import ByteFallback, ByteLevel, RawBytes
from tests import reference
from tests.strategies import Subject


def stream_of(subject: Subject, prompt: Sequence[int] = (), **options: Any) -> DecodeStream:
    return DecodeStream(subject.tokenizer, prompt, **options)


def whole(subject: Subject, token_ids: Sequence[int], **options: Any) -> str:
    """The library's own text."""
    skip = options.get("skip_special_tokens", True)
    return subject.tokenizer.decode(list(token_ids), skip_special_tokens=skip)


def observe(stream: DecodeStream) -> dict[str, Any]:
    """Everything that can be seen of a stream."""
    return {
        "held": stream.held,
        "num_tokens": stream.num_tokens,
        "prefix_offset": stream.prefix_offset,
        "read_offset": stream.read_offset,
        "unknown_tokens": stream.unknown_tokens,
        "finished": stream.finished,
    }


# --- law 0: chunk-invariance ----------------------------------------------------------------------


def chunk_invariance(
    subject: Subject,
    prompt: Sequence[int],
    token_ids: Sequence[int],
    cuts: Sequence[int],
    **options: Any,
) -> None:
    """Grouping, cache state, snapshots and forks change nothing that can be seen."""
    plain = stream_of(subject, prompt, **options)
    texts = [plain.step(token_id) for token_id in token_ids]
    seen = observe(plain)
    grouped = stream_of(subject, prompt, **options)
    moved = stream_of(subject, prompt, **options)
    forked = stream_of(subject, prompt, **options)
    bounds = [0, *cuts, len(token_ids)]
    for start, end in itertools.pairwise(bounds):
        part = token_ids[start:end]
        assert grouped.step_batch(part) == texts[start:end]
        other = forked.fork()
        other.step_batch(token_ids[:3])  # what a fork does is its own
        assert forked.step_batch(part) == texts[start:end]
        snapshot = json.loads(json.dumps(moved.snapshot()))
        moved = DecodeStream.restore(subject.tokenizer, snapshot)
        assert moved.step_batch(part) == texts[start:end]
    assert observe(grouped) == observe(moved) == observe(forked) == seen
    last = plain.flush()
    assert grouped.flush() == moved.flush() == forked.flush() == last
    assert observe(grouped) == observe(moved) == observe(forked) == observe(plain)
    plain.reset()
    assert plain.step_batch(token_ids) == texts
    assert observe(plain) == seen


def small_caches(subject: Subject, token_ids: Sequence[int], max_entries: int) -> None:
    """A program that forgets all the time gives what one gives that never forgets."""
    expected = stream_of(subject).step_batch(token_ids)
    stream = stream_of(subject)
    forgetful = stream._program
    if isinstance(forgetful, program.Program):
        forgetful = program.Program(
            forgetful.token_bytes, forgetful.options, forgetful._cascade, max_entries=max_entries
        )
    stream._program = forgetful
    for round_ in range(rows.USES_BEFORE_DENSE + 2):  # before and after it has a dense row
        stream.reset()
        assert stream.step_batch(token_ids) == expected, round_
        if isinstance(forgetful, program.Program):
            kept = sum(len(row) - 1 for row in forgetful._rows.values())
            assert kept <= max(max_entries, 1)


# --- laws 1 and 2: what is emitted, and when ------------------------------------------------------


def emission(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """After each token: what every future has in common, and no less (bytes that can be known)."""
    if len(subject.byte_ids) not in (0, 256):
        return  # a vocabulary that cannot break what it began: what it withholds, others must
    rules = subject.tokenizer.rules
    stream = stream_of(subject, **options)
    given = ""
    for count, token_id in enumerate(token_ids, 1):
        given += stream.step(token_id)
        futures = [
            whole(subject, [*token_ids[:count], *more], **options)
            for more in _futures(subject, stream)
        ]
        certain = reference.common_prefix(futures)
        if rules and rules.replaces:
            # Which tokens would make a pattern is not tried out here: tests/core/test_rewrite.py
            # does.
            assert certain.startswith(given)
        else:
            assert given == certain


def _futures(subject: Subject, stream: DecodeStream) -> list[list[int]]:
    """Nothing; other tokens; and whatever makes a character of an unfinished one."""
    futures: list[list[int]] = [[], *([i] for i in subject.apart)]
    if stream.held:
        tails = [
            subject.byte_ids[b]
            for b in (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)
            if b in subject.byte_ids
        ]
        for missing in (1, 2, 3):
            futures += map(list, itertools.product(tails, repeat=missing))
    return futures


def emission_of_bytes(subject: Subject, token_ids: Sequence[int], tokens: Sequence[bytes]) -> None:
    """D(S) less the unfinished last character; S is known, the tokenizer being made of it."""
    stream = stream_of(subject)
    per_byte = isinstance(_rule(subject), ByteFallback)
    data, given = b"", ""
    for token_id in token_ids:
        given += stream.step(token_id)
        skipped = token_id >= len(tokens) or subject.tokenizer.is_skipped(token_id)
        data += b"" if skipped else tokens[token_id]
        pending = reference.unfinished(data)
        assert stream.held == pending
        assert given == reference.text_of(data[: len(data) - len(pending)], per_byte=per_byte)
    assert given + stream.flush() == reference.text_of(data, per_byte=per_byte)


# --- laws 3 to 7: the whole decode ----------------------------------------------------------------


def whole_decode(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """The chunks joined are the tokenizer's own decode of all ids."""
    stream = stream_of(subject, **options)
    chunks = stream.step_batch(token_ids)
    assert "".join(chunks) + stream.flush() == whole(subject, token_ids, **options)
    assert stream.held == b""


def prompt_continues(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """stable(prompt) + stream = D(prompt + generated); the prompt is never given out."""
    fresh = stream_of(subject, **options)
    fresh.step_batch(prompt)
    texts = fresh.step_batch(token_ids)
    primed = stream_of(subject, prompt, **options)
    assert primed.held == _after(subject, prompt, **options).held
    assert primed.step_batch(token_ids) == texts
    assert primed.flush() == fresh.flush()


def _after(subject: Subject, token_ids: Sequence[int], **options: Any) -> DecodeStream:
    stream = stream_of(subject, **options)
    stream.step_batch(token_ids)
    return stream


def sentencepiece_runs(subject: Subject, token_ids: Sequence[int]) -> None:
    """Eager byte runs: one U+FFFD for each bad byte, whatever stands around it."""
    tokenizer = subject.tokenizer
    assert tokenizer.rules is not None
    known = [i for i in token_ids if tokenizer.piece(i) is not None and not tokenizer.is_skipped(i)]
    pieces = [str(tokenizer.piece(i)) for i in known]
    data = b"".join(
        bytes([b]) if (b := _byte(piece)) is not None else piece.encode() for piece in pieces
    )
    text = reference.text_of(data, per_byte=True)
    char, count = tokenizer.rules.strip_left
    while count and text.startswith(char):
        text, count = text[len(char) :], count - 1
    for rule in tokenizer.rules.replaces:
        text = text.replace(rule.pattern, rule.content)
    stream = stream_of(subject, byte_runs="eager")
    assert "".join(stream.step_batch(token_ids)) + stream.flush() == text


def _byte(piece: str) -> int | None:
    if len(piece.encode()) == 6 and piece[:3] == "<0x" and piece[5] == ">":
        try:
            return int(piece[3:5], 16) if piece[3] not in "-_ " and piece[4] not in "_ " else None
        except ValueError:
            return None
    return None


def clean_up(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """The clean-up of transformers, streamed: the same as on the whole text."""
    text = whole(subject, token_ids, **options)
    for pattern, content in (
        (" .", "."), (" ?", "?"), (" !", "!"), (" ,", ","), (" ' ", "'"),
        (" n't", "n't"), (" 'm", "'m"), (" 's", "'s"), (" 've", "'ve"), (" 're", "'re"),
    ):  # fmt: skip
        text = text.replace(pattern, content)
    stream = stream_of(subject, clean_up_tokenization_spaces=True, **options)
    assert "".join(stream.step_batch(token_ids)) + stream.flush() == text


# --- law 8: specials ------------------------------------------------------------------------------


def skipped_specials_leave_no_trace(subject: Subject, token_ids: Sequence[int]) -> None:
    """With specials skipped, a stream says what it says without them."""
    without = [i for i in token_ids if not subject.tokenizer.is_skipped(i)]
    one, other = stream_of(subject), stream_of(subject)
    assert "".join(one.step_batch(token_ids)) == "".join(other.step_batch(without))
    assert one.held == other.held
    assert one.flush() == other.flush()


# --- offsets --------------------------------------------------------------------------------------


def offsets(subject: Subject, prompt: Sequence[int], token_ids: Sequence[int]) -> None:
    """The offsets are those of the reference window (on text without U+FFFD)."""

    def decode(ids: Sequence[int]) -> str:
        return whole(subject, ids)

    stream = stream_of(subject, prompt)
    seen = [(stream.prefix_offset, stream.read_offset)]
    for token_id in token_ids:
        stream.step(token_id)
        seen.append((stream.prefix_offset, stream.read_offset))
    assert seen == reference.window_offsets(decode, prompt, token_ids)


# --- law 14: finality -----------------------------------------------------------------------------


def finality(subject: Subject, token_ids: Sequence[int]) -> None:
    """After the end there is no text; a further step is refused; reset begins anew."""
    stream = stream_of(subject)
    texts = stream.step_batch(token_ids)
    last = stream.flush()
    seen = observe(stream)
    for stopped in (
        stream,
        stream.fork(),
        DecodeStream.restore(subject.tokenizer, stream.snapshot()),
    ):
        assert stopped.finished
        for token_id in [0, 1, subject.usual[0], 2**32 - 1]:
            with pytest.raises(FinishedError):
                stopped.step(token_id)
        with pytest.raises(FinishedError):
            stopped.step_batch([0])
        assert stopped.flush() == ""
        assert observe(stopped) == seen
    stream.reset()
    assert stream.step_batch(token_ids) == texts
    assert stream.flush() == last


# --- law 15: bounds -------------------------------------------------------------------------------


def bounded(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """However often the ids repeat, the state stays as small, and so do the caches."""
    stream = stream_of(subject, **options)
    size = 0
    for _ in range(20):
        stream.step_batch(token_ids)
        size = max(size, len(json.dumps(stream.snapshot())))
    assert size <= 500 + 20 * (64 if stream.route == "window" else 4)
    if isinstance(stream._program, program.Program):
        kept = stream._program._rows.values()
        assert sum(len(row) - 1 for row in kept) <= rows.MAX_ENTRIES
        assert all(row[None][0][4] <= program.MAX_CACHED_WAIT for row in kept)


# --- law 16: nothing lost -------------------------------------------------------------------------


BAD_IDS: tuple[Any, ...] = (
    -1,
    -(2**40),
    2**32,
    True,
    False,
    1.0,
    0.0,
    1.5,
    math.nan,
    "1",
    b"1",
    None,
    [1],
    1j,
)


def nothing_lost(subject: Subject, before: Sequence[int], bad: Any, after: Sequence[int]) -> None:
    """A bad id raises; what was decoded is on the error; the stream goes on without it."""
    plain, tried = stream_of(subject), stream_of(subject)
    texts = plain.step_batch(before)
    with pytest.raises(TokenIdError) as raised:
        tried.step_batch([*before, bad, *after])
    assert raised.value.chunk is not None
    assert raised.value.chunk.text == "".join(texts)
    assert raised.value.index == len(before)
    assert observe(tried) == observe(plain)
    with pytest.raises(TokenIdError):
        tried.step(bad)
    assert observe(tried) == observe(plain)
    assert tried.step_batch(after) == plain.step_batch(after)
    assert tried.flush() == plain.flush()


def unknown_ids(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """Skipped and counted; or an error that names id and place; or U+FFFD in their place."""
    unknown = [i for i in token_ids if subject.tokenizer.piece(i) is None]
    skipping = stream_of(subject, **options)
    known = [i for i in token_ids if subject.tokenizer.piece(i) is not None]
    assert "".join(skipping.step_batch(token_ids)) == "".join(
        stream_of(subject, **options).step_batch(known)
    )
    assert skipping.unknown_tokens == len(unknown)
    strict = stream_of(subject, unknown_ids="error", **options)
    if unknown:
        with pytest.raises(UnknownTokenError) as raised:
            strict.step_batch(token_ids)
        place = next(n for n, i in enumerate(token_ids) if i in unknown)
        assert (raised.value.token_id, raised.value.index) == (token_ids[place], place)
        assert strict.num_tokens == place
    else:
        assert strict.step_batch(token_ids) == skipping.fork().step_batch([]) + stream_of(
            subject, **options
        ).step_batch(token_ids)


# --- law 17: anchors ------------------------------------------------------------------------------


def anchors(
    subject: Subject, token_ids: Sequence[int], cuts: Sequence[int], **options: Any
) -> None:
    """Each token's place, as defined from the bytes it contributes; settled ones never change."""
    raw = stream_of(subject, **options)
    contributions = [raw.step_bytes(token_id) for token_id in token_ids]
    per_byte = isinstance(_rule(subject), ByteFallback)
    expected = reference.anchors(contributions, per_byte=per_byte)
    stream = stream_of(subject, anchors=True, keep_tokens=True, **options)
    taken: list[Anchor] = []
    for start, end in itertools.pairwise([0, *cuts, len(token_ids)]):
        stream.step_batch(token_ids[start:end])
        taken += stream.take_anchors()
        snapshot = json.loads(json.dumps(stream.snapshot()))
        stream = DecodeStream.restore(subject.tokenizer, snapshot).fork()
    stream.flush()
    taken += stream.take_anchors()
    assert taken == [Anchor(n, *place) for n, place in enumerate(expected)]
    assert stream.token_ids == list(token_ids)


def anchors_cover(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """In order, within the text, units agreeing; without a prompt they cover all of it."""
    stream = stream_of(subject, prompt, anchors=True, **options)
    text = "".join(stream.step_batch(token_ids)) + stream.flush()
    places = stream.take_anchors()
    assert [place.token_index for place in places] == list(range(len(token_ids)))
    covered = set()
    for place in places:
        assert 0 <= place.start <= place.end <= len(text)
        assert place.byte_start == len(text[: place.start].encode())
        assert place.byte_end == len(text[: place.end].encode())
        covered |= set(range(place.start, place.end))
    if not prompt:
        assert covered == set(range(len(text)))


def traceable(subject: Subject) -> bool:
    """Whether the anchors of a tokenizer can be had."""
    try:
        stream_of(subject, anchors=True)
    except ValueError:
        return False
    return True


def _rule(subject: Subject) -> object:
    rules = subject.tokenizer.rules
    return rules and rules.rule


def gives_bytes_at_once(subject: Subject) -> bool:
    """Whether each token's bytes depend on it alone, so that the definition of anchors applies."""
    return isinstance(_rule(subject), (ByteLevel, RawBytes, ByteFallback))


# --- sequences ------------------------------------------------------------------------------------


def sequences(
    subject: Subject, token_ids: Sequence[int], length: int, more: Sequence[int], **options: Any
) -> None:
    """``truncate(n)``, then going on, equals having started from the first n."""
    sequence = TokenSequence(subject.tokenizer, token_ids, **options)
    plain = DecodeStream(subject.tokenizer, **{"skip_special_tokens": False, **options})
    assert sequence.text == "".join(plain.step_batch(token_ids))
    assert sequence.token_ids == list(token_ids)
    cut, began = sequence.fork(), TokenSequence(subject.tokenizer, token_ids[:length], **options)
    cut.truncate(length)
    assert _sequence(cut) == _sequence(began)
    for token_id in more:
        assert cut.append_token(token_id) == began.append_token(token_id)
        assert _sequence(cut) == _sequence(began)
    assert sequence.token_ids == list(token_ids)
    restored = TokenSequence.restore(subject.tokenizer, json.loads(json.dumps(cut.snapshot())))
    assert _sequence(restored) == _sequence(cut)


def _sequence(sequence: TokenSequence) -> tuple[object, ...]:
    return (
        sequence.text,
        sequence.token_ids,
        sequence.held,
        sequence.prefix_offset,
        sequence.read_offset,
        len(sequence),
    )
