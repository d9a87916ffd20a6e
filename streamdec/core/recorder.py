"""What a stream may note besides its text: its ids, and where each token stands."""

from __future__ import annotations

from typing import Any, cast

from streamdec.core.program import Program
from streamdec.core.programs import AnyProgram
from streamdec.core.rows import LoneRow, Memory, Row
from streamdec.core.spans import SpanRecorder
from streamdec.core.token_ids import check_token_id

__all__ = ["Recorder"]


class Recorder:
    """What a stream notes besides its text: its ids, and where each token stands."""

    __slots__ = ("_primed", "_program", "row", "token_ids", "tracker")

    def __init__(self, program: AnyProgram, primed: Memory, *, tokens: bool, spans: bool) -> None:
        if spans and not (isinstance(program, Program) and program.has_spans):
            raise ValueError(
                "spans=True needs text whose bytes can be told apart by token: the bytes route, "
                "without clean-up or replacements of the finished text"
            )
        self._program = program
        self._primed = primed
        self.row: Row = LoneRow(primed)
        """Where the stream is."""
        self.token_ids: list[int] | None = [] if tokens else None
        self.tracker: SpanRecorder | None = self._tracker() if spans else None

    def _tracker(self) -> SpanRecorder:
        program = cast(Program, self._program)
        waiting = program.token_bytes.waiting(self._primed[0])
        return SpanRecorder(program.token_bytes.errors, self._primed[1], prompt_tokens=waiting)

    def reset(self) -> None:
        """Forgets what was noted."""
        self.token_ids = None if self.token_ids is None else []
        self.tracker = None if self.tracker is None else self._tracker()

    def token(self, memory: Memory, token_id: int) -> None:
        """``token_id`` was stepped from ``memory``."""
        if self.token_ids is not None:
            self.token_ids.append(token_id)
        if self.tracker is not None:
            self.tracker.token(**cast(Program, self._program).contribution(memory, token_id))

    def fits(self, memory: Memory) -> bool:
        """Whether a stream with these notes can be in ``memory``."""
        return self.tracker is None or self.tracker.tail == memory[1]

    def finish(self, memory: Memory) -> None:
        """The stream ends in ``memory``."""
        if self.tracker is not None:
            self.tracker.finish(cast(Program, self._program).token_bytes.flush(memory[0]))

    def fork(self, num_tokens: int) -> Recorder:
        """A copy that goes on alone, of a stream of ``num_tokens``."""
        other = self.load(self._program, self._primed, self.dump(), num_tokens)
        other.row = self.row
        return other

    def dump(self) -> dict[str, Any]:
        """The notes as JSON."""
        return {
            "token_ids": None if self.token_ids is None else self.token_ids.copy(),
            "spans": self.tracker and self.tracker.dump(),
        }

    @classmethod
    def load(cls, program: AnyProgram, primed: Memory, data: Any, num_tokens: int) -> Recorder:
        """The recorder of a stream of ``num_tokens`` that ``dump`` gave ``data`` for."""
        token_ids, spans = data["token_ids"], data["spans"]
        recorder = cls(program, primed, tokens=token_ids is not None, spans=spans is not None)
        if token_ids is not None:
            recorder.token_ids = [check_token_id(token_id) for token_id in token_ids]
            if len(token_ids) != num_tokens:
                raise ValueError(f"{len(token_ids)} token_ids of {num_tokens} tokens")
        if spans is not None:
            errors = cast(Program, program).token_bytes.errors
            recorder.tracker = SpanRecorder.load(errors, spans, num_tokens)
        return recorder
