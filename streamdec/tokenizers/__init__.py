"""What all tokenizers share, and types that most programs do not need.

:class:`TokenizerReport` is the ``report`` of a loaded tokenizer, :class:`EncodingCache` keeps
encodings, and :class:`EncodingSpec` describes the encoding of a rank file.

Modules::

    _base             what follows from ids and decode: batches, offsets, async calls
      _chat           chat templates of a tokenizer
      _instrumented   calls that hooks receive
      _threads        threads for long texts
    encoding_cache    a cache of encodings
    encodings         the regex and special tokens of each known rank file
    tokenizer_report  the report of a loaded tokenizer
    _common           calls into a library, ids, names, fingerprints
      _extras         libraries that are extras
      _growth         how long a tokenizer.json may make a text
      _reading        reading files up to a size
      folder_files    the files of a model folder, bounded
"""

from streamdec.tokenizers.encoding_cache import EncodingCache
from streamdec.tokenizers.encodings import EncodingSpec
from streamdec.tokenizers.tokenizer_report import TokenizerReport

__all__ = ["EncodingCache", "EncodingSpec", "TokenizerReport"]
