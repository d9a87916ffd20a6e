"""Which tables are kept: those that are used again, so many, and so large together."""

from __future__ import annotations

import gc
import random
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core import programs, rows
from streamdec.core.program import DEFAULT_OPTIONS, Program
from streamdec.core.rewrite import Cascade
from streamdec.core.shelf import Shelf

WORDS = [b"%d " % n for n in range(200)]
HALVES = [b"%d \xc3" % n for n in range(200)]
"""Tokens that begin a character: what they do is each table's own."""


TOKENIZER = MockTokenizer.from_tokens(WORDS)


def table() -> Program:
    machine = programs.program_for(TOKENIZER)
    assert isinstance(machine, Program)
    return Program(machine.token_bytes, DEFAULT_OPTIONS, Cascade(()))


def shelf_of(max_tables: int = 4, max_proven: int = 2, max_size: int = 1000) -> Shelf[Program]:
    return Shelf(max_tables=max_tables, max_proven=max_proven, max_size=max_size)


def test_a_key_has_one_table() -> None:
    shelf = shelf_of()
    one, other = shelf.get("a", table), shelf.get("b", table)
    assert one is not other
    assert [shelf.get(key, table) for key in "abab"] == [one, other, one, other]


def test_those_asked_for_once_push_out_one_another_and_nobody_else() -> None:
    shelf = shelf_of()
    proven = [shelf.get(key, table) for key in "aabb"][1::2]
    once = [shelf.get(n, table) for n in range(100)]
    assert [shelf.get(key, table) for key in "ab"] == proven
    assert len(shelf) == 4
    assert [each._is_retired for each in once] == [True] * 98 + [False] * 2


def test_of_the_proven_the_least_recently_used_is_the_first_to_be_on_trial_again() -> None:
    shelf = shelf_of()
    first, second, third = (shelf.get(key, table) for key in "abc")
    assert [shelf.get(key, table) for key in "abac"] == [first, second, first, third]
    for n in range(4):
        shelf.get(n, table)
    assert second._is_retired
    assert not first._is_retired
    assert not third._is_retired


def test_tables_that_are_too_large_together_make_room() -> None:
    shelf = shelf_of(max_size=600)
    small, large = shelf.get("small", table), shelf.get("large", table)
    shelf.get("large", table)
    small._entries, large._entries = 100, 599
    shelf.balance()
    assert small._is_retired
    assert not large._is_retired
    large._entries = 10_000
    shelf.balance()
    assert not large._is_retired, "the last one has its own cap"


def test_a_table_tells_of_its_growth() -> None:
    told: list[int] = []
    grown = table()
    grown.on_growth = told.append
    for n in range(3 * rows.REPORTED_GROWTH):
        grown.row((None, b"\xc3", (), 1, n % 3 + 1))  # at most three rows
        grown._make_room()
    assert told == [rows.REPORTED_GROWTH] * 3
    grown.make_dense()
    before = grown.size
    grown.entry(grown.dense, 100)
    assert sum(told[3:]) == rows.DENSE_STEP // rows.IDS_OF_ENTRY
    assert grown.size - before - 1 == sum(told[3:])


def test_statistics_are_what_is_there_and_what_had_to_go() -> None:
    shelf = shelf_of(max_tables=4, max_size=600)
    assert shelf.statistics() == (0, 0, 0)
    tables = [shelf.get(n, table) for n in range(6)]
    assert shelf.statistics() == (4, sum(each.size for each in tables[2:]), 2)
    tables[-1].weight = 700
    shelf.balance()
    assert shelf.statistics() == (1, tables[-1].size, 5)
    shelf.drop(lambda key: key == 5)
    assert shelf.statistics() == (0, 0, 5), "it made no room for others"


def test_a_shelf_knows_at_each_growth_how_large_it_may_be() -> None:
    shelf = shelf_of(max_tables=9, max_proven=9, max_size=20_000)
    chooser = random.Random(0)
    for n in range(400):
        one = shelf.get(chooser.randrange(30), table)
        one.first_row(one.rest)
        for token_id in chooser.choices(range(200), k=9):
            with suppress(LookupError):
                one.entry(one.dense, token_id)
        one.row((None, b"\xc3", (), 1, n))
        assert shelf.size <= shelf._at_most <= 20_000 + 9 * rows.UNREPORTED_GROWTH


def test_tables_go_with_their_tokenizer() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a"])
    program = StopSequenceDecoder(tokenizer, StopConditions(stop="x"))._program
    assert StopSequenceDecoder(tokenizer, StopConditions(stop="x"))._program is program
    assert isinstance(program.decode, Program)
    gone: list[weakref.ref[Any]] = [
        weakref.ref(tokenizer),
        weakref.ref(program.decode.token_bytes),
    ]
    del tokenizer, program
    gc.collect()
    assert all(ref() is None for ref in gone)


# --- ten thousand callers who mean harm -----------------------------------------------------------


@pytest.fixture
def small_shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf[rows.Rows]:
    shelf = Shelf[rows.Rows](max_tables=16, max_proven=12, max_size=4_000)
    monkeypatch.setattr(programs, "_shelf", shelf)
    return shelf


def test_hostile_stop_sets_grow_no_memory_and_slow_nobody(
    small_shelf: Shelf[rows.Rows], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller brings stops of its own, and keeps its stream open."""
    tokenizer = MockTokenizer.from_tokens([*WORDS, *HALVES])
    usual = StopConditions(stop=["\nUser:", "9 8 7"])
    text = [1, 203, 2, 3, 250, 9, 10]
    served = StopSequenceDecoder(tokenizer, usual)
    for _ in range(rows.USES_BEFORE_DENSE):
        served = StopSequenceDecoder(tokenizer, usual)
    expected = served.step_batch(text).text
    chooser = random.Random(0)
    idle = []
    for caller in range(10_000):  # as many as the promise names
        decoder = StopSequenceDecoder(tokenizer, StopConditions(stop=[f"{caller % 10} x{caller}"]))
        decoder.step_batch(chooser.choices(range(400), k=40))
        idle.append(decoder)
        assert small_shelf.size <= small_shelf.max_size + rows.REPORTED_GROWTH
    assert len(small_shelf) <= small_shelf.max_tables
    program = served._program
    assert StopSequenceDecoder(tokenizer, usual)._program is program, "it was asked for again"
    retired = [each._program for each in idle if each._program._is_retired]
    assert len(retired) >= 9_900
    assert all(len(each._rows) == 1 and each.size <= 32 for each in retired)

    def refuse(*_: object) -> None:
        raise AssertionError("a row was lost")

    monkeypatch.setattr(type(program), "work_out", refuse)
    assert StopSequenceDecoder(tokenizer, usual).step_batch(text).text == expected


def test_a_stream_whose_table_is_retired_goes_on() -> None:
    tokenizer = MockTokenizer.from_tokens([*WORDS, *HALVES])
    conditions = StopConditions(stop="12 13 14")
    ids = [1, 210, 12, 211, 12, 13, 5, 12, 13, 15, *range(30, 60), 12, 13, 14]
    whole = StopSequenceDecoder(tokenizer, conditions)
    texts = [whole.step(token_id) for token_id in ids]
    assert whole.finished
    for place in range(0, len(ids), 5):
        stream = StopSequenceDecoder(tokenizer, conditions)
        found = [stream.step(token_id) for token_id in ids[:place]]
        stream._program.retire()
        found += [stream.step(token_id) for token_id in ids[place:]]
        assert found == texts
        assert stream.match == whole.match


@pytest.mark.usefixtures("small_shelf")
def test_four_threads_share_programs_that_come_and_go() -> None:
    tokenizer = MockTokenizer.from_tokens([*WORDS, *HALVES])
    sets = [StopConditions(stop=[f"{n} {n + 1} ", "é", f"{n}x"]) for n in range(40)]
    chooser = random.Random(1)
    jobs = [(chooser.choice(sets), chooser.choices(range(400), k=60)) for _ in range(400)]

    def work(job: tuple[StopConditions, list[int]]) -> tuple[str, object]:
        decoder = StopSequenceDecoder(tokenizer, job[0])
        text = ""
        for token_id in job[1]:
            if not decoder.finished:
                text += decoder.step(token_id).text
        return text + decoder.flush().text, decoder.match

    expected = [work(job) for job in jobs]
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, jobs)] == expected
