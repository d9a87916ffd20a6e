"""Accounts, which limit the requests and tokens of one API key.

In: the limits of a server, and the requests of one key. Out: nothing, or a :class:`RequestError`
with status 429 that says when to try again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from streamdec.server.limits import ServerLimits
from streamdec.server.problems import RequestError


class _Budget:
    """A token bucket: an amount for each minute, which is refilled continuously."""

    def __init__(self, per_minute: int | None) -> None:
        self._most = math.inf if per_minute is None else float(per_minute)
        self._left = self._most
        self._since = monotonic()

    def seconds_to_wait(self) -> float:
        """Return after how many seconds something is available; 0 if it is now."""
        if self._most == math.inf:
            return 0
        rate, now = self._most / 60, monotonic()
        self._left = min(self._most, self._left + rate * (now - self._since))
        self._since = now
        return max(1 - self._left, 0) / rate

    def take(self, amount: int) -> None:
        """Take ``amount``, even if less is left. The holder then waits longer."""
        self._left -= amount


class Account:
    """The requests and tokens that one API key has used.

    Args:
        limits: the limits of the server.
    """

    def __init__(self, limits: ServerLimits) -> None:
        self._most_at_once = limits.key_concurrent
        self._num_served = 0
        self._requests = _Budget(limits.key_requests)
        self._tokens = _Budget(limits.key_tokens)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is served.

        Raises RequestError if the key is over a limit. Tokens are counted at the end of an answer,
        so concurrent requests may exceed the limit.
        """
        if self._most_at_once is not None and self._num_served >= self._most_at_once:
            raise _too_many(f"more than {self._most_at_once} requests at once", 1)
        for budget, name in ((self._requests, "requests"), (self._tokens, "tokens")):
            seconds = budget.seconds_to_wait()
            if seconds:
                raise _too_many(f"too many {name} in one minute", seconds)
        self._requests.take(1)
        self._num_served += 1
        try:
            yield
        finally:
            self._num_served -= 1

    def take_tokens(self, count: int) -> None:
        """Count the tokens of a prompt and its answers."""
        self._tokens.take(count)


def _too_many(what: str, seconds: float) -> RequestError:
    return RequestError(
        f"the API key has {what}",
        status=429,
        code="rate_limit_exceeded",
        headers={"retry-after": str(math.ceil(seconds))},
    )
