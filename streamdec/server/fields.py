"""Fields of a request, with checks of their types. Errors name the parameter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.server.errors import RequestError, shown


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

    def wrong(self, name: str, wanted: str) -> RequestError:
        """Return the error for the field ``name``, which must be ``wanted``."""
        param = self._within + name
        message = f"{param} must be {wanted}, not {shown(self.get(name))}"
        return RequestError(message, param=param)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a field that is true or false."""
        value: bool | None = self._of_type(name, bool, "true or false")
        return default if value is None else value

    def integer(self, name: str, least: int, most: int) -> int | None:
        """Return an integer within bounds."""
        value = self.body.get(name)
        if value is not None and (type(value) is not int or not least <= value <= most):
            raise self.wrong(name, f"an integer from {least} to {most}")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """Return a number within bounds."""
        value: float | None = self.body.get(name)
        if value is not None and (type(value) not in (int, float) or not least <= value <= most):
            raise self.wrong(name, f"a number from {least} to {most}")
        return value

    def text(self, name: str) -> str | None:
        """Return a string."""
        value: str | None = self._of_type(name, str, "a string")
        return value

    def mapping(self, name: str) -> dict[str, Any] | None:
        """Return an object."""
        value: dict[str, Any] | None = self._of_type(name, dict, "an object")
        return value

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        """Return a list of objects."""
        value: list[Any] | None = self._of_type(name, list, "a list of objects")
        if value is not None and not all(isinstance(each, dict) for each in value):
            raise self.wrong(name, "a list of objects")
        return value

    def _of_type(self, name: str, kind: type, wanted: str) -> Any:
        value = self.body.get(name)
        if value is not None and not isinstance(value, kind):
            raise self.wrong(name, wanted)
        return value

    def within(self, name: str) -> Fields:
        """Return the fields of the object ``name``; no fields if it is missing."""
        return Fields(self.mapping(name) or {}, f"{self._within}{name}.")
