"""The matcher alone: against its definition, on small alphabets where everything overlaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.core import strings as module
from streamdec.core.strings import Hit, StopStrings

stops = st.lists(st.text("ab", min_size=1, max_size=5), max_size=5)
pieces = st.lists(st.text("abc", max_size=4), max_size=12)


@pytest.fixture(params=["learning", "bisect"], autouse=True)
def prefixes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways of asking whether a text is a proper prefix of a stop."""
    if request.param == "bisect":
        monkeypatch.setattr(module, "MOST_IN_PREFIXES", -1)


def first_stop(text: str, all_stops: set[str]) -> tuple[int, str] | None:
    """By definition: the earliest end at which some stop is complete, the longest of those."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in all_stops if text[:end].endswith(stop)]
        if complete:
            return end, max(complete, key=len)
    return None


def longest_beginning(text: str, all_stops: set[str]) -> str:
    """The longest end of ``text`` that is a proper prefix of a stop."""
    beginnings = {stop[:size] for stop in all_stops for size in range(1, len(stop))}
    ends = (text[start:] for start in range(len(text) + 1))
    return next(end for end in ends if end in beginnings or not end)


@given(hidden=stops, visible=stops, parts=pieces)
def test_step_finds_the_first_stop_and_withholds_possible_ones(
    hidden: list[str], visible: list[str], parts: list[str]
) -> None:
    matcher, every = StopStrings(hidden, visible), {*hidden, *visible}
    tail = text = ""
    for part in parts:
        before, text = text, text + part
        tail, hit = matcher.step(tail, part)
        expected = first_stop(text, every)
        if expected is not None:
            end, stop = expected
            assert hit == Hit(stop, stop not in hidden, end - len(before), stop)
            return
        assert hit is None
        assert tail == longest_beginning(text, every)
        assert matcher.text(tail) == tail
        assert matcher.jailed(tail) == longest_beginning(text, {*hidden})


def test_a_thousand_stops_that_begin_alike() -> None:
    matcher = StopStrings([f"<|stop_{n}|>" for n in range(1000)])
    tail, hit = matcher.step("", "text <|stop_99")
    assert (tail, hit) == ("<|stop_99", None)
    assert matcher.jailed(tail) == "<|stop_99"
    stop = "<|stop_99|>"
    assert matcher.step(tail, "|>")[1] == Hit(stop, visible=False, end=2, text=stop)
    assert matcher.step(tail, "x") == ("", None)
