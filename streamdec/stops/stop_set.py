r"""Stop sets: the states of stop conditions, and what each text does in a state.

The effect of a text is computed once and then looked up.

**Theory.** A stream with stops walks two automata side by side. The table
(:mod:`streamdec.tables.table`) turns ids into text; this module turns text into text that may be
output. Its states are :class:`Matching` objects: the matcher's tail, the state of the gate
(:mod:`streamdec.stops.gate`), and what was seen of the gate's next marker. In nearly all
streams the state is nearly always the first one, in which no part of a stop or marker was seen. Its
``alert`` is the mask of the letters with which a stop (or marker) may begin, and a token whose text
has none of these letters is not looked at. In every other state each letter matters.

A mask is a number, and CPython compares two numbers faster than it combines them. So a state also
has ``free``, the lowest bit of its ``alert``: no mask below it has a letter of ``alert``. The
letters that are frequent in texts have the lowest bits, and those that stops often begin with the
highest, so that most tokens are below ``free``.

A state is a dict: text → (chunk to output, next state, whether older marks are still needed), or
None if nothing changes, as for most texts. (For marks see :mod:`streamdec.stops.marks`.) It is
filled on first use. A text that completes a stop is never stored, nor is a token that acts by its
id, so a stream need not ask at each token whether it has ended.

Nothing in a stop set has the size of a vocabulary. A set of four strings takes some kilobytes, is
made in microseconds, and is warm from the start, since the table belongs to the tokenizer.

**A worked example.** The stop ``"\nUser:"``, and the texts ``"Hi"``, ``"\nUs"``, ``"e!"``:

>>> from streamdec import MockTokenizer, StopConditions
>>> from streamdec.stops.stop_sets import stop_set_for
>>> from streamdec.tables.letters import letters_of
>>> from streamdec.tables.decode_options import Options
>>> from streamdec.tables.shared_tables import table_for
>>> tokenizer = MockTokenizer()
>>> stops = stop_set_for(tokenizer, table_for(tokenizer), StopConditions("\nUser:"))
>>> letters_of("Hi") & stops.first.alert            # no letter can begin a stop
0
>>> letters_of("Hi") < stops.first.free             # which shows already by their order
True
>>> read = stops.read(stops.first, "\nUs")
>>> read.text, read.after.jailed                    # withheld, and any letter matters now
('', '\nUs')
>>> letters_of("Hi") & read.after.alert > 0
True
>>> stops.read(read.after, "e!").text               # no stop: the withheld text is output
'\nUse!'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, SupportsIndex, TypeAlias

from streamdec.chunks import NOTHING, Chunk, StopReason, chunk_of
from streamdec.protocols import Decoder
from streamdec.stops.conditions import StopConditions
from streamdec.stops.gate import OPEN, Gate, PromptMarkers, gate_of
from streamdec.stops.matcher import Hit, Matcher
from streamdec.stops.pattern_matcher import matcher_of
from streamdec.stops.patterns import StopPattern, read_patterns
from streamdec.tables.letters import LETTERS, MOVES, NAMED, SLOW, letters_of
from streamdec.tables.table import Table

MAX_STORED = 16_384
"""The most texts stored in all states of one stop set; each takes about 150 bytes."""
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

Known: TypeAlias = "tuple[Chunk | None, Matching, bool] | None"
"""The chunk to output (None: the token's own chunk), the next state, and whether older marks are
still needed. None instead of the tuple: the text is output, the state stays and needs no marks."""


class Matching(dict[str, "Known"]):
    """A state: what was seen of stops and markers, and what each text does to it.

    As a dict it maps each text that was met to its result. The result of a new text is computed and
    stored on first use. KeyError: the text completes a stop, or the state is uncached, so the
    result is not stored. All other attributes are immutable.
    """

    __slots__ = (
        *("_stops", "alert", "cached", "free", "free_moving", "gate", "jailed"),
        *("marker_tail", "size", "tail"),
    )

    def __init__(
        self,
        stops: StopSet | None,
        alert: int,
        gate: int,
        tail: Any,
        marker_tail: str,
        jailed: str,
        size: int,
    ) -> None:
        super().__init__()
        self._stops = stops
        self.alert: int = alert
        """If a text has none of these letters, it is output and the state stays. -1 sends every
        token to the slow path."""
        self.free: int = min(alert & -alert, MOVES)
        """A token whose mask is below this number has no letter of ``alert``, and its transition
        stays in the row."""
        self.free_moving: int = MOVES + self.free if alert >= 0 else 0
        """As ``free``, for a token that moves the table's state and whose id is not named."""
        self.gate: int = gate
        """The gate's state: OPEN, or the number of a section."""
        self.tail: Any = tail
        """The matcher's."""
        self.marker_tail: str = marker_tail
        """The suffix of the text that may become the next marker."""
        self.jailed: str = jailed
        """Decided text that is not output yet."""
        self.size: int = size
        """How many of the last code points may be part of a later stop."""
        self.cached: Matching = self
        """The state itself; of an uncached one, the state that it stands for."""

    def __missing__(self, text: str) -> Known:
        if self._stops is None:
            raise KeyError(text)
        return self._stops.learn(self, text)

    @property
    def uncached(self) -> Matching:
        """The same state for streams that look at each token.

        It has an ``alert`` of -1 and no texts.
        """
        marker_tail, jailed, size = self.marker_tail, self.jailed, self.size
        twin = Matching(None, -1, self.gate, self.tail, marker_tail, jailed, size)
        twin.cached = self.cached
        return twin

    @property
    def is_open(self) -> bool:
        """Whether stops count: always, if there is no gate."""
        return self.gate == OPEN


class Read(NamedTuple):
    """What some text did."""

    text: str
    """Text to output. With a hit: the text up to the end of a visible stop, or to the start of a
    hidden one."""
    after: Matching
    hit: Hit | None = None
    """The stop that is complete."""
    end: int = 0
    """With a hit: how many code points of the text that was read come before its end."""


class NamedStop(NamedTuple):
    """A stop that an id is by itself."""

    reason: StopReason
    hidden: bool


NO_NAMED: Mapping[int, NamedStop] = {}
NO_IDS: frozenset[int] = frozenset()


class StopSet:
    """Stop conditions for one table.

    Args:
        table: the table of the streams; None for streams of text, whose conditions name no ids.
        conditions: when they end.
        skipped: stops and markers that are the text of skipped special tokens, with those ids.
    """

    __slots__ = (
        "_alert",
        "_automata",
        "_named",
        "_own_size",
        "_prompt_markers",
        "_states",
        "_weigh_at",
        "_weigh_patterns_at",
        "conditions",
        "first",
        "gate",
        "ids",
        "matcher",
        "note_growth",
        "noted_size",
        "num_stored",
        "reads_all",
        "reads_text",
    )

    def __init__(
        self,
        table: Table | None,
        conditions: StopConditions,
        skipped: dict[str, tuple[int, ...]],
    ) -> None:
        self.conditions: StopConditions = conditions
        shown = conditions.include_stop_str_in_output
        hidden = () if shown else conditions.stop
        visible = (*conditions.stop, *conditions.visible_stop) if shown else conditions.visible_stop
        patterns: Sequence[StopPattern] = ()
        if conditions.stop_regex:
            patterns = read_patterns(conditions.stop_regex, conditions.max_match_length)
        self.matcher: Matcher = matcher_of(hidden, visible, patterns, shown=shown)
        self.gate: Gate = gate_of(conditions, skipped)
        self._prompt_markers: PromptMarkers | None = None
        self._named = _named_stops(conditions, skipped)
        ids = {
            *self._named,
            *conditions.eos_token_ids,
            *self.gate.ids,
        }
        self.ids: frozenset[int] = frozenset(ids) if ids else NO_IDS
        """Ids that may do something by themselves."""
        self.reads_text: bool = bool(hidden or visible or patterns or self.gate.reads_text)
        """Whether any text can matter."""
        self._alert = SLOW | (NAMED if self.ids else 0)
        self.reads_all: bool = table is not None and not table.name_ids(self.ids)
        """Whether each token must be looked at: the table marks no more ids."""
        self._states: dict[tuple[int, Any, str], Matching] = {}
        self.num_stored = 0
        """How many texts the states know."""
        self._weigh_at = FIRST_WEIGHING
        self.note_growth: Callable[[StopSet], None] | None = None
        """Called when the set has grown. StopSets, which shares the set, sets it."""
        self.noted_size = 0
        """The size that StopSets counted last."""
        texts = (*conditions.stop, *conditions.visible_stop)
        self._own_size = SET_SIZE + PREFIX_SIZE * sum(map(len, texts))
        self._automata = [pattern.automaton for pattern in patterns]
        self._weigh_patterns_at = 0
        """Bytes of the automata from which on the size of the set is noted again."""
        self.first: Matching = self._made(self.gate.start, self.matcher.start, "")
        """The state of a stream that begins, if its prompt does not matter."""

    @property
    def size(self) -> int:
        """How many bytes it takes, estimated."""
        states = STATE_SIZE * len(self._states)
        patterns = sum(automaton.num_bytes for automaton in self._automata)
        return self._own_size + states + STORED_SIZE * self.num_stored + patterns

    # --- states

    def state(self, gate: int, tail: Any, marker_tail: str) -> Matching:
        """Return the state for this state of the gate, matcher tail and marker tail."""
        first = self.first
        if gate == first.gate and tail == first.tail and marker_tail == "":
            return first
        known = self._states.get((gate, tail, marker_tail))
        return self._made(gate, tail, marker_tail) if known is None else known

    def _made(self, gate: int, tail: Any, marker_tail: str) -> Matching:
        matcher, is_open = self.matcher, gate == OPEN
        jailed = matcher.jailed(tail) if is_open else ""
        size = len(matcher.text(tail))
        alert = self._alert
        letters = None if marker_tail else matcher.letters(tail, is_open=is_open)
        if letters is None:
            alert |= LETTERS
        else:
            alert |= letters_of("".join(letters | self.gate.firsts(gate)))
        stops = self if matcher.is_cacheable(tail) else None
        return Matching(stops, alert, gate, tail, marker_tail, jailed, size)

    def after_prompt(self, tokenizer: Decoder, prompt: Sequence[SupportsIndex]) -> Matching:
        """Return the state of a stream that begins after ``prompt``."""
        conditions = self.conditions
        sections = conditions.ignore_stops_between
        if not sections or conditions.starts_inside is not None or not prompt:
            return self.first
        if self._prompt_markers is None:
            self._prompt_markers = PromptMarkers(sections, tokenizer)
        return self.at(self._prompt_markers.state_after(tokenizer, prompt))

    def at(self, gate: int) -> Matching:
        """Return the state of a stream that begins in this state of the gate."""
        return self.state(gate, self.matcher.start, "")

    def can_be(self, gate: int, tail: Any, marker_tail: str) -> bool:
        """Whether a stream can be in this state; ``tail`` is a tail of the matcher."""
        if not self.gate.can_be(gate, marker_tail):
            return False
        return gate == OPEN or tail == self.matcher.skip(tail, "")

    def learn(self, state: Matching, text: str) -> Known:
        """Compute and store what ``text`` does in ``state``.

        Raises KeyError if ``text`` completes a stop.
        """
        if self.num_stored >= MAX_STORED:
            self._forget()
        known = state[text] = self._known(state, text)
        self.num_stored += 1
        if self.num_stored >= self._weigh_at:
            self._weigh_at += self._weigh_at // 4
            if self.note_growth is not None:
                self.note_growth(self)
        return known

    def _known(self, state: Matching, text: str) -> Known:
        if not state.size and not self.gate.exists:  # most texts: nothing begins in them
            tail, hit = self.matcher.step(state.tail, text)
            if hit is None and tail == state.tail:
                return None
        read = self.read(state, text)
        if read.hit is not None:
            raise KeyError(text)
        after = read.after
        if after is state and not state.size:
            return None
        if after is not self.first:
            after = self._states.setdefault((after.gate, after.tail, after.marker_tail), after)
        if state is not self.first:
            self._states.setdefault((state.gate, state.tail, state.marker_tail), state)
        chunk = None
        if read.text != text:
            chunk = chunk_of(read.text) if read.text else NOTHING
        return chunk, after, after.size > len(text)

    def _forget(self) -> None:
        states, self._states = self._states, {}
        self.num_stored, self._weigh_at = 0, FIRST_WEIGHING
        for state in [*states.values(), self.first]:
            state.clear()

    # --- text

    def read(self, state: Matching, text: str, *, skip: int = 0, ignore: bool = False) -> Read:
        """Return what ``text`` does in ``state``.

        The first ``skip`` code points cannot be part of a stop or marker. With ``ignore``, complete
        stops are ordinary text.
        """
        read = self._read(state, text, skip, ignore)
        if self._automata:
            self._weigh_patterns()
        return read

    def _weigh_patterns(self) -> None:
        """Note the size of the set if its automata have grown by a quarter."""
        size = sum(automaton.num_bytes for automaton in self._automata)
        if size >= self._weigh_patterns_at:
            self._weigh_patterns_at = size + size // 4
            if self.note_growth is not None:
                self.note_growth(self)

    def _read(self, state: Matching, text: str, skip: int, ignore: bool) -> Read:
        matcher, withheld = self.matcher, state.jailed + text
        gate, tail, marker_tail = state.gate, state.tail, state.marker_tail
        place = 0
        if skip:
            tail, place = matcher.skip(tail, text[:skip]), skip
        while True:
            part, turn, is_open, after_turn = text[place:], None, gate == OPEN, gate
            if self.gate.exists:
                marker, marker_tail, after_turn = self.gate.read(gate, marker_tail, part)
                turn = None if marker is None else marker.end
            if is_open:
                after, hit = matcher.step(
                    tail, part if turn is None else part[:turn], ignore=ignore
                )
                if hit is not None:
                    end = place + hit.end
                    size = len(state.jailed) + end - (0 if hit.visible else hit.size)
                    return Read(withheld[: max(size, 0)], state, hit, end)
                tail = after
            if turn is None:
                if not is_open:
                    tail = matcher.skip(tail, part)
                break
            # If stops counted, they are off after the marker; if not, the text up to it is skipped.
            tail = matcher.skip(tail, "" if is_open else part[:turn])
            gate, place = after_turn, place + turn
        after_state = self.state(gate, tail, marker_tail)
        kept = len(after_state.jailed)
        return Read(withheld[: len(withheld) - kept], after_state)

    # --- ids

    def named(self, state: Matching, token_id: int) -> NamedStop | None:
        """Return the stop that names ``token_id``, or None if it is an ordinary token."""
        found = self._named.get(token_id) if state.is_open else None
        if found is not None:
            return found
        conditions = self.conditions
        if token_id in conditions.eos_token_ids and not conditions.ignore_eos:
            return NamedStop(None, hidden=True)
        return None

    def turned(self, state: Matching, token_id: int, text: str) -> Matching | None:
        """Return the state after a marker that is an id, whose own text is ``text``.

        None: ``token_id`` is not a marker in ``state``.
        """
        gate = self.gate.by_id(state.gate, token_id)
        return None if gate is None else self.state(gate, self.matcher.skip(state.tail, text), "")

    def restarted(self, state: Matching) -> Matching:
        """Return the state after a release in ``state``."""
        return self.state(state.gate, self.matcher.restart(state.tail), "")

    @property
    def hides(self) -> bool:
        """Whether the text of hidden stops is withheld.

        It is withheld unless ``include_stop_str_in_output`` is on.
        """
        return not self.conditions.include_stop_str_in_output


def _named_stops(
    conditions: StopConditions, skipped: dict[str, tuple[int, ...]]
) -> Mapping[int, NamedStop]:
    """Return the stop for each id that is a stop.

    If an id has several, a hidden stop comes before a visible one, and a string before an id.
    """
    if not (skipped or conditions.stop_token_ids or conditions.visible_stop_token_ids):
        return NO_NAMED
    named: dict[int, NamedStop] = {}
    for ids, hidden in (
        (conditions.visible_stop_token_ids, False),
        (conditions.stop_token_ids, True),
    ):
        named.update((token_id, NamedStop(token_id, hidden)) for token_id in ids)
    for texts, hidden in ((conditions.visible_stop, False), (conditions.stop, True)):
        for text in texts:
            for token_id in skipped.get(text, ()):
                by_id = named.get(token_id)
                # A visible string does not win over a hidden id, unless all stops are visible.
                if hidden or not (by_id and by_id.hidden) or conditions.include_stop_str_in_output:
                    named[token_id] = NamedStop(text, hidden)
    return named
