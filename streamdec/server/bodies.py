"""Read the body of a request within limits, as a JSON object."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.requests import Request

from streamdec.server.errors import RequestError
from streamdec.server.limits import ServerLimits


async def read_body(request: Request, limits: ServerLimits) -> bytes:
    """Return the body of ``request``, as it was sent.

    Raises RequestError for another content type, a body that is too large, and one that does not
    arrive in time.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    # Web pages of other origins can send other types without a CORS preflight, but not JSON.
    if kind != "application/json":
        raise RequestError("the body must be JSON, with Content-Type: application/json", status=415)
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > limits.body_bytes:
        raise _too_large(limits)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limits.body_bytes:
                    raise _too_large(limits)
                parts.append(part)
    except TimeoutError:
        message = f"the body did not arrive within {limits.body_seconds:g} seconds"
        raise RequestError(message, status=408, headers={"connection": "close"}) from None
    return b"".join(parts)


def parsed(data: bytes, limits: ServerLimits) -> dict[str, Any]:
    """Return the JSON object in ``data``.

    Raises RequestError if it is not one, or is nested too deeply.
    """
    try:
        found = json.loads(data.decode("utf-8"))
    except RecursionError:
        raise _too_deep(limits) from None
    except ValueError as error:  # not UTF-8, not JSON, or an integer of thousands of digits
        raise RequestError(f"the body is not JSON: {error}"[:200]) from None
    if not isinstance(found, dict):
        raise RequestError("the body must be a JSON object")
    _check_depth(found, limits)
    return found


def _check_depth(value: Any, limits: ServerLimits) -> None:
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > limits.depth:
            raise _too_deep(limits)
        inner: list[Any] = []
        for each in level:
            inner += each.values() if isinstance(each, dict) else each
        level = [each for each in inner if isinstance(each, (dict, list))]


def _too_large(limits: ServerLimits) -> RequestError:
    return RequestError(f"the body has more than {limits.body_bytes} bytes", status=413)


def _too_deep(limits: ServerLimits) -> RequestError:
    return RequestError(f"lists and objects are nested more than {limits.depth} deep")
