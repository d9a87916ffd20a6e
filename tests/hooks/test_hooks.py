"""Hooks: adding, removing, and what they cannot disturb."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from streamdec import MockTokenizer, hooks, iter_chunks, stream
from streamdec.hooks import StreamEnded
from streamdec.metrics import Hook, add_hook
from tests.hooks.recording import Recording, recording
from tests.streams.engines import Engine, PlainEngine

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b", b"STOP"])


@pytest.fixture(autouse=True)
def _no_hook_is_left() -> Iterator[None]:
    assert hooks.installed == ()
    yield
    assert hooks.installed == ()


def run(token_ids: Any = (0, 1, 2), **options: Any) -> str:
    return "".join(chunk.text for chunk in iter_chunks(token_ids, TOKENIZER, **options))


def test_a_stream_calls_the_hooks_that_were_registered_when_it_began() -> None:
    before = iter_chunks([0, 1], TOKENIZER)
    with recording() as hook:
        assert "".join(chunk.text for chunk in before) == "ab"
        during = iter_chunks([0, 1], TOKENIZER)
    assert hook.streams == []
    assert "".join(chunk.text for chunk in during) == "ab"
    assert [event.tokens for event in hook.streams] == [2]


def test_removing_twice_does_nothing_and_adding_again_is_possible() -> None:
    hook = Recording()
    remove = add_hook(hook)
    remove()
    remove()
    again = add_hook(hook)
    remove()  # of the first time: it must not end the second
    run()
    again()
    assert len(hook.streams) == 1


class Renamed(Hook):
    """A hook with only a method that Hook does not have."""

    def on_event(self, event: StreamEnded) -> None:
        raise AssertionError


class Asynchronous(Hook):
    async def stream_ended(self, event: StreamEnded) -> None:  # type: ignore[override]
        pass


@pytest.mark.parametrize(
    ("hook", "told"),
    [
        (print, r"an instance of streamdec\.metrics\.Hook"),
        (Recording, "must be an instance of"),
        (Renamed(), "Renamed has none of the methods stream_ended, called, loaded, fell_back, so"),
        (Asynchronous(), r"stream_ended\(\) of a Hook must be a plain function"),
    ],
    ids=["function", "class", "renamed", "asynchronous"],
)
def test_objects_that_are_not_hooks_are_rejected(hook: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told):
        add_hook(hook)


def test_a_registered_hook_is_rejected() -> None:
    with recording() as hook, pytest.raises(ValueError, match="is registered already"):
        add_hook(hook)


def test_an_error_of_a_hook_is_logged_once_and_the_stream_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Unseen(Hook):
        """Of a class that has not failed before."""

        def stream_ended(self, event: StreamEnded) -> None:
            raise ZeroDivisionError(event.tokens)

    remove = add_hook(Unseen())
    try:
        with recording() as other, caplog.at_level(logging.WARNING, logger="streamdec.hooks"):
            assert run(stop="STOP") == "ab"
            assert run() == "abSTOP"
        assert len(other.streams) == 2
    finally:
        remove()
    (record,) = caplog.records
    assert "Unseen.stream_ended failed" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


class Interrupted(Hook):
    """Where Ctrl-C is pressed just then."""

    def stream_ended(self, event: StreamEnded) -> None:
        raise KeyboardInterrupt


def test_a_source_is_closed_even_if_a_hook_is_interrupted() -> None:
    remove, engines = add_hook(Interrupted()), (PlainEngine([0, 1]), Engine([0, 1]))

    async def read() -> None:
        async with stream(engines[1], TOKENIZER) as chunks:
            await anext(chunks)

    try:
        with pytest.raises(KeyboardInterrupt):
            run(engines[0])
        with pytest.raises(KeyboardInterrupt):
            anyio.run(read)
        assert [engine.is_closed for engine in engines] == [True, True]
    finally:
        remove()
