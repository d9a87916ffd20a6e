"""The names of hosts and origins that a server accepts."""

from __future__ import annotations

import re
from collections.abc import Iterable

HOST = re.compile(r"[a-z0-9._-]+|\[[0-9a-f:.]+\]")
ORIGIN = re.compile(rf"\*|null|[a-z][a-z0-9+.-]*://(?:{HOST.pattern})(?::[0-9]+)?")


def check_hosts(names: Iterable[str]) -> None:
    """Raise ValueError for a name that no Host header can have.

    It would never match, and each request with the name that was meant would be rejected.
    """
    for name in names:
        if HOST.fullmatch(name) is None:
            raise ValueError(
                "a host is a name in lower case without scheme, port and path, such as "
                f"api.example.com, not {name!r:.80}"
            )


def check_origins(origins: Iterable[str]) -> None:
    """Raise ValueError for an origin that no Origin header can have.

    It would never match, and browsers would block the web page that was meant.
    """
    for origin in origins:
        if ORIGIN.fullmatch(origin) is None:
            raise ValueError(
                "an origin is a scheme and a host in lower case, without * or a path, such as "
                f"https://app.example.com or http://localhost:3000, not {origin!r:.80}"
            )
