"""StopSequenceCriteria: a stopping criterion without a streamer, with a real ``generate``."""

from __future__ import annotations

from typing import Any

import pytest

from streamdec import MockTokenizer
from streamdec.integrations.transformers import StopSequenceCriteria
from tests.integrations.transformers.scripted import (
    MODELS,
    Model,
    prompts,
    spelled,
    tokenizer_of,
    torch,
)

CAUSAL = [name for name in MODELS if name != "t5"]


def generated(name: str, rows: list[Any], conditions: Any = None, **options: Any) -> Any:
    """The criteria after ``generate`` said ``rows``, its answer by row, and the passes it took."""
    model = Model(name, rows)
    inputs = prompts(name, ["one two three", "four", "five six"][: len(rows)])
    width = inputs["input_ids"].shape[1]
    criteria = StopSequenceCriteria(model.tokenizer, conditions, prompt_length=width, **options)
    found = model.generate(**inputs, max_new_tokens=60, stopping_criteria=[criteria])
    answers = [
        [token_id for token_id in row if token_id != model.pad] for row in found[:, width:].tolist()
    ]
    return criteria, answers, model.num_passes


def stops_of(criteria: StopSequenceCriteria) -> list[Any]:
    return [each.match and each.match.stop for each in criteria.decoders]


@pytest.mark.parametrize("name", CAUSAL)
def test_each_row_ends_at_its_own_stop(name: str) -> None:
    """Rows of different lengths, padded on the left; stops spelled byte by byte."""
    rows = [spelled(name, text) for text in ("Hi\nUser: no", "One. Two.###three", "四十二 END")]
    stops = ["\nUser:", "###", "十二"]
    criteria, answers, passes = generated(name, rows, stop=stops)
    texts = [tokenizer_of(name).decode(answer) for answer in answers]
    assert texts == ["Hi\nUser:", "One. Two.###", "四十二"]
    assert stops_of(criteria) == stops
    assert passes == max(map(len, answers))


def test_an_encoder_decoder_begins_after_its_start_token() -> None:
    model = Model("t5", ["one two three", "two three four five"])
    criteria = StopSequenceCriteria(model.tokenizer, stop="three", prompt_length=1)
    inputs = prompts("t5", ["one two three", "four"])
    model.generate(**inputs, max_new_tokens=60, stopping_criteria=[criteria])
    assert stops_of(criteria) == ["three", "three"]
    assert model.num_passes == len(model.rows[0])


def test_a_row_that_cannot_be_decoded_ends_alone() -> None:
    tokenizer = MockTokenizer.from_tokens([b"Hi", b"!"])
    criteria = StopSequenceCriteria(tokenizer, unknown_ids="error", prompt_length=1)
    assert criteria(torch.tensor([[0, 1], [0, 9]])).tolist() == [False, True]
    assert criteria(torch.tensor([[0, 1, 1], [0, 9, 9]])).tolist() == [False, True]
    assert "token 0" in str(criteria.errors[1])
    assert [*criteria.errors] == [1]
