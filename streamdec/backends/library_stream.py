"""The tokenizers' own libraries: streams, encode and decode, for comparisons.

``tokenizers`` has a stream, ``DecodeStream``. The other libraries only have ``decode``, around
which people write a loop over a window of ids.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.protocols import Decoder
from streamdec.tokenizers._base import BaseTokenizer


def library_tokenizer(tokenizer: Decoder) -> Tokenizer | None:
    """Return the ``tokenizers.Tokenizer`` of ``tokenizer``; None for another library."""
    return tokenizer._tokenizer if isinstance(tokenizer, HuggingFaceTokenizer) else None


def library_stream() -> DecodeStream:
    """Return a stream of ``tokenizers``; its ``step`` takes a tokenizer and an id."""
    return DecodeStream(skip_special_tokens=True)


def library_decode(tokenizer: Decoder) -> tuple[str, Callable[[list[int]], str]]:
    """Return the name and the decode function of the library of ``tokenizer``.

    Without a known library they are ``"decode()"`` and ``tokenizer.decode``.
    """
    if isinstance(tokenizer, BaseTokenizer):
        return tokenizer._library_decode()
    return "decode()", tokenizer.decode


def library_encode(tokenizer: BaseTokenizer) -> tuple[str, Callable[[str], Sequence[int]]]:
    """Return the name and the encode function of the library of ``tokenizer``.

    The function returns the ids of a text. The library of a GGUF file is ``tokenizers``, which
    reads its vocabulary. Raises EncodeError if no library encodes.
    """
    return tokenizer._library_encode()
