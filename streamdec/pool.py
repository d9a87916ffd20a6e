"""Many streams by request id, for the loop of an engine that generates for all of them at once.

In: each round's new ids, by request. Out: each request's chunk. No event loop and no threads; what
one request does wrong is its own end, and never another's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self, SupportsIndex, Unpack, get_args

from streamdec import hooks
from streamdec.chunks import Chunk, FinishReason
from streamdec.core.snapshots import shown
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions
from streamdec.errors import SnapshotError, StreamdecError, UnknownRequestError
from streamdec.flow import DecodingOptions
from streamdec.machines import Covering, Machine, joined
from streamdec.protocols import Decoder
from streamdec.sources import checked_ids
from streamdec.watch import Watch

__all__ = ["DecoderPool"]

FORMAT = 1
"""Of a snapshot of a whole pool."""

RequestId = str | int
NO_CONDITIONS = StopConditions()
NOTHING = Chunk()


class _Request(NamedTuple):
    """One that is under way."""

    decoder: StopSequenceDecoder
    stepped: Machine
    """The decoder, or what is in front of it."""
    cover: Covering | None
    """What knows the ids of its chunks, if that is asked for."""
    watch: Watch | None
    """What counts for the hooks, if there are any."""


class DecoderPool:
    r"""The StopSequenceDecoders of all requests that are under way.

    A request that ends (at a stop, by ``finish`` or ``abort``, by an error) leaves the pool with
    its last chunk; until the next ``step``, ``finish`` or ``abort`` it is in ``ended``, for its
    ``match`` and its counts. ``pool[request_id]`` is the decoder of one that is under way;
    ``len(pool)``, ``in`` and iteration are about the ids of these.

    Args:
        tokenizer: what decodes, for all requests.
        return_token_ids: give TokenChunks, which have the ids that they cover.

    A request is named by its ``request_id``, text or a number.

    **Memory** is that of its streams, some 700 bytes each (1.7 KB with ``return_token_ids``), and
    of those in ``ended``. **Cost.** A round costs what the steps of its requests do; those that get
    no ids cost nothing. **Threads.** Not for two at once.

    >>> from streamdec import DecoderPool, MockTokenizer, StopConditions
    >>> pool = DecoderPool(MockTokenizer.from_tokens([b"Hi", b" there", b"\nUser:"]))
    >>> pool.add("a", StopConditions(stop="\nUser:"))
    >>> pool.add("b")
    >>> [(name, chunk.text) for name, chunk in pool.step({"a": [0, 1], "b": 0}).items()]
    [('a', 'Hi there'), ('b', 'Hi')]
    >>> pool.step({"a": 2})["a"].finish_reason, pool.ended["a"].match.tokens_before
    ('stop', 2)
    >>> pool.finish("b", "length")
    Chunk(text='', finish_reason='length', stop_reason=None, unread_tokens=0)
    """

    def __init__(self, tokenizer: Decoder, *, return_token_ids: bool = False) -> None:
        self.tokenizer = tokenizer
        """The tokenizer of all requests."""
        self.errors: dict[RequestId, Exception] = {}
        """What went wrong in the last ``step`` or ``finish``, by request."""
        self.ended: dict[RequestId, StopSequenceDecoder] = {}
        """The decoders that ended in the last ``step``, ``finish`` or ``abort``."""
        self._covers = return_token_ids
        self._requests: dict[RequestId, _Request] = {}

    # --- coming

    def add(
        self,
        request_id: RequestId,
        conditions: StopConditions = NO_CONDITIONS,
        prompt_token_ids: Iterable[SupportsIndex] = (),
        **options: Unpack[DecodingOptions],
    ) -> None:
        """Begins a request.

        ``conditions``, ``prompt_token_ids`` and ``options`` are as for StopSequenceDecoder.

        Raises what StopSequenceDecoder raises; ValueError if there is a request of this
        ``request_id``; TypeError if that is neither text nor number. Nothing was then begun.
        """
        self._check_new(request_id)
        decoder = StopSequenceDecoder(self.tokenizer, conditions, prompt_token_ids, **options)
        self._take_in(request_id, decoder)

    def adopt(self, request_id: RequestId, decoder: StopSequenceDecoder) -> None:
        """Takes in a ``decoder`` that is under way, or restored from a snapshot, as ``request_id``.

        It is the pool's from now on, and stepped by it alone.

        Raises ValueError for one of another tokenizer, one that has ended, or a ``request_id`` that
        is taken; TypeError for what is no decoder or no id.

        >>> from streamdec import DecoderPool, MockTokenizer, StopConditions, StopSequenceDecoder
        >>> pool = DecoderPool(MockTokenizer())
        >>> pool.adopt(7, StopSequenceDecoder(pool.tokenizer, StopConditions(max_tokens=1)))
        >>> pool.step({7: 1})
        {7: Chunk(text='Hello', finish_reason='length', stop_reason=None, unread_tokens=0)}
        """
        self._check_new(request_id)
        if not isinstance(decoder, StopSequenceDecoder):
            raise TypeError(f"a pool has StopSequenceDecoders, and no {decoder!r:.80}")
        if decoder.tokenizer is not self.tokenizer:
            raise ValueError(f"the decoder is of another tokenizer: {decoder.tokenizer!r:.80}")
        if decoder.finished:
            raise ValueError(f"the decoder has ended: {decoder!r:.80}")
        self._take_in(request_id, decoder)

    def fork(self, request_id: RequestId, new_request_id: RequestId) -> None:
        """Begins another sample of a request where it is now: for ``n > 1``, as often as needed.

        Both go on from here on their own; ``new_request_id`` names the other one.

        Raises UnknownRequestError if there is no ``request_id``; ValueError if there is a request
        of the new one already, TypeError if that is neither text nor number.
        """
        decoder = self[request_id].fork()
        self._check_new(new_request_id)
        cover = self._requests[request_id].cover
        self._begin(new_request_id, decoder, cover and cover.fork(decoder))

    def _check_new(self, request_id: object) -> None:
        if isinstance(request_id, bool) or not isinstance(request_id, get_args(RequestId)):
            raise TypeError(f"a request id is text or a number, not {request_id!r:.80}")
        if request_id in self:
            raise ValueError(f"the pool has a request {request_id!r:.80} already")

    def _take_in(self, request_id: RequestId, decoder: StopSequenceDecoder) -> None:
        self._begin(request_id, decoder, Covering(decoder) if self._covers else None)

    def _begin(
        self, request_id: RequestId, decoder: StopSequenceDecoder, cover: Covering | None
    ) -> None:
        stepped: Machine = cover or decoder
        watch = Watch(decoder, hooks.installed) if hooks.installed else None
        if watch is not None:
            stepped = watch.before(stepped)
        self._requests[request_id] = _Request(decoder, stepped, cover, watch)

    # --- being

    def step(
        self, token_ids: Mapping[Any, SupportsIndex | Iterable[SupportsIndex]]
    ) -> dict[Any, Chunk]:
        """What new ids bring out, for some requests or all: a chunk for each, text or not.

        ``token_ids`` has an id or several (a list, an array, a tensor) for each request. Nothing is
        raised for a request: what went wrong with one is in ``errors``, and its chunk has the text
        until then, all that was withheld, and ``finish_reason="error"``. Ids of a request that is
        not there (it may just have ended) bring an UnknownRequestError there, and no chunk.

        Raises TypeError, before anything is stepped, if ``token_ids`` is no mapping.

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
            raise TypeError(f"step() takes new ids by request id, not {token_ids!r:.80}")
        self.errors, self.ended = {}, {}
        chunks: dict[Any, Chunk] = {}
        for request_id, ids in token_ids.items():
            request = self._requests.get(request_id)
            if request is None:
                self.errors[request_id] = UnknownRequestError(request_id)
                continue
            chunk = self._step(request_id, request, ids)
            chunks[request_id] = chunk
            if chunk.finish_reason is not None:
                self._let_go(request_id, chunk)
        return chunks

    def _step(self, request_id: RequestId, request: _Request, token_ids: Any) -> Chunk:
        """The chunk of one request, whatever happens."""
        stepped = request.stepped
        try:
            ids = checked_ids(token_ids)
            chunk = stepped.step_chunk(ids[0]) if len(ids) == 1 else stepped.feed(ids)
        except Exception as error:  # noqa: BLE001 (one bad request does not disturb the others)
            self.errors[request_id] = error
            before = getattr(error, "chunk", None) or NOTHING
            error.chunk = None  # type: ignore[attr-defined]
            return joined(before, _last_chunk(request, "error")[0])
        if chunk.is_empty and ids and request.watch is not None:
            request.watch.silent()
        return chunk

    # --- going

    def finish(self, request_id: RequestId, finish_reason: FinishReason = "stop") -> Chunk:
        """The end of a request that the engine has ended: what was withheld comes out.

        What comes out may itself complete a stop; if it cannot come out, ``errors`` says why, and
        the finish is ``"error"``; else it is ``finish_reason``.

        Raises UnknownRequestError if there is no such request, ValueError for a finish that is
        none.
        """
        request = self._requests.get(request_id)
        if request is None:
            raise UnknownRequestError(request_id)
        chunk, error = _last_chunk(request, finish_reason)
        self.errors, self.ended = {} if error is None else {request_id: error}, {}
        self._let_go(request_id, chunk)
        return chunk

    def abort(self, request_id: RequestId) -> Chunk | None:
        """``finish`` for a request that nobody waits for any more; None if it has ended already.

        What was withheld comes out here too, as with ``finish(request_id, "abort")``.
        """
        return self.finish(request_id, "abort") if request_id in self else None

    def _let_go(self, request_id: RequestId, last: Chunk) -> None:
        request = self._requests.pop(request_id)
        self.ended[request_id] = request.decoder
        if request.watch is not None:
            request.watch.end(last, self.errors.get(request_id))

    # --- what may be asked

    def __getitem__(self, request_id: RequestId) -> StopSequenceDecoder:
        """The decoder of the request ``request_id``, to look at; it is stepped by the pool alone.

        Raises UnknownRequestError if there is no such request.
        """
        try:
            return self._requests[request_id].decoder
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
        """One request as JSON, for StopSequenceDecoder's ``restore`` and ``adopt``; or all.

        Without a ``request_id`` it is all, for ``restore`` of a pool. Of all, with
        ``return_token_ids``, also the ids that no chunk has covered yet. The pool goes on.

        Raises UnknownRequestError if there is no such request.

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
        requests = [
            [name, request.decoder.snapshot(), *_uncovered(request.cover)]
            for name, request in self._requests.items()
        ]
        return {"format": FORMAT, "machine": "pool", "requests": requests}

    @classmethod
    def restore(
        cls, tokenizer: Decoder, snapshot: Mapping[str, Any], *, return_token_ids: bool = False
    ) -> Self:
        """The pool that ``snapshot()`` described; ``return_token_ids`` as for the constructor.

        Raises SnapshotMismatchError for another ``tokenizer``, SnapshotError for what is no
        snapshot of a pool; both name the request.
        """
        pool = cls(tokenizer, return_token_ids=return_token_ids)
        for name, data, *uncovered in _requests(snapshot):
            try:
                pool.adopt(name, StopSequenceDecoder.restore(tokenizer, data))
                cover = pool._requests[name].cover
                if uncovered and cover is not None:
                    cover.resume(uncovered[0])
            except SnapshotError as error:
                raise type(error)(f"request {shown(name)}: {error}") from error
            except (RecursionError, TypeError, ValueError) as error:
                raise SnapshotError(f"request {shown(name)}: {error}") from error
        return pool


def _requests(snapshot: Any) -> list[Any]:
    """An id and a snapshot each, and perhaps the ids that are not covered."""
    if not isinstance(snapshot, Mapping) or snapshot.get("machine") != "pool":
        raise SnapshotError(f"not a snapshot of a pool: {shown(snapshot)}")
    if snapshot.get("format") != FORMAT:
        found = snapshot.get("format")
        raise SnapshotError(f"pool format {shown(found)} is not known; this release reads {FORMAT}")
    requests = snapshot.get("requests")
    if isinstance(requests, list) and all(map(_is_request, requests)):
        return requests
    raise SnapshotError(f"requests must be pairs of an id and a snapshot, not {shown(requests)}")


def _is_request(item: object) -> bool:
    return isinstance(item, (list, tuple)) and 2 <= len(item) <= 3


def _uncovered(cover: Covering | None) -> list[Any]:
    """What a request's snapshot has beside its decoder's."""
    return [cover.uncovered_as_json()] if cover is not None and cover.uncovered else []


# --- ends -----------------------------------------------------------------------------------------


def _last_chunk(
    request: _Request, finish_reason: FinishReason
) -> tuple[Chunk, StreamdecError | None]:
    """The end; with why it is not the one that was asked for, if it is not."""
    try:
        return request.stepped.end(finish_reason), None
    except StreamdecError as error:  # a tokenizer that takes back text cannot even end it
        chunk = Chunk(request.stepped.jailed, "error")
        return chunk if request.cover is None else request.cover.covering(chunk), error
