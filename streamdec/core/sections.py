"""Definitions of sections, shared by the streams of a table."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any

from streamdec.chunks import Chunk, in_section
from streamdec.core.stops.conditions import pairs_of
from streamdec.core.stops.gate import OPEN, Gate, PromptMarkers
from streamdec.core.stops.stop_sets import skipped_ids
from streamdec.core.table import Table
from streamdec.protocols import Decoder

__all__ = ["Definition", "Sections", "sections_for"]

MAX_KNOWN = 65_536
"""Texts without markers that are known in one section; each takes about 200 bytes."""
MAX_SECTIONS = 64
"""Definitions of sections that are kept for one table."""

Pair = tuple[str | int, str | int]
Definition = Mapping[str, Pair | Iterable[Pair]]


class _Known(dict[str, "Chunk | None"]):
    """What texts give in one section: a chunk, or None if a marker may begin in the text."""

    def __init__(self, section: str | None, firsts: frozenset[str]) -> None:
        super().__init__()
        self.section, self._firsts = section, firsts

    def __missing__(self, text: str) -> Chunk | None:
        known = in_section(self.section, text) if self._firsts.isdisjoint(text) else None
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
        pairs = [pair for _, pair in named]
        texts = [marker for pair in pairs for marker in pair]
        self.gate = Gate(pairs, OPEN, skipped_ids(tokenizer, table, texts))
        names = (None, *(name for name, _ in named))
        self.known = [_Known(name, self.gate.firsts(at)) for at, name in enumerate(names)]
        self.prompt_markers = PromptMarkers(pairs, tokenizer)


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
                raise ValueError(f"sections: {pair[0]!r:.60} opens two sections")
            named[pair[0]] = name, pair
    return tuple(named.values())
