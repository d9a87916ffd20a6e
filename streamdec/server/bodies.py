"""Read the body of a request within limits, as unambiguous JSON.

In: a request. Out: an object with valid Unicode, and without too many values or levels. Any other
body is a :class:`RequestError`. Values and levels are counted before anything is parsed, so that a
small body cannot become a large object.
"""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from time import monotonic
from typing import Any

import anyio
from starlette.requests import ClientDisconnect, Request

from streamdec.server.admission import LARGE, Place
from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError, busy

LONGEST_LENGTH = 18
"""The most digits of a Content-Length."""

PATIENCE = 5.0
"""Seconds in which a body may arrive at any rate. Later it must keep the least rate."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LEVELS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in _LEVELS)


# --- arriving -------------------------------------------------------------------------------------


async def arrived(request: Request, limits: ServerLimits, place: Place) -> bytes:
    """Return the body of ``request``, as it was sent.

    A large body takes room from ``place`` as it arrives. Without room it is not read. A body that
    arrives too slowly is rejected. At the least rate, the largest body arrives just in time.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Web pages of other origins can send other types without a CORS preflight, but not JSON.
    if kind != "application/json":
        raise RequestError(
            "the body must be JSON, with the header Content-Type: application/json", status=415
        )
    length = request.headers.get("content-length", "0")
    if len(length) > LONGEST_LENGTH or (length.isdecimal() and int(length) > limits.body_bytes):
        raise _too_large(limits)
    least_rate = limits.body_bytes / limits.body_seconds
    start = monotonic()
    end, due = start + limits.body_seconds, start + PATIENCE
    parts: list[bytes] = []
    size = held = 0
    is_complete = False
    while not is_complete:
        message: Any = None
        with anyio.move_on_after(min(end, due) - monotonic()):
            message = await request.receive()
        if message is None:
            raise _too_slow(limits)
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part = message.get("body", b"")
        is_complete = not message.get("more_body", False)
        parts.append(part)
        size += len(part)
        if size > limits.body_bytes:
            raise _too_large(limits)
        due += len(part) / least_rate
        if size >= LARGE:
            before = monotonic()
            await _hold(place, size - held, end)
            due += monotonic() - before  # not the client's time
            held = size
    return b"".join(parts)


async def _hold(place: Place, size: int, end: float) -> None:
    with anyio.move_on_after(end - monotonic()) as scope:
        await place.hold(size)
    if scope.cancelled_caught:
        raise busy("too many large requests arrive at once", close=True)


def _too_large(limits: ServerLimits) -> RequestError:
    message = f"the body must not have more than {limits.body_bytes} bytes"
    # The rest of the body is not read.
    return RequestError(message, status=413, headers={"connection": "close"})


def _too_slow(limits: ServerLimits) -> RequestError:
    message = (
        f"the body arrived too slowly: a body of {limits.body_bytes} bytes may take "
        f"{limits.body_seconds:g} seconds"
    )
    return RequestError(message, status=408, headers={"connection": "close"})


# --- JSON -----------------------------------------------------------------------------------------


def object_of(data: bytes, limits: ServerLimits) -> dict[str, Any]:
    """Return the JSON object in ``data``, which must be within the limits."""
    _check_structure(data, limits)
    try:
        found = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RequestError:
        raise
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(f"the body is not JSON: {error.msg}, {where}") from None
    except RecursionError:  # ``depth`` is very high
        raise RequestError("lists and objects are nested too deeply") from None
    except ValueError:  # an integer of thousands of digits
        raise RequestError("the body has a number that is too long") from None
    if not isinstance(found, dict):
        raise RequestError("the body must be a JSON object")
    if _SURROGATE.search(data):
        for key, value in found.items():
            _check_texts(key, None)
            _check_texts(value, key)
    return found


def check_inner(text: str, limits: ServerLimits, param: str) -> None:
    """Raise RequestError if JSON in a text has too many values or levels.

    The text is part of a body. It is parsed by one call of C code, in which other threads have to
    wait. So numbers count, too.
    """
    data = text.encode()
    try:
        _check_structure(data, limits)
        num_values = data.count(b",")
    except RequestError as error:
        raise RequestError(f"{param}: {error}", param=param) from None
    if num_values > limits.values:
        raise RequestError(f"{param} has more than {limits.values} values", param=param)


def _check_structure(data: bytes, limits: ServerLimits) -> None:
    """Raise RequestError for too many strings, lists and objects, numbers or levels.

    Each step takes at most a few milliseconds, in which other threads have to wait.
    """
    most = limits.values
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    num_strings = data.count(b'"') // 2
    bare = (
        b"" if num_strings > most else b"".join(data.split(b'"')[::2])
    )  # the parts outside of strings
    if num_strings + bare.count(b"[") + bare.count(b"{") > most:
        raise RequestError(f"the body has more than {most} strings, lists and objects")
    most_commas = most + limits.samples * limits.prompt_tokens
    if bare.count(b",") > most_commas:
        raise RequestError(f"the body has more than {most_commas} commas outside of strings")
    brackets = bare.translate(None, _NO_BRACKETS)[
        : 2 * most
    ]  # deeper nesting would not be balanced
    if max(accumulate(map(_LEVELS.__getitem__, brackets)), default=0) > limits.depth:
        message = f"lists and objects must not be nested more than {limits.depth} deep"
        raise RequestError(message)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        left = set(found)
        for key, _ in pairs:
            if key not in left:
                raise RequestError(f"an object has the key {ascii(key)[:60]} twice")
            left.remove(key)
    return found


def _no_number(word: str) -> float:
    raise RequestError(f"the body is not JSON: {word} is not a number of JSON")


def _integer(number: str) -> int:
    """Return an integer of the JSON.

    It is Python code, so that other threads can run between two numbers: ``json`` is C code.
    """
    return int(number)


def _finite(number: str) -> float:
    found = float(number)
    if not math.isfinite(found):
        raise RequestError(f"the number {number:.40} is too large")
    return found


def _check_texts(value: Any, param: str | None) -> None:
    """Raise RequestError if a text of ``value`` has a lone surrogate."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            try:
                each.encode()
            except UnicodeEncodeError:
                message = "a text has a lone surrogate, which is not valid Unicode"
                message = message if param is None else f"{param}: {message}"
                raise RequestError(message, param=param) from None
        elif isinstance(each, dict):
            waiting += each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
