"""The bytes of tokens in, the span of each token in the text out (law 17)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate, count, pairwise

from streamdec.chunks import TokenSpan

__all__ = ["spans_of"]

BEGINS = bytes(byte & 0xC0 != 0x80 for byte in range(256))
"""For each byte, 1 if a character begins with it."""


def spans_of(text: str, data: bytes, sizes: Iterable[int]) -> list[TokenSpan] | None:
    r"""Return the span of each token in ``text``.

    Args:
        text: the beginning of what ``data`` spells, up to a stop.
        data: the bytes of the tokens, joined.
        sizes: how many bytes each token gave.

    Returns None if ``data`` is not UTF-8, or does not begin with ``text``.

    >>> from streamdec.bulk.spans import spans_of
    >>> spans = spans_of("caf\xe9", "caf\xe9!".encode(), [4, 0, 1, 1])
    >>> [(span.start, span.end) for span in spans]
    [(0, 4), (3, 3), (3, 4), (4, 4)]
    """
    shown = text.encode()
    if not data.startswith(shown) or not _is_utf_8(data):
        return None
    ends = [*accumulate(sizes, initial=0)]
    if len(ends) > 1 and ends[-1] > len(shown):
        ends = [min(end, len(shown)) for end in ends]
    if len(text) == len(shown):
        spans = (
            (place, *pair, *pair) for place, pair in zip(count(), pairwise(ends), strict=False)
        )
        return [*map(TokenSpan._make, spans)]
    characters = [*accumulate(shown.translate(BEGINS), initial=0)]
    return [_span(place, *pair, shown, characters) for place, pair in enumerate(pairwise(ends))]


def _span(place: int, first: int, last: int, shown: bytes, characters: list[int]) -> TokenSpan:
    """The span of a token with the bytes from ``first`` to ``last``.

    ``characters``: how many characters begin before each byte.
    """
    start, end = first, last
    while start < len(shown) and not BEGINS[shown[start]]:
        start -= 1
    if first == last:
        end = start
    while end < len(shown) and not BEGINS[shown[end]]:
        end += 1
    return TokenSpan(place, characters[start], characters[end], start, end)


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
