"""The tokenizers' own libraries: streams, encode and decode, for comparisons.

``tokenizers`` has a stream, ``DecodeStream``. The other libraries only have ``decode``
(:func:`library_decode`), around which people write a loop over a window of ids.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.protocols import Decoder


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
    encoding: Any = getattr(tokenizer, "_encoding", None)
    if callable(getattr(encoding, "decode_single_token_bytes", None)):
        return "tiktoken", encoding.decode
    processor: Any = getattr(tokenizer, "_processor", None)
    if callable(getattr(processor, "DecodeIds", None)):
        return "sentencepiece", processor.DecodeIds
    return "decode()", tokenizer.decode


def differently_encoded(
    tokenizer: Any, texts: Iterable[str]
) -> tuple[str, list[tuple[str, list[int], list[int]]]]:
    """Compare ``encode`` of ``tokenizer`` with that of its own library.

    Returns the name of the library, and those of ``texts`` that have other ids, each with the ids
    of ``tokenizer`` and of the library. For a GGUF file, the library is the ``tokenizers`` that
    reads its vocabulary, because llama.cpp is not imported.
    """
    inner = getattr(tokenizer, "_encoder", None)
    library = library_tokenizer(inner if isinstance(inner, HuggingFaceTokenizer) else tokenizer)
    if library is not None:
        name, encode_ids = "tokenizers", partial(_ids_of, library)
    elif (encoding := getattr(tokenizer, "_encoding", None)) is not None:
        is_nfc = tokenizer._spec.is_nfc
        name, encode_ids = "tiktoken", partial(_ids_of_encoding, encoding, is_nfc=is_nfc)
    elif (processor := getattr(tokenizer, "_processor", None)) is not None:
        name, encode_ids = "sentencepiece", processor.EncodeAsIds
    else:
        name, encode_ids = (
            "transformers",
            partial(tokenizer._given.encode, add_special_tokens=False),
        )
    found = ((text, list(tokenizer.encode(text).ids), list(encode_ids(text))) for text in texts)
    return name, [each for each in found if each[1] != each[2]]


def _ids_of(library: Tokenizer, text: str) -> list[int]:
    ids: list[int] = library.encode(text, add_special_tokens=False).ids
    return ids


def _ids_of_encoding(encoding: Any, text: str, *, is_nfc: bool) -> list[int]:
    text = unicodedata.normalize("NFC", text) if is_nfc else text
    ids: list[int] = encoding.encode(text, allowed_special="all")
    return ids
