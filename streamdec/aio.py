"""Text from an engine that is waited for: ``async for chunk in stream``.

In: an iterator of an engine's outputs, and a machine. Out: chunks as soon as their text is certain,
and the engine closed as soon as it is not needed. Runs on asyncio and on trio, through anyio.

A stream pulls from the engine's own iterator in the reader's own task: there is no queue and no
second task. An engine that pushes puts into a TokenQueue, which is pulled from.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
)
from types import AsyncGeneratorType, TracebackType
from typing import Any, Self, SupportsIndex, Unpack, cast

import anyio
from anyio.lowlevel import checkpoint

from streamdec.chunks import Chunk
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.errors import IdleTimeoutError
from streamdec.flow import (
    MAX_TOKENS_AT_ONCE,
    NO_PROMPT,
    BaseStream,
    Closing,
    Flow,
    FlowOptions,
    M,
    StreamOptions,
    decoder_of,
    sorted_options,
)
from streamdec.machines import Machine
from streamdec.protocols import Decoder
from streamdec.sources import is_plain

__all__ = ["TextStream", "stream", "wrap"]


class TextStream(BaseStream[M]):
    """The chunks of one source: an async iterator, and a context manager that closes the source.

    Made by :func:`~streamdec.stream` and :func:`~streamdec.wrap`, which say what ``source``,
    ``machine``, ``on_stop``, ``idle_timeout`` and ``options`` are, and what is raised. It is
    equivalent to::

        async for output in source:
            chunk = machine.step_batch(ids_of(output))
            if chunk.text:
                yield chunk
        yield machine.flush()

    and what that would leave to chance is certain:

    * The last chunk, and no other, has a ``finish_reason``. When it comes the source is closed, and
      no token was asked for after the one that finished.
    * The source is closed at once and once, shielded from cancellation: at the end, when a step or
      the source raises, when the reader is cancelled or leaves the block.
    * What raises comes after all text that was certain before it. The machine is as it was after
      that text: ``snapshot()`` goes on from there with another source, ``pending_text`` is what was
      withheld.
    * A chunk covers 256 tokens at most, and after as many a stream looks whether it was cancelled
      and lets other tasks run, however ready the source is.

    One reader at a time: a second one gets ``anyio.BusyResourceError`` (or, if it began while the
    first was busy elsewhere, the RuntimeError of an asynchronous generator).

    Raises TypeError for what is no source, machine or option.

    **Memory.** Nothing is queued: held are the machine, one output of the source, and the last
    chunk. **Cost.** Over a source that never waits a token takes about twice the time that a
    generator takes which only passes it on.

    >>> import anyio
    >>> from streamdec import DecodeStream, MockTokenizer, TextStream
    >>> async def main():
    ...     async with TextStream([1, 2], DecodeStream(MockTokenizer())) as chunks:
    ...         return "".join([chunk.text async for chunk in chunks])
    >>> anyio.run(main)
    'Hello world'
    """

    def __init__(
        self,
        source: AsyncIterable[Any] | Iterable[Any],
        machine: M,
        *,
        on_stop: Callable[[], object] | None = None,
        idle_timeout: float | None = None,
        **options: Unpack[FlowOptions],
    ) -> None:
        super().__init__(machine, **options)
        pulled = _iterator_of(source)
        self._closing = _Closing(self._flow, _close_of(pulled), on_stop)
        if idle_timeout is not None:
            pulled = _Timed(pulled, idle_timeout, machine)
        if self._flow.is_over:
            pulled = _Blocking(())
        chunks = _chunks(self._flow, pulled, self._closing)
        self._chunks = cast(AsyncGeneratorType[Chunk, None], chunks)

    # --- reading

    def __aiter__(self) -> AsyncIterator[Chunk]:
        # The generator itself: to go through __anext__ would cost as much again as the generator.
        self._check_idle()
        return self._chunks

    async def __anext__(self) -> Chunk:
        self._check_idle()
        return await anext(self._chunks)

    def _check_idle(self) -> None:
        if self._chunks.ag_running:
            raise anyio.BusyResourceError("reading from")

    # --- the end

    async def aclose(self) -> None:
        """Closes the source, if it is not closed already; afterwards there are no chunks.

        ``on_stop`` is called before, unless the engine has ended by itself. A second time it does
        nothing.

        Raises what closing it raised, if that was not yet raised; ``anyio.BusyResourceError`` while
        another task waits for a chunk: cancel that one instead.
        """
        await self._close()
        self._closing.complain()

    async def _close(self) -> None:
        self._check_idle()
        await self._chunks.aclose()
        await self._closing.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._close()
        if error is None:
            self._closing.complain()
        else:
            self._closing.note_on(error)


async def _chunks(
    flow: Flow, source: AsyncIterator[Any], closing: _Closing
) -> AsyncGenerator[Chunk, None]:
    """The chunks of a TextStream, without a reference to it: nothing then has to be collected."""
    step, left = flow.step, MAX_TOKENS_AT_ONCE
    async with closing:
        async for output in source:
            if step is not None and type(output) is int:
                chunk = step(output)
                if chunk.finish_reason is not None:
                    flow.last = chunk
                    break
                if chunk.text or flow.shows_silent():
                    yield chunk
            else:
                for chunk in flow.read(output):
                    if chunk.text or flow.shows_silent():
                        yield chunk
                    left -= flow.num_taken
                    if left <= 0:
                        left = MAX_TOKENS_AT_ONCE
                        await checkpoint()
                if flow.is_over:
                    break
            left -= 1
            if left <= 0:
                left = MAX_TOKENS_AT_ONCE
                await checkpoint()
        else:
            flow.end()
    for chunk in flow.ending(closing):
        yield chunk


# --- the source -----------------------------------------------------------------------------------


def _iterator_of(source: Any) -> AsyncIterator[Any]:
    """What is pulled from. TypeError for what is no source."""
    if hasattr(source, "__aiter__"):
        iterator: AsyncIterator[Any] = source.__aiter__()
        return iterator if hasattr(iterator, "__aiter__") else _Bare(iterator)
    is_awaitable = inspect.isawaitable(source)  # a Future can be iterated over too
    if is_plain(source) and not is_awaitable:
        return _Blocking(source)
    if inspect.iscoroutine(source):
        source.close()
    verb = "await" if is_awaitable else "call" if callable(source) else ""
    hint = f": {verb} it, and give what it returns" if verb else ""
    raise TypeError(f"a source is an (async) iterable of outputs, not {source!r:.80}{hint}")


def _close_of(iterator: Any) -> Callable[[], object] | None:
    """What closes an iterator, perhaps asynchronously; None if nothing does."""
    close: Callable[[], object] | None = getattr(iterator, "aclose", None)
    return getattr(iterator, "close", None) if close is None else close


class _Bare:
    """An iterator that has no ``__aiter__``: ``async for`` asks for none after the first."""

    def __init__(self, iterator: Any) -> None:
        self._pull = iterator.__anext__
        self.close = _close_of(iterator)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._pull()


class _Blocking:
    """A plain iterable as an asynchronous iterator. Each ``next`` holds up the event loop."""

    def __init__(self, source: Iterable[Any]) -> None:
        self._iterator: Iterator[Any] = iter(source)
        self.close = _close_of(self._iterator)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return next(self._iterator)
        except StopIteration:
            raise StopAsyncIteration from None


class _Timed:
    """An iterator that may not be silent for too long."""

    def __init__(self, iterator: AsyncIterator[Any], seconds: float, machine: Machine) -> None:
        if isinstance(iterator, _Blocking):
            raise ValueError(
                "idle_timeout needs an async source: a plain one cannot be interrupted"
            )
        _check_seconds(seconds)
        self._pull = iterator.__anext__
        self._seconds = seconds
        self._machine = machine

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        with anyio.move_on_after(self._seconds) as scope:
            try:
                return await self._pull()
            except Exception as error:
                if scope.cancel_called:  # the engine made something else of being cancelled
                    raise self._timeout() from error
                raise
        raise self._timeout()

    def _timeout(self) -> IdleTimeoutError:
        return IdleTimeoutError(self._seconds, self._machine.snapshot())


def _check_seconds(seconds: Any) -> None:
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not (is_number and seconds > 0):
        kind = ValueError if is_number else TypeError
        raise kind(f"idle_timeout must be a number of seconds, more than 0, not {seconds!r:.40}")


class _Closing(Closing):
    """Closes an asynchronous source, whether or not the reader is cancelled."""

    async def close(self, cause: BaseException | None = None) -> None:
        """Stops the engine, unless it has ended by itself; then closes its iterator. Once."""
        actions = self.due(cause)
        if not actions:
            return
        broken_off: BaseException | None = None
        with anyio.CancelScope(shield=True):
            for action in actions:
                try:
                    result = action()
                    if inspect.isawaitable(result):
                        await result
                except Exception as error:  # noqa: BLE001 (see Closing)
                    self.failed(error)
                except BaseException as error:  # noqa: BLE001 (task.cancel() knows no shield)
                    broken_off = error
        if broken_off is not None:
            raise broken_off

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await self.close(error)
        self.note_on(error)


# --- the doors ------------------------------------------------------------------------------------


def wrap(
    source: AsyncIterable[Any] | Iterable[Any],
    machine: M,
    *,
    on_stop: Callable[[], object] | None = None,
    idle_timeout: float | None = None,
    **options: Unpack[FlowOptions],
) -> TextStream[M]:
    r"""The chunks that ``machine`` makes of ``source``; see :class:`~streamdec.TextStream`.

    Args:
        source: an iterator of outputs, or what has one: ids, lists, arrays or tensors of ids, or an
            engine's own objects or dicts (:class:`~streamdec.sources.Reader` says which). Best an
            asynchronous one: a plain one holds up the event loop while it waits for its engine.
        machine: a DecodeStream, a Sequence or a StopSequenceDecoder, new or under way. (A Sequence
            can always grow: what it holds at the end is not given out.)
        on_stop: called, and awaited if need be, before the source is closed, unless the engine has
            ended by itself: to abort its request.
        idle_timeout: seconds that the source may be silent. Costs microseconds for each output.
        options: see :class:`~streamdec.flow.FlowOptions`.

    Raises:
        TypeError: at once, for what is no source, machine or option.
        ValueError: at once, for an option's value that is none, or ``idle_timeout`` on a plain
            source.
        IdleTimeoutError: while reading, with a snapshot; the source gave nothing for too long.
        SourceError: while reading, for an output that cannot be read.

    And, while reading, whatever the source and the machine raise.

    >>> import anyio
    >>> from streamdec import DecodeStream, MockTokenizer, wrap
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
    >>> async def main():
    ...     async with wrap([0, 1, 2], DecodeStream(tokenizer)) as stream:
    ...         return [chunk.text async for chunk in stream]
    >>> anyio.run(main)
    ['caf', 'é', '']
    """
    return TextStream(source, machine, on_stop=on_stop, idle_timeout=idle_timeout, **options)


def stream(
    source: AsyncIterable[Any] | Iterable[Any],
    tokenizer: Decoder | None = None,
    *,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
    decoder: StopSequenceDecoder | Machine | None = None,
    on_stop: Callable[[], object] | None = None,
    idle_timeout: float | None = None,
    **options: Unpack[StreamOptions],
) -> TextStream[StopSequenceDecoder]:
    r"""The text of ``source``, as it comes, until something says stop.

    Args:
        source: an iterator of outputs, best an asynchronous one: ids, lists, arrays or tensors of
            ids, or an engine's own objects or dicts; more at :func:`~streamdec.wrap`.
        tokenizer: what decodes, as for DecodeStream: what :func:`~streamdec.load_tokenizer` gives.
        prompt_token_ids: ids that came before; never given out.
        conditions: when the text ends; or give its parts as options: ``stop="User:"``. Without
            either it ends where the source does.
        decoder: a StopSequenceDecoder that is ready, or restored from a snapshot, instead of all
            these.
        on_stop: called, and awaited if need be, before the source is closed, unless the engine has
            ended by itself: to abort its request.
        idle_timeout: seconds that an asynchronous source may be silent; None for any time.
        options: ``stop``, ``stop_token_ids``, ``eos_token_ids``, ``max_tokens``, ``min_tokens`` and
            all else that StopConditions has; ``skip_special_tokens``, ``byte_fallback``,
            ``unknown_ids``, ``clean_up_tokenization_spaces`` of DecodeStream; ``ids``,
            ``cumulative``, ``index``, ``chunk_by``, ``return_token_ids``, ``finish_reason`` of
            :class:`~streamdec.flow.FlowOptions`.

    Returns:
        The chunks. Each has the ``text`` that is certain now; the last one, and no other, has a
        ``finish_reason``, and comes once the source is closed.

    Raises what :func:`~streamdec.wrap`, StopConditions and StopSequenceDecoder raise; TypeError for
    a decoder beside what it would be made of, or for neither.

    >>> import anyio
    >>> from streamdec import MockTokenizer, stream
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"\nUs", b"er:"])
    >>> async def engine():
    ...     for token_id in [0, 1, 2, 3, 0]:
    ...         yield token_id
    >>> async def main():
    ...     async with stream(engine(), tokenizer, stop="\nUser:") as chunks:
    ...         async for chunk in chunks:
    ...             print(repr(chunk.text), chunk.finish_reason)
    >>> anyio.run(main)
    'Hi' None
    '!' None
    '' stop
    """
    flow_options, decoder_options = sorted_options("stream()", options)
    decoder = decoder_of(
        "stream()", tokenizer, conditions, prompt_token_ids, decoder, decoder_options
    )
    return wrap(source, decoder, on_stop=on_stop, idle_timeout=idle_timeout, **flow_options)
