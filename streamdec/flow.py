"""From the outputs of a source to chunks: all that a stream does except wait.

The streams (:mod:`streamdec.aio`, :mod:`streamdec.iteration`) pull and close; this is what they
pull through. In: outputs. Out: chunks, of which the last says that it is the last.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import (
    Any,
    Generic,
    Literal,
    SupportsIndex,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
)

from streamdec import hooks
from streamdec.chunks import NOTHING, Chunk, FinishReason, StopReason
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions, StopLimits
from streamdec.core.table import UnknownIds
from streamdec.core.token_rules.byte_fallback import ByteFallbackMode
from streamdec.machines import Covering, Machine, TokenChunk, check_machine
from streamdec.protocols import Decoder
from streamdec.sources import Reader, ending
from streamdec.watch import Watch

__all__ = [
    "MAX_TOKENS_AT_ONCE",
    "NO_PROMPT",
    "BaseStream",
    "Closing",
    "DecoderOptions",
    "DecodingOptions",
    "Flow",
    "FlowOptions",
    "M",
    "StreamOptions",
    "decoder_of",
    "sorted_options",
]

MAX_TOKENS_AT_ONCE = 256
"""Tokens that one chunk covers at most, and after which a stream looks whether it was cancelled."""

NO_PROMPT: tuple[int, ...] = ()

ChunkBy = Literal["output", "token"]
M = TypeVar("M", bound=Machine)


class FlowOptions(TypedDict, total=False):
    """How the outputs of a source become chunks: keyword arguments of all streams.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.flow import FlowOptions
    >>> options: FlowOptions = {"ids": lambda output: output["new"], "chunk_by": "token"}
    >>> [chunk.text for chunk in iter_chunks([{"new": [1, 2]}], MockTokenizer(), **options)]
    ['Hello', ' world', '']
    """

    ids: Callable[[Any], Any]
    """A plain function: called with each output, gives its ids, where they are not found."""
    cumulative: bool
    """Whether each output has all ids since the beginning, and not only the new ones."""
    index: int | None
    """Which sample of a request is read, where there are several."""
    chunk_by: ChunkBy
    """``"output"`` (the default): one chunk for each output that brings out text. ``"token"``: one
    for each token, text or not, for those who need an even cadence."""
    return_token_ids: bool
    """Give TokenChunks, which have the ids that they cover."""
    finish_reason: FinishReason
    """Why the stream ended, where a source just ends and gives no reason; else ``"length"``."""


class DecodingOptions(TypedDict, total=False):
    """How ids become text: keyword arguments of all machines, each as for DecodeStream.

    >>> from streamdec import DecodeStream, MockTokenizer
    >>> from streamdec.flow import DecodingOptions
    >>> options: DecodingOptions = {"skip_special_tokens": False, "unknown_ids": "replace"}
    >>> DecodeStream(MockTokenizer(), **options).step_batch([1, 99])
    ['Hello', '\ufffd']
    """

    skip_special_tokens: bool
    byte_fallback: ByteFallbackMode
    unknown_ids: UnknownIds
    clean_up_tokenization_spaces: bool


class DecoderOptions(DecodingOptions, total=False):
    """What a stream's decoder is made of: how ids become text, and all of StopConditions.

    Each is as for StopConditions, or as for DecodeStream.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.flow import DecoderOptions
    >>> options: DecoderOptions = {"stop": "test", "unknown_ids": "error"}
    >>> [chunk.text for chunk in iter_chunks([1, 2, 3], MockTokenizer(), **options)]
    ['Hello', ' world', ' ']
    """

    stop: str | Iterable[str]
    stop_token_ids: SupportsIndex | Iterable[SupportsIndex]
    visible_stop: str | Iterable[str]
    visible_stop_token_ids: SupportsIndex | Iterable[SupportsIndex]
    include_stop_str_in_output: bool
    min_tokens: int
    max_tokens: int | None
    ignore_eos: bool
    eos_token_ids: SupportsIndex | Iterable[SupportsIndex]
    stop_token_sequences: Iterable[Iterable[SupportsIndex]]
    enable_stops_after: str | int | None
    disable_stops_after: str | int | None
    stop_regex: str | Iterable[str]
    max_match_length: int | None
    limits: StopLimits | None
    spans: bool


class StreamOptions(FlowOptions, DecoderOptions, total=False):
    """All options of a stream that makes its own decoder; none of them is required.

    See FlowOptions and DecoderOptions.

    >>> from streamdec import MockTokenizer, iter_chunks
    >>> from streamdec.flow import StreamOptions
    >>> options: StreamOptions = {"max_tokens": 2, "return_token_ids": True}
    >>> [chunk.token_ids for chunk in iter_chunks([[1, 2, 3]], MockTokenizer(), **options)]
    [(1, 2)]
    """


class Flow:
    """What a machine makes of the outputs of one source.

    Nothing is stepped before it is asked for, so that the machine is always as it was after the
    chunks that were given out. The last chunk is put aside (``last``) until the source is closed.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        ids: Callable[[Any], Any] | None = None,
        cumulative: bool = False,
        index: int | None = None,
        chunk_by: ChunkBy = "output",
        return_token_ids: bool = False,
        finish_reason: FinishReason = "length",
    ) -> None:
        _check("chunk_by", chunk_by, get_args(ChunkBy))
        _check("finish_reason", finish_reason, get_args(FinishReason))
        if ids is not None and (inspect.iscoroutinefunction(ids) or not callable(ids)):
            raise TypeError(f"ids must be a plain function of an output, not {ids!r:.80}")
        if index is not None and (type(index) is not int or index < 0):
            kind = ValueError if type(index) is int else TypeError
            raise kind(f"index must be a number from 0 up, not {index!r:.40}")
        check_machine(machine)
        self.machine = machine
        self.watch: Watch | None = None
        """Counts for the hooks, if there are any."""
        self.shows_all = chunk_by == "token"
        """Whether chunks without text are given out."""
        self.num_taken = 0
        """How many tokens the last chunk took."""
        self.is_over = False
        """Whether no token is to be asked for: there was a finish, or a bad id."""
        self.last: Chunk | None = None
        """The last chunk, until it was given out."""
        self.engine_finish_reason: str | None = None
        """The engine's own word."""
        self.source_ended = False
        """Whether the engine has ended by itself, so that there is nothing to stop."""
        self._cover = Covering(machine) if return_token_ids else None
        self._stepped: Machine = self._cover or machine
        if hooks.installed and not machine.finished:
            self.watch = Watch(machine, hooks.installed)
            self._stepped = self.watch.before(self._stepped)
        self._most = 1 if self.shows_all else MAX_TOKENS_AT_ONCE
        self._reader = Reader(ids=ids, cumulative=cumulative, index=index)
        self._takes_ids = ids is None and not cumulative
        self._finish_reason: FinishReason = finish_reason
        self._error: Exception | None = None
        if machine.finished:
            self._end(finish_reason)

    # --- taking outputs

    def read(self, output: Any) -> Iterator[Chunk]:
        """The chunks of one output but the last one of all, each stepped when it is asked for.

        Raises SourceError if it cannot be read. What a step raises comes after the last chunk.
        """
        reason, stop_reason = None, None
        if self._takes_ids and type(output) is list:  # as a TokenQueue's are: a third of the time
            token_ids: Sequence[SupportsIndex] = output
        else:
            token_ids, reason, stop_reason = self._reader.read(output)
        if reason is not None:
            self.engine_finish_reason, self.source_ended = reason, True
        start, size = 0, len(token_ids)
        while start < size:
            end = start + self._most
            chunk = self._take(token_ids if end >= size and not start else token_ids[start:end])
            if self.is_over:
                self._leave_unread(max(size - end, 0))
                return
            yield chunk
            start = end
        if reason is not None:
            self._end(ending(reason), stop_reason)

    def _take(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """The chunk of a few ids, up to a finish or a bad one."""
        self.num_taken = len(token_ids)
        try:
            if len(token_ids) == 1:
                chunk = self._stepped.step_chunk(token_ids[0])
            else:
                chunk = self._stepped.feed(token_ids)
        except Exception as error:  # noqa: BLE001 (it is raised once the chunk was given out)
            chunk = getattr(error, "chunk", None) or NOTHING
            error.chunk = None  # type: ignore[attr-defined]
            self._error = error
        if chunk.finish_reason is not None or self._error is not None:
            self.is_over, self.last = True, chunk
        return chunk

    def _leave_unread(self, count: int) -> None:
        if count and self.last is not None and self._error is None:
            self.last = replace(self.last, unread_tokens=self.last.unread_tokens + count)

    # --- ends

    def end(self) -> None:
        """The source has ended, and nobody said why."""
        if not self.is_over:
            self.source_ended = True
            self._end(self._finish_reason)

    def _end(self, reason: FinishReason, stop_reason: StopReason = None) -> None:
        self.is_over = True
        chunk = self._stepped.end(reason)
        if chunk.finish_reason == "stop" and chunk.stop_reason is None:
            chunk = replace(chunk, stop_reason=stop_reason)
        self.last = chunk

    def shows_silent(self) -> bool:
        """Whether a chunk without text, and there is one, is given out."""
        if self.watch is not None:
            self.watch.silent()
        return self.shows_all

    def tell(self, error: BaseException | None) -> None:
        """Tells the hooks how it ended; ``error`` is what came out of the source or the reader."""
        if self.watch is not None:
            self.watch.end(self.last, self._error or error)

    def ending(self, closing: Closing) -> Iterator[Chunk]:
        """Once the source is closed: the last chunk; and then whatever is to be raised."""
        last, self.last = self.last, None
        if last is not None and (last.text or self._error is None):
            yield last
        if self._error is not None:
            closing.note_on(self._error)
            raise self._error
        closing.complain()

    # --- short ways

    @property
    def step(self) -> Callable[[SupportsIndex], Chunk] | None:
        """What is to be done with an output that is one id; None if ``read`` is to see it."""
        return self._stepped.step_chunk if self._takes_ids else None

    # --- what may be asked

    @property
    def pending_text(self) -> str:
        """What would still come out if nothing followed."""
        last = "" if self.last is None else self.last.text
        return last + self._stepped.pending_text

    @property
    def pending_token_ids(self) -> tuple[int, ...]:
        """The ids that no chunk that was given out has covered."""
        last = self.last.token_ids if isinstance(self.last, TokenChunk) else ()
        return last + (() if self._cover is None else self._cover.uncovered)


def _check(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, not {value!r:.40}")


# --- the stream -----------------------------------------------------------------------------------


class BaseStream(Generic[M]):
    """What may be asked of a stream, however its chunks are read."""

    def __init__(self, machine: M, **options: Unpack[FlowOptions]) -> None:
        self.machine: M = machine
        """What decodes; not to be stepped by others while the stream runs."""
        self._flow = Flow(machine, **options)

    def snapshot(self) -> dict[str, Any]:
        """The machine as JSON, as it is after the chunks that were given out.

        Whoever resumes gives the engine the prompt and the ids up to there, and a stream the
        machine that its ``restore`` makes of this.
        """
        return self.machine.snapshot()

    @property
    def pending_text(self) -> str:
        """The text that would come out if nothing followed; asking changes nothing.

        "" after the last chunk; but of a Sequence, which has no end, always what it holds, as
        U+FFFD.
        """
        return self._flow.pending_text

    @property
    def pending_token_ids(self) -> tuple[int, ...]:
        """With ``return_token_ids``, the ids that were read and that no chunk has covered yet.

        They are those of ``pending_text``, and of what gave no text; a snapshot does not have them.
        Without ``return_token_ids`` there are none.
        """
        return self._flow.pending_token_ids

    @property
    def engine_finish_reason(self) -> str | None:
        """Why the engine ended, in its own word; None if it has not, or did not say."""
        return self._flow.engine_finish_reason

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.machine!r}>"


# --- the source -----------------------------------------------------------------------------------


class Closing:
    """Closes a source, once, and keeps what that raises until somebody can be told.

    Text goes before complaints: what closing raised is raised after the last chunk, or mentioned on
    an error that was there before.
    """

    def __init__(
        self,
        flow: Flow,
        close: Callable[[], object] | None,
        on_stop: Callable[[], object] | None,
    ) -> None:
        if on_stop is not None and not callable(on_stop):
            raise TypeError(f"on_stop must be callable without arguments, not {on_stop!r:.80}")
        self._flow = flow
        self._close = close
        self._on_stop = on_stop
        self._is_done = False
        self._errors: list[Exception] = []

    def due(self, cause: BaseException | None) -> list[Callable[[], object]]:
        """What is to be done now: nothing the second time, nothing to stop if the engine ended.

        ``cause``: what was raised, if that is why.
        """
        if self._is_done:
            return []
        self._is_done = True
        stop = None if self._flow.source_ended else self._on_stop
        actions = [action for action in (stop, self._close) if action is not None]
        if not actions:
            self._flow.tell(cause)
        elif self._flow.watch is not None:
            # At last: whatever a hook does, the source is closed.
            actions.append(partial(self._flow.tell, cause))
        return actions

    def failed(self, error: Exception) -> None:
        """Keeps what an action raised."""
        self._errors.append(error)

    def complain(self) -> None:
        """Raises what closing raised, if that was not yet raised."""
        if self._errors:
            error = self._errors.pop(0)
            self.note_on(error)
            raise error

    def note_on(self, error: BaseException | None) -> None:
        """Mentions on ``error``, which somebody will see, what closing raised."""
        if error is None or isinstance(error, GeneratorExit):
            return
        for each in self._errors:
            error.add_note(f"Closing the source raised too: {each!r}")
        self._errors.clear()


# --- options --------------------------------------------------------------------------------------


def sorted_options(what: str, options: Mapping[str, Any]) -> tuple[FlowOptions, DecoderOptions]:
    """The options of ``what`` by their kind. Raises TypeError for one that is none."""
    flow, decoder = FlowOptions.__annotations__, DecoderOptions.__annotations__
    for name in options:
        if name not in flow and name not in decoder:
            raise unknown_option(what, name, [*flow, *decoder])
    return (
        cast(FlowOptions, {name: value for name, value in options.items() if name in flow}),
        cast(DecoderOptions, {name: value for name, value in options.items() if name in decoder}),
    )


_WORDS_OF_OTHERS = {
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "no_stop_trim": "include_stop_str_in_output",
    "stop_sequences": "stop",
    "stop_strings": "stop",
    "stop_words": "stop",
}
"""Options of engines and APIs, and ours."""


def unknown_option(what: str, name: str, known: Iterable[str]) -> TypeError:
    """What is raised for an option that ``what`` has not; it names what may have been meant."""
    known = list(known)
    word = _WORDS_OF_OTHERS.get(name)
    near = [word] if word in known else get_close_matches(name, known, n=1, cutoff=0.7)
    meant = f"; did you mean {near[0]}?" if near else ""
    return TypeError(f"{what} has no option {name!r}{meant}")


def decoder_of(
    what: str,
    tokenizer: Decoder | None,
    conditions: StopConditions | None,
    prompt_token_ids: Iterable[SupportsIndex],
    decoder: StopSequenceDecoder | Machine | None,
    options: DecoderOptions,
) -> StopSequenceDecoder:
    """The decoder that ``what`` is to run on: a given one, or one made of all the rest.

    What stands before a decoder is given back as one: it has the methods of one.
    Raises TypeError where there are both, or neither; and what StopConditions and
    StopSequenceDecoder raise.
    """
    given: dict[str, Any] = dict(options)
    if conditions is not None:
        given["conditions"] = conditions
    if decoder is None:
        return _made_decoder(what, tokenizer, prompt_token_ids, given)
    machine: Any = decoder
    if not isinstance(decoder, StopSequenceDecoder):
        machine = getattr(decoder, "decoder", decoder)  # what is behind a tracer
    if not isinstance(machine, StopSequenceDecoder):
        raise TypeError(f"decoder must be a StopSequenceDecoder, not {decoder!r:.80}")
    if tokenizer is not None and tokenizer is not machine.tokenizer:
        given["tokenizer"] = tokenizer
    if prompt_token_ids is not NO_PROMPT:
        given["prompt_token_ids"] = prompt_token_ids
    if given:
        raise TypeError(f"{what} got a decoder, which has its own {', '.join(given)}")
    return cast(StopSequenceDecoder, decoder)


def _made_decoder(
    what: str,
    tokenizer: Decoder | None,
    prompt_token_ids: Iterable[SupportsIndex],
    given: dict[str, Any],
) -> StopSequenceDecoder:
    if tokenizer is None:
        raise TypeError(f"{what} needs a tokenizer, or a decoder")
    names = (*DecodingOptions.__annotations__, "spans")
    decoding = {name: given.pop(name) for name in names if name in given}
    conditions = given.pop("conditions", None)
    if conditions is None:
        conditions = StopConditions(**given)
    elif given:
        raise TypeError(f"{what} got conditions, which have their own {', '.join(given)}")
    return StopSequenceDecoder(tokenizer, conditions, prompt_token_ids, **decoding)
