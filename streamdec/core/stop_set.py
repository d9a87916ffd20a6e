r"""Stop sets: the states of stop conditions, and what each text does in a state.

**Theory.** The table (:mod:`streamdec.core.table`) turns ids into text; this module turns text into
text that may be output. Its states are :class:`StopState` objects: what the matcher of stops has
seen, the text that is *jailed* because it may become a stop or a marker, and the section in which
the jailed text begins. Mostly the state is the first one, in which no part of a stop or marker was
seen. Its ``alert`` is the mask of the letters with which one may begin: a token whose text has none
of them is not looked at. In other states, and inside a section, each letter matters.

A state is a dict from a text to its :data:`Effect`, or to None if nothing changes. It is filled on
first use, so the text of a stop is matched once.

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
>>> after["e!"][0].text                             # no stop: the jailed text is output
'\nUse!'
>>> chunk, _, hit = after["er: and"]                # the stop, three letters into this text
>>> chunk.finish_reason, hit.stop, hit.end
('stop', '\nUser:', 3)
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, StopReason, chunk_of, in_section
from streamdec.core.conditions import Definition, StopConditions
from streamdec.core.masks import LETTERS, MOVES, NAMED, mask_of
from streamdec.core.patterns.compile import read_patterns
from streamdec.core.patterns.matcher import PatternStops
from streamdec.core.sections import (
    NO_SECTIONS,
    OUTSIDE,
    Labels,
    Matcher,
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
MAX_TAIL = 64
"""The most code points of a tail after which texts are stored: a long stop has many long tails."""
NOTED_EVERY = 16
"""The size of a set is noted again after so many new texts."""
SET_SIZE, ID_SIZE = 6_700, 250
"""Bytes of a set of stops with its first texts, without its first state; and of each of its ids."""
STATE_SIZE = 800
"""Bytes of a state."""
STORED_SIZE = 150
"""Bytes of a stored text."""

Effect: TypeAlias = "tuple[Chunk | None, StopState | None, Hit | None]"
"""What a text does in a state: the chunk to output, the next state, and the stop that is complete.

The chunk is None for the own chunk of the token. With a stop it is the last chunk, and the
next state is None. The ``end`` of the stop counts from the beginning of the text. (Unpacking a
named tuple takes twice as long.)"""


class StopState(dict[str, "Effect | None"]):
    """What was seen of stops and markers, and what each text does to it.

    As a dict it maps each text that was met to its effect, None if nothing changes.
    """

    __slots__ = (
        *("_stops", "alert", "first_letters", "is_settled"),
        *("jailed", "key", "letters", "reach", "section", "seen"),
    )

    def __init__(self, stops: StopSet, key: Any, seen: Seen, section: int, jailed: str) -> None:
        self._stops: StopSet = weakref.proxy(stops)
        self.key: Any = key
        """What tells it from other states. Without sections it is the tail: all follows from it."""
        self.seen: Seen = seen
        self.section: int = section
        """The section in which the jailed text, or the next one, begins."""
        self.jailed: str = jailed
        """Decided text that is not output yet."""
        self.reach: int = max(len(jailed), stops.matcher.reach(seen))
        """How many code points at the end of the text are jailed, or may be in a later stop."""
        self.is_settled: bool = not self.reach
        """Whether no later stop or marker can begin in the text so far."""
        first_letters = stops.matcher.first_letters(seen) if self.is_settled else None
        if first_letters is not None and stops.labeller is not None:
            first_letters |= stops.labeller.sections.first_letters(section)
        self.first_letters: frozenset[str] | None = None if stops.patterns else first_letters
        """Text without these letters is output, and the state stays; None for any letters."""
        self.letters: int = LETTERS
        """The bits of ``alert`` that stand for letters."""
        if first_letters is not None and section == OUTSIDE:
            self.letters = mask_of("".join(first_letters))
        self.alert: int = self.letters | stops.alert
        """A token whose mask has none of these bits is output, and the state stays."""

    __eq__ = object.__eq__  # a state is compared as an object, not as a dict
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __missing__(self, text: str) -> Effect | None:
        return self._stops.learn(self, text)


class NamedStop(NamedTuple):
    """A stop that an id is by itself."""

    reason: StopReason
    hidden: bool


class StopSet:
    """Stop conditions and sections for one table; None for streams of text.

    ``skipped`` has stops and markers that are the text of skipped special tokens, with those ids.
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
        hidden, visible = conditions.stop, conditions.visible_stop
        if shown:
            hidden, visible = (), hidden + visible
        regexes = conditions.stop_regex
        patterns = read_patterns(regexes, conditions.max_match_length) if regexes else ()
        gate, labels = conditions.ignore_stops_between, definition.pairs
        gates = Sections(gate, skipped) if gate else NO_SECTIONS
        strings = StopStrings(hidden, visible)
        self.patterns: PatternStops | None = None
        """Finds stops, if some of them are patterns."""
        if patterns:
            self.patterns = PatternStops(strings, patterns, visible=shown)
        self.matcher: Matcher = Matcher(self.patterns or strings, gates, gated=True)
        """Finds stops, and where they are off."""
        self.labeller: Matcher | None = None
        """Finds the sections of ``definition``."""
        self.marker_ids: frozenset[int] = gates.ids
        """The ids that are markers."""
        if labels:
            self.labeller = Matcher(StopStrings(()), Sections(labels, skipped), gated=False)
            self.marker_ids |= self.labeller.sections.ids
        self.joins_texts: bool = not (labels or table is None or table.idle_row is None)
        """Whether the texts of several tokens may be joined to one chunk without sections. Not on
        the windowed route: a look-up decodes there, so each id must be looked up once."""
        self.names: tuple[str | None, ...] = (None, *definition.names)
        """The name of each section of the labeller."""
        self._named = _named_stops(conditions, skipped)
        self.ids: frozenset[int] = self.marker_ids.union(self._named, conditions.eos_token_ids)
        """Ids that may do something by themselves."""
        if table is not None and self.ids:
            table.name_ids(self.ids)
            weakref.finalize(self, _forget_ids, weakref.ref(table), self.ids).atexit = False
        self.alert: int = MOVES | (NAMED if self.ids else 0)
        """The bits that no stream with these stops ignores."""
        self.has_sections: bool = bool(gate or labels)
        """Whether some markers matter."""
        self.has_only_strings: bool = self.patterns is None and not self.has_sections
        """Whether there are neither patterns nor markers."""
        self.start: CleanPoint | None = None
        """The beginning of the streams without a prompt."""
        self._prompt_markers: list[PromptMarkers] = []
        self.num_stored: int
        """How many texts the states know."""
        self.note_growth: Callable[[StopSet], None] | None = None
        """Called when the set has grown. StopSets, which shares the set, sets it."""
        self.noted_size = 0
        """The size that StopSets counted last."""
        start = self.matcher.start(1 if conditions.starts_inside else OUTSIDE)
        self._states: dict[Any, StopState] = {}
        """The states that are shared, by their keys."""
        self.first: StopState = self.state(start)
        """The state of a stream that begins, if its prompt does not matter."""
        self._forget()

    def _forget(self) -> None:
        """Keep only the first state, without texts."""
        states, self._states = self._states, {self.first.key: self.first}
        self.num_stored = 0
        for known in [*states.values()]:
            known.clear()

    __del__ = _forget
    """States lead to each other, so otherwise only the garbage collector would free them."""

    @property
    def size(self) -> int:
        """How many bytes it takes, estimated."""
        size = SET_SIZE + ID_SIZE * len(self.ids) + 4 * sum(map(len, self.definition.names))
        for each in filter(None, (self.matcher, self.labeller)):
            size += each.sections.num_bytes + each.stops.num_bytes
        return size + STATE_SIZE * len(self._states) + STORED_SIZE * self.num_stored

    @property
    def longest(self) -> int:
        """The code points of the longest stop or marker."""
        markers = (*self.conditions.markers, *self.definition.markers)
        lengths = [len(marker) for marker in markers if isinstance(marker, str)]
        return max(self.matcher.stops.longest, *lengths, 0)

    # --- states

    def state(self, seen: Seen, section: int = OUTSIDE, jailed: str = "") -> StopState:
        """Return the state with these attributes."""
        key = (seen, section, jailed) if self.has_sections else seen.tail
        known = self._states.get(key)
        return StopState(self, key, seen, section, jailed) if known is None else known

    def begin(
        self, tokenizer: Decoder, prompt: Sequence[SupportsIndex], starts_inside: bool | None
    ) -> StopState:
        """Return the state in which a stream begins after ``prompt``.

        ``starts_inside``: whether it begins inside the first section of the definition; None: the
        prompt decides.
        """
        gate, labels = self.conditions.ignore_stops_between, self.definition.pairs
        inside = self.conditions.starts_inside
        if not (gate or labels):
            return self.first
        if starts_inside is None and labels == gate:
            starts_inside = inside
        if not self._prompt_markers:
            self._prompt_markers = [PromptMarkers(each, tokenizer) for each in (gate, labels)]
        at, section = (
            markers.section_after(tokenizer, prompt) if given is None else int(given)
            for markers, given in zip(self._prompt_markers, (inside, starts_inside), strict=True)
        )
        return self.state(self.matcher.start(at), section)

    def learn(self, state: StopState, text: str) -> Effect | None:
        """Compute what ``text`` does in ``state``, and store it if it may come again."""
        chunk, after, _ = found = self.read(state, text)
        effect = None if chunk is None and after is state else found
        is_rare = self.patterns is not None and not self.patterns.is_cacheable(state.seen.tail)
        if is_rare or state.reach > MAX_TAIL or len(text) > MAX_TEXT:
            return effect
        if self.num_stored >= MAX_STORED:
            self._forget()
        for each in (state, after):
            if not each and each is not None:  # streams that come to it share it
                self._states.setdefault(each.key, each)
        state[text] = effect
        self.num_stored += 1
        if self.note_growth is not None and self.num_stored % NOTED_EVERY == 0:
            self.note_growth(self)
        return effect

    # --- text

    def read(
        self, state: StopState, text: str, *, ignore: bool = False, release: bool = False
    ) -> Effect:
        """Return what ``text`` does in ``state``, without looking it up.

        With ``ignore``, complete stops are ordinary text. With ``release``, all text is output and
        forgotten; stops and markers begin after it.
        """
        if self.has_sections:
            return self._read_with_sections(state, text, ignore=ignore, release=release)
        stops, before = self.matcher.stops, state.key
        tail: Any
        tail, hit = stops.step(before, text, ignore=ignore)
        decided = state.jailed + text
        if hit is not None:
            shown = decided[: max(len(state.jailed) + hit.end - hit.hidden, 0)]
            return Chunk(shown, "stop", hit.stop), None, hit
        if release:
            tail = stops.skip(tail, "")
        elif state.is_settled and tail == before:  # as most texts do
            return None, state, None
        after = self._states.get(tail)
        if after is None:
            after = StopState(self, tail, Seen(tail), OUTSIDE, stops.jailed(tail))
        shown = decided[: len(decided) - len(after.jailed)]
        out = None if shown == text else chunk_of(shown) if shown else NOTHING
        return out, after, None

    def _read_with_sections(
        self, state: StopState, text: str, *, ignore: bool, release: bool
    ) -> Effect:
        """See ``read``."""
        if state.first_letters is not None and state.first_letters.isdisjoint(text):
            name = self.names[state.section]
            return None if name is None else in_section(name, text), state, None
        matcher, place = self.matcher, 0
        seen, outcome = matcher.read(state.seen, text, ignore=ignore)
        while isinstance(outcome, Turn):
            place += outcome.end
            seen, outcome = matcher.read(seen, text[place:], ignore=ignore)
        decided = state.jailed + text
        labels = Labels(self.labeller, self.names, state.section)
        if outcome is not None:
            hit = outcome._replace(end=place + outcome.end)
            shown = decided[: max(len(state.jailed) + hit.end - hit.hidden, 0)]
            labels.read(shown)
            return labels.chunk(0, shown, Chunk("", "stop", hit.stop)), None, hit
        labels.read(decided)
        if release:
            seen, end = matcher.restart(seen), len(decided)
        else:
            end = len(decided) - labels.kept(matcher.jailed(seen))
        out: Chunk | None = labels.chunk(0, decided[:end])
        if text and out == Chunk(text):
            out = None
        return out, self.state(seen, labels.section_at(end), decided[end:]), None

    # --- ids

    def named(self, seen: Seen, token_id: int) -> NamedStop | None:
        """Return the stop that names ``token_id``, or None if it is an ordinary token."""
        found = self._named.get(token_id) if self.matcher.is_on(seen) else None
        conditions = self.conditions
        is_eos = token_id in conditions.eos_token_ids and not conditions.ignore_eos
        return NamedStop(None, hidden=True) if is_eos and found is None else found

    def turned(self, state: StopState, token_id: int) -> StopState:
        """Return the state after ``token_id``, a marker or not, with nothing jailed."""
        seen = self.matcher.by_id(state.seen, token_id) or state.seen
        section = None
        if self.labeller is not None:
            section = self.labeller.sections.by_id(state.section, token_id)
        return self.state(seen, state.section if section is None else section)


def _forget_ids(table: weakref.ref[Table], ids: frozenset[int]) -> None:
    found = table()
    if found is not None:
        found.name_ids(ids, by=-1)


def _named_stops(conditions: StopConditions, skipped: SkippedIds) -> Mapping[int, NamedStop]:
    """Return the stop of each id: hidden before visible, a string before an id."""
    visible = dict.fromkeys(conditions.visible_stop_token_ids, False)
    ids = visible | dict.fromkeys(conditions.stop_token_ids, True)
    named = {token_id: NamedStop(token_id, hidden) for token_id, hidden in ids.items()}
    if not skipped:
        return named
    for texts, hidden in ((conditions.visible_stop, False), (conditions.stop, True)):
        for text in texts:
            for token_id in skipped.get(text, ()):
                # A visible string does not win over a hidden id, unless all stops are visible.
                if hidden or not ids.get(token_id) or conditions.include_stop_str_in_output:
                    named[token_id] = NamedStop(text, hidden)
    return named
