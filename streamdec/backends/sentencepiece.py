"""SentencePiece: a ``tokenizer.model``, encoded by the library, decoded by rules.

In: a model file or its content. Out: a :class:`~streamdec.protocols.Tokenizer`. The library
supplies the pieces, their types and the rule for the beginning of a text. In a run of bytes that is
not UTF-8, ``decode`` outputs U+FFFD for each byte, as ``tokenizers`` does for such models; the
library and eager streams only for each byte that is not part of a character.

Differences from the library:

- A control piece has its name as text if special tokens are not skipped. In the library it never
  has text.
- A character may continue after a skipped control piece.
- If the model removes spaces at the beginning of a text, bytes that spell U+2581 are a space.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from typing import Any

from streamdec.backends._decoder_chain import whole_decoder
from streamdec.encoding import Encoding, Special
from streamdec.errors import EncodeError, TokenizerLibraryError, TokenizerLoadError
from streamdec.folders.sentencepiece_proto import MAX_MODEL
from streamdec.locks import cached_property
from streamdec.protocols import ByteFallback, LiteralReplace, TextRules
from streamdec.tokenizers._base import BaseTokenizer, Span, byte_spans, character_spans
from streamdec.tokenizers._common import checked_ids, fingerprint_of, guarded
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.folder_files import content_of

__all__ = ["SentencePieceTokenizer"]

_SPACE = "\u2581"
"""The character that stands for a space in pieces."""
_NAMED_BYTE = re.compile("<0x[0-9A-Fa-f+][0-9A-Fa-f]>")
"""What the library tokenizers reads as a byte; it takes ``+A`` for a number."""
_EVERY = 2**31
_ROLES = ("bos", "eos", "unk", "pad")
_TRIED = 64
"""The number of pieces that are decoded by the library, too, when a model is loaded."""


class SentencePieceTokenizer(BaseTokenizer):
    """A tokenizer of the library sentencepiece.

    ``source`` is the path of a model, or its content.

    ``add_special_tokens`` adds the model's bos, if it has one, before the text. The library does
    not find control pieces in a text. So ``special="parse"`` splits the text at their names and
    encodes the parts separately; ``special="text"`` uses the library alone.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason, and
    :class:`~streamdec.errors.MissingExtraError` without sentencepiece. Models of more than 16 MiB
    are rejected; the largest known model has 5 MiB.

    >>> from streamdec.tokenizers import SentencePieceTokenizer
    >>> tokenizer = SentencePieceTokenizer("path/to/model.model")
    >>> encoding = tokenizer.encode("hello world", add_special_tokens=True)
    >>> encoding.tokens[:2], tokenizer.decode(encoding.ids)
    (('<s>', '▁hello'), 'hello world')
    """

    tokenizer_type = "sentencepiece"

    def __init__(self, source: str | os.PathLike[str] | bytes) -> None:
        self._take(*content_of(source, "SentencePiece model"))

    def _take(self, content: bytes, name: str) -> None:
        self.name = name
        self._content = content
        self.sha256: str = hashlib.sha256(content).hexdigest()
        """SHA-256 of the model, in hexadecimal."""
        if len(content) > MAX_MODEL:
            what = f"more than {MAX_MODEL} bytes, the limit for a SentencePiece model"
            raise TokenizerLoadError(f"{name!r}: {what}")
        try:
            processor = library("sentencepiece", "sentencepiece").SentencePieceProcessor()
            guarded(processor.LoadFromSerializedProto, content)
        except TokenizerLibraryError as error:
            what = f"not a SentencePiece model: {error.__cause__}"
            raise TokenizerLoadError(f"{name!r}: {what:.300}") from error
        self._processor: Any = processor
        self._size: int = processor.GetPieceSize()
        if not self._size:
            raise TokenizerLoadError(f"{name!r}: not a SentencePiece model: it has no pieces")
        try:
            # Invalid UTF-8 is found here, not in the middle of a stream.
            names = guarded(processor.IdToPiece, list(range(self._size)))
            self._names: dict[int, str] = dict(enumerate(names))
            self._unknown = {i: self._text(i) for i in [processor.unk_id()] if i >= 0}
        except TokenizerLibraryError as error:
            what = f"a SentencePiece model with bad pieces: {error.__cause__}"
            raise TokenizerLoadError(f"{name!r}: {what:.300}") from error
        self._check_decoding()

    def _check_decoding(self) -> None:
        """Raise TokenizerLoadError if this class decodes plain pieces as other text.

        Such a model has a flag or a piece that the rules here do not know.
        """
        is_byte = frozenset(self._byte_ids())
        for i, text in {**self._names, **self._unknown}.items():
            is_surface = i in self._unknown and _SPACE in text
            if is_surface or (_NAMED_BYTE.fullmatch(text) and i not in is_byte):
                raise self._refused(f"the rules here misread the text {text!r:.60}")
        shown = [i for i in range(self._size) if i not in self._control and i not in is_byte]
        sample = shown[:: max(len(shown) // _TRIED, 1)]
        for ids in (sample, *([i] for i in sample)):
            given, theirs = self._decode(ids, True), self._text(*ids)
            if given != theirs:
                why = f"the library decodes {theirs!r:.60}, and its rules here give {given!r:.60}"
                raise self._refused(why)

    def _refused(self, why: str) -> TokenizerLoadError:
        return TokenizerLoadError(f"{self.name!r}: a SentencePiece model of this kind: {why}")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __getstate__(self) -> dict[str, Any]:
        """The model, and how it was loaded."""
        kept = ("_content", "name", "report", "_chat")
        return {key: value for key, value in self.__dict__.items() if key in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._take(state["_content"], state["name"])
        self.__dict__.update(state)

    # --- decoding ---------------------------------------------------------------------------------

    def _decode(self, token_ids: Iterable[int], skip_special_tokens: bool) -> str:
        """Join the bytes of the pieces, which is faster than the library.

        The rules are needed for runs of bytes that are not UTF-8.
        """
        ids = checked_ids(token_ids).tolist()
        table = self._bytes[skip_special_tokens]
        try:
            data = b"".join(map(table.__getitem__, ids))
        except IndexError:  # an id without a piece
            ids = [i for i in ids if i < self._size]
            data = b"".join(map(table.__getitem__, ids))
        try:
            text = data.decode()
        except UnicodeDecodeError:
            left_out = self._control if skip_special_tokens else {}
            return self._whole([self._pieces[i] for i in ids if i not in left_out])
        if not self._stripped:
            return text
        text = text.removeprefix(_SPACE) if self._stripped == 1 else text.lstrip(_SPACE)
        return text.replace(_SPACE, " ")

    @cached_property
    def _bytes(self) -> tuple[list[bytes], list[bytes]]:
        """The bytes of each piece, without and with skipping."""
        found = [piece.encode() for piece in self._pieces]
        for i in self._byte_ids():
            found[i] = self.token_bytes(i) or b""
        return found, [b"" if i in self._control else data for i, data in enumerate(found)]

    @cached_property
    def _whole(self) -> Callable[[Sequence[str | bytes]], str]:
        return whole_decoder(self.rules)

    @cached_property
    def _stripped(self) -> int:
        """The number of spaces that the library removes from the beginning of a text."""
        others = {*self._control, *self._unknown, *self._byte_ids()}
        names = {i: name for i, name in self._names.items() if i not in others}
        space = self._processor.PieceToId(_SPACE)
        spaced = ([i] for i, name in names.items() if name[:1] == _SPACE and name[1:2].isalnum())
        letters = ([space, i] for i, name in names.items() if name[:1].isalnum())
        first = next(spaced, None) or (next(letters, None) if space in names else None)
        if first is None or self._text(*first).startswith(" "):
            return 0
        is_every = space in names and not self._text(space, space, *first).startswith(" ")
        return _EVERY if is_every else 1

    def _text(self, *token_ids: int) -> str:
        """Return the library's own text."""
        text: str = guarded(self._processor.DecodeIds, list(token_ids))
        return text

    @cached_property
    def rules(self) -> TextRules:
        if not self._stripped:
            return TextRules(ByteFallback())
        # Removed before it becomes a space: those of bytes and of unknown pieces stay.
        replaces = (LiteralReplace(_SPACE, " "),)
        return TextRules(ByteFallback(), (_SPACE, self._stripped), replaces)

    def piece(self, token_id: int) -> str | None:
        return self._pieces[token_id] if 0 <= token_id < self._size else None

    @cached_property
    def _pieces(self) -> list[str]:
        """The piece of each id, for the rule."""
        # The library removes only the first U+2581 of a piece.
        kept = 1 if self._stripped else 0
        found = [name[:kept] + name[kept:].replace(_SPACE, " ") for name in self._names.values()]
        for i in (*self._control, *self._byte_ids()):
            found[i] = self._names[i]
        for i, text in self._unknown.items():
            found[i] = text
        return found

    @property
    def _skipped_ids(self) -> Collection[int]:
        return self._control

    @cached_property
    def _control(self) -> dict[int, str]:
        """Control pieces and their names."""
        is_control = guarded(self._processor.IsControl, list(range(self._size)))
        return {i: self._names[i] for i in compress(range(self._size), is_control)}

    @cached_property
    def fingerprint(self) -> str:
        names = [*self._names.values()]
        return fingerprint_of(self.rules, names, [*self._control], self._unknown)

    def _byte_ids(self) -> Iterator[int]:
        is_byte = guarded(self._processor.IsByte, list(range(self._size)))
        return compress(range(self._size), is_byte)

    # --- encoding ---------------------------------------------------------------------------------

    def _ids(self, text: str, special: Special) -> list[int]:
        if special != "parse" or self._any_special is None:
            return self._encoded(text)
        ids: list[int] = []
        for index, part in enumerate(self._any_special.split(text)):
            ids += self._ids_by_special_text[part][:1] if index % 2 else self._encoded(part)
        return ids

    def _encoded(self, text: str) -> list[int]:
        ids: list[int] = guarded(self._processor.EncodeAsIds, text)
        return ids

    def _library_decode(self) -> tuple[str, Callable[[list[int]], str]]:
        return "sentencepiece", self._processor.DecodeIds

    def _library_encode(self) -> tuple[str, Callable[[str], Sequence[int]]]:
        return "sentencepiece", self._processor.EncodeAsIds

    # --- offsets ----------------------------------------------------------------------------------

    def byte_offsets_of(self, encoding: Encoding) -> list[Span]:
        """Return each token's start and end in the UTF-8 of the text of ``encoding``.

        If the model normalized the text, they are the library's offsets of whole characters. Raises
        :class:`~streamdec.errors.EncodeError` if the encoding has no text.
        """
        try:
            return super().byte_offsets_of(encoding)
        except EncodeError:
            if encoding.text is None:
                raise
        text = encoding.text
        names = None if encoding.special == "text" else self._any_special
        spans, start = [], 0
        for index, part in enumerate([text] if names is None else names.split(text)):
            found = [(0, len(part))] if index % 2 else self._spans(part)
            spans += [(start + first, start + last) for first, last in found]
            start += len(part)
        before, after = map(len, self._added) if encoding.add_special_tokens else (0, 0)
        spans = [(0, 0)] * before + spans + [(start, start)] * after
        return byte_spans(text, spans)

    def _spans(self, text: str) -> list[Span]:
        """Return the places of the tokens of plain ``text`` in code points."""
        normal, places = guarded(self._processor.Normalize, text, with_offsets=True)
        pieces = zip(self._encoded(text), self._processor.EncodeAsPieces(text), strict=True)
        is_byte = self._processor.IsByte
        sizes = [1 if is_byte(i) else len(surface.encode()) for i, surface in pieces]
        spans = character_spans(normal, list(pairwise(accumulate(sizes, initial=0))))
        return [(places[first], places[last]) for first, last in spans]

    @property
    def _added(self) -> tuple[Sequence[int], Sequence[int]]:
        bos = self._processor.bos_id()
        return ([bos] if bos >= 0 else [], [])

    # --- the vocabulary ---------------------------------------------------------------------------

    @property
    def _role_texts(self) -> Mapping[str, str | None]:
        ids = {role: getattr(self._processor, f"{role}_id")() for role in _ROLES}
        return {f"{role}_token": self.id_to_token(i) for role, i in ids.items()}
