"""What has been decoded and not been given yet: characters, and the tokens that they came from.

In: what each token of a stream decodes to, and what each lets out. Out: counts, a step each.
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
        """Of none, zero."""
        return cls(sum(counts) / len(counts), max(counts)) if counts else cls(0.0, 0)


class Withheld(NamedTuple):
    """What waits after a step."""

    characters: int
    """How many characters are decoded and not given."""
    tokens: int
    """How many tokens there are whose text is not all given."""


def withheld_by(decoded: Sequence[str], given: Sequence[str]) -> Iterator[Withheld]:
    """What waits after each step of a stream.

    ``decoded`` is what the tokens decode to with nothing withheld but unfinished characters,
    ``given`` what they let out, both step by step.
    """
    # Where the text of each token that has some ends.
    ends: list[int] = []
    for text, out in zip(decoded, accumulate(map(len, given)), strict=True):
        if text:
            ends.append((ends[-1] if ends else 0) + len(text))
        total = ends[-1] if ends else 0
        yield Withheld(max(total - out, 0), len(ends) - bisect_right(ends, out))


def first_text(given: Sequence[str]) -> int:
    """With which token the first text comes, from 1; if with none, one more than there are."""
    return next((place for place, text in enumerate(given, 1) if text), len(given) + 1)
