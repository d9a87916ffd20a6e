"""Turn the outputs of a source into chunks, for plain and asynchronous streams."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, SupportsIndex, TypeVar, get_args

from streamdec.chunks import Chunk, FinishReason, StopMatch, StopReason, check_finish_reason
from streamdec.core.stepping import decoder_behind
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.text_stop_decoder import TextStopDecoder
from streamdec.errors import TokenIdError, warn
from streamdec.mistakes import check_flag
from streamdec.streams.outputs import ADVICE, OutputReader, ending
from streamdec.streams.pieces import PieceReader
from streamdec.streams.stepper import Machine, Stepper, check_machine, take_chunk

MAX_TOKENS_AT_ONCE = 256
"""The most tokens of a chunk. After this many tokens a stream checks for cancellation."""

ChunkBy = Literal["output", "token"]
M = TypeVar("M", bound=Machine | TextStopDecoder)


class Reading:
    """Turns the outputs of one source into chunks.

    No id is stepped before its chunk is requested. So the state of the machine is always the state
    after the chunks that were output. The last chunk is kept in ``last`` until the source is
    closed.
    """

    outputs: OutputReader | PieceReader
    """Reads the ids of outputs."""
    id_type: Any
    """The type of single ids, which may go to ``step``; None if ``read`` must read all."""
    step: Callable[[SupportsIndex], Chunk]
    """Returns the chunk of an output whose type is ``id_type``."""
    feed: Callable[[Sequence[SupportsIndex]], Chunk]
    """Returns the chunk of a list of 1 to ``most`` ids. If it raises an error, call ``fail``."""
    most: int
    """The most tokens of a chunk."""
    shows_all: bool
    """Whether chunks without text are output."""
    num_taken = 0
    """The number of tokens of the last chunk."""
    is_over = False
    """Whether the stream has finished or failed."""
    last: Chunk | None = None
    """The last chunk, from the end of the stream until the chunk is output."""
    finish_reason: FinishReason | None = None
    """Why the stream ended; None while it runs, and if it failed."""
    stop_reason: StopReason = None
    """The stop that ended the stream."""
    engine_finish_reason: str | None = None
    """The engine's own finish reason."""
    source_ended = False
    """Whether the engine has ended, so that it need not be stopped."""
    _error: Exception | None = None
    """The error of a step."""

    def __init__(
        self,
        machine: Machine | TextStopDecoder,
        ids: Callable[[Any], Any] | None,
        cumulative: bool,
        index: int | None,
        chunk_by: ChunkBy,
        return_token_ids: bool,
        finish_reason: FinishReason,
    ) -> None:
        if chunk_by not in get_args(ChunkBy):
            known = " or ".join(map(repr, get_args(ChunkBy)))
            raise ValueError(f"chunk_by must be {known}, not {chunk_by!r:.40}")
        if finish_reason != "length":
            check_finish_reason(finish_reason)
        for name, flag in (("cumulative", cumulative), ("return_token_ids", return_token_ids)):
            if flag is not False:
                check_flag(name, flag)
        if ids is not None and (inspect.iscoroutinefunction(ids) or not callable(ids)):
            raise TypeError(f"ids must be a plain function of an output, not {ids!r:.80}")
        if index is not None and (type(index) is not int or index < 0):
            kind = ValueError if type(index) is int else TypeError
            raise kind(f"index must be an integer of at least 0, not {index!r:.40}")
        if isinstance(machine, TextStopDecoder):
            about_ids = ("ids", ids), ("cumulative", cumulative), ("index", index)
            for name, value in (*about_ids, ("return_token_ids", return_token_ids)):
                if value is not None and value is not False:
                    told = "is for token ids, but a TextStopDecoder reads text; remove it"
                    raise ValueError(f"{name} {told}")
            self.outputs, self.id_type = PieceReader(), str
        else:
            if not isinstance(machine, StopSequenceDecoder):
                check_machine(machine)
            self.outputs = OutputReader(ids=ids, cumulative=cumulative, index=index)
            self.id_type = int if ids is None and not cumulative else None
        self.machine = machine
        self.stepper = Stepper(machine, return_token_ids=return_token_ids)
        self.step, self.feed = self.stepper.step, self.stepper.feed
        self.shows_all = chunk_by == "token"
        self.most = 1 if self.shows_all else MAX_TOKENS_AT_ONCE
        self._finish_reason = finish_reason
        if machine.finished:
            self._end(finish_reason)
            warn(
                "the decoder has already ended, so the source is not read, and the only chunk has "
                "no text; make a new decoder for each request, or call decoder.reset()"
            )

    # --- reading outputs

    def read(
        self, token_ids: Sequence[SupportsIndex], reason: str | None, stop_reason: StopReason
    ) -> Iterator[Chunk]:
        """Yield the chunks of one output, except the last chunk of the stream.

        The arguments are the fields of the output, as ``outputs.parts`` returns them. An error of
        a step is raised by ``ending``, after the last chunk.
        """
        if reason is not None:
            self.engine_finish_reason, self.source_ended = reason, True
        size = len(token_ids)
        for start in range(0, size, self.most):
            end = start + self.most
            chunk = self._chunk_of(token_ids[start:end], max(size - end, 0))
            if chunk is None:
                return
            yield chunk
        if reason is not None:
            self._end(ending(reason), stop_reason)

    def _chunk_of(self, token_ids: Sequence[SupportsIndex], num_left: int = 0) -> Chunk | None:
        """Return the chunk of ``token_ids``; None if the stream ends with it.

        ``num_left`` more ids of the output follow.
        """
        self.num_taken = len(token_ids)
        try:
            chunk = self.step(token_ids[0]) if len(token_ids) == 1 else self.feed(token_ids)
        except Exception as error:  # noqa: BLE001 (it is raised after its chunk was output)
            self.fail(error)
            return None
        if chunk.finish_reason is not None:
            self.finish(replace(chunk, unread_tokens=chunk.unread_tokens + num_left))
            return None
        return chunk

    # --- the end

    def end(self) -> None:
        """End the stream because the source has ended without a finish reason."""
        if not self.is_over:
            self.source_ended = True
            self.outputs.check_end()
            self._end(self._finish_reason)

    def finish(self, chunk: Chunk) -> None:
        """End the stream with ``chunk``, its last chunk."""
        self.is_over, self.last = True, chunk
        self.finish_reason, self.stop_reason = chunk.finish_reason, chunk.stop_reason

    def fail(self, error: Exception) -> None:
        """End the stream with ``error`` of a step, after the chunk of the ids before it."""
        is_other = isinstance(error, TokenIdError) and not isinstance(error.token_id, SupportsIndex)
        if is_other and isinstance(self.outputs, OutputReader):
            error.add_note(ADVICE)
        self._error = error
        self.finish(take_chunk(error))

    def _end(self, reason: FinishReason, stop_reason: StopReason = None) -> None:
        self.is_over = True
        chunk = self.stepper.end(reason)
        if chunk.finish_reason == "stop" and chunk.stop_reason is None:
            chunk = replace(chunk, stop_reason=stop_reason)
        self.finish(chunk)

    def leave(self) -> None:
        """Note that the stream can no longer be read: others may step the machine."""
        if self.stepper.statistics is not None:
            self.stepper.statistics.freeze()

    def report_end(self, error: BaseException | None) -> None:
        """Report the end to the hooks; ``error`` was raised by the source or the reader."""
        self.stepper.report_end(self.last, self._error or error)

    def ending(self) -> Iterator[Chunk]:
        """Yield the last chunk, and then raise the error of a step, if there was one.

        Call it after the source was closed.
        """
        last, self.last = self.last, None
        if last is not None and (last.text or self._error is None):
            yield last
        if self._error is not None:
            raise self._error

    # --- properties

    @property
    def pending_text(self) -> str:
        """The text that would still be output if no more ids came."""
        last = "" if self.last is None else self.last.text
        if isinstance(self.machine, TextStopDecoder):
            return last + self.machine.jailed
        return last + self.machine.pending_text

    @property
    def pending_token_ids(self) -> tuple[int, ...]:
        """The ids that do not belong to an output chunk."""
        last = () if self.last is None else self.last.token_ids
        attribution = self.stepper.attribution
        return last + (() if attribution is None else attribution.waiting)


# --- the stream -----------------------------------------------------------------------------------


class BaseStream(Generic[M]):
    """The base class of TextStream and TextIterator."""

    decoder: M
    """The decoder. While the stream runs, only the stream may step it."""
    _reading: Reading
    _is_entered = False

    def _note_entered(self) -> None:
        """Note that a ``with`` block begins. Raises RuntimeError if one began before."""
        if self._is_entered:
            raise RuntimeError("a stream can be entered only once; make a new stream")
        self._is_entered = True

    def snapshot(self) -> dict[str, Any]:
        """Return the decoder's state after the chunks that were output, as JSON types.

        To resume, start the engine with the prompt and the ids read so far. Then make a new stream
        with the decoder that ``restore`` returns for the snapshot. If the stream was interrupted
        after its decoder had ended, output ``pending_text`` first: it is the last chunk's text.
        """
        return self.decoder.snapshot()

    @property
    def pending_text(self) -> str:
        """The text that would be output if no more ids came. Reading it changes nothing.

        It is "" after the last chunk. Of a Sequence, which has no end, it is the U+FFFD of the held
        bytes.
        """
        return self._reading.pending_text

    @property
    def pending_token_ids(self) -> tuple[int, ...]:
        """The ids that were read and have no chunk yet; () without ``return_token_ids``.

        They are not part of a snapshot.
        """
        return self._reading.pending_token_ids

    @property
    def finish_reason(self) -> FinishReason | None:
        """The ``finish_reason`` of the last chunk; None before, and if the stream failed."""
        return self._reading.finish_reason

    @property
    def stop_reason(self) -> StopReason:
        """The ``stop_reason`` of the last chunk; None before, and without a stop."""
        return self._reading.stop_reason

    @property
    def match(self) -> StopMatch | None:
        """The stop that ended the text, and where it stands; None without one."""
        found: StopMatch | None = getattr(decoder_behind(self.decoder), "match", None)
        return found

    @property
    def engine_finish_reason(self) -> str | None:
        """The engine's own finish reason; None if it has not ended, or ended without one."""
        return self._reading.engine_finish_reason

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.decoder!r}>"
