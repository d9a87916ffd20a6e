"""Readers of a ``generate`` that runs in a thread: its errors reach them, and they can leave."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from streamdec.integrations.transformers import GenerateStreamer
from tests.hooks.recording import recording
from tests.integrations.transformers.scripted import Model, prompts, spelled, texts_of

LONG = "abcdefghijklmnopqrstuvwxyz" * 4


class BoomError(Exception):
    """What goes wrong."""


def failing(model: Model, step: int, error: BaseException) -> Model:
    """``model``, which raises before that token."""

    def fail(at: int) -> None:
        if at == step:
            raise error

    model.script.at_step = fail
    return model


def model_saying(*texts: str) -> Model:
    return Model("gpt2", [spelled("gpt2", text) for text in texts])


def started(model: Any, streamer: GenerateStreamer, num_rows: int = 1) -> GenerateStreamer:
    streamer.start(model, **prompts("gpt2", ["one"] * num_rows), max_new_tokens=len(LONG))
    return streamer


def is_running(streamer: GenerateStreamer) -> bool:
    thread = streamer._thread
    return thread is not None and thread.is_alive()


class Gate:
    """Holds a model up before a token until it is opened."""

    def __init__(self, model: Model, step: int) -> None:
        self.is_reached = threading.Event()
        self.is_open = threading.Event()
        self._step = step
        model.script.at_step = self._wait

    def _wait(self, step: int) -> None:
        if step == self._step:
            self.is_reached.set()
            assert self.is_open.wait(60)


def opening(gate: Gate, streamer: GenerateStreamer) -> GenerateStreamer:
    """``streamer``, which opens the gate when it is closed, before it waits for ``generate``."""
    close = streamer._feed.close

    def close_and_open() -> None:
        close()
        gate.is_open.set()

    streamer._feed.close = close_and_open  # type: ignore[method-assign]
    return streamer


def test_an_error_of_generate_is_raised_after_the_text_before_it() -> None:
    boom = BoomError("no memory")
    model = failing(model_saying("abcdef"), 3, boom)
    found: list[Any] = []
    with started(model, GenerateStreamer(model.tokenizer, stop="bcd")) as streamer:
        with pytest.raises(BoomError) as caught:
            found.extend(streamer)
        assert caught.value is boom
        assert [*streamer] == []
    assert texts_of(found) == ["a"]
    assert streamer.decoders[0].finish_reason == "error"
    with pytest.raises(BoomError):
        streamer.result()


def test_hooks_are_called_for_each_row() -> None:
    """Of rows that end by themselves, by an error of generate, and because the reader leaves."""
    models = [model_saying("ab", "abcd"), failing(model_saying("ab", "abcd"), 3, BoomError())]
    with recording() as told:
        for model in models:
            streamer = GenerateStreamer(model.tokenizer, stop="d")
            with suppress(BoomError), started(model, streamer, 2):
                list(streamer)
        model = model_saying(LONG, "ab")
        gate = Gate(model, 4)
        with started(model, opening(gate, GenerateStreamer(model.tokenizer)), 2):
            assert gate.is_reached.wait(60)
    reasons = [each.finish_reason for each in told.streams]
    assert reasons == ["stop", "stop", "stop", "error", "stop", "abort"]


def test_a_reader_who_leaves_ends_generate_at_its_next_token() -> None:
    """It leaves while token 4 is made; that one is the last."""
    model = model_saying(LONG, LONG)
    gate = Gate(model, 4)
    streamer = opening(gate, GenerateStreamer(model.tokenizer))
    with started(model, streamer, 2):
        next(streamer)
        assert gate.is_reached.wait(60)
    assert not is_running(streamer)
    assert model.num_passes == 5
    num_prompt = prompts("gpt2", ["one"])["input_ids"].shape[1]
    assert streamer.result().shape == (2, num_prompt + 5)
    assert [*streamer] == []
    assert [each.finish_reason for each in streamer.decoders] == ["abort", "abort"]
