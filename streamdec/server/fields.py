"""Fields of a request, with checks of their types. Errors name the parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from streamdec.server.problems import RequestError, shown


class Fields:
    """The object of a request. A null field counts as missing.

    Each method returns a field, or None if it is missing. It raises :class:`RequestError` if the
    field has another type or exceeds a limit.
    """

    def __init__(self, body: Mapping[str, Any], within: str = "") -> None:
        self.body = body
        self._within = within

    def get(self, name: str) -> Any:
        """Return a field of any type."""
        return self.body.get(name)

    def wrong(self, name: str, wanted: str, code: str | None = None) -> RequestError:
        """Return the error for the field ``name``, which must be ``wanted``."""
        param = self._within + name
        message = f"{param} must be {wanted}, not {shown(self.get(name))}"
        return RequestError(message, param=param, code=code)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a field that is true or false."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def integer(self, name: str, least: int | None = None, most: int | None = None) -> int | None:
        """Return an integer within bounds."""
        value = self.get(name)
        if value is None:
            return None
        if (
            type(value) is not int
            or (least is not None and value < least)
            or (most is not None and value > most)
        ):
            raise self.wrong(name, f"an integer{_span(least, most)}")
        return value

    def number(
        self, name: str, least: float | None = None, most: float | None = None
    ) -> float | None:
        """Return a number within bounds."""
        value = self.get(name)
        if value is None:
            return None
        if (
            type(value) not in (int, float)
            or not _is_float(value)
            or (least is not None and value < least)
            or (most is not None and value > most)
        ):
            raise self.wrong(name, f"a number{_span(least, most)}")
        return float(value)

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Return an object."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return value

    def texts(self, name: str) -> list[str] | None:
        """Return a list of strings."""
        return self._items(name, str, "string")

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        """Return a list of objects."""
        return self._items(name, dict, "object")

    def _items(self, name: str, kind: type, noun: str) -> list[Any] | None:
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.wrong(name, f"a list of {noun}s")
        for index, item in enumerate(value):
            if not isinstance(item, kind):
                param = self._within + name
                article = "an" if noun == "object" else "a"
                message = f"{param}.{index} must be {article} {noun}, not {shown(item)}"
                raise RequestError(message, param=param)
        return value

    def within(self, name: str) -> Fields:
        """Return the fields of the object ``name``; no fields if it is missing."""
        return Fields(self.mapping(name) or {}, f"{self._within}{name}.")


def _span(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f" up to {most}"
    return f" of at least {least}" if most is None else f" from {least} to {most}"


def _is_float(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
