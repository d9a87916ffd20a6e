"""Log probabilities that fit the text: exact bytes and offsets, without stops.

In: the log probabilities of an engine, token by token, and a decoder. Out: for each chunk those of
the tokens whose text was output. The wire formats write them as their APIs do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, joined
from streamdec.core.byte_table import ByteTable
from streamdec.core.decode_options import Options
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.rules.base import TokenRule
from streamdec.core.shared_tables import table_for, tokenizer_for
from streamdec.core.step import note_taken
from streamdec.core.stepping import decoder_behind
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.token_ids import check_token_id
from streamdec.protocols import Decoder
from streamdec.streams.reading import Machine

__all__ = ["LEAST_LOGPROB", "Alternative", "LogprobTracker", "PlacedLogprob", "TokenLogprob"]

LEAST_LOGPROB = -9999.0
"""The least log probability: OpenAI's APIs return it for lower ones, as JSON has no infinity."""


class TokenLogprob(NamedTuple):
    """The log probability of one token, as an engine reports it.

    >>> from streamdec.integrations.logprobs import TokenLogprob
    >>> TokenLogprob(262, -0.25, top={262: -0.25, 11: -2.5}).logprob
    -0.25
    """

    token_id: int
    """The token's id."""
    logprob: float
    """The natural logarithm of its probability."""
    top: Mapping[int, float] | None = None
    """The likeliest ids at its place, if they were requested."""


class Alternative(NamedTuple):
    """A token that the engine could have generated instead.

    >>> from streamdec.integrations.logprobs import Alternative
    >>> Alternative("Ho", b"Ho", -1.5).logprob
    -1.5
    """

    token: str
    """Its text, with bytes that are not UTF-8 as ``\\xf0``; the name of a token without bytes."""
    data: bytes
    """The bytes that it would give."""
    logprob: float
    """The natural logarithm of its probability, at least LEAST_LOGPROB."""


class PlacedLogprob(NamedTuple):
    """A token of the text, with its log probability and its offset.

    >>> from streamdec.integrations.logprobs import PlacedLogprob
    >>> PlacedLogprob(1, "!", b"!", -0.5, text_offset=2).token
    '!'
    """

    token_id: int
    """The token's id."""
    token: str
    """As for Alternative."""
    data: bytes
    """The bytes that it gave. Those of all tokens, joined and decoded, are the text."""
    logprob: float
    """The natural logarithm of its probability, at least LEAST_LOGPROB."""
    text_offset: int
    """Where its text begins, in code points of the generated text."""
    top: tuple[Alternative, ...] | None = None
    """The likeliest tokens, the likeliest first; None if they were not requested."""


class LogprobTracker:
    r"""Steps a decoder, and returns the log probabilities of the tokens it output.

    The chunks are those of the decoder. Pass the tracker to a stream as its decoder. After each
    chunk ``take()`` returns the log probabilities that belong to it:

    * A token belongs to the chunk that has the last part of its text, so a token that was withheld
      for a stop belongs to the chunk that outputs its text.
    * Tokens that a stop cut off are left out, and so is an id that is the stop. A token is returned
      if a part of its text was output, or if it has no text and precedes the stop.
    * The bytes of a token are those that it gave: a part of a character, or the first word without
      the space that the tokenizer removes. A character that the prompt began has only the bytes of
      generated tokens. (A broken run under ``byte_fallback="exact"`` has the bytes of its U+FFFD.)

    Args:
        decoder: a StopSequenceDecoder that was not stepped yet, or a tracer of one.
        prompt_token_ids: the prompt of the decoder.

    Raises TypeError for another decoder; ValueError for a decoder that was stepped, for another
    number of prompt tokens, on the windowed route, and for text that is cleaned up.

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
        self, decoder: StopSequenceDecoder | Machine, prompt_token_ids: Iterable[SupportsIndex] = ()
    ) -> None:
        machine: Any = decoder_behind(decoder)
        if not isinstance(machine, StopSequenceDecoder):
            raise TypeError(f"decoder must be a StopSequenceDecoder, not {decoder!r:.80}")
        prompt = [*prompt_token_ids]
        if machine.num_tokens or machine.finished or machine.num_prompt_tokens != len(prompt):
            raise ValueError(
                "make a LogprobTracker before the first step, with the prompt_token_ids of the "
                f"decoder, not for {machine!r:.80}"
            )
        self.decoder = machine
        """The decoder itself."""
        self._stepped: Any = decoder
        self._places = _Places(machine.tokenizer, prompt, machine.options)
        self._waiting: deque[TokenLogprob] = deque()
        self._given = 0

    # --- in and out

    def put(self, logprobs: Iterable[TokenLogprob]) -> None:
        """Take the ``logprobs`` of the next tokens, before they are stepped.

        They are kept until their text was output and :meth:`take` is called. -infinity becomes
        LEAST_LOGPROB. Raises ValueError for NaN and +infinity, and TypeError for an object that is
        not a list of TokenLogprob. Then it has taken none of them.
        """
        if isinstance(logprobs, (TokenLogprob, Mapping)) or not isinstance(logprobs, Iterable):
            raise TypeError(f"put() takes a list of TokenLogprob, not {logprobs!r:.80}")
        self._waiting += [_checked(each) for each in logprobs]

    def take(self) -> list[PlacedLogprob]:
        """Return the log probabilities of the tokens since the last call."""
        taken = self._places.take(self._given)
        if not self.decoder.finished:
            return taken
        rest = self._places.take(None)
        if self.decoder.finish_reason == "stop":
            rest = [each for each in rest if each.text_offset < self._given]
        return taken + rest

    # --- as a stream runs on it

    def step(self, token_id: SupportsIndex) -> Chunk:
        """Return the decoder's chunk of ``token_id``. Raises the errors of the decoder.

        Raises ValueError if no log probability was put for the token, or one of another id. Then
        nothing has changed.
        """
        if not self.decoder.finished:
            place = self.decoder.num_tokens
            number = check_token_id(token_id, place)
            if not self._waiting or self._waiting[0].token_id != number:
                found = f"one of the id {self._waiting[0].token_id}" if self._waiting else "none"
                raise ValueError(
                    f"token {place}: expected a log probability of the id {number}, got {found}; "
                    "call put() with the log probability of each token before its step"
                )
        chunk: Chunk = self._stepped.step(token_id)
        logprob, match = self._waiting.popleft(), self.decoder.match
        # A hidden stop id, or an end-of-sequence id, is not a token of the text.
        if match is None or match.visible or match.start < match.end:
            self._places.step(logprob)
        return self._noted(chunk)

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return the decoder's chunk of ``token_ids``. Raises the errors of ``step``."""
        chunks: list[Chunk] = []
        try:
            for token_id in token_ids:
                chunks.append(self.step(token_id))
                if self.decoder.finished:
                    break
        except Exception as error:
            note_taken(error, chunks)
            raise
        whole, left = joined(NOTHING, *chunks), len(token_ids) - len(chunks)
        return replace(whole, unread_tokens=left) if left else whole

    def flush(self, finish_reason: FinishReason = "length") -> Chunk:
        """End the decoder, and return its last chunk. See ``StopSequenceDecoder.flush``."""
        if self.decoder.finished:
            return self.decoder.flush(finish_reason)
        return self._noted(self._stepped.flush(finish_reason))

    tokenizer: Decoder
    """The decoder's tokenizer."""
    pending_text: str
    """The text that ``flush`` would return."""
    finished: bool
    """Whether the decoder has ended."""
    num_pending_tokens: int
    """How many of the last tokens have text that is held or jailed."""
    jailed: str
    """Decided text that is withheld."""
    held: bytes
    """The bytes that wait for the end of their character."""

    def __getattr__(self, name: str) -> Any:
        if name not in LogprobTracker.__annotations__:
            raise AttributeError(name)
        return getattr(self.decoder, name)

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the decoder as JSON types, without log probabilities."""
        return self.decoder.snapshot()

    def _noted(self, chunk: Chunk) -> Chunk:
        self._given = self.decoder.num_characters  # the markers of sections included
        if chunk.finish_reason is not None:
            self._places.flush()
        return chunk


def _checked(logprob: TokenLogprob) -> TokenLogprob:
    try:
        values = [logprob.logprob, *(logprob.top or {}).values()]
        is_wrong = any(not value < math.inf for value in values)
    except (AttributeError, TypeError):
        raise TypeError(
            "expected TokenLogprob(token_id, logprob, top) with a number, and a dict of numbers by "
            f"id or None; got {logprob!r:.200}"
        ) from None
    if is_wrong:
        raise ValueError(f"a log probability must not be NaN or +infinity: {logprob!r:.200}")
    return logprob


def _shown(value: float) -> float:
    """Return ``value`` as a float, which JSON accepts, unlike the numbers of NumPy."""
    return max(float(value), LEAST_LOGPROB)


# --- places ---------------------------------------------------------------------------------------


class _Token:
    """A token whose span is not settled yet."""

    def __init__(self, logprob: TokenLogprob) -> None:
        self.logprob = logprob
        self.data = b""
        """The bytes that it gave so far."""
        self.top: tuple[Alternative, ...] | None = None


class _Places:
    """The tokens of one text, each with its bytes and its offset."""

    def __init__(
        self, tokenizer: Decoder, prompt: list[SupportsIndex], options: Mapping[str, Any]
    ) -> None:
        self._tokenizer: Any = tokenizer_for(tokenizer)
        self._spans = DecodeStream(self._tokenizer, prompt, spans=True, **options)
        table: Any = table_for(self._tokenizer, Options(**options))
        self._bytes = _Bytes(table, prompt)
        self._unplaced: deque[_Token] = deque()
        self._placed: deque[tuple[PlacedLogprob, int]] = deque()

    def step(self, logprob: TokenLogprob) -> None:
        """Take the next token."""
        token = _Token(logprob)
        self._unplaced.append(token)
        if logprob.top is not None:
            likeliest = sorted(logprob.top.items(), key=lambda item: -item[1])
            token.top = tuple(self._alternative(each, value) for each, value in likeliest)
        self._bytes.step(token)
        self._spans.step(logprob.token_id)
        self._place()

    def _alternative(self, token_id: int, value: float) -> Alternative:
        data = self._bytes.alternative(token_id)
        return Alternative(self._name(token_id, data), data, _shown(value))

    def _name(self, token_id: int, data: bytes) -> str:
        return (
            data.decode("utf-8", "backslashreplace") or self._tokenizer.id_to_token(token_id) or ""
        )

    def flush(self) -> None:
        """End the text."""
        self._bytes.flush()
        self._spans.flush()
        self._place()

    def _place(self) -> None:
        for span in self._spans.take_spans():
            token = self._unplaced.popleft()
            token_id, value, _ = token.logprob
            name, value = self._name(token_id, token.data), _shown(value)
            placed = PlacedLogprob(token_id, name, token.data, value, span.start, token.top)
            self._placed.append((placed, span.end))

    def take(self, given: int | None) -> list[PlacedLogprob]:
        """Return the tokens whose text ends within ``given`` code points; all if None."""
        placed, taken = self._placed, []
        while placed and (given is None or placed[0][1] <= given):
            taken.append(placed.popleft()[0])
        return taken


class _Bytes:
    """Add to each token the bytes that the rule of the tokenizer's table gives."""

    def __init__(self, table: ByteTable, prompt: Sequence[SupportsIndex]) -> None:
        self._rule: TokenRule = table.rule
        self._state = table.prime(prompt)[0]
        # Tokens with bytes that the rule has not output; those of the prompt have no place.
        waiting = range(self._rule.waiting(self._state))
        self._waiting = [_Token(TokenLogprob(0, 0.0)) for _ in waiting]

    def step(self, token: _Token) -> None:
        """Add the bytes that ``token`` completes to the tokens that gave them."""
        element = self._rule.elements[token.logprob.token_id]
        if element is None:
            return
        late, token.data, self._state = self._rule.advance(self._state, element)
        self._share(late)
        self._waiting.append(token)
        del self._waiting[: len(self._waiting) - self._rule.waiting(self._state)]

    def alternative(self, token_id: int) -> bytes:
        """Return the bytes of its own that ``token_id`` would give now."""
        element = self._rule.elements[token_id]
        return b"" if element is None else self._rule.advance(self._state, element)[1]

    def flush(self) -> None:
        """Add the bytes that the end of the text gives."""
        self._share(self._rule.release(self._state)[0])

    def _share(self, data: bytes) -> None:
        """Add ``data`` to the waiting tokens in equal parts; the first may get less."""
        for count, token in zip(range(len(self._waiting), 0, -1), self._waiting, strict=True):
            size = len(data) // count
            token.data += data[:size]
            data = data[size:]
