"""The result of encoding a text, and the special tokens of a tokenizer."""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, final

from streamdec.locks import cached_property

__all__ = ["Encoding", "Special", "SpecialTokens"]

Special = Literal["parse", "text", "forbid"]
"""How special tokens that a text spells are encoded.

``"parse"`` encodes them as special tokens (for your own prompts), ``"text"`` as ordinary text, and
``"forbid"`` raises an error (for untrusted text). ``"text"`` also raises an error if the model
cannot encode them as ordinary text.
"""

Span = tuple[int, int]
"""Start and end."""


@final
class Encoding:
    """The result of encoding one text: one buffer of unsigned 32-bit integers.

    Tokens and offsets are computed at their first use. Encodings with equal ids are equal.

    Args:
        ids: integers, or a ``bytes`` object with four bytes for each id, little-endian.
        text: the encoded text; None if it is not known.
        source: the tokenizer, which has ``id_to_token``, ``offsets_of`` and ``byte_offsets_of``.
            Without it, as after pickling, ``tokens`` and offsets raise LookupError unless they are
            cached.
        add_special_tokens: whether special tokens were added around the text.
        special: how special tokens in the text were encoded.

    Raises OverflowError for an integer that is not in 0 … 2**32 - 1; ValueError if the number of
    bytes is not a multiple of four.

    >>> from streamdec.tokenizers import Encoding
    >>> encoding = Encoding([1, 2, 3])
    >>> encoding.ids, len(encoding), encoding.buffer.nbytes
    ((1, 2, 3), 3, 12)
    """

    text: str | None
    """The text that was encoded; None if it was not given."""
    add_special_tokens: bool
    """Whether special tokens were added around it."""
    special: Special
    """How special tokens in it were encoded."""

    def __init__(
        self,
        ids: Iterable[int] | bytes,
        text: str | None = None,
        source: Any = None,
        *,
        add_special_tokens: bool = False,
        special: Special = "parse",
    ) -> None:
        self._array: array[int] = array("I", ids)
        if isinstance(ids, bytes):
            _swap_on_big_endian(self._array)
        self._source = source
        self.text = text
        self.add_special_tokens = add_special_tokens
        self.special = special

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """The token ids, as integers; ``buffer`` has them without a copy."""
        return struct.unpack(f"{len(self)}I", self._array)  # faster than an iteration

    @property
    def buffer(self) -> memoryview:
        """The ids as a read-only memoryview of format ``"I"``, without a copy."""
        return memoryview(self._array).toreadonly()

    def __bytes__(self) -> bytes:
        """The ids, four bytes each, little-endian."""
        return _swap_on_big_endian(self._array[:]).tobytes()

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[int]:
        return iter(self._array)

    def __eq__(self, other: object) -> bool:
        return self._array == other._array if isinstance(other, Encoding) else NotImplemented

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __repr__(self) -> str:
        shown = ", ".join(map(str, self._array[:8]))
        return f"Encoding([{shown}{', …' if len(self) > 8 else ''}])"

    def __getstate__(self) -> dict[str, Any]:
        """All but the tokenizer."""
        return {**self.__dict__, "_source": None}

    @cached_property
    def tokens(self) -> tuple[str | None, ...]:
        """The name of each token, or None. Raises LookupError without a source."""
        return tuple(map(self._known_source.id_to_token, self._array))

    @cached_property
    def offsets(self) -> tuple[Span, ...]:
        r"""The start and end of each token in the text, in characters (code points).

        A token with a part of a character spans the whole character; a special token that was added
        around the text has an empty span. Raises :class:`~streamdec.errors.EncodeError` if the
        tokenizer changes the text and cannot map its tokens to it; LookupError without a source.

        >>> from streamdec import MockTokenizer
        >>> encoding = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"]).encode("café")
        >>> encoding.offsets, encoding.byte_offsets
        (((0, 3), (3, 4), (3, 4)), ((0, 3), (3, 4), (4, 5)))
        """
        return tuple(self._known_source.offsets_of(self))

    @cached_property
    def byte_offsets(self) -> tuple[Span, ...]:
        """The start and end of each token in the UTF-8 of the text, as ``offsets``."""
        return tuple(self._known_source.byte_offsets_of(self))

    @property
    def _known_source(self) -> Any:
        if self._source is None:
            raise LookupError(
                "this encoding has no tokenizer, because it was unpickled or made without source=; "
                "encode the text again for tokens and offsets"
            )
        return self._source


def _swap_on_big_endian(ids: array[int]) -> array[int]:
    """Change the order of bytes in ``ids`` between little-endian and this machine's."""
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens of a tokenizer by role, named as in transformers.

    A role has a token only if the tokenizer's files declare it. No role is guessed from a name.

    >>> from streamdec import load_tokenizer
    >>> special = load_tokenizer("demo").special_tokens
    >>> special.eos_token, special.bos_token, special.additional_special_tokens
    ('<|im_end|>', None, ('<|im_start|>',))
    """

    bos_token: str | None = None
    """The token that begins a text."""
    eos_token: str | None = None
    """The token that ends a text."""
    unk_token: str | None = None
    """The token for text that has no token."""
    sep_token: str | None = None
    """The token between two texts."""
    pad_token: str | None = None
    """The token for padding."""
    cls_token: str | None = None
    """The token that a classifier reads."""
    mask_token: str | None = None
    """The token that replaces a masked token."""
    additional_special_tokens: tuple[str, ...] = ()
    """All other special tokens, in the order of their ids."""

    @property
    def all(self) -> tuple[str, ...]:
        """All special tokens once: the roles in the order above, then the others."""
        roles = (getattr(self, each.name) for each in fields(self)[:-1])
        tokens = (*roles, *self.additional_special_tokens)
        return tuple(dict.fromkeys(token for token in tokens if token is not None))
