"""The functions that most users call: ``stream``, ``wrap`` and ``iter_chunks``.

In: a source of outputs, and a tokenizer or a decoder. Out: the chunks, as an iterator.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Final, SupportsIndex, Unpack

from streamdec.chunks import FinishReason
from streamdec.core.conditions import StopConditions
from streamdec.core.stepping import DECODERS, decoder_behind
from streamdec.core.stop_sequence_decoder import DecoderOptions, StopSequenceDecoder
from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.protocols import Decoder
from streamdec.streams.reading import ChunkBy, M, Reading
from streamdec.streams.stepper import Machine
from streamdec.streams.text_iterator import TextIterator
from streamdec.streams.text_stream import TextStream
from streamdec.streams.token_queue import TokenQueue

__all__ = ["iter_chunks", "stream", "wrap"]

NO_PROMPT: Final[tuple[int, ...]] = ()


def stream(  # noqa: D417 (the rest is said together)
    source: AsyncIterable[Any] | Iterable[Any],
    tokenizer: Decoder,
    *,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
    on_stop: Callable[[], object] | None = None,
    idle_timeout: float | None = None,
    ids: Callable[[Any], Any] | None = None,
    cumulative: bool = False,
    index: int | None = None,
    chunk_by: ChunkBy = "output",
    return_token_ids: bool = False,
    finish_reason: FinishReason = "length",
    **options: Unpack[DecoderOptions],
) -> TextStream[StopSequenceDecoder]:
    r"""Return the text of ``source`` in chunks, until a stop.

    It makes a StopSequenceDecoder, and calls :func:`~streamdec.wrap`.

    Args:
        source: an (async) iterable of outputs: ids, lists, arrays or tensors of ids, or an engine's
            own objects or dicts; see :func:`~streamdec.wrap`.
        tokenizer: the tokenizer that :func:`~streamdec.load_tokenizer` returns, or any that
            DecodeStream accepts.
        conditions: when the text ends. Or give its parts as ``options``. Without either, the text
            ends with the source.
        prompt_token_ids: the ids of the prompt, as context. They are never output.
        options: all other arguments of StopSequenceDecoder: ``stop="User:"``, ``max_tokens=100``,
            ``eos_token_ids``, ``sections``, ``skip_special_tokens`` and so on.

    As for ``wrap`` are ``on_stop``, ``idle_timeout``, ``ids``, ``cumulative``, ``index``,
    ``chunk_by``, ``return_token_ids`` and ``finish_reason``.

    Returns:
        The chunks. Each has the ``text`` that is newly decided. The last chunk, and no other, has a
        ``finish_reason``. The source is closed before the last chunk is output. The chunks can be
        read once: a second loop yields nothing.

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
    ...         async for chunk in chunks:
    ...             print(repr(chunk.text), chunk.finish_reason)
    >>> anyio.run(main)
    'Hi' None
    '!' None
    '' stop
    """
    try:
        if isinstance(decoder_behind(tokenizer), DECODERS):
            raise TypeError(
                "stream() takes a tokenizer; with a decoder write wrap(source, decoder)"
            )
        decoder = StopSequenceDecoder(tokenizer, conditions, prompt_token_ids, **options)
    except BaseException:
        _give_up(source)
        raise
    return wrap(
        source,
        decoder,
        on_stop=on_stop,
        idle_timeout=idle_timeout,
        ids=ids,
        cumulative=cumulative,
        index=index,
        chunk_by=chunk_by,
        return_token_ids=return_token_ids,
        finish_reason=finish_reason,
    )


def wrap(
    source: AsyncIterable[Any] | Iterable[Any],
    decoder: M,
    *,
    on_stop: Callable[[], object] | None = None,
    idle_timeout: float | None = None,
    ids: Callable[[Any], Any] | None = None,
    cumulative: bool = False,
    index: int | None = None,
    chunk_by: ChunkBy = "output",
    return_token_ids: bool = False,
    finish_reason: FinishReason = "length",
) -> TextStream[M]:
    r"""Return a :class:`~streamdec.TextStream` that steps ``decoder`` with ``source``.

    Args:
        source: an (async) iterable of outputs: ids, lists, arrays or tensors of ids, or an engine's
            own objects or dicts (:class:`~streamdec.streams.OutputReader` lists them). Prefer an
            asynchronous source: a plain one blocks the event loop while it waits.
        decoder: a DecodeStream, a Sequence or a StopSequenceDecoder, new or already stepped. (A
            Sequence can always grow, so the bytes that it holds at the end are not output.) Or a
            TextStopDecoder: then an output is a piece of text, None, or a Chunk, whose
            ``finish_reason`` ends the stream.
        on_stop: a function that aborts the engine's request. It is called before the source is
            closed, unless the engine has ended by itself, and awaited if it returns an awaitable.
            If the reader is cancelled while it waits for the source, the source is cancelled first.
        idle_timeout: how many seconds the source may take for one output, at most 10**9; None for
            no limit. With a limit the source runs in a separate task, which costs about 8
            microseconds for each output.
        ids: a plain function that returns the ids of an output of another shape.
        cumulative: whether each output has all ids since the beginning instead of only the new ids.
        index: the number, from 0, of the sample to read if a request has several (``n > 1``). None:
            a source with several samples raises SourceError.
        chunk_by: ``"output"``: one chunk for each output after which there is new text.
            ``"token"``: one chunk for each token, with or without text.
        return_token_ids: whether chunks have ``token_ids``.
        finish_reason: the finish reason if the source ends without one.

    Raises:
        TypeError: at once, for an argument with a wrong type.
        ValueError: at once, for an argument with a wrong value, or ``idle_timeout`` with a plain
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
        reading = Reading(
            decoder,
            ids=ids,
            cumulative=cumulative,
            index=index,
            chunk_by=chunk_by,
            return_token_ids=return_token_ids,
            finish_reason=finish_reason,
        )
        return TextStream(source, decoder, reading, on_stop, idle_timeout)
    except BaseException:
        _give_up(source)
        raise


def iter_chunks(  # noqa: D417
    source: Iterable[Any],
    tokenizer_or_decoder: Decoder | Machine | TextStopDecoder,
    *,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
    on_stop: Callable[[], object] | None = None,
    ids: Callable[[Any], Any] | None = None,
    cumulative: bool = False,
    index: int | None = None,
    chunk_by: ChunkBy = "output",
    return_token_ids: bool = False,
    finish_reason: FinishReason = "length",
    **options: Unpack[DecoderOptions],
) -> TextIterator[Any]:
    r"""Return the text of a plain ``source`` in chunks, until a stop.

    It is :func:`~streamdec.stream`, or with a decoder :func:`~streamdec.wrap`, without an event
    loop.

    Args:
        source: a plain iterable of outputs, as for ``wrap``.
        tokenizer_or_decoder: a tokenizer, of which a StopSequenceDecoder is made; or a decoder,
            with which no arguments of decoders must be given.
        on_stop: as for ``wrap``, but a plain function.

    As for ``stream`` are ``conditions``, ``prompt_token_ids`` and ``options``; as for ``wrap`` are
    ``ids``, ``cumulative``, ``index``, ``chunk_by``, ``return_token_ids`` and ``finish_reason``.

    Returns:
        The chunks, as an iterator and a context manager; see :func:`~streamdec.stream`.

    Raises the errors that ``stream`` raises. While it is read, it raises SourceError, and all
    errors of the source and the decoder.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"\nUs", b"er:"])
    >>> engine = iter([[0, 1], [2], [3, 0]])
    >>> for chunk in iter_chunks(engine, tokenizer, stop="\nUser:"):
    ...     print(chunk)
    Chunk(text='Hi!')
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:', unread_tokens=1)
    """
    decoder: Any = tokenizer_or_decoder
    if not isinstance(decoder_behind(decoder), DECODERS):
        decoder = StopSequenceDecoder(decoder, conditions, prompt_token_ids, **options)
    else:
        given = [*options]
        given += ["conditions"] if conditions is not None else []
        given += ["prompt_token_ids"] if prompt_token_ids is not NO_PROMPT else []
        if given:
            raise TypeError(f"got a decoder, which has its own {', '.join(given)}")
    reading = Reading(
        decoder,
        ids=ids,
        cumulative=cumulative,
        index=index,
        chunk_by=chunk_by,
        return_token_ids=return_token_ids,
        finish_reason=finish_reason,
    )
    return TextIterator(source, decoder, reading, on_stop)


def _give_up(source: object) -> None:
    """Close a TokenQueue that no stream will read, so that its producer ends."""
    if isinstance(source, TokenQueue):
        source.close()
