"""The stream that one would have without streamdec: of the tokenizer's own library.

``tokenizers`` has one, ``DecodeStream``. The other libraries have ``decode`` alone, and what people
write around it is a loop over a window of ids; :func:`library_decode` is what they would call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.protocols import Decoder

__all__ = ["library_decode", "library_stream", "library_tokenizer"]


def library_tokenizer(tokenizer: Decoder) -> Tokenizer | None:
    """The ``tokenizers.Tokenizer`` inside ``tokenizer``; None if it is of another library."""
    return tokenizer._tokenizer if isinstance(tokenizer, HuggingFaceTokenizer) else None


def library_stream() -> DecodeStream:
    """A new stream of ``tokenizers``; its ``step`` takes a ``tokenizers.Tokenizer`` and an id."""
    return DecodeStream(skip_special_tokens=True)


def library_decode(tokenizer: Decoder) -> tuple[str, Callable[[list[int]], str]]:
    """What to call the library's own ``decode``, and it; streamdec's where there is no library."""
    encoding: Any = getattr(tokenizer, "_encoding", None)
    if callable(getattr(encoding, "decode_single_token_bytes", None)):
        return "tiktoken", encoding.decode
    processor: Any = getattr(tokenizer, "_processor", None)
    if callable(getattr(processor, "DecodeIds", None)):
        return "sentencepiece", processor.DecodeIds
    return "decode()", tokenizer.decode
