"""The tokenizers of SGLang that streamdec decodes for: fast ones of transformers."""

from __future__ import annotations

from typing import Any

from transformers import PreTrainedTokenizerFast

from streamdec import HuggingFaceTokenizer

__all__ = ["decoder_for", "why_unsupported"]

_DECODING = ("decode", "batch_decode", "_decode")
"""The methods of a tokenizer of transformers that turn ids into text."""


def why_unsupported(tokenizer: Any) -> str | None:
    """What streamdec does not support of ``tokenizer``; None if nothing."""
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        return "not a fast tokenizer of transformers"
    for name in _DECODING:
        own = getattr(type(tokenizer), name) is not getattr(PreTrainedTokenizerFast, name)
        if own or name in vars(tokenizer):
            return f"it has its own {name}()"
    if tokenizer.clean_up_tokenization_spaces:
        return "clean_up_tokenization_spaces"
    return None


def decoder_for(tokenizer: PreTrainedTokenizerFast) -> HuggingFaceTokenizer:
    """Return the streamdec tokenizer of a fast tokenizer of transformers."""
    return HuggingFaceTokenizer(tokenizer.backend_tokenizer)
