"""Files that are read whole, and therefore only up to a size.

In: a path. Out: its bytes.
"""

from __future__ import annotations

from pathlib import Path

from streamdec.errors import TokenizerLoadError

__all__ = ["MAX_FILE", "read_bounded"]

MAX_FILE = 2**28
"""Bytes of a tokenizer file, beyond which it is not read (the largest known has 34 million)."""


def read_bounded(path: Path, limit: int = MAX_FILE) -> bytes:
    """The content of ``path``. TokenizerLoadError if it cannot be read or is larger than that."""
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{str(path)!r}: {reason}") from error
    if len(content) > limit:
        raise TokenizerLoadError(f"{str(path)!r}: more than {limit} bytes, which no tokenizer has")
    return content
