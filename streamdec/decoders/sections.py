"""Definitions of sections, and the chunks of known texts.

The streams of a table share them.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamdec.chunks import NOTHING, Chunk, in_section
from streamdec.errors import warn
from streamdec.protocols import Decoder
from streamdec.stops.conditions import pairs_of
from streamdec.stops.gate import OPEN, Gate, PromptMarkers
from streamdec.stops.stop_sets import skipped_ids
from streamdec.tables.table import Table

MAX_KNOWN = 32_768
"""Texts that are known in one section; each takes some 200 bytes and its letters."""
MAX_LENGTH = 128
"""Code points of the longest text that is known; hardly a token has more."""
MAX_SECTIONS = 64
"""Definitions of sections that are kept for one table."""

Pair = tuple[str | int, str | int]
Definition = Mapping[str, Pair | Iterable[Pair]]


class KnownTexts(dict[str, "Chunk | None"]):
    """Map each text in one section to its chunk; None if a marker may begin in it."""

    __slots__ = ("_at", "_gate", "_section", "ids")

    def __init__(self, gate: Gate, at: int, section: str | None) -> None:
        super().__init__()
        self._gate, self._at, self._section, self.ids = gate, at, section, gate.ids

    def __missing__(self, text: str) -> Chunk | None:
        marker, tail, _ = self._gate.read(self._at, "", text)
        known: Chunk | None = None
        if marker is None and not tail:
            known = in_section(self._section, text) if text else NOTHING
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
        spelled = (marker for marker in texts if isinstance(marker, str))
        skipped = skipped_ids(tokenizer, table, spelled)
        if table.options.skip_special_tokens:
            told = [each for each in texts if each not in skipped]
            for marker, part in unfindable(tokenizer, told):
                warn(
                    f"sections: the marker {marker!r:.80} contains {part!r:.40}, a special token "
                    "that is skipped, so the marker is not found; pass skip_special_tokens=False"
                )
        self.gate = Gate(pairs, OPEN, skipped)
        self.names = (None, *(name for name, _ in named))
        """The section of each state of the gate."""
        self.known = [KnownTexts(self.gate, at, name) for at, name in enumerate(self.names)]
        self.prompt_markers = PromptMarkers(pairs, tokenizer)


def unfindable(tokenizer: Any, markers: Iterable[str | int]) -> Iterator[tuple[str, str]]:
    """Yield each marker that contains a skipped special token, with that token.

    Such a marker cannot be found. A marker that is only such a token is found by its id, so it is
    not among them.
    """
    needed = "special_tokens", "token_to_id", "is_skipped"
    special_tokens, token_to_id, is_skipped = (getattr(tokenizer, each, None) for each in needed)
    if special_tokens is None or token_to_id is None or is_skipped is None:
        return
    ids = {name: token_to_id(name) for name in special_tokens.all if name}
    skipped = [name for name, i in ids.items() if i is not None and is_skipped(i)]
    for marker in markers:
        if not isinstance(marker, str) or marker in skipped:
            continue
        part = next((name for name in skipped if name in marker), None)
        if part is not None:
            yield marker, part


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
            raise ValueError(
                f"sections[{name!r:.40}] has no markers; expected a pair such as "
                "('<think>', '</think>')"
            )
        for pair in pairs:
            if pair[0] in named:
                raise ValueError(
                    f"sections: {pair[0]!r:.60} opens two sections; it can have only one closing "
                    "marker"
                )
            named[pair[0]] = name, pair
    return tuple(named.values())


def loaded_definition(data: Any) -> Definition:
    """Return the definition of sections in a snapshot.

    In the snapshot it is a list, because JSON need not keep the order of keys. Raises ValueError or
    TypeError if ``data`` is not a definition.
    """
    sections: dict[str, list[Pair]] = {}
    for name, opening, closing in data:
        sections.setdefault(name, []).append((opening, closing))
    return sections
