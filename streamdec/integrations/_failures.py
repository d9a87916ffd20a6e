"""Shared parts of the wire formats: the reasoning section, failures, checks.

The APIs have no word for some ends of a stream. Clients then get an error.
"""

from __future__ import annotations

from typing import assert_never

from streamdec.chunks import FinishReason

REASONING = "reasoning"
"""The name of the section whose text has its own field in the APIs."""

FAILED = "the server had an error while it generated the answer"
"""The default message for a client: it does not contain the message of the error."""


def failure_of(reason: FinishReason | None) -> str | None:
    """Return the message for the client if ``reason`` is a failure, else None."""
    match reason:
        case None | "stop" | "length" | "content_filter":
            return None
        case "abort":
            return "the request was aborted before the answer was complete"
        case "error":
            return FAILED
        case _:
            assert_never(reason)


def not_a_chunk(given: object) -> TypeError:
    """Return the error for ``given``, which was passed as a chunk."""
    return TypeError(f"chunk must be a Chunk, not {given!r:.80}; write Chunk(text)")


def check_text(name: str, value: object) -> str:
    """Return ``value``. Raise TypeError if it is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r:.40}")
    return value


def check_count(name: str, value: object, least: int = 0) -> int:
    """Return ``value``. Raise ValueError if it is not an int of at least ``least``."""
    if type(value) is not int or value < least:
        raise ValueError(f"{name} must be an integer of at least {least}, not {value!r:.40}")
    return value
