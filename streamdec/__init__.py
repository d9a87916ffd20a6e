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

from streamdec import regex_stops as _regex_stops  # noqa: F401 (it says how regexes are matched)
from streamdec.aio import TextStream, stream, wrap
from streamdec.backends.gguf import GGUFTokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.backends.mock import MockTokenizer
from streamdec.backends.report import LoadedTokenizer
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
    FeedClosedError,
    FeedFullError,
    FinishedError,
    IdleTimeoutError,
    MissingExtraError,
    PreflightError,
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
from streamdec.feed import TokenQueue
from streamdec.hooks import Hook, add_hook
from streamdec.iteration import TextIterator, iter_chunks
from streamdec.loading.detect import detect_format
from streamdec.loading.factory import load_tokenizer
from streamdec.machines import TokenChunk
from streamdec.pool import DecoderPool
from streamdec.protocols import Decoder, Encoder, Tokenizer

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
    "FeedClosedError",
    "FeedFullError",
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
    "RewriteError",
    "SentencePieceTokenizer",
    "Sequence",
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
    "TokenChunk",
    "TokenIdError",
    "TokenIdTypeError",
    "TokenQueue",
    "TokenSpan",
    "Tokenizer",
    "TokenizerLibraryError",
    "TokenizerLoadError",
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
