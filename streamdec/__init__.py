r"""streamdec: an LLM engine's token ids as text, live and exact to the byte.

>>> from streamdec import iter_chunks, load_tokenizer
>>> tokenizer = load_tokenizer("demo")  # or a tokenizer file, a folder with one, a name
>>> engine = iter(tokenizer.encode("Good morning 😀\nUser: and then").ids)
>>> "".join(chunk.text for chunk in iter_chunks(engine, tokenizer, stop="\nUser:"))
'Good morning 😀'

Text from an engine: :func:`stream` and :func:`wrap` (``async for``), :func:`iter_chunks`,
:class:`TokenQueue` for an engine that pushes, :class:`DecoderPool` for many requests at once. The
decoders under these do no I/O: :class:`DecodeStream`, :class:`StopSequenceDecoder` with
:class:`StopConditions`, :class:`Sequence`, and :class:`TextStopDecoder` for text without ids.
:func:`load_tokenizer` finds the right class for a tokenizer.

Other names: :mod:`streamdec.tokenizers`, :mod:`streamdec.streams` (types of options and outputs),
:mod:`streamdec.errors`, :mod:`streamdec.metrics` (hooks), :mod:`streamdec.protocols`.

Wrong arguments raise TypeError or ValueError. All other errors are :class:`StreamdecError`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamdec.backends.huggingface import HuggingFaceTokenizer
    from streamdec.backends.mock import MockTokenizer
    from streamdec.chunks import Chunk, FinishReason, StopMatch, TokenSpan
    from streamdec.core.conditions import StopConditions
    from streamdec.core.decode_stream import DecodeStream
    from streamdec.core.sequence import Sequence
    from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
    from streamdec.core.text_stop_decoder import TextStopDecoder
    from streamdec.errors import (
        FinishedError,
        QueueFullError,
        SnapshotError,
        SourceError,
        StreamdecError,
        StreamdecWarning,
        TokenIdError,
        TokenizerLoadError,
    )
    from streamdec.loading.factory import load_tokenizer
    from streamdec.streams.pool import DecoderPool
    from streamdec.streams.text_iterator import iter_chunks
    from streamdec.streams.text_stream import TextStream, stream, wrap
    from streamdec.streams.token_queue import TokenQueue

__all__ = [
    "Chunk",
    "DecodeStream",
    "DecoderPool",
    "FinishReason",
    "FinishedError",
    "HuggingFaceTokenizer",
    "MockTokenizer",
    "QueueFullError",
    "Sequence",
    "SnapshotError",
    "SourceError",
    "StopConditions",
    "StopMatch",
    "StopSequenceDecoder",
    "StreamdecError",
    "StreamdecWarning",
    "TextStopDecoder",
    "TextStream",
    "TokenIdError",
    "TokenQueue",
    "TokenSpan",
    "TokenizerLoadError",
    "iter_chunks",
    "load_tokenizer",
    "stream",
    "wrap",
]

__version__: str  # of the installed distribution, looked up at each use

if not TYPE_CHECKING:  # type checkers use the imports above, so they report unknown names
    from streamdec.lazy import lazy

    _exported = lazy(
        __name__,
        {
            "streamdec.backends.huggingface": "HuggingFaceTokenizer",
            "streamdec.backends.mock": "MockTokenizer",
            "streamdec.chunks": "Chunk FinishReason StopMatch TokenSpan",
            "streamdec.core.conditions": "StopConditions",
            "streamdec.core.decode_stream": "DecodeStream",
            "streamdec.core.sequence": "Sequence",
            "streamdec.core.stop_sequence_decoder": "StopSequenceDecoder",
            "streamdec.core.text_stop_decoder": "TextStopDecoder",
            "streamdec.errors": """FinishedError QueueFullError SnapshotError SourceError
                StreamdecError StreamdecWarning TokenIdError TokenizerLoadError""",
            "streamdec.loading.factory": "load_tokenizer",
            "streamdec.streams.pool": "DecoderPool",
            "streamdec.streams.text_iterator": "iter_chunks",
            "streamdec.streams.text_stream": "TextStream stream wrap",
            "streamdec.streams.token_queue": "TokenQueue",
        },
    )

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("streamdec")
        return _exported(name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
