"""Sections in which stops are ignored (law 12): what the oracle does not draw.

The oracle (tests/stop_model.py) draws sections with tables of a few bytes.
Here are the constructor, prompts of real tokenizers, and snapshots.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamdec import (
    MockTokenizer,
    SnapshotError,
    StopConditions,
    StopSequenceDecoder,
    iter_chunks,
    load_tokenizer,
)
from streamdec.tokenizers import LoadedTokenizer
from tests.support.files import shared
from tests.support.snapshots import resealed

THINK = ("<think>", "</think>")
TOKENS = [b"<think>", b"</think>", b"a", b"x", b"<q", b">", b"</q>", b"\n"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
OPEN, CLOSE, A, X, Q, GT, END_Q, NEWLINE = range(8)
BOTH = StopConditions("x", ignore_stops_between=[THINK, ("<q>", "</q>")])


def text_of(conditions: StopConditions, prompt: list[int], ids: list[int]) -> str:
    decoder = StopSequenceDecoder(TOKENIZER, conditions, prompt)
    return decoder.feed(ids).text + decoder.flush().text


# --- the constructor


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        (THINK, (THINK,)),
        ([THINK], (THINK,)),
        ((5, 7), ((5, 7),)),
        ([["<a>", 7], (5, "</b>")], (("<a>", 7), (5, "</b>"))),
        ([THINK, THINK], (THINK,)),
        ((pair for pair in [THINK]), (THINK,)),
        (None, ()),
        ([], ()),
    ],
)
def test_a_section_is_one_pair_or_a_list_of_pairs(
    given: Any, pairs: tuple[tuple[object, object], ...]
) -> None:
    made = StopConditions("x", ignore_stops_between=given)
    assert made.ignore_stops_between == pairs
    assert StopConditions.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_the_order_of_sections_is_kept() -> None:
    """The first is the one in which a stream may begin."""
    sections = [("b", "c"), ("a", "d")]
    assert StopConditions(ignore_stops_between=sections).ignore_stops_between == tuple(sections)
    inside = StopConditions("x", ignore_stops_between=[("(", ")"), THINK], starts_inside=True)
    assert text_of(inside, [], [X, CLOSE, X]) == "x</think>x"


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"ignore_stops_between": "<think>"}, TypeError, "such as .'<think>', '</think>'., got"),
        ({"ignore_stops_between": ["<a>", "b", "c"]}, TypeError, "pairs of an opening"),
        ({"ignore_stops_between": [("a", "b", "c")]}, TypeError, "pairs of an opening"),
        ({"ignore_stops_between": {"a": "b"}}, TypeError, "pairs of an opening"),
        ({"ignore_stops_between": ("a", None)}, TypeError, "a text or a token id, got None"),
        ({"ignore_stops_between": ("", "b")}, ValueError, "ignore_stops_between: an empty"),
        ({"ignore_stops_between": ("a", "\udc00")}, ValueError, "lone surrogate"),
        ({"ignore_stops_between": ("a", True)}, TypeError, "is a bool"),
        ({"ignore_stops_between": (1, -1)}, ValueError, "out of range"),
        ({"ignore_stops_between": ("a", "a")}, ValueError, "the opening and the closing marker"),
        ({"ignore_stops_between": [("a", "b"), ("a", "c")]}, ValueError, "'a' opens two sections"),
        ({"starts_inside": True}, ValueError, "starts_inside needs ignore_stops_between"),
        ({"ignore_stops_between": THINK, "starts_inside": 1}, TypeError, "starts_inside must be"),
    ],
)
def test_sections_that_cannot_be(
    arguments: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        StopConditions("x", **arguments)


# --- the prompt


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ([], "a"),
        ([A], "a"),
        ([OPEN], "ax</think>a"),
        ([OPEN, NEWLINE], "ax</think>a"),
        ([OPEN, CLOSE], "a"),
        ([CLOSE, OPEN], "ax</think>a"),
        ([Q, GT], "ax</think>ax"),
        ([Q, GT, OPEN], "ax</think>a"),
        ([OPEN, Q, GT], "ax</think>ax"),
        ([Q, GT, END_Q], "a"),
        ([OPEN, END_Q], "a"),
        ([Q], "a"),
    ],
)
def test_a_stream_begins_where_the_last_marker_of_the_prompt_leads(
    prompt: list[int], text: str
) -> None:
    ids = [A, X, CLOSE, A, X]
    assert text_of(BOTH, prompt, ids) == text
    chunks = iter_chunks(
        ids,
        TOKENIZER,
        prompt_token_ids=prompt,
        stop="x",
        ignore_stops_between=BOTH.ignore_stops_between,
    )
    assert "".join(chunk.text for chunk in chunks) == text


@pytest.mark.parametrize("spelling", [b" <think>", b"<think>\n", b"<<think>", b".<think>"])
def test_a_text_that_is_part_of_another_token_too_is_searched_in_the_text(spelling: bytes) -> None:
    tokens = [*TOKENS, b" ", b".", b"<", spelling]
    tokenizer = MockTokenizer.from_tokens(tokens)
    decoder = StopSequenceDecoder(tokenizer, BOTH, [len(TOKENS) + 3])
    assert decoder.feed([A, X]).text == "ax"


def test_a_start_needs_sections() -> None:
    snapshot = StopSequenceDecoder(TOKENIZER, StopConditions("x")).snapshot()
    with pytest.raises(SnapshotError, match="expected numbers from 0 to 0"):
        StopSequenceDecoder.restore(TOKENIZER, resealed(snapshot, {"start": [None, 1, 0, []]}))


# --- real tokenizers

NAMES = (  # those that keep "<think>" and letters as they are
    "chatglm3",
    "claude-2",
    "deepseek-coder",
    "deepseek-v3",
    "gpt2",
    "llama-2-normalized-specials",
    "mistral-7b-v0.1",
    "phi-2",
    "phi-3-vision",
    "qwen3",
    "whisper-tiny",
    "yi",
)


@pytest.fixture(
    scope="module",
    params=[path for name in NAMES for path in shared(f"{name}/tokenizer.json")],
    ids=lambda path: path.parent.name,
)
def real(request: pytest.FixtureRequest) -> LoadedTokenizer:
    path: Path = request.param
    return load_tokenizer(path, fast="off")


@pytest.mark.parametrize(
    ("prompt", "answer", "expected"),
    [
        ("Hi", "No. STOP it", "No. "),
        ("Hi <think>\n", "a STOP b</think> c STOP d", "a STOP b</think> c "),
        ("Hi <think>a</think>", "b STOP c", "b "),
        ("Hi", "<think>STOP</think>b<think>STOP</think> c STOP d", None),
        ("Hi", "<think>a STOP b", "<think>a STOP b"),
    ],
)
def test_prompts_and_answers_of_real_tokenizers(
    real: LoadedTokenizer, prompt: str, answer: str, expected: str | None
) -> None:
    prompt_ids = real.encode(prompt, add_special_tokens=False).ids
    ids = real.encode(answer, add_special_tokens=False).ids
    conditions = StopConditions("STOP", ignore_stops_between=THINK)
    decoder = StopSequenceDecoder(real, conditions, prompt_ids)
    chunks = [decoder.step(token_id) for token_id in ids if not decoder.finished]
    text = "".join(chunk.text for chunk in (*chunks, decoder.flush()))
    if expected is None:
        expected = answer[: answer.rindex("STOP")]
    assert text.strip() == expected.strip()


@pytest.mark.parametrize("prompt", ["Hi Thought", "Thought", "A\nThought", "Thoughts"])
def test_a_marker_that_is_a_word_is_found_in_all_prompts(
    real: LoadedTokenizer, prompt: str
) -> None:
    prompt_ids = real.encode(prompt, add_special_tokens=False).ids
    conditions = StopConditions("STOP", ignore_stops_between=("Thought", "Answer"))
    decoder = StopSequenceDecoder(real, conditions, prompt_ids)
    ids = real.encode("a STOP b", add_special_tokens=False).ids
    assert decoder.feed(ids).finish_reason is None
