"""Definitions of sections, shared by the streams of a table; and ids that may be markers."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from os.path import commonprefix
from typing import Any, NamedTuple

from streamdec.chunks import NOTHING, Chunk, in_section
from streamdec.core.stops.conditions import pairs_of
from streamdec.core.stops.gate import OPEN, Gate, PromptMarkers
from streamdec.core.stops.stop_sets import skipped_ids
from streamdec.core.table import Table
from streamdec.errors import RewriteError, StreamdecWarning
from streamdec.protocols import Decoder

__all__ = [
    "NO_TEXT",
    "Definition",
    "KnownTexts",
    "OwnText",
    "Sections",
    "Turn",
    "loaded_marks",
    "loaded_text",
    "loaded_turn",
    "origins_of",
    "released_origins",
    "sections_for",
]

MAX_KNOWN = 32_768
"""Texts that are known in one section; each takes some 200 bytes and its letters."""
MAX_LENGTH = 128
"""Code points of the longest text that is known; hardly a token has more."""
MAX_SECTIONS = 64
"""Definitions of sections that are kept for one table."""

Pair = tuple[str | int, str | int]
Definition = Mapping[str, Pair | Iterable[Pair]]


class KnownTexts(dict[str, "Chunk | None"]):
    """What texts give in one section: a chunk, or None if a marker may begin in the text."""

    __slots__ = ("_firsts", "ids", "section")

    def __init__(self, section: str | None, firsts: frozenset[str], ids: frozenset[int]) -> None:
        super().__init__()
        self.section, self._firsts, self.ids = section, firsts, ids

    def __missing__(self, text: str) -> Chunk | None:
        known: Chunk | None = None
        if not text:
            known = NOTHING
        elif self._firsts.isdisjoint(text):
            known = in_section(self.section, text)
        if len(text) <= MAX_LENGTH:
            if len(self) >= MAX_KNOWN:
                self.clear()
            self[text] = known
        return known


class Sections:
    """A definition of sections for one table, shared by its streams."""

    def __init__(
        self, tokenizer: Decoder, table: Table, named: tuple[tuple[str, Pair], ...]
    ) -> None:
        self.named = named
        self.pairs = pairs = tuple(pair for _, pair in named)
        texts = [marker for pair in pairs for marker in pair]
        skipped = skipped_ids(tokenizer, table, texts)
        if table.options.skip_special_tokens:
            _warn_of_skipped_parts(tokenizer, [each for each in texts if each not in skipped])
        self.gate = Gate(pairs, OPEN, skipped)
        names = (None, *(name for name, _ in named))
        self.known = [
            KnownTexts(name, self.gate.firsts(at), self.gate.ids) for at, name in enumerate(names)
        ]
        self.prompt_markers = PromptMarkers(pairs, tokenizer)


def _warn_of_skipped_parts(tokenizer: Any, markers: Iterable[str | int]) -> None:
    """Warn of texts that have the text of a skipped special token: they are not found."""
    needed = "special_tokens", "token_to_id", "is_skipped"
    special_tokens, token_to_id, is_skipped = (getattr(tokenizer, each, None) for each in needed)
    if special_tokens is None or token_to_id is None or is_skipped is None:
        return
    ids = {name: token_to_id(name) for name in special_tokens.all if name}
    skipped = [name for name, i in ids.items() if i is not None and is_skipped(i)]
    for marker in markers:
        part = next((name for name in skipped if isinstance(marker, str) and name in marker), None)
        if part is not None:
            warnings.warn(
                f"sections: the marker {marker!r:.80} has the text of {part!r:.40}, a special "
                "token that is skipped, so it is not found; give skip_special_tokens=False",
                StreamdecWarning,
                stacklevel=5,
            )


_kept: weakref.WeakKeyDictionary[Table, dict[Any, Sections]] = weakref.WeakKeyDictionary()


def sections_for(tokenizer: Decoder, table: Table, sections: Definition) -> Sections:
    """Return the sections of a definition, one object for equal ones of a table."""
    named = _checked(sections)
    kept = _kept.setdefault(table, {})
    found = kept.get(named)
    if found is None:
        if len(kept) >= MAX_SECTIONS:
            kept.clear()
        found = kept.setdefault(named, Sections(tokenizer, table, named))
    return found


def _checked(sections: Any) -> tuple[tuple[str, Pair], ...]:
    """The name and the markers of each section. Raises TypeError or ValueError."""
    if not isinstance(sections, Mapping) or not sections:
        raise TypeError(
            "sections must be a mapping of names to markers, such as "
            f"{{'reasoning': ('<think>', '</think>')}}, not {sections!r:.80}"
        )
    named: dict[str | int, tuple[str, Pair]] = {}
    for name, given in sections.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"sections: a name must be a string and not empty, got {name!r:.40}")
        pairs = pairs_of(f"sections[{name!r:.40}]", given)
        if not pairs:
            raise ValueError(f"sections[{name!r:.40}] has no markers")
        for pair in pairs:
            if pair[0] in named:
                raise ValueError(
                    f"sections: {pair[0]!r:.60} opens two sections; it can have only one closing "
                    "marker"
                )
            named[pair[0]] = name, pair
    return tuple(named.values())


def loaded_definition(data: Any) -> Definition:
    """Return the definition in a snapshot: a list, because JSON need not keep the order of keys.

    Raises ValueError or TypeError if it is none.
    """
    sections: dict[str, list[Pair]] = {}
    for name, opening, closing in data:
        sections.setdefault(name, []).append((opening, closing))
    return sections


# --- ids that may be markers, and the tail of a text ----------------------------------------------


class Turn(NamedTuple):
    """An id that may be a marker, until the text before it was read."""

    place: int
    """How many code points of the output come before it."""
    size: int
    """How many code points it began itself."""
    token_id: int
    token_index: int
    """The place of the token among the generated tokens."""

    def after(self, origins: Sequence[int]) -> Turn:
        """Return the turn after more code points, which tokens ``origins`` began."""
        place = self.place + sum(origin < self.token_index for origin in origins)
        return self._replace(place=place, size=self.size + origins.count(self.token_index))


class OwnText(NamedTuple):
    """The text of an id that is a marker. It is part of the marker."""

    left: int
    """How many of its code points are still to be read."""
    at: int
    """The section that the marker belongs to."""
    token_index: int
    """The place of the token among the generated tokens; -1 if there was no such id."""

    def after(self, origins: Sequence[int]) -> OwnText:
        """Return it after more code points, which tokens ``origins`` began."""
        if self.token_index < 0:
            return self
        return self._replace(left=self.left + origins.count(self.token_index))


NO_TEXT = OwnText(0, OPEN, -1)


def origins_of(table: Table, state: Any, token_id: int, text: str, index: int) -> list[int]:
    """Return the tokens that began the code points of ``text``.

    Token ``index``, which is ``token_id``, decides that text in ``state``.
    """
    origins = [index - age for age in table.firsts(state, token_id, text)]
    if not table.has_spans:  # only what came before the token by itself is not its own
        with suppress(RewriteError):
            size = len(commonprefix([table.flush(state), text]))  # noqa: RUF071 (letters)
            origins[size:] = [index] * (len(text) - size)
    return origins


def released_origins(table: Table, state: Any, tokens: int, *, goes_on: bool = False) -> list[int]:
    """Return the same for the text that the end of ``state`` gives, or a release (``goes_on``)."""
    text = table.release(state)[0] if goes_on else table.flush(state)
    return [tokens - age for age in table.released(state, text, goes_on=goes_on)]


def loaded_turn(data: Any, ids: frozenset[int], least: int, most: int, tokens: int) -> Turn:
    """Return a turn from a snapshot, between the code points ``least`` and ``most``.

    Raises ValueError or TypeError if no stream of so many tokens has it.
    """
    turn = Turn(*data)
    if not all(type(number) is int for number in turn) or not (
        least <= turn.place <= most
        and 0 <= turn.size <= most
        and turn.token_id in ids
        and 0 <= turn.token_index < tokens
    ):
        raise ValueError("a marker that cannot be in this stream")
    return turn


def loaded_text(data: Any, most: int, tokens: int) -> OwnText:
    """Return the text of a marker from a snapshot, of at most ``most`` code points.

    Raises ValueError or TypeError if no stream of so many tokens has it.
    """
    text = OwnText(*data)
    if not all(type(number) is int for number in text) or not (
        0 <= text.left <= most and -1 <= text.token_index < max(tokens, 1)
    ):
        raise ValueError("own_left must be a count, a section and the index of a token")
    return text


def loaded_marks(data: Any, first: int, last: int, tokens: int) -> tuple[tuple[int, int], ...]:
    """Return the marks of a tail from a snapshot: its code points are ``first`` to ``last``.

    Raises ValueError or TypeError if no stream of so many tokens has them.
    """
    marks = tuple((place, before) for place, before in data)
    places = [first, *(place for place, _ in marks)]
    if (
        not all(type(number) is int for mark in marks for number in mark)
        or places != sorted({*places})
        or places[-1] != last
        or not all(0 <= before < tokens for _, before in marks)
    ):
        raise ValueError("marks of another tail")
    return marks
