"""What happened to each token of a stream: for people, as JSON lines, and to be played again.

``Tracer(decoder)`` stands before a decoder and changes nothing of what it gives; ``Trace`` is what
it saw. Streams that are not traced pay nothing.
"""

from streamdec.trace.records import Header, TokenRecord, Trace, Verdict
from streamdec.trace.replay import Difference, replay
from streamdec.trace.tracer import Tracer

__all__ = ["Difference", "Header", "TokenRecord", "Trace", "Tracer", "Verdict", "replay"]
