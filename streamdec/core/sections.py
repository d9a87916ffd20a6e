"""Sections of a text, and the one matcher of stops and markers.

**Theory.** Markers enclose sections: ``<think>`` opens one and ``</think>`` closes it. State
``OUTSIDE`` (0) is outside of all sections, where the opening marker of any section is searched. In
state *n* the stream is inside section *n*, where only its closing marker is searched. A marker is
an id or a text. If the text is that of skipped special tokens, which have no text in a stream,
their ids are markers too.

:class:`Matcher` finds one of three outcomes in a text: a stop (Hit), or a section that opens or
closes (Turn). It is used with the stops of a stream and ``ignore_stops_between``, inside of which
the stops are off (*gated*); and with ``sections`` and no stops, for the section of each text.

What it remembers is a :class:`Seen`: the tail of the stops, the section, and the *marker tail*, the
suffix of the text that may become the next marker.

**A worked example.** Reasoning, which ends with its own token, and quotes:

>>> from streamdec.core.sections import Matcher, Sections
>>> from streamdec.core.strings import StopStrings
>>> sections = Sections([("<think>", 7), ("<q>", "</q>")], {})
>>> matcher = Matcher(StopStrings(["x"]), sections, gated=True)
>>> seen, outcome = matcher.read(matcher.start(0), "a<q")
>>> seen, outcome                                   # nothing is complete: a marker tail
(Seen(tail='', section=0, marker='<q'), None)
>>> seen, outcome = matcher.read(seen, ">x")
>>> seen, outcome                                   # section 2 opens after one more letter
(Seen(tail='', section=2, marker=''), Turn(section=2, end=1, size=3))
>>> matcher.read(seen, "x")                         # inside of it stops are off
(Seen(tail='', section=2, marker=''), None)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import index
from typing import Any, NamedTuple, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, of_parts
from streamdec.core.patterns.matcher import StopMatcher
from streamdec.core.strings import STOP_SIZE, Hit, StopStrings
from streamdec.errors import StreamdecError
from streamdec.protocols import Decoder

OUTSIDE = 0
"""The state outside of all sections."""

Marker = str | int
Pairs = Sequence[tuple[Marker, Marker]]
SkippedIds = Mapping[str, tuple[int, ...]]
"""The ids of skipped special tokens, by their text."""


class Sections:
    """The automaton of some sections; ``skipped`` has ids of markers."""

    def __init__(self, pairs: Pairs, skipped: SkippedIds) -> None:
        openings = {opening: section for section, (opening, _) in enumerate(pairs, 1)}
        # For each state, the state that each marker leads to; then, the texts and ids among them.
        self._targets = [openings, *({closing: OUTSIDE} for _, closing in pairs)]
        self._texts = [
            StopStrings(marker for marker in each if isinstance(marker, str))
            for each in self._targets
        ]
        self._ids = [_by_id(each, skipped) for each in self._targets]
        self.ids: frozenset[int] = frozenset().union(*self._ids)
        """The ids that are markers."""
        self.num_bytes = sum(each.num_bytes for each in self._texts) + 5 * STOP_SIZE * len(pairs)
        """How many bytes it takes, estimated; without its ids."""

    def __len__(self) -> int:
        return len(self._targets) - 1

    def first_letters(self, section: int) -> frozenset[str]:
        """Return the letters with which a marker may begin in ``section``."""
        return self._texts[section].first_letters

    def read(self, section: int, tail: str, text: str) -> tuple[Hit | None, str, int]:
        """Read up to the first marker; return it, the marker tail and the section."""
        tail, hit = self._texts[section].step(tail, text)
        if hit is None:
            return None, tail, section
        return hit, "", self._targets[section][hit.stop]

    def by_id(self, section: int, token_id: int) -> int | None:
        """Return the state after ``token_id``; None if it is not a marker in ``section``."""
        return self._ids[section].get(token_id)


def _by_id(targets: Mapping[Marker, int], skipped: SkippedIds) -> dict[int, int]:
    """The ids that are markers, each with the state after it."""
    found: dict[int, int] = {}
    for marker, section in targets.items():
        for token_id in skipped.get(marker, ()) if isinstance(marker, str) else (marker,):
            found.setdefault(token_id, section)
    return found


NO_SECTIONS = Sections((), {})


class Seen(NamedTuple):
    """What a Matcher remembers of a text."""

    tail: Any
    """What the matcher of stops remembers."""
    section: int = OUTSIDE
    marker: str = ""
    """The end of the text that may become the next marker."""


class Turn(NamedTuple):
    """A marker is complete: a section has opened, or (OUTSIDE) closed."""

    section: int
    end: int
    """How many code points of the text that was read come before its end."""
    size: int
    """The code points of the marker."""


class Matcher:
    """Finds stops and the markers of sections, in which stops are off if ``gated``."""

    def __init__(self, stops: StopMatcher, sections: Sections, *, gated: bool) -> None:
        self.stops: StopMatcher = stops
        self.sections: Sections = sections
        self._gated = gated

    def start(self, section: int) -> Seen:
        """Return what is remembered where a text begins in ``section``."""
        return Seen(self.stops.start, section)

    def is_on(self, seen: Seen) -> bool:
        """Whether stops are searched."""
        return not (self._gated and seen.section)

    def read(
        self, seen: Seen, text: str, *, ignore: bool = False
    ) -> tuple[Seen, Hit | Turn | None]:
        """Read ``text`` up to the first outcome; None if nothing is complete."""
        tail, section, marker = seen
        found, marker, turned = self.sections.read(section, marker, text)
        if found is not None:
            text = text[: found.end]
        if self.is_on(seen):
            tail, hit = self.stops.step(tail, text, ignore=ignore)
            if hit is not None:
                return seen, hit
        else:
            tail = self.stops.skip(tail, text)
        if found is None:
            return Seen(tail, section, marker), None
        return self._turned(tail, turned), Turn(turned, found.end, found.size)

    def _turned(self, tail: Any, section: int) -> Seen:
        if self._gated and section != OUTSIDE:
            tail = self.stops.close(tail)
        return Seen(tail, section)

    def by_id(self, seen: Seen, token_id: int) -> Seen | None:
        """Return what is remembered after ``token_id``; None if it is not a marker."""
        section = self.sections.by_id(seen.section, token_id)
        return None if section is None else self._turned(seen.tail, section)

    def skip(self, seen: Seen, text: str) -> Seen:
        """Return what is remembered after ``text``, which is in no stop or marker."""
        return seen._replace(tail=self.stops.skip(seen.tail, text))

    def restart(self, seen: Seen) -> Seen:
        """Return what is remembered after a release: no stop or marker spans it."""
        return Seen(self.stops.skip(seen.tail, ""), seen.section)

    def context(self, seen: Seen) -> tuple[str, ...]:
        """Return the letters so far that matter to later stops."""
        return self.stops.context(self.restart(seen).tail)

    def jailed(self, seen: Seen) -> int:
        """Return how many code points at the end of the text may become a hidden stop."""
        return 0 if self._gated and seen.section else len(self.stops.jailed(seen.tail))

    def reach(self, seen: Seen) -> int:
        """Return how many code points at the end may be part of a later stop or marker."""
        return max(len(self.stops.text(seen.tail)), len(seen.marker))

    def first_letters(self, seen: Seen) -> frozenset[str] | None:
        """Return letters without which a text changes nothing; None: any may matter.

        No stop or marker has begun in ``seen``. U+0080 stands for all letters that are not ASCII.
        """
        letters = self.stops.letters(seen.tail, is_open=self.is_on(seen))
        return None if letters is None else letters | self.sections.first_letters(seen.section)


# --- the names of sections ------------------------------------------------------------------------


class Labels:
    """Finds the section of each code point of a text that begins in ``section``."""

    def __init__(self, labeller: Matcher | None, names: Sequence[str | None], section: int) -> None:
        self._labeller = labeller
        self._names = names
        self.seen: Seen = Seen("", section)
        """What the labeller remembers."""
        self._sections: list[int] = []
        """The section of each code point."""
        self._markers: list[range] = []
        """Where the text of markers is, which is not output."""

    def read(self, text: str) -> None:
        """Read more of the text."""
        while text:
            section, size = self.seen.section, len(text)
            turn = None
            if self._labeller is not None:
                self.seen, turn = self._labeller.read(self.seen, text)
            if isinstance(turn, Turn):
                size = turn.end
                end = len(self._sections) + size
                # A marker may have begun before this text.
                self._markers.append(range(max(end - turn.size, 0), end))
            self._sections += [section] * size
            text = text[size:]

    def skip(self) -> None:
        """Take a code point that is the text of a marker by id."""
        place = len(self._sections)
        self._markers.append(range(place, place + 1))
        self._sections.append(self.seen.section)

    def section_at(self, place: int) -> int:
        """Return the section in which the code point at ``place`` was or will be read."""
        return self._sections[place] if place < len(self._sections) else self.seen.section

    def kept(self, jailed: int) -> int:
        """Return how many of the last code points are not output, ``jailed`` or more.

        If a part of a marker is jailed, all of it is, because a stop may cut it.
        """
        size = len(self._sections)
        end = size - max(jailed, len(self.seen.marker))
        for marker in reversed(self._markers):
            if end in marker:
                end = marker.start
        return size - end

    def chunk(self, start: int, text: str, last: Chunk = NOTHING) -> Chunk:
        """Return ``text`` from ``start`` on without markers, with the finish of ``last``."""
        of_markers = {place for marker in self._markers for place in marker}
        parts = [
            (self._names[self._sections[place]], letter)
            for place, letter in enumerate(text, start)
            if place not in of_markers
        ]
        if not parts and last is NOTHING:
            return NOTHING
        return of_parts(parts or [(self._names[self.seen.section], "")], last)


# --- the prompt -----------------------------------------------------------------------------------


class PromptMarkers:
    """The markers of sections, as they are found in prompts.

    A text that the tokenizer always encodes as one token is found by its id. For other texts, the
    ids after the last such id are decoded. A marker that opens one section and closes another
    counts as an opening marker.
    """

    def __init__(self, pairs: Pairs, tokenizer: Decoder) -> None:
        self._by_id: dict[int, int] = {}
        self._by_text: dict[str, int] = {}
        openings = [(opening, section) for section, (opening, _) in enumerate(pairs, 1)]
        for marker, section in [*openings, *((closing, OUTSIDE) for _, closing in pairs)]:
            token_id = _only_token(tokenizer, marker) if isinstance(marker, str) else marker
            if token_id is not None:
                self._by_id.setdefault(token_id, section)
            elif isinstance(marker, str):
                self._by_text.setdefault(marker, section)

    def section_after(self, tokenizer: Decoder, prompt: Sequence[SupportsIndex]) -> int:
        """Return the section after the last marker in ``prompt``; OUTSIDE without one."""
        backwards, size, section = [*reversed(prompt)], len(prompt), OUTSIDE
        for token_id, after in self._by_id.items():
            with suppress(ValueError):
                size, section = backwards.index(token_id, 0, size), after
        if not self._by_text or not size:
            return section
        rest = [*map(index, reversed(backwards[:size]))]
        text = tokenizer.decode(rest, skip_special_tokens=False)
        found = [each for each in self._by_text if each in text]
        if not found:
            return section
        return self._by_text[max(found, key=lambda each: (text.rfind(each) + len(each), len(each)))]


def _only_token(tokenizer: Any, text: str) -> int | None:
    """Return the id of the token that always encodes ``text``, or None.

    None for a word, which may be part of a longer token. Others are encoded with letters around.
    """
    encode = getattr(tokenizer, "encode", None)
    token_to_id = getattr(tokenizer, "token_to_id", None)
    token_id = token_to_id(text) if token_to_id is not None else None
    if not isinstance(token_id, int) or encode is None or text[0].isalnum() or text[-1].isalnum():
        return None
    for beside in ("a", " ", "\n", ".", "<", text):
        try:
            ids = encode(f"{beside}{text}{beside}", add_special_tokens=False).ids
        except StreamdecError:  # the tokenizer has no token for the letter, or for the text
            if beside == text:
                return None
            continue
        if [*ids].count(token_id) != (3 if beside == text else 1):
            return None
    return token_id
