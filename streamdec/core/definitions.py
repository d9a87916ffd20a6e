"""The definition of sections: the name and the markers of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from streamdec.core.conditions import pairs_of
from streamdec.core.sections import SkippedIds
from streamdec.core.stop_set import Definition
from streamdec.core.table import Table
from streamdec.errors import warn
from streamdec.protocols import Decoder

Pair = tuple[str | int, str | int]
SectionsOption = Mapping[str, Pair | Iterable[Pair]]
"""As users write it: the name of each section, and its pair of markers or a list of pairs."""


def definition_of(sections: Any) -> Definition:
    """Return the definition of ``sections``. Raises TypeError or ValueError."""
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
    names, pairs = zip(*named.values(), strict=True)
    return Definition(names, pairs)


def warn_unfindable(
    tokenizer: Decoder, table: Table, definition: Definition, skipped: SkippedIds
) -> None:
    """Warn about markers that cannot be found, because a part of them has no text."""
    if not table.options.skip_special_tokens:
        return
    markers = [marker for pair in definition.pairs for marker in pair]
    for marker, part in _unfindable(tokenizer, [each for each in markers if each not in skipped]):
        warn(
            f"sections: the marker {marker!r:.80} contains {part!r:.40}, a special token that is "
            "skipped, so the marker is not found; pass skip_special_tokens=False"
        )


def _unfindable(tokenizer: Any, markers: Iterable[str | int]) -> Iterator[tuple[str, str]]:
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
