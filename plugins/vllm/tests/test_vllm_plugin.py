"""vLLM with the plugin beside vLLM without it: the same outputs, except the classified differences.

And the examples of the page on vLLM.

The plugin's README lists the classes of differences. Each is recognised by its cause, and not by
the outputs that it changes.
"""

from __future__ import annotations

import ast
import asyncio
import logging
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import entry_points
from typing import Any, NamedTuple

import pytest
from tokenizers import Tokenizer

from streamdec import HuggingFaceTokenizer, stream
from tests.support.pages import Page
from tests.support.zoo import TEXT, ZOO, shared_tokenizers

pytest.importorskip("vllm", reason="not installed: nox -s vllm")
pytest.importorskip("streamdec_vllm", reason="the plugin is in plugins/vllm")

import streamdec_vllm
from streamdec_vllm import logs, reasoning
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm_front_half import FrontHalf

REPLACEMENT = "\ufffd"
REAL = ("deepseek-v3", "gpt2", "qwen3", "llama-2-normalized-specials")
MESSAGE = "Hello!\n\nUser: no\n</tool_call> ### " + TEXT


def _cases() -> Iterator[Any]:
    yield pytest.param(ZOO["byte_level_trained"], id="byte_level_trained")
    for path in shared_tokenizers():
        if path.parent.name in REAL:
            yield pytest.param(partial(Tokenizer.from_file, str(path)), id=path.parent.name)


def grouped(ids: Sequence[int], draw: random.Random) -> list[list[int]]:
    """The ids, one to five at a time."""
    groups, start = [], 0
    while start < len(ids):
        size = draw.choice([1, 1, 1, 2, 5])
        groups.append([*ids[start : start + size]])
        start += size
    return groups


def drawn_stops(text: str, draw: random.Random) -> list[str]:
    """Parts of a text, of which none ends another: of those vLLM takes the first listed."""
    stops: list[str] = []
    for _ in range(draw.choice([0, 1, 2, 3])):
        start = draw.randrange(len(text) + 1)
        stop = text[start : start + draw.randint(1, 6)]
        others = [other for other in stops if stop.endswith(other) or other.endswith(stop)]
        if stop and "\ufffd" not in stop and not others:
            stops.append(stop)
    return stops


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
    library: Tokenizer, prompt: Sequence[int], params: dict[str, Any], a: Result, b: Result
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


@pytest.mark.parametrize("kind", ["DELTA", "CUMULATIVE"])
def test_a_character_may_span_parts_of_streaming_input(kind: str) -> None:
    """A model that transcribes speech in real time generates one token for each part."""
    library = ZOO["byte_level_trained"]()
    ids = library.encode("ok 🦉 fine", add_special_tokens=False).ids

    def text() -> str:
        front = FrontHalf(library, [1], kind, resumable=True)
        texts = []
        for token_id in ids:
            texts += [each.outputs[0].text for each in front.outputs([[token_id]], "LENGTH")]
            front.ask([2, 3])
        return "".join(texts) if kind == "DELTA" else texts[-1]

    expected = text()
    streamdec_vllm.register()
    assert text() == expected == "ok 🦉 fine"


# --- the switch -----------------------------------------------------------------------------------


def test_vllm_finds_the_plugin_by_its_entry_point() -> None:
    (found,) = entry_points(group="vllm.general_plugins", name="streamdec")
    assert found.load() is streamdec_vllm.register


# --- the page -------------------------------------------------------------------------------------


def test_the_examples_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """``AsyncLLM`` needs a GPU: its outputs are those of its front half, asked as it asks it."""
    library = ZOO["byte_level_trained"]()
    ids_code, patch_code = Page("docs/engines/vllm.md", until="Coming from vLLM").of_kind("python")
    aborted: list[str] = []

    class Engine:
        async def generate(self, prompt: str, params: Any, request_id: str) -> Any:
            assert not params.detokenize
            assert params.output_kind is RequestOutputKind.DELTA
            ids = library.encode("Hi there 😀\n\nUser: no").ids
            for output in FrontHalf(None, detokenize=False).outputs([[i] for i in ids], "LENGTH"):
                yield output

        async def abort(self, request_id: str) -> None:
            aborted.append(request_id)

    names: dict[str, Any] = {
        "SamplingParams": SamplingParams,
        "RequestOutputKind": RequestOutputKind,
        "partial": partial,
        "stream": stream,
        "tokenizer": HuggingFaceTokenizer(library),
        "engine": Engine(),
        "prompt": "?",
        "request_id": "7",
    }
    code = compile(ids_code, "the page", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    asyncio.run(eval(code, names))
    assert capsys.readouterr().out == "Hi there 😀"
    assert aborted == ["7"]
    exec(patch_code, names)
    try:
        found = FrontHalf(library, [1]).outputs([[69]], "LENGTH")
        assert "".join(output.outputs[0].text for output in found) == "e"
    finally:
        names["patch"].undo()
