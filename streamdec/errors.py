"""Every exception and warning of streamdec.

    StreamdecError
    ├── TokenIdError (ValueError)            not an id: negative or above 2**32 - 1
    │   ├── TokenIdTypeError (TypeError)     not an id: not an integer, or a bool
    │   └── UnknownTokenError                an id the tokenizer has not (unknown_ids="error")
    ├── FinishedError (RuntimeError)         a step after the end
    ├── RewriteError                         a windowed decode took back text that was given
    ├── SnapshotError (ValueError)           a snapshot that cannot be continued
    │   └── SnapshotMismatchError            … as it belongs to another tokenizer or options
    ├── SourceError (ValueError)             an engine's output that cannot be read
    ├── IdleTimeoutError (TimeoutError)      a source that gave nothing for too long
    ├── FeedClosedError (RuntimeError)       a put into a feed that has ended
    ├── FeedFullError (RuntimeError)         a put into a full feed, where it was not to wait
    ├── UnknownRequestError (KeyError)       a request that a pool does not have
    ├── TokenizerLoadError (ValueError)      a tokenizer file that cannot be read
    │   └── UnsupportedFormatError           … as its format is none that streamdec serves
    ├── EncodeError (ValueError)             a text that cannot be encoded, or must not be
    ├── TokenizerLibraryError (RuntimeError) the library under a tokenizer failed or panicked
    ├── StopRegexTimeoutError (TimeoutError) a stop regex that takes too long on this text
    ├── ChatTemplateError (ValueError)       a chat template that is missing, broken or says no
    ├── PreflightError (ValueError)          a path where no model can be looked for
    ├── TraceError (ValueError)              lines that are no trace, or a trace without ids
    └── MissingExtraError (ImportError)      an optional dependency that is not installed

    StreamdecWarning (UserWarning)           streamdec goes on, in another way than was hoped for

An error raised in the middle of several tokens leaves the machine in the state of the token before
the one that failed; the text decoded by the same call until then is ``error.chunk``, and
``error.num_taken`` how many of the call's tokens were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from streamdec.chunks import Chunk

__all__ = [
    "ChatTemplateError",
    "EncodeError",
    "FeedClosedError",
    "FeedFullError",
    "FinishedError",
    "IdleTimeoutError",
    "MissingExtraError",
    "PreflightError",
    "RewriteError",
    "SnapshotError",
    "SnapshotMismatchError",
    "SourceError",
    "StopRegexTimeoutError",
    "StreamdecError",
    "StreamdecWarning",
    "TokenIdError",
    "TokenIdTypeError",
    "TokenizerLibraryError",
    "TokenizerLoadError",
    "TraceError",
    "UnknownRequestError",
    "UnknownTokenError",
    "UnsupportedFormatError",
]


class StreamdecError(Exception):
    """The root of all errors of streamdec.

    ``chunk`` is what the failing call had already decoded (``None`` if nothing was lost to begin
    with), and ``num_taken`` how many of that call's tokens.
    """

    chunk: Chunk | None = None
    num_taken: int = 0


class TokenIdError(StreamdecError, ValueError):
    """A token id outside 0 … 2**32 - 1.

    ``token_id`` is the object that was given, ``index`` its place among the generated tokens (None
    for one of a prompt).
    """

    def __init__(self, message: str, token_id: object, index: int | None) -> None:
        super().__init__(message)
        self.token_id = token_id
        self.index = index

    def at(self, index: int) -> Self:
        """The same error of a token in another place: in the list that the caller has in mind."""
        message = self.args[0].replace(f"token {self.index}", f"token {index}", 1)
        return type(self)(message, self.token_id, index)

    def __reduce__(self) -> tuple[object, ...]:
        before = {"chunk": self.chunk, "num_taken": self.num_taken}
        return type(self), (self.args[0], self.token_id, self.index), before


class TokenIdTypeError(TokenIdError, TypeError):
    """A token id that is no integer, or is a ``bool``."""


class UnknownTokenError(TokenIdError):
    """An id that the tokenizer does not have, where ``unknown_ids="error"`` was asked for."""


class FinishedError(StreamdecError, RuntimeError):
    """A step after ``flush``; ``reset()`` begins anew."""


class RewriteError(StreamdecError):
    """The decode of a window changed text that had already been given.

    Only the windowed route can meet this: the tokenizer's ``decode`` is not append-only.
    """


class SnapshotError(StreamdecError, ValueError):
    """A snapshot that is malformed, of an unknown format, or impossible for this tokenizer."""


class SnapshotMismatchError(SnapshotError):
    """A snapshot of another tokenizer or of other options; the message says which."""


class SourceError(StreamdecError, ValueError):
    """An output of an engine in which no ids are found, or that contradicts the ones before it."""


class IdleTimeoutError(StreamdecError, TimeoutError):
    """The source gave nothing for ``seconds``, and was closed.

    ``snapshot`` is the machine as it was: ``restore`` goes on from it with another source.
    """

    def __init__(self, seconds: float, snapshot: dict[str, Any]) -> None:
        super().__init__(f"the source gave nothing for {seconds:g} seconds")
        self.seconds = seconds
        self.snapshot = snapshot

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.seconds, self.snapshot)


class FeedClosedError(StreamdecError, RuntimeError):
    """A put into a feed that was ended, or whose reader has closed it: the producer can stop."""


class FeedFullError(StreamdecError, RuntimeError):
    """A put into a full feed, where it was not to wait or could not."""


class UnknownRequestError(StreamdecError, KeyError):
    """A request id that a pool does not have: never added, or ended meanwhile."""

    def __str__(self) -> str:
        return f"the pool has no request {self.args[0]!r:.80}"


class TokenizerLoadError(StreamdecError, ValueError):
    """A tokenizer file that is not what it should be."""


class UnsupportedFormatError(TokenizerLoadError):
    """A file or folder in a format that is not served; the message says what was found."""


class EncodeError(StreamdecError, ValueError):
    """A text that cannot be encoded or must not be, or whose encoding cannot tell its offsets."""


class TokenizerLibraryError(StreamdecError, RuntimeError):
    """The library under a tokenizer raised or panicked; the original is ``__cause__``."""


class StopRegexTimeoutError(StreamdecError, TimeoutError):
    """A stop regex that took too long; ``pattern`` is which. The stream is as before the token."""

    def __init__(self, message: str, pattern: str) -> None:
        super().__init__(message)
        self.pattern = pattern

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.args[0], self.pattern), {"chunk": self.chunk}


class ChatTemplateError(StreamdecError, ValueError):
    """A chat template that is missing or fails, or messages that it cannot be given.

    What a template says by ``raise_exception`` is the whole message. ``template`` is the name of
    the template, ``line`` the line in it from 1, ``code`` the kind of failure, as in
    ``"CHAT_TEMPLATE_RESOURCE_LIMIT"``; None where they are not known.
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

    def __reduce__(self) -> tuple[object, ...]:
        state = {"template": self.template, "line": self.line, "code": self.code}
        return type(self), (self.args[0],), state


class PreflightError(StreamdecError, ValueError):
    """A path that is no folder, or a folder that cannot be opened.

    What is wrong inside a folder is a finding, not an error.
    """


class TraceError(StreamdecError, ValueError):
    """Lines that are no trace, or a trace that cannot be played again."""


class MissingExtraError(StreamdecError, ImportError):
    """An optional dependency that is not installed; the message has the install line."""


class StreamdecWarning(UserWarning):
    """streamdec goes on, in another way than was hoped for."""
