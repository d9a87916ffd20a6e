"""Log probabilities that belong to the text: true bytes, true places, nothing of a stop.

In: the log probabilities of an engine, token by token, and a decoder that is stepped through a
:class:`~streamdec.integrations.logprobs.LogprobTracker`. Out: with each chunk those of the tokens
whose text is out, each with the bytes that it gave and with its place in the text. The wire formats
write them as their APIs do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, Withheld, joined
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import check_token_id
from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder
from streamdec.streams.stepper import Machine

__all__ = [
    "LEAST_LOGPROB",
    "Alternative",
    "LogprobTracker",
    "PlacedLogprob",
    "TokenLogprob",
    "prompt_logprobs",
]

LEAST_LOGPROB = -9999.0
"""What OpenAI gives for less; JSON has no infinity."""


class TokenLogprob(NamedTuple):
    """What an engine says of one token.

    >>> from streamdec.integrations.logprobs import TokenLogprob
    >>> TokenLogprob(262, -0.25, top={262: -0.25, 11: -2.5}).logprob
    -0.25
    """

    token_id: int
    """Its id."""
    logprob: float | None
    """Its natural logarithm; None for the first token of a prompt."""
    top: Mapping[int, float] | None = None
    """The likeliest ids at its place, if they were asked for."""


class Alternative(NamedTuple):
    """A token that might have stood in a place.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.logprobs import TokenLogprob, prompt_logprobs
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"Ho"])
    >>> [placed] = prompt_logprobs(tokenizer, [TokenLogprob(0, -0.5, top={0: -0.5, 1: -1.5})])
    >>> placed.top[1]
    Alternative(token='Ho', data=b'Ho', logprob=-1.5)
    """

    token: str
    """Its text: bytes that are no UTF-8 as ``\\xf0``. Of one without bytes its name."""
    data: bytes | None
    """The bytes that it gives there; None where the tokenizer cannot say."""
    logprob: float
    """Its natural logarithm, LEAST_LOGPROB at least."""


class PlacedLogprob(NamedTuple):
    """A token of the text, its log probability and its place.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.logprobs import TokenLogprob, prompt_logprobs
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!"])
    >>> prompt_logprobs(tokenizer, [TokenLogprob(0, None), TokenLogprob(1, -0.5)])[1]
    PlacedLogprob(token_id=1, token='!', data=b'!', logprob=-0.5, text_offset=2, top=None)
    """

    token_id: int
    """Its id."""
    token: str
    """As for Alternative."""
    data: bytes | None
    """The bytes that it gave. Of all tokens, joined, they are the UTF-8 of the text."""
    logprob: float | None
    """Its natural logarithm, LEAST_LOGPROB at least; None for the first token of a prompt."""
    text_offset: int
    """Where its text begins, in code points of the generated text."""
    top: tuple[Alternative, ...] | None = None
    """The likeliest first; None if they were not asked for."""


class LogprobTracker:
    r"""Stands before a decoder, and knows where the text of each of its tokens is.

    What the decoder gives is unchanged. A stream takes it in the place of its decoder, and after
    each chunk ``take()`` has the log probabilities that belong to it:

    * A token comes with the chunk that has the last of its text: one with part of a character
      with the rest of it, one that was withheld for a stop as soon as it is not a stop.
    * What a stop cut off does not come, and nor does an id that is the stop. A token comes if any
      of its text was output, or if it has none and stands before the stop.
    * The bytes of a token are those that it gave: of the half of a character the half, of the first
      token without the space that is stripped from it. A character that the prompt began has the
      bytes of generated tokens alone. (A run that ``byte_fallback="exact"`` finds broken has those
      of its U+FFFD.) The windowed route has no such bytes.

    Args:
        decoder: a StopSequenceDecoder at its beginning, or what stands before one.
        prompt_token_ids: those that the decoder was given.

    Raises TypeError for what is no such decoder, ValueError for one that is under way.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9", b"\nUser:"])
    >>> tracker = LogprobTracker(StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:")))
    >>> tracker.put(TokenLogprob(token_id, -0.5) for token_id in (0, 1, 2, 3))
    >>> for token_id in (0, 1, 2, 3):
    ...     chunk = tracker.step(token_id)
    ...     print(repr(chunk.text), [(each.data, each.text_offset) for each in tracker.take()])
    'caf' [(b'caf', 0)]
    '' []
    'é' [(b'\xc3', 3), (b'\xa9', 3)]
    '' []
    """

    def __init__(
        self,
        decoder: StopSequenceDecoder | Machine,
        prompt_token_ids: Iterable[SupportsIndex] = (),
    ) -> None:
        machine: Any = getattr(decoder, "decoder", decoder)  # what is behind a tracer
        if not isinstance(machine, StopSequenceDecoder):
            raise TypeError(f"decoder must be a StopSequenceDecoder, not {decoder!r:.80}")
        if machine.num_tokens or machine.finished:
            raise ValueError(f"the decoder is under way: {machine!r:.80}")
        self.decoder = machine
        """The decoder itself."""
        self._stepped: Machine = decoder
        prompt = list(prompt_token_ids)
        self._places = _Places(machine.tokenizer, prompt, machine.options)
        self._waiting: deque[TokenLogprob] = deque()
        self._given = 0

    # --- in and out

    def put(self, logprobs: Iterable[TokenLogprob]) -> None:
        """Takes ``logprobs``, what the engine says of the next tokens, before they are stepped.

        Held until their text is out, and until :meth:`take`. ValueError for a log probability that
        is NaN or infinite; -infinity is LEAST_LOGPROB.
        """
        self._waiting.extend(map(_checked, logprobs))

    def take(self) -> list[PlacedLogprob]:
        """Those of the tokens whose text came out since the last call, in the order of the tokens.

        For chunks that are read late: what belongs to several chunks comes at once.
        """
        taken = self._places.take(self._given)
        if not self.decoder.finished:
            return taken
        rest = self._places.take(None)
        if self.decoder.finish_reason == "stop":
            rest = [each for each in rest if each.text_offset < self._given]
        return taken + rest

    # --- as a stream runs on it

    def step(self, token_id: SupportsIndex) -> Chunk:
        """What the decoder gives for ``token_id``, and raises.

        ValueError if nothing, or another id, was put for the token; all is then as before.
        """
        if self.decoder.finished:
            return self._stepped.step_chunk(token_id)
        place = self.decoder.num_tokens
        number = check_token_id(token_id, place)
        if not self._waiting or self._waiting[0].token_id != number:
            found = f"that of {self._waiting[0].token_id}" if self._waiting else "none"
            raise ValueError(f"token {place} is {number}, and its log probability is {found}")
        chunk = self._stepped.step_chunk(token_id)
        logprob = self._waiting.popleft()
        if chunk.finish_reason is None or not self._is_cut():
            self._places.step(logprob)
        return self._told(chunk)

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """What the decoder gives for ``token_ids``; raises what ``step`` raises.

        An error has the chunk of those before it, and how many they were (``num_taken``).
        """
        chunks: list[Chunk] = [NOTHING]
        try:
            for token_id in token_ids:
                chunks.append(self.step(token_id))
                if chunks[-1].finish_reason is not None:
                    break
        except Exception as error:
            error.chunk = joined(*chunks)  # type: ignore[attr-defined]
            error.num_taken = len(chunks) - 1  # type: ignore[attr-defined]
            raise
        whole, unread = joined(*chunks), len(token_ids) - len(chunks) + 1
        return replace(whole, unread_tokens=unread) if unread else whole

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        """The end: what the decoder gives for ``finish_reason``, and raises."""
        if self.decoder.finished:
            return self._stepped.end(finish_reason)
        return self._told(self._stepped.end(finish_reason))

    def step_chunk(self, token_id: SupportsIndex) -> Chunk:
        """As ``step``."""
        return self.step(token_id)

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """As ``step_batch``."""
        return self.step_batch(token_ids)

    def end(self, finish_reason: FinishReason = "length") -> Chunk:
        """As ``flush``."""
        return self.flush(finish_reason)

    @property
    def tokenizer(self) -> Decoder:
        """The decoder's tokenizer."""
        return self.decoder.tokenizer

    @property
    def pending_text(self) -> str:
        """The text that ``flush`` would give."""
        return self.decoder.pending_text

    def snapshot(self) -> dict[str, Any]:
        """The decoder as JSON: a tracker cannot be taken up again."""
        return self._stepped.snapshot()

    @property
    def finished(self) -> bool:
        """Whether there can be no more text."""
        return self.decoder.finished

    @property
    def withholds(self) -> bool:
        """Whether anything is held or jailed."""
        return self.decoder.withholds

    @property
    def withheld(self) -> Withheld:
        """How much is held and jailed, and for how many tokens."""
        return self.decoder.withheld

    @property
    def jailed(self) -> str:
        """Decided text that is withheld."""
        return self.decoder.jailed

    @property
    def held(self) -> bytes:
        """The bytes that wait for the end of their character."""
        return self.decoder.held

    def _told(self, chunk: Chunk) -> Chunk:
        self._given = self.decoder.num_characters  # the markers of sections included
        if chunk.finish_reason is not None:
            self._places.flush()
        return chunk

    def _is_cut(self) -> bool:
        """Whether the last token ended the stream by its id, and its bytes are no text."""
        match = self.decoder.match
        return match is not None and not match.visible and match.start == match.end

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.decoder!r}>"


def prompt_logprobs(
    tokenizer: Decoder, logprobs: Iterable[TokenLogprob], **options: Any
) -> list[PlacedLogprob]:
    r"""Those of a prompt, placed in its text: for responses that begin with it (``echo``).

    ``logprobs`` are those of all tokens of the prompt, in order. ``options`` are those of decoding,
    as for DecodeStream; the text is what it gives with them. Ids that ``tokenizer`` does not have
    give nothing. Raises ValueError for a log probability that is NaN or infinite.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.integrations.logprobs import TokenLogprob, prompt_logprobs
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
    >>> placed = prompt_logprobs(tokenizer, [TokenLogprob(i, -0.5) for i in range(3)])
    >>> [(each.data, each.text_offset) for each in placed]
    [(b'caf', 0), (b'\xc3', 3), (b'\xa9', 3)]
    """
    places = _Places(tokenizer, [], options)
    for each in logprobs:
        places.step(_checked(each))
    places.flush()
    return places.take(None)


def _checked(logprob: TokenLogprob) -> TokenLogprob:
    values = [logprob.logprob, *(logprob.top or {}).values()]
    if any(value is not None and not value < math.inf for value in values):
        raise ValueError(f"a log probability must not be NaN or infinite: {logprob!r:.200}")
    return logprob


def _shown(value: float) -> float:
    """As JSON has it. (Those of numpy are no numbers to it.)"""
    return max(float(value), LEAST_LOGPROB)


# --- places ---------------------------------------------------------------------------------------


class _Token:
    """A token on its way to its place."""

    __slots__ = ("data", "logprob", "top")

    def __init__(
        self, logprob: TokenLogprob, data: bytes | None, top: tuple[Alternative, ...] | None
    ) -> None:
        self.logprob = logprob
        self.data = data
        """The bytes that it gave so far."""
        self.top = top


class _Places:
    """The tokens of one text, each with its bytes and its place."""

    def __init__(
        self, tokenizer: Decoder, prompt: list[SupportsIndex], options: Mapping[str, Any]
    ) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(tokenizer, prompt, **options)
        self._knows_bytes = self._stream.route == "bytes"
        self._spans: _Spans
        try:
            self._spans = _Recorded(DecodeStream(tokenizer, prompt, spans=True, **options))
        except ValueError:  # the windowed route, or text that is rewritten
            self._spans = _Counted(DecodeStream(tokenizer, prompt, **options))
        # Tokens of which the decoder holds bytes; those of the prompt have no place.
        self._waiting: list[_Token] = []
        if self._knows_bytes:
            held = self._stream.num_waiting
            self._waiting = [_Token(TokenLogprob(0, None), b"", None) for _ in range(held)]
        self._unplaced: deque[_Token] = deque()
        self._placed: deque[tuple[PlacedLogprob, int]] = deque()

    def step(self, logprob: TokenLogprob) -> None:
        """One token more."""
        top = None
        if logprob.top is not None:
            likeliest = sorted(logprob.top.items(), key=lambda item: -item[1])
            top = tuple(self._alternative(each, value) for each, value in likeliest)
        token = _Token(logprob, None, top)
        self._unplaced.append(token)
        if self._knows_bytes:
            self._share_out(token)
        with suppress(StreamdecError):  # an id that the tokenizer does not have
            self._stream.step(logprob.token_id)
        self._spans.step(logprob.token_id)
        self._place()

    def _share_out(self, token: _Token) -> None:
        """Gives the bytes that ``token`` brings out to those that they are of."""
        found = self._stream.contribution(token.logprob.token_id)
        data, own = found.data, found.own
        carried = len(data) - own
        token.data = data[carried:] if self._waiting else data
        self._hand_on(data[:carried])
        if found.contributes:
            self._waiting.append(token)
        del self._waiting[: len(self._waiting) - found.waiting]

    def _hand_on(self, data: bytes) -> None:
        """To the tokens that wait, in equal parts; the first may have less (see SpanRecorder)."""
        for count, token in zip(range(len(self._waiting), 0, -1), self._waiting, strict=True):
            size = len(data) // count
            token.data = (token.data or b"") + data[:size]
            data = data[size:]

    def _alternative(self, token_id: int, value: float) -> Alternative:
        data = None
        if self._knows_bytes:
            found = self._stream.contribution(token_id)
            data = found.data[len(found.data) - found.own :]
        return Alternative(self._name(token_id, data), data, _shown(value))

    def _name(self, token_id: int, data: bytes | None) -> str:
        if data:
            return data.decode("utf-8", "backslashreplace")
        named = getattr(self._tokenizer, "id_to_token", None)
        name = named(token_id) if named is not None else None
        if name is None and data is None:
            name = self._tokenizer.decode([token_id], skip_special_tokens=False)
        return name or ""

    def flush(self) -> None:
        """Nothing follows."""
        if self._knows_bytes:
            self._hand_on(self._stream.flush_bytes())
        self._spans.flush()
        self._place()

    def _place(self) -> None:
        for start, end in self._spans.take():
            token = self._unplaced.popleft()
            token_id, value, _ = token.logprob
            shown = None if value is None else _shown(value)
            name = self._name(token_id, token.data)
            placed = PlacedLogprob(token_id, name, token.data, shown, start, token.top)
            self._placed.append((placed, end))

    def take(self, given: int | None) -> list[PlacedLogprob]:
        """Those whose text is within the first ``given`` code points; all of them if None."""
        placed, taken = self._placed, []
        while placed and (given is None or placed[0][1] <= given):
            taken.append(placed.popleft()[0])
        return taken


class _Spans(Protocol):
    """Where tokens stand: start and end in code points, each once it is settled, in order."""

    def step(self, token_id: int) -> object: ...
    def flush(self) -> object: ...
    def take(self) -> list[tuple[int, int]]: ...


class _Recorded:
    """By the spans that a stream records."""

    def __init__(self, stream: DecodeStream) -> None:
        self._stream = stream
        self.step = stream.step
        self.flush = stream.flush

    def take(self) -> list[tuple[int, int]]:
        return [(each.start, each.end) for each in self._stream.take_spans()]


class _Counted:
    """By the text that each token brings out; tokens that hold something share what follows."""

    def __init__(self, stream: DecodeStream) -> None:
        self._stream = stream
        self._size = 0
        self._open: list[int] = []
        self._settled: list[tuple[int, int]] = []

    def step(self, token_id: int) -> None:
        self._open.append(self._size)
        self._size += len(self._stream.step(token_id))
        if not self._stream.held:
            self._settle()

    def flush(self) -> None:
        self._size += len(self._stream.flush())
        self._settle()

    def _settle(self) -> None:
        self._settled += ((start, self._size) for start in self._open)
        self._open.clear()

    def take(self) -> list[tuple[int, int]]:
        settled, self._settled = self._settled, []
        return settled
