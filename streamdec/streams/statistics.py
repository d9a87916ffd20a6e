"""The statistics of one stream, for the hooks that are called when it ends.

Without a hook, streams have no statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from streamdec.chunks import Chunk, FinishReason
from streamdec.core.stepping import decoder_behind
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.hooks import Hook, StopKind, StreamEnded, tell, type_of


class StreamStatistics:
    """Steps a machine, and counts its chunks. The machine itself counts its tokens.

    Args:
        machine: any decoder, or a tracer of one.
        step: returns the chunk of one id.
        feed: returns the chunk of several ids.
        hooks: the hooks to call at the end.
    """

    __slots__ = (
        *("_before", "_chunks", "_feed", "_frozen", "_held", "_hooks", "_jailed", "_machine"),
        *("_most", "_step"),
    )

    def __init__(
        self,
        machine: Any,
        step: Callable[[Any], Chunk],
        feed: Callable[[Sequence[SupportsIndex]], Chunk],
        hooks: tuple[Hook, ...],
    ) -> None:
        self._machine: Any = decoder_behind(machine)
        self._step, self._feed = step, feed
        self._hooks = hooks
        self._chunks = 0
        """Chunks with text, without the last chunk of the stream."""
        self._held = self._jailed = 0
        """Steps without text after which bytes were held, and after which text was jailed."""
        self._most = [0, 0, 0]
        """The most bytes held, code points jailed, and pending tokens after such steps."""
        self._before = self._counts()
        self._frozen: tuple[int, ...] | None = None
        """The counts when others were allowed to step the machine; None if they were not."""

    def _counts(self) -> tuple[int, ...]:
        """Return how many tokens, code points and unknown ids the machine counted."""
        machine = self._machine
        return machine.num_tokens, machine.num_characters, machine.unknown_tokens

    def step(self, token_id: SupportsIndex) -> Chunk:
        """Return the chunk of one id."""
        chunk = self._step(token_id)
        self._note(chunk)
        return chunk

    def feed(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """Return the chunk of several ids."""
        chunk = self._feed(token_ids)
        if len(token_ids):
            self._note(chunk)
        return chunk

    def _note(self, chunk: Chunk) -> None:
        if chunk.finish_reason is not None:
            return  # ``end`` counts the last chunk
        if chunk.text:
            self._chunks += len(chunk.split())
            return
        machine = self._machine
        held, jailed = machine.held, machine.jailed
        self._held += bool(held)
        self._jailed += bool(jailed)
        if held or jailed:
            now = len(held), len(jailed), machine.num_pending_tokens
            self._most = [*map(max, self._most, now)]

    def freeze(self) -> None:
        """Count no more, because others may step the machine."""
        self._frozen = self._counts()

    def end(self, last: Chunk | None, error: BaseException | None) -> None:
        """Call the hooks for the end of the stream.

        Args:
            last: the last chunk; None if the stream was closed before its end.
            error: what ended the stream, if it was an error.
        """
        reason: FinishReason = "abort"
        chunks = self._chunks
        if last is not None:
            reason = last.finish_reason or reason
            chunks += len(last.split()) if last.text else 0
        if isinstance(error, Exception):
            reason = "error"
        counts = zip(self._frozen or self._counts(), self._before, strict=True)
        tokens, characters, unknown_tokens = (now - before for now, before in counts)
        held_bytes, jailed_characters, pending_tokens = self._most
        event = StreamEnded(
            tokenizer_type=type_of(self._machine.tokenizer),
            route=self._machine.route,
            finish_reason=reason,
            stop_kind=self._stop_kind() if reason == "stop" else None,
            error_type=type(error).__name__ if isinstance(error, Exception) else None,
            tokens=tokens,
            chunks=chunks,
            characters=characters,
            unknown_tokens=unknown_tokens,
            held_tokens=self._held,
            jailed_tokens=self._jailed,
            max_held_bytes=held_bytes,
            max_jailed_characters=jailed_characters,
            max_pending_tokens=pending_tokens,
            ends_incomplete=last is not None and last.text.endswith("\ufffd"),
        )
        tell(self._hooks, "stream_ended", event)

    def _stop_kind(self) -> StopKind:
        machine = self._machine
        match = machine.match if isinstance(machine, StopSequenceDecoder) else None
        if match is None:
            return "engine"
        if match.stop is None:
            return "eos"
        if isinstance(match.stop, str):
            return "regex" if match.stop in machine.conditions.stop_regex else "string"
        return "token_id"
