r"""Bit masks of the letters in texts.

With them, a stream sees that no stop can begin in a text. A mask is an integer with a bit for each
class of characters. The table of transitions (:mod:`streamdec.tables.table`) stores the mask of
each text, and adds three bits. A state of the stops (:mod:`streamdec.stops.stop_set`) has the mask
of the letters that matter to it.

>>> from streamdec.tables.letters import letters_of
>>> letters_of("Hi") & letters_of("\n")
0
>>> letters_of("Hi\n") & letters_of("\n") > 0
True
"""

from __future__ import annotations

# Each mark that stops often begin with has its own bit; other characters share a few. What is
# frequent in texts has the lowest bits (see Matching.free).
_CLASSES = (
    "abcdefghijklmnopqrstuvwxyz0123456789", " ", "", ".", ",", "-_", "()", ":;", "=+~", "/\\",
    "'", '"', "!?", "ABCDEFGHI", "JKLMNOPQRS", "TUVWXYZ", "\n", "\r\t\v\f", "]", "[", "{", "}",
    "|", "*", "#", "`", "<>",
)  # fmt: skip
_OTHER = 1 << _CLASSES.index("")
_BIT_OF = {letter: 1 << bit for bit, letters in enumerate(_CLASSES) for letter in letters}

MOVES = 1 << 27
"""The state holds something before the token or after it."""
NAMED = 1 << 28
"""Some stream's conditions name the token's id."""
SLOW = 1 << 29
"""The token takes the slow path. There are four cases: it leads to idle and has no text; its state
is idle and something waits there; its state or the next one is not idle but holds nothing; or it
has the bits NAMED and MOVES."""
LETTERS = MOVES - 1
"""The bits that stand for letters."""
# CPython handles integers of 30 bits fastest.
assert 1 << len(_CLASSES) <= MOVES < NAMED < SLOW < 2**30

_masks: dict[int, int] = {}
"""One object for each common mask: the masks of a table then share the processor's cache."""
MAX_SHARED_MASKS = 8_192


def letters_of(text: str) -> int:
    """Return the mask of the letters in ``text``."""
    mask = 0
    for letter in text:
        mask |= _BIT_OF.get(letter, _OTHER)
    return mask


def shared(mask: int) -> int:
    """Return ``mask``: the one object that stands for it, if it is common."""
    known = _masks.get(mask)
    if known is None and len(_masks) < MAX_SHARED_MASKS:
        known = _masks.setdefault(mask, mask)
    return mask if known is None else known
