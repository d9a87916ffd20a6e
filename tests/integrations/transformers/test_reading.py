"""Readers of a ``generate`` that runs in a thread: its errors reach them, and they can leave."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest

from streamdec import MockTokenizer
from streamdec.integrations.transformers import GenerateStreamer
from tests.hooks.recording import recording
from tests.integrations.transformers.tensors import Model

TOKENIZER = MockTokenizer.from_tokens([*(bytes([byte]) for byte in range(256)), b"b>c"])
LONG = b"abcdefghijklmnopqrstuvwxyz" * 4


class BoomError(Exception):
    """What goes wrong."""


def failing(error: BaseException, *rows: bytes) -> Model:
    """A model that raises before its token 3."""
    model = Model(*rows)

    def fail(step: int) -> None:
        if step == 3:
            raise error

    model.at_step = fail
    return model


def started(model: Model, **options: Any) -> GenerateStreamer:
    streamer = GenerateStreamer(TOKENIZER, **options)
    streamer.start(model)
    return streamer


def leave_at(step: int, *rows: bytes) -> tuple[Model, GenerateStreamer]:
    """A reader who leaves after its first chunk, while that token is made."""
    model, streamer = Model(*rows), GenerateStreamer(TOKENIZER)
    is_reached, has_left = threading.Event(), threading.Event()

    def wait(at: int) -> None:
        if at == step:
            is_reached.set()
            assert has_left.wait(60)

    def close_and_go_on() -> None:
        close()
        has_left.set()

    model.at_step = wait
    close = streamer._feed.close
    streamer._feed.close = close_and_go_on  # type: ignore[method-assign]
    streamer.start(model)
    with streamer:
        next(streamer)
        assert is_reached.wait(60)
    return model, streamer


@pytest.mark.parametrize("end", [StopIteration(1), StopAsyncIteration(), SystemExit(3), None])
def test_an_error_of_generate_is_raised_after_the_text_before_it(end: BaseException | None) -> None:
    """Errors that a loop would take for its end are the cause of another."""
    boom = end or BoomError("no memory")
    texts: list[str] = []
    with started(failing(boom, b"abcdef"), stop="bcd") as streamer:
        with pytest.raises(Exception, match="generate ended with" if end else "no memory") as e:
            texts.extend(each.text for each in streamer)
        assert (e.value.__cause__ if end else e.value) is boom
        assert [*streamer] == []
    assert texts == ["a"]
    assert streamer.decoders[0].finish_reason == "error"
    with pytest.raises(type(e.value)):
        streamer.result()


def test_hooks_are_called_for_each_row() -> None:
    """Of rows that end by themselves, by an error of generate, and because the reader leaves."""
    with recording() as told:
        for model in (Model(b"ab", b"abcd"), failing(BoomError(), b"ab", b"abcd")):
            with suppress(BoomError), started(model, stop="d") as streamer:
                list(streamer)
        leave_at(4, LONG, b"ab")
    reasons = [each.finish_reason for each in told.streams]
    assert reasons == ["stop", "stop", "stop", "error", "stop", "abort"]


def test_a_reader_who_leaves_ends_generate_at_its_next_token() -> None:
    """It leaves while token 4 is made; that one is the last."""
    model, streamer = leave_at(4, LONG, LONG)
    assert model.num_passes == 5
    assert streamer.result().shape == (2, 1 + 5)
    assert [*streamer] == []
    assert [each.finish_reason for each in streamer.decoders] == ["abort", "abort"]


def test_closing_wakes_a_reader() -> None:
    streamer = GenerateStreamer(TOKENIZER, eos_token_ids=())
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append([*streamer]))
    thread.start()
    streamer.close()
    thread.join(60)
    assert found == [[]]


def test_a_row_with_a_bad_id_ends_and_the_others_continue() -> None:
    model = Model([*b"ab", 500, 30], b"abcdef")
    with started(model, unknown_ids="error") as streamer:
        found = [*streamer]
    texts = ["".join(each.text for each in found if each.row == row) for row in (0, 1)]
    assert texts == ["ab", "abcdef"]
    assert [each.finish_reason for each in streamer.decoders] == ["error", "stop"]
    (error,) = streamer.errors.values()
    assert (error.token_id, error.index) == (500, 2)  # type: ignore[attr-defined]


def test_each_chunk_is_in_one_section() -> None:
    streamer = started(Model([*b"a<", 256], b"x"), sections={"reasoning": ("<", ">")})
    assert [(row, each.text, each.section) for row, each in streamer if each.text] == [
        *((0, "a", None), (1, "x", None), (0, "b", "reasoning"), (0, "c", None)),
    ]
