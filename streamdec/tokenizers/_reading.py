"""Read a file whole, up to a size.

In: a path. Out: its bytes.
"""

from __future__ import annotations

from pathlib import Path

from streamdec.errors import TokenizerLoadError

__all__ = ["MAX_FILE", "read_bounded"]

MAX_FILE = 2**28
"""The most bytes of a tokenizer file; the largest known has 34 million."""


def read_bounded(path: Path, limit: int = MAX_FILE) -> bytes:
    """Return the content of ``path``.

    Raises TokenizerLoadError if it cannot be read or has more than ``limit`` bytes.
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{str(path)!r}: {reason}") from error
    if len(content) > limit:
        raise TokenizerLoadError(f"{str(path)!r}: more than {limit} bytes, which no tokenizer has")
    return content
