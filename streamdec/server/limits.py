"""The limits of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, TypeVar

from streamdec.mistakes import unknown_option

T = TypeVar("T")


def _names_unknown(cls: type[T]) -> type[T]:
    """Make the constructor of a dataclass name the option that was meant."""
    init: Callable[..., None] = cls.__init__

    @wraps(init)
    def checked(self: T, *arguments: Any, **options: Any) -> None:
        known = [each.name for each in fields(cls)]  # type: ignore[arg-type]
        for name in options:
            if name not in known:
                raise unknown_option(f"{cls.__name__}()", name, known)
        init(self, *arguments, **options)

    cls.__init__ = checked  # type: ignore[assignment,method-assign]
    return cls


@_names_unknown
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server.

    A request over a limit gets an error that names the parameter.

    Raises TypeError for an unknown limit; ValueError for a value that is not a positive number, and
    for a ``default_max_tokens`` above ``max_tokens``. Only ``waiting`` may be 0, and only fields
    whose default is None may be None.

    >>> from streamdec.server import ServerLimits
    >>> ServerLimits(concurrent=8).waiting
    128
    >>> ServerLimits(samples=0)
    Traceback (most recent call last):
        ...
    ValueError: samples must be at least 1, not 0
    """

    body_bytes: int = 4 << 20
    """Bytes of the body of one request."""
    body_seconds: float = 30.0
    """Seconds in which the largest body must arrive. After 5 seconds, each body must keep the rate
    of ``body_bytes / body_seconds``."""
    bodies_bytes: int = 32 << 20
    """Bytes of all large bodies (32 KiB and more) whose answers have not begun."""
    values: int = 100_000
    """Strings, lists and objects of a request. A request may also have this many numbers in
    addition to the ids of ``samples`` prompts of ``prompt_tokens`` ids."""
    depth: int = 64
    """Levels of lists and objects in a request."""
    messages: int = 2_048
    """Messages of one request."""
    message_characters: int = 1_000_000
    """Code points of one message, written as JSON."""
    stops: int = 16
    """Stop strings and stop ids of one request, of each kind. (OpenAI takes four strings.)"""
    stop_characters: int = 1_000
    """Code points of one stop string."""
    samples: int = 16
    """Streams of one request: prompts times ``n``."""
    top_logprobs: int = 20
    """Alternatives of each token."""
    prompt_tokens: int = 32_768
    """Tokens of one prompt."""
    max_tokens: int = 4_096
    """Tokens of one answer."""
    default_max_tokens: int | None = None
    """Tokens of an answer if a request sets no limit: at most ``max_tokens``. None means
    ``max_tokens``."""
    concurrent: int = 64
    """Streams that run at once."""
    waiting: int = 128
    """Requests that wait for room, or are prepared, while ``concurrent`` streams run; more are
    rejected with status 429."""
    waiting_seconds: float = 30.0
    """Seconds after which a waiting request is rejected."""
    key_concurrent: int | None = None
    """Requests of one API key at once, including waiting ones; None for no limit."""
    key_requests: int | None = None
    """Requests of one API key in a minute; None for no limit."""
    key_tokens: int | None = None
    """Tokens of one API key in a minute, of prompts and answers; None for no limit. They count when
    an answer ends."""

    @property
    def has_key_limits(self) -> bool:
        """Whether the requests of one API key are limited."""
        limits = (self.key_concurrent, self.key_requests, self.key_tokens)
        return any(each is not None for each in limits)

    def __post_init__(self) -> None:
        for each in fields(self):
            value, least = getattr(self, each.name), 0 if each.name == "waiting" else 1
            if value is None and each.default is None:
                continue
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            is_seconds = each.name.endswith("_seconds")
            if (
                not is_number
                or (is_seconds and not value > 0)
                or (not is_seconds and value < least)
            ):
                wanted = "above 0" if is_seconds else f"at least {least}"
                raise ValueError(f"{each.name} must be {wanted}, not {value!r:.40}")
        default = self.default_max_tokens
        if default is not None and default > self.max_tokens:
            raise ValueError(
                f"default_max_tokens must be at most max_tokens ({self.max_tokens}), not {default}"
            )
