"""A matcher behind its gate, a token's text at a time."""

from __future__ import annotations

import pytest

from streamdec.core.gated_matcher import GatedMatcher
from streamdec.core.jail import Hit, Jail
from streamdec.core.stop_memory import Gate, StopMemory


@pytest.mark.parametrize("visible", [False, True])
def test_where_a_stop_ends_counts_from_what_was_withheld(visible: bool) -> None:
    """The hit is the matcher's, and counts from the token's own text."""
    jail = Jail([] if visible else ["stop"], ["stop"] if visible else [])
    gated = GatedMatcher(jail, None, None, {}, holds_for_ids=False)
    memory = StopMemory(None, withheld="a st", tail="st", tail_ages=(2, 1))
    outcome = gated.match(memory, "op and on", (0,) * 9, ignore=False)
    assert outcome.hit == Hit("stop", visible, 2, "stop")
    assert outcome.stop_end == len("a stop")
    assert (outcome.text, outcome.age) == ("a stop" if visible else "a ", 2)


def test_where_a_stop_ends_counts_what_a_marker_took() -> None:
    gated = GatedMatcher(Jail(["stop"]), "<", ">", {}, holds_for_ids=False)
    memory = StopMemory(None, gate=Gate(is_open=False))
    outcome = gated.match(memory, "stop <a stop", (0,) * 12, ignore=False)
    assert outcome.hit == Hit("stop", visible=False, end=6, text="stop")
    assert (outcome.stop_end, outcome.text) == (12, "stop <a ")
