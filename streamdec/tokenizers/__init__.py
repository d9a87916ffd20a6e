"""Tokenizers: a class for each library, and what all of them share.

:func:`streamdec.load_tokenizer` chooses the class. :func:`detect_format` tells the format of a file
without loading it. ``report`` of a loaded tokenizer is a :class:`TokenizerReport`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamdec.backends.gguf import GGUFTokenizer as GGUFTokenizer
    from streamdec.backends.huggingface import HuggingFaceTokenizer as HuggingFaceTokenizer
    from streamdec.backends.hybrid import HybridTokenizer as HybridTokenizer
    from streamdec.backends.mock import MockTokenizer as MockTokenizer
    from streamdec.backends.sentencepiece import SentencePieceTokenizer as SentencePieceTokenizer
    from streamdec.backends.tekken import TekkenTokenizer as TekkenTokenizer
    from streamdec.backends.tiktoken import TiktokenTokenizer as TiktokenTokenizer
    from streamdec.encoding import Encoding as Encoding
    from streamdec.encoding import SpecialTokens as SpecialTokens
    from streamdec.loading.detect import detect_format as detect_format
    from streamdec.tokenizers.encodings import EncodingSpec as EncodingSpec
    from streamdec.tokenizers.tokenizer_report import LoadedTokenizer as LoadedTokenizer
    from streamdec.tokenizers.tokenizer_report import TokenizerReport as TokenizerReport

__all__: list[str]

if not TYPE_CHECKING:  # the modules of the classes import this package
    from streamdec.lazy import lazy

    _homes = {
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
    }
    __getattr__ = lazy(__name__, _homes)
    __all__ = sorted(" ".join(_homes.values()).split())
