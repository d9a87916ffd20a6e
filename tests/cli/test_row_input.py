"""Rows out of a file that may hold ids or texts: how the bytes are cut into reads never matters."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.cli import row_input
from streamdec.cli.id_input import BadInputError
from streamdec.cli.row_input import RowFormat, detect_rows, numbered_rows


def rows(data: bytes, row_format: RowFormat, field: str = "text") -> list[tuple[int, Any]]:
    return [(number, row()) for number, row in numbered_rows([data], row_format, field)]


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[i:j] for i, j in itertools.pairwise(bounds)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[1, 2]\n", "jsonl"),
        (b'\n \n{"text": "x"}\n', "jsonl"),
        (b'"a text"', "jsonl"),
        (b"12 7,\t9\nno matter what", "ids"),
        (b"12", "ids"),
        (b"", "text"),
        (b"12 apples\n", "text"),
        (b'"Hello" she said\n', "text"),
        (b"[sic] 1\n", "text"),
        (b"{\n", "text"),
        (b"null\n", "text"),
        (b"\xff\n", "text"),
        (b"[" * 100_000 + b"\n", "text"),
    ],
)
def test_the_first_line_shows_what_a_file_holds(data: bytes, expected: str) -> None:
    found, chunks = detect_rows([data])
    assert (found, b"".join(chunks)) == (expected, data)


def test_a_first_line_that_is_too_long_is_told_by_its_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_input, "LONGEST_FIRST_LINE", 10)
    assert detect_rows([b"[1, 2, 3, 4, 5, 6", b", 7]"])[0] == "jsonl"
    assert detect_rows([b"letters letters"])[0] == "text"
    assert detect_rows([b"1 2 3 4 5 6 7 8 9"])[0] == "ids"


def test_no_more_is_read_than_the_first_line_before_it_is_known() -> None:
    def endless() -> Iterator[bytes]:
        yield b"1 2\n"
        raise AssertionError("more was asked for")

    assert detect_rows(endless())[0] == "ids"


@given(
    st.sampled_from([b"[1]\n", b"3 4\n5", b"text\n", b'"x"\n{}', b"\n\n7"]),
    st.lists(st.integers(0, 20)),
)
def test_reads_do_not_matter(data: bytes, cuts: list[int]) -> None:
    found, chunks = detect_rows(pieces(data, cuts))
    assert found == detect_rows([data])[0]
    assert b"".join(chunks) == data


def test_rows_of_jsonl_have_ids_or_a_text() -> None:
    data = b'[1, 2]\n\n{"token_ids": [3], "text": "x"}\n"a"\n{"prompt": "b"}\n'
    assert rows(data, "jsonl", "prompt") == [(1, [1, 2]), (3, [3]), (4, "a"), (5, "b")]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"7", "expected a list of token ids, a string or an object, got a number"),
        (b"{}", "neither 'token_ids' nor 'text'; its keys: none"),
        (b'{"a": 1, "b": 2}', "its keys: a, b"),
        (b'{"\\u001b[2J": 1, "\\ud800": 2}', r"its keys: '\x1b[2J', '\ud800'"),
        (b'{"' + b"k" * 1_000 + b'": 1}', f"its keys: {'k' * 32!r}\u2026"),
        (json.dumps(dict.fromkeys("abcdefghijklmnopqrst")).encode(), ", l, and 8 more"),
        (b'{"token_ids": "1"}', "'token_ids' must be a list of integers, got a string"),
        (b'{"text": ["a"]}', "'text' must be a string, got a list"),
        (b"[1", "not JSON"),
    ],
)
def test_what_is_no_row_is_named(line: bytes, told: str) -> None:
    ((_, row),) = numbered_rows([line], "jsonl", "text")
    with pytest.raises(BadInputError, match=re.escape(told)):
        row()


def test_lines_are_texts() -> None:
    assert rows(b"a\r\n\nb", "lines") == [(1, "a"), (2, ""), (3, "b")]


def test_a_stream_of_ids_comes_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_input, "IDS_AT_ONCE", 3)
    found = numbered_rows([b"1 2\n3 4\nx 5"], "ids", "text")
    told = []
    for number, row in found:
        try:
            told.append((number, row()))
        except BadInputError as error:
            told.append((number, [str(error)[:3]]))
    assert told == [(1, [1, 2, 3]), (3, ["'x'"]), (2, [4, 5])]


@given(st.text(alphabet="ab\né😀", max_size=60), st.lists(st.integers(0, 60)))
def test_the_parts_of_a_text_are_the_text(text: str, cuts: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_input, "BYTES_AT_ONCE", 8)
        found = list(numbered_rows(pieces(text.encode(), cuts), "text", "text"))
        texts = [row() for _, row in found]
        lines = [number for number, _ in found]
    assert "".join(map(str, texts)) == text
    assert all(len(str(part).encode()) <= 8 for part in texts)
    before = 0
    for line, part in zip(lines, texts, strict=True):
        assert line == before + 1
        before += str(part).count("\n")


def test_a_part_that_is_no_text_is_bad() -> None:
    ((number, row),) = numbered_rows([b"a\xff"], "text", "text")
    with pytest.raises(BadInputError, match="not UTF-8: byte 0xff at position 2"):
        row()
    assert number == 1
