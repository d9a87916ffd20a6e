"""The metadata of a GGUF file, read with bounded memory.

In: a path, and a function that says which keys are wanted. Out: their values. Tensors are never
reached. Each length is compared with the rest of the file before memory is allocated for it.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3; little- and
big-endian).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers._common import NO_TEXT

MAX_METADATA = 2**28
"""The most bytes of metadata that are read or skipped; large vocabularies have 20 million."""
MAX_ITEMS = 2**21
"""The most keys and items of lists, each a Python object; large vocabularies have 800,000."""
_SCALARS = dict(zip((*range(8), 10, 11, 12), "BbHhIifBQqd", strict=True))
"""The struct format of each type of value; 7 is a bool."""
_STRING, _ARRAY, _BOOL = 8, 9, 7
_ESCAPED = re.compile(rb"\\(?:x([0-9a-f]{2})|(.))", re.DOTALL)
_IS_ESCAPED = re.compile(r"(?:[^\\]|\\x[0-9a-f]{2}|\\[^x])*", re.DOTALL)
_CONTROLS = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}


class _Reader:
    """A file, with the number of bytes that may still be read."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self.left = size
        self.items = MAX_ITEMS
        self.order = "<"

    def take(self, count: int, what: str) -> bytes:
        if count > self.left:
            raise ValueError(f"{what} needs {count} bytes, but only {self.left} are left")
        data = self._file.read(count)
        if len(data) < count:
            raise ValueError("the file ends inside its metadata")
        self.left -= count
        return data

    def number(self, code: str, what: str) -> Any:
        size = struct.calcsize(code)
        return struct.unpack(self.order + code, self.take(size, what))[0]

    def count(self, whose: str, what: str) -> int:
        """Read the number of keys or items that follow."""
        count: int = self.number("Q", f"the number of {what} of {whose}")
        self.items -= count
        if self.items < 0:
            limit = f"at most {MAX_ITEMS} keys and items are allowed in all"
            raise ValueError(f"{whose} has {count} {what}, and {limit}")
        return count

    def strings(self, count: int, what: str) -> list[str]:
        length_of = struct.Struct(f"{self.order}Q").unpack
        found = []
        for _ in range(count):
            [length] = length_of(self.take(8, what))
            found.append(self.take(length, what).decode("utf-8", "surrogateescape"))
        return found


def read_metadata(path: Path, wanted: Callable[[str], bool]) -> dict[str, Any]:
    """Return the values of the keys that are ``wanted``.

    The values are strings, numbers, bools, and lists of them. Raises :class:`TokenizerLoadError`,
    which names the path and the reason.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            return _read(_Reader(file, min(size, MAX_METADATA)), wanted)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        if isinstance(error, RecursionError):
            reason = "its lists are nested too deeply"
        raise TokenizerLoadError(f"{str(path)!r}: cannot read this GGUF file: {reason}") from error


def _read(reader: _Reader, wanted: Callable[[str], bool]) -> dict[str, Any]:
    if reader.take(4, "the magic") != b"GGUF":
        raise ValueError("it does not begin with GGUF")
    version = reader.number("I", "the version")
    if version & 0xFFFF == 0 and version:  # the other byte order
        reader.order, version = ">", int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in (2, 3):
        raise ValueError(f"unknown version {version}; expected 2 or 3")
    reader.number("Q", "the number of tensors")
    count = reader.count("the file", "keys")
    found: dict[str, Any] = {}
    for _ in range(count):
        [key] = reader.strings(1, "a key")
        name = repr(key[:80])
        kind = reader.number("I", f"the type of {name}")
        value = _value(reader, kind, name)
        if wanted(key):
            if key in found:
                raise ValueError(f"it has the key {name} twice")
            found[key] = value
    return found


def _value(reader: _Reader, kind: int, key: str) -> Any:
    """Read one value; ``key`` is its name in messages."""
    if kind == _STRING:
        return reader.strings(1, key)[0]
    if kind != _ARRAY:
        value = reader.number(_code(kind, key), key)
        return bool(value) if kind == _BOOL else value
    inner = reader.number("I", f"the type of {key}")
    count = reader.count(key, "items")
    if inner == _ARRAY:
        return [_value(reader, _ARRAY, key) for _ in range(count)]
    if inner == _STRING:
        return reader.strings(count, f"an item of {key}")
    code = _code(inner, key)
    data = reader.take(count * struct.calcsize(code), key)
    values = struct.unpack(f"{reader.order}{count}{code}", data)
    return [bool(value) for value in values] if inner == _BOOL else list(values)


def _code(kind: int, key: str) -> str:
    if kind not in _SCALARS:
        raise ValueError(f"{key} has the unknown type {kind}")
    return _SCALARS[kind]


def strings_of(data: dict[str, Any], key: str) -> list[str]:
    """Return the list of strings ``tokenizer.ggml.key``; empty if it is missing.

    Raises ValueError for another value, and for a string that is not UTF-8.
    """
    found = data.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise ValueError(f"tokenizer.ggml.{key} is not a list of strings")
    for index, item in enumerate(found):
        if not item.isascii() and NO_TEXT.search(item):
            raise ValueError(f"item {index} of tokenizer.ggml.{key} is not UTF-8: {item!a:.80}")
    return found


def numbers_of(data: dict[str, Any], key: str) -> list[float]:
    """Return the list of numbers ``tokenizer.ggml.key``; empty if it is missing.

    Raises ValueError for another value.
    """
    found = data.get(key) or []
    kinds = (int, float)
    if not isinstance(found, list) or not all(type(item) in kinds for item in found):
        raise ValueError(f"tokenizer.ggml.{key} is not a list of numbers")
    return found


def unescaped(text: str) -> bytes:
    r"""Return the bytes of a token of the kind ``rwkv``.

    In such a token, ``\x`` and two hexadecimal digits are a byte. Raises ValueError for other
    escapes, which llama.cpp reads in its own way.
    """
    if not _IS_ESCAPED.fullmatch(text):
        raise ValueError(f"the token {text!r:.40} has a malformed escape")
    return _ESCAPED.sub(_unescape, text.encode())


def _unescape(found: re.Match[bytes]) -> bytes:
    digits, letter = found.groups()
    return bytes.fromhex(digits.decode()) if digits else _CONTROLS.get(letter, letter)
