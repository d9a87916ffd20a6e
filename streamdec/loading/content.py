"""The bytes of a tokenizer file, unpacked if it is compressed by xz, never more than a limit.

In: a path. Out: its content, whole or in blocks. A packed file does not tell how large it becomes
and how much memory that takes, so both are limited here.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path

from streamdec.backends._reading import MAX_FILE as MAX_CONTENT
from streamdec.errors import TokenizerLoadError

__all__ = ["MAX_CONTENT", "XZ_MAGIC", "blocks_of", "content_of", "is_packed"]

XZ_MAGIC = b"\xfd7zXZ\x00"
_MAX_MEMORY = 2**27
"""Bytes that unpacking may take: ``xz -9`` asks for 65 million."""
_BLOCK = 2**18


def is_packed(path: Path) -> bool:
    """Whether ``path`` is compressed by xz."""
    with path.open("rb") as file:
        return file.read(len(XZ_MAGIC)) == XZ_MAGIC


def content_of(path: Path) -> bytes:
    """All bytes of ``path``, unpacked.

    Raises :class:`TokenizerLoadError` for one that cannot be read, is damaged or too large.
    """
    try:
        content = bytearray()
        for block in blocks_of(path):
            content += block
            if len(content) > MAX_CONTENT:
                raise ValueError(f"more than {MAX_CONTENT} bytes, which no tokenizer has")
        return bytes(content)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{str(path)!r}: {reason}") from error


def blocks_of(path: Path) -> Iterator[bytes]:
    """The bytes of ``path``, unpacked, in blocks. OSError or ValueError if they cannot be had."""
    with path.open("rb") as file:
        start = file.read(len(XZ_MAGIC))
        file.seek(0)
        packed = iter(lambda: file.read(_BLOCK), b"")
        yield from _unpacked(packed) if start == XZ_MAGIC else packed


def _unpacked(packed: Iterator[bytes]) -> Iterator[bytes]:
    """Of all streams that follow each other; zeros between and after them are padding."""
    stream = _stream()
    try:
        for block in packed:
            data = block
            while True:
                if stream.eof:
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    stream = _stream()
                yield stream.decompress(data, _BLOCK)
                data = stream.unused_data
                if not stream.eof and stream.needs_input:
                    break
    except lzma.LZMAError as error:
        raise ValueError(f"damaged, or too large to unpack: {error}") from error
    if not stream.eof:
        raise ValueError("it ends in the middle of what is packed")


def _stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MAX_MEMORY)
