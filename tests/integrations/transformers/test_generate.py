"""The results of a real ``generate`` whose tokens are known, and the examples of the page."""

from __future__ import annotations

import doctest
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from streamdec import DecodeStream, HuggingFaceTokenizer
from streamdec.integrations import transformers as module
from streamdec.integrations.transformers import GenerateStreamer
from tests.integrations.transformers.scripted import (
    MODELS,
    Model,
    encoded,
    prompts,
    read,
    spelled,
    texts_of,
    tokenizer_of,
    torch,
    transformers,
)
from tests.integrations.vocabularies import ANSWER
from tests.support.pages import Page

TEXT = "The fox 😀 über naïve 你好!"


def finishes(found: Sequence[Any]) -> dict[int, tuple[str, Any]]:
    """How each row ended."""
    ends = [(row, chunk) for row, chunk in found if chunk.finish_reason is not None]
    assert len({row for row, _ in ends}) == len(ends)
    return {row: (chunk.finish_reason, chunk.stop_reason) for row, chunk in ends}


def test_no_token_is_generated_after_the_one_that_completes_a_stop() -> None:
    model = Model("gpt2", [spelled("gpt2", "an answer\nUser: more")])
    streamer = GenerateStreamer(model.tokenizer, stop="\nUser:")
    inputs = prompts("gpt2", ["one two three"])
    found = read(model, streamer, **inputs)
    assert texts_of(found) == ["an answer"]
    assert finishes(found) == {0: ("stop", "\nUser:")}
    match = streamer.decoders[0].match
    assert match is not None
    assert (match.token_index, match.tokens_before) == (14, 9)
    assert streamer.result().shape[1] == inputs["input_ids"].shape[1] + len("an answer\nUser:")


EOS_TOLD = [
    lambda **ids: ids,
    lambda **ids: {name: torch.tensor(value) for name, value in ids.items()},
    lambda **ids: {
        "generation_config": transformers.GenerationConfig(**ids, max_new_tokens=60),
        "max_new_tokens": 60,
    },
]


@pytest.mark.parametrize("told", EOS_TOLD)
def test_the_end_of_sequence_is_that_of_the_call(told: Any) -> None:
    """Two ids: one of them an ordinary token, which generate pads after."""
    comma, dot = spelled("gpt2", ",.")
    model = Model("gpt2", [spelled("gpt2", "ab,cd"), spelled("gpt2", "abcd.ef")])
    inputs = prompts("gpt2", ["one", "two"])
    told_ids = told(eos_token_id=[comma, dot], pad_token_id=spelled("gpt2", "x")[0])
    found = read(model, GenerateStreamer(model.tokenizer), **inputs, **told_ids)
    assert texts_of(found, 2) == ["ab", "abcd"]
    assert finishes(found) == {0: ("stop", None), 1: ("stop", None)}


@pytest.mark.parametrize("name", [*MODELS])
def test_the_text_is_the_decode_of_the_returned_ids(name: str) -> None:
    """A model with random weights, eight rows, three of them with the same prompt."""
    model = Model(name, [])
    inputs = prompts(name, ["one two three", "two", "The quick brown fox", "five"])
    num_prompt = 1 if name == "t5" else inputs["input_ids"].shape[1]
    known = HuggingFaceTokenizer(model.tokenizer)
    for seed in range(3):
        torch.manual_seed(seed)
        streamer = GenerateStreamer(model.tokenizer)
        found = read(
            model.real,
            streamer,
            **inputs,
            do_sample=True,
            num_return_sequences=2,
            max_new_tokens=50,
            eos_token_id=[model.eos, *range(100, 110)],
        )
        ends = {model.eos, *range(100, 110)}
        for row, ids in enumerate(streamer.result().tolist()):
            new = ids[num_prompt:]
            count = next((place for place, each in enumerate(new) if each in ends), len(new))
            prompt = [] if name == "t5" else encoded(name, "one")
            whole = DecodeStream(known, prompt)
            text = "".join(whole.step_batch(new[:count])) + whole.flush()
            assert texts_of(found, 8)[row] == text
            assert finishes(found)[row][0] == ("length" if count == len(new) else "stop")


def test_several_tokens_at_a_time_are_read_one_by_one() -> None:
    """Assisted decoding: the criteria see all that was accepted at once."""
    said = spelled("gpt2", "one two three. four five six seven eight")
    seen: list[int] = []
    model = Model("gpt2", [said])
    assistant = Model("gpt2", [said]).real
    model.generation_config.num_assistant_tokens = 6

    class Noting(GenerateStreamer):
        def __call__(self, input_ids: Any, scores: Any = None, **kwargs: Any) -> Any:
            seen.append(input_ids.shape[1])
            return super().__call__(input_ids, scores, **kwargs)

    streamer = Noting(model.tokenizer, stop=" fo")
    found = read(model, streamer, **prompts("gpt2", ["nine"]), assistant_model=assistant)
    assert texts_of(found) == ["one two three."]
    assert finishes(found) == {0: ("stop", " fo")}
    assert max(later - before for before, later in pairwise(seen)) > 2
    assert streamer.decoders[0].num_tokens == len("one two three. fo")


def test_a_prompt_may_be_embedded() -> None:
    model = Model("gpt2", [spelled("gpt2", "ab.c")])
    embedded = model.real.get_input_embeddings()(prompts("gpt2", ["one two"])["input_ids"])
    found = read(model, GenerateStreamer(model.tokenizer, stop="."), inputs_embeds=embedded)
    assert texts_of(found) == ["ab"]


PAGE = Page("docs/engines/transformers.md")
SAID = [[ANSWER], [ANSWER, "One. Two.\n\nThree."], [ANSWER]]


def test_the_examples_print_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(PAGE.examples) == PAGE.kinds.count("python") == len(SAID)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_of("gpt2"))
    names: dict[str, Any] = {"tokenizer": tokenizer}
    for (code, text), said in zip(PAGE.examples, SAID, strict=True):
        names["model"] = Model("gpt2", [spelled("gpt2", row) for row in said])
        names["inputs"] = prompts("gpt2", ["one two three", "four"][: len(said)])
        exec(code, names)
        assert capsys.readouterr().out.rstrip("\n") == text.rstrip("\n")


def test_docstring_examples_print_what_they_say() -> None:
    """They need torch, so the ordinary suite leaves them out."""
    result = doctest.testmod(module)
    assert result.attempted
    assert result.failed == 0
