"""The library fastokens (extra ``fast``), as far as it is used: text to ids.

In: the text of a ``tokenizer.json``. Out: an encoder that gives ids as bytes, four for each,
little-endian. Always by one call, which lets other threads run; ``encode`` keeps them waiting for
texts under 32 KiB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from streamdec.backends._extras import library
from streamdec.backends._guard import guarded
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError

__all__ = ["FastEncoder"]


class FastEncoder:
    """Encodes as fastokens does, never truncated and never padded.

    Raises :class:`MissingExtraError` without the library, and :class:`TokenizerLoadError` if it
    does not take this file; that says nothing against the file.
    """

    def __init__(self, text: str) -> None:
        made = library("fastokens", "fast", "encoding fast needs").Tokenizer
        try:
            self._tokenizer: Any = guarded(made.from_json_str, text)
            guarded(self._tokenizer.no_truncation)
            guarded(self._tokenizer.no_padding)
        except TokenizerLibraryError as error:
            raise TokenizerLoadError(f"fastokens cannot load it: {error.__cause__}") from error

    def ids(
        self,
        texts: Sequence[str],
        *,
        add_special_tokens: bool,
        special: Literal["parse", "text"] = "parse",
    ) -> list[bytes]:
        """The ids of each text; what it spells of special tokens is special, or is text."""
        encode, as_text = self._tokenizer.encode_batch_flat, special == "text"
        data, ends = guarded(
            encode,
            list(texts),
            add_special_tokens=add_special_tokens,
            split_special_tokens=as_text,
        )
        if len(texts) == 1:
            return [data]
        places = memoryview(ends).cast("Q").tolist()
        return [data[4 * places[i] : 4 * places[i + 1]] for i in range(len(texts))]
