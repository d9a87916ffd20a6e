"""Checks of the JSON lines of a trace, which come from outside.

In: an object that was read, and the dataclass that it becomes. Out: nothing, or a ValueError that
names the key, its value and what is expected. What a field may be is its annotation: bytes are
hexadecimal in JSON, tuples are lists, and integers are counts or token ids.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from streamdec.core.token_ids import MAX_TOKEN_ID

__all__ = ["check"]


def check(row: Any, kind: type) -> None:
    """Raise ValueError unless ``row`` is an object with the fields of ``kind`` and no others."""
    if not isinstance(row, dict):
        raise ValueError(f"expected an object, got {row!r:.40}")
    hints = _hints(kind)
    if missing := hints.keys() - row.keys():
        raise ValueError(f"without {', '.join(sorted(missing))}")
    if unknown := row.keys() - hints.keys():
        raise ValueError(f"unknown keys {sorted(unknown)!r:.80}")
    for name, hint in hints.items():
        if not _fits(row[name], hint):
            expected = str(getattr(hint, "__name__", hint)).replace("typing.", "")
            raise ValueError(f"{name} is {row[name]!r:.40}, expected {expected:.100}")


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether ``value`` is the JSON of something of the type ``hint``."""
    inner = get_args(hint)
    match get_origin(hint) or hint:
        case origin if origin in (Union, UnionType):
            return any(_fits(value, each) for each in inner)
        case origin if origin is Literal:
            return isinstance(value, str) and value in inner
        case origin if origin is tuple:
            return isinstance(value, (list, tuple)) and all(_fits(v, inner[0]) for v in value)
        case origin if origin is Mapping:
            return isinstance(value, dict) and all(_fits(v, inner[1]) for v in value.values())
        case kind if kind is Any:
            return True
        case kind if kind is NoneType:
            return value is None
        case kind if kind is bytes:
            return _is_hex(value)
        case kind if kind is int:
            return type(value) is int and 0 <= value <= MAX_TOKEN_ID
        case kind:
            return isinstance(value, kind)


def _is_hex(value: object) -> bool:
    try:
        return isinstance(value, str) and bytes.fromhex(value).hex() == value
    except ValueError:
        return False
