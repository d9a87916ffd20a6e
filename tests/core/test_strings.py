"""The matcher alone: against its definition, on small alphabets where everything overlaps."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from fuzz.jail import finds_the_first
from streamdec.core import strings
from streamdec.core.strings import Hit, StopStrings

stops = st.frozensets(st.text("ab", min_size=1, max_size=8), max_size=5)
most = st.integers(0, 200)
pieces = st.lists(st.text("abc", max_size=4), max_size=12).map(tuple)


@given(hidden=stops, visible=stops, parts=pieces, ignored=st.integers(0, 3), few=most)
def test_step_finds_the_first_stop_and_withholds_possible_ones(
    hidden: frozenset[str], visible: frozenset[str], parts: tuple[str, ...], ignored: int, few: int
) -> None:
    with patch.object(strings, "FEW", few):
        finds_the_first(StopStrings(hidden, visible), hidden, visible, parts, ignored)


def test_a_thousand_stops_that_begin_alike() -> None:
    matcher = StopStrings([f"<|stop_{n}|>" for n in range(1000)])
    tail, hit = matcher.step("", "text <|stop_99")
    assert (tail, hit) == ("<|stop_99", None)
    assert matcher.jailed(tail) == "<|stop_99"
    stop = "<|stop_99|>"
    assert matcher.step(tail, "|>")[1] == Hit(stop, visible=False, end=2, text=stop)
    assert matcher.step(tail, "x") == ("", None)
