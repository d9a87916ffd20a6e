"""How a stream with stops ends: what comes out, and where in it the stop stands."""

from __future__ import annotations

from typing import NamedTuple

from streamdec.chunks import StopReason
from streamdec.core import ages
from streamdec.core.counting import size_of, text_in
from streamdec.core.stop_memory import Mark, Outcome, StopMemory
from streamdec.core.stop_program import StopProgram

__all__ = ["Ending", "StopSpan", "at_hit", "at_release", "by_id", "by_sequence"]


class StopSpan(NamedTuple):
    """A stop, and where it stands."""

    stop: StopReason
    visible: bool
    start: int
    """The count of the text that comes out now and is before it."""
    end: int
    """The count up to its end, whether or not it comes out."""
    age: int
    """How many tokens before the last one it began; -1: with what came out after the last."""


class Ending(NamedTuple):
    """An end."""

    text: str
    """What comes out."""
    span: StopSpan | None
    """None if nothing but the caller ended it."""


def at_hit(outcome: Outcome, *, released: bool = False) -> Ending:
    """The end at a stop string; ``released``: in text that came out because nothing followed."""
    hit = outcome.hit
    assert hit is not None
    text, size = size_of(outcome.text), size_of(hit.text)
    start = text - size if hit.visible else text
    span = StopSpan(hit.stop, hit.visible, start, start + size, outcome.age - released)
    return Ending(outcome.text, span)


def at_release(program: StopProgram, memory: StopMemory, *, ignore: bool) -> Ending:
    """The end because nothing follows: what was withheld comes out, unless it completes a stop."""
    outcome = _released(program, memory, ignore=ignore)
    if outcome.hit is not None:
        return at_hit(outcome, released=True)
    return Ending(outcome.text, None)


def by_id(
    program: StopProgram, memory: StopMemory, token_id: int, stop: StopReason, *, hidden: bool
) -> Ending:
    """A stop id or end-of-sequence. What came before it comes out, and may complete a stop."""
    shown = program.conditions.include_stop_str_in_output or not hidden
    if shown:
        before, parted = _parted(program, memory, token_id)
        own, age = parted.own, parted.age
    else:
        before = _released(program, memory)
        own, age = "", before.age
    if before.hit is not None:
        return at_hit(before)
    start, text = size_of(before.text), before.text + own
    return Ending(text, StopSpan(stop, shown, start, size_of(text), age))


def by_sequence(
    program: StopProgram, memory: StopMemory, sequence: tuple[Mark, ...], token_id: int
) -> Ending:
    """The ids of ``sequence``. A hidden one is cut from the first byte of its first token."""
    first, ids = sequence[0], tuple(mark.token_id for mark in sequence)
    age = len(ids) - 1
    if program.conditions.include_stop_str_in_output:
        before, parted = _parted(program, memory, token_id)
        if before.hit is not None:
            return at_hit(before)
        first = ages.spared(sequence, parted.before, parted.lasts)[0]
        # What was unfinished before its first token, and not broken off, is its first character.
        age += 0 if first.spared else ages.longest_wait(program.decode, first.memory)
        text = before.text + parted.own
        return Ending(text, StopSpan(ids, True, first.size, size_of(text), age))
    # What it found unfinished and was decided since was matched then.
    before = _released(program, first.memory, ignore=bool(first.spared))
    given, _ = text_in(first.given)
    if before.hit is not None and before.stop_end - before.hit.size < given:
        # It begins in text that is out, let go by what is cut now: the sequence is the stop.
        before = _released(program, first.memory, ignore=True)
    before = before._replace(text=before.text[given:], age=before.age + age)
    if before.hit is not None:
        return at_hit(before)
    end = size_of(before.text)
    return Ending(before.text, StopSpan(ids, False, end, end, before.age))


def _released(program: StopProgram, memory: StopMemory, *, ignore: bool = False) -> Outcome:
    """What comes out because nothing follows; its ``age`` as if it came with the next token."""
    text, core = program.decode.flush(memory.core)
    letters = ages.released(program.decode, memory, text)
    memory = memory._replace(core=core, live=())
    return _emptied(program.gated.match(memory, text, letters, ignore=ignore))


def _parted(program: StopProgram, memory: StopMemory, token_id: int) -> tuple[Outcome, ages.Parted]:
    """What comes out before a token that ends the stream by its id; and the token's own text.

    Of that nothing is matched. It begins with a character that an earlier token may have begun.
    """
    unknown = not program.knows(token_id)
    parted = ages.parted(program.decode, memory, token_id, unknown=unknown)
    memory = memory._replace(live=())
    outcome = program.gated.match(memory, parted.before, parted.firsts, ignore=False)
    return _emptied(outcome), parted


def _emptied(outcome: Outcome) -> Outcome:
    """With what was withheld, unless a stop is complete."""
    if outcome.hit is not None:
        return outcome
    return outcome._replace(text=outcome.text + outcome.memory.withheld)
