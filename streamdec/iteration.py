"""Text from an engine that is called: ``for chunk in iter_chunks(...)``.

What :mod:`streamdec.aio` does for asynchronous engines, for plain ones, and without an event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, SupportsIndex, Unpack

from streamdec.chunks import Chunk
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.flow import (
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

__all__ = ["TextIterator", "iter_chunks"]


class TextIterator(BaseStream[M]):
    """The chunks of one plain source: an iterator, and a context manager that closes the source.

    :func:`~streamdec.iter_chunks` makes one with a StopSequenceDecoder; any of the three machines
    will do. What ``source``, ``machine``, ``on_stop`` (a plain function here) and ``options`` are,
    and what is raised, is as for :func:`~streamdec.wrap`.

    The last chunk, and no other, has a ``finish_reason``. The source is closed once: before the
    last chunk is given out, when a step or the source raises, on ``close`` and on leaving the
    block. What raises comes after all text that was certain before it; ``snapshot()`` goes on from
    there with another source, ``pending_text`` is what was withheld.

    A reader that breaks off outside of a ``with`` block leaves the source open until it is
    collected.

    >>> from streamdec import DecodeStream, MockTokenizer, TextIterator
    >>> with TextIterator([1, 2, 3], DecodeStream(MockTokenizer())) as chunks:
    ...     next(chunks).text, next(chunks).text
    ('Hello', ' world')
    >>> [*chunks]
    []
    """

    def __init__(
        self,
        source: Iterable[Any],
        machine: M,
        *,
        on_stop: Callable[[], object] | None = None,
        **options: Unpack[FlowOptions],
    ) -> None:
        super().__init__(machine, **options)
        if inspect.iscoroutinefunction(on_stop):
            raise TypeError(f"on_stop must be a plain function here, not {on_stop!r:.80}")
        pulled = _iterator_of(source)
        self._closing = _Closing(self._flow, getattr(pulled, "close", None), on_stop)
        if self._flow.is_over:
            pulled = iter(())
        self._chunks = _chunks(self._flow, pulled, self._closing)

    # --- reading

    def __iter__(self) -> Iterator[Chunk]:
        return self._chunks

    def __next__(self) -> Chunk:
        return next(self._chunks)

    # --- the end

    def close(self) -> None:
        """Closes the source, if it is not closed already; afterwards there are no chunks.

        Raises what closing it raised, if that was not yet raised.
        """
        self._close()
        self._closing.complain()

    def _close(self) -> None:
        self._chunks.close()
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        if error is None:
            self._closing.complain()
        else:
            self._closing.note_on(error)


def _chunks(flow: Flow, source: Iterator[Any], closing: _Closing) -> Generator[Chunk, None, None]:
    with closing:
        for output in source:
            for chunk in flow.read(output):
                if chunk.text or flow.shows_silent():
                    yield chunk
            if flow.is_over:
                break
        else:
            flow.end()
    yield from flow.ending(closing)


class _Closing(Closing):
    """Closes a plain source."""

    def close(self, cause: BaseException | None = None) -> None:
        """Stops the engine, unless it has ended by itself; then closes its iterator. Once."""
        broken_off: BaseException | None = None
        for action in self.due(cause):
            try:
                _check_done(action())
            except Exception as error:  # noqa: BLE001 (see Closing)
                self.failed(error)
            except BaseException as error:  # noqa: BLE001 (a user's Ctrl-C)
                broken_off = error
        if broken_off is not None:
            raise broken_off

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.close(error)
        self.note_on(error)


def _check_done(result: object) -> None:
    """TypeError for what would have to be awaited."""
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(f"what closes a plain source must be plain, and gave {result!r:.80}")


def _iterator_of(source: Any) -> Iterator[Any]:
    if not is_plain(source) or inspect.isawaitable(source):
        raise TypeError(f"a source is an iterable of outputs, not {source!r:.80}{_hint(source)}")
    iterator = iter(source)
    return iterator if hasattr(iterator, "__iter__") else _Bare(iterator)


def _hint(source: object) -> str:
    """What to do with what is nearly a source."""
    if hasattr(source, "__aiter__"):
        return ": stream() reads what is asynchronous"
    return ": call it, and give what it returns" if callable(source) else ""


class _Bare:
    """An iterator that has no ``__iter__``: ``for`` asks for none after the first."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        self.close = getattr(iterator, "close", None)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._iterator)


def iter_chunks(
    source: Iterable[Any],
    tokenizer: Decoder | None = None,
    *,
    conditions: StopConditions | None = None,
    prompt_token_ids: Iterable[SupportsIndex] = NO_PROMPT,
    decoder: StopSequenceDecoder | Machine | None = None,
    on_stop: Callable[[], object] | None = None,
    **options: Unpack[StreamOptions],
) -> TextIterator[StopSequenceDecoder]:
    r"""The text of a plain ``source``, as it comes, until something says stop.

    What :func:`~streamdec.stream` does, without an event loop.

    Args:
        source: a plain iterable of outputs: ids, lists, arrays or tensors of ids, or an engine's
            own objects or dicts (:class:`~streamdec.sources.Reader` says which).
        tokenizer: what decodes, as for DecodeStream: what :func:`~streamdec.load_tokenizer` gives.
        conditions: when the text ends; or give its parts as options: ``stop="User:"``. Without
            either it ends where the source does.
        prompt_token_ids: ids that came before; never given out.
        decoder: a StopSequenceDecoder that is ready, or restored from a snapshot, instead of all
            these.
        on_stop: a plain function, called before the source is closed, unless the engine has ended
            by itself: to abort its request.
        options: ``stop``, ``stop_token_ids``, ``eos_token_ids``, ``max_tokens``, ``min_tokens`` and
            all else that StopConditions has; ``skip_special_tokens``, ``byte_fallback``,
            ``unknown_ids``, ``clean_up_tokenization_spaces`` of DecodeStream; ``ids``,
            ``cumulative``, ``index``, ``chunk_by``, ``return_token_ids``, ``finish_reason`` of
            :class:`~streamdec.flow.FlowOptions`.

    Returns:
        The chunks. Each has the ``text`` that is certain now; the last one, and no other, has a
        ``finish_reason``, and comes once the source is closed.

    Raises what :func:`~streamdec.stream` raises; SourceError, and what the source and the decoder
    raise, while it is read.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> tokenizer = MockTokenizer.from_tokens([b"Hi", b"!", b"\nUs", b"er:"])
    >>> engine = iter([[0, 1], [2], [3, 0]])
    >>> for chunk in iter_chunks(engine, tokenizer, stop="\nUser:"):
    ...     print(chunk)
    Chunk(text='Hi!', finish_reason=None, stop_reason=None, unread_tokens=0)
    Chunk(text='', finish_reason='stop', stop_reason='\nUser:', unread_tokens=1)
    """
    flow_options, decoder_options = sorted_options("iter_chunks()", options)
    decoder = decoder_of(
        "iter_chunks()", tokenizer, conditions, prompt_token_ids, decoder, decoder_options
    )
    return TextIterator(source, decoder, on_stop=on_stop, **flow_options)
