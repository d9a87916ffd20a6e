"""What streamdec asks of a tokenizer.

Two things can be decoded:

* any object with ``decode(token_ids, skip_special_tokens=...)`` (:class:`Decoder`): streamed over a
  window of recent ids;
* a :class:`TableDecoder`, which also says by which *rule* its library joins tokens and what each
  token is made of: streamed byte by byte, exactly.

The rules are data, so a backend needs nothing of :mod:`streamdec.core`, and the core nothing of any
tokenizer library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

__all__ = [
    "CTC",
    "BPESuffix",
    "ByteFallback",
    "ByteLevel",
    "Concatenation",
    "Decoder",
    "DecodingRule",
    "Encoder",
    "Encoding",
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
    """Each piece is the token's bytes; all are joined and decoded at once (tiktoken, Tekken)."""


@dataclass(frozen=True, slots=True)
class ByteLevel:
    """GPT-2's byte alphabet: a piece of its 256 letters is bytes, any other is its own UTF-8."""


@dataclass(frozen=True, slots=True)
class Concatenation:
    """Pieces are text and are joined with nothing between."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Pieces are text, joined by ``separator`` (``tokenizers`` without a decoder: one space)."""

    separator: str = " "


@dataclass(frozen=True, slots=True)
class Metaspace:
    """``replacement`` stands for a space; in the first piece all of them vanish if ``prepend``."""

    replacement: str = "\u2581"
    prepend: bool = True


@dataclass(frozen=True, slots=True)
class ByteFallback:
    """A piece ``<0xE4>`` is one byte; neighbouring ones form a run. Other pieces are text.

    With ``metaspace`` that rule applies afterwards, to each text piece and each run (ChatGLM3).
    """

    metaspace: Metaspace | None = None


@dataclass(frozen=True, slots=True)
class WordPiece:
    """Pieces beginning with ``prefix`` continue the word before; others get a space in front."""

    prefix: str = "##"
    cleanup: bool = True


@dataclass(frozen=True, slots=True)
class BPESuffix:
    """``suffix`` ends a word: a space, but nothing in the last piece."""

    suffix: str = "</w>"


@dataclass(frozen=True, slots=True)
class CTC:
    """Repeated pieces count once, ``pad`` is removed; ``delimiter`` is a space if ``cleanup``."""

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


@dataclass(frozen=True, slots=True)
class LiteralReplace:
    """Every ``pattern`` (not empty) in the whole text becomes ``content``, leftmost first."""

    pattern: str
    content: str


@dataclass(frozen=True, slots=True)
class TextRules:
    """How a tokenizer's library turns the list of pieces into text."""

    rule: DecodingRule
    """How pieces are joined."""
    strip_left: tuple[str, int] = ("", 0)
    """One character, and how many of it are removed from the very beginning of the text."""
    replaces: tuple[LiteralReplace, ...] = ()
    """What is replaced in the whole text afterwards, in this order."""


# --- what a tokenizer can do ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Encoding:
    """The result of encoding one text."""

    ids: tuple[int, ...]
    """Token ids."""


@runtime_checkable
class Encoder(Protocol):
    """Turns text into token ids."""

    def encode(self, text: str, *, add_special_tokens: bool = False) -> Encoding:
        """Encode ``text``; special tokens are added around it only when asked for."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """Turns all token ids into text at once."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``token_ids``, which are ints from 0 to 2**32 - 1."""
        ...


@runtime_checkable
class TableDecoder(Decoder, Protocol):
    """A decoder that can be compiled: it tells what tokens are made of and how they are joined."""

    @property
    def rules(self) -> TextRules | None:
        """How pieces become text; None when only ``decode`` knows."""
        ...

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits: equal for tokenizers that decode every id alike."""
        ...

    def piece(self, token_id: int) -> str | bytes | None:
        """What ``token_id`` gives to the rule (bytes for RawBytes, else text); None if unknown."""
        ...

    def is_skipped(self, token_id: int) -> bool:
        """Whether ``decode`` leaves ``token_id`` out when ``skip_special_tokens`` is true."""
        ...

    def sample_ids(self) -> Sequence[int]:
        """A few hundred ids to verify a table with, special and byte tokens among them."""
        ...


@runtime_checkable
class Tokenizer(Encoder, TableDecoder, Protocol):
    """Both directions, as every backend of streamdec offers them."""

    def id_to_token(self, token_id: int) -> str | None:
        """The token's own name in the vocabulary; None if there is none."""
        ...

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None if there is none."""
        ...
