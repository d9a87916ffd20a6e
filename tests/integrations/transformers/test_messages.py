"""What is rejected, and what the errors say. These tests need neither transformers nor torch."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from streamdec import MockTokenizer, StopConditions
from streamdec.integrations.transformers import GenerateStreamer
from tests.integrations.transformers.tensors import Model, Tensor

TOKENIZER = MockTokenizer.from_tokens([b"Hi", b"!"])
USED = "a streamer works for one call of generate; make a new one"


def raises(kind: type[Exception], message: str) -> Any:
    """Expect an error whose message has ``message``."""
    return pytest.raises(kind, match=re.escape(message))


def started(streamer: GenerateStreamer, num_rows: int = 1, *args: Any, **kwargs: Any) -> None:
    """Run a ``generate`` with this number of rows to its end."""
    streamer.start(Model(*[()] * num_rows), *args, **kwargs)
    streamer.result()


@pytest.mark.parametrize(
    ("args", "options", "kind", "message"),
    [
        ((), {"stopp": "a"}, TypeError, "unexpected keyword argument 'stopp'"),
        ((), {"chunk_by": "token"}, TypeError, "unexpected keyword argument 'chunk_by'"),
        ((), {"stop": ""}, ValueError, "stop"),
        ((), {"eos_token_ids": "x"}, TypeError, "eos_token_ids"),
        (([],), {}, TypeError, "conditions must be StopConditions, not []"),
        (("ab",), {}, TypeError, "not 'ab'; write stop=..."),
        ((StopConditions(),), {"stop": "a"}, TypeError, "got conditions and stop"),
    ],
)
def test_wrong_options_raise_an_error_at_once(
    args: Any, options: Any, kind: type[Exception], message: str
) -> None:
    with raises(kind, message):
        GenerateStreamer(TOKENIZER, *args, **options)


def test_the_number_of_conditions_must_fit_the_number_of_rows() -> None:
    two = [StopConditions()] * 2
    message = "got 2 conditions for a batch of 3 rows"
    with raises(ValueError, message):
        started(GenerateStreamer(TOKENIZER, two), 3)


def test_a_streamer_works_for_one_call() -> None:
    streamer = GenerateStreamer(TOKENIZER)
    started(streamer)
    with raises(RuntimeError, USED):
        started(streamer)
    with raises(RuntimeError, USED):
        Model(()).generate(streamer=streamer)
    with raises(RuntimeError, "use the return value of generate"):
        GenerateStreamer(TOKENIZER).result()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"streamer": object()}, "start() does not take streamer: pass stop="),
        ({"stop_strings": ["a"]}, "start() does not take stop_strings: pass stop= to the streamer"),
        ({"stopping_criteria": [bool]}, "start() does not take stopping_criteria: pass stop= to"),
        (
            {"generation_config": SimpleNamespace(stop_strings=["a"])},
            "the generation_config has stop_strings; pass stop= to the streamer",
        ),
    ],
)
def test_arguments_of_generate_that_the_streamer_replaces_raise_an_error(
    kwargs: Any, message: str
) -> None:
    with raises(TypeError, message):
        GenerateStreamer(TOKENIZER).start(Model(()), **kwargs)


def test_without_start_a_streamer_needs_eos_token_ids() -> None:
    streamer = GenerateStreamer(TOKENIZER, stop="x")
    with raises(ValueError, "eos_token_ids is missing; pass model.generation_config.eos_token_id"):
        Model(()).generate(streamer=streamer)


def test_a_streamer_that_is_only_a_criterion_knows_no_prompt() -> None:
    streamer = GenerateStreamer(TOKENIZER, eos_token_ids=())
    with raises(RuntimeError, "the prompt is not known; pass generate(streamer=...) too"):
        streamer(Tensor([[0, 1]]))


def test_ids_must_continue_those_of_the_call_before() -> None:
    message = "the ids do not begin with the 2 ids of the call before; use a new streamer"
    streamer = GenerateStreamer(TOKENIZER, eos_token_ids=())
    streamer.put(Tensor([[0]]))
    assert streamer(Tensor([[0, 0]])).tolist() == [False]
    with raises(RuntimeError, message):
        streamer(Tensor([[1, 1, 1]]))
    assert [each.finish_reason for each in streamer.decoders] == ["error"]
