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
    from streamdec.backends.huggingface import HuggingFaceTokenizer as HuggingFaceTokenizer
    from streamdec.backends.mock import MockTokenizer as MockTokenizer
    from streamdec.chunks import Chunk as Chunk
    from streamdec.chunks import FinishReason as FinishReason
    from streamdec.chunks import StopMatch as StopMatch
    from streamdec.chunks import TokenSpan as TokenSpan
    from streamdec.core.conditions import StopConditions as StopConditions
    from streamdec.core.decode_stream import DecodeStream as DecodeStream
    from streamdec.core.sequence import Sequence as Sequence
    from streamdec.core.stop_sequence_decoder import StopSequenceDecoder as StopSequenceDecoder
    from streamdec.core.text_stop_decoder import TextStopDecoder as TextStopDecoder
    from streamdec.errors import FinishedError as FinishedError
    from streamdec.errors import QueueFullError as QueueFullError
    from streamdec.errors import SnapshotError as SnapshotError
    from streamdec.errors import SourceError as SourceError
    from streamdec.errors import StreamdecError as StreamdecError
    from streamdec.errors import StreamdecWarning as StreamdecWarning
    from streamdec.errors import TokenIdError as TokenIdError
    from streamdec.errors import TokenizerLoadError as TokenizerLoadError
    from streamdec.loading.factory import load_tokenizer as load_tokenizer
    from streamdec.streams.pool import DecoderPool as DecoderPool
    from streamdec.streams.text_iterator import iter_chunks as iter_chunks
    from streamdec.streams.text_stream import TextStream as TextStream
    from streamdec.streams.text_stream import stream as stream
    from streamdec.streams.text_stream import wrap as wrap
    from streamdec.streams.token_queue import TokenQueue as TokenQueue

__all__: list[str]
__version__: str  # of the installed distribution, looked up at each use

if not TYPE_CHECKING:  # type checkers use the imports above, so they report unknown names
    from streamdec.lazy import lazy

    _homes = {
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
    }
    _exported = lazy(__name__, _homes)
    __all__ = sorted(" ".join(_homes.values()).split())

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version("streamdec")
        return _exported(name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
