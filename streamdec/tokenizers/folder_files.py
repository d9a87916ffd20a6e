"""The reader of the files of a model's folder: each whole, up to a size.

In: a path. Out: its bytes, or its JSON value. A folder may be from a stranger: a file may be a
pipe, larger than the memory, or a pointer of git-lfs. Loading tokenizers, chat templates and
``streamdec.preflight`` all read with it.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, Literal

from streamdec.errors import TokenizerLoadError

MAX_FILE = 2**28
"""The most bytes of a tokenizer file; the largest known has 34 million."""
MAX_CONTAINERS = 1_000_000
MAX_VALUES = 2_000_000
"""The most opening brackets and commas of a JSON file: Python takes 60 bytes or more for each. A
``tokenizer.json`` of 11 MB (Qwen3) has 153,460 opening brackets and 456,396 commas. The largest
known vocabulary (XLM-V, 901,629 pieces, each a list) has twice as many commas."""
_LFS_LINE = b"version https://git-lfs.github.com/spec/"
BOM = b"\xef\xbb\xbf"

Problem = Literal["lfs", "json", "outside", "too-large", "unreadable", "text"]


class FileError(Exception):
    """A file that cannot be read; the message says why.

    Callers raise their own error.
    """

    def __init__(self, problem: Problem, detail: str, line: int | None = None) -> None:
        super().__init__(detail[:300])
        self.problem = problem
        self.line = line
        """The line of the problem, if the file is text."""


def read_file(path: Path, limit: int) -> bytes:
    """Return the content of ``path``.

    Raises FileError if it is not a regular file, cannot be read, is a pointer of git-lfs, or has
    more than ``limit`` bytes.
    """
    # Opening a pipe would block until it has a writer; with O_NONBLOCK it does not.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise FileError("unreadable", "not a regular file")
            with os.fdopen(handle, "rb", closefd=False) as file:
                content = file.read(limit + 1)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        is_gone = getattr(error, "errno", None) in (errno.ENOENT, errno.ELOOP)
        detail = getattr(error, "strerror", None) or error
        if is_gone and path.is_symlink():
            detail = "a link to nothing"
        raise FileError("unreadable", str(detail)) from error
    if content.startswith(_LFS_LINE):
        raise FileError("lfs", "a pointer of git-lfs instead of the file (run git lfs pull)", 1)
    if len(content) > limit:
        raise FileError("too-large", f"{status.st_size} bytes, more than {limit}")
    return content


def read_bounded(path: Path, limit: int = MAX_FILE) -> bytes:
    """Return the content of ``path``. Raises TokenizerLoadError if it cannot be read."""
    try:
        return read_file(path, limit)
    except FileError as error:
        raise TokenizerLoadError(f"{str(path)!r}: {error}") from error


def content_of(source: str | os.PathLike[str] | bytes, what: str) -> tuple[bytes, str]:
    """Return the content of a file, and its path.

    ``source`` may also be the content, which is then called ``what``.
    """
    if isinstance(source, bytes):
        return source, what
    path = Path(os.fsdecode(source))
    return read_bounded(path), str(path)


def parse_json(content: bytes) -> Any:
    """Return the JSON value of a file, by Python's own parser. Raises FileError."""
    if content.startswith(BOM):
        raise FileError("json", "it begins with a byte order mark", 1)
    if (containers := content.count(b"[") + content.count(b"{")) > MAX_CONTAINERS:
        raise FileError("too-large", f"{containers:,} lists and objects, or more")
    if (values := content.count(b",")) > MAX_VALUES:
        raise FileError("too-large", f"{values:,} values, or more")
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise FileError("json", f"not UTF-8: byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise FileError("json", error.msg, error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise FileError("json", str(error)) from error


def with_line_feeds(text: str) -> str:
    """Return ``text`` as Python reads text files: lines end in a line feed."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
