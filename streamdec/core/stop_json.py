"""The memory and the end of a stream with stops as JSON, and back.

Short, because a server may hold one for each of its streams: what is as at rest, or can be told
from the rest, is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import Any, get_args

from streamdec.chunks import Chunk, FinishReason, StopMatch, StopReason
from streamdec.core.stop_memory import Ages, Gate, StopMemory
from streamdec.core.stop_program import StopProgram
from streamdec.core.token_ids import check_token_id

__all__ = ["dump", "dump_end", "load", "load_end"]


def dump(program: StopProgram, memory: StopMemory) -> dict[str, Any]:
    """``memory`` as JSON.

    Of tokens that may begin a sequence come the ids (``live``), and all else is as before them.
    """
    if memory.live:
        before = memory.live[0].memory
        # What it withheld for a sequence that is dead by now is out.
        before = before._replace(withheld=program.gated.matcher.jailed(before.tail))
        return dump(program, before) | {"live": [mark.token_id for mark in memory.live]}
    rest: StopMemory = program.rest
    found: dict[str, Any] = {
        name: _short(value) if name.endswith("_ages") else value
        for name, value in memory._asdict().items()
        if name not in ("core", "live", "gate", "tail") and value != getattr(rest, name)
    }
    if memory.tail != memory.withheld:
        found["tail"] = memory.tail
    if found.get("tail_ages") == 1:  # most often what is jailed came with the last token
        del found["tail_ages"]
    core = program.decode.dump(memory.core)
    if core:
        found["core"] = core
    if memory.gate != rest.gate and memory.gate is not None:
        found["gate"] = list(memory.gate)
    return found


def _short(ages: Any) -> Any:
    """A list; one number if all are equal."""
    return ages[0] if len({*ages}) == 1 and isinstance(ages[0], int) else list(ages)


def load(program: StopProgram, data: Any, num_tokens: int) -> StopMemory:
    """The memory after ``num_tokens`` that ``dump`` gave ``data`` for.

    ValueError, TypeError or KeyError if there is none.
    """
    unknown = data.keys() - {*StopMemory._fields}
    if unknown:
        raise ValueError(f"unexpected {sorted(map(str, unknown))}")
    live = [check_token_id(token_id) for token_id in data.get("live", [])]
    if len(live) > num_tokens:
        raise ValueError(f"{len(live)} live tokens of {num_tokens}")
    rest: StopMemory = program.rest
    core: Any = program.decode.settled(program.decode.load(data.get("core", {})))
    pending, waiting, _ = program.decode.waiting(core)
    withheld = _text(data.get("withheld", ""))
    tail = _text(data.get("tail", withheld))
    gate = data.get("gate", rest.gate)
    if isinstance(gate, list):
        gate = Gate(_flag(gate[0]), _text(gate[1]), _number(gate[2]))
    memory = StopMemory(
        core,
        _ages(data.get("pending_ages", rest.pending_ages), pending),
        _ages(data.get("waiting_ages", rest.waiting_ages), waiting),
        tuple(_ages(each, 1) for each in data.get("tails_ages", rest.tails_ages)),
        withheld,
        tail,
        _ages(data.get("tail_ages", 1), len(tail)),
        gate,
    )
    problem = _first_problem(program, memory, num_tokens - len(live))
    if problem:
        raise ValueError(f"{problem} cannot be so under these conditions")
    memory = program.replay(memory, live)
    if [mark.token_id for mark in memory.live] != live:
        raise ValueError("live tokens that begin no sequence")
    return memory


def _first_problem(program: StopProgram, memory: StopMemory, num_tokens: int) -> str:
    """The field of a memory from outside that no stream can have; "" if all is well.

    The memory is of ``num_tokens`` tokens, and of none that may begin a sequence.
    """
    gate, matcher = memory.gate, program.gated.matcher
    pending, waiting, tails = program.decode.waiting(memory.core)
    all_ages = (*memory.ages_below(), *memory.tail_ages)
    checks: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("ages", lambda: all(0 < age <= num_tokens + 1 for age in all_ages)),
        ("pending_ages", lambda: len(memory.pending_ages) == pending),
        ("waiting_ages", lambda: len(memory.waiting_ages) == waiting),
        ("tails_ages", lambda: [*tails] == [*map(len, memory.tails_ages)]),
        ("gate", lambda: program.gated.is_gate(gate)),
        ("gate", lambda: gate is None or 0 <= gate.turned <= max(memory.ages_below(), default=0)),
        ("tail behind a closed gate", lambda: not (memory.tail and gate and not gate.is_open)),
        ("tail", lambda: matcher.is_tail(memory.tail)),
        ("tail_ages", lambda: len(memory.tail_ages) == len(memory.tail)),
        ("withheld", lambda: memory.withheld == matcher.jailed(memory.tail)),
    )
    return next((field for field, holds in checks if not holds()), "")


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


def load_end(
    program: StopProgram, end: Any, match: Any, num_tokens: int
) -> tuple[Chunk | None, StopMatch | None]:
    """The chunk and the match whose fields these are. ValueError or TypeError if none."""
    if end is None:
        if match is not None:
            raise ValueError("a match, and no end")
        return None, None
    text, reason, stop = end
    if reason not in get_args(FinishReason):
        raise ValueError(f"end must be a text, a finish reason and a stop, not {end!r:.80}")
    last = Chunk(_text(text), reason, _stop_reason(program, stop))
    if match is None:
        return last, None
    visible, *numbers = match
    if len(numbers) != 6:
        raise ValueError(f"match must be a flag and six counts, not {match!r:.80}")
    for place, number in enumerate(numbers):
        if number is not None or place != 4:
            _number(number)
    found = StopMatch(last.stop_reason, _flag(visible), *numbers)
    if not (
        0 <= found.start <= found.end <= found.byte_end
        and found.start <= found.byte_start <= found.byte_end
        and 0 <= found.tokens_before <= num_tokens
        and (found.token_index is None or 0 <= found.token_index < num_tokens)
    ):
        raise ValueError(f"a match that no stream of {num_tokens} tokens has: {match!r:.80}")
    return last, found


def _stop_reason(program: StopProgram, data: Any) -> StopReason:
    reason = tuple(data) if isinstance(data, list) else data
    conditions = program.conditions
    known = (
        *conditions.stop,
        *conditions.visible_stop,
        *conditions.stop_regex,
        *conditions.stop_token_ids,
        *conditions.visible_stop_token_ids,
        *conditions.stop_token_sequences,
    )
    if reason is not None and (isinstance(reason, bool) or reason not in known):
        raise ValueError(f"{data!r:.80} is no stop of these conditions")
    return reason


# --- what may stand in a field


def _number(value: Any) -> int:
    if type(value) is not int or abs(value) >= 2**40:
        raise ValueError(f"expected a number, got {value!r:.40}")
    return value


def _ages(values: Any, size: int) -> Ages:
    """Several ages; or one number, which stands for ``size`` of them."""
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
