"""``python -m fuzz.pattern_cost``: bound the cost of a stop pattern on text of its letters.

An input is JSON. ``parts`` has the atoms of a pattern with their counts; ``pieces`` has the number
and the length of the pieces of text; with ``ends`` the pattern ends in a letter that the text does
not have. The longest match is also given. A step may take ``TIMEOUT`` seconds of CPU time. The
text has the letters that the atoms match, so that nearly every part of the pattern matches
everywhere.
"""

from __future__ import annotations

import sys
from time import thread_time
from typing import Any

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import MockTokenizer, StopConditions, StopRegexTimeoutError, StopSequenceDecoder
from streamdec.stops import regex_matcher
from streamdec.stops.patterns import read_pattern

ATOMS = (
    *("x", "y", "[xy]", "(?:x)", "(?:x|y)", "(?:xx?)", "x?", "x*", "x+", "(?:x+)+", "(?:x*y*)*"),
    *("x{10}", "(?:x{3}){3}", "x{200}", "(?i:x)", "[^z]", "(?:xy|yx)", "(?:x|xy)*", ".", r"\w"),
    *("()", "(?:)", "(?:){300}", "(?:(?:){60}){60}", "(?<!z)", r"\b"),
)
MOST_COUNT, MOST_PARTS, MOST_PIECES, MOST_SIZE = 4_000, 4, 12, 2_500
GRACE = 0.3
"""Seconds beyond the bounds: one call of the library may begin just before its deadline."""


def law(data: bytes) -> None:
    case = Case(data)
    parts = [_part(each) for each in case.lists("parts", MOST_PARTS)]
    pattern = "".join(atom * count for atom, count in parts) + "z" * case.flag("ends")
    for cache in (read_pattern, regex_matcher._regex):
        cache.cache_clear()
    try:
        conditions = StopConditions(
            stop_regex=pattern, max_match_length=case.number("longest", 4_096, least=1)
        )
    except ValueError:
        return
    letters = "xy" if case.flag("mixed") else "x"
    piece = letters * case.number("size", MOST_SIZE, least=1)
    decoder = StopSequenceDecoder(MockTokenizer.from_tokens([piece.encode(), b"x"]), conditions)
    for _ in range(case.number("pieces", MOST_PIECES, least=1)):
        if decoder.finished:
            return
        began = thread_time()
        try:
            decoder.step(0)
        except StopRegexTimeoutError:
            return
        finally:
            took = thread_time() - began
            most = regex_matcher.TIMEOUT + GRACE
            assert took <= most, f"a step took {took:.2f} s of CPU time, expected {most} at most"


def _part(given: list[Any]) -> tuple[str, int]:
    case = Case(written(part=given[0] if given else 0, count=given[1] if len(given) > 1 else 1))
    return case.choice("part", ATOMS), case.number("count", MOST_COUNT)


def seeds() -> dict[str, bytes]:
    return {
        "literal": written(parts=[["x", 2_400]], size=2_398, pieces=2, longest=3_000),
        "set": written(
            parts=[["[xy]", 400]], ends=True, size=64, pieces=9, mixed=True, longest=3_000
        ),
        "optional": written(parts=[["(?:xx?)", 60]], ends=True, size=16, pieces=9, longest=3_000),
        "nested": written(parts=[["(?:x+)+", 1]], ends=True, size=8, pieces=12, longest=400),
        "counted": written(parts=[["x{200}", 3], ["y", 2]], size=50, pieces=12, longest=3_000),
    }


TARGET = Target("pattern_cost", law, seeds, json_edit([*ATOMS]), shown)

if __name__ == "__main__":
    sys.exit(main(TARGET))
