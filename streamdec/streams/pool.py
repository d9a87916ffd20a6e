"""Many streams by request id, for an engine that generates for all in one loop.

In: the new ids of a round, by request. Out: the chunk of each request. The pool uses no event loop
and no threads. An error of one request ends only that request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import CoroutineType
from typing import Any, Never, Self, SupportsIndex, Unpack, get_args

from streamdec.chunks import Chunk, FinishReason, check_finish_reason, joined
from streamdec.core.conditions import NO_CONDITIONS, OPTIONS, StopConditions
from streamdec.core.mistakes import check_order
from streamdec.core.shared_tables import check_decoder, tokenizer_for
from streamdec.core.snapshots import shown
from streamdec.core.stepping import has_sections, jailed_chunk
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import QueueFullError, SnapshotError, UnknownRequestError
from streamdec.mistakes import check_flag, unknown_option
from streamdec.protocols import Decoder
from streamdec.streams import pool_snapshots
from streamdec.streams.attribution import TokenAttribution
from streamdec.streams.growth import RoundsWatch
from streamdec.streams.options import DecodingOptions, Sections
from streamdec.streams.outputs import checked_ids
from streamdec.streams.owners import disown, own
from streamdec.streams.sinks import Sender, Sink, refused, sender_of
from streamdec.streams.stepper import Stepper, take_chunk

__all__ = ["DecoderPool"]

_OPTIONS = (
    *("conditions", "prompt_token_ids", "sections", "starts_inside", "spans"),
    *DecodingOptions.__annotations__,
)
"""The options of ``add``."""
_ELSEWHERE = {
    **dict.fromkeys(
        (name for name in OPTIONS if name not in _OPTIONS),
        "write add(request_id, StopConditions({}=...))",
    ),
    "return_token_ids": "write DecoderPool(tokenizer, return_token_ids=...)",
    "sink": "call attach(request_id, sink) after add()",
}
"""Options that ``add`` does not have, and what to write instead."""

_OF_ADD = {
    **dict.fromkeys(_OPTIONS, "write add(request_id, {}=...)"),
    **{name: advice for name, advice in _ELSEWHERE.items() if name in OPTIONS},
}
"""Options of ``add``, and what to write instead of passing them to the constructor."""

RequestId = str | int


class DecoderPool:
    r"""The StopSequenceDecoders of all running requests, by request id.

    A request that ends (at a stop, by ``finish`` or ``abort``, by an error) leaves the pool with
    its last chunk. Its decoder is then in ``ended`` until the next ``step``, ``finish`` or
    ``abort``, so that you can read its ``match`` and counts. ``pool[request_id]`` is the decoder of
    a running request. ``len(pool)``, ``in`` and iteration work on the ids of the running requests.

    Args:
        tokenizer: the tokenizer of all requests.
        more: not accepted, and neither are ``others``: pass conditions and options to ``add``.
        return_token_ids: whether chunks have ``token_ids``.

    Raises TypeError if ``tokenizer`` is not a tokenizer.

    A ``request_id`` is a string or an integer.

    **Memory.** About 800 bytes for each request (1.7 KB with ``return_token_ids``), also for each
    in ``ended``. **Cost.** A round costs little more than the steps of its requests; requests
    without ids cost nothing. **Threads.** One thread at a time.

    >>> from streamdec import DecoderPool, MockTokenizer, StopConditions
    >>> pool = DecoderPool(MockTokenizer.from_tokens([b"Hi", b" there", b"\nUser:"]))
    >>> pool.add("a", StopConditions(stop="\nUser:"))
    >>> pool.add("b")
    >>> [(name, chunk.text) for name, chunk in pool.step({"a": [0, 1], "b": 0}).items()]
    [('a', 'Hi there'), ('b', 'Hi')]
    >>> pool.step({"a": 2})["a"].finish_reason, pool.ended["a"].match.tokens_before
    ('stop', 2)
    >>> pool.finish("b", "length")
    Chunk(text='', finish_reason='length')
    """

    def __init__(
        self,
        tokenizer: Decoder,
        *more: Never,
        return_token_ids: bool = False,
        **others: Never,
    ) -> None:
        if more:
            told = "takes only the tokenizer by position; write add(request_id, conditions)"
            raise TypeError(f"DecoderPool {told}")
        for name in others:
            raise unknown_option("DecoderPool", name, ("tokenizer", "return_token_ids"), _OF_ADD)
        check_decoder(tokenizer)
        self.tokenizer: Decoder = tokenizer_for(tokenizer)
        """The tokenizer of all requests."""
        self.errors: dict[RequestId, Exception] = {}
        """The errors of the last ``step``, ``finish`` or ``abort``, by request."""
        self.ended: dict[RequestId, StopSequenceDecoder] = {}
        """The decoders that ended in the last ``step``, ``finish`` or ``abort``."""
        self._returns_token_ids = check_flag("return_token_ids", return_token_ids)
        self._requests: dict[RequestId, Stepper] = {}
        self._steps: dict[RequestId, Callable[[SupportsIndex], Chunk]] = {}
        """The ``step`` of each request."""
        self._sinks: dict[RequestId, Callable[[Chunk], object]] = {}
        self._growth = RoundsWatch()
        self._is_busy = False
        """Whether ``step`` or ``finish`` runs, and may call sinks."""

    # --- adding requests

    def add(
        self,
        request_id: RequestId,
        conditions: StopConditions = NO_CONDITIONS,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        *,
        sections: Sections = None,
        starts_inside: bool | None = None,
        spans: bool = False,
        **options: Unpack[DecodingOptions],
    ) -> None:
        """Add a request, and begin its stream.

        Args:
            request_id: a string or an integer that names the request.
            conditions: as for StopSequenceDecoder.
            prompt_token_ids: as for StopSequenceDecoder.
            sections: as for StopSequenceDecoder.
            starts_inside: as for StopSequenceDecoder, for ``sections``. For
                ``ignore_stops_between`` pass it to StopConditions.
            spans: as for StopSequenceDecoder.
            options: as for StopSequenceDecoder.

        Raises ValueError if the pool has a request with this ``request_id``, and for options of
        sections without sections; TypeError if ``request_id`` is neither a string nor an integer;
        and the errors of the decoder. After an error no request was added.
        """
        self._check_new(request_id)
        for name in options:
            if name not in DecodingOptions.__annotations__:
                raise unknown_option("DecoderPool.add()", name, _OPTIONS, _ELSEWHERE)
        decoder = StopSequenceDecoder(
            self.tokenizer,
            conditions,
            prompt_token_ids,
            sections=sections,
            starts_inside=starts_inside,
            spans=spans,
            **options,
        )
        self._begin(request_id, Stepper(decoder, return_token_ids=self._returns_token_ids))

    def adopt(self, request_id: RequestId, decoder: StopSequenceDecoder) -> None:
        """Add a request with an existing ``decoder``.

        The decoder may have begun, or may have been restored from a snapshot. Afterwards only the
        pool may step the decoder.

        Raises ValueError for a decoder of another tokenizer, a decoder that has ended, or a
        ``request_id`` that the pool has; RuntimeError for a decoder that another stream or pool
        steps; TypeError if either has a wrong type.

        >>> from streamdec import DecoderPool, MockTokenizer, StopConditions, StopSequenceDecoder
        >>> pool = DecoderPool(MockTokenizer())
        >>> pool.adopt(7, StopSequenceDecoder(pool.tokenizer, StopConditions(max_tokens=1)))
        >>> pool.step({7: 1})
        {7: Chunk(text='Hello', finish_reason='length')}
        """
        self._check_new(request_id)
        if not isinstance(decoder, StopSequenceDecoder):
            wraps_one = isinstance(getattr(decoder, "decoder", None), StopSequenceDecoder)
            hint = "; step it yourself, beside the pool" if wraps_one else ""
            raise TypeError(f"decoder must be a StopSequenceDecoder, not {decoder!r:.60}{hint}")
        if decoder.tokenizer is not self.tokenizer:
            raise ValueError(
                f"the decoder has another tokenizer object, {decoder.tokenizer!r:.80}; make the "
                "decoder with pool.tokenizer, which all requests of a pool share"
            )
        if decoder.finished:
            raise ValueError(f"the decoder has ended: {decoder!r:.80}")
        self._begin(request_id, Stepper(decoder, return_token_ids=self._returns_token_ids))

    def attach(self, request_id: RequestId, sink: Sink | None) -> None:
        """Send the chunks of a request to ``sink`` instead of returning them.

        ``step`` calls the sink with each chunk that has text, and with the last chunk. The sink may
        call the pool's ``add``, ``finish`` and ``abort``. If it raises, its request ends: the error
        is in ``errors``, and ``error.chunk`` is the text that was not sent. While the sink's
        ``is_behind`` is true, chunks are joined. If more than 65,536 code points wait, the request
        is aborted: the sink gets all waiting text and the finish reason ``"abort"``, and a
        QueueFullError is in ``errors``.

        Args:
            request_id: a request of the pool.
            sink: a callable that takes a chunk; None to return the chunks again.

        Raises UnknownRequestError if the pool has no such request; TypeError for a sink that cannot
        be called.

        >>> from streamdec import DecoderPool, MockTokenizer
        >>> pool = DecoderPool(MockTokenizer())
        >>> pool.add("a")
        >>> pool.attach("a", print)
        >>> pool.step({"a": 1}), pool.finish("a").finish_reason
        Chunk(text='Hello')
        Chunk(text='', finish_reason='stop')
        ({}, 'stop')
        """
        if request_id not in self._requests:
            raise UnknownRequestError(request_id)
        if sink is None:
            self._sinks.pop(request_id, None)
        else:
            in_sections = has_sections(self[request_id])
            self._sinks[request_id] = sender_of(sink, has_sections=in_sections)

    def has_sink(self, request_id: RequestId) -> bool:
        """Whether the request ``request_id`` has a sink."""
        return request_id in self._sinks

    def fork(self, request_id: RequestId, new_request_id: RequestId) -> None:
        """Copy a request with its current state, for another sample (``n > 1``).

        Afterwards the two requests are independent. The copy has no sink.

        Raises UnknownRequestError if the pool has no ``request_id``; ValueError if it has a
        ``new_request_id``; TypeError if that is neither a string nor an integer.
        """
        decoder = self[request_id].fork()
        self._check_new(new_request_id)
        attribution = self._requests[request_id].attribution
        if attribution is not None:
            attribution = TokenAttribution(decoder, attribution.waiting)
        self._begin(new_request_id, Stepper(decoder, attribution=attribution))

    def _check_new(self, request_id: object) -> None:
        check_request_id(request_id)
        if request_id in self:
            raise ValueError(f"the pool already has a request {request_id!r:.80}")

    def _begin(self, request_id: RequestId, request: Stepper) -> None:
        own(request.machine, self)
        self._requests[request_id] = request
        self._steps[request_id] = request.step

    # --- stepping

    def step(
        self, token_ids: Mapping[Any, SupportsIndex | Iterable[SupportsIndex]]
    ) -> dict[Any, Chunk]:
        """Step some requests, or all. Return the chunk of each request without a sink.

        An error of one request is not raised but put in ``errors``. The chunk of the request then
        has the text before the error, the withheld text, and ``finish_reason="error"`` (or
        ``"stop"``, if the withheld text completes a stop). For a request that the pool does not
        have (it may just have ended) ``errors`` has an UnknownRequestError, and there is no chunk.

        With ``sections``, the text of a chunk may be in several sections: ``chunk.split()`` returns
        a chunk for each. Sinks get these.

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
        >>> for request_id, error in pool.errors.items():
        ...     print(f"{request_id}: {type(error).__name__}: {error}")
        a: TokenIdError: token 1 is out of range: -5; a token id is an integer from 0 to 4294967295
        b: UnknownRequestError: the pool has no request 'b'
        """
        if not isinstance(token_ids, Mapping):
            raise TypeError(
                f"step() takes a mapping of request ids to new ids, not {token_ids!r:.80}"
            )
        if self._is_busy:
            raise RuntimeError(
                "a sink must not call step() of its pool; call it after the sink has returned"
            )
        self.errors, self.ended = {}, {}
        self._is_busy = True
        try:
            return self._step_all(token_ids)
        finally:
            self._is_busy = False

    def _step_all(self, token_ids: Mapping[Any, Any]) -> dict[Any, Chunk]:
        chunks: dict[Any, Chunk] = {}
        steps, sinks = self._steps, self._sinks
        for request_id, ids in token_ids.items():
            try:
                step = steps[request_id]
            except KeyError:
                self.errors[request_id] = UnknownRequestError(request_id)
                continue
            try:
                if type(ids) is int:
                    chunk = step(ids)
                else:
                    ids = checked_ids(ids)
                    if not self._growth.is_over:
                        self._growth.note(request_id, ids, self._requests)
                    chunk = self._requests[request_id].feed(ids)
            except Exception as error:  # noqa: BLE001 (it ends only this request)
                self.errors[request_id] = error
                last, _ = _last_chunk(self._requests[request_id], "error")
                chunk = joined(take_chunk(error), last)
            if not sinks or request_id not in sinks:
                chunks[request_id] = chunk
            elif (chunk.text or chunk.finish_reason is not None) and self._send(request_id, chunk):
                continue
            if chunk.finish_reason is not None:
                self._remove(request_id, chunk)
        return chunks

    def _send(self, request_id: RequestId, chunk: Chunk) -> bool:
        """Send ``chunk`` to the sink of a request. Return whether the request has ended."""
        request, sink = self._requests[request_id], self._sinks[request_id]
        if chunk.finish_reason is not None:
            self._remove(request_id, chunk)  # before the call, because the sink may call the pool
        try:
            if type(result := sink(chunk)) is CoroutineType:
                raise refused(result)
        except BaseException as error:  # a cancellation too ends only this request
            self._sink_failed(request_id, request, sink, chunk, error)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
        # The sink may have added another request with this id.
        return self._requests.get(request_id) is not request

    def _sink_failed(
        self,
        request_id: RequestId,
        request: Stepper,
        sink: Callable[[Chunk], object],
        chunk: Chunk,
        raised: BaseException,
    ) -> None:
        """End ``request``, whose sink has ``raised`` an error when called with ``chunk``."""
        error: Any = raised
        if not isinstance(raised, Exception):
            error = RuntimeError(f"the sink raised {raised!r:.80}")
            error.__cause__ = raised
        self.errors[request_id] = error
        if self._requests.get(request_id) is request:
            last, _ = _last_chunk(request, "abort")
            self._remove(request_id, last)
            if isinstance(sink, Sender) and isinstance(error, QueueFullError):
                with suppress(Exception):  # send all waiting text; the client may be gone
                    sink(last)
                    return
            elif isinstance(sink, Sender):
                sink.waiting.append(last)
            chunk = joined(chunk, last)
        error.chunk = joined(*sink.waiting) if isinstance(sink, Sender) else chunk

    # --- ending

    def finish(self, request_id: RequestId, finish_reason: FinishReason = "stop") -> Chunk:
        """End a request because the engine has ended it. Return the withheld text.

        The finish reason of the chunk is ``finish_reason``; or ``"stop"`` if the released text
        completes a stop; or ``"error"`` if the decoder raised, with the error in ``errors``. The
        sink of the request, if it has one, gets the chunk too.

        Raises UnknownRequestError if the pool has no such request; ValueError for a
        ``finish_reason`` that does not exist.
        """
        request = self._requests.get(request_id)
        if request is None:
            raise UnknownRequestError(request_id)
        check_finish_reason(finish_reason)
        is_outermost = not self._is_busy  # False if a sink ends another request
        if is_outermost:
            self.errors, self.ended = {}, {}
        self._is_busy = True
        try:
            chunk, error = _last_chunk(request, finish_reason)
            if error is not None:
                self.errors[request_id] = error
            if request_id in self._sinks:
                self._send(request_id, chunk)
            else:
                self._remove(request_id, chunk)
        finally:
            if is_outermost:
                self._is_busy = False
        return chunk

    def abort(self, request_id: RequestId) -> Chunk | None:
        """Call ``finish(request_id, "abort")`` if the pool has the request.

        Returns None if the request has ended, or was never added.
        """
        return self.finish(request_id, "abort") if request_id in self else None

    def _remove(self, request_id: RequestId, last: Chunk) -> None:
        request = self._requests.pop(request_id)
        del self._steps[request_id]
        self._sinks.pop(request_id, None)
        self.ended[request_id] = decoder = _decoder(request)
        disown(decoder, self)
        request.report_end(last, self.errors.get(request_id))

    # --- properties

    def __getitem__(self, request_id: RequestId) -> StopSequenceDecoder:
        """Return the decoder of a running request. Only the pool may step it.

        Raises UnknownRequestError if the pool has no such request.
        """
        try:
            return _decoder(self._requests[request_id])
        except KeyError:
            raise UnknownRequestError(request_id) from None

    def __contains__(self, request_id: object) -> bool:
        return request_id in self._requests

    def __iter__(self) -> Iterator[RequestId]:
        return iter(self._requests)

    def __len__(self) -> int:
        return len(self._requests)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} requests>"

    # --- JSON

    def snapshot(self, request_id: RequestId | None = None) -> dict[str, Any]:
        """Return the state of one request, or of the pool, as a dict of JSON types.

        To resume one request, pass its snapshot to ``StopSequenceDecoder.restore``, and the decoder
        to ``adopt``. Without a ``request_id`` the snapshot is of the whole pool, for
        ``DecoderPool.restore``. Sinks are not part of it. With ``return_token_ids`` it also has the
        ids without a chunk so far. The pool does not change.

        Raises UnknownRequestError if the pool has no such request.

        >>> from streamdec import DecoderPool, MockTokenizer
        >>> pool = DecoderPool(MockTokenizer())
        >>> pool.add("a")
        >>> pool.step({"a": 1})["a"].text
        'Hello'
        >>> DecoderPool.restore(MockTokenizer(), pool.snapshot()).step({"a": 2})["a"].text
        ' world'
        """
        if request_id is not None:
            return self[request_id].snapshot()
        return pool_snapshots.dump(self._requests)

    @classmethod
    def restore(
        cls, tokenizer: Decoder, snapshot: Mapping[str, Any], *, return_token_ids: bool = False
    ) -> Self:
        """Return the pool that ``snapshot()`` described.

        Args:
            tokenizer: a tokenizer that decodes as the tokenizer of the snapshot does.
            snapshot: the dict that ``snapshot()`` returned, or the same dict from JSON.
            return_token_ids: as for the constructor.

        Raises SnapshotError, which names the request, for another ``tokenizer`` and for an object
        that is not a snapshot of a pool.
        """
        check_order(cls.__name__, snapshot)
        pool = cls(tokenizer, return_token_ids=return_token_ids)
        for name, data, *waiting in pool_snapshots.requests_in(snapshot):
            try:
                pool.adopt(name, StopSequenceDecoder.restore(tokenizer, data))
                request = pool._requests[name]
                if waiting:
                    (request.attribution or TokenAttribution(request.machine)).resume(waiting[0])
            except SnapshotError as error:
                raise type(error)(f"request {shown(name)}: {error}") from error
            except (RecursionError, TypeError, ValueError) as error:
                raise SnapshotError(f"request {shown(name)}: {error}") from error
        return pool


def check_request_id(request_id: object) -> None:
    """Raise TypeError if ``request_id`` is neither a string nor an integer."""
    if isinstance(request_id, bool) or not isinstance(request_id, get_args(RequestId)):
        raise TypeError(f"a request id must be a string or an integer, not {request_id!r:.80}")


# --- the parts of a request -----------------------------------------------------------------------


def _decoder(request: Stepper) -> StopSequenceDecoder:
    decoder = request.machine
    assert isinstance(decoder, StopSequenceDecoder)
    return decoder


def _last_chunk(request: Stepper, finish_reason: FinishReason) -> tuple[Chunk, Exception | None]:
    """Return the last chunk; and the error of ending the machine, if it raised."""
    try:
        return request.end(finish_reason), None
    except Exception as error:  # noqa: BLE001 (the tokenizer may raise at the end too)
        decoder, attribution = _decoder(request), request.attribution
        last = jailed_chunk(decoder)
        return last if attribution is None else attribution.with_ids(last), error
