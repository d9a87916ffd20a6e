"""What happened to each token of a stream: for people, and as JSON lines.

``Tracer(decoder)`` wraps a decoder and does not change its output; ``Trace`` is what
it saw. Streams that are not traced pay nothing.
"""

from streamdec.trace.records import Header, TokenRecord, Trace, Verdict
from streamdec.trace.tracer import Tracer

__all__ = ["Header", "TokenRecord", "Trace", "Tracer", "Verdict"]
