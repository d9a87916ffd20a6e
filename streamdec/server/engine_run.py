"""One call of an engine, as an asynchronous iterator that can always be left.

In: the call of an engine, which returns an asynchronous iterator, or a plain one for a thread. Out:
its outputs. A cancellation reaches the engine a bounded number of times. anyio and trio repeat a
cancellation in every turn of the event loop until a task ends, but an engine may catch it and never
end. Then, on asyncio, the engine's current step is moved to a separate task, and the reader is
free. On trio a step cannot move. It is shielded from then on, and the reader waits for its end.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from contextlib import suppress
from types import coroutine
from typing import Any, Self

import anyio

from streamdec.errors import FinishedError, SourceError
from streamdec.integrations.logprobs import TokenLogprob
from streamdec.server.engines import OUTPUTS
from streamdec.streams.growth import GrowthWatch
from streamdec.streams.outputs import OutputReader, is_plain
from streamdec.streams.token_queue import TokenQueue
from streamdec.streams.wakeups import Wakeup, new_wakeup

_AHEAD = 16
"""How many ids an engine in a thread may be ahead of its reader."""
MOST_CANCELLATIONS = 100
"""How many times one step of an engine is cancelled."""


class EngineRun:
    """One call of an engine, as a source of outputs.

    The engine is called for the first output.

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
        self._reader = (
            None if put_logprobs is None else engine_reader(OutputReader(ids=self._ids_of))
        )
        self._pull: Callable[[], Awaitable[Any]] = self._first
        self._close: Callable[[], Any] | None = None
        self.is_cancelled: Callable[[], bool] = bool
        """Whether the reader is cancelled. (The engine may also cancel its own tasks.)"""
        self.outlives = False
        """Whether the engine continues without its reader: its thread, or its step."""
        self.ignores_cancellation = False
        """Whether the engine's step was left behind, or shielded."""
        self._cancelled: type[BaseException] | None = None
        """The exception of a cancellation, once an event loop runs."""
        self._is_asyncio = False
        """Whether that event loop is known to be asyncio's."""
        self._is_abandoned = False
        self._waiter: Wakeup | None = None
        self._step: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[Any]:
        """Return the next output. Raises the errors of the engine."""
        step = self._pull()
        # As in _protected, with one call less.
        output = self._bounded(step, None) if self._is_asyncio else self._protected(step)
        return output if self._reader is None else self._read(output)

    async def _read(self, output: Awaitable[Any]) -> Any:
        found = await output
        return found if self._reader is None else self._reader.read(found)

    async def aclose(self) -> None:
        """Close the engine's iterator."""
        if self._step is None:  # the thread closes the iterator
            await self._protected(self._closed())

    async def over(self) -> None:
        """Wait for the end of an engine that continues without its reader.

        Returns at once after ``abandon``.
        """
        if self.outlives and not self._is_abandoned:
            self._waiter = new_wakeup()
            if self.outlives:  # checked again: the thread clears it before it looks for a waiter
                await self._waiter

    def abandon(self) -> None:
        """Do not wait for an engine that continues without its reader."""
        self._is_abandoned = True
        self._wake()

    def _end(self) -> None:
        """Note that an engine without a reader has ended. Any thread may call it."""
        self.outlives = False
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            with suppress(RuntimeError):  # the event loop is closed
                self._waiter.wake()

    # --- the engine

    async def _first(self) -> Any:
        """Call the engine, and return its first output."""
        source = self._call()
        if inspect.isawaitable(source):
            source = await source
        if hasattr(source, "__aiter__"):
            iterator = source.__aiter__()
            self._pull = iterator.__anext__
            self._close = getattr(iterator, "aclose", None) or getattr(iterator, "close", None)
            return await self._pull()
        if not is_plain(source):
            raise SourceError(
                f"an engine must return an (async) iterator of ids, not {source!r:.80}"
            )
        feed = TokenQueue(_AHEAD)
        self._pull, self._close = feed.__anext__, feed.aclose
        reader, self._reader = self._reader or engine_reader(OutputReader()), None
        self.outlives = True
        context = contextvars.copy_context()
        threading.Thread(
            target=context.run, args=(self._work, source, reader, feed), daemon=True
        ).start()
        return await self._pull()

    def _work(self, source: Iterable[Any], reader: OutputReader, feed: TokenQueue) -> None:
        try:
            _produce(source, reader, feed)
        finally:
            self._end()

    async def _closed(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            closing = close()
            if inspect.isawaitable(closing):
                await closing

    def _ids_of(self, output: Any) -> Any:
        assert self._put_logprobs is not None
        found = _field(output, "logprobs")
        if found is None and _field(output, "token_ids") is None:
            return output
        self._put_logprobs([_logprob_of(each) for each in _listed(found)])
        return _field(output, "token_ids")

    # --- cancellation

    def _protected(self, step: Awaitable[Any]) -> Awaitable[Any]:
        """Return an awaitable of ``step``, which may ignore cancellation.

        ``step`` is a step of the engine.
        """
        if self._cancelled is None:
            self._cancelled = anyio.get_cancelled_exc_class()
            self._is_asyncio = self._cancelled is asyncio.CancelledError
        return self._bounded(step, None) if self._is_asyncio else self._guarded(step)

    async def _guarded(self, step: Awaitable[Any]) -> Any:
        with anyio.CancelScope() as guard:
            return await self._bounded(step, guard)

    @coroutine
    def _bounded(
        self, step: Awaitable[Any], guard: anyio.CancelScope | None
    ) -> Generator[Any, Any, Any]:
        """Await ``step``.

        If it ignores its cancellation, shield it by ``guard``, or leave it.
        """
        assert self._cancelled is not None
        found: list[Any] = []
        awaited: Any = step.__await__()
        inner: Any = _into(found, awaited)
        num_cancellations = 0
        try:
            waits_for = next(inner, None)  # without a StopIteration, whose handling takes longer
            while not found:
                raised: BaseException | None = None
                try:
                    sent = yield waits_for
                except GeneratorExit as error:
                    # ``inner`` would not pass it on before Python 3.13.
                    with suppress(StopIteration, StopAsyncIteration):
                        awaited.throw(error)
                    raise
                except BaseException as error:  # noqa: BLE001 (it is the engine's)
                    raised = error
                    waits_for = inner.throw(error)  # the engine continues
                else:
                    waits_for = inner.send(sent)
                    raised = getattr(sent, "error", None)  # trio sends errors in an Outcome
                if raised is None or not isinstance(raised, self._cancelled):
                    continue
                num_cancellations += self.is_cancelled()
                if num_cancellations > MOST_CANCELLATIONS:
                    self.ignores_cancellation = True
                    if guard is None:
                        self._leave(inner, waits_for)
                        raise raised
                    guard.shield = True
        except StopIteration:
            pass
        except SystemExit as error:  # it would end the server
            raise SourceError("the engine called sys.exit()") from error
        return found[0]

    def _leave(self, inner: Any, waits_for: Any) -> None:
        """Continue the step ``inner``, which waits for ``waits_for``, in a separate task."""
        self.outlives = True
        self._step = asyncio.ensure_future(self._outlive(inner, waits_for))

    async def _outlive(self, inner: Any, waits_for: Any) -> None:
        with suppress(BaseException):  # its result is no longer needed
            await _resumed(inner, waits_for)
            await self._closed()
        self._end()


def engine_reader(reader: OutputReader) -> OutputReader:
    """Return ``reader`` with the advice of a server, which has no options of streams."""
    reader.growth = GrowthWatch("make the engine yield only new ids")
    reader.advice = OUTPUTS
    return reader


def _into(found: list[Any], awaited: Any) -> Generator[Any, Any, None]:
    """Put the result of ``awaited`` into ``found``."""
    found.append((yield from awaited))


@coroutine
def _resumed(inner: Any, waits_for: Any) -> Generator[Any, Any, None]:
    """Await ``inner``, which another task left while it waited for ``waits_for``."""
    with suppress(StopIteration):
        while True:
            try:
                sent = yield waits_for
            except BaseException as error:  # noqa: BLE001 (as above)
                waits_for = inner.throw(error)
            else:
                waits_for = inner.send(sent)


def _field(output: Any, name: str) -> Any:
    if isinstance(output, Mapping):
        return output.get(name)
    return getattr(output, name, None)


def _listed(logprobs: Any) -> Iterable[Any]:
    if logprobs is None or is_plain(logprobs):
        return logprobs or ()
    raise SourceError(f"logprobs of an engine's output must be a list, not {logprobs!r:.80}")


def _logprob_of(given: Any) -> TokenLogprob:
    try:
        return TokenLogprob(*given)
    except TypeError:
        raise SourceError(
            "each of the logprobs of an engine's output must be a TokenLogprob or a tuple "
            f"(token_id, logprob, top), not {given!r:.80}"
        ) from None


def _produce(source: Iterable[Any], reader: OutputReader, feed: TokenQueue) -> None:
    """Put the outputs of a plain engine into ``feed``, and close the engine.

    Runs in the engine's thread.
    """
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
