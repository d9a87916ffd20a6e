"""Traces: a record of each token of a stream, for people and as JSON lines.

``Tracer(decoder)`` wraps a decoder and does not change its output. ``Tracer.trace()`` returns a
``Trace``. Streams that are not traced have no extra cost.
"""

from streamdec.trace.records import Header, TokenRecord, Trace, Verdict
from streamdec.trace.tracer import Tracer

__all__ = ["Header", "TokenRecord", "Trace", "Tracer", "Verdict"]
