"""Which token gave a code point its first byte, and which its last: ages, for positions of stops.

An age is how many tokens ago something came; 0 is the token that is being stepped. They are worked
out only where something was withheld, and never in a warm row.
"""

from __future__ import annotations

from contextlib import suppress
from os.path import commonprefix
from typing import NamedTuple

from streamdec.core import utf8
from streamdec.core.program import Program
from streamdec.core.programs import AnyProgram
from streamdec.core.rows import Memory
from streamdec.core.stop_memory import Ages, Mark, StopMemory
from streamdec.core.token_bytes import TokenBytes
from streamdec.errors import RewriteError

__all__ = ["Parted", "Traced", "longest_wait", "parted", "released", "spared", "traced"]


class Traced(NamedTuple):
    """The ages of what a token decided, and of what waits after it."""

    firsts: Ages
    """Of the first byte of each code point."""
    lasts: Ages
    """Of the last."""
    pending: Ages
    """One token on: of each byte of the unfinished character."""
    waiting: Ages
    """And of each token that the decoder holds something of."""
    tails: tuple[Ages, ...]
    """And of each letter in the tails of text replacements."""


def traced(
    decode: AnyProgram, memory: StopMemory, core: Memory, token_id: int, text: str
) -> Traced:
    """The ages after ``token_id``, which led ``memory`` to ``core`` and decided ``text``."""
    if not isinstance(decode, Program):
        # A window cannot say; since its text was last wholly out is never too late.
        ages = (decode.offsets(memory.core)[1],) * len(text)
        return Traced(ages, _lasts_by_text(decode, memory, text), (), (), ())
    if not (memory.pending_ages or memory.waiting_ages or decode.rewrites):
        # Nothing was withheld below: all of it is this token's.
        ages, waiting = (0,) * len(text), decode.token_bytes.waiting(core[0])
        return Traced(ages, ages, (1,) * len(core[1]), (1,) * waiting, ())
    found = decode.contribution(memory.core, token_id)
    data, rest = found["data"], len(core[1])
    own = found["own"]
    if memory.waiting_ages and not decode.token_bytes.has_spans:
        own = 0  # whose bytes they are is not known, and the oldest token's is never too late
    carried = _shared_out(decode.token_bytes, memory.waiting_ages, len(data) - own)
    ages = (*memory.pending_ages, *carried, *(0,) * own)
    pending = _older(ages[len(ages) - rest :])
    waiting_ages = _older(_last(found["waiting"], memory.waiting_ages, found["contributes"]))
    raw, firsts, lasts = _letters(decode.token_bytes, memory.core[1] + data, ages)
    if decode.has_spans:
        if memory.live:  # a space between words is the older word's, but not without the newer
            sure = _sure_of(decode, memory, text)
            lasts = lasts[:sure] + (0,) * (len(text) - sure)
        return Traced(firsts, lasts, pending, waiting_ages, ())
    firsts, tails = decode.trace(memory.core, raw, memory.tails_ages, firsts)
    lasts = _lasts_by_text(decode, memory, text)
    return Traced(firsts, lasts, pending, waiting_ages, tuple(map(_older, tails)))


def _letters(
    machine: TokenBytes, data: bytes, ages: Ages, *, final: bool = False
) -> tuple[str, Ages, Ages]:
    """The text that ``data`` has decided, and the ages of each letter's first and last byte."""
    text, firsts, lasts, place = "", [], [], 0
    for width, letter in utf8.spans(data, machine.errors, final=final):
        text += letter
        firsts.append(ages[place])
        place += width
        lasts.append(ages[place - 1])
    return text, tuple(firsts), tuple(lasts)


def _lasts_by_text(decode: AnyProgram, memory: StopMemory, text: str) -> Ages:
    """Of the last byte of each letter of ``text``, where bytes cannot be told apart: never too old.

    What would have come without the token is of those before it, as far as it came all the same.
    """
    if not memory.live:  # nobody asks
        return (0,) * len(text)
    sure = _sure_of(decode, memory, text)
    return (1,) * sure + (0,) * (len(text) - sure)


def _sure_of(decode: AnyProgram, memory: StopMemory, text: str) -> int:
    """How many letters of ``text``, which a token brings out, had come without it all the same."""
    alone = ""
    with suppress(RewriteError):
        alone = decode.flush(memory.core)[0]
    return len(commonprefix([alone, text]))  # noqa: RUF071 (letters, not paths)


def released(decode: AnyProgram, memory: StopMemory, text: str) -> Ages:
    """The ages of the code points of ``text``, which a flush gave; counted from the next token."""
    if not isinstance(decode, Program):
        return (max(decode.offsets(memory.core)[1], 1),) * len(text)
    machine = decode.token_bytes
    data = machine.flush(memory.core[0])
    known = (*memory.pending_ages, *_shared_out(machine, memory.waiting_ages, len(data)))
    raw, ages, _ = _letters(machine, memory.core[1] + data, known, final=True)
    if not decode.rewrites:
        return ages
    return decode.trace(memory.core, raw, memory.tails_ages, ages, final=True)[0]


def longest_wait(decode: AnyProgram, memory: StopMemory) -> int:
    """How many tokens ago the oldest came of which something is not decided; 0 if all is."""
    if not isinstance(decode, Program):
        return decode.offsets(memory.core)[1]
    return max(memory.ages_below(), default=0)


class Parted(NamedTuple):
    """The text that is left when a token is the last, at the first code point it has a byte of."""

    before: str
    firsts: Ages
    """Of the first byte of each code point of ``before``."""
    lasts: Ages
    """Of the last."""
    own: str
    age: int
    """Of the first byte of ``own``."""


def parted(decode: AnyProgram, memory: StopMemory, token_id: int, *, unknown: bool) -> Parted:
    """What ``token_id`` and then a flush bring out of ``memory``."""
    step = decode.unknown(memory.core) if unknown else decode.transition(memory.core, token_id)
    text, core = step
    text += decode.flush(core)[0]
    if not (isinstance(decode, Program) and decode.has_spans):
        return _parted_by_text(decode, memory, text)
    found, machine = decode.contribution(memory.core, token_id), decode.token_bytes
    flushed = machine.flush(core[0])
    carried = _shared_out(machine, memory.waiting_ages, len(found["data"]) - found["own"])
    ages = (*memory.pending_ages, *carried, *(0,) * found["own"])
    among = _last(found["waiting"], memory.waiting_ages, found["contributes"])
    ages += _shared_out(machine, among, len(flushed))
    data = memory.core[1] + found["data"] + flushed
    _, firsts, lasts = _letters(machine, data, ages, final=True)
    size = lasts.index(0) if 0 in lasts else len(lasts)
    age = firsts[size] if 0 in lasts else 0
    return Parted(text[:size], firsts[:size], lasts[:size], text[size:], age)


def _parted_by_text(decode: AnyProgram, memory: StopMemory, text: str) -> Parted:
    """``parted`` where bytes cannot be told apart.

    What would have come without the token is not the token's, as far as it came all the same.
    """
    alone = decode.flush(memory.core)[0]
    before = commonprefix([alone, text])  # noqa: RUF071 (letters, not paths)
    known, size = released(decode, memory, alone), len(before)
    letters, oldest = known[:size], max(known[size:], default=0)
    return Parted(before, letters, letters, text[size:], oldest)


def spared(live: tuple[Mark, ...], text: str, lasts: Ages) -> tuple[Mark, ...]:
    """The marks; letters of ``text`` with no byte from a mark's token on count as before it."""
    ages = range(len(live) - 1, -1, -1)
    return tuple(
        mark.sparing(text[: sum(last > age for last in lasts)])
        for mark, age in zip(live, ages, strict=True)
    )


def _last(size: int, waiting: Ages, contributes: bool) -> Ages:
    """The ages of the last ``size`` tokens of which something waits, this one among them or not."""
    among = (*waiting, 0) if contributes else waiting
    return among[len(among) - size :]


def _shared_out(machine: TokenBytes, waiting: Ages, size: int) -> Ages:
    """The ages of ``size`` bytes of tokens that waited, which gave them in equal parts.

    The first may have given less: bytes are only ever removed at the front. Where they cannot be
    told apart, all count as the oldest token's.
    """
    if not (size and waiting):
        return (1,) * size
    if not machine.has_spans:
        return (waiting[0],) * size
    part = -(-size // len(waiting))
    return tuple(age for age in waiting for _ in range(part))[-size:]


def _older(ages: Ages) -> Ages:
    return tuple(age + 1 for age in ages)
