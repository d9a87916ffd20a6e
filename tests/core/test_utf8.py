"""Bytes to text: every byte, before each boundary, and all boundaries of longer strings."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.core import utf8
from tests import reference

LEADS = (0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF)
TRAILS = (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)
BOUNDARIES = (0x00, 0x7F, *TRAILS, 0xC0, *LEADS)
FOUR = ((0x41, 0x80, 0xC3, 0xE0, 0xED, 0xF0, 0xF1, 0xF4), *[(*TRAILS, 0x41, 0xF0)] * 3)


points = cache(reference.code_points)
unfinished = cache(reference.unfinished)


def short_strings() -> Iterator[bytes]:
    """Every byte, alone and before a boundary; three and four boundaries."""
    every = range(256)
    for letters in ([every], [every, BOUNDARIES], [BOUNDARIES] * 3, FOUR):
        yield from map(bytes, itertools.product(*letters))


@pytest.fixture(params=[utf8.PER_PART, utf8.PER_BYTE])
def errors(request: pytest.FixtureRequest) -> str:
    policy: str = request.param
    return policy


def one_by_one(data: bytes, errors: str) -> tuple[str, bytes]:
    text, pending = "", b""
    for place in range(len(data)):
        more, pending = utf8.decode(pending + data[place : place + 1], errors)
        text += more
    return text, pending


def test_decode_withholds_exactly_what_may_become_a_character(errors: str) -> None:
    for data in short_strings():
        rest = unfinished(data)
        decided = points(data[: len(data) - len(rest)], per_byte=errors == utf8.PER_BYTE)
        assert utf8.decode(data, errors) == ("".join(char for _, char in decided), rest)


def test_one_byte_at_a_time_is_the_same_as_all_at_once(errors: str) -> None:
    for data in short_strings():
        assert one_by_one(data, errors) == utf8.decode(data, errors), data


def test_the_whole_text_per_part_is_what_python_replaces() -> None:
    for data in short_strings():
        text, rest = utf8.decode(data, utf8.PER_PART)
        assert text + utf8.flush(rest, utf8.PER_PART) == data.decode("utf-8", "replace"), data


def test_code_points_come_with_their_bytes(errors: str) -> None:
    per_byte = errors == utf8.PER_BYTE
    for data in short_strings():
        decided = data[: len(data) - len(unfinished(data))]
        assert utf8.code_points(data, errors) == points(decided, per_byte=per_byte)
        assert utf8.code_points(data, errors, final=True) == points(data, per_byte=per_byte)


@given(data=st.lists(st.sampled_from([*BOUNDARIES, *"aé你😀\ufffd".encode()])).map(bytes))
def test_code_points_of_longer_strings_add_up(data: bytes) -> None:
    for errors in (utf8.PER_PART, utf8.PER_BYTE):
        text, rest = utf8.decode(data, errors)
        found = utf8.code_points(data, errors)
        assert sum(width for width, _ in found) == len(data) - len(rest)
        assert "".join(char for _, char in found) == text
        final = utf8.code_points(data, errors, final=True)
        assert sum(width for width, _ in final) == len(data)
        assert "".join(char for _, char in final) == text + utf8.flush(rest, errors)
