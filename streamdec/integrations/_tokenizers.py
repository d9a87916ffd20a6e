"""The tokenizers that an engine's user already has.

In: a tokenizer of streamdec, of ``tokenizers``, of transformers or of mlx-lm. Out: what decodes.
"""

from __future__ import annotations

from typing import Any, cast

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.protocols import Decoder

__all__ = ["decoder_for"]


def decoder_for(tokenizer: Any) -> Decoder:
    """``tokenizer``, or what is compiled of it if it is one of ``tokenizers``.

    That is what is inside a fast tokenizer of transformers.

    Any other object with ``decode(ids, skip_special_tokens=...)`` is used as it is. TypeError for
    what has no ``decode``.
    """
    library = type(tokenizer).__module__.partition(".")[0]
    if library == "tokenizers" or hasattr(tokenizer, "backend_tokenizer"):
        return HuggingFaceTokenizer(tokenizer)
    if not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(f"a tokenizer has decode(token_ids), unlike {tokenizer!r:.80}")
    return cast(Decoder, tokenizer)
