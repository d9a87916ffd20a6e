"""Stops that are ignored in reasoning, with SGLang's own scheduler, parsers and detokenizer."""

from __future__ import annotations

import random
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("sglang") is None or find_spec("streamdec_sglang") is None:
    pytest.skip(
        "SGLang or the plugin is not installed: see the dependency group sglang in pyproject.toml",
        allow_module_level=True,
    )

import sglang_on_cpu
from sglang_on_cpu import SHARED, Script
from sglang_stops import STOPS, TOKENIZERS, Random

if not SHARED.exists():
    pytest.skip(f"no real tokenizers in {SHARED}", allow_module_level=True)
sglang_on_cpu.load()

from streamdec_sglang import FIELD, MARKERS, reasoning  # noqa: E402
from streamdec_sglang.tokenizer import decoder_for  # noqa: E402

from streamdec import DecodeStream  # noqa: E402

REQUESTS = 150
"""For each of six tokenizers."""
PAIRS = (("<think>", "</think>"), ("◁think▷", "◁/think▷"), ("[THINK]", "[/THINK]"))


# --- the oracle -----------------------------------------------------------------------------------


def answer(text: str, pair: tuple[str, str], *, is_inside: bool) -> str:
    """Return ``text`` with NUL for each character of the reasoning and of its markers."""
    opening, closing = pair
    found, place = "", 0
    while place < len(text):
        marker = closing if is_inside else opening
        at = text.find(marker, place)
        end = len(text) if at < 0 else at + len(marker)
        shown = place if is_inside else (len(text) if at < 0 else at)
        found += text[place:shown] + "\0" * (end - shown)
        place, is_inside = end, not is_inside
    return found


def expected(script: Script, tokenizer: Any, *, is_inside: bool) -> tuple[str, int, str | None]:
    """Return the text of the client, the number of its ids, and the stop."""
    ids = [token_id for step in script.steps for token_id in step]
    stops, pair = script.params["stop"], script.params["custom_params"][FIELD]
    stream = DecodeStream(decoder_for(tokenizer), script.prompt_ids, skip_special_tokens=False)
    text = ""
    for size, token_id in enumerate(ids, 1):
        new = stream.step(token_id)
        for end in range(len(text) + 1, len(text) + len(new) + 1):
            answered = answer((text + new)[:end], pair, is_inside=is_inside)
            stop = max(filter(answered.endswith, stops), key=len, default=None)
            if stop is not None:
                end -= 0 if script.params["no_stop_trim"] else len(stop)
                return (text + new)[:end], size, stop
        text += new
    return text + stream.flush(), len(ids), None


# --- random requests ------------------------------------------------------------------------------


def reasoned(made: Random, draw: random.Random) -> tuple[Script, bool]:
    """Return a random request with reasoning, and whether it begins in it."""
    pair = draw.choice(PAIRS)
    is_inside = draw.random() < 0.4
    prompt = "User: " + draw.choice(["hi", pair[0], f"{pair[0]} yes {pair[1]} hi"])
    prompt += draw.choice([pair[0], f"{pair[0]}\n"]) if is_inside else f"{pair[0]}{pair[1]}\n"
    stops = draw.sample(STOPS, draw.randint(1, 4))
    ids = [each for each in made.source.generated(draw) if each < made.source.size]
    for _ in range(draw.randrange(1, 8)):
        place = draw.randrange(len(ids) + 1)
        text = draw.choice([*pair, *pair, *stops])
        ids[place:place] = made.spelled(text, draw)
    steps, most = [], draw.choice((1, 1, 1, 2, 5, 9))
    while ids:
        size = draw.randint(1, most)
        steps.append(ids[:size])
        ids = ids[size:]
    params = {
        "stop": stops,
        "skip_special_tokens": False,
        "no_stop_trim": draw.random() < 0.2,
        "custom_params": {FIELD: list(pair)},
    }
    prompt_ids = made.tokenizer.encode(prompt, add_special_tokens=False)
    return Script(prompt_ids, steps, stream=draw.random() < 0.8, params=params), is_inside


def outcome(script: Script, tokenizer: Any) -> tuple[str, int, str | None]:
    """Return what the scheduler and the detokenizer make of a request."""
    manager = sglang_on_cpu.make_manager(tokenizer)
    texts, size, stop = "", -len(script.prompt_ids[-5:]), None
    for batch in sglang_on_cpu.batches({"a": script}, tokenizer):
        (text,) = type(manager)._decode_batch_token_id_output(manager, batch)
        texts += text
        size += len(batch.decode_ids[0])
        stop = (batch.finished_reasons[0] or {}).get("matched")
        assert {*(batch.finished_reasons[0] or {})} <= {"type", "matched", "length"}
    return texts, size, stop


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_requests_end_at_the_first_stop_of_the_answer(name: str) -> None:
    made, draw, stopped = Random(name), random.Random(4), 0
    for _ in range(REQUESTS):
        script, is_inside = reasoned(made, draw)
        found = outcome(script, made.tokenizer)
        assert found == expected(script, made.tokenizer, is_inside=is_inside), script
        stopped += found[2] is not None
    assert REQUESTS / 5 < stopped < REQUESTS


# --- the parsers of SGLang ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parser", "markers"),
    [
        ("qwen3", ("<think>", "</think>")),
        ("deepseek-r1", ("<think>", "</think>")),
        ("deepseek-v3", ("<think>", "</think>")),
        ("glm45", ("<think>", "</think>")),
        ("kimi_k2", ("<think>", "</think>")),
        ("kimi", ("◁think▷", "◁/think▷")),
        ("mistral", ("[THINK]", "[/THINK]")),
        ("minimax-m3", ("<mm:think>", "</mm:think>")),
        ("gpt-oss", ("<|channel|>analysis<|message|>", "<|end|>")),
    ],
)
def test_the_markers_of_the_parsers(
    parser: str, markers: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sglang.srt import runtime_context

    serving = runtime_context._ConfigBag("serving")
    serving._set("reasoning_parser", parser)
    monkeypatch.setattr(reasoning, "get_serving", lambda: serving)
    monkeypatch.setenv(MARKERS, "auto")
    reasoning._setting.cache_clear()
    tokenizer = sglang_on_cpu.tokenizer("qwen3")
    opening, closing = markers
    text = f"{opening}a END b{closing}c END d"
    ids = tokenizer.encode(text, add_special_tokens=False)
    script = Script([1], [[each] for each in ids], params={"stop": ["END"]})
    params = {"stop": ["END"], "skip_special_tokens": False}
    try:
        shown = outcome(Script([1], script.steps, params=params), tokenizer)
    finally:
        reasoning._setting.cache_clear()
    assert shown[0] == text.removesuffix("END d")
