"""The tokenizers that users of an engine already have.

In: a tokenizer of streamdec, ``tokenizers``, transformers or mlx-lm. Out: a decoder.
"""

from __future__ import annotations

from typing import Any, cast

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.protocols import Decoder


def decoder_for(tokenizer: Any) -> Decoder:
    """Return a decoder for ``tokenizer``.

    The result is a HuggingFaceTokenizer for a tokenizer of ``tokenizers`` or a fast tokenizer of
    transformers. Any other object with ``decode(ids, skip_special_tokens=...)`` is returned as it
    is. Raises TypeError for an object without ``decode``.
    """
    library = type(tokenizer).__module__.partition(".")[0]
    if library == "tokenizers" or hasattr(tokenizer, "backend_tokenizer"):
        return HuggingFaceTokenizer(tokenizer)
    if not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(f"a tokenizer must have a method decode(token_ids), got {tokenizer!r:.80}")
    return cast(Decoder, tokenizer)
