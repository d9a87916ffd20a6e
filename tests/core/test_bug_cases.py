"""Bugs that other systems had: tokens, stops, and the right text, fed in every way."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import pytest

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.testing import BugCase, bug_cases
from tests import decoder_laws
from tests.stop_model import Conditions, Model, Situation


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
    assert decoder.finished == (case.expected_finish == "stop")
    last = decoder.flush(case.expected_finish)
    assert text + last.text == case.expected_text
    assert last.finish_reason == decoder.finish_reason == case.expected_finish
    assert (decoder.match.stop if decoder.match else None) == case.expected_stop_reason
    cuts = random.Random(case.id).choices(range(size + 1), k=3)
    decoder_laws.chunk_invariance(partial(decoder_of, case), range(size), sorted(cuts))


def test_the_oracle_has_the_text_of_each_case(case: BugCase) -> None:
    decoder, size = decoder_of(case), len(case.tokens)
    names = ("stop", "visible_stop", "min_tokens")
    situation = Situation(
        (*case.tokens, *case.prompt),
        case.skipped,
        conditions=Conditions(**{name: getattr(decoder.conditions, name) for name in names}),
        prompt=tuple(range(size, size + len(case.prompt))),
        operations=tuple(range(size)),
    )
    seen = Model(situation).after(size, flush=case.expected_finish)
    assert (seen.text, seen.finish_reason) == (case.expected_text, case.expected_finish)
    assert seen.stop_reason == case.expected_stop_reason
