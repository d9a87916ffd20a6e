"""Where each token is in the text: spans.

A token covers every code point that it gave a byte to, so the spans of tokens that share a
character overlap. A token that gave nothing has an empty span before the character that it
interrupts. A span is a function of the ids since a clean point, so it does not depend on when it
is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, takewhile

from streamdec.chunks import TokenSpan
from streamdec.core.counting import sizes_in
from streamdec.core.replay import Cell, Replay


def spans_of(
    cells: Sequence[Cell], tokens: range, count: int, cut: int | None = None
) -> list[TokenSpan]:
    """Return the span of each of ``tokens``, with ``cells`` since a clean point.

    ``count`` is of the text before the clean point. Spans are cut after ``cut`` code points.
    """
    code_points, num_bytes = sizes_in(count)
    sizes = [*accumulate((len(cell.text.encode()) for cell in cells), initial=num_bytes)]
    most = len(cells) if cut is None else min(max(cut - code_points, 0), len(cells))
    places: dict[int, tuple[int, int]] = {}
    for place, cell in enumerate(cells):
        for token in cell.tokens:
            places[token] = places.get(token, (place,))[0], place + 1
    found: list[TokenSpan] = []
    for token in tokens:
        if token in places:
            start, end = places[token]
        else:
            start = end = sum(cell.last < token for cell in cells)
        start, end = min(start, most), min(end, most)
        found.append(
            TokenSpan(token, code_points + start, code_points + end, sizes[start], sizes[end])
        )
    return found


def final_spans(found: Replay, tokens: range, count: int, output: int) -> list[TokenSpan]:
    """Return the spans of the first of ``tokens`` that can no longer change.

    ``found`` is what all tokens since a clean point gave, ``count`` is of the text before it, and
    ``output`` code points were output.
    """

    def is_final(span: TokenSpan) -> bool:
        return span.token_index < found.waits and span.end <= output

    return [*takewhile(is_final, spans_of(found.cells, tokens, count))]


class SpanLog:
    """The final spans of one stream that were not taken yet."""

    __slots__ = ("spans", "taken")

    def __init__(self, spans: Sequence[TokenSpan] = (), taken: int = 0) -> None:
        self.spans: list[TokenSpan] = [*spans]
        """The final spans, in order."""
        self.taken: int = taken
        """How many tokens' spans were taken."""

    def copy(self) -> SpanLog:
        """Return an independent copy."""
        return SpanLog(self.spans, self.taken)

    def note(
        self, cells: Sequence[Cell], tokens: range, count: int, cut: int | None = None
    ) -> None:
        """Note the spans of ``tokens``, which are final. See ``spans_of``."""
        left = range(max(tokens.start, self.taken), max(tokens.stop, self.taken))
        self.spans += spans_of(cells, left, count, cut)

    def note_whole(self, index: int, before: int, after: int) -> None:
        """Note the span of a token whose text is all of the text between two counts."""
        if index >= self.taken:
            (start, byte_start), (end, byte_end) = sizes_in(before), sizes_in(after)
            self.spans.append(TokenSpan(index, start, end, byte_start, byte_end))

    def take(self, more: Sequence[TokenSpan]) -> list[TokenSpan]:
        """Return the final spans and ``more``, which follow them, and drop them."""
        found = [*self.spans, *(span for span in more if span.token_index >= self.taken)]
        self.taken += len(found)
        self.spans.clear()
        return found
