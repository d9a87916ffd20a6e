"""Every exception and warning of streamdec.

A class exists where the caller does something else. ``docs/reference/errors.md`` has their tree.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamdec.chunks import Chunk

__all__ = [
    "ChatTemplateError",
    "EncodeError",
    "FinishedError",
    "MissingExtraError",
    "QueueFullError",
    "RewriteError",
    "SnapshotError",
    "SourceError",
    "StreamdecError",
    "StreamdecWarning",
    "TokenIdError",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "UnknownRequestError",
]


class StreamdecError(Exception):
    """The base class of all errors of streamdec.

    The stream is as it was before the token that failed. Output ``chunk.text`` if ``chunk`` is not
    None, and see the class that was raised.

    >>> from streamdec import DecodeStream, MockTokenizer, StreamdecError
    >>> stream = DecodeStream(MockTokenizer())
    >>> try:
    ...     stream.step_batch([1, 2, -1, 3])
    ... except StreamdecError as error:
    ...     print(error.chunk.text, error.num_taken)
    Hello world 2
    """

    chunk: Chunk | None = None
    """The text of the earlier tokens of the call; None without it, or if it was output already."""
    num_taken: int = 0
    """The number of the earlier tokens of the call."""

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle all fields of an error, for any constructor."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[StreamdecError], args: tuple[object, ...]) -> StreamdecError:
    error = kind.__new__(kind)
    error.args = args
    return error


class TokenIdError(StreamdecError, ValueError, TypeError):
    """A token id that is invalid, or that the tokenizer does not have.

    An id is an integer of 0 … 2**32 - 1, and not a bool. An unknown id is an error only with
    ``unknown_ids="error"``; then tokenizer and model may not match (``streamdec preflight``).
    Streams raise the error after the earlier text, and can continue with the next id. A
    ``DecoderPool`` puts it into ``pool.errors``, and ends only that request.

    ``token_id`` is the object that was passed, ``index`` its position among the generated tokens
    (None in a prompt), and ``message`` the text of the error.
    """

    def __init__(self, message: str, token_id: object, index: int | None) -> None:
        super().__init__(message)
        self.token_id = token_id
        self.index = index


class FinishedError(StreamdecError, RuntimeError):
    """A step after the end, or the use of a queue that has ended.

    A stream ends with ``flush``, or with the chunk that has a ``finish_reason``; ``reset()`` begins
    it again. Ids after the finish in one ``feed`` are not an error: ``chunk.unread_tokens`` counts
    them.
    """


class RewriteError(StreamdecError):
    """The tokenizer's decode changed text that was already output.

    Only the windowed route raises it. The stream is as it was before the token, and cannot take it:
    begin a new stream with the next ids, or load the tokenizer with ``load_tokenizer``.
    """


class SnapshotError(StreamdecError, ValueError):
    """A snapshot that is malformed, or belongs to another tokenizer.

    Restore a snapshot with the same tokenizer, class, options and release.
    """


class SourceError(StreamdecError, ValueError):
    """An engine or a file of ids that cannot be read or closed.

    A stream raises it after all text until then, for an output without ids or with several samples,
    for a ``cumulative`` output without the ids before it, and for a generator that holds a task
    group across a ``yield`` (PEP 789). ``ids=`` and ``index=`` say what to read in an output.
    """


class QueueFullError(StreamdecError, RuntimeError):
    """A put into a full ``TokenQueue`` that could not wait; the queue took nothing.

    In a task, ``await queue.send(ids)``. In a thread, call ``put`` without ``wait=False``.
    """


class UnknownRequestError(StreamdecError, KeyError):
    """A request id that a pool does not have: never added, or ended."""

    def __str__(self) -> str:
        return f"the pool has no request {self.args[0]!r:.80}"


class TokenizerLoadError(StreamdecError, ValueError):
    """A tokenizer or a model folder that cannot be found or read.

    ``streamdec info PATH`` shows what is in a file or folder.
    """


class EncodeError(StreamdecError, ValueError):
    """A text that cannot be encoded, or offsets that are not known.

    The text has a special token although ``special="forbid"``, or a lone surrogate; or the
    tokenizer only decodes (some GGUF files). There are no offsets if the text was normalized.
    """


class TokenizerLibraryError(StreamdecError, RuntimeError):
    """The library under a tokenizer raised an error, the ``__cause__``, or panicked."""


class ChatTemplateError(StreamdecError, ValueError):
    """A chat template that is missing or fails, or messages that it rejects.

    With the ``code`` of a resource limit or a syntax error, change the template. With
    ``"CHAT_TEMPLATE_REFUSES"`` or no code, change the messages: their roles, order and content.

    Args:
        message: the text of the error.
        template: the name of the template; None if none ran.
        line: the line in it, counted from 1; None if none ran.
        code: the kind of failure, such as ``"CHAT_TEMPLATE_RESOURCE_LIMIT"``; None if the template
            did not cause it.
    """

    def __init__(
        self,
        message: str,
        *,
        template: str | None = None,
        line: int | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.template = template
        self.line = line
        self.code = code


class MissingExtraError(StreamdecError, ImportError):
    """An optional dependency that is not installed; the message has the install line."""


class StreamdecWarning(UserWarning):
    """Something works differently than requested. ``step`` never warns."""


def warn(message: str) -> None:
    """Give a StreamdecWarning that points to the code that called streamdec."""
    level = 1
    frame: FrameType | None = sys._getframe()
    while frame and str(frame.f_globals.get("__name__")).partition(".")[0] == "streamdec":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, StreamdecWarning, stacklevel=level)
