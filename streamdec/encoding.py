"""What encoding a text gives: ids in one buffer, and what can be asked of them.

Also what is said of special tokens: which there are, and what becomes of those a text spells.
"""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, final

__all__ = ["Encoding", "EncodingSource", "Special", "SpecialTokens"]

Special = Literal["parse", "text", "forbid"]
"""What becomes of special tokens that are spelled in a text which is encoded.

``"parse"`` makes them special tokens (for prompts of one's own), ``"text"`` encodes their letters
as any others, ``"forbid"`` raises (for untrusted text). ``"text"`` raises as well where a model
has no other way to encode those letters.
"""

Span = tuple[int, int]
"""Start and end."""


class EncodingSource(Protocol):
    """The tokenizer behind an :class:`~streamdec.Encoding`: what is worked out when asked for.

    >>> from streamdec import Encoding
    >>> class Letters:
    ...     def id_to_token(self, token_id):
    ...         return chr(97 + token_id)
    ...     def offsets_of(self, encoding):
    ...         return [(i, i + 1) for i in range(len(encoding))]
    ...     byte_offsets_of = offsets_of
    >>> Encoding([7, 8], "hi", Letters()).tokens
    ('h', 'i')
    """

    def id_to_token(self, token_id: int) -> str | None:
        """The name of ``token_id`` in the vocabulary; None if there is none."""
        ...

    def offsets_of(self, encoding: Encoding) -> Sequence[Span]:
        """The characters of ``encoding.text`` that each id stands for."""
        ...

    def byte_offsets_of(self, encoding: Encoding) -> Sequence[Span]:
        """The same in bytes of the UTF-8 of ``encoding.text``."""
        ...


@final
class Encoding:
    """The result of encoding one text: one buffer of unsigned 32-bit integers.

    Everything else is made of it when first asked for, and kept. Without a ``source``, as after
    pickling, ``tokens`` and offsets raise LookupError unless they were asked for before.

    Args:
        ids: integers, or their buffer: four bytes each, little-endian.
        text: the encoded text, or None if it is not known; it is kept.
        source: the tokenizer; it is kept too.
        add_special_tokens: whether special tokens were added around it.
        special: what became of special tokens in it.

    Two encodings are equal if their ids are. Raises OverflowError for an int that is no id, and
    ValueError for bytes that are not four for each.

    >>> from streamdec import Encoding
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
        """The text that was encoded; None if it was not given."""
        self.add_special_tokens = add_special_tokens
        """Whether special tokens were added around it."""
        self.special: Special = special
        """What became of special tokens in it."""

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The token ids, as integers; ``buffer`` has them for nothing."""
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
        """The name of each token in the vocabulary; None where there is none.

        Raises LookupError without a source.
        """
        return tuple(map(self._known_source.id_to_token, self.buffer))

    @cached_property
    def offsets(self) -> tuple[Span, ...]:
        r"""Start and end of each token in the text, in characters (code points).

        A token that has only some bytes of a character spans the whole of it, and one that was
        added spans nothing. Raises :class:`~streamdec.EncodeError` where the tokenizer cannot tell,
        as it does not keep the text as it is; LookupError without a source.

        >>> from streamdec import MockTokenizer
        >>> encoding = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]).encode("café")
        >>> encoding.offsets, encoding.byte_offsets
        (((0, 3), (3, 4), (3, 4)), ((0, 3), (3, 4), (4, 5)))
        """
        return tuple(self._known_source.offsets_of(self))

    @cached_property
    def byte_offsets(self) -> tuple[Span, ...]:
        """The same in bytes of the text's UTF-8, where a token of one byte spans one byte.

        Raises what ``offsets`` raises.
        """
        return tuple(self._known_source.byte_offsets_of(self))

    @property
    def _known_source(self) -> EncodingSource:
        if self._source is None:
            raise LookupError("this encoding no longer knows its tokenizer")
        return self._source

    def hash(self) -> str:
        """SHA-256 over the ids, each as four bytes, little-endian; in hexadecimal.

        >>> from streamdec import Encoding
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

        >>> from streamdec import Encoding
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

    >>> from streamdec import load_tokenizer
    >>> special = load_tokenizer("path/to/model").special_tokens
    >>> special.eos_token, special.bos_token, special.additional_special_tokens
    ('<|im_end|>', None, ('<|im_start|>',))
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
