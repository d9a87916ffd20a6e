"""Tokenizers: a class for each library, and what all of them share.

:func:`streamdec.load_tokenizer` chooses the class. :func:`detect_format` tells the format of a file
without loading it. ``report`` of a loaded tokenizer is a :class:`TokenizerReport`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamdec.backends.gguf import GGUFTokenizer
    from streamdec.backends.huggingface import HuggingFaceTokenizer
    from streamdec.backends.hybrid import HybridTokenizer
    from streamdec.backends.mock import MockTokenizer
    from streamdec.backends.sentencepiece import SentencePieceTokenizer
    from streamdec.backends.tekken import TekkenTokenizer
    from streamdec.backends.tiktoken import TiktokenTokenizer
    from streamdec.encoding import Encoding, SpecialTokens
    from streamdec.loading.detect import detect_format
    from streamdec.tokenizers.encodings import EncodingSpec
    from streamdec.tokenizers.tokenizer_report import LoadedTokenizer, TokenizerReport

__all__ = [
    "Encoding",
    "EncodingSpec",
    "GGUFTokenizer",
    "HuggingFaceTokenizer",
    "HybridTokenizer",
    "LoadedTokenizer",
    "MockTokenizer",
    "SentencePieceTokenizer",
    "SpecialTokens",
    "TekkenTokenizer",
    "TiktokenTokenizer",
    "TokenizerReport",
    "detect_format",
]

if not TYPE_CHECKING:  # the modules of the classes import this package
    from streamdec.lazy import lazy

    __getattr__ = lazy(
        __name__,
        {
            "streamdec.backends.gguf": "GGUFTokenizer",
            "streamdec.backends.huggingface": "HuggingFaceTokenizer",
            "streamdec.backends.hybrid": "HybridTokenizer",
            "streamdec.backends.mock": "MockTokenizer",
            "streamdec.backends.sentencepiece": "SentencePieceTokenizer",
            "streamdec.backends.tekken": "TekkenTokenizer",
            "streamdec.backends.tiktoken": "TiktokenTokenizer",
            "streamdec.encoding": "Encoding SpecialTokens",
            "streamdec.loading.detect": "detect_format",
            "streamdec.tokenizers.encodings": "EncodingSpec",
            "streamdec.tokenizers.tokenizer_report": "LoadedTokenizer TokenizerReport",
        },
    )
