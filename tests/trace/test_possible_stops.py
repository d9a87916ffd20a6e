"""What jailed text may become: the stops for which a decoder with them alone would jail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import TokenIdError
from streamdec.trace import Tracer
from tests.stop_laws import setup_of
from tests.stop_model import Situation
from tests.test_stop_patterns import ANY

TOKENS = [b"a", b"b", b"c", b"ab", b"\n"]


def may_become(ids: list[int], **conditions: Any) -> tuple[str, ...]:
    tokenizer = MockTokenizer.from_tokens(TOKENS)
    tracer = Tracer(StopSequenceDecoder(tokenizer, StopConditions(**conditions)))
    tracer.step_batch(ids)
    last = tracer.trace().tokens[-1]
    assert bool(last.jailed) == bool(last.may_become)
    return last.may_become


NONE: dict[str, Any] = {"stop": (), "stop_regex": (), "max_match_length": None}


@given(situation=ANY)
def test_each_possible_stop_would_jail_text(situation: Situation) -> None:
    """Under the same gate, after the same prompt; and no other would."""
    conditions = situation.conditions
    tracer = Tracer(setup_of(situation).decoder())
    alone: dict[object, StopSequenceDecoder] = {}
    possible: list[dict[str, Any]] = [{"stop": (stop,)} for stop in conditions.stop]
    limit = conditions.max_match_length
    possible += [
        {"stop_regex": (each,), "max_match_length": limit} for each in conditions.stop_regex
    ]
    for given_ in possible:
        one = replace(conditions, **{**NONE, **given_}, visible_stop=(), max_tokens=None)
        (stop,) = (*one.stop, *(each.source for each in one.stop_regex))
        alone[stop] = setup_of(replace(situation, conditions=one)).decoder()
    try:
        for token_id in situation.ids:
            tracer.step(token_id)
            for decoder in alone.values():
                decoder.step(token_id)
            if tracer.finished:
                break
            last = tracer.trace().tokens[-1]
            jailing = {stop for stop, decoder in alone.items() if decoder.jailed}
            assert jailing == set(last.may_become)
            assert bool(last.jailed) == bool(last.may_become)
    except TokenIdError:
        pass


def test_possible_stops_are_named_in_the_order_of_their_beginnings() -> None:
    stops, patterns = ["cX", "bcX", "aX"], ["abc[XY]", "X"]
    assert may_become([3, 2], stop=stops, stop_regex=patterns) == ("abc[XY]", "bcX", "cX")
