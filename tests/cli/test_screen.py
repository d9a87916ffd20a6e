"""Live text: rows no wider than the terminal, final once a next row has begun; what waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.cli.screen import cells_of, status, wrap
from tests.cli.running import DEMO_TEXT

lines = st.text(st.sampled_from("ab  \u4f60\u3002\u0e01\u0e34\u200d\U0001f469\u00e9\u0301-"))


@pytest.mark.parametrize(
    ("line", "width", "rows"),
    [
        ("", 5, [""]),
        ("one two", 10, ["one two"]),
        ("one two three", 8, ["one two ", "three"]),
        ("one two three", 7, ["one two ", "three"]),
        ("abcdefgh", 3, ["abc", "def", "gh"]),
        ("a \u6cb3\u6c34\u4e0d\u505c", 6, ["a \u6cb3\u6c34", "\u4e0d\u505c"]),
        ("ab  ", 2, ["ab  "]),
        ("\u6cb3\u6c34", 1, ["\u6cb3", "\u6c34"]),
    ],
)
def test_lines_break_after_spaces_and_ideographs(line: str, width: int, rows: list[str]) -> None:
    assert wrap(line, width) == rows


@given(lines, st.integers(2, 12))
def test_rows_joined_are_the_line_and_fit_the_width(line: str, width: int) -> None:
    rows = wrap(line, width)
    assert "".join(rows) == line
    assert all(sum(map(cells_of, row.rstrip(" "))) <= width for row in rows)


@given(lines, lines, st.integers(2, 12))
def test_more_text_changes_no_row_but_the_last(line: str, more: str, width: int) -> None:
    settled = wrap(line, width)[:-1]
    assert wrap(line + more, width)[: len(settled)] == settled


def test_the_demo_s_lines_keep_to_eighty_columns() -> None:
    """Only its paragraphs are longer; they begin at the margin."""
    indented = [line for line in DEMO_TEXT.splitlines() if line.startswith("  ")]
    assert indented
    assert all(len(wrap(line, 80)) == 1 for line in indented)


@pytest.mark.parametrize(
    ("character", "cells"),
    [("a", 1), ("\u6cb3", 2), ("\u0301", 0), ("\u200d", 0), ("\U0001f1ef", 2)],
)
def test_a_character_has_the_most_cells_that_a_terminal_may_give_it(
    character: str, cells: int
) -> None:
    assert cells_of(character) == cells


def test_the_status_says_what_waits_and_which_stops_it_may_become() -> None:
    tokenizer = MockTokenizer.from_tokens([b"Hi\n", b"U", b"ser\xe2", b"\x80"])
    stream = StopSequenceDecoder(tokenizer, StopConditions(["\nUser:", "\nUsage", "\n\n"]))
    seen = [status(stream)]
    for token_id in range(4):
        stream.step(token_id)
        seen.append(status(stream))
    assert seen == [
        "0 tokens",
        r"1 tokens · jailed: '\n', may become '\n\n' or '\nUsage' or '\nUser:'",
        r"2 tokens · jailed: '\nU', may become '\nUsage' or '\nUser:'",
        r"3 tokens · held bytes: e2 · jailed: '\nUser', may become '\nUser:'",
        r"4 tokens · held bytes: e2 80 · jailed: '\nUser', may become '\nUser:'",
    ]
