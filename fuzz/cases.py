"""Read a case from any JSON: each field becomes the nearest valid value.

So nearly every input is a case. A case can be read and written by hand, and has the same meaning in
every run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

__all__ = ["Case", "NoCaseError", "shown", "written"]

T = TypeVar("T")

MOST_IDS = 40


class NoCaseError(Exception):
    """The input is not a JSON object."""


class Case:
    """The fields of one input. Raises NoCaseError if it is not a JSON object."""

    def __init__(self, data: bytes) -> None:
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise NoCaseError from error
        if not isinstance(fields, dict):
            raise NoCaseError
        self.fields: dict[str, Any] = fields
        self.bytes_as: Mapping[int, int] = {}
        """The token of each byte."""

    def flag(self, name: str) -> bool:
        """Return whether the field is not empty."""
        return bool(self.fields.get(name))

    def number(self, name: str, most: int, least: int = 0) -> int:
        """Return an integer in these bounds."""
        value = self.fields.get(name)
        return least + value % (most + 1 - least) if isinstance(value, int) else least

    def choice(self, name: str, among: Sequence[T]) -> T:
        """Return the item of ``among`` with the field's name or number, or else the first."""
        value = self.fields.get(name)
        if isinstance(value, str):
            return next((each for each in among if each == value), among[0])
        return among[self.number(name, len(among) - 1)]

    def ids(self, name: str, most: int = MOST_IDS) -> list[int]:
        """Return token ids, known or not. A string is bytes in hexadecimal.

        Bytes without a token are left out.
        """
        found: list[int] = []
        for value in self._list(name):
            if isinstance(value, str) and self.bytes_as:
                found += [self.bytes_as[byte] for byte in _bytes(value) if byte in self.bytes_as]
            elif type(value) is int:
                found.append(abs(value) % 2**32)
        return found[:most]

    def cuts(self, name: str, size: int) -> list[int]:
        """Return ascending places in a list of ``size`` items."""
        return sorted(place % (size + 1) for place in self.ids(name, 8))

    def texts(self, name: str, most: int = 4) -> tuple[str, ...]:
        """Return strings without lone surrogates, which may be empty."""
        found = [value for value in self._list(name) if isinstance(value, str)]
        return tuple(text.encode("utf-8", "replace").decode() for text in found[:most])

    def lists(self, name: str, most: int = 3) -> list[list[Any]]:
        """Return lists of any items."""
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
    """Return a case as a seed: JSON with a line for each field."""
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def shown(data: bytes) -> str:
    """Return an input in the format of seeds; unchanged if it is not a case."""
    try:
        return written(**Case(data).fields).decode()
    except (NoCaseError, RecursionError):
        return ascii(data)
