"""Encode by the longest token at each place, as the RWKV world tokenizer does.

In: the bytes of each token. Out: the ids of a text. Nothing is merged and nothing is normalized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from streamdec.errors import EncodeError

__all__ = ["LongestToken"]


class LongestToken:
    """The encoder of ``tokens``, pairs of an id and its bytes.

    Of tokens with the same bytes the lowest id counts. ``unknown`` is the id for a byte at which no
    token begins; without it, such a text raises EncodeError.
    """

    def __init__(self, tokens: Iterable[tuple[int, bytes]], unknown: int | None = None) -> None:
        known: dict[int, dict[bytes, int]] = {}
        for token_id, data in sorted(tokens, reverse=True):
            if data:
                known.setdefault(data[0], {})[data] = token_id
        self._unknown = unknown
        self._by_first_byte: dict[int, tuple[Sequence[int], dict[bytes, int]]] = {
            first: (sorted(set(map(len, ids)), reverse=True), ids) for first, ids in known.items()
        }

    def ids(self, data: bytes) -> Iterator[int]:
        """Yield the ids of ``data``. Raises EncodeError."""
        start = 0
        while start < len(data):
            lengths, known = self._by_first_byte.get(data[start], ((), {}))
            found = (n for n in lengths if data[start : start + n] in known)
            length = next(found, 0)
            if length:
                yield known[data[start : start + length]]
            elif self._unknown is not None:
                yield self._unknown
            else:
                raise EncodeError(f"no token begins at byte {start}: {data[start : start + 16]!r}")
            start += length or 1
