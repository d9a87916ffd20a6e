"""The program of a stream with stops: ids to text to text that may go out, remembered in rows.

Below it is a decode program (ids to text), beside it the matcher behind its gate
(:mod:`streamdec.core.gated_matcher`). An entry is the chunk, the tally of what the token adds
(:mod:`streamdec.core.counting`), and the next row. A token that completes a stop, and tokens that
may do so by their id, are never stored: the hot path of a stream does not ask whether it is
finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, StopReason, Withheld, chunk_of
from streamdec.core import ages
from streamdec.core.counting import tally_of
from streamdec.core.gated_matcher import GatedMatcher
from streamdec.core.id_sequences import IdSequences
from streamdec.core.matcher import matcher
from streamdec.core.programs import AnyProgram
from streamdec.core.rows import MAX_ENTRIES, Entry, Memory, Rows
from streamdec.core.stop_conditions import StopConditions
from streamdec.core.stop_memory import Completed, Gate, Mark, Outcome, StopMemory
from streamdec.core.stop_pattern import read_patterns

__all__ = ["StopProgram"]

MAX_CACHED_AGE = 64
"""Rows are cached for streams that withhold nothing older than so many tokens."""

PATTERN_WEIGHT = 4_096
"""A compiled pattern of the most parts takes half a megabyte, 4,096 entries."""

StopEntry: TypeAlias = tuple[Chunk, float, None]


def _entry(text: str) -> StopEntry:
    """The entry of one token that lets ``text`` out."""
    return chunk_of(text) if text else NOTHING, tally_of(text), None


class StopProgram(Rows):
    """What each token does in each memory, for a decode program and stop conditions."""

    __slots__ = (
        "_given",
        "_is_simple",
        "_names",
        "_sequences",
        "conditions",
        "decode",
        "gated",
        "never_stored",
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
        self._names = {token_id: text for text, token_id in skipped.items()}
        shown = conditions.include_stop_str_in_output
        hidden = () if shown else conditions.stop
        visible = (*conditions.stop, *conditions.visible_stop) if shown else conditions.visible_stop
        patterns = read_patterns(conditions.stop_regex, conditions.max_match_length)
        found = matcher(hidden, visible, patterns, shown=shown)
        after, until = conditions.enable_stops_after, conditions.disable_stops_after
        self.gated = GatedMatcher(found, after, until, self._names, holds_for_ids=not shown)
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
        self._sequences = IdSequences(conditions.stop_token_sequences)
        rest = self._begun(decode.rest)
        # Most tokens are whole characters that begin no stop: what those do at rest is shared.
        has_rest = decode.rest is not None
        self._is_simple = has_rest and not rest.waiting_ages and rest.gate is None
        self._given: dict[int, StopEntry] = decode.given if self._is_simple else {}
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
        if self.gated.matcher.firsts.isdisjoint(entry[0].text):
            return entry
        return self.entry(self.dense, token_id)

    def _learn(self, token_id: int) -> StopEntry | None:
        """What a token of whole characters gives at rest, stops aside; None if it is another."""
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
        if not memory.tail and self.gated.matcher.firsts.isdisjoint(text):
            return whole, memory
        tail, hit = self.gated.matcher.step(memory.tail, text)
        if hit is not None:
            return None
        before = len(memory.withheld)
        out = memory.withheld + text if before else text
        if not tail:
            return _entry(out) if before else whole, self.rest
        withheld = self.gated.matcher.jailed(tail)
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
        if memory.live or self.decode.rest is None:
            return False
        if memory.tail and not self.gated.matcher.is_cacheable:
            return False
        if memory.core is self.rest.core and memory.gate is None:
            return not memory.tail_ages or memory.tail_ages[0] <= MAX_CACHED_AGE  # the oldest
        turned = memory.gate.turned if memory.gate else 0
        oldest = max((*memory.tail_ages, *memory.ages_below(), turned))
        return oldest <= MAX_CACHED_AGE and self.decode.is_cached(memory.core)

    def measure(self, memory: StopMemory) -> Withheld:
        """See Rows."""
        size, characters = len(self.decode.held(memory.core)), len(memory.withheld)
        waits = ages.longest_wait(self.decode, memory) if size else 0
        if characters > len(memory.tail):  # what may begin a sequence: those are the last tokens
            waits = max(waits, len(memory.live))
        if characters:
            waits = max(waits, *memory.tail_ages[-characters:], 0)
        return Withheld(size, characters, waits)

    # --- what a token does

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> StopMemory:
        """The memory after a prompt. A stop does not begin in it."""
        return self._begun(self.decode.settled(self.decode.prime(prompt_token_ids)))

    def _begun(self, core: Memory) -> StopMemory:
        """The memory of a stream that begins with ``core``; what waits is of a token before it."""
        waiting = self.decode.waiting(core)
        return StopMemory(
            core,
            (1,) * waiting.data,
            (1,) * waiting.tokens,
            tuple((1,) * size for size in waiting.tails),
            gate=self.gated.primed_gate,
        )

    def read(
        self, memory: StopMemory, token_id: int, *, ignore: bool = False, unknown: bool = False
    ) -> Outcome:
        """What ``token_id`` does as text: never as an id that stops.

        With ``ignore``, stops that are complete are ordinary text. KeyError: an unknown id, unless
        ``unknown`` says that it is to be shown as the options have it.
        """
        if unknown:
            text, core = self.decode.unknown(memory.core)
        else:
            (text, _), core = self.decode.work_out(memory.core, token_id)
        core = self.decode.settled(core)
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
        return self.gated.match(after, text, traced.firsts, ignore=ignore)

    def _is_plain(self, memory: StopMemory, text: str) -> bool:
        """Whether ``text`` goes out as it is and leaves no trace in the matcher."""
        return (
            not memory.tail
            and not memory.withheld
            and memory.gate is None
            and not memory.live
            and self.gated.matcher.firsts.isdisjoint(text)
        )

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

    def sequences(
        self, memory: StopMemory, token_id: int
    ) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
        """The last tokens that are a sequence, and those that may begin one; () if there are none.

        ``token_id`` is the last of them.
        """
        return self._sequences.after(memory, token_id) if self.armed(memory) else ((), ())

    def replay(self, memory: StopMemory, token_ids: Iterable[int]) -> StopMemory:
        """The memory after tokens that may begin a sequence; no stop is complete in them."""
        for token_id in token_ids:
            _, begun = self.sequences(memory, token_id)
            marked = memory._replace(live=begun)
            unknown = not self.knows(token_id)
            memory = self.read(marked, token_id, ignore=True, unknown=unknown).memory
        return memory

    def toggle(self, memory: StopMemory, token_id: int, *, unknown: bool) -> Outcome | None:
        """What ``token_id`` does as the id that opens or closes the gate; None if it is not."""
        gate = memory.gate
        if gate is None or not self.gated.is_turned_by(gate, token_id):
            return None
        # The token's own text is neither matched nor jailed, and what was jailed is released.
        asleep = memory._replace(
            gate=Gate(is_open=False), withheld="", tail="", tail_ages=(), live=()
        )
        outcome = self.read(asleep._replace(gate=None), token_id, ignore=True, unknown=unknown)
        begun = bool(outcome.memory.ages_below())
        after = Gate(is_open=not gate.is_open, turned=int(begun))
        return Outcome(
            memory.withheld + outcome.text + outcome.memory.withheld,
            outcome.memory._replace(gate=after, withheld="", tail="", tail_ages=()),
        )
