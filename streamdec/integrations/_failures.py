"""Ends of a stream for which the APIs have no word, so that a client is told of them by an error.

In: a finish_reason. Out: what a client reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from streamdec.chunks import FinishReason

__all__ = ["FAILED", "FAILURES"]

FAILED = "the server had an error while it generated the answer"
"""What a client is told of an error, if nothing else is said: not what the error says."""

FAILURES: Mapping[FinishReason | None, str] = MappingProxyType(
    {"abort": "the request was aborted before the answer was complete", "error": FAILED}
)
"""The ends, and what a client is told of each."""
