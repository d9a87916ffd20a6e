from __future__ import annotations

import sys

import pytest

from streamdec.errors import TokenizerLibraryError
from streamdec.protocols import Joined, TextRules
from streamdec.tokenizers._common import fingerprint_of, guarded


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


def test_the_fingerprint_of_equal_tables_is_the_same_in_every_process() -> None:
    """Whether the strings are interned and how often they are referred to does not matter."""
    for one in (b"word".decode(), sys.intern("word")):
        table: list[object] = [one, one, b"\xff", {1: one, 2**40: None}]
        assert fingerprint_of(TextRules(Joined()), table, "") == "665fc6d73685c79a"
