"""Fields of a request, each checked, each error with the name of the parameter."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from streamdec.server.problems import RequestError, shown

__all__ = ["Fields"]


class Fields:
    """The object of a request. What is null is not there.

    Each method raises :class:`RequestError` for what is of another type or beyond a limit.
    """

    def __init__(self, body: Mapping[str, Any], within: str = "") -> None:
        self.body = body
        self._within = within

    def get(self, name: str) -> Any:
        """The value of any type, or None."""
        return self.body.get(name)

    def wrong(self, name: str, wanted: str, code: str | None = None) -> RequestError:
        """The error for what ``name`` is."""
        param = self._within + name
        message = f"{param} must be {wanted}, not {shown(self.get(name))}"
        return RequestError(message, param=param, code=code)

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def integer(self, name: str, least: int | None = None, most: int | None = None) -> int | None:
        """An integer within bounds."""
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
        """A number within bounds."""
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
        """A string."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def mapping(self, name: str) -> dict[str, Any] | None:
        """An object."""
        value = self.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return value

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        """A list of objects."""
        value = self.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(name, "a list of objects")
        return value

    def within(self, name: str) -> Fields:
        """The fields of the object that ``name`` is; none if there is none."""
        return Fields(self.mapping(name) or {}, f"{self._within}{name}.")


def _span(least: float | None, most: float | None) -> str:
    if least is None:
        return "" if most is None else f" up to {most}"
    return f" from {least} " + ("up" if most is None else f"to {most}")


def _is_float(value: float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
