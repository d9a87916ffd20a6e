"""``python -m fuzz.jail``: test the first stop of a text in pieces, and the jailed text.

An input is JSON: ``hidden`` and ``visible`` stops, the ``pieces`` of the text, and how many of them
are stepped under ``ignored`` stops.
"""

from __future__ import annotations

import sys
from collections.abc import Set as AbstractSet

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec.core.strings import Hit, StopStrings

LETTERS = ["a", "b", "ab", "aab", "aba", "abab", "\n", "é", "\ufffd"]


def law(data: bytes) -> None:
    case = Case(data)
    hidden, visible = (frozenset(t for t in case.texts(n) if t) for n in ("hidden", "visible"))
    matcher = StopStrings(hidden, visible)
    finds_the_first(matcher, hidden, visible, case.texts("pieces", 12), case.number("ignored", 12))


def finds_the_first(
    matcher: StopStrings,
    hidden: AbstractSet[str],
    visible: AbstractSet[str],
    pieces: tuple[str, ...],
    ignored: int,
) -> None:
    """Return the stop by its definition: the text ends in it at the earliest code point."""
    tail = text = ""
    for index, piece in enumerate(pieces):
        ignore = index < ignored
        before, text = text, text + piece
        tail, hit = matcher.step(tail, piece, ignore=ignore)
        expected = None if ignore else _first(before, text, hidden | visible)
        if expected:
            end, stop = expected
            assert hit == Hit(stop, stop not in hidden, end, stop)
            return
        assert hit is None
        assert tail == _longest_beginning(text, hidden | visible)
        assert matcher.jailed(tail) == _longest_beginning(text, hidden)


def _first(before: str, text: str, stops: AbstractSet[str]) -> tuple[int, str] | None:
    for end in range(len(before) + 1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            return end - len(before), max(complete, key=len)
    return None


def _longest_beginning(text: str, stops: AbstractSet[str]) -> str:
    beginnings = {stop[:size] for stop in stops for size in range(len(stop))}
    return next((text[n:] for n in range(len(text)) if text[n:] in beginnings), "")


def seeds() -> dict[str, bytes]:
    return {
        "split": written(hidden=["abc"], visible=[], pieces=["xa", "b", "cy"]),
        "again": written(hidden=["ababac"], visible=[], pieces=["aba", "bab", "ac"]),
        "longest": written(hidden=["b"], visible=["ab", "aab"], pieces=["aa", "b"]),
        "equal": written(hidden=["ab"], visible=["ab"], pieces=["a", "b"]),
        "tail": written(hidden=["bx"], visible=["a by"], pieces=["a", " b", "a b", "x"]),
        "ignored": written(hidden=["aa", "a"], visible=[], pieces=["aa", "a", "ab"], ignored=1),
    }


TARGET = Target("jail", law, seeds, json_edit(LETTERS), shown)

if __name__ == "__main__":
    sys.exit(main(TARGET))
