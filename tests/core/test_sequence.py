"""Sequence: ids that can be appended to and cut back. Its law is in ``tests/laws.py``."""

from __future__ import annotations

import numpy as np
import pytest

from streamdec import HuggingFaceTokenizer, MockTokenizer, Sequence
from tests.support.zoo import UNCOMPILED

TOKENS = [b"a", b" b", b"\xe4", b"\xbd\xa0", b"<s>"]
A, B, LEAD, REST, SPECIAL = range(5)
UNKNOWN = 77


@pytest.fixture
def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens(TOKENS, special_ids=[SPECIAL])


def test_the_first_ids_are_part_of_the_text(tokenizer: MockTokenizer) -> None:
    sequence = Sequence(tokenizer, np.array([A, LEAD]))
    assert (sequence.text, sequence.token_ids, sequence.held) == ("a", [A, LEAD], b"\xe4")
    assert len(sequence) == 2
    assert sequence.tokenizer is tokenizer
    assert sequence.route == "bytes"


def test_append_token_returns_the_completed_text(tokenizer: MockTokenizer) -> None:
    sequence = Sequence(tokenizer)
    assert sequence.append_token(np.int64(LEAD)) == ""
    assert sequence.append_token(REST) == "你"
    assert sequence.feed(iter([A, B, LEAD])) == "a b"
    assert sequence.append_text("a b") == "\ufffda b"
    assert sequence.text == "你a b\ufffda b"
    assert {type(token_id) for token_id in sequence.token_ids} == {int}


def test_specials_are_shown_by_default(tokenizer: MockTokenizer) -> None:
    assert Sequence(tokenizer, [A, SPECIAL]).text == "a<s>"
    assert Sequence(tokenizer, [A, SPECIAL], skip_special_tokens=True).text == "a"


def as_fresh(sequence: Sequence, fresh: Sequence) -> None:
    """Two sequences cannot be told apart."""
    members = ("text", "held", "read_offset", "prefix_offset", "num_characters", "unknown_tokens")
    for name in members:
        assert getattr(sequence, name) == getattr(fresh, name)


def test_truncate_looks_back_past_any_number_of_skipped_tokens(tokenizer: MockTokenizer) -> None:
    """Beyond FIRST_LOOK_BACK tokens, which the ids that the law draws never are."""
    ids = [A, LEAD] + [SPECIAL] * 300 + [REST, A]
    sequence = Sequence(tokenizer, ids, skip_special_tokens=True)
    for length in (303, 302, 200, 2):
        sequence.truncate(length)
        as_fresh(sequence, Sequence(tokenizer, ids[:length], skip_special_tokens=True))


def test_truncate_far_from_the_beginning_equals_a_new_sequence(tokenizer: MockTokenizer) -> None:
    ids = [A, B, LEAD, SPECIAL, REST, UNKNOWN, SPECIAL] * 100
    whole = Sequence(tokenizer, ids, skip_special_tokens=True)
    for length in range(300, 307):
        sequence = whole.fork()
        sequence.release()
        sequence.truncate(500)
        sequence.truncate(length)
        sequence = sequence.fork()
        fresh = Sequence(tokenizer, ids[:length], skip_special_tokens=True)
        for token_id in (REST, A, UNKNOWN):
            as_fresh(sequence, fresh)
            assert sequence.unknown_tokens == fresh.token_ids.count(UNKNOWN)
            assert sequence.append_token(token_id) == fresh.append_token(token_id)


@pytest.mark.parametrize("name", ["regex_after_fuse", "python_decoder"])
def test_truncate_on_the_windowed_route(name: str) -> None:
    tokenizer = HuggingFaceTokenizer(UNCOMPILED[name]())
    pieces = ["▁a", "l", "é", "▁a", "你"] * 20
    ids = [i for piece in pieces if (i := tokenizer.token_to_id(piece)) is not None]
    sequence = Sequence(tokenizer, ids)
    assert sequence.route == "window"
    sequence.truncate(37)
    fresh = Sequence(tokenizer, ids[:37])
    assert sequence.feed(ids[37:]) == fresh.feed(ids[37:])
    assert sequence.text == tokenizer.decode(ids)


def test_truncate_takes_a_release_back() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd\xa0", b"b"])
    sequence = Sequence(tokenizer, [0, 1])
    assert sequence.release() == "\ufffd"
    sequence.feed([2, 3])
    assert sequence.text == "a\ufffd\ufffd\ufffdb"
    sequence.truncate(2)
    assert (sequence.text, sequence.held) == ("a\ufffd", b"")
    sequence.truncate(1)
    assert (sequence.text, sequence.feed([1, 2])) == ("a", "你")


def test_a_sequence_that_was_released_twice_has_a_snapshot_that_restores() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd", b"\xa0"])
    for ids in ([0, 1], [1], [0], []):
        sequence = Sequence(tokenizer, ids)
        sequence.release()
        sequence.release()
        other = Sequence.restore(tokenizer, sequence.snapshot())
        assert (other.text, other.held) == (sequence.text, sequence.held)
        assert other.feed([2, 0]) == sequence.feed([2, 0])
        sequence.release()
        released = sequence.snapshot()
        sequence.release()
        assert sequence.snapshot() == released
        assert Sequence.restore(tokenizer, released).text == sequence.text
