"""Make an input from a known one, by edits of bytes or of JSON.

Each edit takes its choices from the given ``random.Random``, so that libFuzzer's seed or hypothesis
controls them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

__all__ = ["Edit", "edit_bytes", "edit_json", "json_edit", "smaller"]

Edit = Callable[[bytes, random.Random], bytes]

LONGEST = 8_192
"""The most bytes of an input."""
ODD_BYTES = [b"\x00", b"\xff", b"\x80", b"\n", b"\r\n", b'"', b"\xed\xa0", b"\xf0\x9f\x98"]
ODD_BYTES += [b"\xff\xff\xff\xff", b"\x00" * 8, b"\x7f\xff\xff\xff\xff\xff\xff\xff", b"9" * 20]
ODD_NUMBERS = [0, 1, -1, 2, 255, 256, 2**31, 2**32 - 1, 2**32, 2**40, 2**63, 2**64, 10**20]
ODD_VALUES: list[Any] = [None, True, False, "", "a", "\ufffd", "\ud800", "\x00", [], {}, [[]]]
ODD_VALUES += [1.5, 1e400, float("nan"), [None], {"": 0}, [[[[[[]]]]]], "a" * 200, [0] * 50]


# --- bytes ----------------------------------------------------------------------------------------


def edit_bytes(data: bytes, choose: random.Random) -> bytes:
    """Return ``data`` with a part or a word removed, doubled, or replaced."""
    start, end = _word(data, choose) if choose.randrange(4) == 0 else _stretch(data, choose)
    part = data[start:end]
    kind = choose.randrange(6)
    if kind == 0:
        new = b""
    elif kind == 1:
        new = part * choose.choice([2, 2, 3, 20])
    elif kind == 2:
        new = choose.choice(ODD_BYTES)
    elif kind == 3:
        place = choose.randint(0, len(data))
        new = data[place : place + choose.choice([1, 4, 16])]
    elif kind == 4:
        new = bytes(byte ^ (1 << choose.randrange(8)) for byte in part)
    else:
        new = bytes([choose.randrange(256)])
    return data[:start] + new + data[end:]


def _stretch(data: bytes, choose: random.Random) -> tuple[int, int]:
    start = choose.randint(0, len(data))
    return start, min(start + choose.choice([0, 1, 1, 2, 4, 8, 32, 200]), len(data))


def _word(data: bytes, choose: random.Random) -> tuple[int, int]:
    """Return a word with the white space after it, or a line."""
    words = [*re.finditer(choose.choice([rb"\S+\s*", rb"[^\n]*\n"]), data[:LONGEST])]
    return choose.choice(words).span() if words else (0, len(data))


# --- JSON -----------------------------------------------------------------------------------------


def json_edit(words: Sequence[Any]) -> Edit:
    """:func:`edit_json` with values that mean something to a target."""
    return partial(edit_json, words=list(words))


def edit_json(data: bytes, choose: random.Random, words: Sequence[Any] = ()) -> bytes:
    """Return ``data`` with one JSON value changed, removed, doubled or exchanged.

    Edits bytes if ``data`` is not JSON.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return edit_bytes(data, choose)
    root = [value]
    places = _places(root)
    holder, key = choose.choice(places)
    kind = choose.randrange(8)
    if kind == 0 and holder is not root:
        del holder[key]
    elif kind == 1 and isinstance(holder, list) and holder is not root:
        place, times = choose.randint(0, len(holder)), choose.choice([1, 1, 1, 4, 24])
        holder[place:place] = [_copy(holder[key]) for _ in range(times)]
    elif kind == 2:
        other, name = choose.choice(places)
        holder[key] = _copy(other[name])
    elif kind == 3 and words:
        holder[key] = choose.choice(words)
    elif kind == 4 and isinstance(holder, list) and holder is not root:
        choose.shuffle(holder)
    elif kind == 5 and isinstance(holder, dict):
        names = [name for each, name in places if isinstance(each, dict)]
        names += [word for word in words if isinstance(word, str)]
        value = choose.choice([holder[key], *ODD_VALUES, *words])
        holder[choose.choice([*names, "", "x"])] = _copy(value)
    else:
        holder[key] = _changed(holder[key], choose)
    try:
        return json.dumps(root[0]).encode()
    except (ValueError, RecursionError):
        return data


def _places(root: list[Any]) -> list[tuple[Any, Any]]:
    """Yield the container and the key of every value."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [root]
    while waiting:
        holder = waiting.pop()
        keys = holder if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            found.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                waiting.append(holder[key])
    return found


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _changed(value: Any, choose: random.Random) -> Any:
    if choose.random() < 0.15:
        return choose.choice(ODD_VALUES)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value + 1, value - 1, value ^ 1, -value, choose.randrange(400)]
        return choose.choice([*near, choose.randrange(40), choose.choice(ODD_NUMBERS)])
    if isinstance(value, str):
        try:
            return edit_bytes(value.encode("utf-8", "surrogatepass"), choose).decode("utf-8")
        except UnicodeDecodeError:
            return value[: choose.randint(0, len(value))]
    if isinstance(value, list):
        return [*value, choose.choice([choose.randrange(400), *ODD_VALUES])]
    return choose.choice(ODD_VALUES)


# --- smaller --------------------------------------------------------------------------------------


def smaller(data: bytes) -> Iterator[bytes]:
    """Yield ``data`` without one JSON value or a part of its bytes, long parts first."""
    try:
        root = [json.loads(data)]
    except (ValueError, RecursionError):
        size = len(data)
        while size := size // 2:
            yield from (data[:start] + data[start + size :] for start in range(0, len(data), size))
        return
    for place in range(1, len(_places(root))):
        copy = [_copy(root[0])]
        holder, key = _places(copy)[place]
        del holder[key]
        yield json.dumps(copy[0]).encode()
