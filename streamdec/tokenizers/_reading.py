"""Read a file whole, up to a size.

In: a path. Out: its bytes.
"""

from __future__ import annotations

from pathlib import Path

from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers.folder_files import FileError, read_file

__all__ = ["MAX_FILE", "read_bounded"]

MAX_FILE = 2**28
"""The most bytes of a tokenizer file; the largest known has 34 million."""


def read_bounded(path: Path, limit: int = MAX_FILE) -> bytes:
    """Return the content of ``path``.

    Raises TokenizerLoadError if it is not a regular file, cannot be read, or has more than
    ``limit`` bytes.
    """
    try:
        return read_file(path, limit)
    except FileError as error:
        raise TokenizerLoadError(f"{str(path)!r}: {error}") from error
