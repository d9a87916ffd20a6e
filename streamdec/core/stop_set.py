r"""Stop sets: the states of stop conditions, and what each text does in a state.

**Theory.** A stream with stops walks two automata side by side. The table
(:mod:`streamdec.core.table`) turns ids into text; this module turns text into text that may be
output. Its states are :class:`StopState` objects: what the matcher of stops has seen
(:class:`~streamdec.core.sections.Seen`), the text that is *jailed* because it may become a stop or
a marker, and the section in which the jailed text begins. In nearly all streams the state is nearly
always the first one, in which no part of a stop or marker was seen. Its ``alert`` is the mask of
the letters with which a stop (or marker) may begin, and a token whose text has none of these
letters is not looked at. In every other state, and inside a section, each letter matters.

A state is a dict from a text to its :data:`Effect`, or to None if nothing changes, as for most
texts. It is filled on first use, so the text of a stop is matched once.

Nothing in a stop set has the size of a vocabulary. A set of four strings takes some kilobytes, is
made in microseconds, and is warm from the start, since the table belongs to the tokenizer.

**A worked example.** The stop ``"\nUser:"``, and the texts ``"Hi"``, ``"\nUs"``, ``"e!"``:

>>> from streamdec import MockTokenizer
>>> from streamdec.core.conditions import StopConditions
>>> from streamdec.core.masks import mask_of
>>> from streamdec.core.shared_tables import table_for
>>> from streamdec.core.stop_sets import stop_set_for
>>> tokenizer = MockTokenizer()
>>> stops = stop_set_for(tokenizer, table_for(tokenizer), StopConditions("\nUser:"))
>>> mask_of("Hi") & stops.first.alert               # no letter can begin a stop
0
>>> chunk, after, hit = stops.first["\nUs"]
>>> chunk.text, after.jailed                        # jailed, and any letter matters now
('', '\nUs')
>>> mask_of("Hi") & after.alert > 0
True
>>> after["e!"][0].text                             # no stop: the jailed text is output
'\nUse!'
>>> chunk, _, hit = after["er: and"]                # the stop, three letters into this text
>>> chunk.finish_reason, hit.stop, hit.end
('stop', '\nUser:', 3)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, StopReason, chunk_of, of_parts
from streamdec.core.conditions import StopConditions
from streamdec.core.masks import LETTERS, MOVES, NAMED, mask_of
from streamdec.core.patterns.compile import read_patterns
from streamdec.core.patterns.matcher import matcher_of
from streamdec.core.sections import (
    NO_SECTIONS,
    OUTSIDE,
    Matcher,
    Pairs,
    PromptMarkers,
    Sections,
    Seen,
    SkippedIds,
    Turn,
)
from streamdec.core.strings import Hit, StopStrings
from streamdec.core.table import Table
from streamdec.protocols import Decoder

if TYPE_CHECKING:
    from streamdec.core.reading import CleanPoint

MAX_STORED = 32_768
"""The most texts stored in all states of one stop set; each takes about 150 bytes."""
MAX_TEXT = 256
"""The most code points of a stored text. Hardly a token has more."""
FIRST_WEIGHING = 8
"""New texts after which the size of a set is noted again; then after each quarter more."""
SET_SIZE = 6_000
"""Bytes of a set of stops with its first texts."""
STATE_SIZE = 800
"""Bytes of a state."""
STORED_SIZE = 150
"""Bytes of a stored text."""
PREFIX_SIZE = 64
"""Bytes of a code point of a stop: one prefix ends there."""

Parts = list[tuple[str | None, str]]
"""Pieces of text, each with the name of its section; None outside."""
MARKER = ""
"""The section of the text of a marker, which is not output."""


Effect: TypeAlias = "tuple[Chunk | None, StopState | None, Hit | None]"
"""What a text does in a state: the chunk to output, the next state, and the stop that is complete.

The chunk is None for the own chunk of the token. With a stop it is the last chunk, and the
next state is None. The ``end`` of the stop counts from the beginning of the text. (A plain tuple:
unpacking a named one takes twice as long.)"""


class StopState(dict[str, "Effect | None"]):
    """What was seen of stops and markers, and what each text does to it.

    As a dict it maps each text that was met to its effect, None if nothing changes. The effect of a
    new text is computed on first use. All other attributes are immutable.
    """

    __slots__ = ("_stops", "alert", "firsts", "is_settled", "jailed", "letters", "section", "seen")

    def __init__(self, stops: StopSet, seen: Seen, section: int, jailed: str) -> None:
        super().__init__()
        self._stops = stops
        self.seen: Seen = seen
        self.section: int = section
        """The section in which the jailed text, or the next one, begins."""
        self.jailed: str = jailed
        """Decided text that is not output yet."""
        self.is_settled: bool = not (jailed or stops.matcher.reach(seen))
        """Whether no later stop or marker can begin in the text so far."""
        firsts = stops.firsts(self) if self.is_settled else None
        self.firsts: frozenset[str] | None = None if stops.has_patterns else firsts
        """Text without these letters is output, and the state stays; None for any letters."""
        letters = LETTERS
        if firsts is not None and section == OUTSIDE:
            letters = mask_of("".join(firsts))
        self.letters: int = letters
        """The bits of ``alert`` that stand for letters."""
        self.alert: int = letters | stops.alert
        """A token whose mask has none of these bits is output, and the state stays."""

    def __missing__(self, text: str) -> Effect | None:
        return self._stops.learn(self, text)


class NamedStop(NamedTuple):
    """A stop that an id is by itself."""

    reason: StopReason
    hidden: bool


class Definition(NamedTuple):
    """The sections of a stream: the name of each, and its markers."""

    names: tuple[str, ...] = ()
    pairs: Pairs = ()


NO_DEFINITION = Definition()
NO_IDS: frozenset[int] = frozenset()


class StopSet:
    """Stop conditions and sections for one table.

    Args:
        table: the table of the streams; None for streams of text, whose conditions name no ids.
        conditions: when they end.
        definition: the sections of their text.
        skipped: stops and markers that are the text of skipped special tokens, with those ids.
    """

    def __init__(
        self,
        table: Table | None,
        conditions: StopConditions,
        definition: Definition,
        skipped: SkippedIds,
    ) -> None:
        self.conditions: StopConditions = conditions
        self.definition: Definition = definition
        shown = conditions.include_stop_str_in_output
        self.hides: bool = not shown
        """Whether the text of hidden stops is not output."""
        hidden = () if shown else conditions.stop
        visible = (*conditions.stop, *conditions.visible_stop) if shown else conditions.visible_stop
        patterns = read_patterns(conditions.stop_regex, conditions.max_match_length)
        self._patterns = patterns
        self.has_patterns: bool = bool(patterns)
        self._automata = [pattern.automaton for pattern in patterns]
        stops = matcher_of(hidden, visible, patterns, shown=shown)
        gate, labels = conditions.ignore_stops_between, definition.pairs
        self.matcher: Matcher = Matcher(
            stops, Sections(gate, skipped) if gate else NO_SECTIONS, gated=True
        )
        """Finds stops, and where they are off."""
        self.labeller: Matcher | None = (
            Matcher(StopStrings(()), Sections(labels, skipped), gated=False) if labels else None
        )
        """Finds the sections of ``definition``."""
        self.names: tuple[str | None, ...] = (None, *definition.names)
        """The name of each section of the labeller."""
        self._named = _named_stops(conditions, skipped)
        self.marker_ids: frozenset[int] = self.matcher.sections.ids
        """The ids that are markers."""
        if self.labeller is not None:
            self.marker_ids |= self.labeller.sections.ids
        ids = {*self._named, *conditions.eos_token_ids, *self.marker_ids}
        self.ids: frozenset[int] = frozenset(ids) if ids else NO_IDS
        """Ids that may do something by themselves."""
        if table is not None and ids:
            table.name_ids(self.ids)
            weakref.finalize(self, _forget_ids, weakref.ref(table), self.ids).atexit = False
        self.alert: int = MOVES | (NAMED if ids else 0)
        """The bits that no stream with these stops ignores."""
        self.is_simple: bool = not (patterns or gate or labels)
        """Whether there is one settled state."""
        self.start: CleanPoint | None = None
        """The beginning of the streams without a prompt."""
        self._prompt_markers: list[PromptMarkers] | None = None
        self._states: dict[tuple[Seen, int, str], StopState] = {}
        self.num_stored = 0
        """How many texts the states know."""
        self._weigh_at = FIRST_WEIGHING
        self.note_growth: Callable[[StopSet], None] | None = None
        """Called when the set has grown. StopSets, which shares the set, sets it."""
        self.noted_size = 0
        """The size that StopSets counted last."""
        texts = (*conditions.stop, *conditions.visible_stop)
        self._own_size = SET_SIZE + PREFIX_SIZE * sum(map(len, texts))
        inside = int(bool(conditions.starts_inside))
        self.first: StopState = StopState(self, self.matcher.start(inside), OUTSIDE, "")
        """The state of a stream that begins, if its prompt does not matter."""

    @property
    def size(self) -> int:
        """How many bytes it takes, estimated."""
        patterns = sum(automaton.num_bytes for automaton in self._automata)
        stored = STATE_SIZE * len(self._states) + STORED_SIZE * self.num_stored
        return self._own_size + stored + patterns

    @property
    def longest(self) -> int:
        """The code points of the longest stop or marker."""
        conditions = self.conditions
        texts = [*conditions.stop, *conditions.visible_stop, *conditions.markers]
        texts += [marker for pair in self.definition.pairs for marker in pair]
        lengths = [len(each) for each in texts if isinstance(each, str)]
        return max([*lengths, *(pattern.longest for pattern in self._patterns)], default=0)

    # --- states

    def state(self, seen: Seen, section: int = OUTSIDE, jailed: str = "") -> StopState:
        """Return the state with these attributes."""
        first = self.first
        if seen == first.seen and section == OUTSIDE and not jailed:
            return first
        known = self._states.get((seen, section, jailed))
        return StopState(self, seen, section, jailed) if known is None else known

    def settled(self, state: StopState, text: str) -> StopState:
        """Return the settled state after a settled ``state`` and ``text``."""
        if self.is_simple:
            return state
        return self.read(state, text, ignore=True, release=True)[1] or state

    def begin(
        self, tokenizer: Decoder, prompt: Sequence[SupportsIndex], starts_inside: bool | None
    ) -> StopState:
        """Return the state in which a stream begins.

        Args:
            tokenizer: of the stream.
            prompt: its ids.
            starts_inside: whether it begins inside the first section of the definition.
        """
        conditions, labels = self.conditions, self.definition.pairs
        gate = conditions.ignore_stops_between
        section, inside = OUTSIDE, conditions.starts_inside
        if starts_inside is None and labels == gate:
            starts_inside = inside
        if not (gate or labels):
            return self.first
        if self._prompt_markers is None:
            self._prompt_markers = [PromptMarkers(each, tokenizer) for each in (gate, labels)]
        of_gate, of_labels = self._prompt_markers
        at = int(bool(inside))
        if gate and inside is None and prompt:
            at = of_gate.section_after(tokenizer, prompt)
        if labels:
            section = int(bool(starts_inside))
            if starts_inside is None and prompt:
                section = of_labels.section_after(tokenizer, prompt)
        return self.state(self.matcher.start(at), section)

    def firsts(self, state: StopState) -> frozenset[str] | None:
        """Return the letters with which a stop or marker may begin in ``state``.

        U+0080 stands for all letters that are not ASCII.
        """
        letters = self.matcher.firsts(state.seen)
        if letters is None or self.labeller is None:
            return letters
        return letters | self.labeller.sections.firsts(state.section)

    def learn(self, state: StopState, text: str) -> Effect | None:
        """Compute what ``text`` does in ``state``, and store it if it may come again."""
        firsts = state.firsts
        effect: Effect | None = None
        if firsts is not None and firsts.isdisjoint(text):
            if state.section != OUTSIDE:
                effect = of_parts([(self.names[state.section], text)], NOTHING), state, None
        else:
            effect = self.read(state, text)
            if effect[1] is state and effect[0] is None:
                effect = None
        if len(text) <= MAX_TEXT and self.matcher.stops.is_cacheable(state.seen.tail):
            self._store(state, text, effect)
        return effect

    def _store(self, state: StopState, text: str, effect: Effect | None) -> None:
        if self.num_stored >= MAX_STORED:
            self._forget()
        if effect is not None:
            for each in (state, effect[1]):
                if each is not None and each is not self.first:
                    self._states.setdefault((each.seen, each.section, each.jailed), each)
        state[text] = effect
        self.num_stored += 1
        if self.num_stored >= self._weigh_at:
            self._weigh_at += self._weigh_at // 4
            if self.note_growth is not None:
                self.note_growth(self)

    def _forget(self) -> None:
        states, self._states = self._states, {}
        self.num_stored, self._weigh_at = 0, FIRST_WEIGHING
        for state in [*states.values(), self.first]:
            state.clear()

    # --- text

    def read(
        self, state: StopState, text: str, *, ignore: bool = False, release: bool = False
    ) -> Effect:
        """Return what ``text`` does in ``state``, without looking it up.

        Args:
            state: the state.
            text: the text.
            ignore: whether complete stops are ordinary text.
            release: whether jailed text is output; no later stop or marker can begin in it.
        """
        matcher, seen, place = self.matcher, state.seen, 0
        decided = state.jailed + text
        while True:
            seen, outcome = matcher.read(seen, text[place:], ignore=ignore)
            if not isinstance(outcome, Turn):
                break
            place += outcome.end
        if outcome is not None:
            hit = outcome if not place else outcome._replace(end=place + outcome.end)
            size = len(state.jailed) + hit.end - hit.hidden
            text = decided[: max(size, 0)]
            return self._last(state.section, text, hit.stop), None, hit
        section, kept = state.section, 0
        parts: Parts = [(None, decided)]
        if release:
            seen = matcher.restart(seen)
        else:
            kept = matcher.jailed(seen)
        if self.labeller is not None:
            labels = self._labels(section, decided)
            kept = 0 if release else labels.kept(kept)
            section = labels.sections[len(decided) - kept]
            parts = merged(labels.names[: len(decided) - kept], decided)
        elif kept:
            parts = [(None, decided[: len(decided) - kept])]
        out: Chunk | None = None
        if parts != [(None, text)]:
            out = _chunk(parts)
        return out, self.state(seen, section, decided[len(decided) - kept :]), None

    def _last(self, section: int, text: str, stop: str) -> Chunk:
        """Return the last chunk, whose ``text`` begins in ``section``."""
        last = Chunk(text, "stop", stop)
        if self.labeller is None:
            return last
        labels = self._labels(section, text)
        return of_parts(merged(labels.names, text) or [(labels.last_name, "")], last)

    def _labels(self, section: int, text: str) -> Labels:
        """Find the sections of ``text``, which begins in ``section``."""
        assert self.labeller is not None
        labels = Labels(self.names)
        seen = self.labeller.start(section)
        while True:
            before = seen.section
            seen, turn = self.labeller.read(seen, text[len(labels.names) :])
            if not isinstance(turn, Turn):
                labels.add(before, len(text) - len(labels.names))
                labels.end(seen)
                return labels
            labels.add(before, turn.end)
            labels.mark(turn.size)

    # --- ids

    def named(self, seen: Seen, token_id: int) -> NamedStop | None:
        """Return the stop that names ``token_id``, or None if it is an ordinary token."""
        found = self._named.get(token_id) if self.matcher.is_on(seen) else None
        if found is not None:
            return found
        conditions = self.conditions
        if token_id in conditions.eos_token_ids and not conditions.ignore_eos:
            return NamedStop(None, hidden=True)
        return None

    def turned(self, state: StopState, token_id: int) -> StopState:
        """Return the state after ``token_id``, which may be a marker and has no text.

        ``state`` must have no jailed text.
        """
        seen = self.matcher.by_id(state.seen, token_id) or state.seen
        section = state.section
        if self.labeller is not None:
            label = self.labeller.by_id(Seen("", section), token_id)
            section = section if label is None else label.section
        return self.state(seen, section)


def _forget_ids(table: weakref.ref[Table], ids: frozenset[int]) -> None:
    found = table()
    if found is not None:
        found.forget_ids(ids)


class Labels:
    """The sections of the code points of some text.

    Args:
        names: the name of each section.
    """

    def __init__(self, names: Sequence[str | None]) -> None:
        self._all_names = names
        self.names: list[str | None] = []
        """The name of the section of each code point; MARKER for the text of a marker."""
        self.sections: list[int] = []
        """The number of the section in which each code point was read, and the last one."""
        self._markers: list[tuple[int, int]] = []
        self._tail = 0

    def add(self, section: int, size: int) -> None:
        """Note that ``size`` more code points were read in ``section``."""
        self.names += [self._all_names[section]] * size
        self.sections += [section] * size

    def mark(self, size: int) -> None:
        """Note that the last ``size`` code points are a marker."""
        end = len(self.names)
        start = max(end - size, 0)  # it may have begun before this text
        self.names[start:] = [MARKER] * (end - start)
        self._markers.append((start, end))

    def end(self, seen: Seen) -> None:
        """Note what was seen at the end."""
        self.sections.append(seen.section)
        self._tail = len(seen.marker)

    @property
    def last_name(self) -> str | None:
        """The name of the section at the end."""
        return self._all_names[self.sections[-1]]

    def kept(self, jailed: int) -> int:
        """Return how many of the last code points are not output.

        They are ``jailed`` ones, and those that may become a marker. If a part of a marker is
        jailed, all of it is, because a stop may cut it.
        """
        kept = max(jailed, self._tail)
        for start, end in reversed(self._markers):
            if start < len(self.names) - kept < end:
                kept = len(self.names) - start
        return kept


def merged(names: Iterable[str | None], text: str) -> Parts:
    """Return the parts of ``text``, by the names of its sections, without markers."""
    parts: Parts = []
    for name, letter in zip(names, text, strict=False):
        if name == MARKER:
            continue
        if parts and parts[-1][0] == name:
            letter = parts.pop()[1] + letter
        parts.append((name, letter))
    return parts


def _chunk(parts: Parts) -> Chunk:
    """Return the chunk of ``parts``, which may be without text."""
    if len(parts) == 1 and parts[0][0] is None:
        return chunk_of(parts[0][1]) if parts[0][1] else NOTHING
    return of_parts(parts, NOTHING) if parts else NOTHING


def _named_stops(conditions: StopConditions, skipped: SkippedIds) -> Mapping[int, NamedStop]:
    """Return the stop for each id that is a stop.

    If an id has several, a hidden stop comes before a visible one, and a string before an id.
    """
    named: dict[int, NamedStop] = {}
    for ids, hidden in (
        (conditions.visible_stop_token_ids, False),
        (conditions.stop_token_ids, True),
    ):
        named.update((token_id, NamedStop(token_id, hidden)) for token_id in ids)
    if not skipped:
        return named
    for texts, hidden in ((conditions.visible_stop, False), (conditions.stop, True)):
        for text in texts:
            for token_id in skipped.get(text, ()):
                by_id = named.get(token_id)
                # A visible string does not win over a hidden id, unless all stops are visible.
                if hidden or not (by_id and by_id.hidden) or conditions.include_stop_str_in_output:
                    named[token_id] = NamedStop(text, hidden)
    return named
