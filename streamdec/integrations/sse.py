"""Server-Sent Events, as in section 9.2.5 of the WHATWG's HTML standard.

In: the data of an event, as text or UTF-8. Out: the bytes to send. No I/O and no state.
"""

from __future__ import annotations

import re

__all__ = ["HEADERS", "comment", "event"]

HEADERS: tuple[tuple[str, str], ...] = (
    ("content-type", "text/event-stream; charset=utf-8"),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
)
"""The headers of a response. The last two prevent caching, and buffering in nginx."""

_LINE_ENDS = re.compile(rb"\r\n|\r|\n")
"""The line ends of the standard."""


def event(
    data: str | bytes,
    *,
    name: str | None = None,
    event_id: str | None = None,
    retry: int | None = None,
) -> bytes:
    r"""Return one event. Its data may have several lines; readers see each line end as a newline.

    Args:
        data: text, or UTF-8.
        name: the type of the event (``event:``).
        event_id: the id that a reader sends as ``Last-Event-ID`` when it reconnects.
        retry: the milliseconds after which a reader reconnects.

    Raises ValueError for a name or an id that is empty or contains a line end or a NUL (readers
    ignore these), and for a ``retry`` below 0; UnicodeEncodeError for a lone surrogate.

    >>> from streamdec.integrations.sse import event
    >>> event('{"text":"Hi"}', name="delta")
    b'event: delta\ndata: {"text":"Hi"}\n\n'
    >>> event("two\r\nlines")
    b'data: two\ndata: lines\n\n'
    """
    fields = []
    if name is not None:
        fields.append(b"event: " + _field("name", name))
    if event_id is not None:
        fields.append(b"id: " + _field("event_id", event_id))
    if retry is not None:
        if type(retry) is not int or retry < 0:
            told = f"retry must be a number of milliseconds, 0 or more, not {retry!r:.40}"
            raise ValueError(told)
        fields.append(b"retry: %d" % retry)
    fields += (b"data: " + line for line in _lines(data))
    return b"\n".join(fields) + b"\n\n"


def comment(text: str = "") -> bytes:
    r"""Return ``text`` as a comment, which readers ignore. Comments keep a connection open.

    Raises UnicodeEncodeError for a lone surrogate.

    >>> from streamdec.integrations.sse import comment
    >>> comment("still here")
    b': still here\n\n'
    """
    return b"".join(b": " + line + b"\n" for line in _lines(text)) + b"\n"


def _lines(data: str | bytes) -> list[bytes]:
    return _LINE_ENDS.split(data.encode() if isinstance(data, str) else data)


def _field(what: str, value: str) -> bytes:
    """Return the value of a field of one line."""
    if not value or any(end in value for end in "\r\n\0"):
        raise ValueError(f"{what} must be one line without NUL, and not empty: {value!r:.80}")
    return value.encode()
