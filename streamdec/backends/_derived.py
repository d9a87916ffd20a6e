"""What follows from ``decode``, ``piece`` and a list of ids: the rest of a tokenizer.

In: a backend's ``_ids`` (text to ids), ``decode`` and ``token_bytes``. Out: encodings with offsets,
batches, and both without keeping an event loop waiting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise

from streamdec.backends._threads import cores, in_thread, in_threads
from streamdec.errors import EncodeError
from streamdec.protocols import (
    Encoding,
    IncrementalDecoder,
    Special,
    SpecialTokens,
    new_decode_stream,
)

__all__ = ["DerivedTokenizer", "Span", "character_spans", "check_text"]

Span = tuple[int, int]


class DerivedTokenizer(ABC):
    """A backend's other half."""

    inline_chars = 4096
    """Texts up to this length are encoded on the event loop: a thread would cost more."""

    @abstractmethod
    def _ids(self, text: str, special: Special) -> Sequence[int]:
        """The ids of ``text``, which has no lone surrogate; EncodeError for what is forbidden."""

    @abstractmethod
    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``token_ids``."""

    @abstractmethod
    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes that ``token_id`` gives to the middle of a text; None if there is no token."""

    @abstractmethod
    def id_to_token(self, token_id: int) -> str | None:
        """The token's own name in the vocabulary; None if there is none."""

    @property
    @abstractmethod
    def special_tokens(self) -> SpecialTokens:
        """The special tokens and their roles."""

    _added: tuple[Sequence[int], Sequence[int]] = ((), ())
    """The ids that ``add_special_tokens`` puts before and after a text."""

    # --- encoding ---------------------------------------------------------------------------------

    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode ``text``. ``special`` says what becomes of special tokens that are spelled in it.

        Raises :class:`EncodeError` for a lone surrogate, which is no text, and for a special token
        that is forbidden; ValueError for another ``special``; TypeError for what is no str;
        :class:`TokenizerLibraryError` if the library fails.
        """
        check_text(special, text)
        ids = self._all_ids(text, special, add_special_tokens=add_special_tokens)
        return Encoding(ids, text, self, add_special_tokens=add_special_tokens, special=special)

    def _all_ids(
        self, text: str, special: Special, *, add_special_tokens: bool
    ) -> Sequence[int] | bytes:
        """The ids of ``text`` and those around it; a backend whose library adds them writes it."""
        ids = self._ids(text, special)
        return [*self._added[0], *ids, *self._added[1]] if add_special_tokens else ids

    def encode_batch(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> list[Encoding]:
        """Encode each of ``texts`` as :meth:`encode` does."""
        options = partial(self.encode, add_special_tokens=add_special_tokens, special=special)
        return [options(text) for text in texts]

    async def aencode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """As :meth:`encode`; a long text in a thread, so that the event loop goes on."""
        call = partial(self.encode, text, add_special_tokens=add_special_tokens, special=special)
        return call() if len(text) <= self.inline_chars else await in_thread(call)

    async def aencode_batch(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> list[Encoding]:
        """As :meth:`encode_batch`; if they are long together, divided among threads."""
        call = partial(self.encode_batch, add_special_tokens=add_special_tokens, special=special)
        if sum(map(len, texts)) <= self.inline_chars:
            return call(texts)
        # Four parts for each thread: those with long texts do not keep the others waiting.
        size = -(-len(texts) // (4 * cores()))
        parts = [texts[start : start + size] for start in range(0, len(texts), size)]
        results = await in_threads([partial(call, part) for part in parts])
        return [encoding for result in results for encoding in result]

    # --- where each token is ----------------------------------------------------------------------

    def byte_offsets_of(self, encoding: Encoding) -> list[Span]:
        """Start and end of each token of ``encoding`` in the UTF-8 of its text.

        Raises :class:`EncodeError` where the tokens do not spell the text, as it was normalized.
        """
        if encoding.text is None:
            raise EncodeError("an encoding without its text has no offsets")
        before, after = map(len, self._added) if encoding.add_special_tokens else (0, 0)
        ids = encoding.ids[before : len(encoding) - after]
        data = [self.token_bytes(token_id) or b"" for token_id in ids]
        ends = list(accumulate(map(len, data)))
        size = ends[-1] if ends else 0
        # A space that was put before the text is nobody's.
        joined, text = b"".join(data), encoding.text.encode()
        shift = 1 if joined == b" " + text else 0
        if joined[shift:] != text:
            raise EncodeError("the tokens do not spell the text: it was normalized")
        places = [max(place - shift, 0) for place in (0, *ends)]
        inner = list(pairwise(places))
        return [(0, 0)] * before + inner + [(size - shift, size - shift)] * after

    def offsets_of(self, encoding: Encoding) -> list[Span]:
        """The same in characters; a token with a part of a character spans the whole of it."""
        return character_spans(encoding.text or "", self.byte_offsets_of(encoding))

    # --- decoding ---------------------------------------------------------------------------------

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """The text of each list of ids, as :meth:`decode` gives it."""
        return [self.decode(ids, skip_special_tokens=skip_special_tokens) for ids in batch]

    def decode_stream(
        self, prompt_token_ids: Iterable[int] = (), *, skip_special_tokens: bool = True
    ) -> IncrementalDecoder:
        """A stream that turns ids into text as they come, after a prompt."""
        return new_decode_stream(self, prompt_token_ids, skip_special_tokens=skip_special_tokens)


def character_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """Spans of bytes as spans of characters: every character that a byte of it belongs to."""
    if text.isascii():
        return list(spans)
    # For each byte the index of its character; for the end the number of them.
    of_byte = [i for i, char in enumerate(text) for _ in char.encode()] + [len(text)]
    return [(of_byte[a], of_byte[b - 1] + 1 if b > a else of_byte[a]) for a, b in spans]


def check_text(special: str, text: str) -> None:
    """Raise for what no backend encodes."""
    if special not in ("parse", "text", "forbid"):
        raise ValueError(f"special must be 'parse', 'text' or 'forbid', not {special!r:.40}")
    if not isinstance(text, str):
        raise TypeError(f"a text must be a str, not {type(text).__name__}")
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        where = f"U+{ord(text[error.start]):04X} at index {error.start}"
        raise EncodeError(f"a lone surrogate cannot be encoded: {where}") from error
