r"""A wrapper that steps a decoder, adds token ids to its chunks, and counts them for hooks.

A token belongs to the chunk that completes its text. A token without text belongs to the next
chunk that has text. So a chunk with text takes all ids that wait, except the last
``num_pending_tokens`` ones: these begin with the oldest token whose text is held or jailed. The
last chunk takes all.

>>> from streamdec import MockTokenizer, iter_chunks
>>> tokenizer = MockTokenizer.from_tokens([b"caf", b"\xc3", b"\xa9"])
>>> chunks = iter_chunks([0, 1, 2], tokenizer, return_token_ids=True)
>>> [(chunk.text, chunk.token_ids) for chunk in chunks]
[('caf', (0,)), ('é', (1, 2)), ('', ())]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, chunk_before, with_token_ids
from streamdec.core.stepping import decoder_behind, methods_of
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.hooks import Hook, StopKind, StreamEnded, tell, type_of


class Observer:
    """Steps a decoder, adds token ids to its chunks, and counts for ``hooks``.

    ``waiting`` has the ids that have no chunk yet; it is None if chunks have no ids.
    """

    _chunks = _characters = 0
    """Chunks with text, and their code points, without the last chunk of the stream."""
    _held = _jailed = 0
    """Steps without text after which bytes were held, and after which text was jailed."""
    _most: tuple[int, ...] = (0, 0, 0)
    """The most bytes held, code points jailed, and pending tokens after such steps."""

    def __init__(self, decoder: Any, waiting: Iterable[int] | None, hooks: Sequence[Hook]) -> None:
        self._decoder, self._hooks = decoder_behind(decoder), hooks
        self._step, self._feed = methods_of(decoder)
        self._adds_ids = waiting is not None
        self.waiting: list[int] = [*(waiting or ())]
        self._before = (self._decoder.num_tokens, self._decoder.unknown_tokens) if hooks else (0, 0)

    def step(self, token_id: SupportsIndex) -> Chunk:
        """Return the chunk of an id, with ids if it has text or a finish reason."""
        chunk = self._step(token_id)
        if self._adds_ids:
            self.waiting.append(token_id.__index__())
            chunk = self.with_ids(chunk)
        if self._hooks and chunk.finish_reason is None:  # ``report`` counts the last chunk
            self._count(chunk)
        return chunk

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return the chunk of several ids, as ``step`` does."""
        try:
            chunk = self._feed(token_ids)
        except Exception as error:
            if self._adds_ids:
                self._wait(token_ids[: getattr(error, "num_taken", 0)])
                error.chunk = self.with_ids(chunk_before(error))  # type: ignore[attr-defined]
            raise
        if self._adds_ids:
            self._wait(token_ids[: len(token_ids) - chunk.unread_tokens])
            chunk = self.with_ids(chunk)
        if self._hooks and len(token_ids) and chunk.finish_reason is None:
            self._count(chunk)
        return chunk

    def _wait(self, token_ids: Iterable[SupportsIndex]) -> None:
        self.waiting += [token_id.__index__() for token_id in token_ids]

    def with_ids(self, chunk: Chunk) -> Chunk:
        """Return the newest ``chunk`` with the ids that belong to it. They wait no more."""
        waiting, size = self.waiting, len(self.waiting)
        if chunk.finish_reason is None:
            if not chunk.text:
                return chunk
            size -= self._decoder.num_pending_tokens
        if size <= 0:
            return chunk
        token_ids = tuple(waiting[:size])
        del waiting[:size]
        return with_token_ids(chunk, token_ids)

    def _count(self, chunk: Chunk) -> None:
        if chunk.text:
            self._chunks += len(chunk.split())
            self._characters += len(chunk.text)
            return
        decoder = self._decoder
        held, jailed = decoder.held, decoder.jailed
        self._held += bool(held)
        self._jailed += bool(jailed)
        if held or jailed:
            now = len(held), len(jailed), decoder.num_pending_tokens
            self._most = tuple(map(max, self._most, now))

    def report(self, last: Chunk | None, error: BaseException | None) -> None:
        """Call the hooks for the end, with the ``last`` chunk or an ``error`` if any."""
        if not self._hooks:
            return
        is_failure, last = isinstance(error, Exception), last or NOTHING
        reason: FinishReason = "error" if is_failure else last.finish_reason or "abort"
        if last.text:
            self._count(last)
        tokens_before, unknown_before = self._before
        held_bytes, jailed_characters, pending_tokens = self._most
        event = StreamEnded(
            tokenizer_type=type_of(self._decoder.tokenizer),
            route=self._decoder.route,
            finish_reason=reason,
            stop_kind=self._stop_kind() if reason == "stop" else None,
            error_type=type(error).__name__ if is_failure else None,
            tokens=self._decoder.num_tokens - tokens_before,
            chunks=self._chunks,
            characters=self._characters,
            unknown_tokens=self._decoder.unknown_tokens - unknown_before,
            held_tokens=self._held,
            jailed_tokens=self._jailed,
            max_held_bytes=held_bytes,
            max_jailed_characters=jailed_characters,
            max_pending_tokens=pending_tokens,
            ends_incomplete=last.text.endswith("\ufffd"),
        )
        tell(self._hooks, "stream_ended", event)

    def _stop_kind(self) -> StopKind:
        decoder = self._decoder
        match = decoder.match if isinstance(decoder, StopSequenceDecoder) else None
        if match is None:
            return "engine"
        if match.stop is None:
            return "eos"
        if isinstance(match.stop, str):
            return "regex" if match.stop in decoder.conditions.stop_regex else "string"
        return "token_id"
