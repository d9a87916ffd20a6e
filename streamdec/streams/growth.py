"""Warn of outputs that look cumulative.

Such an output has all ids so far, so text is repeated.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, SupportsIndex

from streamdec.errors import warn


class GrowthWatch:
    """Warns once if the outputs of a stream look cumulative.

    They do if each output so far began with all ids of the output before and had more, and an
    output repeats two different ids. ``[5], [5, 6]`` may be new ids that repeat by chance: the
    warning comes at the next output, ``[5, 6, 7]``, before its text is output. Equal tokens, such
    as those of a line (``[9], [9, 9], [9, 9, 9]``), cause none. It is a warning and no error,
    because it may be wrong.

    Args:
        advice: the part of the warning that says what to do.
    """

    def __init__(self, advice: str) -> None:
        self.is_over = False
        """Whether the outputs are known to be cumulative or not; then call ``note`` no more."""
        self._advice = advice
        self._before: list[SupportsIndex] = []

    def note(self, ids: Sequence[SupportsIndex]) -> None:
        """Note the ids of the newest output, before its text is output."""
        before, self._before = self._before, list(ids)
        if not before:
            return
        grows = len(ids) > len(before) and self._before[: len(before)] == before
        if grows and before == before[:1] * len(before):
            return
        self.is_over, self._before = True, []
        if grows:
            warn(
                "an output began with all ids of the output before it, so the engine's outputs "
                f"seem to be cumulative and their text is repeated; {self._advice}"
            )


class RoundsWatch:
    """Does the same for the rounds of a pool.

    It looks at the lists of one request at a time, until it knows what the engine does.
    """

    def __init__(self) -> None:
        self.is_over = False
        """As of a GrowthWatch."""
        self._request_id: Any = None
        self._watch: GrowthWatch | None = None

    def note(self, request_id: Any, ids: Sequence[SupportsIndex], running: Container[Any]) -> None:
        """Note the ``ids`` of a request in a round; ``running`` has the running requests."""
        if self._watch is None or self._request_id not in running:
            self._request_id = request_id
            self._watch = GrowthWatch("pass only the new ids of each round")
        if request_id == self._request_id:
            self._watch.note(ids)
            self.is_over = self._watch.is_over
