"""The memory and the end of a stream with stops as JSON, and back.

Short, because a server may hold one for each of its streams: what is as at rest, or can be told
from the rest, is left out.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any, get_args

from streamdec.chunks import Chunk, FinishReason, StopMatch, StopReason
from streamdec.core.counting import count_of, text_in
from streamdec.core.program import Program
from streamdec.core.stop_memory import Ages, Gate, Mark, StopMemory
from streamdec.core.stop_program import StopProgram
from streamdec.core.token_ids import check_token_id

__all__ = ["dump", "dump_end", "load", "load_end"]


def dump(program: StopProgram, memory: StopMemory) -> dict[str, Any]:
    """``memory`` as JSON."""
    rest: StopMemory = program.rest
    found: dict[str, Any] = {
        name: _ages(value) if name.endswith("_ages") else value
        for name, value in memory._asdict().items()
        if name not in ("core", "live", "gate") and value != getattr(rest, name)
    }
    found.pop("tail", None)
    if memory.tail != memory.withheld:
        found["tail"] = memory.tail
    core = program.decode.dump(memory.core)
    if core:
        found["core"] = core
    if memory.gate != rest.gate and memory.gate is not None:
        found["gate"] = list(memory.gate)
    if memory.live:
        found["live"] = [
            [
                mark.token_id,
                dump(program, mark.memory),
                list(text_in(mark.given)),
                list(text_in(mark.spared)),
            ]
            for mark in memory.live
        ]
    return found


def _ages(ages: Any) -> Any:
    """A list; one number if all are equal."""
    return ages[0] if ages and len({*ages}) == 1 and isinstance(ages[0], int) else list(ages)


def load(program: StopProgram, data: Any, *, is_mark: bool = False) -> StopMemory:
    """The memory that ``dump`` gave ``data`` for. ValueError, TypeError or KeyError if none.

    ``is_mark``: it is of a mark, and may withhold what waits for a sequence that began before.
    """
    unknown = data.keys() - {*StopMemory._fields}
    if unknown:
        raise ValueError(f"unexpected {sorted(map(str, unknown))}")
    rest: StopMemory = program.rest
    core: Any = program.settled(program.decode.load(data.get("core", {})))
    withheld = _text(data.get("withheld", ""))
    tail = _text(data.get("tail", withheld))
    gate = data.get("gate", rest.gate)
    if isinstance(gate, list):
        gate = Gate(_flag(gate[0]), _text(gate[1]), _number(gate[2]))
    pending = len(core[1]) if isinstance(program.decode, Program) else 0
    memory = StopMemory(
        core,
        _numbers(data.get("pending_ages", rest.pending_ages), pending),
        _numbers(data.get("waiting_ages", rest.waiting_ages)),
        tuple(_numbers(each) for each in data.get("tails_ages", rest.tails_ages)),
        withheld,
        tail,
        _numbers(data.get("tail_ages", ()), len(tail)),
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


# --- the end


def dump_end(end: Chunk | None, match: StopMatch | None) -> dict[str, Any]:
    """The last chunk and the match as fields of a snapshot."""
    found: dict[str, Any] = {}
    if end is not None:
        stop = end.stop_reason
        found["end"] = [
            end.text,
            end.finish_reason,
            list(stop) if isinstance(stop, tuple) else stop,
        ]
    if match is not None:
        found["match"] = list(astuple(match)[1:])
    return found


def load_end(end: Any, match: Any) -> tuple[Chunk | None, StopMatch | None]:
    """The chunk and the match whose fields these are. ValueError or TypeError if none."""
    if end is None:
        if match is not None:
            raise ValueError("a match, and no end")
        return None, None
    text, reason, stop = end
    if reason not in get_args(FinishReason):
        raise ValueError(f"end must be a text, a finish reason and a stop, not {end!r:.80}")
    last = Chunk(_text(text), reason, _stop_reason(stop))
    if match is None:
        return last, None
    visible, *numbers = match
    if len(numbers) != 6 or not all(type(n) is int or n is None for n in numbers):
        raise ValueError(f"match must be a flag and six counts, not {match!r:.80}")
    return last, StopMatch(last.stop_reason, _flag(visible), *numbers)


def _stop_reason(data: Any) -> StopReason:
    reason = tuple(data) if isinstance(data, list) else data
    plain = reason if isinstance(reason, tuple) else (reason,)
    if not all(isinstance(each, (str, int, type(None))) for each in plain):
        raise ValueError(f"a stop is a string, an id or ids, not {data!r:.80}")
    return reason


# --- what may stand in a field


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 2**40:
        raise ValueError(f"expected a number, got {value!r:.40}")
    return value


def _numbers(values: Any, size: int = 1) -> Ages:
    """Several numbers; or one, which stands for ``size`` of them."""
    if isinstance(values, int):
        return (_number(values),) * size
    return tuple(_number(value) for value in values)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a string, got {value!r:.40}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {value!r:.40}")
    return value
