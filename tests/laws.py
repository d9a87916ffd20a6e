"""The laws of text, as functions: each fails if its law does not hold for the arguments.

pytest tries them on drawn tokenizers and ids (``tests/test_laws.py``), the fuzzers for hours
(``fuzz/``). The oracle is the tokenizer library's own ``decode`` and the slow definitions of
``tests/reference.py``, never streamdec.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamdec import DecodeStream, StopSequenceDecoder
from streamdec import Sequence as TokenSequence
from streamdec.chunks import TokenSpan
from streamdec.core.window import MAX_WINDOW
from streamdec.errors import RewriteError, TokenIdError
from streamdec.protocols import ByteFallback, ByteLevel, Decoder, RawBytes
from tests import reference
from tests.decoder_laws import REFUSALS, observe
from tests.strategies import Subject


def stream_of(subject: Subject, prompt: Sequence[int] = (), **options: Any) -> DecodeStream:
    return DecodeStream(subject.streamed, prompt, **options)


def whole(subject: Subject, token_ids: Sequence[int], **options: Any) -> str:
    skip = options.get("skip_special_tokens", True)
    return subject.tokenizer.decode(list(token_ids), skip_special_tokens=skip)


# --- the two classes ------------------------------------------------------------------------------

UNMET = "\ue000"
"""A letter that no token has."""


def _both(
    subject: Subject, prompt: Sequence[int], letters: str, **options: Any
) -> list[StopSequenceDecoder]:
    """A decoder without stops, and one whose stops begin with ``letters`` and never come."""
    stops = [f"{letter}{UNMET}" for letter in letters]
    more: list[dict[str, Any]] = [{}, {"visible_stop": stops, "stop_token_ids": [2**32 - 7]}]
    return [StopSequenceDecoder(subject.streamed, None, prompt, **each, **options) for each in more]


def both_classes_output_the_same(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """Stops that never come change nothing that can be seen of a stream."""
    plain = stream_of(subject, prompt, **options)
    letters = "".join({*whole(subject, token_ids, **options)})
    both = _both(subject, prompt, letters, **options)
    for token_id in token_ids:
        text = plain.step(token_id)
        for decoder in both:
            assert decoder.step(token_id).text == text
            assert observe(decoder) == observe(plain)
            assert decoder.jailed == ""
    last = plain.flush()
    assert [decoder.flush().text for decoder in both] == [last, last]


def release(subject: Subject, groups: Sequence[Sequence[int]], **options: Any) -> None:
    """Law 18: a release outputs what the end would. Then nothing is withheld."""
    plain, (_, with_stops) = stream_of(subject, **options), _both(subject, (), "", **options)
    for group in groups:
        given, chunk = plain.feed(group), with_stops.feed(group)
        assert given + plain.pending_text == chunk.text + with_stops.pending_text
        expected = plain.pending_text, with_stops.pending_text
        assert (plain.release(), with_stops.release().text) == expected
        for stream in (plain, with_stops):
            assert (stream.pending_text, stream.held, stream.jailed) == ("", b"", "")


# --- laws 1 and 2: what is emitted, and when ------------------------------------------------------


def emission(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """After each token: what every future has in common, and no less."""
    stream = stream_of(subject, **options)
    given = ""
    for count, token_id in enumerate(token_ids, 1):
        given += stream.step(token_id)
        _is_all_that_is_certain(subject, stream, token_ids[:count], given, **options)


def _is_all_that_is_certain(
    subject: Subject, stream: DecodeStream, token_ids: Sequence[int], given: str, **options: Any
) -> None:
    """``stream`` came by ``token_ids``: did they decide just what was ``given``?"""
    futures = [whole(subject, [*token_ids, *more], **options) for more in _futures(subject, stream)]
    certain = reference.common_prefix(futures)
    if subject.is_foreseeable:
        assert given == certain
    else:
        assert certain.startswith(given)


def _futures(subject: Subject, stream: DecodeStream) -> list[list[int]]:
    """Nothing; other tokens; and bytes that complete an unfinished character."""
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


# --- laws 3 to 7: the full decode -----------------------------------------------------------------


def whole_decode(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """The chunks joined are the tokenizer's own decode of all ids."""
    stream = stream_of(subject, **options)
    chunks = stream.step_batch(token_ids)
    assert "".join(chunks) + stream.flush() == whole(subject, token_ids, **options)
    assert stream.held == b""


def prompt_continues(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """stable(prompt) + stream = D(prompt + generated); the prompt is never output."""
    primed = stream_of(subject, prompt, **options)
    begun = primed.fork()
    text = "".join(primed.step_batch(token_ids)) + primed.flush()
    everything = whole(subject, [*prompt, *token_ids], **options)
    (start, end), complete = _complete_in_run(subject, prompt, **options)
    if complete and _may_be_joined(subject, complete.decode()):
        return
    assert everything.endswith(text)
    stable = everything.removesuffix(text)
    if not complete:
        _is_all_that_is_certain(subject, begun, prompt, stable, **options)
    elif not options.get("clean_up_tokenization_spaces"):
        # The complete characters of an open run are the prompt's, also if the run becomes invalid.
        streamed = stream_of(subject, **options)
        decided = "".join(streamed.step_batch(prompt))
        # If a replacement withholds the end of the text before the run, the run decides it.
        befores = decided, whole(subject, prompt[:start], **options)
        spoiled = [before + reference.REPLACEMENT * len(complete) for before in befores]
        assert stable in (whole(subject, prompt[:end], **options), *spoiled) or (
            stable.startswith(decided) and _rule(subject) != ByteFallback()
        )


def _may_be_joined(subject: Subject, run: str) -> bool:
    """Whether the pattern of a replacement may begin before the end of ``run`` and end after it.

    A stream replaces nothing across the end of a run in its prompt, and the full decode does.
    """
    rules = subject.tokenizer.rules
    for each in rules.replaces if rules else ():
        begun = [each.pattern[:length] for length in range(1, len(each.pattern))]
        if any(run.endswith(part) or part.endswith(run) for part in begun):
            return True
        run = run.replace(each.pattern, each.content)
    return False


def _complete_in_run(
    subject: Subject, prompt: Sequence[int], **options: Any
) -> tuple[tuple[int, int], bytes]:
    """The complete characters of the exact run of byte tokens that ``prompt`` ends in.

    Also the indices at which they begin and end in ``prompt``.
    """
    is_run = isinstance(_rule(subject), ByteFallback) and options.get("byte_fallback") == "exact"
    if not is_run:
        return (len(prompt), len(prompt)), b""
    tokenizer, skips = subject.tokenizer, options.get("skip_special_tokens", True)
    run, places = b"", [len(prompt)]
    for index, token_id in reversed([*enumerate(prompt)]):
        piece = tokenizer.piece(token_id)
        if piece is None and options.get("unknown_ids") == "replace":
            break
        if piece is None or (skips and tokenizer.is_skipped(token_id)):
            continue
        byte = _byte(str(piece))
        if byte is None:
            break
        run = bytes([byte]) + run
        places.insert(0, index)
    run = run.removesuffix(reference.unfinished(run))
    return (places[0], places[len(run)]), run if reference.text_of(run).encode() == run else b""


def prompt_is_as_if_streamed(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """A stream with a prompt continues like one that stepped the prompt token by token."""
    fresh, primed = stream_of(subject, **options), stream_of(subject, prompt, **options)
    fresh.step_batch(prompt)
    (start, _), complete = _complete_in_run(subject, prompt, **options)
    if not complete:
        assert primed.held == fresh.held
    texts, expected = primed.step_batch(token_ids), fresh.step_batch(token_ids)
    if not complete:
        assert texts == expected
        assert primed.flush() == fresh.flush()
        return
    ours, theirs = "".join([*texts, primed.flush()]), "".join([*expected, fresh.flush()])
    is_joined = _may_be_joined(subject, complete.decode())
    if not (options.get("clean_up_tokenization_spaces") or is_joined):
        assert theirs.endswith(ours)
        # If a replacement withholds the end of the text before the run, the run decides it.
        before = stream_of(subject, **options)
        before.step_batch(prompt[:start])
        assert len(theirs) - len(ours) <= len(complete) + len(before.pending_text)


def sentencepiece_runs(subject: Subject, token_ids: Sequence[int]) -> None:
    """Eager byte runs: one U+FFFD for each bad byte, next to any other bytes."""
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
    stream = stream_of(subject, byte_fallback="eager")
    assert "".join(stream.step_batch(token_ids)) + stream.flush() == text


def _byte(piece: str) -> int | None:
    if len(piece) == 6 and piece.isascii() and piece[:3] == "<0x" and piece[5] == ">":
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


# --- law 15: bounds -------------------------------------------------------------------------------


def bounded(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """However often the ids repeat, the state of a stream stays as small."""
    stream = stream_of(subject, **options)
    for _ in range(20):
        stream.step_batch(token_ids)
        assert len(json.dumps(stream.snapshot())) <= 600


# --- law 16: nothing lost -------------------------------------------------------------------------


class Tensor:
    """Compares as a tensor of several values does, and is not an integer."""

    def __ge__(self, other: object) -> bool:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")

    __eq__ = __lt__ = __le__ = __gt__ = __ge__
    __hash__ = object.__hash__


class Fickle:
    """Has ``__index__``, as integers have, but it raises."""

    def __index__(self) -> int:
        raise ValueError("only integer tensors of a single element can be converted to an index")


BAD_IDS: tuple[Any, ...] = (
    *(-1, -(2**40), 2**32, np.int64(-1)),
    *(True, False, np.bool_(True), np.bool_(False)),
    *(0.0, 1.0, 1.5, math.nan, np.float64(1.0), Decimal(1), Decimal("nan"), Fraction(1), 1j),
    *("1", b"1", None, [1], (), {}),
    *(np.array([], int), np.array([1]), np.array([1, 2]), np.array([[1], [2]]), np.array(1.0)),
    *(Tensor(), Fickle()),
)


def bad_ids_are_refused(subject: Subject, before: Sequence[int]) -> None:
    """Each of BAD_IDS raises and changes nothing, if an equal id is in the rows or not."""
    stream = stream_of(subject, before)
    stream.step_batch(before)
    seen = json.dumps(stream.snapshot())
    for bad in BAD_IDS:
        for tried, as_list in ((stream, False), (stream.fork(), True)):
            with pytest.raises(TokenIdError) as raised:
                tried.feed([bad]) if as_list else tried.step(bad)
            assert raised.value.token_id is bad
            assert raised.value.index == len(before)
            assert json.dumps(tried.snapshot()) == seen


def unknown_ids(subject: Subject, token_ids: Sequence[int], **options: Any) -> None:
    """Skipped and counted; or an error that names id and place."""
    piece = subject.tokenizer.piece
    known = [i for i in token_ids if piece(i) is not None]
    skipping = stream_of(subject, **options)
    texts = skipping.step_batch(token_ids)
    assert "".join(texts) + skipping.flush() == whole(subject, known, **options)
    assert skipping.unknown_tokens == len(token_ids) - len(known)
    strict = stream_of(subject, unknown_ids="error", **options)
    place = next((n for n, i in enumerate(token_ids) if piece(i) is None), None)
    if place is None:
        assert strict.step_batch(token_ids) == texts
        return
    with pytest.raises(TokenIdError) as raised:
        strict.step_batch(token_ids)
    assert (raised.value.token_id, raised.value.index) == (token_ids[place], place)
    assert raised.value.chunk is not None
    assert raised.value.chunk.text == "".join(texts[:place])
    assert strict.num_tokens == place


def unknown_ids_replaced(
    subject: Subject, token_ids: Sequence[int], replacement: int, **options: Any
) -> None:
    """U+FFFD in the place of each, as the library decodes the token of this character."""
    shown = [i if subject.tokenizer.piece(i) is not None else replacement for i in token_ids]
    stream = stream_of(subject, unknown_ids="replace", **options)
    text = "".join(stream.step_batch(token_ids)) + stream.flush()
    assert text == whole(subject, shown, **options)


# --- law 17: spans --------------------------------------------------------------------------------


def token_spans(
    subject: Subject, token_ids: Sequence[int], cuts: Sequence[int], **options: Any
) -> None:
    """Each token's place, as defined from the bytes it contributes; settled ones never change."""
    raw = stream_of(subject, **options)
    contributions = [raw.step_bytes(token_id) for token_id in token_ids]
    per_byte = isinstance(_rule(subject), ByteFallback)
    expected = reference.token_spans(contributions, per_byte=per_byte)
    stream = stream_of(subject, spans=True, **options)
    taken: list[TokenSpan] = []
    for start, end in itertools.pairwise([0, *cuts, len(token_ids)]):
        stream.step_batch(token_ids[start:end])
        taken += stream.take_spans()
        assert len(taken) == stream.num_tokens - stream.num_pending_tokens
        snapshot = json.loads(json.dumps(stream.snapshot()))
        stream = DecodeStream.restore(subject.streamed, snapshot).fork()
    stream.flush()
    taken += stream.take_spans()
    assert taken == [TokenSpan(n, *place) for n, place in enumerate(expected)]


def spans_cover(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """In order, within the text, units agreeing; without a prompt they cover all of it."""
    stream = stream_of(subject, prompt, spans=True, **options)
    text = "".join(stream.step_batch(token_ids)) + stream.flush()
    places = stream.take_spans()
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
    try:
        stream_of(subject, spans=True)
    except ValueError:
        return False
    return True


def _rule(subject: Subject) -> object:
    rules = subject.tokenizer.rules
    return rules and rules.rule


def gives_bytes_at_once(subject: Subject) -> bool:
    """Whether each token's bytes depend on it alone, so that the definition of spans applies."""
    return isinstance(_rule(subject), (ByteLevel, RawBytes, ByteFallback))


# --- the windowed route ---------------------------------------------------------------------------


def ending(stream: DecodeStream) -> str | None:
    """What ``flush`` gives; None if the windowed route cannot end the text."""
    try:
        return stream.flush()
    except RewriteError:
        return None


def taken(subject: Subject, token_ids: Sequence[int]) -> list[int]:
    """The ids that the windowed route does not reject, in a stream of these ids."""
    stream, found = stream_of(subject), []
    for token_id in token_ids:
        with suppress(*REFUSALS):
            stream.step(token_id)
            found.append(token_id)
    return found


def refusals(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> list[int]:
    """Law 16, of tokens that the windowed route rejects: the stream is as it was before them.

    Returns the other tokens.
    """
    stream = stream_of(subject, prompt, **options)
    accepted, texts = [], []
    for token_id in token_ids:
        seen = observe(stream)
        try:
            texts.append(stream.step(token_id))
        except REFUSALS:
            assert observe(stream) == seen
        else:
            accepted.append(token_id)
    plain = stream_of(subject, prompt, **options)
    assert plain.step_batch(accepted) == texts
    assert observe(plain) == observe(stream)
    assert ending(plain) == ending(stream)
    return accepted


def window_continues(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """Laws 4 and 6 on running text: the prompt's text and the stream are the full decode.

    Wherever the whole text grows by appending, which is all that this route claims; a library
    that spoils a whole run of bytes while the last character is unfinished is waited for.
    """
    stream = stream_of(subject, prompt, **options)
    text = after = whole(subject, prompt, **options) if prompt else ""
    for count in range(len(prompt) + 1, len(prompt) + len(token_ids) + 1):
        after = whole(subject, [*prompt, *token_ids][:count], **options)
        is_unfinished = after.endswith(reference.REPLACEMENT)
        if not (is_unfinished or after.startswith(text)):
            return
        text += stream.step(token_ids[count - len(prompt) - 1])
        assert is_unfinished or text == after
    assert text + stream.flush() == after


class Measured:
    """Only ``decode``, and how many ids it was given."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.sizes: list[int] = []

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        self.sizes.append(len(token_ids))
        return self._decoder.decode(token_ids, skip_special_tokens=skip_special_tokens)


def bounded_window(
    subject: Subject, prompt: Sequence[int], token_ids: Sequence[int], **options: Any
) -> None:
    """Law 15: no decode sees more than MAX_WINDOW ids, steps ask for few, no state grows."""
    measured = Measured(subject.streamed)
    stream = DecodeStream(measured, prompt, **options)
    asked = 0
    for count, token_id in enumerate(token_ids, 1):
        measured.sizes.clear()
        with suppress(*REFUSALS):
            stream.step(token_id)
        assert max(measured.sizes) <= MAX_WINDOW
        asked += sum(measured.sizes)
        assert asked <= 2 * MAX_WINDOW**2 * count
        # An id has at most ten digits, and some ids are remembered with text.
        assert len(json.dumps(stream.snapshot())) <= 64 * MAX_WINDOW + 1_000
    measured.sizes.clear()
    ending(stream)
    assert max(measured.sizes, default=0) <= MAX_WINDOW


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
