"""Streams: from the outputs of an engine to chunks of text.

The functions and classes that most programs need are in :mod:`streamdec`. Here are the types of
options and chunks, for annotations.

``outputs`` reads what an engine yields, ``reading`` makes chunks of it. ``text_stream`` pulls from
an asynchronous engine, ``text_iterator`` from a plain one. ``token_queue`` takes ids from an engine
that pushes, and ``pool`` steps many requests in one call.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamdec.chunks import SectionChunk, StopReason
    from streamdec.core.stop_sequence_decoder import DecoderOptions
    from streamdec.streams.pool import Sink

__all__ = ["DecoderOptions", "SectionChunk", "Sink", "StopReason"]

if not TYPE_CHECKING:
    from streamdec.lazy import lazy

    __getattr__ = lazy(
        __name__,
        {
            "streamdec.chunks": "SectionChunk StopReason",
            "streamdec.core.stop_sequence_decoder": "DecoderOptions",
            "streamdec.streams.pool": "Sink",
        },
    )
