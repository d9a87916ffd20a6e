"""Sections in which stops are ignored (law 12): prompts of real tokenizers.

The oracle (``tests/stop_model.py``) draws sections with tables of a few bytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder, load_tokenizer
from streamdec.tokenizers import LoadedTokenizer
from tests.support.files import shared

THINK = ("<think>", "</think>")


@pytest.mark.parametrize(
    ("marker", "spelling"),
    [
        *((b"<think>", each) for each in (b" <think>", b"<think>\n", b"<<think>", b".<think>")),
        (b"<think", b"<thinks"),
        (b"think>", b"rethink>"),
    ],
)
def test_a_text_that_is_part_of_another_token_too_is_searched_in_the_text(
    marker: bytes, spelling: bytes
) -> None:
    tokens = [marker, b"a", b"x", b"\n", b" ", b".", b"<", spelling]
    conditions = StopConditions("x", ignore_stops_between=(marker.decode(), "</think>"))
    decoder = StopSequenceDecoder(MockTokenizer.from_tokens(tokens), conditions, [7])
    assert decoder.feed([1, 2]).text == "ax"


# --- real tokenizers

# Those that keep "<think>" and letters as they are.
NAMES = (
    *("chatglm3", "claude-2", "deepseek-coder", "deepseek-v3", "gpt2"),
    *("llama-2-normalized-specials", "mistral-7b-v0.1", "phi-2", "phi-3-vision"),
    *("qwen3", "whisper-tiny", "yi"),
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
