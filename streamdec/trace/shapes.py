"""What may stand in the JSON lines of a trace, which come from outside.

In: an object that was read. Out: nothing, or a ValueError that names the key, what is there and
what is expected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, get_args

from streamdec.chunks import FinishReason
from streamdec.core.token_ids import MAX_TOKEN_ID

__all__ = ["END", "HEADER", "LAST", "TOKEN", "VERDICT", "Shape", "check"]


class Shape(NamedTuple):
    """What a value may be."""

    expected: str
    fits: Callable[[Any], bool]

    def __or__(self, other: Shape) -> Shape:
        return Shape(
            f"{self.expected} or {other.expected}",
            lambda value: self.fits(value) or other.fits(value),
        )


def check(row: Any, shapes: Mapping[str, Shape]) -> None:
    """Raises ValueError unless ``row`` is an object with these keys alone, and values that fit."""
    if not isinstance(row, dict):
        raise ValueError(f"an object is expected, not {row!r:.40}")
    if missing := shapes.keys() - row.keys():
        raise ValueError(f"without {', '.join(sorted(missing))}")
    if unknown := row.keys() - shapes.keys():
        raise ValueError(f"unknown keys {sorted(unknown)!r:.80}")
    for name, shape in shapes.items():
        if not shape.fits(row[name]):
            raise ValueError(f"{name} is {row[name]!r:.40}, and should be {shape.expected}")


def _one_of(*values: object) -> Shape:
    return Shape(f"one of {values}", lambda value: isinstance(value, str) and value in values)


def _list_of(shape: Shape) -> Shape:
    return Shape(
        f"a list of {shape.expected}",
        lambda value: isinstance(value, (list, tuple)) and all(map(shape.fits, value)),
    )


def _object_of(shape: Shape) -> Shape:
    return Shape(
        f"an object of {shape.expected}",
        lambda value: isinstance(value, dict) and all(map(shape.fits, value.values())),
    )


def _is_hex(value: object) -> bool:
    try:
        return isinstance(value, str) and bytes.fromhex(value).hex() == value
    except ValueError:
        return False


NOTHING = Shape("null", lambda value: value is None)
TEXT = Shape("text", lambda value: isinstance(value, str))
FLAG = Shape("true or false", lambda value: isinstance(value, bool))
COUNT = Shape("a count", lambda value: type(value) is int and value >= 0)
ID = Shape("a token id", lambda value: type(value) is int and 0 <= value <= MAX_TOKEN_ID)
HEX = Shape("bytes in hexadecimal", _is_hex)
REASON = NOTHING | _one_of(*get_args(FinishReason))
STOP = TEXT | _list_of(ID)
PLAIN = NOTHING | FLAG | COUNT | TEXT
ANYTHING = Shape("anything", lambda _: True)

HEADER: Mapping[str, Shape] = {
    "machine": _one_of("decode_stream", "sequence", "stop"),
    "tokenizer": TEXT,
    "tokenizer_class": TEXT,
    "fingerprint": NOTHING | TEXT,
    "route": TEXT,
    "options": _object_of(PLAIN),
    "conditions": NOTHING | _object_of(PLAIN | _list_of(PLAIN | _list_of(PLAIN))),
    "after_prompt": FLAG,
    "snapshot": NOTHING | _object_of(ANYTHING),
    "versions": _object_of(TEXT),
    "redacted": FLAG,
}
TOKEN: Mapping[str, Shape] = {
    "index": COUNT,
    "token_id": NOTHING | ID,
    "piece": NOTHING | TEXT,
    "data": NOTHING | HEX,
    "kind": _one_of("text", "special", "skipped", "unknown"),
    "position": COUNT,
    "text": TEXT,
    "held": HEX,
    "jailed": TEXT,
    "may_become": _list_of(STOP),
    "chunk": COUNT,
    "finish_reason": REASON,
    "stop_reason": NOTHING | ID | STOP,
}
END: Mapping[str, Shape] = {
    "text": TEXT,
    "finish_reason": REASON,
    "stop_reason": NOTHING | ID | STOP,
}
VERDICT: Mapping[str, Shape] = {
    "equal": NOTHING | FLAG,
    "token_index": NOTHING | COUNT,
    "position": NOTHING | COUNT,
    "reason": TEXT,
}
LAST: Mapping[str, Shape] = {
    "end": NOTHING | _object_of(ANYTHING),
    "error": NOTHING | TEXT,
    "verdict": _object_of(ANYTHING),
}
"""The last line."""
