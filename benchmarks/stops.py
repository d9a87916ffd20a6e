"""The stop strings: ordinary ones, and hard ones, which the text nearly matches all the time.

None is ever complete in the text for which they are drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

ORDINARY = "ordinary"
HARD = "hard"

_FORMS = ("\n{}:", "<|{}|>", "\n\n{}:", "\n### {}", "</{}>")
_NEVER = "\u16a0"
"""A rune, which no text here has."""


def markers(count: int, text: str, draw: random.Random) -> list[str]:
    """Return markers of roles and sections, with made-up names."""
    stops: list[str] = []
    while len(stops) < count:
        stop = draw.choice(_FORMS).format(_name(draw))
        if stop not in text:
            stops.append(stop)
    return stops


def _name(draw: random.Random) -> str:
    syllables = (
        draw.choice("bdfgklmnprstvz") + draw.choice("aeiou") for _ in range(draw.randint(2, 4))
    )
    return "".join(syllables).capitalize()


def near_misses(count: int, text: str, draw: random.Random) -> list[str]:
    """Return 4 to 19 characters of the text itself, and a letter that never occurs."""
    stops: list[str] = []
    for _ in range(count):
        size = draw.randint(4, 19)
        start = draw.randrange(max(len(text) - size, 1))
        stops.append(text[start : start + size] + _NEVER)
    return stops


KINDS: Mapping[str, Callable[[int, str, random.Random], list[str]]] = {
    ORDINARY: markers,
    HARD: near_misses,
}
"""The kinds of stops, whose sets are always new."""
