"""Hooks: adding and removing them, and the events of tokenizers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamdec import (
    HuggingFaceTokenizer,
    MockTokenizer,
    TokenIdError,
    TokenizerLoadError,
    hooks,
    iter_chunks,
    load_tokenizer,
    stream,
)
from streamdec.errors import EncodeError
from streamdec.hooks import StreamEnded
from streamdec.metrics import Hook, add_hook
from tests.hooks.recording import Recording, hooked, recording
from tests.streams.engines import Engine, PlainEngine
from tests.support.zoo import ZOO


@pytest.fixture
def tokenizer() -> HuggingFaceTokenizer:
    return HuggingFaceTokenizer(ZOO["byte_level_trained"]())


def test_each_call_is_reported_with_its_sizes(tokenizer: HuggingFaceTokenizer) -> None:
    with recording() as hook:
        ids = tokenizer.encode("the quick fox").ids
        batch = tokenizer.encode_batch(["the", "é"])
        text = tokenizer.decode(ids)
    one, several, decoded = hook.calls
    assert one._replace(seconds=0) == ("huggingface", "encode", 0, 1, len(ids), 13, None)
    size = sum(map(len, batch))
    assert several._replace(seconds=0) == ("huggingface", "encode_batch", 0, 2, size, 4, None)
    assert decoded._replace(seconds=0) == ("huggingface", "decode", 0, 1, len(ids), len(text), None)
    assert all(call.seconds > 0 for call in hook.calls)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda tokenizer: tokenizer.encode("a\ud800"), EncodeError),
        (lambda tokenizer: tokenizer.encode(1), TypeError),
        (lambda tokenizer: tokenizer.encode("a", special="never"), ValueError),
        (lambda tokenizer: tokenizer.decode([-1]), TokenIdError),
    ],
)
def test_failed_calls_are_reported_with_their_error(
    call: Callable[[Any], Any], error: type[Exception], tokenizer: HuggingFaceTokenizer
) -> None:
    with recording() as hook, pytest.raises(error):
        call(tokenizer)
    (told,) = hook.calls
    assert told.error_type == error.__name__


def given(call: Callable[[], str]) -> tuple[str, str]:
    try:
        return "gave", call()
    except Exception as error:  # noqa: BLE001 (any error must be the same)
        return type(error).__name__, str(error)


@pytest.mark.parametrize("name", ["mock", "huggingface"])
@pytest.mark.parametrize(
    "make",
    [lambda: iter([0, 1]), lambda: (i for i in (0, 1)), lambda: {0: 1}, lambda: 5, lambda: None],
)
def test_a_hook_changes_nothing_for_ids_that_have_no_length(
    name: str, make: Callable[[], Any], tokenizer: HuggingFaceTokenizer
) -> None:
    asked = MockTokenizer.from_tokens([b"a", b"b"]) if name == "mock" else tokenizer
    alone = given(lambda: asked.decode(make()))
    with recording() as hook:
        assert given(lambda: asked.decode(make())) == alone
    assert [call.error_type for call in hook.calls] == [None if alone[0] == "gave" else alone[0]]


def test_long_texts_are_reported_from_their_thread(tokenizer: HuggingFaceTokenizer) -> None:
    async def main() -> None:
        await tokenizer.aencode("the " * 10_000)
        await tokenizer.aencode_batch(["the " * 10_000] * 3)

    with recording() as hook:
        anyio.run(main)
    assert {call.operation for call in hook.calls} == {"encode", "encode_batch"}
    assert sum(call.characters for call in hook.calls) == 4 * 40_000
    assert sum(call.texts for call in hook.calls) == 4


def test_failed_loads_are_reported(tmp_path: Path) -> None:
    nothing, other = tmp_path / "nothing", tmp_path / "notes.txt"
    other.write_text("hello")
    with recording() as hook:
        with pytest.raises(TokenizerLoadError):
            load_tokenizer(nothing)
        with pytest.raises(TokenizerLoadError):
            load_tokenizer(other)
    assert [told._replace(seconds=0) for told in hook.loads] == [
        ("", str(nothing), "", 0, 0, "TokenizerLoadError"),
        ("", str(other), "", 0, 0, "TokenizerLoadError"),
    ]


LETTERS = MockTokenizer.from_tokens([b"a", b"b", b"STOP"])


@pytest.fixture(autouse=True)
def _no_hook_is_left() -> Iterator[None]:
    assert hooks.installed == ()
    yield
    assert hooks.installed == ()


def run(token_ids: Any = (0, 1, 2), **options: Any) -> str:
    return "".join(chunk.text for chunk in iter_chunks(token_ids, LETTERS, **options))


def test_a_stream_calls_the_hooks_that_were_registered_when_it_began() -> None:
    before = iter_chunks([0, 1], LETTERS)
    with recording() as hook:
        assert "".join(chunk.text for chunk in before) == "ab"
        during = iter_chunks([0, 1], LETTERS)
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

    caplog.set_level(logging.WARNING, logger="streamdec.hooks")
    with hooked(Unseen()), recording() as other:
        assert run(stop="STOP") == "ab"
        assert run() == "abSTOP"
    assert len(other.streams) == 2
    (record,) = caplog.records
    assert "Unseen.stream_ended failed" in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[0] is ZeroDivisionError


class Interrupted(Hook):
    """Where Ctrl-C is pressed just then."""

    def stream_ended(self, event: StreamEnded) -> None:
        raise KeyboardInterrupt


def test_a_source_is_closed_even_if_a_hook_is_interrupted() -> None:
    engines = PlainEngine([0, 1]), Engine([0, 1])

    async def read() -> None:
        async with stream(engines[1], LETTERS) as chunks:
            await anext(chunks)

    with hooked(Interrupted()):
        with pytest.raises(KeyboardInterrupt):
            run(engines[0])
        with pytest.raises(KeyboardInterrupt):
            anyio.run(read)
    assert [engine.is_closed for engine in engines] == [True, True]
