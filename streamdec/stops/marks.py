r"""Marks: which tokens the withheld text came from.

When a stop is complete, its match says which token began it. The stop may have begun many tokens
earlier, in text that is withheld. So a stream notes a *mark* for each token that gave a part of the
text that a stop may claim: the counters (:mod:`streamdec.tables.counting`) after the letters of
that token. A code point was begun by the token of the first mark beyond it.

While a stream runs, its marks are a linked list, the newest first: ``(mark, older marks)``. So a
step adds a mark by making one tuple. Marks that are no longer needed stay at the end of the list
until only one token gave text that a stop may claim, or until the tally (see
:mod:`streamdec.tables.counting`) is full. So a list has at most ``MOST_TALLIED`` of them.

>>> from streamdec.tables.counting import count_of
>>> from streamdec.stops.marks import linked, newest, origin_of
>>> marks = linked([count_of(1, 3, 3), count_of(2, 5, 5)])     # 3 code points, and then 2
>>> marks = count_of(3, 9, 9), marks                           # and 4 more
>>> [origin_of(newest(marks, 9), place) for place in (0, 2, 3, 5)]
[0, 0, 1, 2]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from streamdec.tables.counting import TOKEN_TALLY, code_points_in, count_of, tokens_in
from streamdec.tables.provenance import Ages

Marks: TypeAlias = "tuple[float | int, Marks] | None"
"""The newest mark, and the older ones. Each is a tally, or a count if the tally was reset."""


def linked(marks: Iterable[float], older: Marks = None) -> Marks:
    """Return the list of ``marks``, given oldest first, after ``older``."""
    for mark in marks:
        older = mark, older
    return older


def newest(marks: Marks, most: int) -> list[float | int]:
    """Return the newest of ``marks``, at most that many, the oldest first."""
    found: list[float | int] = []
    while marks is not None and len(found) < most:
        mark, marks = marks
        found.append(mark)
    return found[::-1]


def origin_of(marks: Sequence[int], place: int) -> int:
    """Return the index of the token that began code point ``place``.

    ``marks`` are counts, the oldest first.
    """
    return next((tokens_in(mark) - 1 for mark in marks if code_points_in(mark) > place), 0)


def marks_of(count: int, firsts: Ages) -> tuple[int, ...]:
    """Return the marks of letters, one for each run that began in the same token.

    ``firsts`` are the ages of the letters in tokens, ``count`` is the count before them.
    """
    index, code_points = tokens_in(count), code_points_in(count)
    return tuple(
        count_of(max(index - age, -1) + 1, code_points + place, code_points + place)
        for age, place in _runs(firsts)
    )


def tallied_marks(firsts: Ages) -> tuple[float, ...]:
    """Return the same marks as tallies, counted from the tally before the letters."""
    return tuple((1 - age) * TOKEN_TALLY + place for age, place in _runs(firsts))


def _runs(firsts: Ages) -> list[tuple[int, int]]:
    """The age of each run of letters that began in the same token, and where it ends."""
    return [
        (age, place)
        for place, (age, after) in enumerate(zip(firsts, (*firsts[1:], None)), 1)  # noqa: B905
        if age != after
    ]
