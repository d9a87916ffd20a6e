"""The plugin of vLLM, with stand-ins for vLLM's classes."""

from __future__ import annotations

import gc
import importlib
import logging
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from streamdec import StopConditions
from streamdec.core.stop_sets import MAX_SETS_SIZE
from tests.plugins.stand_ins import (
    PLUGINS,
    VLLM,
    VLLM_PLUGIN,
    Result,
    differences,
    encoded,
    imported,
    in_place,
    plugged,
)
from tests.support.zoo import ZOO


@pytest.fixture
def engine() -> Iterator[SimpleNamespace]:
    """Stand-ins for vLLM, which the last tests of this module need itself, and the plugin."""
    with plugged(VLLM | VLLM_PLUGIN) as found:
        yield found


@pytest.fixture
def on(engine: SimpleNamespace) -> SimpleNamespace:
    engine.plugin.register()
    return engine


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "vllm.streamdec")
    return caplog


def steps(ids: Sequence[int], size: int) -> list[list[int]]:
    return [list(ids[place : place + size]) for place in range(0, len(ids), size)]


def detokenizer(engine: SimpleNamespace, prompt: Sequence[int] = (1,), **params: Any) -> Any:
    request: dict[str, Any] = dict.fromkeys(
        ["mm_features", "pooling_params", "lora_request", "cache_salt", "data_parallel_rank"]
    )
    request |= {"request_id": "0", "prompt_token_ids": [*prompt], "arrival_time": 0.0}
    request["resumable"] = params.pop("resumable", False)
    parameters = engine.request.__match_args__  # the stand-in has few of them
    return engine.detokenizers.IncrementalDetokenizer.from_new_request(
        engine.tokenizer,
        engine.request(
            sampling_params=engine.params(**params),
            **{name: value for name, value in request.items() if name in parameters},
        ),
    )


def outcome(
    engine: SimpleNamespace,
    given: Sequence[Sequence[int]],
    *,
    delta: bool = True,
    ends_by_id: bool = False,
    **params: Any,
) -> Result:
    """Decode ``given`` as vLLM's output processor does; the last step ends the request."""
    found = detokenizer(engine, **params)
    text, read = "", list[Any]()
    for place, ids in enumerate(given, 1):
        is_last = place == len(given)
        read += ids
        stop = found.update([*ids], ends_by_id and is_last)
        new = found.get_next_output_text(is_last or stop is not None, delta)
        text = text + new if delta else new
        if stop is not None or is_last:
            assert [*found.output_token_ids] == read[: found.num_output_tokens()]
            return Result(text, found.num_output_tokens(), stop)
    raise AssertionError("a request has steps")


TEXT = "one two 🦉 STOP three"
ENDS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "no stop": ({}, TEXT, None),
    "a stop": ({"stop": "STOP"}, "one two 🦉 ", "STOP"),
    "a visible stop": (
        {"stop": ["STOP"], "include_stop_str_in_output": True},
        "one two 🦉 STOP",
        "STOP",
    ),
    "the first of two stops": ({"stop": ["three", "🦉"]}, "one two ", "🦉"),
    "no part of a stop": ({"stop": ["three four"]}, TEXT, None),
    "a stop of too few tokens": ({"stop": ["two", "three"], "min_tokens": 9}, TEXT[:-5], "three"),
}
"""Names of parameters; the parameters, the text, and the stop."""


def cases(engine: SimpleNamespace) -> dict[str, Result]:
    """Return the outcome of each case, in steps of one and of four ids."""
    found = {}
    for name, (params, _, _) in ENDS.items():
        for size in (1, 4):
            for delta in (True, False):
                given = steps(encoded(TEXT), size)
                key = f"{name}, {size} ids, delta={delta}"
                found[key] = outcome(engine, given, delta=delta, **params)
    found["by id"] = outcome(engine, [encoded("one ab")], ends_by_id=True, stop="two")
    found["aborted"] = outcome(engine, [encoded("one tw"), []], stop="two")
    found["aborted before the first id"] = outcome(engine, [[]], stop="two")
    return found


# --- texts and stops ------------------------------------------------------------------------------


def test_texts_and_stops_are_those_of_vllm(engine: SimpleNamespace) -> None:
    expected = cases(engine)
    engine.plugin.register()
    assert type(detokenizer(engine)) is engine.ours.Detokenizer
    assert cases(engine) == expected
    for name, (_, text, stop) in ENDS.items():
        found = {each[::2] for key, each in expected.items() if key.startswith(f"{name},")}
        assert found == {(text, stop)}


@pytest.mark.parametrize(("shows", "expected"), [(False, "one"), (True, "one!")])
def test_a_stop_token_is_counted_and_has_text_if_stops_do(
    on: SimpleNamespace, shows: bool, expected: str
) -> None:
    ids = encoded("one!")
    for given in ([ids], steps(ids, 1)):
        found = outcome(on, given, ends_by_id=True, include_stop_str_in_output=shows)
        assert found == Result(expected, len(ids), None)


def test_a_prompt_that_ends_inside_a_character_and_a_cut(on: SimpleNamespace) -> None:
    *ids, last = encoded("a 🦉")
    assert outcome(on, [[last]], prompt=ids).text == "🦉"
    assert outcome(on, [ids]).text == "a \ufffd"


def test_special_tokens(on: SimpleNamespace) -> None:
    ids = encoded("<eos>a")
    assert outcome(on, [ids]).text == "a"
    assert outcome(on, [ids], skip_special_tokens=False).text == "<eos>a"


def test_a_resumable_request_continues_after_a_stop(on: SimpleNamespace) -> None:
    ids = encoded("one two")
    found = detokenizer(on, stop=["two"], min_tokens=len(ids) - 1)
    for expected in ("one ", "one "):
        assert found.update(ids, False) == "two"
        assert found.get_next_output_text(True, True) == expected
    assert found.update(encoded("two"), False) == "two"
    for size in (1, 2, 3):
        found = detokenizer(on, resumable=True, stop=["a\n"])
        for part in steps(encoded("aa🦉a🦉"), size):
            text = found.update(part, False) or found.get_next_output_text(True, False)
        assert text == "aa🦉a🦉"


def test_text_and_ids_of_each_delta_agree(engine: SimpleNamespace) -> None:
    """A parser that sees an id without its text files it wrongly (vllm-project/vllm#51641)."""
    given = ["one two", "</think>", "three ", "one two"]

    def deltas() -> list[str]:
        found = detokenizer(engine, stop=["a long stop string"])
        texts = []
        for place, text in enumerate(given, 1):
            found.update(encoded(text), False)
            texts.append(found.get_next_output_text(place == len(given), delta=True))
        return texts

    without = deltas()
    assert "".join(without) == "".join(given)
    assert without != given
    engine.plugin.register()
    assert deltas() == given


def begin_engine(engine: SimpleNamespace, parser: str) -> None:
    """Begin an engine with a reasoning parser, as ``AsyncLLM`` and ``LLMEngine`` do."""
    config = SimpleNamespace(structured_outputs_config=SimpleNamespace(reasoning_parser=parser))
    engine.inputs.InputProcessor(config, SimpleNamespace(tokenizer=engine.tokenizer))


def test_a_parser_is_asked_for_the_markers_of_a_model_that_reasons(on: SimpleNamespace) -> None:
    begin_engine(on, "deepseek_v3")
    given = [encoded("<think>two</think> one two")]
    found = outcome(on, given, stop="two", extra_args={on.plugin.FIELD: "auto"})
    assert found.text == "<think>two</think> one "


def test_a_tokenizer_is_wrapped_once_until_it_changes(engine: SimpleNamespace) -> None:
    library = ZOO["byte_level_trained"]()
    tokenizer = type(engine.tokenizer)(tokenizer_object=library)
    wrapped = engine.ours._decoder_for(tokenizer)
    assert engine.ours._decoder_for(tokenizer) is wrapped
    library.add_tokens(["<new>"])
    grown = engine.ours._decoder_for(tokenizer)
    assert grown is not wrapped
    tokenizer._tokenizer = ZOO["byte_level_trained"]()
    tokenizer._tokenizer.add_tokens(["<new>"])
    assert engine.ours._decoder_for(tokenizer) is not grown


# --- requests that vLLM decodes -------------------------------------------------------------------


def test_requests_that_are_not_supported(
    on: SimpleNamespace, log: pytest.LogCaptureFixture
) -> None:
    theirs = on.detokenizers
    options: dict[str, Any] = {"skip_special_tokens": False, "spaces_between_special_tokens": False}
    assert type(detokenizer(on, **options)) is theirs.FastIncrementalDetokenizer
    make = theirs.IncrementalDetokenizer.from_new_request
    request = on.request("0", [1], on.params())
    assert type(make(None, request)) is theirs.IncrementalDetokenizer
    assert type(make(object(), request)) is theirs.SlowIncrementalDetokenizer
    assert "spaces_between_special_tokens" in log.text
    assert "a object (it has no tokenizers.Tokenizer)" in log.text


@pytest.mark.parametrize("at", range(6, 12))
@pytest.mark.parametrize("delta", [True, False])
@pytest.mark.parametrize("size", [1, 3])
def test_vllm_continues_after_an_error(
    on: SimpleNamespace,
    log: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    at: int,
    delta: bool,
    size: int,
) -> None:
    begin = on.ours.Detokenizer._begin

    def begin_and_fail(self: Any, *args: Any) -> None:
        begin(self, *args)
        step, left = self._step, iter(range(at))

        def fails(token_id: int) -> Any:
            if next(left, None) is None:
                raise ZeroDivisionError
            return step(token_id)

        self._step = fails

    monkeypatch.setattr(on.ours.Detokenizer, "_begin", begin_and_fail)
    ids = encoded("(STOP) 🦉 STOP")
    extra = {on.plugin.FIELD: ["(", ")"]}  # the first stop does not count
    found = outcome(on, steps(ids, size), delta=delta, stop="STOP", extra_args=extra)
    assert found == Result("(STOP) 🦉 ", len(ids), "STOP")
    assert "continues with a request after a ZeroDivisionError" in log.text


def test_vllm_decodes_a_request_that_cannot_begin(
    on: SimpleNamespace, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on.ours, "_decoder_for", lambda _: 1 / 0)
    assert outcome(on, [encoded("one two")], stop="two").text == "one "
    assert "decodes a request because of a ZeroDivisionError" in log.text
    monkeypatch.setattr(on.ours.Detokenizer, "_hand_over", lambda _: 1 / 0)
    assert outcome(on, [encoded("one two")], stop="two").text == ""
    assert "a request gets no more text" in log.text


def test_long_stops_are_not_kept_after_their_requests(on: SimpleNamespace) -> None:
    """Stop sets are, up to a size."""

    def num_kept() -> int:
        gc.collect()
        return sum(type(each) is StopConditions for each in gc.get_objects())

    before = num_kept()
    for number in range(12):
        outcome(on, [encoded("a")], stop=[f"{number} {'x' * (MAX_SETS_SIZE // 4)}"])
    assert num_kept() <= before + 4


@pytest.mark.parametrize("bad", [-1, 2**70, "x", None])
def test_an_invalid_id_is_counted(on: SimpleNamespace, bad: Any) -> None:
    first, *rest = encoded("é")
    for given in ([[first], [bad], rest], [[first, bad, *rest]], [[first, *[bad] * 999, *rest]]):
        assert outcome(on, given) == Result("é", sum(map(len, given)), None)


def test_registering_and_unregistering(
    engine: SimpleNamespace, log: pytest.LogCaptureFixture
) -> None:
    theirs = vars(engine.detokenizers.IncrementalDetokenizer)
    before = theirs["from_new_request"]
    for _ in range(2):
        engine.plugin.register()
        engine.plugin.register()
        assert theirs["from_new_request"].__func__ is engine.patch._from_new_request
        engine.plugin.unregister()
        assert theirs["from_new_request"] is before
    assert log.text.count("decodes the text of requests") == 2


needs_vllm = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vLLM is not installed: nox -s vllm"
)


@needs_vllm
@pytest.mark.filterwarnings("default")
def test_the_stand_ins_are_like_vllm() -> None:
    """Signatures, fields, and the outcome of each case."""
    assert differences("vllm") == []
    with in_place():
        stand_in = imported(VLLM)
        fields = vars(detokenizer(stand_in)).keys()
        expected = cases(stand_in)
    vllm = imported(VLLM)
    assert fields <= vars(detokenizer(vllm)).keys()
    assert cases(vllm) == expected


@needs_vllm
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("parser", ["qwen3", "deepseek_r1", "deepseek_v3", "glm45", "kimi_k2"])
def test_the_markers_of_the_parsers_of_vllm(parser: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PLUGINS / "vllm"))
    reasoning = importlib.import_module("streamdec_vllm.reasoning")
    vllm = imported(VLLM)
    library = ZOO["byte_level_trained"]()
    library.add_tokens(["</think>"])
    tokenizer = type(vllm.tokenizer)(tokenizer_object=library)
    config = SimpleNamespace(structured_outputs_config=SimpleNamespace(reasoning_parser=parser))
    reasoning.note_engine(tokenizer, config)
    params = vllm.params(extra_args={"ignore_stops_between": "auto"})
    assert reasoning.markers_of(params, tokenizer) == (("<think>", "</think>"),)
