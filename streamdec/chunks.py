"""What a stream returns: chunks of text, and the spans of tokens in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["Chunk", "FinishReason", "StopMatch", "StopReason", "TokenSpan", "Withheld"]

FinishReason = Literal["stop", "length", "abort", "error"]
"""Why a stream ended, in the words of OpenAI and vLLM."""

StopReason = str | int | tuple[int, ...] | None
"""What ended a stream: a stop string or pattern as it was given, a stop id, a sequence of ids; None
for end-of-sequence, and where no stop did."""


@dataclass(frozen=True, slots=True)
class Chunk:
    r"""A piece of the stream. Immutable, so one object may be handed to many streams.

    Of one stream the last chunk, and no other, has a ``finish_reason``; the texts joined are the
    text.

    >>> from streamdec import Chunk, MockTokenizer, iter_chunks
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
    >>> list(iter_chunks([0, 1, 2], tokenizer, stop="\nUser:")) == [
    ...     Chunk("Hi"),
    ...     Chunk("", finish_reason="stop", stop_reason="\nUser:"),
    ... ]
    True
    """

    text: str = ""
    """The text that may be shown now."""
    finish_reason: FinishReason | None = None
    """Why the stream ended with this chunk, or None."""
    stop_reason: StopReason = None
    """The stop that ended it: a string, a pattern (its source, not what it matched), an id, the ids
    of a sequence; None for end-of-sequence."""
    unread_tokens: int = 0
    """How many ids of the same call came after the end, and were not looked at."""

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to show yet: neither text nor an end."""
        return not self.text and self.finish_reason is None


NOTHING = Chunk()
"""What a token gives that has no text, or whose text is withheld."""

_new = object.__new__
_set_text = Chunk.__dict__["text"].__set__
_set_finish_reason = Chunk.__dict__["finish_reason"].__set__
_set_stop_reason = Chunk.__dict__["stop_reason"].__set__
_set_unread_tokens = Chunk.__dict__["unread_tokens"].__set__


def chunk_of(text: str) -> Chunk:
    """``Chunk(text)`` in half the time, which is that of five tokens."""
    chunk = _new(Chunk)
    _set_text(chunk, text)
    _set_finish_reason(chunk, None)
    _set_stop_reason(chunk, None)
    _set_unread_tokens(chunk, 0)
    return chunk


@dataclass(frozen=True, slots=True)
class StopMatch:
    r"""Which stop ended a stream, and where. Positions count in the generated text.

    That is the text the stream emits, a hidden stop's own included; so a character that the prompt
    began and the first token completed is code point 0.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"caf\xc3\xa9", b"\nUs", b"er:"])
    >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
    >>> chunk = decoder.step_batch([0, 1, 2])
    >>> match = decoder.match
    >>> match.start, match.end, match.byte_start, match.byte_end
    (4, 10, 5, 11)
    >>> match.token_index, match.tokens_before
    (2, 1)
    """

    stop: StopReason
    """The stop string, pattern, id or sequence; None for end-of-sequence."""
    visible: bool
    """Whether its text was given out."""
    start: int
    """First code point of the stop. (Of a hidden one: where the text given out ends.)"""
    end: int
    """One past its last code point."""
    byte_start: int
    """``start`` in bytes of UTF-8."""
    byte_end: int
    """``end`` in bytes of UTF-8."""
    token_index: int | None
    """The generated token, from 0, that decided the last code point; at a release, the last token;
    None if there was none."""
    tokens_before: int
    """How many tokens came wholly before it: what an engine may keep in its KV cache."""


class Withheld(NamedTuple):
    r"""How much of what came a stream has not given out yet.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nU", b"ser\xc3"])
    >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
    >>> chunk = decoder.step_batch([0, 1, 2])
    >>> decoder.withheld
    Withheld(num_bytes=1, characters=5, tokens=2)
    """

    num_bytes: int = 0
    """Bytes that wait for the end of their character (or run)."""
    characters: int = 0
    """Code points that wait to become a stop or not."""
    tokens: int = 0
    """How many tokens the oldest of them waits for: 1 if it is of the last; 0 if there are none."""


class TokenSpan(NamedTuple):
    r"""Where one generated token stands in the generated text.

    A token covers every code point that it gave a byte to, so the spans of tokens that share a
    character overlap. A token that gave nothing (a skipped special) has an empty span.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9!"])
    >>> stream = DecodeStream(tokenizer, spans=True)
    >>> texts = stream.step_batch([0, 1, 2])
    >>> stream.take_spans()[1]
    TokenSpan(token_index=1, start=3, end=4, byte_start=3, byte_end=5)
    """

    token_index: int
    """The token's place among the generated tokens, from 0."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    byte_start: int
    """First byte of ``start`` in the text as UTF-8."""
    byte_end: int
    """One past the last byte."""
