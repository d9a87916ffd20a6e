"""What a stream with stops remembers between two tokens, and what a token does.

Beside the memory of the decode program: the matcher's tail, whether the gate is open, and the *age*
of whatever is withheld (how many tokens ago it came), so that a match can say which token began it.
"""

from __future__ import annotations

from typing import NamedTuple

from streamdec.core.counting import size_of, text_in
from streamdec.core.jail import Hit
from streamdec.core.rows import Memory

__all__ = ["Ages", "Completed", "Gate", "Mark", "Outcome", "StopMemory"]

Ages = tuple[int, ...]
"""How many tokens ago each of some things came; 0 is the token that is being stepped."""


class Gate(NamedTuple):
    """Whether stops are armed, and what was seen of the text that changes it."""

    is_open: bool
    tail: str = ""
    """The end of the text that may begin the next marker."""
    turned: int = 0
    """How many tokens ago an id opened or closed it, while a character from before is unfinished;
    else 0."""


class StopMemory(NamedTuple):
    """What a stream with stops remembers."""

    core: Memory
    """Of the decode program."""
    pending_ages: Ages = ()
    """Of each byte of the unfinished character (1: the last token's)."""
    waiting_ages: Ages = ()
    """Of each token that the decoder holds something of."""
    tails_ages: tuple[Ages, ...] = ()
    """Of each letter in the tails of text replacements."""
    withheld: str = ""
    """Decided text that was not given out."""
    tail: str = ""
    """The matcher's: the end of the text that may begin a stop."""
    tail_ages: Ages = ()
    """Of each of its code points."""
    gate: Gate | None = None
    live: tuple[Mark, ...] = ()
    """The last tokens, as far as they may begin a stop sequence."""

    def ages_below(self) -> Ages:
        """The ages of all that the decode program withholds."""
        tails = (age for tail in self.tails_ages for age in tail)
        return (*self.pending_ages, *self.waiting_ages, *tails)


class Mark(NamedTuple):
    """Where a stream was before a token that may belong to a stop sequence, and what came since."""

    token_id: int
    memory: StopMemory
    given: int = 0
    """The count of the text given out since."""
    spared: int = 0
    """The count of the text decided since that has no byte of the token or a later one."""

    @property
    def size(self) -> int:
        """The count of what is withheld now and is before the token; less than 0 if given out."""
        return size_of(self.memory.withheld) + self.spared - self.given

    @property
    def decided(self) -> int:
        """Its code points."""
        return text_in(self.size)[0]

    def after(self, out: str) -> Mark:
        """The mark once ``out`` was given out."""
        return self._replace(given=self.given + size_of(out)) if out else self

    def sparing(self, text: str) -> Mark:
        """The mark once ``text`` was decided, of bytes from before the token."""
        return self._replace(spared=self.spared + size_of(text)) if text else self


class Outcome(NamedTuple):
    """What a token did."""

    text: str
    """Text that may go out."""
    memory: StopMemory
    hit: Hit | None = None
    """The stop string that is complete."""
    stop_end: int = 0
    """How many code points of what was withheld and of the token's text come before its end."""
    age: int = 0
    """How many tokens before this one the stop began."""


class Completed(Exception):  # noqa: N818 (it is control flow, and stays inside)
    """A stop is complete; carries the Outcome, so that it is not stored."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome
