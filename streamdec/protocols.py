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

import hashlib
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, final, runtime_checkable

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
    "EncodingSource",
    "IncrementalDecoder",
    "Joined",
    "LiteralReplace",
    "Metaspace",
    "RawBytes",
    "Special",
    "SpecialTokens",
    "TableDecoder",
    "TextRules",
    "Tokenizer",
    "WordPiece",
    "new_decode_stream",
    "provide_decode_stream",
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


# --- what encoding gives --------------------------------------------------------------------------

Special = Literal["parse", "text", "forbid"]
"""What becomes of special tokens that are spelled in a text which is encoded.

``"parse"`` makes them special tokens (for prompts of one's own), ``"text"`` encodes their letters
as any others, ``"forbid"`` raises (for text of strangers). ``"text"`` raises as well where a model
has no other way to encode those letters.
"""

Span = tuple[int, int]
"""Start and end."""


class EncodingSource(Protocol):
    """The tokenizer behind an :class:`Encoding`: what is worked out only when asked for."""

    def id_to_token(self, token_id: int) -> str | None:
        """The token's own name in the vocabulary; None if there is none."""
        ...

    def offsets_of(self, encoding: Encoding) -> Sequence[Span]:
        """The characters of ``encoding.text`` that each id stands for."""
        ...

    def byte_offsets_of(self, encoding: Encoding) -> Sequence[Span]:
        """The same in bytes of the text's UTF-8."""
        ...


@final
class Encoding:
    """The result of encoding one text: one buffer of unsigned 32-bit integers.

    Everything else is made of it when first asked for, and kept. ``ids`` are integers, or their
    buffer: four bytes each, little-endian. Without a ``source``, as after pickling, ``tokens`` and
    offsets raise LookupError unless they were asked for before.

    Two encodings are equal if their ids are. Raises OverflowError for an int that is no id, and
    ValueError for bytes that are not four for each.

    >>> encoding = Encoding([1, 2, 3])
    >>> encoding.ids, len(encoding), encoding.buffer.nbytes
    ((1, 2, 3), 3, 12)
    """

    def __init__(
        self,
        ids: Iterable[int] | bytes,
        text: str | None = None,
        source: EncodingSource | None = None,
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> None:
        self._data = ids if isinstance(ids, bytes) else _little_endian(array("I", ids))
        if len(self._data) % 4:
            raise ValueError(f"{len(self._data)} bytes are no ids of four bytes each")
        self._source = source
        self.text = text
        """The text that was encoded."""
        self.add_special_tokens = add_special_tokens
        """Whether special tokens were added around it."""
        self.special: Special = special
        """What became of special tokens in it."""

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The token ids."""
        return tuple(self.buffer)

    @property
    def buffer(self) -> memoryview:
        """The ids without a copy, read-only, of format ``"I"`` (numpy: ``np.asarray(buffer)``)."""
        return memoryview(_native(self._data)).cast("I")

    def __bytes__(self) -> bytes:
        """The ids, four bytes each, little-endian."""
        return self._data

    def __len__(self) -> int:
        return len(self._data) // 4

    def __iter__(self) -> Iterator[int]:
        return iter(self.buffer)

    def __eq__(self, other: object) -> bool:
        return self._data == other._data if isinstance(other, Encoding) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._data)

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self.buffer[:8]))
        return f"Encoding([{shown}{', …' if len(self) > 8 else ''}])"

    def __getstate__(self) -> dict[str, Any]:
        """All but the tokenizer."""
        return {**self.__dict__, "_source": None}

    @cached_property
    def tokens(self) -> tuple[str | None, ...]:
        """The name of each token in the vocabulary."""
        return tuple(map(self._known_source.id_to_token, self.buffer))

    @cached_property
    def offsets(self) -> tuple[Span, ...]:
        """Start and end of each token in the text, in characters (code points).

        A token that has only some bytes of a character spans the whole of it, and one that was
        added spans nothing. Raises :class:`~streamdec.errors.EncodeError` where the tokenizer
        cannot tell, as it does not keep the text as it is.
        """
        return tuple(self._known_source.offsets_of(self))

    @cached_property
    def byte_offsets(self) -> tuple[Span, ...]:
        """The same in bytes of the text's UTF-8, where a token of one byte spans one byte."""
        return tuple(self._known_source.byte_offsets_of(self))

    @property
    def _known_source(self) -> EncodingSource:
        if self._source is None:
            raise LookupError("this encoding no longer knows its tokenizer")
        return self._source

    def hash(self) -> str:
        """SHA-256 over the ids, each as four bytes, little-endian; in hexadecimal.

        >>> Encoding([1, 2, 3, 4]).hash()[:16]
        'cf97adeedb59e05b'
        """
        return hashlib.sha256(self._data).hexdigest()

    def block_hashes(self, size: int, parent: str = "") -> list[str]:
        """A hash for each whole block of ``size`` ids, which tells all ids before it as well.

        It is SHA-256 over the 32 bytes of the hash before (nothing for the first block, unless
        ``parent`` is given) and the block's ids as in :meth:`hash`: what SGLang's ``get_hash_str``
        gives for the pages of its prefix cache. Ids after the last whole block are not hashed.

        Raises ValueError if ``size`` is less than 1 or ``parent`` is not hexadecimal.

        >>> [digest[:16] for digest in Encoding([1, 2, 3, 4, 5]).block_hashes(2)]
        ['34fb5c825de7ca4a', 'c57b445f90651b9a']
        """
        if size < 1:
            raise ValueError(f"size must be 1 or more, not {size}")
        hashes = []
        before, width = bytes.fromhex(parent), 4 * size
        for start in range(0, len(self._data) - width + 1, width):
            digest = hashlib.sha256(before + self._data[start : start + width])
            before = digest.digest()
            hashes.append(digest.hexdigest())
        return hashes


def _little_endian(ids: array[int]) -> bytes:
    if sys.byteorder == "big":
        ids.byteswap()
    return ids.tobytes()


def _native(data: bytes) -> bytes:
    """``data``, of which a machine with the other byte order gets a copy."""
    return data if sys.byteorder == "little" else _little_endian(array("I", data))


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The tokens with a role, by the names that transformers has for them, and the others.

    A role is filled only if the tokenizer's own files say so; nothing is guessed from names.
    """

    bos_token: str | None = None
    """Begins a text."""
    eos_token: str | None = None
    """Ends it."""
    unk_token: str | None = None
    """Stands for what has no token."""
    sep_token: str | None = None
    """Between two texts."""
    pad_token: str | None = None
    """Fills a batch."""
    cls_token: str | None = None
    """Where a classifier reads."""
    mask_token: str | None = None
    """Hides a token."""
    additional_special_tokens: tuple[str, ...] = ()
    """All the other special tokens, by their ids."""

    @property
    def all(self) -> tuple[str, ...]:
        """Every one once: the roles in the order above, then the additional ones."""
        roles = (self.bos_token, self.eos_token, self.unk_token, self.sep_token)
        more = (self.pad_token, self.cls_token, self.mask_token, *self.additional_special_tokens)
        return tuple(dict.fromkeys(token for token in (*roles, *more) if token is not None))


# --- what a tokenizer can do ----------------------------------------------------------------------


@runtime_checkable
class Encoder(Protocol):
    """Turns text into token ids."""

    def encode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """Encode ``text``; special tokens are added around it only when asked for."""
        ...

    def encode_batch(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> list[Encoding]:
        """Encode each of ``texts`` as :meth:`encode` does."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """Turns all token ids into text at once."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of ``token_ids``, which are ints from 0 to 2**32 - 1.

        Those without a token contribute nothing. For what is no id, every backend of streamdec
        raises :class:`~streamdec.errors.TokenizerLibraryError`.
        """
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


class IncrementalDecoder(Protocol):
    """What ``decode_stream`` gives: :class:`streamdec.DecodeStream`, as far as a backend knows."""

    def step(self, token_id: int, /) -> str:
        """Takes one id; returns the text it completes."""
        ...

    def step_batch(self, token_ids: Iterable[int], /) -> list[str]:
        """Takes several ids; returns a text for each."""
        ...

    def flush(self) -> str:
        """Ends the stream; returns what was held."""
        ...

    @property
    def held(self) -> bytes:
        """The bytes of an unfinished character."""
        ...


@runtime_checkable
class Tokenizer(Encoder, TableDecoder, Protocol):
    """Both directions, as every backend of streamdec offers them."""

    async def aencode(
        self, text: str, *, add_special_tokens: bool = False, special: Special = "parse"
    ) -> Encoding:
        """As :meth:`encode`, without keeping the event loop waiting."""
        ...

    async def aencode_batch(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> list[Encoding]:
        """As :meth:`encode_batch`, without keeping the event loop waiting."""
        ...

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """The text of each list of ids, as :meth:`decode` gives it."""
        ...

    def decode_stream(
        self, prompt_token_ids: Iterable[int] = (), *, skip_special_tokens: bool = True
    ) -> IncrementalDecoder:
        """A stream that turns ids into text as they come, after a prompt."""
        ...

    def id_to_token(self, token_id: int) -> str | None:
        """The token's own name in the vocabulary; None if there is none."""
        ...

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None if there is none."""
        ...

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes that ``token_id`` gives to the middle of a text; None if there is no token."""
        ...

    @property
    def vocab_size(self) -> int:
        """The highest id and one: holes and added tokens count."""
        ...

    @property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens and their roles."""
        ...


# --- the stream, which stands above ---------------------------------------------------------------

_providers: list[Callable[..., IncrementalDecoder]] = []


def provide_decode_stream(make: Callable[..., IncrementalDecoder]) -> None:
    """Says what ``decode_stream`` of a backend makes: backends know nothing of the core."""
    _providers[:] = [make]


def new_decode_stream(
    tokenizer: Decoder, prompt_token_ids: Iterable[int], **options: Any
) -> IncrementalDecoder:
    """A stream of ``tokenizer``, of the kind that was provided."""
    return _providers[0](tokenizer, prompt_token_ids, **options)
