"""vLLM with the plugin beside vLLM without it: the same outputs, except the classified differences.

The plugin's README lists the classes of differences. Each is recognised by its cause, and not by
the outputs that it changes.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.integrations.vllm.test_front_half import MESSAGE, _cases, drawn_stops, grouped
from tests.support.zoo import ZOO

pytest.importorskip("vllm", reason="not installed: nox -s vllm")
pytest.importorskip("streamdec_vllm", reason="the plugin is in plugins/vllm")

import streamdec_vllm
from streamdec_vllm import logs, patch, reasoning
from streamdec_vllm.detokenizer import Detokenizer
from vllm.v1.engine import detokenizer as theirs

from tests.integrations.vllm.front_half import FrontHalf

REPLACEMENT = "\ufffd"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave vLLM as it was, and forget what was logged."""
    monkeypatch.delenv(streamdec_vllm.SWITCH, raising=False)
    monkeypatch.delenv(streamdec_vllm.MARKERS, raising=False)
    reasoning._setting.cache_clear()
    monkeypatch.setattr(logs, "_said", set())
    yield
    streamdec_vllm.unregister()
    reasoning._setting.cache_clear()


@pytest.fixture
def library() -> Tokenizer:
    return ZOO["byte_level_trained"]()


class Result(NamedTuple):
    """What a caller of vLLM has in the end."""

    text: str
    token_ids: list[int]
    finish_reason: str | None
    stop_reason: str | int | None


def result(
    library: Tokenizer,
    prompt: Sequence[int],
    groups: Sequence[Sequence[int]],
    kind: str = "DELTA",
    ends: tuple[str, int | None] = ("LENGTH", None),
    **params: Any,
) -> Result:
    outputs = [*FrontHalf(library, prompt, kind, **params).outputs(groups, *ends)]
    samples = [output.outputs[0] for output in outputs]
    last = samples[-1]
    if kind == "DELTA":
        text = "".join(sample.text for sample in samples)
        token_ids = [token_id for sample in samples for token_id in sample.token_ids]
    else:
        text, token_ids = last.text, [*last.token_ids]
    return Result(text, token_ids, last.finish_reason, last.stop_reason)


def both(*args: Any, **params: Any) -> tuple[Result, Result]:
    """The results without the plugin and with it."""
    without = result(*args, **params)
    streamdec_vllm.register()
    try:
        return without, result(*args, **params)
    finally:
        streamdec_vllm.unregister()


# --- random requests ------------------------------------------------------------------------------


def classified(
    library: Tokenizer,
    prompt: Sequence[int],
    params: dict[str, Any],
    a: Result,
    b: Result,
) -> str:
    """Why vLLM's result ``a`` and the plugin's ``b`` differ; AssertionError if for no known reason.

    Where no stop ended the text, that of the plugin must be what the tokenizer decodes.
    """
    decode, skip = library.decode, params["skip_special_tokens"]
    before = decode(prompt, skip_special_tokens=skip)
    is_cut = before.endswith(REPLACEMENT)
    stops, ids = params["stop"], b.token_ids
    is_by_id = b.finish_reason == "stop" and b.stop_reason not in stops
    if is_by_id and not params["include_stop_str_in_output"]:
        ids = ids[:-1]
    decoded = decode([*prompt, *ids], skip_special_tokens=skip)
    if b.finish_reason == "length" and not is_cut and REPLACEMENT not in decoded:
        assert b.text == decoded[len(before) :], (a, b)
    if a == b:
        return "equal"
    if is_cut:
        return "the prompt ends inside a character"
    if REPLACEMENT in decoded or REPLACEMENT in decode(a.token_ids, skip_special_tokens=skip):
        return "bytes that are not a character"
    assert a.stop_reason in stops, (a, b)
    # vLLM sees the text of a token that ends in an unfinished character with the next token.
    if (
        len(a.token_ids) == params["min_tokens"] + 1
        and b.token_ids[: len(a.token_ids)] == a.token_ids
    ):
        return "a stop is complete before the character after it"
    assert b.stop_reason in stops, (a, b)
    if a.stop_reason == b.stop_reason and a.text == b.text:
        assert a.token_ids[: len(b.token_ids)] == b.token_ids, (a, b)
        return "a stop is complete before the character after it"
    assert str(b.stop_reason).endswith(str(a.stop_reason)), (a, b)
    return "stops that end together"


@pytest.mark.parametrize("build", [*_cases()])
def test_random_requests_give_the_same_or_differ_for_a_known_reason(build: Any) -> None:
    library = build()
    encoded = library.encode(MESSAGE, add_special_tokens=False).ids
    draw = random.Random(11)
    counts: Counter[str] = Counter()
    for _ in range(500):
        start = draw.randrange(1, len(encoded) - 1)
        prompt, ids = encoded[:start], encoded[start : start + draw.randint(1, 40)]
        if draw.random() < 0.2:
            ids = [draw.randrange(library.get_vocab_size()) for _ in ids]
        reason = draw.choice(["LENGTH", "LENGTH", "STOP", "ABORT"])
        is_stop_id = reason == "STOP" and draw.random() < 0.5
        stops = drawn_stops(library.decode(ids), draw)
        if stops and draw.random() < 0.2:
            stops.insert(0, stops[0][-1:])
        params = {
            "stop": stops,
            "include_stop_str_in_output": draw.random() < 0.3,
            "min_tokens": draw.choice([0, 0, 0, 3, 7]),
            "skip_special_tokens": draw.random() < 0.8,
        }
        found = both(
            library,
            prompt,
            grouped(ids, draw),
            draw.choice(["DELTA", "DELTA", "CUMULATIVE", "FINAL_ONLY"]),
            (reason, ids[-1] if is_stop_id else None),
            stream_interval=draw.choice([1, 1, 4]),
            **params,
        )
        counts[classified(library, prompt, params, *found)] += 1
    logging.getLogger(__name__).info("%s", dict(counts))
    assert counts["equal"] > 200


# --- where the plugin is better -------------------------------------------------------------------


# --- every kind of request ------------------------------------------------------------------------


def test_samples_have_a_decoder_each(library: Tokenizer) -> None:
    rows = [library.encode(text).ids for text in ("one two", "three four")]
    found = []
    for is_on in (False, True):
        if is_on:
            streamdec_vllm.register()
        half = FrontHalf(library, [1], n=2, stop=["wo"])
        texts = {0: "", 1: ""}
        for at in range(max(map(len, rows))):
            given: dict[str, Any] = {
                f"{k}_0": ([row[at]], "LENGTH" if at == len(row) - 1 else None, None)
                for k, row in enumerate(rows)
                if at < len(row)
            }
            for output in half.step(given):
                for sample in output.outputs:
                    texts[sample.index] += sample.text
        found.append(texts)
    assert found[0] == found[1] == {0: "one t", 1: "three four"}


def test_log_probabilities_are_cut_with_the_ids(library: Tokenizer) -> None:
    from vllm.v1.engine import EngineCoreOutput
    from vllm.v1.outputs import LogprobsLists

    ids = library.encode("one two three four").ids
    found = []
    for is_on in (False, True):
        if is_on:
            streamdec_vllm.register()
        half = FrontHalf(library, [1], stop=["two"], logprobs=0)
        numbers = np.arange(len(ids), dtype=np.float32).reshape(-1, 1)
        lists = LogprobsLists(np.array(ids).reshape(-1, 1), -numbers, np.ones(len(ids), dtype=int))
        step = EngineCoreOutput(request_id="0", new_token_ids=[*ids], new_logprobs=lists)
        sample = half.processor.process_outputs([step]).request_outputs[0].outputs[0]
        found.append((sample.text, sample.token_ids, sample.logprobs, sample.cumulative_logprob))
    assert found[0] == found[1]
    assert len(found[1][2]) == len(found[1][1]) < len(ids)


def test_streaming_input_continues_after_the_end_of_a_part(library: Tokenizer) -> None:
    """At the end of a part all text is output; a stop in a part does not end the request."""
    parts = [library.encode(text).ids for text in ("one tw", "o three", " stop here", " two")]
    found = []
    for is_on in (False, True):
        if is_on:
            streamdec_vllm.register()
        half = FrontHalf(library, [1], stop=["stop"], resumable=True)
        texts = []
        for part in parts:
            outputs = half.step({"0": (part, "LENGTH", None)})
            texts.append("".join(output.outputs[0].text for output in outputs))
            half.append([1])
        found.append(texts)
    assert found[0] == found[1] == ["one tw", "o three", " ", " two"]


@pytest.mark.parametrize("kind", ["DELTA", "CUMULATIVE", "FINAL_ONLY"])
def test_an_abort_outputs_what_was_withheld(library: Tokenizer, kind: str) -> None:
    ids = library.encode("one two").ids
    a, b = both(library, [1], [ids], kind, ("ABORT", None), stop=["two three"])
    assert a == b
    assert b.text == "one two"


# --- stops in reasoning ---------------------------------------------------------------------------

REASONED = "(hm: two)one two"
OUTSIDE, INSIDE, STOCK = "(hm: two)one ", ": two)one ", "(hm: "


def text_with(library: Tokenizer, text: str = REASONED, prompt: str = "x", **params: Any) -> str:
    streamdec_vllm.register()
    ids = [[token_id] for token_id in library.encode(text).ids]
    return result(library, library.encode(prompt).ids, ids, stop=["two"], **params).text


def test_a_request_names_the_markers_of_reasoning(library: Tokenizer) -> None:
    for markers in (["(", ")"], [["(", ")"]], ("[", "]", "(", ")")):
        found = text_with(library, extra_args={streamdec_vllm.FIELD: markers})
        assert found == OUTSIDE
    ids = [library.token_to_id("("), library.token_to_id(")")]
    assert text_with(library, extra_args={streamdec_vllm.FIELD: ids}) == OUTSIDE
    assert text_with(library, extra_args={"other": 1}) == text_with(library) == STOCK


def test_the_environment_names_the_markers_of_all_requests(
    library: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(streamdec_vllm.MARKERS, '["(", ")"]')
    assert text_with(library) == OUTSIDE
    assert text_with(library, extra_args={streamdec_vllm.FIELD: []}) == STOCK


# --- cases that vLLM's own class decodes ----------------------------------------------------------


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    records = {id(each): each for each in caplog.records if each.name == "vllm.streamdec"}
    return [record.getMessage() for record in records.values()]


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """The lines of the plugin; vLLM's logger hands nothing on to the root's."""
    logs.logger.addHandler(caplog.handler)
    caplog.set_level(logging.INFO, logger=logs.logger.name)
    yield caplog
    logs.logger.removeHandler(caplog.handler)


def test_spaces_between_special_tokens_are_left_to_vllm(
    library: Tokenizer, log: pytest.LogCaptureFixture
) -> None:
    options = {"spaces_between_special_tokens": False, "skip_special_tokens": False}
    for _ in range(2):
        a, b = both(library, [1], [library.encode("one").ids], **options)
        assert a == b
    lines = [line for line in logged(log) if "spaces_between" in line]
    assert len(lines) == 1


def test_a_request_that_ours_cannot_begin_is_left_to_vllm(
    library: Tokenizer, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("streamdec_vllm.detokenizer._decoder_for", fails)
    a, b = both(library, [1], [library.encode("one two").ids], stop=["two"])
    assert a == b
    assert b.text == "one "
    assert any("decodes a request" in line for line in logged(log))


# --- nothing is raised into the engine ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["DELTA", "CUMULATIVE"])
@pytest.mark.parametrize("at", [0, 3, 8])
def test_vllm_takes_over_a_request_that_fails(
    library: Tokenizer,
    kind: str,
    at: int,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Text, ids and stop are those of vLLM alone, whichever token fails."""
    ids = library.encode("one two three stop four").ids
    expected = result(library, [1], [[i] for i in ids], kind, stop=["stop"])
    streamdec_vllm.register()
    half = FrontHalf(library, [1], kind, stop=["stop"])
    ours: Any = half.processor.request_states["0"].detokenizer
    assert isinstance(ours, Detokenizer)
    ours._begin_or_hand_over([1], 0)
    step, taken = ours._step, iter(range(1_000))
    assert step is not None

    def fails(token_id: int) -> Any:
        if next(taken) == at:
            raise ZeroDivisionError
        return step(token_id)

    monkeypatch.setattr(ours, "_step", fails)
    outputs = [*half.outputs([[i] for i in ids], "LENGTH")]
    samples = [output.outputs[0] for output in outputs]
    text = "".join(s.text for s in samples) if kind == "DELTA" else samples[-1].text
    assert text == expected.text
    assert samples[-1].stop_reason == "stop"
    assert any("ZeroDivisionError" in line for line in logged(log))


# --- the switch -----------------------------------------------------------------------------------


def is_on() -> bool:
    return theirs.IncrementalDetokenizer.from_new_request.__func__ is patch._from_new_request


def test_vllm_finds_the_plugin_by_its_entry_point() -> None:
    (found,) = entry_points(group="vllm.general_plugins", name="streamdec")
    assert found.load() is streamdec_vllm.register


def test_vllm_plugins_turns_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm import plugins

    for allowed, expected in (("", False), ("others", False), ("streamdec", True), (None, True)):
        if allowed is None:
            monkeypatch.delenv("VLLM_PLUGINS")
        else:
            monkeypatch.setenv("VLLM_PLUGINS", allowed)
        monkeypatch.setattr(plugins, "plugins_loaded", False)
        plugins.load_general_plugins()
        assert is_on() is expected
        streamdec_vllm.unregister()


def test_a_version_that_was_not_tried_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(patch, "version", lambda _: "0.99.1")
    streamdec_vllm.register()
    assert not is_on()
    assert any("not with 0.99.1" in line for line in logged(log))
    monkeypatch.setenv(streamdec_vllm.SWITCH, "on")
    streamdec_vllm.register()
    assert is_on()
