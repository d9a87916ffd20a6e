"""Bugs that other systems had, each as the bytes of its tokens and the text they are."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream, MockTokenizer
from streamdec.testing import BugCase, bug_cases
from tests.strategies import cuts

SHARED = Path(__file__).resolve().parents[3] / "shared" / "bug-cases" / "cases.jsonl"
"""The collection that ours was taken from, where it lies beside the repository."""


class Case(NamedTuple):
    """The tokens of one bug, and the correct text."""

    tokens: list[bytes]
    skip: list[int]
    text: str

    def stream(self) -> DecodeStream:
        return DecodeStream(MockTokenizer.from_tokens(self.tokens, self.skip))

    @property
    def ids(self) -> range:
        return range(len(self.tokens))


def ours(case: BugCase) -> Case:
    return Case([*case.tokens], [*case.skipped], case.expected_text)


def theirs(row: dict[str, Any]) -> Case:
    tokens = [bytes.fromhex(token) for token in row["token_bytes"]]
    return Case(tokens, row.get("skip", []), row["expected_text"])


def shared_rows() -> Iterator[dict[str, Any]]:
    lines = SHARED.read_text("utf-8").splitlines() if SHARED.exists() else []
    yield from map(json.loads, lines)


CASES = {case.id: ours(case) for case in bug_cases() if not case.stop}
"""Those that need no stop; the others are in ``test_stop_cases.py``."""
THEIRS = {row["id"]: theirs(row) for row in shared_rows() if not row.get("stop")}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def test_our_cases_have_all_of_the_collection() -> None:
    assert len(CASES) >= 39
    assert THEIRS.items() <= CASES.items()


def test_one_by_one_and_all_at_once(case: Case) -> None:
    stream = case.stream()
    assert "".join([stream.step(token_id) for token_id in case.ids]) + stream.flush() == case.text
    assert stream.num_tokens == len(case.tokens)
    stream = case.stream()
    assert "".join(stream.step_batch(case.ids)) + stream.flush() == case.text


@given(data=st.data())
def test_in_any_groups(case: Case, data: st.DataObject) -> None:
    places = data.draw(cuts(case.ids))
    stream = case.stream()
    texts = [
        text
        for start, end in itertools.pairwise([0, *places, len(case.tokens)])
        for text in stream.step_batch(case.ids[start:end])
    ]
    assert "".join(texts) + stream.flush() == case.text


def test_with_a_snapshot_between_any_two_tokens(case: Case) -> None:
    for cut in range(len(case.tokens) + 1):
        stream = case.stream()
        text = "".join(stream.step_batch(case.ids[:cut]))
        snapshot = json.loads(json.dumps(stream.snapshot()))
        stream = DecodeStream.restore(stream.tokenizer, snapshot)
        assert text + "".join(stream.step_batch(case.ids[cut:])) + stream.flush() == case.text
    stream = case.stream()
    text = ""
    for token_id in case.ids:
        text += stream.step(token_id)
        stream = DecodeStream.restore(stream.tokenizer, stream.snapshot())
    assert text + stream.flush() == case.text


def test_as_a_prompt_and_its_continuation(case: Case) -> None:
    """What a prompt decided and what the stream then says are the text."""
    for cut in range(len(case.tokens) + 1):
        before = case.stream()
        decided = "".join(before.step_batch(case.ids[:cut]))
        stream = DecodeStream(before.tokenizer, case.ids[:cut])
        assert decided + "".join(stream.step_batch(case.ids[cut:])) + stream.flush() == case.text
