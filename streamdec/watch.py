"""What one stream did, counted for the hooks that are told of its end.

In: a machine that is about to run, and its face. Out: the face to be used instead, and at the end a
StreamEnded. A stream of which no hook is to be told has no Watch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple, SupportsIndex

from streamdec.chunks import NOTHING, Chunk, FinishReason, Withheld
from streamdec.core.rows import CODE, CODES
from streamdec.core.sequence import Sequence as TokenSequence
from streamdec.core.stop_sequence import StopSequenceDecoder
from streamdec.hooks import Hook, StopKind, StreamEnded, tell, type_of
from streamdec.machines import Face, FaceBefore

__all__ = ["MAX_CODES", "Watch"]

MAX_CODES = 4_096
"""Bytes that are noted before they are looked at."""


class _Counts(NamedTuple):
    """What is counted anyway."""

    tokens: int
    characters: int
    unknown: int


class Watch:
    """The counts of one stream, on any of the three machines or on what stands before one.

    A token that is stepped alone and gives text costs nothing: machines count tokens and letters
    anyway, and there are as many chunks as tokens, but for those that are noted here.
    """

    __slots__ = (
        "_before",
        "_characters",
        "_has_last",
        "_held",
        "_hooks",
        "_jailed",
        "_machine",
        "_most",
        "_not_chunks",
        "codes",
    )

    def __init__(self, machine: Any, hooks: tuple[Hook, ...]) -> None:
        self._machine: Any = getattr(machine, "decoder", machine)
        self._hooks = hooks
        self.codes = bytearray()
        """Of how much was withheld after single tokens without text, on a StopSequenceDecoder."""
        self._not_chunks = 0
        self._has_last: bool | None = None
        self._characters = 0
        self._held = self._jailed = 0
        self._most = Withheld()
        self._before = self._counts()

    def face(self, face: Face) -> Face:
        """The face by which the stream is to step its machine."""
        return _Watched(face, self, is_counted=isinstance(self._machine, StopSequenceDecoder))

    def _counts(self) -> _Counts:
        machine = self._machine
        if isinstance(machine, StopSequenceDecoder):
            return _Counts(machine.num_tokens, machine.num_characters, machine.unknown_tokens)
        if isinstance(machine, TokenSequence):
            return _Counts(len(machine), self._characters, machine._stream.unknown_tokens)
        return _Counts(machine.num_tokens, self._characters, machine.unknown_tokens)

    # --- while it runs

    def silent(self) -> None:
        """A step gave no text, and was not the end."""
        codes = self.codes
        try:
            codes.append(self._machine._row[CODE])
        except (AttributeError, LookupError, TypeError):
            self._note()
        if len(codes) >= MAX_CODES:
            self.look()

    def _note(self) -> None:
        """``silent``, where the machine's row does not know how much it withholds."""
        machine = self._machine
        if isinstance(machine, StopSequenceDecoder):
            with suppress(LookupError):  # there are more amounts than codes
                self.codes.append(machine._program.code(machine._row))
                return
        self._not_chunks += 1
        self._look(machine.withheld, 1)

    def look(self, at_least: int = 1) -> None:
        """Looks at what was noted, if it is so much."""
        if len(self.codes) < at_least:
            return
        self._not_chunks += len(self.codes)
        for code in set(self.codes):
            self._look(CODES.meanings[code], self.codes.count(code))
        self.codes.clear()

    def _look(self, withheld: Withheld, times: int) -> None:
        if withheld.num_bytes:
            self._held += times
        if withheld.characters:
            self._jailed += times
        self._most = Withheld(*map(max, self._most, withheld))

    def stepped(self, chunk: Chunk) -> None:
        """``chunk`` came of a machine that does not count its letters."""
        self._characters += len(chunk.text)

    def together(self, num_tokens: int, chunk: Chunk, *, is_end: bool) -> None:
        """So many tokens were stepped together, and gave ``chunk``."""
        self._not_chunks += num_tokens - (bool(chunk.text) if is_end or not num_tokens else 1)
        if is_end:
            self._has_last = bool(chunk.text)

    def flushed(self, chunk: Chunk) -> None:
        """The machine was flushed, and gave ``chunk``."""
        # What came before an error may have gone into the same chunk.
        self._not_chunks -= bool(chunk.text) and not self._has_last
        self._has_last = bool(chunk.text)

    # --- its end

    def end(self, last: Chunk | None, error: BaseException | None) -> None:
        """Tells of the end: by ``last``, by ``error``, or because nobody wanted more."""
        self.look()
        reason: FinishReason = "abort"
        if last is not None and last.finish_reason is not None:
            reason = last.finish_reason
            self._not_chunks += self._has_last is None and not last.text
        if isinstance(error, Exception):
            reason = "error"
        now, before = self._counts(), self._before
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
            max_held_bytes=self._most.num_bytes,
            max_jailed_characters=self._most.characters,
            max_withheld_tokens=self._most.tokens,
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
        return "token_sequence" if isinstance(match.stop, tuple) else "token_id"


class _Watched(FaceBefore):
    """A face whose Watch learns what only shows here."""

    def __init__(self, face: Face, watch: Watch, *, is_counted: bool) -> None:
        """``is_counted``: the machine counts its letters, so that single steps need no look."""
        super().__init__(face)
        self._watch = watch
        self.step = face.step if is_counted else self._step
        self._is_counted = is_counted

    def _step(self, token_id: SupportsIndex) -> Chunk:
        chunk = self._face.step(token_id)
        self._watch.stepped(chunk)
        return chunk

    def step_batch(self, token_ids: Sequence[SupportsIndex]) -> Chunk:
        """See Face."""
        try:
            chunk = self._face.step_batch(token_ids)
        except Exception as error:
            before: Chunk = getattr(error, "chunk", None) or NOTHING
            self._stepped_together(getattr(error, "num_taken", 0), before, is_end=True)
            raise
        taken = len(token_ids) - chunk.unread_tokens
        self._stepped_together(taken, chunk, is_end=chunk.finish_reason is not None)
        return chunk

    def _stepped_together(self, num_tokens: int, chunk: Chunk, *, is_end: bool) -> None:
        self._watch.together(num_tokens, chunk, is_end=is_end)
        if not self._is_counted:
            self._watch.stepped(chunk)

    def flush(self, finish_reason: FinishReason) -> Chunk:
        """See Face."""
        chunk = self._face.flush(finish_reason)
        self._watch.flushed(chunk)
        if not self._is_counted:
            self._watch.stepped(chunk)
        return chunk
