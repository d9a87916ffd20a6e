"""The definition of sections: the name and the markers of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from streamdec.core.conditions import Pair, opens_two, pairs_of
from streamdec.core.sections import SkippedIds
from streamdec.errors import warn

SectionsOption = Mapping[str, Pair | Iterable[Pair]]
"""As users write it: the name of each section, and its pair of markers or a list of pairs."""


class Definition(NamedTuple):
    """The sections of a stream: the name of each, and its markers."""

    names: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def markers(self) -> tuple[str | int, ...]:
        """All markers."""
        return (*chain.from_iterable(self.pairs),)


NO_DEFINITION = Definition()


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
        what = f"sections[{name!r:.40}]"
        pairs = pairs_of(what, given)
        if not pairs:
            told = "has no markers; expected a pair such as ('<think>', '</think>')"
            raise ValueError(f"{what} {told}")
        for opening, closing in pairs:
            if opening in named:
                raise opens_two("sections", opening)
            named[opening] = name, (opening, closing)
    names, all_pairs = zip(*named.values(), strict=True)
    return Definition(names, all_pairs)


def warn_unfindable(tokenizer: Any, definition: Definition, skipped: SkippedIds) -> None:
    """Warn about markers that cannot be found.

    A part of them is a skipped special token. A marker that is only such a token is found by its
    id, so it is among ``skipped``.
    """
    markers = [each for each in definition.markers if isinstance(each, str) and each not in skipped]
    special_tokens, token_to_id, is_skipped = (
        getattr(tokenizer, each, None) for each in ("special_tokens", "token_to_id", "is_skipped")
    )
    if not markers or special_tokens is None or token_to_id is None or is_skipped is None:
        return
    ids = {name: token_to_id(name) for name in special_tokens.all if name}
    without_text = [name for name, i in ids.items() if i is not None and is_skipped(i)]
    for marker in markers:
        part = next((name for name in without_text if name in marker), None)
        if part is not None and marker not in without_text:
            warn(
                f"sections: the marker {marker!r:.80} contains {part!r:.40}, a special token that "
                "is skipped, so the marker is not found; pass skip_special_tokens=False"
            )
