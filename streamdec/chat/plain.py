"""The values of messages as plain JSON types.

In: messages, tools or variables with objects of any class in them. Out: dicts, lists, tuples, str,
int, float, bool and None alone. Objects have methods, and a template can call them; what is no data
becomes the name of its type in angle brackets, which templates that only ask whether a picture is
there never print.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["plain"]


def plain(value: Any) -> Any:
    """``value`` rebuilt of plain types: of mappings, dataclasses and pydantic models their fields.

    As transformers does from 5.22.2 on. Raises RecursionError for what contains itself.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    # Subclasses, as enums and scalars of numpy are, say what they are by the base's own methods.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return _plain_object(value)


def _plain_object(value: Any) -> Any:
    if _is_scalar_of_numpy(value):
        return plain(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if callable(getattr(value, "model_dump", None)):  # a model of pydantic
        return plain(value.model_dump())
    return f"<{type(value).__name__}>"


def _is_scalar_of_numpy(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)
