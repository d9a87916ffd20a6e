"""A replacement for ``DecodeStream`` of the ``tokenizers`` library.

It takes the calls that vLLM makes, ``tokenizers.decoders.DecodeStream(ids=, skip_special_tokens=)``
and ``step(tokenizer, id)``, and returns the exact text in less time. vLLM looks the class up in its
module for each request, so replacing it there is enough. A program that imported the class from
the module before keeps the library's.

Tried with vLLM 0.33.0, tokenizers 0.22 and 0.23, fastokens 0.3.5.

>>> import tokenizers
>>> from streamdec.compat import patch_decode_stream
>>> with patch_decode_stream():  # a DecodeStreamPatch
...     tokenizers.decoders.DecodeStream.__name__
'TokenizersDecodeStream'
>>> tokenizers.decoders.DecodeStream.__name__
'DecodeStream'
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from operator import index
from typing import Any, Self, SupportsIndex

from tokenizers import Tokenizer
from tokenizers import decoders as _decoders

from streamdec.core.decode_stream import DecodeStream
from streamdec.core.token_ids import check_token_id
from streamdec.errors import RewriteError
from streamdec.mistakes import check_flag

__all__ = ["DecodeStreamPatch", "TokenizersDecodeStream", "patch_decode_stream"]

decoders: Any = _decoders


class TokenizersDecodeStream:
    """A decode stream with the interface of ``tokenizers.decoders.DecodeStream``.

    Unlike the library's class, it never outputs a prompt (the library does if the prompt ends
    inside a character), outputs text as soon as it is certain, and never raises "Invalid prefix
    encountered" for a tokenizer whose joining rule is known. It has one tokenizer. As in the
    library there is no flush: text that is withheld after the last token is lost.

    Args:
        ids: The ids of the prompt; None for no prompt.
        skip_special_tokens: Whether to leave special tokens out.

    Raises TypeError for an argument of a wrong type, OverflowError for an id outside 0 … 2**32 - 1.

    >>> from streamdec.compat import TokenizersDecodeStream
    >>> from tokenizers import Tokenizer, models
    >>> tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
    >>> stream = TokenizersDecodeStream(ids=[0])
    >>> stream.step(tokenizer, 1)
    ' b'
    """

    _tokenizer: Any = None
    _stream: Any = None
    _step: Any = None

    def __init__(
        self, ids: Iterable[SupportsIndex] | None = None, skip_special_tokens: bool = False
    ) -> None:
        self._prompt: array[int] = array("I", () if ids is None else map(index, ids))
        self._skip_special_tokens = check_flag("skip_special_tokens", skip_special_tokens)

    def step(self, tokenizer: Tokenizer, id: SupportsIndex | list[int]) -> str | None:  # noqa: A002 (the library's name)
        """Return the text that ``id`` completes, or None if it completes no text.

        Args:
            tokenizer: The ``tokenizers.Tokenizer`` that decodes, the same one at each step. Only
                between streams may tokens be added to it.
            id: A token id, or a list of ids.

        Raises TypeError if ``id`` is not an id or ``tokenizer`` not a tokenizer; ValueError for
        another tokenizer than before; RewriteError ("Invalid prefix encountered …", with which
        vLLM begins a new stream) if a tokenizer without a known rule changed text that was output.
        After an error the stream is as it was before the id.
        """
        if tokenizer is not self._tokenizer or self._stream is None:
            self._begin(tokenizer)
        try:
            if isinstance(id, list):
                return self._stream.feed([check_token_id(each) for each in id]) or None
            return self._step(id) or None
        except RewriteError as error:
            message = f"Invalid prefix encountered while decoding stream: {error}"
            raise RewriteError(message) from error

    def _begin(self, tokenizer: Any) -> None:
        if self._stream is not None:
            raise ValueError("a stream needs the same tokenizer object at each step")
        skip = self._skip_special_tokens
        self._stream = DecodeStream(tokenizer, self._prompt, skip_special_tokens=skip)
        self._tokenizer, self._step = tokenizer, self._stream.step

    def __copy__(self) -> Self:
        other: Self = type(self)(self._prompt, self._skip_special_tokens)
        if self._stream is not None:
            other._tokenizer, other._stream = self._tokenizer, self._stream.fork()
            other._step = other._stream.step
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()  # copies share the tokenizer, as in the library


class DecodeStreamPatch:
    """The patch of the library's class, until ``undo()`` or the end of a ``with``.

    It is made by :func:`~streamdec.compat.patch_decode_stream`.
    """

    def __init__(self) -> None:
        self._replaced = decoders.DecodeStream
        decoders.DecodeStream = TokenizersDecodeStream

    def undo(self) -> None:
        """Undo the patch. Existing streams continue.

        If something else replaced the class since, that one stays.
        """
        if decoders.DecodeStream is TokenizersDecodeStream:
            decoders.DecodeStream = self._replaced

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def patch_decode_stream() -> DecodeStreamPatch:
    """Replace ``tokenizers.decoders.DecodeStream`` by TokenizersDecodeStream.

    In vLLM, call it before the first request, in the process that serves it. Returns the patch,
    which can be undone; undo several patches in the reverse order. If fastokens replaces the class
    too, patch after it and undo before it. Existing streams are not changed.
    """
    return DecodeStreamPatch()
