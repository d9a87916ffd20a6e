"""Encode by the longest token at each place, as the RWKV world tokenizer does.

In: the bytes of each token. Out: the ids of a text. There are no merges and no normalization.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamdec.errors import EncodeError


class LongestToken:
    """Encodes with ``tokens``, pairs of an id and its bytes.

    If several tokens have the same bytes, the lowest id is used. ``unknown`` is the id for a byte
    at which no token begins. Without it, such a text raises EncodeError.
    """

    def __init__(self, tokens: Iterable[tuple[int, bytes]], unknown: int | None = None) -> None:
        self._ids: dict[bytes, int] = {
            data: token_id for token_id, data in sorted(tokens, reverse=True) if data
        }
        self._unknown = unknown
        lengths: dict[bytes, set[int]] = {}
        for data in self._ids:
            lengths.setdefault(data[:2], set()).add(len(data))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}
        """The lengths of the tokens that begin with these two bytes, or are this byte."""

    def ids(self, data: bytes) -> Iterator[int]:
        """Yield the ids of ``data``. Raises EncodeError."""
        ids, lengths_of, start = self._ids, self._lengths, 0
        while start < len(data):
            for length in lengths_of.get(data[start : start + 2], ()):
                token_id = ids.get(data[start : start + length])
                if token_id is not None:
                    break
            else:
                length = 1
                token_id = ids.get(data[start : start + 1], self._unknown)
                if token_id is None:
                    what = f"no token begins at byte {start}: {data[start : start + 16]!r}"
                    raise EncodeError(what)
            yield token_id
            start += length
