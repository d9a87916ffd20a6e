"""Text from an async iterator of outputs: ``async for chunk in stream(...)``.

Runs on asyncio and on trio. A stream pulls from the engine's iterator in the reader's own task.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from time import monotonic
from typing import Any, Self, SupportsIndex, Unpack

import anyio
from anyio.lowlevel import checkpoint

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.conditions import StopConditions
from streamdec.core.stepping import DECODERS, decoder_behind
from streamdec.core.stop_sequence_decoder import DecoderOptions, StopSequenceDecoder
from streamdec.protocols import Decoder
from streamdec.streams.async_closing import AsyncClosing
from streamdec.streams.reading import MAX_TOKENS_AT_ONCE, BaseStream, ChunkBy, M, SourceReading
from streamdec.streams.text_iterator import iterator_of
from streamdec.streams.token_queue import TokenQueue

__all__ = ["TextStream", "stream", "wrap"]


class TextStream(BaseStream[M]):
    """The chunks of one source, as an async iterator and an async context manager.

    :func:`~streamdec.stream` and :func:`~streamdec.wrap` make one: ``source``, ``decoder`` and
    ``on_stop`` are theirs, ``reading`` has their other options.

    * The last chunk, and no other, has a ``finish_reason``. The source is closed before it, and no
      output is pulled after the one that finished the stream.
    * The source is closed exactly once, however the stream ends. Closing is shielded from
      cancellation, for 10 seconds after the reader was cancelled. There is one exception: a
      generator that holds a cancel scope across a ``yield`` is cancelled with its reader.
    * An error is raised after all text that was decided before it. The text can then be continued
      from ``snapshot()`` with another source, and ``pending_text`` is the withheld text.
    * A chunk has 256 tokens at most. After 256 tokens a stream checks for cancellation and lets
      other tasks run, even if the source never waits.

    One reader at a time: a second one gets ``anyio.BusyResourceError`` (or the RuntimeError of an
    asynchronous generator, if the first one was between two chunks).

    >>> import anyio
    >>> from streamdec import DecodeStream, MockTokenizer, wrap
    >>> async def main():
    ...     async with wrap([1, 2], DecodeStream(MockTokenizer())) as chunks:
    ...         return "".join([chunk.text async for chunk in chunks])
    >>> anyio.run(main)
    'Hello world'
    """

    def __init__(
        self,
        source: AsyncIterable[Any] | Iterable[Any],
        decoder: M,
        reading: SourceReading,
        on_stop: Callable[[], object] | None = None,
    ) -> None:
        self.decoder, self._reading = decoder, reading
        outputs: AsyncIterator[Any]
        if isinstance(source, AsyncIterable):
            outputs = aiter(source)
        else:
            outputs = Blocking(iterator_of(source, "an (async) iterable"))
        reading.begin(outputs, on_stop)
        self._closing = AsyncClosing(reading)
        if reading.last is not None:
            outputs = Blocking(iter(()))
        self._chunks: Any = _chunks(reading, outputs, self._closing)

    def __aiter__(self) -> AsyncIterator[Chunk]:
        # Return the generator itself: a call of __anext__ would take as long as the generator.
        self._check_idle()
        chunks: AsyncIterator[Chunk] = self._chunks
        return chunks

    async def __anext__(self) -> Chunk:
        return await anext(aiter(self))

    def _check_idle(self) -> None:
        if self._chunks.ag_running:
            raise anyio.BusyResourceError("reading from")

    async def aclose(self) -> None:
        """Close the source, if it is still open. There are no more chunks afterwards.

        ``on_stop`` is called first, unless the engine has ended by itself. Raises the error of
        closing the source, if it was not yet raised; ``anyio.BusyResourceError`` while another task
        waits for a chunk: cancel that task instead.
        """
        await self.__aexit__(None, None, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._check_idle()
        self._closing.bound(error or sys.exc_info()[1])  # of an ``aclose`` in a ``finally``
        await self._chunks.aclose()
        await self._closing.aclose()
        if error is None:
            self._reading.raise_errors()
        self._reading.note_on(error)


# --- the functions that make one ------------------------------------------------------------------


def stream(  # noqa: D417 (the rest is said together)
    source: AsyncIterable[Any] | Iterable[Any],
    tokenizer: Decoder,
    *,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = (),
    on_stop: Callable[[], object] | None = None,
    ids: Callable[[Any], Any] | None = None,
    cumulative: bool = False,
    index: int | None = None,
    chunk_by: ChunkBy = "output",
    return_token_ids: bool = False,
    finish_reason: FinishReason = "length",
    **options: Unpack[DecoderOptions],
) -> TextStream[StopSequenceDecoder]:
    r"""Return the text of ``source`` in chunks, until a stop.

    Args:
        source: an (async) iterable of outputs, as for :func:`~streamdec.wrap`.
        tokenizer: the tokenizer that :func:`~streamdec.load_tokenizer` returns, or any that
            DecodeStream accepts.
        conditions: when the text ends; by default with the source. Or give parts as ``options``.
        prompt_token_ids: the ids of the prompt, as context. They are never output.
        options: all other arguments of StopSequenceDecoder: ``stop="User:"``, ``max_tokens=100``,
            ``eos_token_ids``, ``sections``, ``skip_special_tokens`` and so on.

    As for ``wrap`` are ``on_stop``, ``ids``, ``cumulative``, ``index``, ``chunk_by``,
    ``return_token_ids`` and ``finish_reason``.

    Returns:
        The chunks. Each has the ``text`` that is newly decided; the last has a ``finish_reason``.

    Raises the errors of StopSequenceDecoder and of :func:`~streamdec.wrap`; TypeError if
    ``tokenizer`` is a decoder.

    >>> import anyio
    >>> from streamdec import MockTokenizer, stream
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"\nUs", b"er:"])
    >>> async def engine():
    ...     for token_id in [0, 1, 2, 3, 0]:
    ...         yield token_id
    >>> async def main():
    ...     async with stream(engine(), tokenizer, stop="\nUser:") as chunks:
    ...         return [(chunk.text, chunk.finish_reason) async for chunk in chunks]
    >>> anyio.run(main)
    [('Hi', None), ('!', None), ('', 'stop')]
    """
    try:
        if isinstance(decoder_behind(tokenizer), DECODERS):
            raise TypeError("stream() takes a tokenizer; with a decoder use wrap(source, decoder)")
        decoder = StopSequenceDecoder(tokenizer, conditions, prompt_token_ids, **options)
        reading = SourceReading(
            decoder, ids, cumulative, index, chunk_by, return_token_ids, finish_reason
        )
        return TextStream(source, decoder, reading, on_stop)
    except BaseException:
        _give_up(source)
        raise


def wrap(
    source: AsyncIterable[Any] | Iterable[Any],
    decoder: M,
    *,
    on_stop: Callable[[], object] | None = None,
    ids: Callable[[Any], Any] | None = None,
    cumulative: bool = False,
    index: int | None = None,
    chunk_by: ChunkBy = "output",
    return_token_ids: bool = False,
    finish_reason: FinishReason = "length",
) -> TextStream[M]:
    r"""Return a :class:`~streamdec.TextStream` that steps ``decoder`` with ``source``.

    Args:
        source: an (async) iterable of outputs. An output is an id, several ids (a list, an array, a
            tensor), or an engine's own object or dict. Such an object, or one of its ``outputs``,
            has ids in ``token_ids``, ``output_ids`` or ``token_ids_diff``, and may have a
            ``finish_reason`` (also in ``meta_info``) and a ``stop_reason``. Prefer an asynchronous
            source: a plain one blocks the event loop while it waits.
        decoder: a DecodeStream, a Sequence or a StopSequenceDecoder, new or already stepped. The
            bytes that a Sequence holds at the end are not output. Or a TextStopDecoder: then an
            output is a piece of text, None, or a Chunk, whose ``finish_reason`` ends the stream.
        on_stop: a function that aborts the engine's request. It is called before the source is
            closed, unless the engine has ended by itself, and awaited if it returns an awaitable.
            If the reader is cancelled while it waits for the source, the source is cancelled first.
        ids: a plain function that returns the ids of an output of another shape.
        cumulative: whether each output has all ids since the beginning instead of only the new ids.
        index: the number, from 0, of the sample to read if a request has several (``n > 1``). None:
            a source with several samples raises SourceError.
        chunk_by: ``"output"``: one chunk for each output after which there is new text.
            ``"token"``: one chunk for each token, with or without text.
        return_token_ids: whether chunks have ``token_ids``.
        finish_reason: the finish reason if the source ends without one.

    Raises TypeError and ValueError for wrong arguments, and RuntimeError if another stream or pool
    steps the decoder. Reading raises SourceError for an output that cannot be read, and all errors
    of the source and the decoder. Hooks are not called for streams on a TextStopDecoder.

    >>> import anyio
    >>> from streamdec import DecodeStream, MockTokenizer, wrap
    >>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
    >>> async def main():
    ...     async with wrap([0, 1, 2], DecodeStream(tokenizer)) as stream:
    ...         return [chunk.text async for chunk in stream]
    >>> anyio.run(main)
    ['caf', 'é', '']
    """
    try:
        reading = SourceReading(
            decoder, ids, cumulative, index, chunk_by, return_token_ids, finish_reason
        )
        return TextStream(source, decoder, reading, on_stop)
    except BaseException:
        _give_up(source)
        raise


def _give_up(source: object) -> None:
    """Close a TokenQueue that no stream will read, so that its producer ends."""
    if isinstance(source, TokenQueue):
        source.close()


# --- the source -----------------------------------------------------------------------------------

SLOW_NEXT = 0.005
"""Seconds: a plain source that takes longer for an output is one that computes."""


class Blocking:
    """A plain iterator as an asynchronous one; each ``next`` blocks the event loop.

    After a slow ``next``, of an engine that computes in it, other tasks can run.
    """

    def __init__(self, iterator: Iterator[Any]) -> None:
        self._iterator = iterator
        self._was_slow = False
        self.close: Any = getattr(iterator, "close", None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        if self._was_slow:  # before the next output is pulled: a cancellation loses none
            await checkpoint()
        started = monotonic()
        try:
            output = next(self._iterator)
        except StopIteration:
            raise StopAsyncIteration from None
        except StopAsyncIteration as error:  # would look like the end of the source
            raise RuntimeError(f"the source raised {error!r:.80}") from error
        self._was_slow = monotonic() - started > SLOW_NEXT
        return output


# --- its loop -------------------------------------------------------------------------------------


async def _chunks(
    reading: SourceReading, source: AsyncIterator[Any], closing: AsyncClosing
) -> AsyncIterator[Chunk]:
    """Yield the chunks of a TextStream.

    The generator has no reference to the TextStream, so that there is no cycle. A TextIterator has
    the same loop again, because a call for each output would take as long as the rest of the loop.
    """
    id_type, outputs, most = reading.id_type, reading.outputs, reading.most
    step, feed, splits = reading.step, reading.feed, reading.splits
    shows_all = reading.shows_all
    left = MAX_TOKENS_AT_ONCE
    is_first = True
    async with closing:
        async for output in source:
            if is_first:
                is_first = closing.note_scope()
            kind = type(output)
            if kind is id_type:
                chunk, size = step(output), 1
            else:
                reason = stop = None
                if kind is outputs.list_type:
                    ids, size = output, len(output)
                elif kind is outputs.shape_type and (ids := outputs.shape(output)) is not None:
                    size = len(ids)
                    outputs.num_seen += size
                else:
                    ids, reason, stop = outputs.parts(output)
                    size = len(ids)
                if reason is not None or not 0 < size <= most:
                    for chunk in reading.read(ids, reason, stop):
                        if chunk.text or shows_all:
                            yield chunk
                        left -= min(size, most)
                        if left <= 0:
                            await checkpoint()
                            left = MAX_TOKENS_AT_ONCE
                    if reading.last is not None:
                        break
                    left -= 1  # an output without ids
                    if left <= 0:
                        await checkpoint()
                        left = MAX_TOKENS_AT_ONCE
                    continue
                try:
                    chunk = step(ids[0]) if size == 1 else feed(ids)
                except Exception as error:  # noqa: BLE001 (it is raised after its chunk was output)
                    reading.fail(error)
                    break
            if chunk.finish_reason is not None:
                reading.finish(chunk)
                break
            if splits:
                reading.unread = chunk.split()
                for part in reading.take():
                    if part.text or shows_all:
                        yield part
            elif chunk.text or shows_all:
                yield chunk
            left -= size
            if left <= 0:
                await checkpoint()
                left = MAX_TOKENS_AT_ONCE
        else:
            reading.end_with_source()
    for last in reading.take():
        yield last
    reading.raise_errors(reading.error)
