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


def may_become(ids: list[int], **conditions: Any) -> tuple[object, ...]:
    tokenizer = MockTokenizer.from_tokens(TOKENS)
    tracer = Tracer(StopSequenceDecoder(tokenizer, StopConditions(**conditions)))
    tracer.step_batch(ids)
    last = tracer.trace().tokens[-1]
    assert bool(last.jailed) == bool(last.may_become)
    return last.may_become


NONE: dict[str, Any] = {
    "stop": (),
    "stop_token_sequences": (),
    "stop_regex": (),
    "max_match_length": None,
}


@given(situation=situations() | test_stop_patterns.situations())
def test_each_possible_stop_would_withhold_text(situation: Situation) -> None:
    """Under the same gate, after the same prompt; and of strings and patterns no other would."""
    conditions = situation.conditions
    tracer = Tracer(setup_of(situation).decoder())
    alone: dict[object, StopSequenceDecoder] = {}
    for name in ("stop", "stop_regex", "stop_token_sequences"):
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
            if last.jailed:
                # A sequence may be begun by a token that has no text to withhold.
                texts = {stop for stop in last.may_become if isinstance(stop, str)}
                assert texts == {stop for stop in withholding if isinstance(stop, str)}
            assert bool(last.jailed) == bool(last.may_become)
            assert withholding <= set(last.may_become)
    except TokenIdError:
        pass


def test_possible_stops_are_named_in_the_order_of_their_beginnings() -> None:
    assert may_become(
        [3, 2],
        stop=["cX", "bcX", "aX"],
        stop_regex=["abc[XY]", "X"],
        stop_token_sequences=[[2, 2], [0, 3, 2, 1], [4]],
    ) == ("abc[XY]", "bcX", "cX", (2, 2))


def test_a_pattern_may_look_back_at_text_that_was_output() -> None:
    patterns = ["(?<=a)bc", r"(?<!a)b.", "^bc", r"\Bb[cd]", "bX"]
    assert may_become([0, 1], stop_regex=patterns) == ("(?<=a)bc", r"\Bb[cd]", "bX")
    assert may_become([1], stop_regex=patterns) == (r"(?<!a)b.", "^bc", "bX")


def test_a_possible_sequence_does_not_name_patterns() -> None:
    assert may_become(
        [0], stop_token_sequences=[[0, 0]], stop_regex=["b+c"], max_match_length=9
    ) == ((0, 0),)


def test_stops_before_a_gate_are_not_named() -> None:
    assert may_become([0], stop="ax", enable_stops_after="b") == ()
    assert may_become([1, 0], stop=["ax", "bax"], enable_stops_after="b") == ("ax",)
    assert may_become([1, 0], stop_token_sequences=[[1, 0, 2], [0, 2]], enable_stops_after=1) == (
        (0, 2),
    )


def test_a_sequence_that_began_before_the_trace_is_named() -> None:
    conditions = StopConditions(stop_token_sequences=[[0, 1, 2]])
    decoder = StopSequenceDecoder(MockTokenizer.from_tokens(TOKENS), conditions)
    decoder.step(0)
    tracer = Tracer(decoder)
    tracer.step(1)
    assert tracer.trace().tokens[0].may_become == ((0, 1, 2),)


def test_a_sequence_that_is_complete_and_was_ignored_is_not_named() -> None:
    sequences = [[0, 1], [0, 1, 2]]
    assert may_become([0, 1], stop_token_sequences=sequences, min_tokens=2) == ((0, 1, 2),)
