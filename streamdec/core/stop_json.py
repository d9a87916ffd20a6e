"""The memory of a stream with stops as JSON, and back."""

from __future__ import annotations

from typing import Any

from streamdec.core.counting import count_of, text_in
from streamdec.core.stop_memory import Ages, Gate, Mark, StopMemory
from streamdec.core.stop_program import StopProgram
from streamdec.core.token_ids import check_token_id

__all__ = ["dump", "load"]


def dump(program: StopProgram, memory: StopMemory) -> dict[str, Any]:
    """``memory`` as JSON; what is as at rest is left out."""
    rest: StopMemory = program.rest
    found: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in memory._asdict().items()
        if name not in ("core", "live") and value != getattr(rest, name)
    }
    core = program.decode.dump(memory.core)
    if core:
        found["core"] = core
    if memory.live:
        found["live"] = [
            [mark.token_id, dump(program, mark.memory), text_in(mark.given), text_in(mark.spared)]
            for mark in memory.live
        ]
    return found


def load(program: StopProgram, data: Any, *, is_mark: bool = False) -> StopMemory:
    """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none.

    ``is_mark``: it is of a mark, and may withhold what waits for a sequence that began before.
    """
    unknown = data.keys() - {*StopMemory._fields}
    if unknown:
        raise ValueError(f"unexpected {sorted(map(str, unknown))}")
    rest: StopMemory = program.rest
    gate = data.get("gate", rest.gate)
    if isinstance(gate, list):
        gate = Gate(_flag(gate[0]), _text(gate[1]), _number(gate[2]))
    memory = StopMemory(
        program.settled(program.decode.load(data.get("core", {}))),
        _numbers(data.get("pending_ages", rest.pending_ages)),
        _numbers(data.get("waiting_ages", rest.waiting_ages)),
        tuple(_numbers(each) for each in data.get("tails_ages", rest.tails_ages)),
        _text(data.get("withheld", "")),
        _text(data.get("tail", "")),
        _numbers(data.get("tail_ages", ())),
        gate,
        tuple(_mark(program, each) for each in data.get("live", [])),
    )
    problem = program.first_problem(memory, is_mark=is_mark)
    if problem:
        raise ValueError(f"{problem} cannot be so under these conditions")
    return memory


def _mark(program: StopProgram, data: Any) -> Mark:
    token_id, before, given, spared = data
    return Mark(
        check_token_id(token_id),
        load(program, before, is_mark=True),
        count_of(0, *_numbers(given)),
        count_of(0, *_numbers(spared)),
    )


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 2**40:
        raise ValueError(f"expected a number, got {value!r:.40}")
    return value


def _numbers(values: Any) -> Ages:
    return tuple(_number(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r:.40}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r:.40}")
    return value
