"""Compute each token's span in the text of its row from the tokens' bytes.

See guarantee 17 in ``docs/explanation/laws.md``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import accumulate, count, pairwise

from streamdec.chunks import TokenSpan
from streamdec.core import utf8

BEGINS = bytes(byte & 0xC0 != 0x80 for byte in range(256))
"""For each byte, 1 if a character begins with it."""
NEW_SPAN = partial(tuple.__new__, TokenSpan)
"""Makes a span from its five numbers, three times as fast as the class does."""


def spans_of(text: str, data: bytes, sizes: Iterable[int]) -> list[TokenSpan] | None:
    r"""Return the span of each token in ``text``.

    Args:
        text: The text of ``data`` up to a stop.
        data: The joined bytes of the tokens.
        sizes: The number of bytes of each token.

    Returns None if ``data`` has ill-formed bytes before its end, or does not spell ``text``.

    >>> from streamdec.bulk.row_spans import spans_of
    >>> spans = spans_of("caf\xe9", "caf\xe9!".encode(), [4, 0, 1, 1])
    >>> [(span.start, span.end) for span in spans]
    [(0, 4), (3, 3), (3, 4), (4, 4)]
    """
    shown = text.encode()
    whole, tail = utf8.decode(data, utf8.PER_PART)
    size = len(data) - len(tail)
    if whole.encode() != data[:size]:
        return None
    ends = [*accumulate(sizes, initial=0)]
    if not data.startswith(shown, 0, size):
        if text != whole + utf8.REPLACEMENT:
            return None
        # The unfinished character at the end is a U+FFFD, which has three bytes.
        ends = [size + 3 if end == len(data) else end for end in ends]
    if ends[-1] > len(shown):
        ends = [min(end, len(shown)) for end in ends]
    if len(text) == len(shown):
        return _spans(ends, ends)
    begins = shown.translate(BEGINS) + b"\1"
    characters = [*accumulate(begins, initial=0)]
    spans = _spans([characters[end] for end in ends], ends)
    if 0 in map(begins.__getitem__, ends):
        for place, (first, last) in enumerate(pairwise(ends)):
            if not begins[first] or not begins[last]:
                spans[place] = _widened(place, first, last, begins, characters)
    return spans


def _spans(characters: list[int], ends: list[int]) -> list[TokenSpan]:
    """Return the spans of tokens of whole characters."""
    rows = zip(count(), characters, characters[1:], ends, ends[1:], strict=False)
    return [*map(NEW_SPAN, rows)]


def _widened(place: int, first: int, last: int, begins: bytes, characters: list[int]) -> TokenSpan:
    """Return the span of a token that shares a character with another token.

    ``first`` and ``last`` are the start and the end of its bytes. ``characters`` is the number of
    characters that begin before each byte.
    """
    start = begins.rindex(1, 0, first + 1)
    end = start if first == last else begins.index(1, last)
    return TokenSpan(place, characters[start], characters[end], start, end)
