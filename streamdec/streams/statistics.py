"""The statistics of one stream, for the hooks that are called when it ends.

In: a machine that is about to run, and the chunks of its steps. Out: a StreamEnded. A stream has
statistics only if a hook is installed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from streamdec.chunks import Chunk, FinishReason, joined
from streamdec.core.stepping import decoder_behind
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.hooks import Hook, StopKind, StreamEnded, tell, type_of


class _Counts(NamedTuple):
    """The counts that a machine keeps."""

    tokens: int
    characters: int
    unknown: int


class _Most(NamedTuple):
    """The most that a machine held and jailed, of each kind."""

    held_bytes: int = 0
    jailed_characters: int = 0
    pending_tokens: int = 0


class StreamStatistics:
    """The counts of one stream, whose machine may be any decoder or a tracer of one.

    Most tokens have their own chunk. The machine counts its tokens, and this object only notes the
    tokens without their own chunk. So a token with text needs no call.

    Args:
        machine: the machine of the stream.
        hooks: the hooks to call at the end.
    """

    __slots__ = (
        "_before",
        "_frozen",
        "_held",
        "_hooks",
        "_jailed",
        "_last",
        "_machine",
        "_most",
        "_not_chunks",
    )

    def __init__(self, machine: Any, hooks: tuple[Hook, ...]) -> None:
        self._machine: Any = decoder_behind(machine)
        self._hooks = hooks
        self._not_chunks = 0
        """Tokens without their own chunk, minus chunks without their own token."""
        self._last: Chunk | None = None
        """The last chunk; None until it was counted."""
        self._held = self._jailed = 0
        """Steps without text after which bytes were held, and after which text was jailed."""
        self._most = _Most()
        self._before = self._counts()
        self._frozen: _Counts | None = None
        """The counts when others were allowed to step the machine; None if they were not."""

    def _counts(self) -> _Counts:
        machine = self._machine
        return _Counts(machine.num_tokens, machine.num_characters, machine.unknown_tokens)

    # --- while it runs

    def note_empty_step(self) -> None:
        """Note a step without text that was not the end."""
        self._not_chunks += 1
        machine = self._machine
        held, jailed = machine.held, machine.jailed
        self._held += bool(held)
        self._jailed += bool(jailed)
        if held or jailed:
            now = len(held), len(jailed), machine.num_pending_tokens
            self._most = _Most(*map(max, self._most, now))

    def note_batch(self, num_tokens: int, chunk: Chunk, *, is_end: bool) -> None:
        """Note that ``chunk`` is the chunk of ``num_tokens`` tokens of one call."""
        self._not_chunks += num_tokens - (bool(chunk.text) if is_end or not num_tokens else 1)
        self.note_parts(chunk)
        if is_end:
            self._last = chunk

    def note_parts(self, chunk: Chunk) -> None:
        """Note that ``chunk`` is output in a part for each section."""
        self._not_chunks -= len(chunk.split()) - 1

    def note_flush(self, chunk: Chunk) -> None:
        """Note the ``chunk`` of the flush."""
        # After an error, the text before it and the flushed text are joined.
        size = 0 if self._last is None else _num_chunks(self._last)
        whole = chunk if self._last is None else joined(self._last, chunk)
        self._not_chunks -= _num_chunks(whole) - size
        self._last = whole

    # --- its end

    def freeze(self) -> None:
        """Count no more, because others may step the machine."""
        self._frozen = self._counts()

    def end(self, last: Chunk | None, error: BaseException | None) -> None:
        """Call the hooks for the end of the stream.

        Without ``last`` and ``error``, the stream was closed before its end.
        """
        reason: FinishReason = "abort"
        if last is not None and last.finish_reason is not None:
            reason = last.finish_reason
            self._not_chunks += self._last is None and not last.text
        if isinstance(error, Exception):
            reason = "error"
        now, before = self._frozen or self._counts(), self._before
        tokens = now.tokens - before.tokens
        event = StreamEnded(
            tokenizer_type=type_of(self._machine.tokenizer),
            route=self._machine.route,
            finish_reason=reason,
            stop_kind=self._stop_kind() if reason == "stop" else None,
            error_type=type(error).__name__ if isinstance(error, Exception) else None,
            tokens=tokens,
            chunks=tokens - self._not_chunks,
            characters=now.characters - before.characters,
            unknown_tokens=now.unknown - before.unknown,
            held_tokens=self._held,
            jailed_tokens=self._jailed,
            max_held_bytes=self._most.held_bytes,
            max_jailed_characters=self._most.jailed_characters,
            max_pending_tokens=self._most.pending_tokens,
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


def _num_chunks(chunk: Chunk) -> int:
    return len(chunk.split()) if chunk.text else 0
