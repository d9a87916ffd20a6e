"""Text from a plain iterator of outputs: ``for chunk in iter_chunks(...)``.

It is :mod:`streamdec.streams.text_stream` without an event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final, Self, SupportsIndex, Unpack

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.conditions import StopConditions
from streamdec.core.stepping import DECODERS, decoder_behind
from streamdec.core.stop_sequence_decoder import DecoderOptions, StopSequenceDecoder
from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.core.token_ids import check_dimensions
from streamdec.mistakes import hint
from streamdec.protocols import Decoder
from streamdec.streams.outputs import is_plain
from streamdec.streams.reading import BaseStream, ChunkBy, M, Machine, SourceReading

__all__ = ["TextIterator", "iter_chunks"]

NO_PROMPT: Final[tuple[int, ...]] = ()


class TextIterator(BaseStream[M]):
    """The chunks of one plain source, as an iterator and a context manager.

    :func:`~streamdec.iter_chunks` makes one: ``source``, ``decoder`` and ``on_stop`` are its
    arguments, ``reading`` has its other options. It keeps the promises of a
    :class:`~streamdec.TextStream`. A loop that is left early, without a ``with`` block, leaves the
    source open until the iterator is garbage collected.
    """

    def __init__(
        self,
        source: Iterable[Any],
        decoder: M,
        reading: SourceReading,
        on_stop: Callable[[], object] | None = None,
    ) -> None:
        self.decoder: M = decoder
        self._reading = reading
        if on_stop is not None and inspect.iscoroutinefunction(on_stop):
            raise TypeError(f"on_stop must be a plain function here, not {on_stop!r:.80}")
        outputs = iterator_of(source)
        reading.begin(outputs, on_stop)
        self._chunks = _chunks(reading, outputs if reading.last is None else iter(()))

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def close(self) -> None:
        """Close the source, if it is still open. There are no more chunks afterwards.

        Raises the error of closing the source, if it was not yet raised.
        """
        self.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._chunks.close()
        self._reading.close()
        if error is None:
            self._reading.raise_errors()
        self._reading.note_on(error)


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

    It is :func:`~streamdec.stream` or :func:`~streamdec.wrap` without an event loop.

    Args:
        source: a plain iterable of outputs, as for ``wrap``.
        tokenizer_or_decoder: a tokenizer, of which a StopSequenceDecoder is made; or a decoder,
            with which no arguments of decoders must be given.
        on_stop: as for ``wrap``, but a plain function.

    As for ``stream`` are ``conditions``, ``prompt_token_ids`` and ``options``; as for ``wrap`` are
    ``ids``, ``cumulative``, ``index``, ``chunk_by``, ``return_token_ids`` and ``finish_reason``.

    Returns:
        The chunks, as an iterator and a context manager.

    Raises the errors that ``stream`` and ``wrap`` raise.

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
    reading = SourceReading(
        decoder, ids, cumulative, index, chunk_by, return_token_ids, finish_reason
    )
    return TextIterator(source, decoder, reading, on_stop)


# --- the source -----------------------------------------------------------------------------------


def iterator_of(source: Any, expected: str = "an iterable") -> Iterator[Any]:
    """Return the iterator of a plain ``source``; TypeError if it is not ``expected``."""
    if type(source) is list or hasattr(source, "__next__"):
        return iter(source)
    if not is_plain(source) or inspect.isawaitable(source):  # one can iterate over a Future too
        if inspect.iscoroutine(source):
            source.close()  # so that Python does not warn too
        message = f"source must be {expected} of outputs, not {source!r:.80}"
        raise TypeError(message + hint("source", source))
    check_dimensions(source)
    return iter(source)


# --- the loop -------------------------------------------------------------------------------------


def _chunks(reading: SourceReading, source: Iterator[Any]) -> Generator[Chunk, None, None]:
    id_type, outputs, most = reading.id_type, reading.outputs, reading.most
    step, feed, splits = reading.step, reading.feed, reading.splits
    shows_all = reading.shows_all
    try:
        for output in source:
            kind = type(output)
            if kind is id_type:
                chunk = step(output)
            else:
                reason = stop = None
                if kind is outputs.list_type:
                    ids = output
                elif kind is outputs.shape_type and (ids := outputs.shape(output)) is not None:
                    outputs.num_seen += len(ids)
                else:
                    ids, reason, stop = outputs.parts(output)
                size = len(ids)
                if reason is not None or not 0 < size <= most:
                    for chunk in reading.read(ids, reason, stop):
                        if chunk.text or shows_all:
                            yield chunk
                    if reading.last is not None:
                        break
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
        else:
            reading.end_with_source()
    except BaseException as error:
        reading.close(error)
        reading.note_on(error)
        raise
    reading.close()
    yield from reading.take()
    reading.raise_errors(reading.error)
