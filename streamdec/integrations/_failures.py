"""Shared parts of the wire formats: options, the reasoning section, failures.

The APIs have no word for some ends of a stream. Clients then get an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
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


def check_options(
    what: str, options: Mapping[str, object], known: Collection[str], required: Iterable[str]
) -> None:
    """Raise TypeError if ``what`` got an unknown option or lacks a required one."""
    for name in options:
        if name not in known:
            raise TypeError(f"{what}() got an unexpected keyword argument {name!r}")
    missing = [name for name in required if name not in options]
    if missing:
        raise TypeError(f"{what}() needs {', '.join(f'{name}=' for name in missing)}")


def check_texts(options: Mapping[str, object], names: Iterable[str]) -> None:
    """Raise TypeError if an option among ``names`` is not a string."""
    for name in names:
        if not isinstance(options[name], str):
            raise TypeError(f"{name} must be a string, not {options[name]!r:.40}")
