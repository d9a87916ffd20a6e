"""The program of a stream with stops: ids to text to text that may go out, remembered in rows.

Below it is a decode program (ids to text), beside it the matcher (:mod:`streamdec.core.jail`). An
entry is the chunk, the count of what the token adds (:mod:`streamdec.core.counting`), and the next
row. A token that completes a stop, and tokens that may do so by their id, are never stored: the hot
path of a stream does not ask whether it is finished.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import SupportsIndex, TypeAlias

from streamdec.chunks import Chunk, StopReason
from streamdec.core import ages
from streamdec.core.counting import size_of, tally_of
from streamdec.core.jail import Hit, Jail, proper_prefix_test
from streamdec.core.matcher import matcher
from streamdec.core.program import Program
from streamdec.core.programs import AnyProgram
from streamdec.core.rows import MAX_ENTRIES, Entry, Memory, Rows
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_memory import Ages, Completed, Gate, Mark, Outcome, StopMemory
from streamdec.core.stop_pattern import read_patterns

__all__ = ["NOTHING", "StopProgram"]

NOTHING = Chunk()
"""What most tokens of a withheld stop give."""

MAX_CACHED_AGE = 64
"""Rows are cached for streams that withhold nothing older than so many tokens."""

PATTERN_WEIGHT = 4_096
"""A compiled pattern of the most parts takes half a megabyte, 4,096 entries."""

StopEntry: TypeAlias = tuple[Chunk, float, None]


def _entry(text: str) -> StopEntry:
    """The entry of one token that lets ``text`` out."""
    return Chunk(text) if text else NOTHING, tally_of(text), None


class StopProgram(Rows):
    """What each token does in each memory, for a decode program and stop conditions."""

    __slots__ = (
        "_after",
        "_begins",
        "_given",
        "_is_simple",
        "_jail",
        "_most_live",
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
        patterns = read_patterns(conditions.stop_regex, conditions.max_hold)
        self._jail = matcher(hidden, visible, patterns, shown=shown)
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
        self._most_live = max((len(sequence) - 1 for sequence in self._sequences), default=0)
        self._begins = proper_prefix_test(self._sequences)
        core, waiting = None, 0
        if isinstance(decode, Program):
            core, waiting = decode.rest, decode.token_bytes.waiting(decode.rest[0])
        tails = ((),) * len(core[2]) if core else ()
        rest = StopMemory(core, (), (1,) * waiting, tails, gate=self.primed_gate)
        # Most tokens are whole characters that begin no stop: what those do at rest is shared.
        self._given: dict[int, StopEntry] = {}
        self._is_simple = isinstance(decode, Program) and not waiting and self.primed_gate is None
        if isinstance(decode, Program) and self._is_simple:
            self._given = decode.given
        super().__init__(rest, max_entries)
        stops = (*conditions.stop, *conditions.visible_stop, *conditions.stop_token_sequences)
        self.weight = sum(map(len, stops)) // 2 + PATTERN_WEIGHT * len(conditions.stop_regex)

    # --- rows

    def work_out(self, memory: StopMemory, token_id: int) -> tuple[StopEntry, StopMemory]:
        """See Rows. Raises Completed when a stop string is complete, KeyError for an unknown id."""
        if self._is_simple and memory.core is self.rest.core and not memory.live:
            whole = self._given.get(token_id) or self._learn(token_id)
            found = whole and self._match_whole(memory, whole)
            if found:
                return found
        outcome = self.read(memory, token_id)
        if outcome.hit is not None:
            raise Completed(outcome)
        return _entry(outcome.text), outcome.memory

    def borrow(self, token_id: int) -> Entry:
        """See Rows."""
        entry = self._given[token_id]
        if token_id in self.never_stored:
            raise LookupError
        if self._jail.firsts.isdisjoint(entry[0].text):
            return entry
        return self.entry(self.dense, token_id)

    def _learn(self, token_id: int) -> StopEntry | None:
        """What a token of whole characters gives at rest, stops aside; None if it is another."""
        assert isinstance(self.decode, Program)
        rest = self.decode.rest
        (text, _), core = self.decode.work_out(rest, token_id)
        if not text or core is not rest:
            return None
        entry = self._given[token_id] = _entry(text)
        return entry

    def _match_whole(
        self, memory: StopMemory, whole: StopEntry
    ) -> tuple[StopEntry, StopMemory] | None:
        """``read`` for a token of whole characters where nothing but a tail is remembered.

        Nearly all entries are of this kind. None if it completes a stop.
        """
        text = whole[0].text
        if not memory.tail and self._jail.firsts.isdisjoint(text):
            return whole, memory
        tail, hit = self._jail.step(memory.tail, text)
        if hit is not None:
            return None
        before = len(memory.withheld)
        out = memory.withheld + text if before else text
        if not tail:
            return _entry(out) if before else whole, self.rest
        withheld = self._jail.jailed(tail)
        ages = (1,) * len(tail)
        if len(tail) > len(text):
            older = memory.tail_ages[len(text) - len(tail) :]
            ages = (*[age + 1 for age in older], *(1,) * len(text))
        after = StopMemory(
            memory.core, (), (), memory.tails_ages, withheld, tail, ages, memory.gate, ()
        )
        if withheld:
            return _entry(out[: -len(withheld)]), after
        return _entry(out) if before else whole, after

    def is_cached(self, memory: StopMemory) -> bool:
        """Not for what one stream alone would use."""
        if not isinstance(self.decode, Program) or memory.live:
            return False
        if memory.tail and not self._jail.is_cacheable:
            return False
        if memory.core is self.rest.core and memory.gate is None:
            return not memory.tail_ages or memory.tail_ages[0] <= MAX_CACHED_AGE  # the oldest
        opened = memory.gate.opened if memory.gate else 0
        oldest = max((*memory.tail_ages, *memory.ages_below(), opened))
        return oldest <= MAX_CACHED_AGE and self.decode.is_cached(memory.core)

    # --- what a token does

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> StopMemory:
        """The memory after a prompt. A stop does not begin in it."""
        core: Memory = self.settled(self.decode.prime(prompt_token_ids))
        if not isinstance(self.decode, Program):
            return StopMemory(core, gate=self.primed_gate)
        # What a prompt began is as old as a token before the first.
        pending = (1,) * len(core[1])
        waiting = (1,) * self.decode.token_bytes.waiting(core[0])
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
            (text, _), core = self.decode.work_out(memory.core, token_id)
        else:
            text, core = self.decode.transition(memory.core, token_id)
        core = self.settled(core)
        plain = self._is_plain(memory, text)
        if plain and self._is_simple and core is self.rest.core:
            return Outcome(text, self.rest)
        traced = ages.traced(self.decode, memory, core, token_id, text)
        after = memory._replace(
            core=core,
            pending_ages=traced.pending,
            waiting_ages=traced.waiting,
            tails_ages=traced.tails,
        )
        if plain:
            return Outcome(text, after)
        if memory.live:
            after = after._replace(live=ages.spared(memory.live, text, traced.lasts))
        return self._match(after, text, traced.firsts, ignore=ignore)

    def _is_plain(self, memory: StopMemory, text: str) -> bool:
        """Whether ``text`` goes out as it is and leaves no trace in the matcher."""
        return (
            not memory.tail
            and not memory.withheld
            and memory.gate is None
            and not memory.live
            and self._jail.firsts.isdisjoint(text)
        )

    def settled(self, core: Memory) -> Memory:
        """A decode memory without its offsets, of which a stream with stops has no use."""
        if not isinstance(self.decode, Program) or core is self.decode.rest:
            return core
        core = (*core[:3], 1, 0)
        return self.decode.rest if core == self.decode.rest else core

    # --- matching

    def _match(self, memory: StopMemory, text: str, letters: Ages, *, ignore: bool) -> Outcome:
        """Lets ``text``, the letters of which are so old, through the gate and the matcher."""
        withheld, live = memory.withheld + text, memory.live
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
            known = (*tail_ages, *letters[armed_from:])
            after, hit = self._jail.step(tail, part, ignore=ignore)
            if hit is not None and not (isinstance(closed, Hit) and closed.end < hit.end):
                return self._completed(memory, withheld, text, armed_from, hit, known, len(tail))
            if isinstance(closed, Hit):
                place, gate = armed_from + closed.end, Gate(is_open=False)
                tail, tail_ages, live = "", (), ()
                continue
            tail, tail_ages = after, known[len(known) - len(after) :]
            if gate is not None and isinstance(closed, str):
                gate = gate._replace(tail=closed)
            break
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
        known: Ages,
        tail: int,
    ) -> Outcome:
        end = len(withheld) - len(text) + armed_from + hit.end
        start = end - hit.size
        out = withheld[: end if hit.visible else max(start, 0)]
        age = known[tail + hit.end - hit.size]
        return Outcome(out, memory, hit._replace(end=end), age)

    @staticmethod
    def _marker(jail: Jail | None, tail: str, text: str) -> Hit | str:
        """Where the marker is complete, or what may begin it."""
        if jail is None:
            return ""
        after, hit = jail.step(tail, text)
        return after if hit is None else hit

    @staticmethod
    def _shielded(gate: Gate | None, letters: Ages) -> int:
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
        letters = ages.released(self.decode, memory, text)
        outcome = self._match(memory._replace(core=core, live=()), text, letters, ignore=ignore)
        return outcome if outcome.hit is not None else outcome.emptied()

    def with_last_token(
        self,
        memory: StopMemory,
        token_id: int,
        *,
        shown: bool,
        unknown: bool,
        sequence: tuple[Mark, ...] = (),
    ) -> tuple[Outcome, str, int]:
        """What came before a token that ends the stream by its id; and the token's own text.

        What came before comes out, and may complete a stop. Of the token's own text nothing is
        matched; it is "" unless it is to be ``shown``. It begins with a character that an earlier
        token began, so many tokens ago as the outcome's ``age`` says. Third comes how much of both
        is before the stop: the token, or the ``sequence`` that it completes.
        """
        if not shown:
            before = self.release(memory)
            return before, "", size_of(before.text)
        text = ages.parted(self.decode, memory, token_id, unknown=unknown)
        outcome = self._match(memory._replace(live=()), text.before, text.firsts, ignore=False)
        if outcome.hit is not None:
            return outcome, "", 0
        outcome = outcome.emptied()._replace(age=text.age)
        if not sequence:
            return outcome, text.own, size_of(outcome.text)
        first = ages.spared(sequence, text.before, text.lasts)[0]
        # What was unfinished before its first token, and not broken off, is its first character.
        shared = 0 if first.spared else max(first.memory.pending_ages, default=0)
        return outcome._replace(age=len(sequence) - 1 + shared), text.own, first.size

    # --- ids

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``, as far as it can tell."""
        return self.decode.knows(token_id)

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
        if not self._most_live or not self.armed(memory):
            return ()
        marks = self._with(memory, token_id)
        ids = tuple(mark.token_id for mark in marks)
        for start in range(len(ids)):
            if self._begins(ids[start:]):
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

    def replay(self, memory: StopMemory, token_ids: Iterable[int]) -> StopMemory:
        """The memory after tokens that may begin a sequence; no stop is complete in them."""
        for token_id in token_ids:
            marked = memory._replace(live=self.marks(memory, token_id))
            unknown = not self.knows(token_id)
            memory = self.read(marked, token_id, ignore=True, unknown=unknown).memory
        return memory

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

    # --- what is possible

    def jailed(self, tail: str) -> str:
        """What must be withheld of a matcher's tail."""
        return self._jail.jailed(tail)

    def waiting(self, core: Memory) -> tuple[int, int]:
        """How many bytes of an unfinished character, and how many tokens, wait in ``core``."""
        if not isinstance(self.decode, Program):
            return 0, 0
        return len(core[1]), self.decode.token_bytes.waiting(core[0])

    def first_problem(self, memory: StopMemory, num_tokens: int) -> str:
        """The field of a memory from outside that no stream can have; "" if all is well.

        The memory is of ``num_tokens`` tokens, and of none that may begin a sequence.
        """
        gate, jail = memory.gate, self._jail
        pending, waiting = self.waiting(memory.core)
        tails = memory.core[2] if isinstance(self.decode, Program) else ()
        all_ages = (*memory.ages_below(), *memory.tail_ages)
        checks: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("ages", lambda: all(0 < age <= num_tokens + 1 for age in all_ages)),
            ("pending_ages", lambda: len(memory.pending_ages) == pending),
            ("waiting_ages", lambda: len(memory.waiting_ages) == waiting),
            ("tails_ages", lambda: [*map(len, tails)] == [*map(len, memory.tails_ages)]),
            ("gate", lambda: (gate is None) == (self.primed_gate is None)),
            ("gate", lambda: gate is None or self._is_gate(gate)),
            ("tail behind a closed gate", lambda: not (memory.tail and gate and not gate.is_open)),
            ("tail", lambda: jail.is_tail(memory.tail)),
            ("tail_ages", lambda: len(memory.tail_ages) == len(memory.tail)),
            ("withheld", lambda: memory.withheld == jail.jailed(memory.tail)),
        )
        return next((field for field, holds in checks if not holds()), "")

    def _is_gate(self, gate: Gate) -> bool:
        marker = self._until if gate.is_open else self._after
        return not gate.tail or (marker is not None and marker.is_tail(gate.tail))
