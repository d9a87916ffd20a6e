r"""Bit masks of the letters in texts, which show that no stop can begin in a text.

A mask is an integer with a bit for each class of characters. The table of transitions
(:mod:`streamdec.core.table`) stores the mask of each text, and adds bits of its own. A state of the
stops (:mod:`streamdec.core.stop_set`) has the mask of the letters that matter to it.

>>> from streamdec.core.masks import mask_of
>>> mask_of("Hi") & mask_of("\n"), mask_of("Hi\n") & mask_of("\n") > 0
(0, True)
"""

from __future__ import annotations

# Each mark that stops often begin with has its own bit; other characters share a few.
_CLASSES = (
    "abcdefghijklmnopqrstuvwxyz0123456789", " ", "", ".", ",", "-_", "()", ":;", "=+~", "/\\",
    "'", '"', "!?", "ABCDEFGHI", "JKLMNOPQRS", "TUVWXYZ", "\n", "\r\t\v\f", "]", "[", "{", "}",
    "|", "*", "#", "`", "<>",
)  # fmt: skip
_OTHER = 1 << _CLASSES.index("")
_BIT_OF = {letter: 1 << bit for bit, letters in enumerate(_CLASSES) for letter in letters}

MOVES = 1 << 27
"""The token is not a plain one. A plain token has text, and leads from idle to idle."""
UNKNOWN = 1 << 28
"""The tokenizer does not have the id, or it is not an id."""
NAMED = 1 << 29
"""Some stop set names the id; or, with UNKNOWN, the token is an error."""
LETTERS = MOVES - 1
"""The bits that stand for letters."""
ALERT = -1
"""The bits that a stream compares with those of a token if no token is plain."""
# CPython handles integers of 30 bits fastest.
assert 1 << len(_CLASSES) <= MOVES < UNKNOWN < NAMED < 2**30

_masks: dict[int, int] = {}
"""One object for each common mask: the masks of a table then share the processor's cache."""
MAX_SHARED_MASKS = 8_192


def mask_of(text: str) -> int:
    """Return the mask of the letters in ``text``, as one object for each common mask."""
    mask = 0
    for letter in text:
        mask |= _BIT_OF.get(letter, _OTHER)
    share = _masks.setdefault if len(_masks) < MAX_SHARED_MASKS else _masks.get
    return share(mask, mask)
