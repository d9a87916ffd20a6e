"""``python -m fuzz.pattern_cost``: bound the cost of a stop pattern, and of text of its letters.

An input is JSON. ``parts`` has the atoms of a pattern with their counts; ``pieces`` has the number
and the length of the pieces of text; with ``ends`` the pattern ends in a letter that the text does
not have. ``levels`` loops, each in the next one, come before these parts; a letter of its own leads
into each, and the text begins with these letters. The longest match is also given.

It may take ``MOST_TO_READ`` seconds of CPU time to read a pattern, and ``MOST_TIME`` to step a
letter. The text has the letters that the atoms match, so that nearly every part of the pattern
matches everywhere.
"""

from __future__ import annotations

import sys
from time import thread_time
from typing import Any

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.patterns.compile import read_pattern

ATOMS = (
    *("x", "y", "[xy]", "(?:x)", "(?:x|y)", "(?:xx?)", "x?", "x*", "x+", "(?:x+)+", "(?:x*y*)*"),
    *("x{10}", "(?:x{3}){3}", "x{200}", "(?i:x)", "[^z]", "(?:xy|yx)", "(?:x|xy)*", ".", r"\w"),
    *("()", "(?:)", "(?:){300}", "(?:(?:){60}){60}", "(?<!z)", r"\b", "x{0,200}", "(?<=x{50})"),
    *("(?:x?){300}", "(?i:[x-\uffff])", f"[{''.join(map(chr, range(0x3400, 0x5000)))}x]{{900}}"),
    *(f"(?:x{'|' * 5_000}){{300}}", f"(?:x{'()' * 3_000}){{490}}"),
    "".join(f"[!-{chr(0xFFFF - end)}]" for end in range(900)),
)
MOST_COUNT, MOST_PARTS, MOST_PIECES, MOST_SIZE = 4_000, 4, 12, 200
MOST_TO_READ = 1.5
"""Seconds for a pattern: four times what the slowest takes."""
MOST_TIME = 0.01
"""Seconds for a letter: ten times what 1,000 parts take on an idle machine."""
LEVELS = "".join(map(chr, range(0x100, 0x180)))
GRACE = 0.3
"""Seconds beyond the bounds."""


def law(data: bytes) -> None:
    case = Case(data)
    parts = [_part(each) for each in case.lists("parts", MOST_PARTS)]
    levels = LEVELS[: case.number("levels", len(LEVELS))]
    pattern = _loops(levels) + "".join(atom * count for atom, count in parts)
    pattern += "z" * case.flag("ends")
    longest = case.number("longest", 4_096, least=1)
    read_pattern.cache_clear()
    began = thread_time()
    try:
        conditions = StopConditions(stop_regex=pattern, max_match_length=longest)
    except ValueError:
        return
    finally:
        took = thread_time() - began
        assert took <= MOST_TO_READ, f"reading took {took:.2f} s, expected {MOST_TO_READ} at most"
    letters = "xy" if case.flag("mixed") else "x"
    piece = letters * case.number("size", MOST_SIZE, least=1)
    tokenizer = MockTokenizer.from_tokens([piece.encode(), levels.encode(), b"x"])
    decoder = StopSequenceDecoder(tokenizer, conditions)
    decoder.step(1)
    for _ in range(case.number("pieces", MOST_PIECES, least=1)):
        if decoder.finished:
            return
        began = thread_time()
        decoder.step(0)
        took, most = thread_time() - began, MOST_TIME * len(piece) + GRACE
        assert took <= most, f"a step took {took:.2f} s of CPU time, expected {most:.2f} at most"


def _loops(letters: str) -> str:
    pattern = ""
    for letter in letters:
        pattern = f"(?:{pattern}(?:{letter}.*)?-?)*"
    return pattern


def _part(given: list[Any]) -> tuple[str, int]:
    case = Case(written(part=given[0] if given else 0, count=given[1] if len(given) > 1 else 1))
    return case.choice("part", ATOMS), case.number("count", MOST_COUNT)


def seeds() -> dict[str, bytes]:
    return {
        "literal": written(parts=[["x", 900]], size=200, pieces=9, longest=3_000),
        "set": written(
            parts=[["[xy]", 900]], ends=True, size=64, pieces=9, mixed=True, longest=3_000
        ),
        "optional": written(parts=[["(?:xx?)", 300]], ends=True, size=64, pieces=9, longest=3_000),
        "nested": written(parts=[["(?:x+)+", 1]], ends=True, size=8, pieces=12, longest=400),
        "counted": written(parts=[["x{200}", 3], ["y", 2]], size=50, pieces=12, longest=3_000),
        "loops": written(levels=100, ends=True, size=64, pieces=9, longest=3_000),
        "ranges": written(parts=[["(?i:[x-\uffff])", 900]], size=8, longest=3_000),
        "letters": written(parts=[[len(ATOMS) - 4, 1]], size=8, longest=3_000),
        "alternatives": written(
            parts=[[len(ATOMS) - 3, 1]], ends=True, size=64, pieces=5, longest=3_000
        ),
        "groups": written(parts=[[len(ATOMS) - 2, 1]], ends=True, size=8, longest=3_000),
        "sets": written(parts=[[len(ATOMS) - 1, 1]], size=8, longest=3_000),
        "many": written(parts=[["(?:x?){300}", 100]], ends=True, size=64, longest=60),
    }


TARGET = Target("pattern_cost", law, seeds, json_edit([*ATOMS]), shown, is_timed=True)

if __name__ == "__main__":
    sys.exit(main(TARGET))
