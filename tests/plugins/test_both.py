"""What both plugins have: a switch, versions and classes that they know, and markers."""

from __future__ import annotations

import logging
import sys
import tomllib
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.plugins import test_sglang_scheduler, test_vllm
from tests.plugins.stand_ins import (
    LIBRARY,
    PARENTHESES,
    PLUGINS,
    REASONING,
    SGLANG,
    STOP,
    VLLM,
    VLLM_PLUGIN,
    Result,
    encoded,
    plugged,
)


@pytest.fixture(params=["vllm", "sglang"])
def engine(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[SimpleNamespace]:
    """An engine and its plugin, which is not registered yet."""
    is_vllm = request.param == "vllm"
    caplog.set_level(logging.WARNING, f"{request.param}.streamdec")
    with plugged(VLLM | VLLM_PLUGIN if is_vllm else SGLANG) as found:
        found.name = request.param
        if is_vllm:
            found.version, found.group = "0.33.0", "vllm.general_plugins"
            found.replaced = found.detokenizers.IncrementalDetokenizer, "update"
        else:
            found.version, found.group = "0.5.23", "sglang.srt.plugins"
            found.replaced = found.manager.DetokenizerManager, "trim_matched_stop"
        yield found


# --- the switch -----------------------------------------------------------------------------------


def is_on(engine: SimpleNamespace) -> bool:
    if engine.name == "sglang":
        return engine.patch.TARGET in engine.hooks._hooks
    return engine.patch._stock is not None


def test_the_engine_finds_the_plugin(engine: SimpleNamespace) -> None:
    project = tomllib.loads((PLUGINS / engine.name / "pyproject.toml").read_text("utf-8"))
    entries = project["project"]["entry-points"][engine.group]
    assert entries == {"streamdec": f"streamdec_{engine.name}:register"}


@pytest.mark.parametrize(
    ("switch", "version", "expected", "told"),
    [
        ("", "the tried one", True, ""),
        ("off", "the tried one", False, ""),
        ("0", "the tried one", False, ""),
        (" No ", "the tried one", False, ""),
        ("", "0.99.1", False, "not with 0.99.1: it does nothing"),
        ("", "0.99.1", False, "=on to use it anyway"),
        ("on", "0.99.1", True, ""),
        ("on", None, False, "could not be set up"),
    ],
)
def test_the_variable_and_the_version(
    engine: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    switch: str,
    version: str | None,
    expected: bool,
    told: str,
) -> None:
    found = engine.version if version == "the tried one" else version
    monkeypatch.setenv(engine.plugin.SWITCH, switch)
    monkeypatch.setattr(engine.plugin, "version", lambda _: found or 1 / 0)
    engine.plugin.register()
    assert is_on(engine) is expected
    assert told in caplog.text


@pytest.mark.parametrize(
    ("switch", "told"), [("", "not with 0.99.1: it does nothing"), ("on", "could not be set up")]
)
def test_a_version_without_a_module_is_left_alone(
    engine: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    switch: str,
    told: str,
) -> None:
    monkeypatch.setenv(engine.plugin.SWITCH, switch)
    monkeypatch.setattr(engine.plugin, "version", lambda _: "0.99.1")
    monkeypatch.delattr(engine.plugin, "patch")
    monkeypatch.setitem(sys.modules, engine.patch.__name__, None)
    engine.plugin.register()
    (line,) = [record.getMessage() for record in caplog.records]
    assert told in line
    assert not is_on(engine)


def test_classes_of_another_shape_are_left_alone(
    engine: SimpleNamespace, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, method = engine.replaced
    monkeypatch.setenv(engine.plugin.SWITCH, "on")
    monkeypatch.setattr(owner, method, lambda output: output)
    engine.plugin.register()
    assert f"{owner.__name__}.{method} takes output" in caplog.text
    monkeypatch.delattr(owner, method)
    engine.plugin.register()
    assert f"{owner.__name__}.{method} is missing" in caplog.text
    assert not is_on(engine)


# --- markers --------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False])
def on(engine: SimpleNamespace, request: pytest.FixtureRequest) -> SimpleNamespace:
    """The engine with its plugin; SGLang's requests stream, or do not."""
    engine.plugin.register()
    if engine.name == "sglang":
        engine.hooks.apply_hooks()
        engine.outcome = partial(test_sglang_scheduler.outcome, engine, streams=request.param)
    else:
        engine.outcome = partial(vllm_outcome, engine, delta=request.param)
    return engine


def vllm_outcome(
    engine: SimpleNamespace,
    ids: list[int],
    *,
    delta: bool,
    size: int = 1,
    prompt: str = "a",
    markers: Any = None,
    no_stop_trim: bool = False,
) -> Result:
    params: dict[str, Any] = {"include_stop_str_in_output": no_stop_trim, "prompt": encoded(prompt)}
    if markers is not None:
        params["extra_args"] = {engine.plugin.FIELD: markers}
    return test_vllm.outcome(engine, test_vllm.steps(ids, size), delta=delta, stop=STOP, **params)


def begin(engine: SimpleNamespace, parser: str) -> None:
    """Begin an engine with a reasoning parser."""
    if engine.name == "sglang":
        engine.get_serving().reasoning_parser = parser or None
    else:
        test_vllm.begin_engine(engine, parser)


@pytest.mark.parametrize("by_request", [True, False])
@pytest.mark.parametrize(("prompt", "given", "expected"), REASONING)
def test_the_markers_of_the_reasoning_parser(
    on: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    by_request: bool,
    prompt: str,
    given: str,
    expected: str,
) -> None:
    begin(on, "qwen3")
    ids, markers = encoded(given), "auto" if by_request else None
    before = on.outcome(ids, prompt=prompt)
    assert before.text == given.partition(STOP)[0]  # off by default
    if not by_request:
        monkeypatch.setenv(on.plugin.MARKERS, "auto")
        on.reasoning._setting.cache_clear()
    for size in (1, 100):
        options: dict[str, Any] = {"size": size, "prompt": prompt, "markers": markers}
        found = on.outcome(ids, **options)
        assert found.text == expected
        assert found.stop == (STOP if given != expected else None)
        assert LIBRARY.decode(ids[: found.num_tokens]).startswith(expected)
        shown = on.outcome(ids, **options, no_stop_trim=True)
        assert shown.text == expected + STOP * (given != expected)
    if not by_request:
        assert on.outcome(ids, prompt=prompt, markers=[]) == before


def test_your_own_markers(on: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = encoded("(two) one two")
    (opening,), (closing,) = encoded("("), encoded(")")
    assert on.outcome(ids).text == "("
    for markers in (PARENTHESES, [PARENTHESES], [opening, closing], ["<a>", "<b>", *PARENTHESES]):
        assert on.outcome(ids, markers=markers).text == "(two) one "
    monkeypatch.setenv(on.plugin.MARKERS, '["(", ")"]')
    on.reasoning._setting.cache_clear()
    assert on.outcome(ids).text == "(two) one "
    assert on.outcome(ids, markers=[]).text == "("


@pytest.mark.parametrize(
    ("parser", "markers", "variable", "told"),
    [
        ("", "auto", "", "without a reasoning parser"),
        ("nameless", "auto", "", "names no markers"),
        ("unknown", "auto", "", "the parser unknown failed"),
        ("", "think", "", "a ValueError"),
        ("", ["<think>"], "", "a ValueError"),
        ("", 3, "", "a TypeError"),
        ("", [1.5, 2], "", "a TypeError"),
        ("", [f"{n}" for n in range(66)], "", "a ValueError"),
        ("", None, "think", "must be auto or a list"),
        ("", None, '["<think>"]', "must be auto or a list"),
        ("", None, '["a", "a"]', "must be auto or a list"),
    ],
)
def test_where_stops_count_in_the_reasoning_too(
    on: SimpleNamespace,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    parser: str,
    markers: Any,
    variable: str,
    told: str,
) -> None:
    """One line says so."""
    monkeypatch.setenv(on.plugin.MARKERS, variable)
    begin(on, parser)
    for _ in "12":
        assert on.outcome(encoded("(<think>two"), markers=markers).text == "(<think>"
    (line,) = [record.getMessage() for record in caplog.records]
    assert told in line
