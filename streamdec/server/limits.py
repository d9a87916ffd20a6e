"""How much a client may ask for."""

from __future__ import annotations

from dataclasses import dataclass, fields

from streamdec.core.stops.conditions import StopLimits

__all__ = ["ServerLimits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of one server. What exceeds them is refused with an error that names the parameter.

    Raises ValueError for a number that is not more than 0. (Only ``waiting`` may be 0.)

    >>> from streamdec.server import ServerLimits
    >>> ServerLimits(concurrent=8).waiting
    128
    >>> ServerLimits(samples=0)
    Traceback (most recent call last):
        ...
    ValueError: samples must be a number from 1 up, not 0
    """

    body_bytes: int = 4 << 20
    """Bytes of the body of one request."""
    body_seconds: float = 30.0
    """Seconds in which the body of a request must have come."""
    depth: int = 64
    """How deep lists and objects are nested in a request."""
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
    """Where a request does not say; ``max_tokens`` if None."""
    concurrent: int = 64
    """Streams that run at once."""
    waiting: int = 128
    """Requests that wait for room; more are refused with status 429."""
    waiting_seconds: float = 30.0
    """Seconds that they wait at most; they are refused then."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, least = getattr(self, each.name), 0 if each.name == "waiting" else 1
            if value is None and each.name == "default_max_tokens":
                continue
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            is_seconds = each.name.endswith("_seconds")
            if (
                not is_number
                or (is_seconds and not value > 0)
                or (not is_seconds and value < least)
            ):
                raise ValueError(f"{each.name} must be a number from {least} up, not {value!r:.40}")

    @property
    def of_stops(self) -> StopLimits:
        """Those of the texts of stops, for :meth:`streamdec.StopConditions.from_openai`."""
        return StopLimits(longest_stop=self.stop_characters)
