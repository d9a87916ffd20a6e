"""Stop sets: shared by equal conditions, bounded, and right with anything stored."""

from __future__ import annotations

import gc
import random

import pytest

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core import stop_set as module
from streamdec.core import stop_sets
from streamdec.core.decode_options import Options
from streamdec.core.shared_tables import table_for
from streamdec.core.stop_set import StopSet
from streamdec.core.stop_sets import stop_set_for, stop_set_statistics
from tests.support.caches import small_caches

WORDS = [b"%d " % n for n in range(200)]
HALVES = [b"%d \xc3" % n for n in range(200)]
"""Tokens that leave a part of a character behind."""


@pytest.fixture
def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens([*WORDS, *HALVES])


def set_of(tokenizer: MockTokenizer, conditions: StopConditions) -> StopSet:
    return stop_set_for(tokenizer, table_for(tokenizer), conditions)


def test_equal_conditions_share_one_stop_set(tokenizer: MockTokenizer) -> None:
    one = StopConditions(["a", "b"], stop_token_ids=[3], max_tokens=9)
    stops = set_of(tokenizer, one)
    assert set_of(tokenizer, StopConditions.from_json(one.to_json())) is stops
    assert set_of(tokenizer, StopConditions(["a", "b"], stop_token_ids=[3])) is not stops
    assert set_of(tokenizer, StopConditions("other")) is not stops
    assert set_of(tokenizer, one) is stops
    other_table = table_for(tokenizer, Options(unknown_ids="replace"))
    assert stop_set_for(tokenizer, other_table, one) is not stops


def test_the_least_recently_used_of_too_many_sets_is_dropped(
    tokenizer: MockTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS", 3)
    conditions = [StopConditions(f"stop {n}") for n in range(5)]
    dropped = stop_set_statistics().dropped
    first, second, third = (set_of(tokenizer, each) for each in conditions[:3])
    assert set_of(tokenizer, conditions[0]) is first  # used again: the second is now the oldest
    set_of(tokenizer, conditions[3])
    assert set_of(tokenizer, conditions[0]) is first
    assert set_of(tokenizer, conditions[2]) is third
    assert stop_set_statistics().dropped == dropped + 1
    assert set_of(tokenizer, conditions[1]) is not second


def test_sets_that_are_too_large_together_make_room(
    tokenizer: MockTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS_SIZE", 15_000)
    gc.collect()  # the sets of unused tables count until then
    before = stop_set_statistics()
    small = set_of(tokenizer, StopConditions("small"))
    large = set_of(tokenizer, StopConditions("x" * 120))
    assert set_of(tokenizer, StopConditions("small")) is not small
    assert set_of(tokenizer, StopConditions("x" * 120)) is not large
    huge = set_of(tokenizer, StopConditions("x" * 5_000))
    assert set_of(tokenizer, StopConditions("x" * 5_000)) is huge, "the last one is kept"
    after = stop_set_statistics()
    assert (after.sets - before.sets, after.dropped - before.dropped) == (1, 4)


def test_a_set_that_grows_evicts_others_without_a_new_request(
    tokenizer: MockTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS_SIZE", 15_000)
    usual, other = StopConditions("9 x"), StopConditions("8 x")
    first, kept = set_of(tokenizer, other), set_of(tokenizer, usual)
    assert set_of(tokenizer, other) is first
    assert set_of(tokenizer, usual) is kept
    before = kept.size
    StopSequenceDecoder(tokenizer, usual).step_batch([*range(100)])
    assert kept.size >= before + module.STORED_SIZE * kept.num_stored > 15_000
    assert set_of(tokenizer, usual) is kept, "it was used last"
    assert set_of(tokenizer, other) is not first, "there was no room for both"


@pytest.mark.parametrize("most", [1, 2, 7])
def test_stored_texts_are_bounded(tokenizer: MockTokenizer, most: int) -> None:
    """The text stays right: law 0 (``with_small_caches``)."""
    conditions = StopConditions(["1 2 3 4 ", "é!", "9 9 9"], min_tokens=3)
    chooser = random.Random(most)
    with small_caches(most):
        stops = set_of(tokenizer, conditions)
        for _ in range(40):
            decoder = StopSequenceDecoder(tokenizer, conditions)
            decoder.feed(chooser.choices([1, 2, 3, 9, 10, 11, 201, 202, 209, 300], k=60))
            assert 0 < stops.num_stored <= most
