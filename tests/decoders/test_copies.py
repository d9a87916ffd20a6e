"""Copies of decoders and of their subclasses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from streamdec import (
    DecodeStream,
    MockTokenizer,
    SectionDecoder,
    Sequence,
    StopSequenceDecoder,
    TextStopDecoder,
)

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b"])
SECTIONS = {"reasoning": ("<think>", "</think>")}
MAKERS: dict[type, Callable[[Any], Any]] = {
    DecodeStream: lambda kind: kind(TOKENIZER),
    StopSequenceDecoder: lambda kind: kind(TOKENIZER),
    SectionDecoder: lambda kind: kind(TOKENIZER, sections=SECTIONS),
    Sequence: lambda kind: kind(TOKENIZER),
    TextStopDecoder: lambda kind: kind(),
}


@pytest.mark.parametrize("base", MAKERS, ids=lambda base: base.__name__)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copies_call_a_fork_that_a_subclass_overrides(
    base: Any, copied: Callable[[Any], Any]
) -> None:
    class Counting(base):  # type: ignore[misc]
        forks = 0

        def fork(self) -> Any:
            other = super().fork()
            other.forks = self.forks + 1
            return other

    other = copied(copied(MAKERS[base](Counting)))
    assert (type(other), other.forks) == (Counting, 2)
