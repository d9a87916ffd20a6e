"""Messages, tools and variables converted to plain JSON types.

In: values with objects of any class. Out: only dicts, lists, tuples, str, int, float, bool and
None, because a template could call the methods of other objects. Any other object becomes its type
name in angle brackets, so a template can still test whether an image is present.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Return a copy of ``value`` in plain types.

    Mappings, dataclasses and models become dicts. transformers does the same from 5.22.2 on. Raises
    RecursionError if a value contains itself.
    """
    if value is None or type(value) in (str, int, float, bool):
        return value
    # Subclasses, such as enums and scalars of numpy, are converted by the methods of the base.
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
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return plain(value.item())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: plain(getattr(value, name)) for name in names}
    if callable(getattr(value, "model_dump", None)):  # a model of pydantic
        return plain(value.model_dump())
    return f"<{type(value).__name__}>"
