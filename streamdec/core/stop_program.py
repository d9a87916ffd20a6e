"""The program of a stream with stops: ids to text to text that may go out, remembered in rows.

Below it is a decode program (ids to text), beside it the matcher (:mod:`streamdec.core.jail`). What
is added to the memory: the matcher's tail, whether the gate is open, and the *age* of whatever is
withheld, in tokens, so that a match can say which token began it.

A token that completes a stop, and tokens that may do so by their id, are never stored: the hot path
of a stream does not ask whether it is finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, SupportsIndex

from streamdec.chunks import Chunk, StopReason
from streamdec.core import utf8
from streamdec.core.jail import Hit, Jail
from streamdec.core.program import Program
from streamdec.core.programs import AnyProgram
from streamdec.core.rows import MAX_ENTRIES, Memory, Rows
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.token_ids import check_token_id

__all__ = ["Completed", "Gate", "Outcome", "StopMemory", "StopProgram", "size_of"]

NOTHING = Chunk()

MAX_CACHED_AGE = 16
"""Rows are cached for streams that withhold nothing older than so many tokens."""

EXTRA_BYTES = 1 << 40
"""A size is one integer: code points, and times this the bytes that UTF-8 needs beyond one each."""


def size_of(text: str) -> int:
    """The code points and bytes of ``text`` in one integer; sizes add up."""
    if text.isascii():
        return len(text)
    return len(text) + (len(text.encode()) - len(text)) * EXTRA_BYTES


class Gate(NamedTuple):
    """Whether stops are armed, and what was seen of the text that changes it."""

    is_open: bool
    tail: str = ""
    """The end of the text that may begin the next marker."""
    opened: int = 0
    """How many tokens ago an id opened it, while a character from before is unfinished; else 0."""


class Mark(NamedTuple):
    """Where a stream was before a token that may belong to a stop sequence, and what came since."""

    token_id: int
    memory: StopMemory
    given: int = 0
    """Code points given out since."""
    given_size: int = 0
    """The same as a size."""
    spared: int = 0
    """Code points decided since that have no byte of the token or a later one."""
    spared_size: int = 0
    """The same as a size."""

    @property
    def decided(self) -> int:
        """How many code points of what is withheld now are before the token; below 0 if given."""
        return len(self.memory.withheld) + self.spared - self.given

    @property
    def size(self) -> int:
        """The same as a size."""
        return size_of(self.memory.withheld) + self.spared_size - self.given_size

    def after(self, out: str) -> Mark:
        """The mark once ``out`` was given out."""
        given, size = self.given + len(out), self.given_size + size_of(out)
        return self._replace(given=given, given_size=size)

    def sparing(self, text: str) -> Mark:
        """The mark once ``text`` was decided, of bytes from before the token."""
        spared, size = self.spared + len(text), self.spared_size + size_of(text)
        return self._replace(spared=spared, spared_size=size)


class StopMemory(NamedTuple):
    """What a stream with stops remembers."""

    core: Memory
    """Of the decode program."""
    pending_ages: tuple[int, ...] = ()
    """Of each byte of the unfinished character, how many tokens ago it came (1: the last token)."""
    waiting_ages: tuple[int, ...] = ()
    """The same, of each token that the decoder holds something of."""
    tails_ages: tuple[tuple[int, ...], ...] = ()
    """The same, of each letter in the tails of text replacements."""
    withheld: str = ""
    """Decided text that was not given out."""
    tail: str = ""
    """The matcher's: the end of the text that may begin a stop."""
    tail_ages: tuple[int, ...] = ()
    """The age of each of its code points."""
    gate: Gate | None = None
    live: tuple[Mark, ...] = ()
    """The last tokens, as far as they may begin a stop sequence."""

    def ages_below(self) -> tuple[int, ...]:
        """The ages of all that the decode program withholds."""
        tails = (age for tail in self.tails_ages for age in tail)
        return (*self.pending_ages, *self.waiting_ages, *tails)


Tails = tuple[tuple[int, ...], ...]


class Outcome(NamedTuple):
    """What a token did."""

    text: str
    """Text that may go out."""
    memory: StopMemory
    hit: Hit | None = None
    """The stop string that is complete; its ``end`` counts from the first code point of ``text``
    and what was withheld, not from the token's own."""
    age: int = 0
    """How many tokens before this one the stop began."""


class Completed(Exception):  # noqa: N818 (it is control flow, and stays inside)
    """A stop is complete; carries the Outcome, so that it is not stored."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


class StopProgram(Rows):
    """What each token does in each memory, for a decode program and stop conditions."""

    __slots__ = (
        "_after",
        "_beginnings",
        "_given",
        "_is_simple",
        "_jail",
        "_names",
        "_sequences",
        "_until",
        "conditions",
        "decode",
        "never_stored",
        "primed_gate",
        "skipped",
    )

    def __init__(
        self,
        decode: AnyProgram,
        conditions: StopConditions,
        skipped: Mapping[str, int] = MappingProxyType({}),
        *,
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        """``skipped``: the ids of stops and markers that are texts of skipped special tokens."""
        self.decode = decode
        self.conditions = conditions
        self.skipped = skipped
        self._names = {token_id: text for text, token_id in skipped.items()}
        shown = conditions.include_stop_str_in_output
        hidden = () if shown else conditions.stop
        visible = (*conditions.stop, *conditions.visible_stop) if shown else conditions.visible_stop
        self._jail = Jail(hidden, visible)
        after, until = conditions.armed_after, conditions.armed_until
        self._after = Jail([after]) if isinstance(after, str) else None
        self._until = Jail([until]) if isinstance(until, str) else None
        has_gate = after is not None or until is not None
        self.primed_gate = Gate(is_open=after is None) if has_gate else None
        self.never_stored = frozenset(
            [
                *conditions.stop_token_ids,
                *conditions.visible_stop_token_ids,
                *conditions.eos_token_ids,
                *(sequence[0] for sequence in conditions.stop_token_sequences),
                *(marker for marker in (after, until) if isinstance(marker, int)),
                *skipped.values(),
            ]
        )
        self._sequences = frozenset(conditions.stop_token_sequences)
        self._beginnings = frozenset(
            sequence[:size] for sequence in self._sequences for size in range(1, len(sequence))
        )
        core, waiting = None, 0
        if isinstance(decode, Program):
            core, waiting = decode.rest, decode.token_bytes.waiting(decode.rest[0])
            self._given: dict[int, tuple[Chunk, int]] = decode.given
        tails = ((),) * len(core[2]) if core else ()
        rest = StopMemory(core, (), (1,) * waiting, tails, gate=self.primed_gate)
        self._is_simple = isinstance(decode, Program) and not waiting and self.primed_gate is None
        super().__init__(rest, max_entries)

    # --- rows

    def work_out(self, memory: StopMemory, token_id: int) -> tuple[tuple[Chunk, int], StopMemory]:
        """The chunk of ``token_id``, its size, and the memory after it.

        Raises Completed when it completes a stop string, KeyError for an unknown id.
        """
        if memory is self.rest and self._is_simple:
            # Most tokens are whole characters that begin no stop: all programs share their chunks.
            given = self._given.get(token_id) or self._learn(token_id)
            if given is not None:
                if self._jail.firsts.isdisjoint(given[0].text):
                    return given, memory
                return self._begin(memory, given)
        outcome = self.read(memory, token_id)
        if outcome.hit is not None:
            raise Completed(outcome)
        return (Chunk(outcome.text), size_of(outcome.text)), outcome.memory

    def _learn(self, token_id: int) -> tuple[Chunk, int] | None:
        """What a token of whole characters gives at rest, stops aside; None if it is another."""
        assert isinstance(self.decode, Program)
        rest = self.decode.rest
        (text,), core = self.decode.work_out(rest, token_id)
        if not text or core is not rest:
            return None
        given = self._given[token_id] = Chunk(text), size_of(text)
        return given

    def _begin(
        self, memory: StopMemory, given: tuple[Chunk, int]
    ) -> tuple[tuple[Chunk, int], StopMemory]:
        """``work_out`` at rest, by a token of whole characters that may begin a stop."""
        text = given[0].text
        tail, hit = self._jail.step("", text)
        if hit is not None:
            out = text[: hit.end if hit.visible else hit.end - len(hit.stop)]
            raise Completed(Outcome(out, memory, hit))
        if not tail:
            return given, memory
        withheld = self._jail.jailed(tail)
        after = memory._replace(withheld=withheld, tail=tail, tail_ages=(1,) * len(tail))
        if not withheld:
            return given, after
        out = text[: len(text) - len(withheld)]
        return (Chunk(out) if out else NOTHING, size_of(out)), after

    def is_cached(self, memory: StopMemory) -> bool:
        """Not for what one stream alone would use."""
        if not isinstance(self.decode, Program) or memory.live:
            return False
        ages = (*memory.tail_ages, *memory.ages_below())
        opened = memory.gate.opened if memory.gate else 0
        return max((*ages, opened)) <= MAX_CACHED_AGE and self.decode.is_cached(memory.core)

    # --- what a token does

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> StopMemory:
        """The memory after a prompt. A stop does not begin in it."""
        core = self.decode.prime(prompt_token_ids)
        if not isinstance(self.decode, Program):
            return StopMemory(core, gate=self.primed_gate)
        # What a prompt began is as old as a token before the first.
        pending = (1,) * len(core[1])
        waiting = (1,) * self.decode.token_bytes.waiting(core[0])
        core = self._settled(core)
        tails = tuple((1,) * len(tail) for tail in core[2])
        return StopMemory(core, pending, waiting, tails, gate=self.primed_gate)

    def read(
        self, memory: StopMemory, token_id: int, *, ignore: bool = False, unknown: bool = False
    ) -> Outcome:
        """What ``token_id`` does as text: never as an id that stops.

        With ``ignore``, stops that are complete are ordinary text. KeyError: an unknown id, unless
        ``unknown`` says that it is to be shown as the options have it.
        """
        if unknown:
            text, core = self.decode.unknown(memory.core)
        elif isinstance(self.decode, Program):
            (text,), core = self.decode.work_out(memory.core, token_id)
        else:
            text, core = self.decode.transition(memory.core, token_id)
        core = self._settled(core)
        plain = self._is_plain(memory, text)
        if plain and self._is_simple and core is self.rest.core:
            return Outcome(text, self.rest)
        letters, lasts, pending, waiting, tails = self._ages_after(memory, core, token_id, text)
        after = memory._replace(
            core=core, pending_ages=pending, waiting_ages=waiting, tails_ages=tails
        )
        if plain:
            return Outcome(text, after)
        if memory.live:
            after = after._replace(live=_spared(memory.live, text, lasts))
        return self._match(after, text, letters, ignore=ignore)

    def _is_plain(self, memory: StopMemory, text: str) -> bool:
        """Whether ``text`` goes out as it is and leaves no trace in the matcher."""
        return (
            not memory.tail
            and not memory.withheld
            and memory.gate is None
            and not memory.live
            and self._jail.firsts.isdisjoint(text)
        )

    def _settled(self, core: Memory) -> Memory:
        """A decode memory without its offsets, of which a stream with stops has no use."""
        if not isinstance(self.decode, Program) or core is self.decode.rest:
            return core
        core = (*core[:3], 1, 0)
        return self.decode.rest if core == self.decode.rest else core

    def _ages_after(
        self, memory: StopMemory, core: Memory, token_id: int, text: str
    ) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], Tails]:
        """Of each letter of ``text`` the ages of its first and its last byte (0: this token).

        And, one token on, the ages of what waits: the unfinished character, tokens, rewritten text.
        """
        if not isinstance(self.decode, Program):
            # A window cannot say; since its text was last wholly out is never too late.
            new = (self.decode.offsets(memory.core)[1],) * len(text)
            return new, new, (), (), ()
        rewrites = self.decode.rewrites
        if not (memory.pending_ages or memory.waiting_ages or rewrites):
            # Nothing was withheld below: all of it is this token's.
            waiting = self.decode.token_bytes.waiting(core[0])
            new = (0,) * len(text)
            return new, new, (1,) * len(core[1]), (1,) * waiting, ()
        found = self.decode.contribution(memory.core, token_id)
        data, waiting = found["data"], found["waiting"]
        carried = _shared_out(memory.waiting_ages, len(data) - found["own"])
        ages = (*memory.pending_ages, *carried, *(0,) * found["own"])
        rest = len(core[1])
        pending = tuple(age + 1 for age in ages[len(ages) - rest :]) if rest else ()
        held = memory.waiting_ages
        among = (*held, 0) if found["contributes"] else held
        waits = tuple(age + 1 for age in among[len(among) - waiting :]) if waiting else ()
        place, first, last, raw = 0, [], [], ""
        decided = utf8.spans(memory.core[1] + data, self.decode.token_bytes.errors)
        for width, letter in decided:
            first.append(ages[place])
            place, raw = place + width, raw + letter
            last.append(ages[place - 1])
        if not rewrites:
            return tuple(first), tuple(last), pending, waits, ()
        letters, tails = self.decode.trace(memory.core, raw, memory.tails_ages, tuple(first))
        return letters, letters, pending, waits, tuple(_older(each) for each in tails)

    # --- matching

    def _match(
        self, memory: StopMemory, text: str, letters: tuple[int, ...], *, ignore: bool
    ) -> Outcome:
        """Lets ``text``, the letters of which are so old, through the gate and the matcher."""
        withheld = memory.withheld + text
        tail, tail_ages, gate = memory.tail, memory.tail_ages, memory.gate
        place = 0
        while True:
            armed_from = place + self._shielded(gate, letters[place:])
            part = text[armed_from:]
            if gate is not None and not gate.is_open:
                opened = self._marker(self._after, gate.tail, part)
                if not isinstance(opened, Hit):
                    gate, tail, tail_ages = gate._replace(tail=opened), "", ()
                    break
                place, gate = armed_from + opened.end, Gate(is_open=True)
                tail, tail_ages = "", ()
                continue
            closed: Hit | str = ""
            if gate is not None:
                closed = self._marker(self._until, gate.tail, part)
            ages = (*tail_ages, *letters[armed_from:])
            after, hit = self._jail.step(tail, part, ignore=ignore)
            if hit is not None and not (isinstance(closed, Hit) and closed.end < hit.end):
                return self._completed(memory, withheld, text, armed_from, hit, ages, len(tail))
            if isinstance(closed, Hit):
                place, gate = armed_from + closed.end, Gate(is_open=False)
                tail, tail_ages = "", ()
                continue
            tail, tail_ages = after, ages[len(ages) - len(after) :]
            if gate is not None and isinstance(closed, str):
                gate = gate._replace(tail=closed)
            break
        live = memory.live if gate is None or gate.is_open else ()
        kept = len(self._jail.jailed(tail))
        if live and not self.conditions.include_stop_str_in_output:
            kept = max(kept, len(withheld) - live[0].decided)
        out = withheld[: len(withheld) - kept]
        return Outcome(
            out,
            memory._replace(
                withheld=withheld[len(out) :],
                tail=tail,
                tail_ages=tuple(age + 1 for age in tail_ages),
                gate=self._gate_after(memory, gate),
                live=tuple(mark.after(out) for mark in live),
            ),
        )

    def _completed(
        self,
        memory: StopMemory,
        withheld: str,
        text: str,
        armed_from: int,
        hit: Hit,
        ages: tuple[int, ...],
        tail: int,
    ) -> Outcome:
        end = len(withheld) - len(text) + armed_from + hit.end
        start = end - len(hit.stop)
        out = withheld[: end if hit.visible else max(start, 0)]
        age = ages[tail + hit.end - len(hit.stop)]
        return Outcome(out, memory, hit._replace(end=end), age)

    @staticmethod
    def _marker(jail: Jail | None, tail: str, text: str) -> Hit | str:
        """Where the marker is complete, or what may begin it."""
        if jail is None:
            return ""
        after, hit = jail.step(tail, text)
        return after if hit is None else hit

    @staticmethod
    def _shielded(gate: Gate | None, letters: tuple[int, ...]) -> int:
        """How many letters began before an id opened the gate."""
        if gate is None or not gate.opened:
            return 0
        return sum(age >= gate.opened for age in letters)

    @staticmethod
    def _gate_after(memory: StopMemory, gate: Gate | None) -> Gate | None:
        if gate is None or not gate.opened:
            return gate
        opened = gate.opened + 1
        waits = max(memory.ages_below(), default=0)
        return gate._replace(opened=opened if waits >= opened else 0)

    # --- the end

    def release(self, memory: StopMemory, *, ignore: bool = False) -> Outcome:
        """What comes out because nothing follows; it may complete a stop.

        ``age`` counts as if it came out with the next token.
        """
        text, core = self.decode.flush(memory.core)
        letters = self._released_ages(memory, text)
        outcome = self._match(memory._replace(core=core, live=()), text, letters, ignore=ignore)
        return outcome if outcome.hit is not None else _emptied(outcome)

    def _released_ages(self, memory: StopMemory, text: str) -> tuple[int, ...]:
        """The ages of the letters that ``decode.flush`` gives."""
        if not isinstance(self.decode, Program):
            return (max(self.decode.offsets(memory.core)[1], 1),) * len(text)
        machine = self.decode.token_bytes
        data = machine.flush(memory.core[0])
        known = (*memory.pending_ages, *_shared_out(memory.waiting_ages, len(data)))
        ages, place, raw = [], 0, ""
        for width, letter in utf8.spans(memory.core[1] + data, machine.errors, final=True):
            ages.append(known[place])
            place, raw = place + width, raw + letter
        if not self.decode.rewrites:
            return tuple(ages)
        return self.decode.trace(memory.core, raw, memory.tails_ages, tuple(ages), final=True)[0]

    def with_last_token(
        self, memory: StopMemory, token_id: int, *, shown: bool, unknown: bool
    ) -> tuple[Outcome, str]:
        """What came before a token that ends the stream by its id; and the token's own text.

        What came before comes out, and may complete a stop. Of the token's own text nothing is
        matched; it is "" unless it is to be ``shown``. It begins with a character that an earlier
        token began, so many tokens ago as the outcome's ``age`` says.
        """
        if not shown:
            return self.release(memory), ""
        before, letters, own, age = self._parted(memory, token_id, unknown=unknown)
        outcome = self._match(memory._replace(live=()), before, letters, ignore=False)
        if outcome.hit is not None:
            return outcome, ""
        return _emptied(outcome)._replace(age=age), own

    def _parted(
        self, memory: StopMemory, token_id: int, *, unknown: bool
    ) -> tuple[str, tuple[int, ...], str, int]:
        """The text before a last token, the ages of its letters; the token's text, its age."""
        decode = self.decode
        if unknown:
            text, core = decode.unknown(memory.core)
        else:
            text, core = decode.transition(memory.core, token_id)
        text += decode.flush(core)[0]
        if not isinstance(decode, Program) or decode.rewrites:
            return "", (), text, 0
        found, machine = decode.contribution(memory.core, token_id), decode.token_bytes
        held, released = memory.waiting_ages, machine.flush(core[0])
        carried = _shared_out(held, len(found["data"]) - found["own"])
        among = (*held, 0) if found["contributes"] else held
        among = among[len(among) - found["waiting"] :]
        ages = (*memory.pending_ages, *carried, *(0,) * found["own"])
        ages += _shared_out(among, len(released))
        data, place = memory.core[1] + found["data"] + released, 0
        letters: list[int] = []
        for width, _ in utf8.spans(data, machine.errors, final=True):
            if not ages[place + width - 1]:  # the first letter that has a byte of the token
                return text[: len(letters)], tuple(letters), text[len(letters) :], ages[place]
            letters.append(ages[place])
            place += width
        return text, tuple(letters), "", 0

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``, as far as it can tell."""
        return self.decode.knows(token_id)

    # --- ids

    def stop_named(self, memory: StopMemory, token_id: int) -> tuple[StopReason, bool] | None:
        """The stop that ``token_id`` is by itself, and whether it is hidden; None if it is none."""
        conditions = self.conditions
        if self.armed(memory):
            text = self._names.get(token_id)
            if token_id in conditions.stop_token_ids:
                return token_id, True
            if text in conditions.stop:
                return text, True
            if token_id in conditions.visible_stop_token_ids:
                return token_id, False
            if text in conditions.visible_stop:
                return text, False
        if token_id in conditions.eos_token_ids and not conditions.ignore_eos:
            return None, True
        return None

    def armed(self, memory: StopMemory) -> bool:
        """Whether strings, ids and sequences may stop the stream now."""
        return memory.gate is None or memory.gate.is_open

    def marks(self, memory: StopMemory, token_id: int) -> tuple[Mark, ...]:
        """The tokens that may begin a sequence, ``token_id`` among them."""
        if not self._beginnings or not self.armed(memory):
            return ()
        marks = self._with(memory, token_id)
        ids = tuple(mark.token_id for mark in marks)
        for start in range(len(ids)):
            if ids[start:] in self._beginnings:
                return marks[start:]
        return ()

    def sequence(self, memory: StopMemory, token_id: int) -> tuple[Mark, ...]:
        """The tokens of the longest sequence that ``token_id`` completes; () if none."""
        if not self._sequences or not self.armed(memory):
            return ()
        marks = self._with(memory, token_id)
        ids = tuple(mark.token_id for mark in marks)
        for start in range(len(ids)):
            if ids[start:] in self._sequences:
                return marks[start:]
        return ()

    @staticmethod
    def _with(memory: StopMemory, token_id: int) -> tuple[Mark, ...]:
        return (*memory.live, Mark(token_id, memory._replace(live=())))

    def toggle(self, memory: StopMemory, token_id: int, *, unknown: bool) -> Outcome | None:
        """What ``token_id`` does as the id that opens or closes the gate; None if it is not."""
        gate, conditions = memory.gate, self.conditions
        if gate is None:
            return None
        marker = conditions.armed_until if gate.is_open else conditions.armed_after
        if marker is None or marker not in (token_id, self._names.get(token_id)):
            return None
        # The token's own text is neither matched nor jailed, and what was jailed is released.
        asleep = memory._replace(
            gate=Gate(is_open=False), withheld="", tail="", tail_ages=(), live=()
        )
        outcome = self.read(asleep._replace(gate=None), token_id, ignore=True, unknown=unknown)
        begun = bool(outcome.memory.ages_below())
        after = Gate(is_open=not gate.is_open, opened=int(begun and not gate.is_open))
        return Outcome(
            memory.withheld + outcome.text + outcome.memory.withheld,
            outcome.memory._replace(gate=after, withheld="", tail="", tail_ages=()),
        )

    # --- JSON

    def dump(self, memory: StopMemory) -> dict[str, Any]:
        """``memory`` as JSON; what is as at rest is left out."""
        rest = self.rest
        found: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in memory._asdict().items()
            if name not in ("core", "live") and value != getattr(rest, name)
        }
        core = self.decode.dump(memory.core)
        if core:
            found["core"] = core
        if memory.live:
            found["live"] = [
                [mark.token_id, self.dump(mark.memory), *mark[2:]] for mark in memory.live
            ]
        return found

    def load(self, data: Any, *, is_mark: bool = False) -> StopMemory:
        """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none.

        ``is_mark``: it is of a mark, and may withhold what waits for a sequence that began before.
        """
        known = {*StopMemory._fields}
        if not data.keys() <= known:
            raise ValueError(f"unexpected {sorted(map(str, data.keys() - known))}")
        rest = self.rest
        core = self._settled(self.decode.load(data.get("core", {})))
        live = tuple(
            Mark(check_token_id(token_id), self.load(before, is_mark=True), *_numbers(counts))
            for token_id, before, *counts in data.get("live", [])
        )
        gate = data.get("gate", rest.gate)
        if isinstance(gate, list):
            gate = Gate(_flag(gate[0]), _text(gate[1]), _number(gate[2]))
        memory = StopMemory(
            core,
            _numbers(data.get("pending_ages", rest.pending_ages)),
            _numbers(data.get("waiting_ages", rest.waiting_ages)),
            tuple(_numbers(each) for each in data.get("tails_ages", rest.tails_ages)),
            _text(data.get("withheld", "")),
            _text(data.get("tail", "")),
            _numbers(data.get("tail_ages", ())),
            gate,
            live,
        )
        self._check(memory, is_mark=is_mark)
        return memory

    def _tails_fit(self, memory: StopMemory) -> bool:
        tails = memory.core[2] if isinstance(self.decode, Program) else ()
        return [len(tail) for tail in tails] == [len(ages) for ages in memory.tails_ages]

    def _check(self, memory: StopMemory, *, is_mark: bool) -> None:
        """Raises ValueError for a memory that no stream can have."""
        gate = memory.gate
        pending = len(memory.core[1]) if isinstance(self.decode, Program) else 0
        for holds, what in (
            (len(memory.pending_ages) == pending, "pending_ages"),
            (len(memory.tail_ages) == len(memory.tail), "tail_ages"),
            (self._tails_fit(memory), "tails_ages"),
            (self._jail.is_tail(memory.tail), "tail"),
            ((gate is None) == (self.primed_gate is None), "gate"),
            (
                is_mark or memory.live or memory.withheld == self._jail.jailed(memory.tail),
                "withheld",
            ),
            (gate is None or gate.is_open or not memory.tail, "tail behind a closed gate"),
            (len(memory.live) <= max(map(len, self._beginnings), default=0), "live"),
        ):
            if not holds:
                raise ValueError(f"{what} cannot be so under these conditions")


def _spared(live: tuple[Mark, ...], text: str, lasts: tuple[int, ...]) -> tuple[Mark, ...]:
    """The marks; letters of ``text`` with no byte from a mark's token on count as before it."""
    ages = range(len(live) - 1, -1, -1)
    return tuple(
        mark.sparing(text[: sum(last > age for last in lasts)])
        for mark, age in zip(live, ages, strict=True)
    )


def _shared_out(waiting: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The ages of ``size`` bytes of tokens that waited, which gave them in equal parts.

    The first may have given less: bytes are only ever removed at the front.
    """
    if not (size and waiting):
        return (1,) * size
    part = -(-size // len(waiting))
    return tuple(age for age in waiting for _ in range(part))[-size:]


def _older(ages: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(age + 1 for age in ages)


def _emptied(outcome: Outcome) -> Outcome:
    """The outcome with all that was withheld given out."""
    memory = outcome.memory
    return Outcome(
        outcome.text + memory.withheld,
        memory._replace(withheld="", tail="", tail_ages=(), pending_ages=(), waiting_ages=()),
    )


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 2**100:
        raise ValueError(f"expected a number, got {value!r:.40}")
    return value


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(_number(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r:.40}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r:.40}")
    return value
