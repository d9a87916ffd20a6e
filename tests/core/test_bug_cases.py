"""Bugs that other systems had: tokens, stops, and the right text, fed in every way."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.testing import BugCase, bug_cases
from streamdec.testing.expectations import cut_at_stop
from tests import decoder_laws

SHARED = Path(__file__).resolve().parents[3] / "shared" / "bug-cases" / "cases.jsonl"
"""The collection that ours was taken from, where it lies beside the repository."""


@pytest.fixture(params=bug_cases(), ids=lambda case: case.id)
def case(request: pytest.FixtureRequest) -> BugCase:
    found: BugCase = request.param
    return found


def tokenizer_of(case: BugCase) -> MockTokenizer:
    return MockTokenizer.from_tokens([*case.tokens, *case.prompt], case.skipped)


def decoder_of(case: BugCase) -> StopSequenceDecoder:
    """An empty stop is an error, and then the case is tested without it."""
    name = "visible_stop" if case.include_stop_str_in_output else "stop"
    stops: dict[str, Any] = {name: case.stop}
    if "" in case.stop:
        with pytest.raises(ValueError, match="empty"):
            StopConditions(**stops)
        stops = {name: [stop for stop in case.stop if stop]}
    conditions = StopConditions(**stops, min_tokens=case.min_tokens)
    prompt = range(len(case.tokens), len(case.tokens) + len(case.prompt))
    return StopSequenceDecoder(tokenizer_of(case), conditions, prompt)


def test_each_grouping_gives_the_text(case: BugCase) -> None:
    decoder, size = decoder_of(case), len(case.tokens)
    text = decoder.feed(range(size)).text
    last = decoder.flush("length")
    assert text + last.text == case.expected_text
    assert last.finish_reason == decoder.finish_reason == case.expected_finish
    assert (decoder.match.stop if decoder.match else None) == case.expected_stop_reason
    cuts = random.Random(case.id).choices(range(size + 1), k=3)
    decoder_laws.chunk_invariance(partial(decoder_of, case), range(size), sorted(cuts))


def shared_rows() -> Iterator[dict[str, Any]]:
    lines = SHARED.read_text("utf-8").splitlines() if SHARED.exists() else []
    yield from map(json.loads, lines)


def test_our_cases_have_all_of_the_collection() -> None:
    ours = {case.id: case for case in bug_cases()}
    assert len(ours) == len(bug_cases()) >= 83
    for row in shared_rows():
        found = ours[row["id"]]
        assert found.tokens == tuple(map(bytes.fromhex, row["token_bytes"]))
        assert [*found.skipped] == row.get("skip", [])
        assert (found.expected_text, [*found.stop]) == (row["expected_text"], row.get("stop", []))
        if found.stop:
            assert found.expected_finish == row["expected_finish"]
            assert found.include_stop_str_in_output == row["stop_visible"]
            told = row["note"].rpartition("[matched=")[2].removesuffix("]")
            reason = json.loads(told) if row["expected_finish"] == "stop" else None
            assert found.expected_stop_reason == reason


def test_each_case_has_its_source_and_the_result_of_python(case: BugCase) -> None:
    """An oracle that knows no stream: the bytes that are shown, decoded at once, and cut."""
    source = case.source.removeprefix("derived from ")
    assert re.match(r"[\w.-]+/[\w.-]+[# ]|derived", source)
    assert re.fullmatch(r"[A-Z0-9].*\.", case.note)
    shown = [token for place, token in enumerate(case.tokens) if place not in case.skipped]
    text = b"".join(shown).decode("utf-8", "replace")
    # Nothing may stop within what the first tokens, which are never a part of a stop here, say.
    ignored = len(b"".join(shown[: case.min_tokens]).decode("utf-8", "replace"))
    cut = cut_at_stop(text[ignored:], [stop for stop in case.stop if stop])
    if cut is not None:
        end = cut.end if case.include_stop_str_in_output else cut.start
        text = text[: ignored + end]
    assert text == case.expected_text
    assert (cut.stop if cut else None) == case.expected_stop_reason
    assert case.expected_finish == ("stop" if cut else "length")
