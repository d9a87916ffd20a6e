"""The cached rows: that they are shared, bounded and forgotten, and never answer for a wrong id."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.core import rows
from streamdec.core.program import DEFAULT_OPTIONS, MAX_CACHED_WAIT, Options, Program
from streamdec.core.programs import program_for
from streamdec.core.rewrite import Cascade
from streamdec.errors import TokenIdError, TokenIdTypeError

YOU = "你".encode()
TOKENS = [b"a", b" b", b"c", *(YOU[i : i + 1] for i in range(3)), b"<s>", "é".encode()]
SPECIAL = 6


def tokenizer_of(tokens: Sequence[bytes] = TOKENS) -> MockTokenizer:
    return MockTokenizer.from_tokens(tokens, [SPECIAL] if tokens is TOKENS else ())


def compiled(tokenizer: MockTokenizer, options: Options = DEFAULT_OPTIONS) -> Program:
    found = program_for(tokenizer, options)
    assert isinstance(found, Program)
    return found


def warm(tokenizer: MockTokenizer, token_ids: Sequence[int]) -> None:
    """Uses the tokenizer's program until it has a dense row, and fills it."""
    for _ in range(rows.USES_BEFORE_DENSE + 1):
        DecodeStream(tokenizer).step_batch(token_ids)


def entries_of(found: Program) -> int:
    own = sum(len(row) - 1 for row in found._rows.values())
    assert isinstance(found.dense, rows.SparseRow)
    return own + len(found.dense.entries)


# --- rows -----------------------------------------------------------------------------------------


def test_streams_in_the_same_memory_stand_in_the_same_row() -> None:
    tokenizer = tokenizer_of()
    one, other = DecodeStream(tokenizer), DecodeStream(tokenizer, [0, 1])
    assert one.step_batch([0, 3]) == other.step_batch([0, 3]) == ["a", ""]
    assert isinstance(one._row, dict)
    assert one._row is other._row
    assert one._row is not DecodeStream(tokenizer).fork()._row


def test_a_second_stream_works_nothing_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = tokenizer_of()
    ids = [0, 3, 6, 4, 5, 1, 7, 2]
    expected = DecodeStream(tokenizer).step_batch(ids)

    def refuse(*_: object) -> None:
        raise AssertionError("this was worked out before")

    monkeypatch.setattr(Program, "transition", refuse)
    assert DecodeStream(tokenizer).step_batch(ids) == expected


def test_a_row_of_an_open_exact_run_or_a_long_wait_is_not_kept() -> None:
    tokenizer = MockTokenizer.from_tokens([b"\xe4", b"a"], decoder="byte_fallback")
    exact = compiled(tokenizer, Options(byte_fallback="exact"))
    stream = DecodeStream(tokenizer, byte_fallback="exact")
    stream.step_batch([1, 0])
    assert stream._row not in exact._rows.values()
    tokenizer = tokenizer_of()
    stream = DecodeStream(tokenizer)
    stream.step_batch([SPECIAL] * 100)
    assert len(compiled(tokenizer)._rows) <= MAX_CACHED_WAIT + 3
    assert stream.step(0) == "a"


def test_when_there_are_too_many_entries_all_are_forgotten_and_streams_go_on() -> None:
    # Each token begins a character, so that what it does is not the same in all tables.
    tokenizer = tokenizer_of([f"{n} ".encode() + b"\xc3" for n in range(100)])
    found = compiled(tokenizer)
    found._max_entries = 10
    early = DecodeStream(tokenizer)
    early.step_batch(range(5))
    generation = found._rows
    stream = DecodeStream(tokenizer)
    expected = ["0 ", *(f"\ufffd{n} " for n in range(1, 100))]
    assert stream.step_batch(range(100)) == expected
    assert found._rows is not generation
    assert 0 < entries_of(found) <= 10
    forgotten = early._row
    assert early.step_batch(range(90, 100)) == expected[90:]
    assert forgotten is not early._row
    assert isinstance(forgotten, dict)
    assert 90 not in forgotten, "a forgotten row grows no more"


def test_a_row_of_a_generation_that_its_own_entry_forgot_remembers_nothing() -> None:
    tokenizer = tokenizer_of()
    small = Program(compiled(tokenizer).token_bytes, DEFAULT_OPTIONS, Cascade(()), max_entries=2)
    row = small.row(small.transition(small.rest, 3)[1])
    assert isinstance(row, dict)
    for token_id in (4, 0, 1):  # the second is one too many
        small.entry(row, token_id)
        assert len(row) <= 2
    assert [*row] == [None], "streams that stand in it still keep nothing else alive"


def test_what_is_retired_remembers_nothing_more_and_streams_go_on() -> None:
    tokens = [*(b"%d " % n for n in range(1000)), b"\xc3", b"\xa9"]
    tokenizer = tokenizer_of(tokens)
    ids = [*range(1000), 1000, 1001, *range(1000)]
    expected = DecodeStream(tokenizer).step_batch(ids)
    for uses in (1, rows.USES_BEFORE_DENSE):
        found = Program(compiled(tokenizer).token_bytes, DEFAULT_OPTIONS, Cascade(()))
        streams = [DecodeStream(tokenizer) for _ in range(uses)]
        for stream in streams:
            stream._program = found
            stream.reset()
        assert streams[0].step_batch(ids[:1001]) == expected[:1001]
        found.retire()
        for stream in streams[1:]:
            assert stream.step_batch(ids) == expected
        assert streams[0].step_batch(ids[1001:]) == expected[1001:]
        assert found._rows == {found.rest: found.rest_row}
        assert found.size <= 32


def test_a_program_is_bounded_by_default() -> None:
    tokenizer = tokenizer_of([b"%d " % n for n in range(100)])
    assert compiled(tokenizer)._max_entries <= 4 * rows.MAX_ENTRIES == 65_536


def test_rows_that_are_only_begun_count_too() -> None:
    """A server that restores many streams, each with another offset, fills the shared cache."""
    tokenizer = tokenizer_of()
    found = compiled(tokenizer)
    found._max_entries = 100
    snapshot = DecodeStream(tokenizer).snapshot() | {"num_tokens": 1000}
    for span in range(1000):
        DecodeStream.restore(tokenizer, snapshot | {"memory": {"span": span}})
    assert len(found._rows) <= 100


# --- the dense row --------------------------------------------------------------------------------


def test_the_dense_row_begins_after_so_many_streams() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer)
    for count in range(1, rows.USES_BEFORE_DENSE + 2):
        assert DecodeStream(tokenizer).step_batch([0, 2, 0]) == ["a", "c", "a"]
        assert isinstance(found.dense, list) == (count >= rows.USES_BEFORE_DENSE)
    stream = DecodeStream(tokenizer)
    stream.step_batch([0, 2])
    assert stream._row is found.dense
    assert isinstance(found.dense, list)
    assert found.dense[2] == ("c", None)


def test_a_single_stream_of_many_different_tokens_is_worth_a_dense_row() -> None:
    tokenizer = tokenizer_of([b"%d " % n for n in range(rows.ENTRIES_BEFORE_DENSE + 9)])
    stream = DecodeStream(tokenizer)
    for token_id in range(rows.ENTRIES_BEFORE_DENSE + 9):
        assert stream.step(token_id) == f"{token_id} "  # worked out
        assert stream.step(token_id) == f"{token_id} "  # borrowed from what others know
    assert isinstance(compiled(tokenizer).dense, list)
    assert stream.step_batch([2, 2, 3]) == ["2 ", "2 ", "3 "]
    assert stream._row is compiled(tokenizer).dense, "it is told of the list"


def test_forgetting_begins_a_new_dense_row() -> None:
    tokenizer = tokenizer_of([f"{n} ".encode() for n in range(300)])
    warm(tokenizer, range(300))
    found = compiled(tokenizer)
    found._max_entries, dense = 10, found.dense
    stream = DecodeStream(tokenizer)
    assert stream.step_batch([*range(300)] * 2) == [f"{n} " for n in [*range(300)] * 2]
    found._forget()
    assert found.dense is not dense
    assert stream.step(7) == "7 "
    assert DecodeStream(tokenizer).step_batch([7, 8, 8]) == ["7 ", "8 ", "8 "]


def test_an_id_beyond_the_dense_row_has_an_entry_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rows, "MAX_DENSE", 4)
    monkeypatch.setattr(rows, "DENSE_STEP", 4)
    tokenizer = tokenizer_of([b"%d" % n for n in range(9)])
    warm(tokenizer, range(9))
    found = compiled(tokenizer)
    assert isinstance(found.dense, list)
    assert len(found.dense) <= 8
    assert DecodeStream(tokenizer).step_batch([8, 8, 3, 8]) == ["8", "8", "3", "8"]
    assert found.rest_row[8] == ("8", None)


# --- ids that are equal to others -----------------------------------------------------------------

LIKE_0_AND_1: list[Any] = [True, False, 1.0, 0.0, -0.0, np.True_, np.float64(1), 1 + 0j]
NEVER_IDS: list[Any] = [-1, -2, -3, 2.0, math.nan, "1", None, [1], np.int64(-1), np.float32(2)]


@pytest.mark.parametrize("is_warm", [False, True])
@pytest.mark.parametrize("at_rest", [False, True])
def test_what_only_equals_an_id_is_never_found(is_warm: bool, at_rest: bool) -> None:
    tokenizer = tokenizer_of()
    if is_warm:
        warm(tokenizer, [0, 1, 2, 0, 1, 2, 3, 0, 3, 1, 3, 2])
    stream = DecodeStream(tokenizer)
    stream.step_batch([0, 0, 1, 1, 2, 2] if at_rest else [0, 1, 2, 3])
    assert (stream._row is compiled(tokenizer).dense) == at_rest
    assert isinstance(compiled(tokenizer).dense, list) == is_warm
    for bad in [*LIKE_0_AND_1, *NEVER_IDS]:
        tokens, held = stream.num_tokens, stream.held
        with pytest.raises(TokenIdError):
            stream.step(bad)
        assert (stream.num_tokens, stream.held) == (tokens, held), bad
    assert stream.step(1) == (" b" if at_rest else "\ufffd b")


def test_an_array_of_several_ids_is_no_id_whatever_the_state_of_the_cache() -> None:
    tokenizer = tokenizer_of()
    warm(tokenizer, [0, 1, 2] * 2)
    stream = DecodeStream(tokenizer)
    stream.step_batch([0, 0])
    with pytest.raises(TokenIdTypeError):
        stream.step(np.array([1, 2]))
