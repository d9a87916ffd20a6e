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
from collections.abc import Sequence
from typing import Any, Self, SupportsIndex

from tokenizers import Tokenizer
from tokenizers import decoders as _decoders

from streamdec.core.decode_stream import DecodeStream
from streamdec.errors import RewriteError, TokenIdError
from streamdec.locks import Lock

__all__ = ["DecodeStreamPatch", "TokenizersDecodeStream", "patch_decode_stream"]

_lock = Lock()
decoders: Any = _decoders
_patches: set[DecodeStreamPatch] = set()
"""The patches in effect."""
_replaced: Any = decoders.DecodeStream
"""The class that the first of them replaced."""
_NONE_YET: Any = object()


class TokenizersDecodeStream:
    """A decode stream with the interface of ``tokenizers.decoders.DecodeStream``.

    Unlike the library's class, it never outputs a prompt (the library does if the prompt ends
    inside a character), outputs text as soon as it is certain, and never raises "Invalid prefix
    encountered" for a tokenizer whose joining rule is known. As in the library there is no flush:
    text that is withheld after the last token is lost.

    Args:
        ids: The prompt, a sequence of ids; None for no prompt.
        skip_special_tokens: Whether to leave special tokens out; None is False.

    Raises TypeError for an argument of a wrong type, OverflowError for an id outside 0 … 2**32 - 1.

    >>> from streamdec.compat import TokenizersDecodeStream
    >>> from tokenizers import Tokenizer, models
    >>> tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
    >>> stream = TokenizersDecodeStream(ids=[0])
    >>> stream.step(tokenizer, 1)
    ' b'
    """

    __slots__ = ("__weakref__", "_prompt", "_skip_special_tokens", "_step", "_stream", "_tokenizer")

    def __init__(
        self, ids: Sequence[SupportsIndex] | None = None, skip_special_tokens: bool | None = False
    ) -> None:
        if not isinstance(skip_special_tokens, (bool, type(None))):
            kind = type(skip_special_tokens).__name__
            raise TypeError(f"skip_special_tokens must be a bool or None, not {kind}")
        self._prompt = _checked(ids)
        self._skip_special_tokens = bool(skip_special_tokens)
        self._tokenizer: Any = _NONE_YET
        self._stream: Any = None
        self._step: Any = None

    def step(self, tokenizer: Tokenizer, id: SupportsIndex | Sequence[SupportsIndex]) -> str | None:  # noqa: A002 (the library's name)
        """Return the text that ``id`` completes, or None if it completes no text.

        Args:
            tokenizer: The ``tokenizers.Tokenizer`` that decodes, the same one at each step. Only
                between streams may tokens be added to it.
            id: An id or a list of ids. If one of a list is invalid, none is read.

        Raises TypeError if ``id`` is not an id or ``tokenizer`` not a tokenizer; SnapshotError if
        the tokenizer decodes differently than that of the steps before; RewriteError ("Invalid
        prefix encountered …", with which vLLM begins a new stream) if a tokenizer without a known
        rule changed text that was output. After an error the stream is as it was before.
        """
        if tokenizer is not self._tokenizer:
            self._take(tokenizer)
        try:
            return self._step(id) or None
        except TokenIdError:
            return self._take_other(id)
        except RewriteError as error:
            raise _invalid_prefix(error) from error

    def _take(self, tokenizer: Any) -> None:
        """Begin the stream, or continue it with another tokenizer that decodes alike."""
        if not hasattr(tokenizer, "get_vocab_size"):
            raise TypeError(f"step() takes a tokenizers.Tokenizer, not {tokenizer!r:.60}")
        stream: Any
        if self._stream is not None:
            stream = DecodeStream.restore(tokenizer, self._stream.snapshot())
        else:
            skip = self._skip_special_tokens
            stream = DecodeStream(tokenizer, self._prompt, skip_special_tokens=skip)
        self._tokenizer, self._stream, self._step = tokenizer, stream, stream.step
        self._prompt = ()

    def _take_other(self, id: Any) -> str | None:  # noqa: A002
        """Step with a bool, which the library accepts, or a list of ids."""
        if isinstance(id, (str, bytes)) or not (_is_list(id) or isinstance(id, bool)):
            raise _no_ids(id)
        try:
            ids = [*array("I", [*id] if _is_list(id) else [id])]
        except (TypeError, OverflowError):
            raise _no_ids(id) from None
        stream = self._stream.fork()
        try:
            text = stream.feed(ids)
        except RewriteError as error:
            raise _invalid_prefix(error) from error
        self._stream, self._step = stream, stream.step
        return text or None

    # --- copies

    def __copy__(self) -> Self:
        other: Self = object.__new__(type(self))
        other._prompt, other._skip_special_tokens = self._prompt, self._skip_special_tokens
        other._tokenizer, other._stream = self._tokenizer, self._stream and self._stream.fork()
        other._step = other._stream and other._stream.step
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.__copy__()  # copies share the tokenizer, as in the library

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._stream or 'not begun'}>"


def _checked(ids: Any) -> Sequence[SupportsIndex]:
    """Return a checked copy of ``ids``."""
    if ids is None:
        return ()
    if not _is_list(ids) or isinstance(ids, (str, dict)):
        raise TypeError(f"ids must be a sequence of token ids, not {ids!r:.60}")
    return [*array("I", [*ids])]


def _is_list(value: object) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__getitem__")


def _no_ids(value: object) -> TypeError:
    message = f"step() takes a token id from 0 to 2**32 - 1, or a list of them, not {value!r:.60}"
    return TokenIdError(message, value, None)


def _invalid_prefix(error: RewriteError) -> RewriteError:
    """Return the error with the words of the library, which vLLM searches for."""
    return RewriteError(f"Invalid prefix encountered while decoding stream: {error}")


# --- the patch ------------------------------------------------------------------------------------


class DecodeStreamPatch:
    """The patch of the library's class, until ``undo()`` or the end of a ``with``.

    It is made by :func:`~streamdec.compat.patch_decode_stream`. Patches are counted, and the
    library's class returns when the last one is undone.
    """

    def __init__(self) -> None:
        global _replaced
        with _lock:
            if decoders.DecodeStream is not TokenizersDecodeStream:
                _replaced = decoders.DecodeStream
                decoders.DecodeStream = TokenizersDecodeStream
            _patches.add(self)

    def undo(self) -> None:
        """Undo this patch; a second call does nothing. Existing streams continue.

        If another patch replaced the class since, that one stays.
        """
        with _lock:
            is_last = _patches == {self}
            _patches.discard(self)
            if is_last and decoders.DecodeStream is TokenizersDecodeStream:
                decoders.DecodeStream = _replaced

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def patch_decode_stream() -> DecodeStreamPatch:
    """Replace ``tokenizers.decoders.DecodeStream`` by TokenizersDecodeStream.

    In vLLM, call it before the first request, in the process that serves it. Returns the patch,
    which can be undone. Any thread may call it, any number of times. If fastokens replaces the
    class too, patch after it and undo before it. Existing streams are not changed.
    """
    return DecodeStreamPatch()
