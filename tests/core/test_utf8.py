"""Bytes to text against its definition. Longer texts: ``tests/laws.py``."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from streamdec.core import utf8
from tests import reference

LEADS = (0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE, 0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF)
TRAILS = (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF)
BOUNDARIES = (0x00, 0x7F, *TRAILS, 0xC0, *LEADS)
NEXT = (*TRAILS, 0x41, 0xC3, 0xF0)


def short_strings() -> Iterator[bytes]:
    """Every byte, alone and before another one; three and four boundaries."""
    every, four = range(256), (0x41, 0xE0, 0xF0, 0xF1, 0xF4)
    for letters in ([every], [every, NEXT], [BOUNDARIES, NEXT, NEXT], [four, *[NEXT] * 3]):
        yield from map(bytes, itertools.product(*letters))


@pytest.mark.parametrize("errors", [utf8.PER_PART, utf8.PER_BYTE])
def test_all_that_cannot_become_a_character_is_decoded_with_its_bytes(errors: str) -> None:
    per_byte = errors == utf8.PER_BYTE
    for data in short_strings():
        rest = reference.unfinished(data)
        decided = reference.code_points(data[: len(data) - len(rest)], per_byte=per_byte)
        assert utf8.decode(data, errors) == ("".join(char for _, char in decided), rest)
        assert utf8.code_points(data, errors) == decided
        last = reference.code_points(rest, per_byte=per_byte)
        for each, found in ((rest, last), (data, decided + last)):
            assert utf8.flush(each, errors) == "".join(char for _, char in found)
        assert utf8.code_points(data, errors, final=True) == decided + last
