"""What withheld text may become: the stops for which a decoder with them alone would withhold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import TokenIdError
from streamdec.trace import Tracer
from tests import test_stop_patterns
from tests.stop_laws import setup_of
from tests.stop_reference import Situation, situations

TOKENS = [b"a", b"b", b"c", b"ab", b"\n"]


def may_become(ids: list[int], **conditions: Any) -> tuple[str, ...]:
    tokenizer = MockTokenizer.from_tokens(TOKENS)
    tracer = Tracer(StopSequenceDecoder(tokenizer, StopConditions(**conditions)))
    tracer.step_batch(ids)
    last = tracer.trace().tokens[-1]
    assert bool(last.jailed) == bool(last.may_become)
    return last.may_become


NONE: dict[str, Any] = {"stop": (), "stop_regex": (), "max_match_length": None}


@given(situation=situations() | test_stop_patterns.situations())
def test_each_possible_stop_would_withhold_text(situation: Situation) -> None:
    """Under the same gate, after the same prompt; and no other would."""
    conditions = situation.conditions
    tracer = Tracer(setup_of(situation).decoder())
    alone: dict[str, StopSequenceDecoder] = {}
    for name in ("stop", "stop_regex"):
        for stop in getattr(conditions, name):
            only: dict[str, Any] = {**NONE, name: (stop,)}
            if name == "stop_regex":
                only["max_match_length"] = conditions.max_match_length
            one = replace(conditions, **only, visible_stop=(), max_tokens=None)
            alone[stop] = setup_of(replace(situation, conditions=one)).decoder()
    try:
        for token_id in situation.ids:
            tracer.step(token_id)
            for decoder in alone.values():
                decoder.step(token_id)
            if tracer.finished:
                break
            last = tracer.trace().tokens[-1]
            withholding = {stop for stop, decoder in alone.items() if decoder.jailed}
            assert withholding == set(last.may_become)
            assert bool(last.jailed) == bool(last.may_become)
    except TokenIdError:
        pass


def test_possible_stops_are_named_in_the_order_of_their_beginnings() -> None:
    assert may_become([3, 2], stop=["cX", "bcX", "aX"], stop_regex=["abc[XY]", "X"]) == (
        *("abc[XY]", "bcX", "cX"),
    )


def test_a_pattern_may_look_back_at_text_that_was_output() -> None:
    patterns = ["(?<=a)bc", r"(?<!a)b.", "^bc", r"\Bb[cd]", "bX"]
    assert may_become([0, 1], stop_regex=patterns) == ("(?<=a)bc", r"\Bb[cd]", "bX")
    assert may_become([1], stop_regex=patterns) == (r"(?<!a)b.", "^bc", "bX")


def test_stops_in_a_section_are_not_named() -> None:
    section: dict[str, Any] = {"ignore_stops_between": ("c", "b"), "starts_inside": True}
    assert may_become([0], stop="ax", **section) == ()
    assert may_become([1, 0], stop=["ax", "bax"], **section) == ("ax",)
