"""Server-Sent Events, as in section 9.2.5 of the WHATWG's HTML standard.

In: the data of an event, as text or UTF-8. Out: the bytes to send. No I/O and no state.
"""

from __future__ import annotations

import re

__all__ = ["HEADERS", "event"]

HEADERS: tuple[tuple[str, str], ...] = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)
"""The headers of a response. The last two prevent caching, and buffering in nginx."""

_LINE_ENDS = re.compile(rb"\r\n|\r|\n")


def event(data: str | bytes, *, name: str | None = None) -> bytes:
    r"""Return one event, whose data may have several lines.

    Readers see each line end as a newline.

    Args:
        data: text, or UTF-8.
        name: the type of the event (``event:``).

    Raises ValueError for a name that is empty or contains a line end or a NUL (readers ignore
    these); UnicodeEncodeError for a lone surrogate.

    >>> from streamdec.integrations.sse import event
    >>> event('{"text":"Hi"}', name="delta")
    b'event: delta\ndata: {"text":"Hi"}\n\n'
    >>> event("two\r\nlines")
    b'data: two\ndata: lines\n\n'
    """
    fields = []
    if name is not None:
        if not name or any(end in name for end in "\r\n\0"):
            raise ValueError(f"name must be one line without NUL, and not empty: {name!r:.80}")
        fields.append(b"event: " + name.encode())
    encoded = data.encode() if isinstance(data, str) else data
    fields += (b"data: " + line for line in _LINE_ENDS.split(encoded))
    return b"\n".join(fields) + b"\n\n"
