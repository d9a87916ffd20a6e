"""The limits of requests."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """The limits of a server.

    A request over a limit gets an error that names the parameter.

    Raises ValueError for a value that is not a positive number. Only ``waiting`` may be 0.

    >>> from streamdec.server import ServerLimits
    >>> ServerLimits(running=8).waiting
    128
    >>> ServerLimits(samples=0)
    Traceback (most recent call last):
        ...
    ValueError: samples must be at least 1, not 0
    """

    body_bytes: int = 1 << 20
    """Bytes of the body of one request."""
    body_seconds: float = 30.0
    """Seconds in which the body must arrive."""
    depth: int = 64
    """Levels of lists and objects in a body."""
    prompt_tokens: int = 32_768
    """Tokens of one prompt."""
    stops: int = 16
    """Stop strings and stop ids of one request, of each kind."""
    stop_characters: int = 1_000
    """Code points of one stop string."""
    max_tokens: int = 4_096
    """Tokens of one sample. A request without ``max_tokens`` gets this many."""
    samples: int = 16
    """Samples of one request: prompts times ``n``."""
    top_logprobs: int = 20
    """Alternatives of each token."""
    work: int = 100_000
    """The product of the samples, the tokens of each sample, and the log probabilities of each
    token: 1 without alternatives, otherwise 1 more than the alternatives."""
    running: int = 64
    """Samples that the engine generates at once."""
    waiting: int = 128
    """Requests in the server beyond ``running``. More requests get status 429."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, least = getattr(self, each.name), 0 if each.name == "waiting" else 1
            if not isinstance(value, (int, float)) or not value >= least:
                raise ValueError(f"{each.name} must be at least {least}, not {value!r:.40}")
