"""The body of a request: read within limits, as JSON that has one meaning.

In: a request. Out: an object, whose texts are all Unicode and which is not nested too deeply.
Everything else is a :class:`RequestError`.
"""

from __future__ import annotations

import json
import math
from contextlib import AsyncExitStack
from typing import Any

import anyio
from anyio import to_thread
from starlette.requests import Request

from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError, busy

__all__ = ["MOST_LARGE", "object_of", "read_object"]

LARGE = 64 << 10
"""Bytes from which on a body is parsed in a thread, so that others do not wait for it."""

MOST_LARGE = 16
"""Such bodies that are read and parsed at once, which bounds the memory that they take."""

LONGEST_LENGTH = 18
"""Digits of a Content-Length that anybody needs."""


async def read_object(
    request: Request, limits: ServerLimits, large: anyio.CapacityLimiter
) -> dict[str, Any]:
    """The JSON object that ``request`` has.

    ``large`` is the room for bodies that are large, of all requests: the others wait, unread.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # A web page of somebody else can send other types without being asked, and this one not.
    if kind != "application/json":
        raise RequestError(
            "the body must be JSON, with the header Content-Type: application/json", status=415
        )
    async with AsyncExitStack() as held:
        data = await _read(request, limits, large, held)
        if len(data) < LARGE:
            return object_of(data, limits.depth)
        return await to_thread.run_sync(object_of, data, limits.depth)


async def _read(
    request: Request, limits: ServerLimits, large: anyio.CapacityLimiter, held: AsyncExitStack
) -> bytes:
    length = request.headers.get("content-length", "0")
    if len(length) > LONGEST_LENGTH or (length.isdecimal() and int(length) > limits.body_bytes):
        raise _too_large(limits)
    parts, size, has_room = [], 0, False
    try:
        with anyio.fail_after(limits.body_seconds):
            async for part in request.stream():
                parts.append(part)
                size += len(part)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                if size >= LARGE and not has_room:
                    await held.enter_async_context(large)
                    has_room = True
    except TimeoutError:
        if size >= LARGE and not has_room:
            raise busy("too many large requests come at once", close=True) from None
        message = f"the body did not come within {limits.body_seconds:g} seconds"
        raise RequestError(message, status=408, headers={"connection": "close"}) from None
    return b"".join(parts)


def _too_large(limits: ServerLimits) -> RequestError:
    message = f"the body must not have more than {limits.body_bytes} bytes"
    # What is left of it is not read.
    return RequestError(message, status=413, headers={"connection": "close"})


def object_of(data: bytes, depth: int) -> dict[str, Any]:
    """The JSON object in ``data``, nested ``depth`` deep at most."""
    try:
        found = json.loads(
            data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_no_number
        )
    except RequestError:
        raise
    except UnicodeDecodeError as error:
        raise RequestError(f"the body is no UTF-8, from byte {error.start} on") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise RequestError(f"the body is no JSON: {error.msg}, {where}") from None
    except RecursionError:
        raise RequestError(_too_deep(depth)) from None
    except ValueError:  # an integer of thousands of digits
        raise RequestError("the body is no JSON that can be read: a number is too long") from None
    if not isinstance(found, dict):
        raise RequestError("the body must be a JSON object")
    for key, value in found.items():
        _check(key, None, depth)
        _check(value, key, depth)
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        left = set(found)
        for key, _ in pairs:
            if key not in left:
                raise RequestError(f"the key {_printable(key)} is there twice in one object")
            left.remove(key)
    return found


def _no_number(word: str) -> float:
    raise RequestError(f"the body is no JSON: {word} is no number there")


def _check(value: Any, param: str | None, depth: int) -> None:
    """Raises RequestError for what is in ``value`` and no Unicode, no number, or too deep."""
    waiting = [(value, depth - 1)]  # it is in an object already
    while waiting:
        each, left = waiting.pop()
        if isinstance(each, str):
            if not each.isascii():
                _check_text(each, param)
        elif isinstance(each, float):
            if not math.isfinite(each):
                raise RequestError(_at(param, "a number is too large"), param=param)
        elif isinstance(each, (list, dict)):
            if left <= 0:
                raise RequestError(_too_deep(depth), param=param)
            if isinstance(each, dict):
                waiting += ((key, left - 1) for key in each)
                waiting += ((one, left - 1) for one in each.values())
            else:
                # Ids, of which there may be a million, need no look.
                waiting += ((one, left - 1) for one in each if type(one) is not int)


def _check_text(text: str, param: str | None) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        message = "a text has a lone surrogate, which is no Unicode"
        raise RequestError(_at(param, message), param=param) from None


def _too_deep(depth: int) -> str:
    return f"lists and objects must not be nested more than {depth} deep"


def _at(param: str | None, message: str) -> str:
    return message if param is None else f"{param}: {message}"


def _printable(name: str) -> str:
    return ascii(name)[:60]
