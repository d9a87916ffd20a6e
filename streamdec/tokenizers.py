"""Types of tokenizers that most programs do not need: for annotations, caches and own rank files.

:class:`TokenizerReport` is the ``report`` of a loaded tokenizer, :class:`EncodingCache` keeps
encodings, and :class:`EncodingSpec` describes the encoding of a rank file.
"""

from streamdec.backends.encoding_cache import EncodingCache
from streamdec.backends.encodings import EncodingSpec
from streamdec.backends.tokenizer_report import TokenizerReport

__all__ = ["EncodingCache", "EncodingSpec", "TokenizerReport"]
