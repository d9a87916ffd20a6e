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

import pytest
from tokenizers import Tokenizer

from tests.integrations.vllm.test_front_half import MESSAGE, _cases, drawn_stops, grouped
from tests.support.zoo import ZOO

pytest.importorskip("vllm", reason="not installed: nox -s vllm")
pytest.importorskip("streamdec_vllm", reason="the plugin is in plugins/vllm")

import streamdec_vllm
from streamdec_vllm import logs, reasoning

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


# --- the switch -----------------------------------------------------------------------------------


def test_vllm_finds_the_plugin_by_its_entry_point() -> None:
    (found,) = entry_points(group="vllm.general_plugins", name="streamdec")
    assert found.load() is streamdec_vllm.register
