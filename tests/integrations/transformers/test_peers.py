"""What transformers' own TextIteratorStreamer does in the same places, as the page says."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from streamdec.integrations.transformers import GenerateStreamer
from tests.integrations.transformers.scripted import (
    Model,
    prompts,
    read,
    spelled,
    texts_of,
    tokenizer_of,
    transformers,
)


def theirs(model: Model, **kwargs: Any) -> list[str]:
    """What their reader gets; queue.Empty if it waits for half a second in vain."""
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer_of("gpt2"))
    streamer = transformers.TextIteratorStreamer(
        tokenizer, skip_prompt=True, timeout=0.5, skip_special_tokens=True
    )

    def generate() -> None:
        try:
            model.generate(**kwargs, streamer=streamer, tokenizer=tokenizer, max_new_tokens=60)
        except Exception as error:  # noqa: BLE001 (the thread of their example would print it)
            raised.append(error)

    raised: list[Exception] = []
    thread = threading.Thread(target=generate)
    thread.start()
    try:
        return [*streamer]
    finally:
        thread.join()
        if raised and isinstance(raised[0], ValueError):
            raise raised[0]


def model_saying(*texts: str) -> Model:
    return Model("gpt2", [spelled("gpt2", text) for text in texts])


def test_the_streamer_of_transformers_outputs_the_stop_string() -> None:
    inputs = prompts("gpt2", ["one"])
    text = "".join(theirs(model_saying("so.\nUser: no"), **inputs, stop_strings=["User:"]))
    assert text == "so.\nUser:"
    model = model_saying("so.\nUser: no")
    found = read(model, GenerateStreamer(model.tokenizer, stop="User:"), **inputs)
    assert texts_of(found) == ["so.\n"]


def test_the_reader_of_transformers_waits_if_generate_raises() -> None:
    def fail(step: int) -> None:
        if step == 2:
            raise MemoryError("no memory")

    inputs = prompts("gpt2", ["one"])
    readers: list[tuple[Callable[[Model], Any], type[Exception]]] = [
        (lambda model: theirs(model, **inputs), queue.Empty),
        (lambda model: read(model, GenerateStreamer(model.tokenizer), **inputs), MemoryError),
    ]
    for reads, error in readers:
        model = model_saying("abcdef")
        model.script.at_step = fail
        with pytest.raises(error):
            reads(model)


def test_the_streamer_of_transformers_rejects_batches() -> None:
    with pytest.raises(ValueError, match="only supports batch size 1"):
        theirs(model_saying("a", "b"), **prompts("gpt2", ["one", "two"]))


def test_the_streamer_of_transformers_ignores_the_prompt() -> None:
    emoji = spelled("gpt2", "😀")
    inputs = prompts("gpt2", [[*spelled("gpt2", "one "), *emoji[:2]]])
    said = [*emoji[2:], *spelled("gpt2", " !")]
    assert "".join(theirs(Model("gpt2", [said]), **inputs)) == "\ufffd\ufffd !"
    model = Model("gpt2", [said])
    found = read(model, GenerateStreamer(model.tokenizer), **inputs)
    assert texts_of(found) == ["😀 !"]


def test_they_withhold_symbols_until_the_next_space() -> None:
    """Before 5.24 they withheld letters too."""
    texts = theirs(model_saying("one two... three"), **prompts("gpt2", ["one"]))
    assert "... " in texts or "two... " in texts
