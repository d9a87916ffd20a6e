"""The plugin's search for stop strings in SGLang's own scheduler."""

from __future__ import annotations

import random
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
from sglang_stops import LONG, OPEN, TOKENIZERS, Random, compare, difference, leaks

if not SHARED.exists():
    pytest.skip(f"no real tokenizers in {SHARED}", allow_module_level=True)
sglang_on_cpu.load()

from streamdec_sglang.stops import CheckedReq  # noqa: E402

REQUESTS = 600
"""For each of six tokenizers."""


@pytest.mark.parametrize("name", TOKENIZERS)
def test_random_requests_end_where_sglang_ends_them(name: str) -> None:
    """With several tokens a step, retractions, aborts, and stops in any tokens."""
    found = compare(name, REQUESTS, seed=1)
    assert found.total() == REQUESTS
    assert found.keys() <= {"", OPEN, LONG}
    assert found[""] > REQUESTS / 2


@pytest.mark.parametrize("name", TOKENIZERS)
def test_no_part_of_a_stop_is_sent_before_it_is_found(name: str) -> None:
    made, draw = Random(name), random.Random(2)
    assert leaks([made.script(draw) for _ in range(300)], made.tokenizer) == 0


@pytest.mark.parametrize("before", ["", "<|assistant|>"])
@pytest.mark.parametrize(("is_stock", "expected"), [(True, "🦉🦉 of ow"), (False, "🦉")])
def test_a_stop_that_sglang_finds_late_is_not_sent(
    before: str, is_stock: bool, expected: str
) -> None:
    """The ids that SGLang looks at begin inside a character, so bytes after it are not one.

    Another stop before it has more tokens than SGLang looks at, so it does not end the request.
    """
    tokenizer = sglang_on_cpu.tokenizer("phi-3-vision")
    ids = tokenizer.convert_tokens_to_ids([*before])
    ids += tokenizer.encode("🦉🦉 of owls.", add_special_tokens=False)
    stops = ["\nUser: b", "🦉 of", "<|assistant|>"]
    script = Script([1], [[each] for each in ids], params={"stop": stops})
    given = sglang_on_cpu.batches({"a": script}, tokenizer, is_stock=is_stock)
    decode = sglang_on_cpu.stock() if is_stock else None
    texts = sglang_on_cpu.run(sglang_on_cpu.make_manager(tokenizer), given, decode)
    # Its own token begins with a space.
    assert "".join(texts["a"]) == (before and f"{before} ") + expected


@pytest.mark.parametrize("is_stock", [True, False])
def test_no_part_of_a_stop_is_sent_of_a_request_that_does_not_stream(is_stock: bool) -> None:
    """SGLang sends its ids at each 50th token, also those of the beginning of a stop."""
    tokenizer = sglang_on_cpu.tokenizer("qwen3")
    ids = tokenizer.encode("a" + " a" * 48 + "\nUser:", add_special_tokens=False)
    assert tokenizer.decode(ids[:50]).endswith("a\n")
    script = Script([1], [[each] for each in ids], stream=False, params={"stop": ["\nUser:"]})
    given = sglang_on_cpu.batches({"a": script}, tokenizer, is_stock=is_stock)
    decode = sglang_on_cpu.stock() if is_stock else None
    texts = sglang_on_cpu.run(sglang_on_cpu.make_manager(tokenizer), given, decode)
    assert "".join(texts["a"]) == "a" + " a" * 48 + "\n" * is_stock


@pytest.mark.parametrize(
    ("steps", "stop", "kind"),
    [
        (["x", "\n", "🫏"], "\n🫏!", OPEN),
        (["a", *"<|im_en", " no"], "<|im_end|>", LONG),
        (["a", " b", " END"], "END", ""),
    ],
)
def test_the_smallest_cases_in_which_more_is_withheld(
    steps: list[str], stop: str, kind: str
) -> None:
    tokenizer = sglang_on_cpu.tokenizer("qwen3")
    encoded = (tokenizer.encode(step, add_special_tokens=False) for step in steps)
    ids = [[token_id] for each in encoded for token_id in each]
    assert difference(Script([], ids, params={"stop": [stop]}), tokenizer, seed=3) == kind


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({}, "Req"),
        ({"stop_regex": "a+"}, "Req"),
        ({"stop": ["a"], "stop_regex": "a+"}, "Req"),
        ({"stop": ["a"]}, CheckedReq.__name__),
    ],
)
def test_only_requests_with_stop_strings_alone_are_changed(
    params: dict[str, Any], kind: str
) -> None:
    tokenizer = sglang_on_cpu.tokenizer("qwen3")
    made = sglang_on_cpu.request("a", Script([], [[1]], params=params), tokenizer)
    assert type(made).__name__ == kind
