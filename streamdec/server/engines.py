"""Engines turn prompt ids into token ids. This module calls them, and has one that replays ids.

In: the user's callable. Out: asynchronous iterators of outputs that can be closed.
"""

from __future__ import annotations

import contextvars
import inspect
import random
import sys
import threading
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Protocol, Self

import anyio

from streamdec.errors import FinishedError, StreamdecError
from streamdec.integrations.logprobs import TokenLogprob
from streamdec.streams.outputs import OutputReader, is_plain
from streamdec.streams.token_queue import TokenQueue
from streamdec.streams.wakeups import Wakeup, new_wakeup

__all__ = [
    "Engine",
    "EngineError",
    "EngineRun",
    "ReplayEngine",
    "SamplingParams",
    "load_engine",
]

_AHEAD = 16
"""How many ids an engine in a thread may be ahead of its reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How to generate one sample. A field is None if the client did not set it.

    The names have the meaning of vLLM's and OpenAI's APIs. Stop strings are not included, because
    the server finds them and then closes the engine's iterator.

    >>> from streamdec.server import SamplingParams
    >>> params = SamplingParams(max_tokens=256, temperature=0.0)
    >>> params.top_p is None, params.n
    (True, 1)
    """

    max_tokens: int
    """The server ends the stream with this token. An engine may need it to reserve memory."""
    min_tokens: int = 0
    """Before this many tokens the engine should not choose an end-of-sequence id or a stop id."""
    temperature: float | None = None
    """From 0 (greedy) to 2."""
    top_p: float | None = None
    """From 0 to 1: choose among the likeliest tokens whose probabilities have this sum."""
    top_k: int | None = None
    """Choose among this many of the likeliest tokens; -1 and 0 mean all."""
    min_p: float | None = None
    """From 0 to 1: the least probability of a token, relative to that of the likeliest."""
    frequency_penalty: float | None = None
    """From -2 to 2: subtracted from the logit of a token each time it is generated."""
    presence_penalty: float | None = None
    """From -2 to 2: subtracted once from the logit of a generated token."""
    repetition_penalty: float | None = None
    """From 0 to 10: above 1 it makes tokens of the prompt and the answer less likely."""
    seed: int | None = None
    """The seed of this sample: that of the client, plus ``index``."""
    logprobs: int | None = None
    """If not None, each output needs ``logprobs``, with this many alternatives for each token."""
    stop_token_ids: tuple[int, ...] = ()
    """The stop ids of the client. The server ends the stream at them too."""
    eos_token_ids: tuple[int, ...] = ()
    """The end-of-sequence ids; none with ``ignore_eos``."""
    ignore_eos: bool = False
    """Whether the text goes on after end-of-sequence."""
    index: int = 0
    """The number of the sample, from 0."""
    n: int = 1
    """How many samples the request has. The engine is called for each."""
    logit_bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))
    """Numbers to add to the logits of tokens, by token id."""


class Engine(Protocol):
    """A callable that generates the token ids after a prompt.

    It returns an asynchronous iterator; or an iterable, which is read in a thread of its own; or an
    awaitable of one of them. Its outputs are ids, lists of ids, or other outputs that
    :class:`~streamdec.streams.outputs.OutputReader` reads. The iterator is closed at the end, at a
    stop, or when the client disconnects: abort the request then. A plain iterable cannot be
    interrupted, and keeps its room until its current step has ended. The call itself must not
    block; write a generator instead.

    It may have ``lifespan()``, an asynchronous context manager around all requests;
    ``max_concurrency``, how many streams it runs at once; and ``logprobs = True`` if its outputs
    are objects or dicts with ``logprobs`` beside ``token_ids``: for each token a
    :class:`~streamdec.integrations.logprobs.TokenLogprob`, or a tuple with the same three fields.

    >>> from streamdec.server import Engine, SamplingParams
    >>> def echo(prompt_token_ids, params):
    ...     yield from prompt_token_ids[: params.max_tokens]
    >>> engine: Engine = echo
    >>> [*engine([5, 6, 7], SamplingParams(max_tokens=2))]
    [5, 6]
    """

    def __call__(
        self, prompt_token_ids: list[int], params: SamplingParams, /
    ) -> AsyncIterable[Any] | Iterable[Any] | Awaitable[AsyncIterable[Any] | Iterable[Any]]:
        """Return the iterator of one sample.

        ``prompt_token_ids`` are the ids of its prompt, and ``params`` say how to generate it.
        """
        ...


class EngineError(StreamdecError, ValueError):
    """The engine cannot be loaded, or is not an engine.

    >>> from streamdec.server import load_engine
    >>> load_engine("my_engine")
    Traceback (most recent call last):
        ...
    streamdec.server.engines.EngineError: an engine is given as module:callable, not 'my_engine'
    """


def load_engine(name: str, folder: str | None = None) -> Engine:
    """Return the engine that ``name`` names as ``module:callable``; for a class, an instance.

    The module is imported, so its code runs. ``folder`` is added to the front of ``sys.path``.
    Raises :class:`~streamdec.server.EngineError`, which says what is missing. An error of the
    module itself is its cause.

    >>> from streamdec.server import load_engine
    >>> load_engine("my_engine:engine")
    Traceback (most recent call last):
        ...
    streamdec.server.engines.EngineError: my_engine:engine: there is no module 'my_engine'
    """
    module_name, colon, path = name.partition(":")
    if not colon or not module_name or not path:
        raise EngineError(f"an engine is given as module:callable, not {name!r}")
    if folder is not None and folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        raise EngineError(f"{name}: there is no module {error.name!r}") from error
    except Exception as error:
        raise EngineError(f"{name}: the module raised {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise EngineError(f"{name}: {found!r:.60} has no {part!r}")
        found = getattr(found, part)
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:
            raise EngineError(f"{name}: {type(error).__name__}: {error}") from error
    if not callable(found):
        raise EngineError(f"{name} is no callable: {found!r:.60}")
    engine: Engine = found
    return engine


class ReplayEngine:
    """Yields the same ids for each prompt, at a pace. Use it to try a server without a model.

    Args:
        token_ids: the ids.
        rate: ids per second on average; the pauses vary, and depend on the seed. 0 is as fast as
            they are read.

    Raises ValueError for a rate below 0.

    >>> import asyncio
    >>> from streamdec.server import ReplayEngine, SamplingParams
    >>> engine = ReplayEngine([5, 6, 7], rate=0)
    >>> async def replayed():
    ...     return [token_id async for token_id in engine([1, 2], SamplingParams(max_tokens=8))]
    >>> asyncio.run(replayed())
    [5, 6, 7]
    """

    logprobs = False

    def __init__(self, token_ids: Iterable[int], rate: float = 40.0) -> None:
        self._token_ids = tuple(token_ids)
        if not rate >= 0:
            raise ValueError(f"rate must be ids per second, from 0 up, not {rate!r:.40}")
        self._rate = rate

    async def __call__(
        self, prompt_token_ids: list[int], params: SamplingParams
    ) -> AsyncIterator[int]:
        """Yield the ids. Of ``prompt_token_ids`` and ``params``, only the seed is used."""
        uneven = random.Random(params.seed or 0)
        for token_id in self._token_ids:
            await anyio.sleep(uneven.uniform(0.4, 1.6) / self._rate if self._rate else 0)
            yield token_id


class EngineRun:
    """One call of an engine, as a source of outputs. The engine is called for the first output.

    Args:
        call: calls the engine.
        put_logprobs: called with the log probabilities of each output before its ids are read; None
            if the client wants none.
    """

    def __init__(
        self,
        call: Callable[[], Any],
        put_logprobs: Callable[[Iterable[TokenLogprob]], None] | None = None,
    ) -> None:
        self._call = call
        self._put_logprobs = put_logprobs
        self._reader = None if put_logprobs is None else OutputReader(ids=self._ids_of)
        self._pull: Callable[[], Awaitable[Any]] | None = None
        self._close: Callable[[], Any] | None = None
        self._has_thread = False
        """Whether the thread of a plain engine still runs."""
        self._waiter: Wakeup | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        """Return the next output. Raises the errors of the engine."""
        try:
            if self._pull is None:
                await self._begin()
                assert self._pull is not None
            output = await self._pull()
        except SystemExit as error:  # it would end the server
            raise EngineError("the engine called sys.exit()") from error
        return output if self._reader is None else self._reader.read(output)

    async def aclose(self) -> None:
        """Close the engine's iterator."""
        close, self._close = self._close, None
        if close is not None:
            closing = close()
            if inspect.isawaitable(closing):
                await closing

    async def over(self) -> None:
        """Wait until the thread of a plain engine, which cannot be interrupted, has ended.

        Returns at once after ``abandon``.
        """
        if self._has_thread:
            self._waiter = new_wakeup()
            if self._has_thread:  # checked again: the thread clears it before it looks for a waiter
                await self._waiter

    def abandon(self) -> None:
        """Do not wait for the thread of a plain engine. Any thread may call it."""
        self._has_thread = False
        if self._waiter is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._waiter.wake()

    # --- the engine

    async def _begin(self) -> None:
        source = self._call()
        if inspect.isawaitable(source):
            source = await source
        if hasattr(source, "__aiter__"):
            iterator = source.__aiter__()
            self._pull = iterator.__anext__
            self._close = getattr(iterator, "aclose", None) or getattr(iterator, "close", None)
            return
        if not is_plain(source):
            raise EngineError(f"an engine gives an (async) iterator of ids, not {source!r:.80}")
        feed = TokenQueue(_AHEAD)
        self._pull, self._close = feed.__anext__, feed.aclose
        reader, self._reader = self._reader or OutputReader(), None
        self._has_thread = True
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._work, source, reader, feed), daemon=True
        ).start()

    def _work(self, source: Iterable[Any], reader: OutputReader, feed: TokenQueue) -> None:
        try:
            _produce(source, reader, feed)
        finally:
            self.abandon()

    def _ids_of(self, output: Any) -> Any:
        assert self._put_logprobs is not None
        found = _field(output, "logprobs")
        if found is None and _field(output, "token_ids") is None:
            return output
        self._put_logprobs(TokenLogprob(*each) for each in found or ())
        return _field(output, "token_ids")


def _field(output: Any, name: str) -> Any:
    if isinstance(output, Mapping):
        return output.get(name)
    return getattr(output, name, None)


def _produce(source: Iterable[Any], reader: OutputReader, feed: TokenQueue) -> None:
    """Put the outputs of a plain engine into ``feed``, and close the engine. Runs in its thread."""
    iterator: Any = None
    try:
        iterator = iter(source)
        for output in iterator:
            delta = reader.read(output)
            if len(delta.token_ids):
                feed.put(delta.token_ids)
            elif feed.closed:
                return
            if delta.finish_reason is not None:
                feed.end(delta.finish_reason, delta.stop_reason)
                return
        feed.end()
    except FinishedError:
        pass
    except BaseException as error:  # noqa: BLE001 (the reader raises it)
        feed.fail(error)
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:  # noqa: BLE001 (as above, if it is still read)
                feed.fail(error)
