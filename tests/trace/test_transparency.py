"""A traced decoder is the decoder: the same results, errors and state, with any calls."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import TokenIdError
from streamdec.trace import Tracer
from streamdec.trace import tracer as tracing
from tests.laws import BAD_IDS
from tests.stop_laws import new_tokenizer, setup_of
from tests.stop_model import Situation
from tests.test_stop_patterns import ANY

MACHINES: dict[str, Callable[[Situation], Any]] = {
    "stops": lambda situation: setup_of(situation).decoder(),
    "stream": lambda situation: setup_of(situation).stream(),
    "stream that records": lambda situation: DecodeStream(
        new_tokenizer(situation), situation.prompt, spans=True
    ),
}

ALONE = ["flush", "reset", "fork", "copy", "deepcopy", "pickle", "take_spans"]


def calls(ids: Sequence[int]) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Calls with the ids of a stream, with bad ids and without ids, in any order."""
    known = st.sampled_from(ids) if ids else st.just(0)
    any_id = known | known | known | st.sampled_from(BAD_IDS)
    several: st.SearchStrategy[Any] = (
        st.lists(known, max_size=4)
        | st.lists(any_id, max_size=4)
        | st.lists(known, max_size=4).map(np.array)
        | st.sampled_from(["ab", b"ab", {1}, {1: 1}, None, 3, np.array([[1]])])
    )
    return st.lists(
        st.tuples(st.just("step"), any_id)
        | st.tuples(st.sampled_from(["step_batch", "feed"]), several)
        | st.tuples(st.sampled_from(ALONE))
        | st.tuples(st.just("flush"), st.sampled_from(["stop", "length", "nothing"])),
        max_size=8,
    )


def done(machine: Any, verb: str, arguments: Sequence[Any]) -> Any:
    """What a call gives or raises, and how the decoder is afterwards."""
    given_: Any
    try:
        if verb in ("copy", "deepcopy", "fork", "pickle"):
            given_ = seen(copied(machine, verb))
        else:
            given_ = getattr(machine, verb)(*arguments)
    except Exception as error:  # noqa: BLE001 (any error, which both raise)
        said = str(error).replace("Tracer", type(getattr(machine, "decoder", machine)).__name__)
        given_ = type(error), said, getattr(error, "chunk", None), getattr(error, "index", None)
    return given_, seen(machine)


def copied(machine: Any, verb: str) -> Any:
    if verb == "pickle":
        return pickle.loads(pickle.dumps(machine))
    return machine.fork() if verb == "fork" else getattr(copy, verb)(machine)


NAMES = (
    *("held", "jailed", "num_tokens", "num_prompt_tokens", "finished", "finish_reason", "match"),
    *("route", "options", "conditions", "unknown_tokens", "text", "token_ids"),
    *("read_offset", "prefix_offset", "num_characters", "num_pending_tokens", "pending_text"),
)


def seen(machine: Any) -> dict[str, Any]:
    found = {name: getattr(machine, name, None) for name in NAMES}
    return {**found, "snapshot": json.dumps(machine.snapshot()), "bool": bool(machine)}


@pytest.mark.parametrize("name", MACHINES)
@given(situation=ANY, data=st.data())
def test_any_calls_of_a_tracer_have_the_results_of_its_decoder(
    name: str, situation: Situation, data: st.DataObject
) -> None:
    plain, traced = MACHINES[name](situation), MACHINES[name](situation)
    tracer: Any = Tracer(traced, situation.prompt)
    for verb, *arguments in data.draw(calls(situation.ids)):
        expected = done(plain, verb, arguments)
        assert done(tracer, verb, arguments) == expected, verb
        trace = tracer.trace()
        assert len([*map(json.loads, trace.lines())]) == len(trace.tokens) + 2


def test_ids_that_can_be_read_only_once_and_those_that_cannot() -> None:
    def failing() -> Iterator[int]:
        yield 0
        raise OSError("gone")

    kinds: list[Any] = [DecodeStream, StopSequenceDecoder]
    for kind in kinds:
        plain, tracer = kind(MockTokenizer()), Tracer(kind(MockTokenizer()))
        assert tracer.step_batch(iter([1, 2])) == plain.step_batch(iter([1, 2]))
        raised = []
        for machine in (plain, tracer):
            with pytest.raises(OSError, match="gone") as caught:
                machine.step_batch(failing())
            raised.append(getattr(caught.value, "chunk", None))
        assert raised[0] == raised[1]
        assert tracer.trace().error == "OSError: gone"
        assert [token.token_id for token in tracer.trace().tokens] == [1, 2]


class Grumpy:
    """Decodes, and answers nothing else that it is asked, or something else."""

    name = None
    fingerprint = 3

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return "".join(chr(97 + token_id % 26) for token_id in token_ids)

    def id_to_token(self, token_id: int) -> bytes:
        return b"piece"

    def token_bytes(self, token_id: int) -> bytes:
        raise IndexError(token_id)

    def is_skipped(self, token_id: int) -> bool:
        raise KeyError(token_id)


def test_a_tokenizer_that_raises_does_not_break_the_trace() -> None:
    tracer = Tracer(DecodeStream(Grumpy()))
    assert tracer.step_batch([0, 1]) == DecodeStream(Grumpy()).step_batch([0, 1])
    tracer.flush()
    trace = tracer.trace()
    first = trace.tokens[0]
    assert (first.piece, first.data, first.kind) == (None, None, "text")
    assert (trace.header.tokenizer, trace.header.fingerprint) == ("", None)
    assert trace.verdict.equal
    assert len([*trace.lines()]) == 4


def test_an_error_of_the_recording_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "possible_stops", None)
    tracer = Tracer(DecodeStream(MockTokenizer()))
    assert tracer.step_batch([1, 2]) == DecodeStream(MockTokenizer()).step_batch([1, 2])
    assert (tracer.trace().error or "").startswith("the record is incomplete: TypeError: ")


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
