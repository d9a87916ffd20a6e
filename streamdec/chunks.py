"""What a stream returns: chunks of text, and the spans of tokens in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Any, Literal, NamedTuple, get_args

__all__ = ["Chunk", "FinishReason", "SectionChunk", "StopMatch", "StopReason", "TokenSpan"]

FinishReason = Literal["stop", "length", "content_filter", "abort", "error"]
"""Why a stream ended, in the words of OpenAI and vLLM.

``"stop"``: a stop or the engine ended it. ``"length"``: ``max_tokens`` was reached, or the source
ended without a reason. ``"content_filter"``: a filter of the engine removed the rest of the text.
``"abort"``: the request was cancelled. ``"error"``: the engine or the decoder failed."""
_FINISH_REASONS: tuple[str, ...] = get_args(FinishReason)


def check_finish_reason(reason: object) -> None:
    """Raise ValueError if ``reason`` is not a FinishReason."""
    if reason not in _FINISH_REASONS:
        known = ", ".join(map(repr, _FINISH_REASONS))
        raise ValueError(f"finish_reason must be one of {known}, not {reason!r:.60}")


StopReason = str | int | None
"""What ended a stream: the stop string or pattern as given, or the stop token id. None for an
end-of-sequence id, and if no stop ended the stream."""


class _Slots:
    """The slots of a chunk: its fields, and a value that encoders keep on it."""

    __slots__ = ("_json", "finish_reason", "stop_reason", "text", "token_ids", "unread_tokens")

    _json: bytes | None
    """The text as JSON, after an encoder asked for it."""


# A frozen dataclass sets a field by name. Through its slot that takes an eighth of the time.
_set_text, _set_finish, _set_stop, _set_unread, _set_ids, _set_json = (
    vars(_Slots)[name].__set__
    for name in ("text", "finish_reason", "stop_reason", "unread_tokens", "token_ids", "_json")
)


@dataclass(frozen=True, slots=True, repr=False, init=False)
class Chunk(_Slots):
    r"""A piece of a stream. Immutable, so that streams can share one object.

    The last chunk of a stream, and no other, has a ``finish_reason``. The texts of all chunks,
    joined, are the text of the stream.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"\nUs", b"er:"])
    >>> list(iter_chunks([0, 1, 2], tokenizer, stop="\nUser:"))
    [Chunk(text='Hi'), Chunk(text='', finish_reason='stop', stop_reason='\nUser:')]
    """

    text: str = ""
    """The text that may be shown now."""
    finish_reason: FinishReason | None = None
    """Why the stream ended with this chunk, or None."""
    stop_reason: StopReason = None
    """The stop that ended the stream: a string, a pattern (its source, not the matched text) or an
    id; None for end-of-sequence."""
    unread_tokens: int = 0
    """How many ids of the same call came after the end; they were not read."""
    token_ids: tuple[int, ...] = ()
    """The ids whose text is complete with this chunk, if ``return_token_ids=True`` asked for them.

    A token without text belongs to the next chunk that has text, or to the last chunk. So the ids
    of all chunks, joined, are the ids that were read."""

    def __init__(
        self,
        text: str = "",
        finish_reason: FinishReason | None = None,
        stop_reason: StopReason = None,
        unread_tokens: int = 0,
        token_ids: tuple[int, ...] = (),
    ) -> None:
        _set_text(self, text)
        _set_finish(self, finish_reason)
        _set_stop(self, stop_reason)
        _set_unread(self, unread_tokens)
        _set_ids(self, token_ids)
        _set_json(self, None)

    @property
    def section(self) -> str | None:
        """The name of the section of the text; None outside, and without sections."""
        return None

    def split(self) -> tuple[Chunk, ...]:
        """Return one chunk for each section of the text; usually the chunk itself.

        Streams return chunks that are split already; a StopSequenceDecoder may not.
        """
        return (self,)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    def __repr__(self) -> str:
        shown = [f"text={self.text!r}"]
        for each in fields(self)[1:]:
            value = getattr(self, each.name)
            if value != each.default:
                shown.append(f"{each.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


NOTHING = Chunk()
"""The chunk of a token that has no text, or whose text is withheld."""


def chunk_of(text: str, token_ids: tuple[int, ...] = ()) -> Chunk:
    """Return ``Chunk(text, token_ids=token_ids)`` in a quarter of the time."""
    chunk: Any = _Slots()  # a frozen class's constructor calls a function for each field
    chunk.text = text
    chunk.finish_reason = chunk.stop_reason = None
    chunk.unread_tokens = 0
    chunk.token_ids = token_ids
    chunk._json = None
    chunk.__class__ = Chunk
    return chunk  # type: ignore[no-any-return]


def with_token_ids(chunk: Chunk, token_ids: tuple[int, ...]) -> Chunk:
    """Return a copy of ``chunk`` with ``token_ids``."""
    if type(chunk) is Chunk and chunk.finish_reason is None:
        return chunk_of(chunk.text, token_ids)
    return replace(chunk, token_ids=token_ids)


def json_of(chunk: Chunk, encode: Callable[[str], bytes]) -> bytes:
    """Return the text of ``chunk`` as JSON that ``encode`` made, and keep it."""
    found = chunk._json
    if found is None:
        found = encode(chunk.text)
        _set_json(chunk, found)
    return found


def chunk_before(error: Exception) -> Chunk:
    """Return the chunk of the ids that a call had read before ``error``."""
    return getattr(error, "chunk", None) or NOTHING


@dataclass(frozen=True, slots=True, repr=False)
class SectionChunk(Chunk):
    r"""A chunk of a stream with sections: its text is in a section, or in several.

    >>> from streamdec import MockTokenizer, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"<think>Hm", b".</think>Hi", b"!"])
    >>> sections = {"reasoning": ("<think>", "</think>")}
    >>> decoder = StopSequenceDecoder(tokenizer, sections=sections)
    >>> decoder.step(0)
    SectionChunk(text='Hm', section='reasoning')
    >>> decoder.step(1).split()
    (SectionChunk(text='.', section='reasoning'), Chunk(text='Hi'))
    >>> decoder.step(2)
    Chunk(text='!')
    """

    section: str | None = None
    """The name of the section; None if the text is in several sections (see ``parts``)."""
    parts: tuple[tuple[str | None, str], ...] = ()
    """Pairs of (section name or None, text), in order. Empty if the text is in one section."""

    def __post_init__(self) -> None:
        _set_json(self, None)

    def split(self) -> tuple[Chunk, ...]:
        """See Chunk. The last part has the finish and the token ids."""
        if not self.parts:
            return (self,)
        *earlier, (section, text) = self.parts
        return (*(in_section(*each) for each in earlier), in_section(section, text, self))


def in_section(section: str | None, text: str, last: Chunk = NOTHING) -> Chunk:
    """Return the chunk of ``text`` in ``section``, with the other fields of ``last``."""
    others = last.finish_reason, last.stop_reason, last.unread_tokens, last.token_ids
    return Chunk(text, *others) if section is None else SectionChunk(text, *others, section)


def of_parts(parts: Sequence[tuple[str | None, str]], last: Chunk) -> Chunk:
    """Return the chunk of these pairs of section and text, and the rest of ``last``.

    If there is no text, the section is that of the last part.
    """
    merged: list[tuple[str | None, str]] = []
    for section, text in parts:
        if merged and merged[-1][0] == section:
            merged[-1] = section, merged[-1][1] + text
        elif text:
            merged.append((section, text))
    if len(merged) > 1:
        others = last.finish_reason, last.stop_reason, last.unread_tokens, last.token_ids
        text = "".join(text for _, text in merged)
        return SectionChunk(text, *others, None, tuple(merged))
    section, text = (merged or parts[-1:] or [(None, "")])[0]
    return in_section(section, text, last)


def joined(*chunks: Chunk) -> Chunk:
    """Return consecutive chunks of one stream as one chunk."""
    last = chunks[-1]
    if len(chunks) == 1:
        return last
    token_ids = tuple(chain.from_iterable(chunk.token_ids for chunk in chunks))
    if any(isinstance(chunk, SectionChunk) for chunk in chunks):
        parts = [(part.section, part.text) for chunk in chunks for part in chunk.split()]
        return of_parts(parts, replace(last, token_ids=token_ids))
    text = "".join(chunk.text for chunk in chunks)
    return Chunk(text, last.finish_reason, last.stop_reason, last.unread_tokens, token_ids)


def same_items(one: Sequence[object], other: Sequence[object]) -> int:
    """Return how many items, such as code points or ids, are equal at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


class StopMatch(NamedTuple):
    r"""Which stop ended a stream, and where it is in the generated text.

    Positions count code points (or UTF-8 bytes) from 0, in the emitted text plus the text of a
    hidden stop. The prompt does not count. If the prompt ended inside a character and the first
    token completes it, that character is code point 0.

    >>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
    >>> tokenizer = MockTokenizer.from_tokens([b"caf\xc3\xa9", b"\nUs", b"er:"])
    >>> decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="\nUser:"))
    >>> chunk = decoder.feed([0, 1, 2])
    >>> match = decoder.match
    >>> match.start, match.end, match.byte_start, match.byte_end
    (4, 10, 5, 11)
    >>> match.token_index, match.tokens_before
    (2, 1)
    """

    stop: StopReason
    """The stop string, pattern or id; None for end-of-sequence."""
    visible: bool
    """Whether the text of the stop was output."""
    start: int
    """Index of the stop's first code point. For a hidden stop this is the length of the output."""
    end: int
    """Index after the stop's last code point."""
    byte_start: int
    """``start`` as an offset in the UTF-8 bytes of the text."""
    byte_end: int
    """``end`` as an offset in the UTF-8 bytes of the text."""
    token_index: int | None
    """Index, from 0, of the generated token that completed the stop. If ``flush`` or ``release``
    completed it: the index of the last token. None without tokens, as in a TextStopDecoder."""
    tokens_before: int
    """How many tokens are entirely before the stop. An engine may keep them in its KV cache."""


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
    """Index of the token's first code point, from 0."""
    end: int
    """Index after the token's last code point."""
    byte_start: int
    """``start`` as an offset in the UTF-8 bytes of the text."""
    byte_end: int
    """``end`` as an offset in the UTF-8 bytes of the text."""
