"""A case out of JSON that may be anything: each field is taken for what is nearest to it.

So nearly every input is a case, it can be read and written by hand, and it means the same on every
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

__all__ = ["Case", "NoCaseError", "shown", "written"]

T = TypeVar("T")

MOST_IDS = 40


class NoCaseError(Exception):
    """The input is no JSON object."""


class Case:
    """The fields of one input. Raises NoCaseError if it has none."""

    def __init__(self, data: bytes) -> None:
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise NoCaseError from error
        if not isinstance(fields, dict):
            raise NoCaseError
        self.fields: dict[str, Any] = fields
        self.bytes_as: Mapping[int, int] = {}
        """Byte → the token that it is."""

    def flag(self, name: str) -> bool:
        """True if the field is anything but empty."""
        return bool(self.fields.get(name))

    def number(self, name: str, most: int, least: int = 0) -> int:
        """An integer in these bounds."""
        value = self.fields.get(name)
        return least + value % (most + 1 - least) if isinstance(value, int) else least

    def choice(self, name: str, among: Sequence[T]) -> T:
        """The one of ``among`` that the field names, or numbers; the first if it does neither."""
        value = self.fields.get(name)
        if isinstance(value, str):
            return next((each for each in among if each == value), among[0])
        return among[self.number(name, len(among) - 1)]

    def ids(self, name: str, most: int = MOST_IDS) -> list[int]:
        """Token ids, known or not; a string is bytes in hexadecimal, those that are tokens."""
        found: list[int] = []
        for value in self._list(name):
            if isinstance(value, str) and self.bytes_as:
                found += [self.bytes_as[byte] for byte in _bytes(value) if byte in self.bytes_as]
            elif type(value) is int:
                found.append(abs(value) % 2**32)
        return found[:most]

    def cuts(self, name: str, size: int) -> list[int]:
        """Places in a list of so many, ascending."""
        return sorted(place % (size + 1) for place in self.ids(name, 8))

    def texts(self, name: str, most: int = 4) -> tuple[str, ...]:
        """Strings without lone surrogates, which may be empty."""
        found = [value for value in self._list(name) if isinstance(value, str)]
        return tuple(text.encode("utf-8", "replace").decode() for text in found[:most])

    def lists(self, name: str, most: int = 3) -> list[list[Any]]:
        """Lists of anything."""
        return [value for value in self._list(name) if isinstance(value, list)][:most]

    def _list(self, name: str) -> list[Any]:
        value = self.fields.get(name)
        return value if isinstance(value, list) else []


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def written(**fields: Any) -> bytes:
    """A case as a seed: JSON with a line for each field."""
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def shown(data: bytes) -> str:
    """An input as a seed would have it; as it is if it is no case."""
    try:
        return written(**Case(data).fields).decode()
    except (NoCaseError, RecursionError):
        return ascii(data)
