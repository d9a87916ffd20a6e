"""Many streams by request id, for an engine that generates for all in one loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction
from types import CoroutineType
from typing import Any, SupportsIndex, Unpack, get_args

from streamdec.chunks import NOTHING, Chunk, FinishReason, check_finish_reason, joined
from streamdec.core.conditions import StopConditions
from streamdec.core.shared_tables import check_decoder, tokenizer_for
from streamdec.core.stepping import jailed_chunk
from streamdec.core.stop_sequence_decoder import DecoderOptions, StopSequenceDecoder
from streamdec.errors import UnknownRequestError
from streamdec.mistakes import check_flag
from streamdec.protocols import Decoder
from streamdec.streams.outputs import GrowthWatch, checked_ids
from streamdec.streams.reading import Stepper, take_chunk

__all__ = ["DecoderPool", "Sink"]

RequestId = str | int
MUST_BE_PLAIN = "a sink must be a plain function, {} {!r:.80}; write to a queue or transport in it"

Sink = Callable[[Chunk], object]
"""Takes the chunks of one request: each that has text, and the last."""


class DecoderPool:
    r"""The StopSequenceDecoders of all running requests, by request id.

    A request that ends (at a stop, by ``finish`` or ``abort``, by an error) leaves the pool with
    its last chunk. ``pool[request_id]`` is the decoder of a running request. ``len(pool)``, ``in``
    and iteration work on the ids of the running requests.

    Args:
        tokenizer: the tokenizer of all requests.
        return_token_ids: whether chunks have ``token_ids``.

    Raises TypeError if ``tokenizer`` is not a tokenizer.

    **Memory.** About 1.1 KB for each request (1.3 KB with ``return_token_ids``), also for each in
    ``ended``. **Threads.** One thread at a time.

    >>> from streamdec import DecoderPool, MockTokenizer
    >>> pool = DecoderPool(MockTokenizer.from_tokens([b"Hi", b" there", b"\nUser:"]))
    >>> pool.add("a", stop="\nUser:")
    >>> pool.add("b")
    >>> [(name, chunk.text) for name, chunk in pool.step({"a": [0, 1], "b": 0}).items()]
    [('a', 'Hi there'), ('b', 'Hi')]
    >>> pool.step({"a": 2})["a"].finish_reason, pool.ended["a"].match.tokens_before
    ('stop', 2)
    >>> pool.finish("b", "length")
    Chunk(text='', finish_reason='length')
    """

    def __init__(self, tokenizer: Decoder, *, return_token_ids: bool = False) -> None:
        check_decoder(tokenizer)
        self.tokenizer: Decoder = tokenizer_for(tokenizer)
        """The tokenizer of all requests."""
        self.chunks: dict[Any, Chunk] = {}
        """What the last ``step`` returned, or would have returned if it raised an interrupt."""
        self.errors: dict[RequestId, Exception] = {}
        """The errors of the last ``step``, ``finish`` or ``abort``, by request."""
        self.ended: dict[RequestId, StopSequenceDecoder] = {}
        """The decoders that ended in the last ``step``, ``finish`` or ``abort``."""
        self._returns_token_ids = check_flag("return_token_ids", return_token_ids)
        self._requests: dict[RequestId, Stepper] = {}
        self._steppers: dict[RequestId, Any] = {}
        """What steps each request. It is mostly the decoder, because each object costs a round."""
        self._begun: dict[RequestId, Any] = {}
        """The same for requests that a sink has added in this round, which has no ids for them."""
        self._sinks: dict[RequestId, Sink] = {}
        self._watch: GrowthWatch | None = None
        self._watched: RequestId | None = None
        """The request whose lists are watched, until it is known what the engine does."""
        self._is_busy = False
        """Whether ``step`` or ``finish`` runs, and may call sinks."""
        self._interrupt: BaseException | None = None
        """The KeyboardInterrupt or SystemExit of a sink, which is raised after the round."""

    def add(
        self,
        request_id: RequestId,
        conditions: StopConditions | None = None,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        **options: Unpack[DecoderOptions],
    ) -> None:
        """Add a request, and begin its stream.

        Args:
            request_id: a string or an integer that names the request.
            conditions: as for StopSequenceDecoder.
            prompt_token_ids: as for StopSequenceDecoder.
            options: all other arguments of StopSequenceDecoder, such as ``stop="User:"``.

        Raises ValueError if the pool has this ``request_id``; TypeError if it is neither a string
        nor an integer; and the errors of the decoder. After an error no request was added.
        """
        decoder = StopSequenceDecoder(self.tokenizer, conditions, prompt_token_ids, **options)
        self._begin(request_id, decoder)

    def adopt(self, request_id: RequestId, decoder: StopSequenceDecoder) -> None:
        """Add a request with your ``decoder``, which only the pool may then step.

        To move a request, adopt what ``StopSequenceDecoder.restore`` returns for its snapshot.

        Raises what ``add`` raises; ValueError for a decoder of another tokenizer, or one that has
        ended; RuntimeError for a decoder that another stream or pool steps.
        """
        if not isinstance(decoder, StopSequenceDecoder):
            raise TypeError(f"decoder must be a StopSequenceDecoder, not {decoder!r:.60}")
        if decoder.tokenizer is not self.tokenizer:
            raise ValueError(
                f"the decoder has another tokenizer object, {decoder.tokenizer!r:.80}; make the "
                "decoder with pool.tokenizer, which all requests of a pool share"
            )
        self._begin(request_id, decoder)

    def fork(self, request_id: RequestId, new_request_id: RequestId) -> None:
        """Copy a request with its current state, for another sample (``n > 1``).

        The copy is independent, and has no sink. Raises UnknownRequestError if the pool has no
        ``request_id``; ValueError or TypeError for ``new_request_id``, as ``add`` does.
        """
        request = self._known(request_id)
        self._begin(new_request_id, request.decoder.fork(), request.waiting)

    def _begin(
        self, request_id: RequestId, decoder: StopSequenceDecoder, waiting: Iterable[int] = ()
    ) -> None:
        if isinstance(request_id, bool) or not isinstance(request_id, get_args(RequestId)):
            raise TypeError(f"a request id must be a string or an integer, not {request_id!r:.80}")
        if request_id in self:
            raise ValueError(f"the pool already has a request {request_id!r:.80}")
        if decoder.finished:
            raise ValueError(f"the decoder has ended: {decoder!r:.80}")
        request = Stepper(decoder, return_token_ids=self._returns_token_ids, waiting=waiting)
        request.own()
        self._requests[request_id] = request
        steppers = self._begun if self._is_busy else self._steppers
        steppers[request_id] = request.observer or decoder

    def step(
        self, token_ids: Mapping[Any, SupportsIndex | Iterable[SupportsIndex]]
    ) -> dict[Any, Chunk]:
        """Step some requests, or all. Return the chunk of each request without a sink.

        An error of one request is not raised but put in ``errors``. The chunk of the request then
        has the text before the error, the withheld text, and ``finish_reason="error"`` (or
        ``"stop"``, if the withheld text completes a stop). For a request that the pool does not
        have, ``errors`` has an UnknownRequestError, and there is no chunk. So after each round, an
        engine drops the requests in ``ended`` and ``errors``.

        With ``sections``, ``chunk.split()`` returns a chunk for each section of the text.

        Args:
            token_ids: for each request an id, or several as a list, an array or a tensor.

        Raises TypeError if ``token_ids`` is not a mapping, and RuntimeError if a sink calls it.
        Then no request was stepped.

        >>> from streamdec import DecoderPool, MockTokenizer
        >>> pool = DecoderPool(MockTokenizer())
        >>> pool.add("a")
        >>> chunks = pool.step({"a": [1, -5], "b": 2})
        >>> chunks["a"].text, chunks["a"].finish_reason
        ('Hello', 'error')
        >>> str(pool.errors["b"])
        "the pool has no request 'b'"
        """
        if not isinstance(token_ids, Mapping):
            message = f"step() takes a mapping of request ids to new ids, not {token_ids!r:.80}"
            raise TypeError(message)
        if self._is_busy:
            message = "a sink must not call step() of its pool; call it after the sink has returned"
            raise RuntimeError(message)
        self.chunks = {}
        with self._calling():
            self._step_all(token_ids)
        return self.chunks

    def _step_all(self, token_ids: Mapping[Any, Any]) -> None:
        steppers, sinks, chunks = self._steppers, self._sinks, self.chunks
        is_watched = self._watch is None or not self._watch.is_over
        # A sink may change the mapping, such as remove a request from the engine's batch.
        for request_id, ids in [*token_ids.items()] if sinks else token_ids.items():
            try:
                stepper = steppers[request_id]
                if type(ids) is int:
                    chunk = stepper.step(ids)
                else:
                    if type(ids) is not list:
                        is_array = getattr(ids, "ndim", 0) == 1 and hasattr(ids, "tolist")
                        ids = ids.tolist() if is_array else checked_ids(ids)
                    if is_watched:
                        self._watch_growth(request_id, ids)
                    chunk = stepper.step(ids[0]) if len(ids) == 1 else stepper.feed(ids)
            except Exception as error:  # noqa: BLE001 (it ends only this request)
                if request_id not in steppers:
                    self.errors.setdefault(request_id, UnknownRequestError(request_id))
                    continue
                self.errors[request_id] = error
                chunk = joined(take_chunk(error), self._last_chunk(request_id, "error"))
            if sinks and (sink := sinks.get(request_id)) is not None:
                if chunk.text or chunk.finish_reason is not None:
                    self._send(request_id, sink, chunk, stepper)
                continue
            chunks[request_id] = chunk
            if chunk.finish_reason is not None:
                self._remove(request_id, chunk)

    def _watch_growth(self, request_id: RequestId, ids: Any) -> None:
        """Look at the lists of one request at a time, and warn if they look cumulative."""
        if self._watch is None or self._watched not in self._requests:
            self._watch = GrowthWatch("pass only the new ids of each round")
            self._watched = request_id
        if request_id == self._watched and not self._watch.is_over:
            self._watch.note(ids)

    @contextmanager
    def _calling(self) -> Generator[None, None, None]:
        """Surround a call of the pool. A sink may make it while another call runs."""
        if self._is_busy:
            yield
            return
        self.errors, self.ended, self._is_busy = {}, {}, True
        try:
            yield
        finally:
            self._is_busy = False
            self._steppers |= self._begun
            self._begun.clear()
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt

    # --- sinks

    def attach(self, request_id: RequestId, sink: Sink) -> None:
        """Send the chunks of a request to ``sink`` instead of returning them.

        ``step`` calls the sink with each chunk that has text, and with the last chunk. The sink may
        call the pool's ``add``, ``finish`` and ``abort``. A request that it adds gets ids from the
        next ``step`` on, also if this one has ids for an earlier request with the same id.

        If the sink raises, only its request ends: the error is in ``errors``, and ``error.chunk``
        has the text that was not sent. A BaseException, such as a cancellation, becomes the cause
        of a RuntimeError there. KeyboardInterrupt and SystemExit are also raised after the round.

        Raises UnknownRequestError if the pool has no ``request_id``; TypeError for a sink that
        cannot be called.

        >>> from streamdec import DecoderPool, MockTokenizer
        >>> pool, texts = DecoderPool(MockTokenizer()), []
        >>> pool.add("a")
        >>> pool.attach("a", lambda chunk: texts.append(chunk.text))
        >>> pool.step({"a": [1, 2]}), texts
        ({}, ['Hello world'])
        """
        self._known(request_id)
        if not callable(sink):
            raise TypeError(f"a sink must be callable with a chunk, got {sink!r:.80}")
        if iscoroutinefunction(sink) or iscoroutinefunction(type(sink).__call__):
            raise TypeError(MUST_BE_PLAIN.format("got the coroutine function", sink))
        self._sinks[request_id] = sink

    def _send(self, request_id: RequestId, sink: Sink, chunk: Chunk, stepper: Any = None) -> None:
        """Send ``chunk`` to a sink. If the sink raises, the request of ``stepper`` ends."""
        if chunk.finish_reason is not None:
            self._remove(request_id, chunk)  # before the call, because the sink may call the pool
        try:
            if type(result := sink(chunk)) is CoroutineType:
                result.close()
                raise TypeError(MUST_BE_PLAIN.format("but it returned a coroutine,", result))
        except BaseException as raised:  # noqa: BLE001 (interrupts are raised after the round)
            error = self.errors[request_id] = self._noted(raised)
            # A last chunk has ended the request; else the sink may have done that.
            if chunk.finish_reason is None and self._steppers.get(request_id) is stepper:
                last = self._last_chunk(request_id, "abort")
                self._remove(request_id, last)
                chunk = joined(chunk, last)
            error.chunk = chunk  # type: ignore[attr-defined]

    def _noted(self, raised: BaseException) -> Exception:
        """Return an error with a chunk of its own for what a sink has ``raised``."""
        if isinstance(raised, Exception) and getattr(raised, "chunk", None) is None:
            with suppress(Exception):  # some errors cannot be changed
                raised.chunk = NOTHING  # type: ignore[attr-defined]
                return raised
        if isinstance(raised, (KeyboardInterrupt, SystemExit)):
            self._interrupt = raised
        error = RuntimeError(f"the sink raised {raised!r:.80}")
        error.__cause__ = raised
        return error

    # --- ending

    def finish(self, request_id: RequestId, finish_reason: FinishReason = "stop") -> Chunk:
        """End a request because the engine has ended it. Return the withheld text.

        The chunk has this ``finish_reason``; or ``"stop"`` if the released text completes a stop;
        or ``"error"`` if the decoder raised, with the error in ``errors``. The sink of the request
        gets the chunk too.

        Raises UnknownRequestError if the pool has no ``request_id``; ValueError for an unknown
        ``finish_reason``.
        """
        self._known(request_id)
        check_finish_reason(finish_reason)
        with self._calling():
            chunk = self._last_chunk(request_id, finish_reason)
            if (sink := self._sinks.get(request_id)) is not None:
                self._send(request_id, sink, chunk)
            else:
                self._remove(request_id, chunk)
        return chunk

    def abort(self, request_id: RequestId) -> Chunk | None:
        """Call ``finish(request_id, "abort")``; None if the pool has no such request."""
        return self.finish(request_id, "abort") if request_id in self else None

    def _last_chunk(self, request_id: RequestId, finish_reason: FinishReason) -> Chunk:
        """End the decoder of a request, and note the error if the tokenizer raises one."""
        request = self._requests[request_id]
        try:
            return request.end(finish_reason)
        except Exception as error:  # noqa: BLE001 (it ends only this request)
            self.errors.setdefault(request_id, error)
            return request.with_ids(jailed_chunk(request.decoder))

    def _remove(self, request_id: RequestId, last: Chunk) -> None:
        request = self._requests.pop(request_id)
        for steppers in (self._steppers, self._begun):
            steppers.pop(request_id, None)
        self._sinks.pop(request_id, None)
        self.ended[request_id] = request.decoder
        request.disown()
        if request.observer is not None:
            request.observer.report(last, self.errors.get(request_id))

    def __getitem__(self, request_id: RequestId) -> StopSequenceDecoder:
        """Return the decoder of a running request, or raise UnknownRequestError."""
        decoder: StopSequenceDecoder = self._known(request_id).decoder
        return decoder

    def _known(self, request_id: RequestId) -> Stepper:
        if request_id not in self._requests:
            raise UnknownRequestError(request_id)
        return self._requests[request_id]

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._requests

    def __iter__(self) -> Iterator[RequestId]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} requests>"
