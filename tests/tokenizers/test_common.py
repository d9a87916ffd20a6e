from __future__ import annotations

import sys

import pytest

from streamdec.errors import TokenizerLibraryError
from streamdec.protocols import Joined, TextRules
from streamdec.tokenizers._common import (
    fingerprint_of,
    guarded,
    sample_of,
)


class Panic(BaseException):
    """As a panic of a Rust library arrives."""


def fail(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("error", [Panic("index out of bounds"), KeyError("x"), MemoryError()])
def test_every_failure_becomes_a_streamdec_error_with_its_cause(error: BaseException) -> None:
    with pytest.raises(TokenizerLibraryError, match=f"fail: {type(error).__name__}") as caught:
        guarded(fail, error)
    assert caught.value.__cause__ is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
def test_exits_and_interrupts_are_passed_on(error: BaseException) -> None:
    with pytest.raises(type(error)):
        guarded(fail, error)


def test_a_sample_has_some_of_each_kind() -> None:
    assert sample_of([], [], 0) == []
    assert sample_of([7], [3], 10) == list(range(10))
    sample = sample_of(range(500_000, 501_000), range(90_000, 90_256), 400_000)
    assert sample == sorted(set(sample))
    assert {0, 90_000, 90_255, 500_000, 500_063} <= {*sample}
    assert 500_064 not in sample
    assert len(sample) < 64 + 256 + 140


def test_the_fingerprint_of_equal_tables_is_the_same_in_every_process() -> None:
    """Whether the strings are interned and how often they are referred to does not matter."""
    for one in (b"word".decode(), sys.intern("word")):
        table: list[object] = [one, one, b"\xff", {1: one, 2**40: None}]
        assert fingerprint_of(TextRules(Joined()), table, "") == "93b6298361fc39dc"
