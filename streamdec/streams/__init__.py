"""Streams: from the outputs of an engine to chunks of text.

The functions and classes that most programs need are in :mod:`streamdec`. Here are the types of
options and chunks, for annotations.

``outputs`` reads what an engine yields, ``reading`` makes chunks of it. ``text_stream`` pulls from
an asynchronous engine, ``text_iterator`` from a plain one. ``token_queue`` takes ids from an engine
that pushes, and ``pool`` steps many requests in one call.
"""

from streamdec.chunks import SectionChunk, StopReason
from streamdec.core.stop_sequence_decoder import DecoderOptions
from streamdec.streams.pool import Sink

__all__ = ["DecoderOptions", "SectionChunk", "Sink", "StopReason"]
