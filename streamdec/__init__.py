"""streamdec: an LLM engine's token ids as text, live and exact to the byte."""

from streamdec import regex_stops as _regex_stops  # noqa: F401 (it says how regexes are matched)
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.mock import MockTokenizer
from streamdec.chunks import Anchor, Chunk, FinishReason, StopMatch, StopReason
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.sequence import Sequence
from streamdec.core.stop_conditions import StopConditions, StopLimits
from streamdec.core.stop_sequence import StopSequenceDecoder
from streamdec.core.token_window import INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET
from streamdec.errors import (
    FinishedError,
    MissingExtraError,
    RewriteError,
    SnapshotError,
    SnapshotMismatchError,
    StopRegexTimeoutError,
    StreamdecError,
    StreamdecWarning,
    TokenIdError,
    TokenIdTypeError,
    TokenizerLibraryError,
    TokenizerLoadError,
    UnknownTokenError,
    UnsupportedFormatError,
)
from streamdec.loading.factory import load_tokenizer
from streamdec.protocols import Decoder, Encoder, Encoding, Tokenizer

__all__ = [
    "INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET",
    "Anchor",
    "Chunk",
    "DecodeStream",
    "Decoder",
    "Encoder",
    "Encoding",
    "FinishReason",
    "FinishedError",
    "HuggingFaceTokenizer",
    "MissingExtraError",
    "MockTokenizer",
    "RewriteError",
    "Sequence",
    "SnapshotError",
    "SnapshotMismatchError",
    "StopConditions",
    "StopLimits",
    "StopMatch",
    "StopReason",
    "StopRegexTimeoutError",
    "StopSequenceDecoder",
    "StreamdecError",
    "StreamdecWarning",
    "TokenIdError",
    "TokenIdTypeError",
    "Tokenizer",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "UnknownTokenError",
    "UnsupportedFormatError",
    "load_tokenizer",
]
