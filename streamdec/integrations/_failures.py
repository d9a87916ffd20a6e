"""What the wire formats of several APIs share: the section of reasoning, and ends with an error.

Some ends of a stream have no word in the APIs. Clients then get an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from streamdec.chunks import FinishReason

__all__ = ["FAILED", "FAILURES", "REASONING"]

REASONING = "reasoning"
"""The name of the section whose text the APIs have a place of its own for."""

FAILED = "the server had an error while it generated the answer"
"""The default message for a client: it does not contain the message of the error."""

FAILURES: Mapping[FinishReason | None, str] = MappingProxyType(
    {"abort": "the request was aborted before the answer was complete", "error": FAILED}
)
"""The ends, and the message for the client."""
