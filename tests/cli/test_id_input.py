"""Ids out of a file: how the bytes are cut into reads never matters."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.cli.id_input import (
    LONGEST_WORD,
    BadInputError,
    detect_format,
    numbered_lines,
    numbered_words,
    parse_id,
    parse_row,
    without_bom,
)

BOM = b"\xef\xbb\xbf"

reads = st.lists(st.binary(max_size=6) | st.sampled_from([b"12", b"\n", b", ", b"\r\n", BOM, b"["]))


@given(reads)
def test_lines_are_those_of_the_whole_file(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    expected = [(number, line) for number, line in enumerate(whole, 1) if line.strip()]
    assert list(numbered_lines(chunks)) == expected


@given(reads)
def test_words_are_those_of_the_whole_file(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    words = [re.split(rb"[\s,]+", line) for line in whole]
    expected = [(number, word) for number, line in enumerate(words, 1) for word in line if word]
    assert [(n, word) for n, line in numbered_words(chunks) for word in line] == expected


@given(reads)
def test_a_byte_order_mark_is_left_out_at_the_beginning_only(chunks: list[bytes]) -> None:
    assert b"".join(without_bom([BOM[:1], BOM[1:], *chunks])) == b"".join(chunks)
    plain = [b"x", *chunks]
    assert b"".join(without_bom(plain)) == b"".join(plain)


@pytest.mark.parametrize("head", [b"", BOM[:1], BOM[:2], b"\xef\xbbx", BOM])
def test_less_than_a_byte_order_mark_is_kept(head: bytes) -> None:
    cut = [head[place : place + 1] for place in range(len(head))]
    assert b"".join(without_bom(cut)) == head.removeprefix(BOM)


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"\n \r\n", b"\t[1]"], "jsonl"),
        ([b'{"token_ids": []}'], "jsonl"),
        ([b"1 2 3"], "ids"),
        ([b"\n", b",1"], "ids"),
        ([b"hello"], "ids"),
        ([b" \n"], "ids"),
        ([], "ids"),
    ],
)
def test_the_first_line_that_is_not_blank_shows_the_format(
    chunks: list[bytes], expected: str
) -> None:
    found, rest = detect_format(chunks)
    assert found == expected
    assert list(rest) == chunks


def test_words_are_given_as_soon_as_they_are_whole() -> None:
    taken = []

    def arriving() -> Iterator[bytes]:
        for chunk in (b"1 2", b"3 4\n5", b" 6"):
            taken.append(chunk)
            yield chunk

    words = numbered_words(arriving())
    assert next(words) == (1, [b"1"])
    assert taken == [b"1 2"]
    assert next(words) == (1, [b"23", b"4"])
    assert list(words) == [(2, [b"5"]), (2, [b"6"])]


def test_a_word_without_end_is_not_kept_whole() -> None:
    chunks = (b"7" * 1000 for _ in range(1000))
    ((number, (word,)),) = numbered_words(chunks)
    assert number == 1
    assert word == b"7" * LONGEST_WORD


@pytest.mark.parametrize(("word", "token_id"), [(b"0", 0), (b"007", 7), (b"-3", -3)])
def test_an_id_is_an_integer(word: bytes, token_id: int) -> None:
    assert parse_id(word) == token_id


@pytest.mark.parametrize(
    "word", [b"x", b"1.0", b"+1", b"1_000", b"--1", b"0x10", b"\xff", "\u0663".encode(), b"1" * 65]
)
def test_what_is_no_integer_is_quoted(word: bytes) -> None:
    with pytest.raises(BadInputError, match=r"^'.*'…? is not a token id; expected an integer"):
        parse_id(word)


def test_a_row_is_a_list_or_an_object_with_other_fields() -> None:
    assert parse_row(b" [1, 2]\r") == ([1, 2], {})
    assert parse_row(b'{"id": "a", "token_ids": [3], "n": null}') == ([3], {"id": "a", "n": None})
    assert parse_row(b'{"token_ids": []}') == ([], {})


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"[1, 2", "not JSON: Expecting ',' delimiter (column 6)"),
        (b"[1] 2", "not JSON: Extra data (column 5)"),
        (b"5", "expected a list of token ids or an object, got a number"),
        (b'"5"', "expected a list of token ids or an object, got a string"),
        (b"true", "expected a list of token ids or an object, got a boolean"),
        (b"null", "expected a list of token ids or an object, got null"),
        (b'{"ids": [1], "n": 2}', "the object has no 'token_ids'; its keys: ids, n"),
        (b"{}", "the object has no 'token_ids'; its keys: none"),
        (b'{"token_ids": 5}', "'token_ids' must be a list of integers, got a number"),
        (b'{"token_ids": {}}', "'token_ids' must be a list of integers, got an object"),
        (b'{"token_ids": "1 2"}', "'token_ids' must be a list of integers, got a string"),
        (b"[\xff]", "not UTF-8: byte 0xff at position 2"),
        (b'["\xe6\xb2"]', "not UTF-8: byte 0xe6 at position 3"),
    ],
)
def test_a_bad_row_says_what_is_wrong(line: bytes, complaint: str) -> None:
    with pytest.raises(BadInputError) as caught:
        parse_row(line)
    assert str(caught.value) == complaint


@pytest.mark.parametrize("line", [b"[" * 100_000, b"[" + b"9" * 5000 + b"]"])
def test_json_beyond_the_limits_of_the_reader_is_a_bad_row(line: bytes) -> None:
    with pytest.raises(BadInputError, match="not JSON that can be read"):
        parse_row(line)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_is_a_row_or_a_bad_row(value: Any) -> None:
    line = json.dumps(value).encode()
    if isinstance(value, list):
        assert parse_row(line) == (value, {})
    else:
        with pytest.raises(BadInputError):
            parse_row(line)
