r"""streamdec: an LLM engine's token ids as text, live and exact to the byte.

>>> from streamdec import iter_chunks, load_tokenizer
>>> tokenizer = load_tokenizer("demo")  # or a tokenizer file, or a folder with one
>>> engine = iter(tokenizer.encode("Good morning 😀\nUser: and then").ids)
>>> "".join(chunk.text for chunk in iter_chunks(engine, tokenizer, stop="\nUser:"))
'Good morning 😀'

Text from an engine: :func:`stream` and :func:`wrap` (``async for``), :func:`iter_chunks`,
:class:`TokenQueue` for an engine that pushes, :class:`DecoderPool` for many requests at once. The
decoders under these do no I/O: :class:`DecodeStream`, :class:`StopSequenceDecoder` with
:class:`StopConditions`, :class:`Sequence`, and :class:`TextStopDecoder` for text without ids.
Tokenizers: :func:`load_tokenizer`, and a class for each library.

Wrong arguments raise TypeError or ValueError. All other errors are :class:`StreamdecError`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamdec.backends.gguf import GGUFTokenizer
    from streamdec.backends.huggingface import HuggingFaceTokenizer
    from streamdec.backends.hybrid import HybridTokenizer
    from streamdec.backends.mock import MockTokenizer
    from streamdec.backends.sentencepiece import SentencePieceTokenizer
    from streamdec.backends.tekken import TekkenTokenizer
    from streamdec.backends.tiktoken import TiktokenTokenizer
    from streamdec.chunks import (
        Chunk,
        FinishReason,
        SectionChunk,
        StopMatch,
        StopReason,
        TokenSpan,
    )
    from streamdec.core.conditions import StopConditions
    from streamdec.core.decode_stream import DecodeStream
    from streamdec.core.sequence import Sequence
    from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
    from streamdec.core.text_stop_decoder import TextStopDecoder
    from streamdec.encoding import Encoding, SpecialTokens
    from streamdec.errors import (
        ChatTemplateError,
        EncodeError,
        FinishedError,
        IdleTimeoutError,
        MissingExtraError,
        QueueFullError,
        RewriteError,
        SnapshotError,
        SourceError,
        StreamdecError,
        StreamdecWarning,
        TokenIdError,
        TokenizerLibraryError,
        TokenizerLoadError,
        UnknownRequestError,
    )
    from streamdec.hooks import Hook, add_hook
    from streamdec.loading.detect import detect_format
    from streamdec.loading.factory import load_tokenizer
    from streamdec.protocols import Decoder, Encoder, Tokenizer
    from streamdec.streams.entry import iter_chunks, stream, wrap
    from streamdec.streams.pool import DecoderPool
    from streamdec.streams.round_queue import RoundQueue
    from streamdec.streams.sinks import Sink
    from streamdec.streams.text_iterator import TextIterator
    from streamdec.streams.text_stream import TextStream
    from streamdec.streams.token_queue import TokenQueue
    from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

__all__ = [
    "ChatTemplateError",
    "Chunk",
    "DecodeStream",
    "Decoder",
    "DecoderPool",
    "EncodeError",
    "Encoder",
    "Encoding",
    "FinishReason",
    "FinishedError",
    "GGUFTokenizer",
    "Hook",
    "HuggingFaceTokenizer",
    "HybridTokenizer",
    "IdleTimeoutError",
    "LoadedTokenizer",
    "MissingExtraError",
    "MockTokenizer",
    "QueueFullError",
    "RewriteError",
    "RoundQueue",
    "SectionChunk",
    "SentencePieceTokenizer",
    "Sequence",
    "Sink",
    "SnapshotError",
    "SourceError",
    "SpecialTokens",
    "StopConditions",
    "StopMatch",
    "StopReason",
    "StopSequenceDecoder",
    "StreamdecError",
    "StreamdecWarning",
    "TekkenTokenizer",
    "TextIterator",
    "TextStopDecoder",
    "TextStream",
    "TiktokenTokenizer",
    "TokenIdError",
    "TokenQueue",
    "TokenSpan",
    "Tokenizer",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "UnknownRequestError",
    "add_hook",
    "detect_format",
    "iter_chunks",
    "load_tokenizer",
    "stream",
    "wrap",
]

__version__: str  # of the installed distribution, looked up at each use

_EXPORTS = {
    "backends.gguf": "GGUFTokenizer",
    "backends.huggingface": "HuggingFaceTokenizer",
    "backends.hybrid": "HybridTokenizer",
    "backends.mock": "MockTokenizer",
    "tokenizers.tokenizer_report": "LoadedTokenizer",
    "backends.sentencepiece": "SentencePieceTokenizer",
    "backends.tekken": "TekkenTokenizer",
    "backends.tiktoken": "TiktokenTokenizer",
    "chunks": "Chunk FinishReason SectionChunk StopMatch StopReason TokenSpan",
    "core.decode_stream": "DecodeStream",
    "core.sequence": "Sequence",
    "core.stop_sequence_decoder": "StopSequenceDecoder",
    "core.conditions": "StopConditions",
    "core.text_stop_decoder": "TextStopDecoder",
    "encoding": "Encoding SpecialTokens",
    "errors": """ChatTemplateError EncodeError FinishedError IdleTimeoutError MissingExtraError
        QueueFullError RewriteError SnapshotError SourceError
        StreamdecError StreamdecWarning TokenIdError TokenizerLibraryError TokenizerLoadError
        UnknownRequestError""",
    "hooks": "Hook add_hook",
    "loading.detect": "detect_format",
    "loading.factory": "load_tokenizer",
    "protocols": "Decoder Encoder Tokenizer",
    "streams.pool": "DecoderPool",
    "streams.round_queue": "RoundQueue",
    "streams.sinks": "Sink",
    "streams.entry": "iter_chunks stream wrap",
    "streams.text_iterator": "TextIterator",
    "streams.text_stream": "TextStream",
    "streams.token_queue": "TokenQueue",
}
"""The modules that define the exported names; each is imported when one of its names is used."""
_HOMES = {
    name: f"streamdec.{module}" for module, names in _EXPORTS.items() for name in names.split()
}

if not TYPE_CHECKING:  # type checkers use the imports above, so they report unknown names

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            return import_module("importlib.metadata").version("streamdec")
        if name not in _HOMES:
            raise AttributeError(f"module 'streamdec' has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
