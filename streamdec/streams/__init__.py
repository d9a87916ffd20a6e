"""Streams: from the outputs of an engine to chunks of text.

The functions and classes that most programs need are in :mod:`streamdec`. Here are the types of
options and chunks, for annotations.

``text_stream`` reads an asynchronous engine, ``text_iterator`` a plain one; ``token_queue`` takes
ids from an engine that pushes; ``pool`` steps many requests in one call.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamdec.chunks import SectionChunk, StopReason
    from streamdec.core.stop_sequence_decoder import DecoderOptions
    from streamdec.streams.sinks import Sink

__all__ = ["DecoderOptions", "SectionChunk", "Sink", "StopReason"]

if not TYPE_CHECKING:
    from streamdec.lazy import lazy

    __getattr__ = lazy(
        __name__,
        {
            "streamdec.chunks": "SectionChunk StopReason",
            "streamdec.core.stop_sequence_decoder": "DecoderOptions",
            "streamdec.streams.sinks": "Sink",
        },
    )
