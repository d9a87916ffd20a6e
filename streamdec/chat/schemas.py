"""Tools: JSON schemas as they are, Python functions as the schemas that transformers makes of them.

In: a dict, or a function with type hints and a docstring in Google's style. Out: ``{"type":
"function", "function": {"name", "description", "parameters", "return"}}``. The two profiles read
docstrings and types a little differently, as transformers 5.19 and 5.23 do.
"""

from __future__ import annotations

import inspect
import json
import re
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

__all__ = ["function_schema", "tool_schemas"]

_SCALARS: Mapping[Any, str] = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    type(None): "null",
}
_NAMED: Mapping[Any, dict[str, str]] = {
    **{kind: {"type": name} for kind, name in _SCALARS.items()},
    list: {"type": "array"},
    tuple: {"type": "array"},
    dict: {"type": "object"},
    Any: {},
}
_MEDIA = {("PIL.Image", "Image"): "image", ("torch", "Tensor"): "audio"}
"""Classes of libraries that a function's hints may name, and what they are in a schema."""
_HEADINGS = re.compile(r"Args:|Returns:|Raises:")
_CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE)


def tool_schemas(tools: Iterable[Any] | None, profile: str) -> list[Any] | None:
    """Each of ``tools`` as a schema; None stays None, and an empty list an empty list.

    Raises TypeError for what is neither a dict nor a function, and ValueError for a function whose
    docstring or hints do not say enough.
    """
    if tools is None:
        return None
    if isinstance(tools, (str, bytes, Mapping)):
        raise TypeError(f"tools must be a list of schemas or functions, not {_kind(tools)}")
    return [_schema_of(tool, profile) for tool in tools]


def _schema_of(tool: Any, profile: str) -> Any:
    if isinstance(tool, dict):
        return tool
    if isinstance(tool, Mapping):
        return dict(tool)
    if inspect.isfunction(tool) or inspect.ismethod(tool):
        return function_schema(tool, profile)
    raise TypeError(f"a tool must be a JSON schema (a dict) or a function, not {_kind(tool)}")


def function_schema(function: Callable[..., Any], profile: str = "classic") -> dict[str, Any]:
    """The JSON schema of ``function``, from its signature, type hints and docstring.

    The docstring is in Google's style, with ``Args:`` for each parameter; ``(choices: ["a", "b"])``
    at the end of a description is an ``enum``. The schema is what ``get_json_schema`` of
    transformers makes: of 5.19 for ``profile="classic"``, of 5.23 for ``"hardened"``. The function
    is not called.

    Raises ValueError where one of them is missing or cannot be told in JSON schema.

    >>> from streamdec.chat import function_schema
    >>> def weather(city: str) -> str:
    ...     '''The weather of a city.
    ...
    ...     Args:
    ...         city: its name.
    ...     '''
    >>> function_schema(weather)["function"]["parameters"]["properties"]
    {'city': {'type': 'string', 'description': 'its name.'}}
    """
    name = getattr(function, "__name__", "operation")
    doc = (inspect.getdoc(function) or "").strip()
    if not doc:
        raise ValueError(f"the function {name} has no docstring, which describes it to the model")
    told = _Docstring(doc, profile)
    parameters, returned = _parameters_of(function, name, profile)
    for argument, schema in parameters["properties"].items():
        if argument not in told.arguments:
            raise ValueError(f"the docstring of {name} says nothing of its argument {argument}")
        description = told.arguments[argument]
        if choices := _CHOICES.search(description):
            values = json.loads(choices.group(1))
            schema["enum"] = [one.strip() if isinstance(one, str) else one for one in values]
            description = description[: choices.start()].strip()
        schema["description"] = description
    schema = {"name": name, "description": told.description, "parameters": parameters}
    if returned is not None:
        if told.returned is not None:
            returned["description"] = told.returned
        schema["return"] = returned
    return {"type": "function", "function": schema}


# --- docstrings -----------------------------------------------------------------------------------


class _Docstring:
    """What a docstring in Google's style says: the description, the arguments, what is returned."""

    def __init__(self, doc: str, profile: str) -> None:
        self.description = _before(_HEADINGS, doc).strip()
        section = _section(doc, "Args", re.compile(r"Returns:|Raises:"))
        self.arguments = _entries(section or "", nested=profile == "hardened")
        self.returned = _section(doc, "Returns", re.compile(r"Raises:"))
        if self.returned is not None:
            self.returned = self.returned.strip()


def _section(doc: str, heading: str, end: re.Pattern[str]) -> str | None:
    """The lines under ``heading``, which has a line of its own, up to ``end``."""
    found = re.search(rf"\n\s*{heading}:\n", doc)
    return None if found is None else _before(end, doc[found.end() :]).rstrip()


def _before(end: re.Pattern[str], text: str) -> str:
    found = end.search(text)
    return text if found is None else text[: found.start()]


def _entries(section: str, *, nested: bool) -> dict[str, str]:
    """``name: description`` from the lines of a section.

    A description continues until the next line that begins as an entry does; with ``nested``, one
    that is indented deeper than the entry continues too.
    """
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    depth = ""
    for line in (line for line in section.split("\n") if line.strip()):
        entry = re.match(r"(\s*)(\w+):\s*(.*)", line)
        deeper = entry is not None and len(entry[1]) > len(depth) and entry[1].startswith(depth)
        goes_on = entry is None or current == [] or (nested and deeper and current is not None)
        if entry is not None and not goes_on:
            depth, current = entry[1], [entry[3].rstrip()] if entry[3].strip() else []
            found[entry[2]] = current
        elif current is not None:
            # A name alone on its line has its description on the next line, in any form.
            current.append(line.strip())
    return {name: " ".join(lines) for name, lines in found.items()}


# --- type hints -----------------------------------------------------------------------------------


def _parameters_of(
    function: Callable[..., Any], name: str, profile: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The schema of all arguments, and that of what is returned if its hint says so."""
    try:
        hints = get_type_hints(function)
    except Exception as error:  # a hint is any expression, and is evaluated here
        raise ValueError(f"the type hints of {name} cannot be read: {error}") from error
    parameters = dict(inspect.signature(function).parameters)
    first = next(iter(parameters), None)
    if first in ("self", "cls") and parameters[first].annotation is inspect.Parameter.empty:
        del parameters[first]
        hints.pop(first, None)
    bare = [one for one, given in parameters.items() if given.annotation is given.empty]
    if bare:
        raise ValueError(f"the argument {bare[0]} of {name} has no type hint")
    hint_types = _Hints(profile)
    returned = hint_types.of_return(hints.pop("return")) if "return" in hints else None
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {one: hint_types.schema(hint) for one, hint in hints.items()},
    }
    required = [one for one, given in parameters.items() if given.default is given.empty]
    if required:
        schema["required"] = required
    return schema, returned


class _Hints:
    """Type hints to JSON schema, as the profile has them."""

    def __init__(self, profile: str) -> None:
        self._strict = profile == "hardened"

    def of_return(self, hint: Any) -> dict[str, Any] | None:
        """The schema of what is returned; the strict one leaves out what it cannot tell."""
        try:
            return self.schema(hint)
        except ValueError:
            if self._strict:
                return None
            raise

    def schema(self, hint: Any) -> dict[str, Any]:
        """The schema of ``hint``. Raises ValueError."""
        origin, inner = get_origin(hint), get_args(hint)
        if origin is None:
            return self._of_class(hint)
        if origin is Union or origin is types.UnionType:
            return self._of_union(inner)
        if origin is Literal:
            return _of_values(list(inner), "typing.Literal")
        if origin is list:
            return {"type": "array", "items": self.schema(inner[0])} if inner else {"type": "array"}
        if origin is tuple:
            return self._of_tuple(hint, inner)
        if origin is dict:
            values = {"additionalProperties": self.schema(inner[1])} if len(inner) == 2 else {}
            return {"type": "object", **values}
        raise ValueError(f"the type hint {hint!r} has no JSON schema")

    def _of_class(self, hint: Any) -> dict[str, Any]:
        if self._strict and isinstance(hint, type) and issubclass(hint, Enum):
            return _of_values([member.value for member in hint], f"the Enum {hint.__name__}")
        try:
            found = _NAMED.get(hint)
        except TypeError:
            found = None
        media = _MEDIA.get((getattr(hint, "__module__", ""), getattr(hint, "__name__", "")))
        if found is not None or media is not None:
            return dict(found) if found is not None else {"type": media}
        if self._strict:
            raise ValueError(f"the type hint {hint!r} has no JSON schema")
        return {"type": "object"}

    def _of_union(self, inner: tuple[Any, ...]) -> dict[str, Any]:
        kinds = [self.schema(one) for one in inner if one is not type(None)]
        if len(kinds) == 1:
            schema = kinds[0]
        elif all(one.keys() == {"type"} and isinstance(one["type"], str) for one in kinds):
            names = sorted({one["type"] for one in kinds})
            schema = {"type": names[0] if len(names) == 1 else names}
        else:
            schema = {"anyOf": kinds}
        if type(None) in inner:
            schema["nullable"] = True
        return schema

    def _of_tuple(self, hint: Any, inner: tuple[Any, ...]) -> dict[str, Any]:
        if not inner:
            return {"type": "array"}
        if len(inner) == 1 or ... in inner:
            raise ValueError(f"the type hint {hint!r} has no JSON schema: a list[…] has")
        return {"type": "array", "prefixItems": [self.schema(one) for one in inner]}


def _of_values(values: list[Any], what: str) -> dict[str, Any]:
    if not values:
        raise ValueError(f"{what} has no values")
    if any(type(value) not in _SCALARS for value in values):
        raise ValueError(f"{what} has values that are no JSON scalars: {values!r:.200}")
    names = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    return {"type": names[0] if len(names) == 1 else names, "enum": values}


def _kind(value: object) -> str:
    return type(value).__name__
