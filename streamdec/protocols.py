"""The interfaces of tokenizers, and the rules by which they join tokens.

The rules are data, so backends need not import :mod:`streamdec.core`, which applies the rules,
and the core need not import tokenizer libraries.

>>> from streamdec import MockTokenizer
>>> from streamdec.protocols import *
>>> def joined(rule, *pieces):
...     tokens = [piece.encode() for piece in pieces]
...     return MockTokenizer.from_tokens(tokens, decoder=rule).decode(range(len(tokens)))
>>> [joined(rule, "un", "do") for rule in (RawBytes(), Concatenation(), Joined())]
['undo', 'undo', 'un do']
>>> joined(ByteLevel(), "Ġcaf", "Ã", "©"), joined(ByteFallback(), "caf", "<0xC3>", "<0xA9>")
(' café', 'café')
>>> joined(Metaspace(), "▁Hi", "▁there"), joined(BPESuffix(), "lo", "w</w>", "tide</w>")
('Hi there', 'low tide')
>>> joined(WordPiece(), "em", "##bed", "it", "."), joined(CTC(), *"hhi|a", "<pad>", "a")
('embed it.', 'hi aa')
>>> joined(TextRules(Concatenation(), replaces=(LiteralReplace("--", "-"),)), "a-", "-b")
'a-b'
>>> all(isinstance(MockTokenizer(), kind) for kind in (Encoder, TableDecoder, Tokenizer))
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from streamdec.encoding import Encoding, Special, SpecialTokens

__all__ = [
    "CTC",
    "BPESuffix",
    "ByteFallback",
    "ByteLevel",
    "Concatenation",
    "Decoder",
    "DecodingRule",
    "Encoder",
    "Joined",
    "LiteralReplace",
    "Metaspace",
    "RawBytes",
    "TableDecoder",
    "TextRules",
    "Tokenizer",
    "WordPiece",
]


# --- how a library turns tokens into text ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RawBytes:
    """Each piece is bytes; all bytes are joined, then decoded (tiktoken, Tekken)."""


@dataclass(frozen=True, slots=True)
class ByteLevel:
    """Pieces in GPT-2's byte alphabet are bytes; all other pieces are UTF-8.

    The alphabet is ``bytes_to_unicode`` of GPT-2's ``encoder.py``.
    """


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Pieces are text, joined without a separator."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Pieces are text, joined by ``separator``; a space without a decoder."""

    separator: str = " "


@dataclass(frozen=True, slots=True)
class Metaspace:
    """``replacement`` stands for a space, as in SentencePiece.

    ``prepend`` removes each ``replacement`` from the first piece.
    """

    replacement: str = "\u2581"
    prepend: bool = True


@dataclass(frozen=True, slots=True)
class ByteFallback:
    """A piece like ``<0xE4>`` is one byte; other pieces are text.

    Adjacent bytes form a run. ``metaspace`` is applied afterwards to each piece and run (ChatGLM3).
    """

    metaspace: Metaspace | None = None


@dataclass(frozen=True, slots=True)
class WordPiece:
    """Pieces with ``prefix`` continue a word; others get a space first (BERT).

    The first piece is unchanged: it gets no space, and keeps a prefix. ``cleanup`` removes spaces
    before punctuation and contractions in each piece, and makes ``" do not"`` ``" don't"``.
    """

    prefix: str = "##"
    cleanup: bool = True


@dataclass(frozen=True, slots=True)
class BPESuffix:
    """``suffix`` ends a word: a space, or nothing in the last piece (the first GPT)."""

    suffix: str = "</w>"


@dataclass(frozen=True, slots=True)
class CTC:
    """Pieces repeated in a row count once, and ``pad`` is removed (speech models).

    With ``cleanup``, ``delimiter`` becomes a space, and pieces are cleaned up as by WordPiece.
    ``metaspace`` is applied last.
    """

    pad: str = "<pad>"
    delimiter: str = "|"
    cleanup: bool = True
    metaspace: Metaspace | None = None


DecodingRule = (
    RawBytes
    | ByteLevel
    | Concatenation
    | Joined
    | Metaspace
    | ByteFallback
    | WordPiece
    | BPESuffix
    | CTC
)
"""The rules by which a library joins pieces. RawBytes joins bytes; the others join text."""


@dataclass(frozen=True, slots=True)
class LiteralReplace:
    """Replaces ``pattern``, which is not empty, by ``content``, like ``str.replace``.

    A stream withholds text that may still become the pattern.
    """

    pattern: str
    content: str


@dataclass(frozen=True, slots=True)
class TextRules:
    """How a tokenizer's library turns the list of pieces into text."""

    rule: DecodingRule
    """How pieces are joined."""
    strip_left: tuple[str, int] = ("", 0)
    """A character, and how many times at most it is removed from the beginning of the text."""
    replaces: tuple[LiteralReplace, ...] = ()
    """Replacements in the joined text, made one after another in this order."""


# --- what a tokenizer can do ----------------------------------------------------------------------


@runtime_checkable
class Encoder(Protocol):
    """Turns text into token ids.

    ``add_special_tokens`` adds the special tokens that the tokenizer's template puts around a text
    (BOS, ``[CLS]``). ``special`` says how to encode special tokens that the text itself spells
    (:data:`~streamdec.encoding.Special`).
    """

    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode ``text``; special tokens are added around it only when asked for.

        Raises EncodeError for text that cannot be encoded or contains a forbidden special token,
        TypeError if ``text`` is not a str, and ValueError for an unknown value of ``special``.
        """

    def encode_batch(
        self, texts: Sequence[str], *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> list[Encoding]:
        """Encode each of ``texts`` as :meth:`encode` does, in order."""


@runtime_checkable
class Decoder(Protocol):
    """An object with ``decode``, which is streamed over a window of recent ids.

    >>> from streamdec import DecodeStream
    >>> from streamdec.protocols import Decoder
    >>> class Letters:
    ...     def decode(self, token_ids, *, skip_special_tokens=True):
    ...         return "".join(chr(97 + token_id) for token_id in token_ids)
    >>> isinstance(Letters(), Decoder)
    True
    >>> DecodeStream(Letters()).step_batch([7, 8])
    ['h', 'i']
    """

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of ``token_ids``, which are ints from 0 to 2**32 - 1.

        ``skip_special_tokens`` leaves special tokens out. Ids without a token have no text.
        The backends of streamdec raise :class:`~streamdec.TokenIdError` for other integers and for
        values that are not ids, TypeError for an object that is not a list of ids, and
        :class:`~streamdec.errors.TokenizerLibraryError` if the library fails.
        """


@runtime_checkable
class TableDecoder(Decoder, Protocol):
    """A decoder that also has the pieces of tokens, and the rules that join them.

    Its streams work on bytes and are exact. Before its first stream, the rules are compared with
    its ``decode`` for a sample (``sample_ids``).
    """

    @property
    def rules(self) -> TextRules | None:
        """The rules that turn pieces into text; None if only ``decode`` can do that."""

    @property
    def fingerprint(self) -> str:
        """Identify what the tokenizer decodes: 16 hexadecimal digits, or two such groups.

        Snapshots contain it, and restoring one with another tokenizer raises SnapshotError. It
        covers every token, the decoding rules and the skipped ids. Of a HuggingFaceTokenizer that
        was passed as an object with more than 1,024 tokens, it covers the rules, the size, all
        added tokens and 512 to 1,024 others; loaded from a file, the second group covers all.
        """

    def piece(self, token_id: int) -> str | bytes | None:
        """Return the piece of ``token_id`` for the rule; None if there is no token.

        A str for rules that join text, bytes for RawBytes (Concatenation takes both).
        """

    def is_skipped(self, token_id: int) -> bool:
        """Whether ``decode`` leaves ``token_id`` out if ``skip_special_tokens`` is true."""

    def sample_ids(self) -> Sequence[int]:
        """Return a few hundred ids, special and byte tokens among them, as a sample."""


@runtime_checkable
class Tokenizer(Encoder, TableDecoder, Protocol):
    """Encodes and decodes. Every backend of streamdec has this interface."""

    async def aencode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode as :meth:`encode` does, without blocking the event loop."""

    async def aencode_batch(
        self, texts: Sequence[str], *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> list[Encoding]:
        """Encode as :meth:`encode_batch` does, without blocking the event loop."""

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Decode each list of ids in ``batch`` as :meth:`decode` does."""

    def id_to_token(self, token_id: int) -> str | None:
        """Return the name of ``token_id`` in the vocabulary; None if there is none."""

    def token_to_id(self, token: str) -> int | None:
        """Return the id of the ``token`` with this name in the vocabulary, or None."""

    def token_bytes(self, token_id: int) -> bytes | None:
        """Return the bytes of ``token_id``; None if there is no such token.

        For tokens whose text depends on their place: the bytes in the middle of a text.
        """

    @property
    def vocab_size(self) -> int:
        """The highest token id plus one.

        Gaps and added tokens count; rows that pad the model's embedding do not.
        """

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens and their roles."""
