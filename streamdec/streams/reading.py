"""Turn the outputs of a source into chunks, and close it, for plain and asynchronous streams.

This is imported with ``iter_chunks``, so it imports no event loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, Protocol, SupportsIndex, TypeVar
from weakref import WeakValueDictionary

from streamdec import hooks
from streamdec.chunks import (
    NOTHING,
    Chunk,
    FinishReason,
    StopMatch,
    StopReason,
    check_finish_reason,
    chunk_before,
)
from streamdec.core.stepping import DECODERS, decoder_behind, end, has_sections, methods_of
from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.errors import TokenIdError, warn
from streamdec.mistakes import check_flag
from streamdec.streams.observers import Observer
from streamdec.streams.outputs import OutputReader, PieceReader, ending

MAX_TOKENS_AT_ONCE = 256
"""The most tokens of a chunk. After this many tokens a stream checks for cancellation."""

ChunkBy = Literal["output", "token"]


# --- the decoder of a stream or a request ---------------------------------------------------------


class Machine(Protocol):
    """A decoder that a stream can run on: a class of the core, or a tracer of one."""

    def snapshot(self) -> dict[str, Any]:
        """Return the state of the decoder, as a dict that JSON can represent."""

    @property
    def pending_text(self) -> str:
        """The text that would be output if no more ids came."""

    @property
    def finished(self) -> bool:
        """Whether the decoder has ended, so that it returns no more text."""


class Stepper:
    """Steps a decoder, which only one Stepper may own at a time.

    If two streams stepped the same decoder, each would get parts of another user's answer.
    """

    __slots__ = ("__weakref__", "behind", "decoder", "feed", "observer", "step", "waiting")

    step: Callable[[Any], Chunk]
    """Returns the chunk of one id or piece of text."""
    feed: Callable[[Sequence[SupportsIndex]], Chunk]
    """Returns the chunk of several ids. An error has the chunk of the ids before it."""

    def __init__(
        self, decoder: Any, *, return_token_ids: bool = False, waiting: Iterable[int] = ()
    ) -> None:
        self.decoder: Any = decoder
        self.behind: Any = decoder_behind(decoder)
        """The decoder that a tracer wraps; mostly ``decoder``."""
        if not isinstance(self.behind, DECODERS):
            raise TypeError(
                "decoder must be a DecodeStream, Sequence, StopSequenceDecoder or TextStopDecoder, "
                f"not {decoder!r:.80}; with a tokenizer use stream() or iter_chunks()"
            )
        self.observer: Observer | None = None
        self.waiting: Sequence[int] = ()
        """The ids that were read and do not belong to a chunk yet."""
        self.step, self.feed = methods_of(decoder)
        installed = hooks.installed
        if installed and (decoder.finished or isinstance(decoder, TextStopDecoder)):
            installed = ()
        if return_token_ids or installed:
            self.observer = Observer(decoder, waiting if return_token_ids else None, installed)
            self.step, self.feed = self.observer.step, self.observer.feed
            self.waiting = self.observer.waiting

    def end(self, finish_reason: FinishReason) -> Chunk:
        """End the decoder, and return what was withheld, with the reason."""
        return self.with_ids(end(self.decoder, finish_reason))

    def with_ids(self, chunk: Chunk) -> Chunk:
        """Return the newest ``chunk`` with its ids, if chunks have ids."""
        return chunk if self.observer is None else self.observer.with_ids(chunk)

    def own(self) -> None:
        """Own the decoder until ``disown``; RuntimeError if another owns it."""
        key = id(self.behind)
        if key in _owners:
            raise RuntimeError(
                f"another stream or pool still steps this decoder: {self.behind!r:.80}; make a "
                "decoder for each request, or close the other stream first (`await` its aclose(), "
                "or call its close())"
            )
        _owners[key] = self

    def disown(self) -> None:
        """Let others step the decoder, if this owns it."""
        key = id(self.behind)
        if _owners.get(key) is self:
            del _owners[key]


_owners: WeakValueDictionary[int, Stepper] = WeakValueDictionary()
"""What owns a decoder, by the ``id`` of the decoder."""


def take_chunk(error: Exception) -> Chunk:
    """Return ``chunk_before(error)`` to output it, and remove it from the error."""
    chunk = chunk_before(error)
    if getattr(error, "chunk", None) is not None:  # some errors cannot be changed
        error.chunk = None  # type: ignore[attr-defined]
    return chunk


# --- the outputs of a source, and its end ---------------------------------------------------------

Action = Callable[[], object]

M = TypeVar("M", bound=Machine | TextStopDecoder)


class SourceReading(Stepper):
    """Turns the outputs of one source into chunks, with the arguments of ``wrap``, and closes it.

    No id is stepped before its chunk is requested. So the state of the decoder is always the state
    after the chunks that were output.

    The source is closed once, after a call of ``on_stop``. An error of closing is raised after the
    last chunk, so that no text is lost. If another error is raised, the error of closing becomes a
    note on it.
    """

    outputs: OutputReader
    id_type: Any
    """The type of single ids, which may go to ``step``; None if ``read`` must read all."""
    most: int = MAX_TOKENS_AT_ONCE
    """The most tokens of a chunk."""
    shows_all: bool = False
    """Whether chunks without text are output."""
    last: Chunk | None = None
    """The last chunk, once the stream has finished or failed."""
    unread: Sequence[Chunk] = ()
    """The parts of the newest chunk, each of one section, that are not output yet."""
    engine_finish_reason: str | None = None
    """As the property of BaseStream."""
    source_ended: bool = False
    """Whether the engine has ended, so that it need not be stopped."""
    error: Exception | None = None
    """The error of a step, which is raised after the last chunk."""
    closing_errors: list[Exception]
    """The errors of closing that were not raised yet."""
    _is_closed = False

    def __init__(
        self,
        decoder: Machine | TextStopDecoder,
        ids: Callable[[Any], Any] | None,
        cumulative: bool,
        index: int | None,
        chunk_by: ChunkBy,
        return_token_ids: bool,
        finish_reason: FinishReason,
    ) -> None:
        if chunk_by not in ("output", "token"):
            raise ValueError(f"chunk_by must be 'output' or 'token', not {chunk_by!r:.40}")
        if finish_reason != "length":
            check_finish_reason(finish_reason)
        self._finish_reason = finish_reason  # if the source ends without one
        for name, flag in (("cumulative", cumulative), ("return_token_ids", return_token_ids)):
            if flag is not False:
                check_flag(name, flag)
        if ids is not None and (inspect.iscoroutinefunction(ids) or not callable(ids)):
            raise TypeError(f"ids must be a plain function of an output, not {ids!r:.80}")
        if index is not None and (type(index) is not int or index < 0):
            kind = ValueError if type(index) is int else TypeError
            raise kind(f"index must be an integer of at least 0, not {index!r:.40}")
        super().__init__(decoder, return_token_ids=return_token_ids)
        self.splits: bool = has_sections(decoder)
        """Whether a chunk may have several parts."""
        if isinstance(decoder, TextStopDecoder):
            if ids is not None or cumulative or index is not None or return_token_ids:
                message = "ids, cumulative, index and return_token_ids are for token ids"
                raise ValueError(f"{message}, but a TextStopDecoder reads text; remove them")
            self.outputs, self.id_type = PieceReader(), str
        else:
            self.outputs = OutputReader(ids, cumulative, index)
            self.id_type = int if ids is None and not cumulative else None
        if chunk_by == "token":
            self.shows_all, self.most = True, 1
        elif self.behind is not decoder and self.splits:
            self.most = 1  # so that a LogprobTracker knows the section of each token
        if decoder.finished:
            self._end(finish_reason)
            warn(
                "the decoder has already ended, so the source is not read, and the only chunk has "
                "no text; make a new decoder for each request, or call decoder.reset()"
            )

    def begin(self, iterator: Any, on_stop: Action | None) -> None:
        """Own the decoder. At the end ``iterator`` is closed, after a call of ``on_stop``."""
        if on_stop is not None and not callable(on_stop):
            raise TypeError(f"on_stop must be callable without arguments, not {on_stop!r:.80}")
        self._close, self._on_stop, self.closing_errors = closing_of(iterator), on_stop, []
        self.own()

    def read(
        self, token_ids: Sequence[SupportsIndex], reason: str | None, stop_reason: StopReason
    ) -> Iterator[Chunk]:
        """Yield the chunks of one output's ``parts``, except the stream's last."""
        if reason is not None:
            self.engine_finish_reason, self.source_ended = reason, True
        for start in range(0, len(token_ids), self.most):
            ids = token_ids[start : start + self.most]
            try:
                chunk = self.step(ids[0]) if len(ids) == 1 else self.feed(ids)
            except Exception as error:  # noqa: BLE001 (it is raised after its chunk was output)
                self.fail(error)
                return
            if chunk.finish_reason is not None:
                unread = chunk.unread_tokens + len(token_ids) - start - len(ids)
                self.finish(replace(chunk, unread_tokens=unread))
                return
            if self.splits:
                self.unread = chunk.split()
                yield from self.take()
            else:
                yield chunk
        if reason is not None:
            self._end(ending(reason), stop_reason)

    def end_with_source(self) -> None:
        """End the stream of a source that has ended without a finish reason."""
        if self.last is None:
            self.source_ended = True
            self.outputs.check_end()
            self._end(self._finish_reason)

    def finish(self, chunk: Chunk) -> None:
        """End the stream with ``chunk``, its last chunk."""
        self.last = chunk
        if chunk.text or self.error is None:
            self.unread = chunk.split()

    def fail(self, error: Exception) -> None:
        """End the stream with ``error`` of a step, after the chunk of the ids before it."""
        if isinstance(error, TokenIdError) and not isinstance(error.token_id, SupportsIndex):
            error.add_note(
                "If an output of the source has more than ids, pass ids= to the stream: a function "
                "that returns the ids of an output"
            )
        self.error = error
        self.finish(take_chunk(error))

    def _end(self, reason: FinishReason, stop_reason: StopReason = None) -> None:
        chunk = self.end(reason)
        if stop_reason is not None and chunk.finish_reason == "stop" and chunk.stop_reason is None:
            chunk = replace(chunk, stop_reason=stop_reason)
        self.finish(chunk)

    def take(self) -> Iterator[Chunk]:
        """Yield the parts in ``unread``, and remove each before it is output."""
        while self.unread:
            first, *self.unread = self.unread
            yield first

    # --- the end

    def due(self, cause: BaseException | None) -> list[Action]:
        """Return the actions that close the source; none at later calls."""
        if self._is_closed:
            return []
        self._is_closed, report = True, None
        self.disown()
        if self.observer is not None:
            report = partial(self.observer.report, self.last, self.error or cause)
        on_stop = None if self.source_ended else self._on_stop
        # The report is last, so that a hook cannot keep the source open.
        return [each for each in (on_stop, self._close, report) if each is not None]

    def close(self, cause: BaseException | None = None) -> None:
        """Call ``on_stop``, unless the engine ended by itself. Then close its iterator."""
        interrupt: BaseException | None = None
        for action in self.due(cause):
            try:
                _check_completed(action())
            except Exception as error:  # noqa: BLE001 (raised after the last chunk)
                self.closing_errors.append(error)
            except BaseException as error:  # noqa: BLE001 (Ctrl-C: raised after the other actions)
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def raise_errors(self, error: BaseException | None = None) -> None:
        """Raise ``error``, or else the first error of closing. The others become notes."""
        if error is None and self.closing_errors:
            error = self.closing_errors.pop(0)
        if error is not None:
            self.note_on(error)
            raise error

    def note_on(self, error: BaseException | None) -> None:
        """Add the errors of closing to ``error`` as notes.

        They are kept if no caller sees ``error``, as in a cancellation.
        """
        if isinstance(error, (Exception, KeyboardInterrupt, SystemExit)):
            for each in self.closing_errors:
                with suppress(Exception):  # some errors cannot be changed
                    error.add_note(f"Closing the source raised too: {each!r}")
            self.closing_errors.clear()


def closing_of(iterator: Any) -> Action | None:
    """Return the method that closes ``iterator``, if it has one."""
    return getattr(iterator, "aclose", None) or getattr(iterator, "close", None)


def _check_completed(result: object) -> None:
    """Raise TypeError for the result of an action that would have to be awaited."""
    if result is not None and inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            "on_stop and the source's close() must be plain functions here, but one of them "
            f"returned {result!r:.80}, which must be awaited; use stream() instead"
        )


# --- what users see -------------------------------------------------------------------------------


class BaseStream(Generic[M]):
    """The base class of TextStream and TextIterator."""

    decoder: M
    """The decoder. While the stream runs, only the stream may step it."""
    _reading: SourceReading

    def snapshot(self) -> dict[str, Any]:
        """Return the decoder's state after the chunks that were output, as JSON types.

        To resume, output ``unread_text``, and start the engine with the prompt and the ids read so
        far. Then make a new stream with the decoder that ``restore`` returns.
        """
        return self.decoder.snapshot()

    @property
    def unread_text(self) -> str:
        """The text that the decoder has output, and that is in no chunk that was read; mostly "".

        A stream that is interrupted has it while it closes, and between two sections of a chunk.
        """
        return "".join(chunk.text for chunk in self._reading.unread)

    @property
    def pending_text(self) -> str:
        """The text that would be output if no more ids came. Reading it changes nothing.

        It is "" after the last chunk; for a Sequence, the U+FFFD of the held bytes.
        """
        decoder = self.decoder
        rest = decoder.jailed if isinstance(decoder, TextStopDecoder) else decoder.pending_text
        return self.unread_text + rest

    @property
    def pending_token_ids(self) -> tuple[int, ...]:
        """The ids that were read and have no chunk yet; () without ``return_token_ids``.

        They are not part of a snapshot.
        """
        unread = [each for chunk in self._reading.unread for each in chunk.token_ids]
        return (*unread, *self._reading.waiting)

    @property
    def finish_reason(self) -> FinishReason | None:
        """The ``finish_reason`` of the last chunk; None before, and if the stream failed."""
        return (self._reading.last or NOTHING).finish_reason

    @property
    def stop_reason(self) -> StopReason:
        """The ``stop_reason`` of the last chunk; None before, and without a stop."""
        return (self._reading.last or NOTHING).stop_reason

    @property
    def match(self) -> StopMatch | None:
        """The stop that ended the text, and where it stands; None without one."""
        found: StopMatch | None = getattr(self._reading.behind, "match", None)
        return found

    @property
    def engine_finish_reason(self) -> str | None:
        """The engine's own finish reason; None if it has not ended, or ended without one."""
        return self._reading.engine_finish_reason

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.decoder!r}>"
