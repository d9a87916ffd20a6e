"""The functions that most users call: ``stream``, ``wrap`` and ``iter_chunks``.

In: a source of outputs, and a tokenizer or a decoder. Out: the chunks, as an iterator.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Never, SupportsIndex, Unpack

from streamdec.core.conditions import StopConditions
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.protocols import Decoder
from streamdec.streams.options import (
    NO_PROMPT,
    ONLY_ASYNC,
    ReadingOptions,
    StreamOptions,
    check_reading_options,
    decoder_of,
    misplaced,
    sorted_options,
)
from streamdec.streams.reading import M
from streamdec.streams.stepper import Machine
from streamdec.streams.text_iterator import TextIterator
from streamdec.streams.text_stream import TextStream
from streamdec.streams.token_queue import TokenQueue

__all__ = ["iter_chunks", "stream", "wrap"]


def wrap(
    source: AsyncIterable[Any] | Iterable[Any],
    decoder: M,
    *,
    on_stop: Callable[[], object] | None = None,
    idle_timeout: float | None = None,
    **options: Unpack[ReadingOptions],
) -> TextStream[M]:
    r"""Return a :class:`~streamdec.TextStream` that steps ``decoder`` with ``source``.

    Args:
        source: an (async) iterable of outputs: ids, lists, arrays or tensors of ids, or an engine's
            own objects or dicts (:class:`~streamdec.streams.outputs.OutputReader` lists them).
            Prefer an asynchronous source: a plain one blocks the event loop while it waits.
        decoder: a DecodeStream, a Sequence or a StopSequenceDecoder, new or already stepped. (A
            Sequence can always grow, so the bytes that it holds at the end are not output.) Or a
            TextStopDecoder: then an output is a piece of text, None, or a Chunk, whose
            ``finish_reason`` ends the stream.
        on_stop: a function that aborts the engine's request. It is called before the source is
            closed, unless the engine has ended by itself, and awaited if it returns an awaitable.
            If the reader is cancelled while it waits for the source, the source is cancelled first.
        idle_timeout: how many seconds the source may take for one output, at most 10**9; None (the
            default) for no limit. With a limit the source runs in a separate task, which costs
            about 8 microseconds for each output.
        options: see :class:`~streamdec.streams.options.ReadingOptions`.

    Raises:
        TypeError: at once, for an argument with a wrong type or an option that does not exist.
        ValueError: at once, for an option with a wrong value, or ``idle_timeout`` with a plain
            source.
        RuntimeError: at once, if another stream or pool steps the decoder.
        IdleTimeoutError: while reading, after ``idle_timeout`` seconds; it has a snapshot.
        SourceError: while reading, for an output that cannot be read.

    Reading also raises all errors of the source and the decoder. Hooks are not called for streams
    on a TextStopDecoder, which have no tokens to count.

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
        check_reading_options("wrap()", "stream", options)
        return TextStream(source, decoder, on_stop=on_stop, idle_timeout=idle_timeout, **options)
    except BaseException:
        _give_up(source)
        raise


def stream(
    source: AsyncIterable[Any] | Iterable[Any],
    tokenizer: Decoder | None = None,
    *others: Never,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
    decoder: StopSequenceDecoder | Machine | None = None,
    on_stop: Callable[[], object] | None = None,
    idle_timeout: float | None = None,
    **options: Unpack[StreamOptions],
) -> TextStream[StopSequenceDecoder]:
    r"""Return the text of ``source`` in chunks, until a stop.

    Args:
        source: an (async) iterable of outputs: ids, lists, arrays or tensors of ids, or an engine's
            own objects or dicts; see :func:`~streamdec.wrap`.
        tokenizer: the tokenizer that :func:`~streamdec.load_tokenizer` returns, or any that
            DecodeStream accepts.
        others: not accepted. Pass all other arguments by name.
        conditions: when the text ends. Or pass its parts as options: ``stop="User:"``. Without
            either, the text ends with the source.
        prompt_token_ids: the ids of the prompt, as context. They are never output.
        decoder: a StopSequenceDecoder (new, or restored from a snapshot). Then ``tokenizer``,
            ``conditions``, ``prompt_token_ids`` and the options of decoders must not be given.
        on_stop: a function that aborts the engine's request. It is called before the source is
            closed, unless the engine has ended by itself, and awaited if it returns an awaitable.
            If the reader is cancelled while it waits for the source, the source is cancelled first.
        idle_timeout: how many seconds an asynchronous source may take for one output; see
            :func:`~streamdec.wrap`.
        options: ``stop``, ``stop_token_ids``, ``eos_token_ids``, ``max_tokens``, ``min_tokens`` and
            all other arguments of StopConditions; ``sections`` of
            StopSequenceDecoder; ``skip_special_tokens``, ``byte_fallback``, ``unknown_ids``,
            ``clean_up_tokenization_spaces`` and ``spans`` of DecodeStream; ``ids``, ``cumulative``,
            ``index``, ``chunk_by``, ``return_token_ids``, ``finish_reason`` of
            :class:`~streamdec.streams.options.ReadingOptions`.

    Returns:
        The chunks. Each has the ``text`` that is newly decided. The last chunk, and no other, has a
        ``finish_reason``. The source is closed before the last chunk is output. The chunks can be
        read once: a second loop yields nothing.

    Raises TypeError if both a decoder and its parts are given, or neither. Also raises the errors
    of :func:`~streamdec.wrap`, StopConditions and StopSequenceDecoder.

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
    try:
        if others:
            raise misplaced("stream", others[0])
        reading_options, decoder_options = sorted_options("stream()", options)
        decoder = decoder_of(
            "stream()", tokenizer, conditions, prompt_token_ids, decoder, decoder_options
        )
        return TextStream(
            source, decoder, on_stop=on_stop, idle_timeout=idle_timeout, **reading_options
        )
    except BaseException:
        _give_up(source)
        raise


def iter_chunks(
    source: Iterable[Any],
    tokenizer: Decoder | None = None,
    *others: Never,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
    decoder: StopSequenceDecoder | Machine | None = None,
    on_stop: Callable[[], object] | None = None,
    **options: Unpack[StreamOptions],
) -> TextIterator[StopSequenceDecoder]:
    r"""Return the text of a plain ``source`` in chunks, until a stop.

    It is :func:`~streamdec.stream` without an event loop.

    Args:
        source: a plain iterable of outputs: ids, lists, arrays or tensors of ids, or an engine's
            own objects or dicts (:class:`~streamdec.streams.outputs.OutputReader` lists them).
        tokenizer: the tokenizer that :func:`~streamdec.load_tokenizer` returns, or any that
            DecodeStream accepts.
        others: not accepted. Pass all other arguments by name.
        conditions: when the text ends. Or pass its parts as options: ``stop="User:"``. Without
            either, the text ends with the source.
        prompt_token_ids: the ids of the prompt, as context. They are never output.
        decoder: a StopSequenceDecoder (new, or restored from a snapshot) instead of the arguments
            above and the options of decoding.
        on_stop: a plain function that aborts the engine's request. It is called before the source
            is closed, unless the engine has ended by itself.
        options: ``stop``, ``stop_token_ids``, ``eos_token_ids``, ``max_tokens``, ``min_tokens`` and
            all other arguments of StopConditions; ``sections`` of
            StopSequenceDecoder; ``skip_special_tokens``, ``byte_fallback``, ``unknown_ids``,
            ``clean_up_tokenization_spaces`` and ``spans`` of DecodeStream; ``ids``, ``cumulative``,
            ``index``, ``chunk_by``, ``return_token_ids``, ``finish_reason`` of
            :class:`~streamdec.streams.options.ReadingOptions`.

    Returns:
        The chunks. Each has the ``text`` that is newly decided. The last chunk, and no other, has a
        ``finish_reason``. The source is closed before the last chunk is output. The chunks can be
        read once: a second loop yields nothing.

    Raises the errors that :func:`~streamdec.stream` raises. While it is read, it raises
    SourceError, and all errors of the source and the decoder.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"\nUs", b"er:"])
    >>> engine = iter([[0, 1], [2], [3, 0]])
    >>> for chunk in iter_chunks(engine, tokenizer, stop="\nUser:"):
    ...     print(chunk)
    Chunk(text='Hi!')
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:', unread_tokens=1)
    """
    if others:
        raise misplaced("iter_chunks", others[0])
    reading_options, decoder_options = sorted_options("iter_chunks()", options, ONLY_ASYNC)
    decoder = decoder_of(
        "iter_chunks()", tokenizer, conditions, prompt_token_ids, decoder, decoder_options
    )
    return TextIterator(source, decoder, on_stop=on_stop, **reading_options)


def _give_up(source: object) -> None:
    """Close a TokenQueue that no stream will read, so that its producer ends."""
    if isinstance(source, TokenQueue):
        source.close()
