r"""streamdec: an LLM engine's token ids as text, live and exact to the byte.

>>> from streamdec import iter_chunks, load_tokenizer
>>> tokenizer = load_tokenizer("path/to/model")
>>> engine = iter(tokenizer.encode("Good morning 😀\nUser: and then").ids)
>>> "".join(chunk.text for chunk in iter_chunks(engine, tokenizer, stop="\nUser:"))
'Good morning 😀'

Text around an engine: :func:`stream` and :func:`wrap` (``async for``), :func:`iter_chunks`,
:class:`TokenQueue` for an engine that pushes, :class:`DecoderPool` for many requests at once. The
machines beneath, without I/O: :class:`DecodeStream`, :class:`StopSequenceDecoder` with
:class:`StopConditions`, :class:`Sequence`. Tokenizers: :func:`load_tokenizer`, and a class for each
library. All errors are :class:`StreamdecError`.
"""

from streamdec.backends.encoding_cache import EncodingCache
from streamdec.backends.encodings import EncodingSpec
from streamdec.backends.fast import HybridTokenizer
from streamdec.backends.gguf import GGUFTokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.mock import MockTokenizer
from streamdec.backends.report import LoadedTokenizer, TokenizerReport
from streamdec.backends.sentencepiece import SentencePieceTokenizer
from streamdec.backends.tekken import TekkenTokenizer
from streamdec.backends.tiktoken import TiktokenTokenizer
from streamdec.chunks import Chunk, FinishReason, StopMatch, StopReason, TokenSpan, Withheld
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.sequence import Sequence
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.core.stops.conditions import StopConditions, StopLimits
from streamdec.core.window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.encoding import Encoding, SpecialTokens
from streamdec.errors import (
    ChatTemplateError,
    EncodeError,
    FinishedError,
    IdleTimeoutError,
    MissingExtraError,
    PreflightError,
    QueueClosedError,
    QueueFullError,
    RewriteError,
    SnapshotError,
    SnapshotMismatchError,
    SourceError,
    StopRegexTimeoutError,
    StreamdecError,
    StreamdecWarning,
    TokenIdError,
    TokenIdTypeError,
    TokenizerLibraryError,
    TokenizerLoadError,
    TraceError,
    UnknownRequestError,
    UnknownTokenError,
    UnsupportedFormatError,
)
from streamdec.hooks import Hook, add_hook
from streamdec.loading.detect import detect_format
from streamdec.loading.factory import load_tokenizer
from streamdec.protocols import Decoder, Encoder, Tokenizer
from streamdec.streams.pool import DecoderPool
from streamdec.streams.round_queue import RoundQueue
from streamdec.streams.sinks import Sink
from streamdec.streams.text_iterator import TextIterator, iter_chunks
from streamdec.streams.text_stream import TextStream, stream, wrap
from streamdec.streams.token_queue import TokenQueue

__all__ = [
    "INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET",
    "ChatTemplateError",
    "Chunk",
    "DecodeStream",
    "Decoder",
    "DecoderPool",
    "EncodeError",
    "Encoder",
    "Encoding",
    "EncodingCache",
    "EncodingSpec",
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
    "PreflightError",
    "QueueClosedError",
    "QueueFullError",
    "RewriteError",
    "RoundQueue",
    "SentencePieceTokenizer",
    "Sequence",
    "Sink",
    "SnapshotError",
    "SnapshotMismatchError",
    "SourceError",
    "SpecialTokens",
    "StopConditions",
    "StopLimits",
    "StopMatch",
    "StopReason",
    "StopRegexTimeoutError",
    "StopSequenceDecoder",
    "StreamdecError",
    "StreamdecWarning",
    "TekkenTokenizer",
    "TextIterator",
    "TextStream",
    "TiktokenTokenizer",
    "TokenIdError",
    "TokenIdTypeError",
    "TokenQueue",
    "TokenSpan",
    "Tokenizer",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "TokenizerReport",
    "TraceError",
    "UnknownRequestError",
    "UnknownTokenError",
    "UnsupportedFormatError",
    "Withheld",
    "add_hook",
    "detect_format",
    "iter_chunks",
    "load_tokenizer",
    "stream",
    "wrap",
]
