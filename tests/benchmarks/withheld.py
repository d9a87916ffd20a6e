"""Count the characters and tokens that were decoded and are not yet output.

In: the text that each token of a stream decodes to, and the text that is output after each token.
Out: the counts after each token.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

__all__ = ["Count", "Withheld", "first_text", "withheld_by"]


class Count(NamedTuple):
    """A count over many steps."""

    mean: float
    most: int

    @classmethod
    def of(cls, counts: Sequence[int]) -> Count:
        """Return the mean and the greatest of ``counts``; both are 0 without counts."""
        return cls(sum(counts) / len(counts), max(counts)) if counts else cls(0.0, 0)


class Withheld(NamedTuple):
    """What is withheld after a step."""

    characters: int
    """The number of characters that are decoded and not output."""
    tokens: int
    """The number of tokens whose text is not completely output."""


def withheld_by(decoded: Sequence[str], given: Sequence[str]) -> Iterator[Withheld]:
    """Return what is withheld after each step of a stream.

    ``decoded`` has the text of each token (only unfinished characters are withheld), ``given`` the
    text that is output after each token.
    """
    # The ends of the texts of all tokens that have text.
    ends: list[int] = []
    for text, out in zip(decoded, accumulate(map(len, given)), strict=True):
        if text:
            ends.append((ends[-1] if ends else 0) + len(text))
        total = ends[-1] if ends else 0
        yield Withheld(max(total - out, 0), len(ends) - bisect_right(ends, out))


def first_text(given: Sequence[str]) -> int:
    """Return the number of the first token with text, from 1; if none has, one more than all."""
    return next((place for place, text in enumerate(given, 1) if text), len(given) + 1)
