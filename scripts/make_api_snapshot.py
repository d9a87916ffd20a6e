"""Writes ``tests/public_api.txt``: every public name, with its signature, to be read as a diff.

Run it after changing one: ``python scripts/make_api_snapshot.py``. Annotations are written as their
source has them, so the page is the same on every Python. It needs the libraries of all extras.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ForwardRef, get_args, get_origin

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.public_api import DOORS  # noqa: E402 - the folder of the project is not installed

TARGET = ROOT / "tests" / "public_api.txt"
MODULES = (*DOORS, "streamdec.errors", "streamdec.cli")
"""The last two have their own pages in the reference."""
INTRODUCTION = """\
What streamdec promises to keep: docs/reference/compatibility.md says how long.
Written by scripts/make_api_snapshot.py; a change of this file is a change for users.
"""
LONGEST = 100
UNTOLD = {"__init__", "__new__", "__repr__", "__str__"}
"""Methods that say nothing to users, or are written in another way."""


class Text(str):
    """A text whose representation has no quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Writer:
    """Writes modules one after the other; what an earlier one had is only named again."""

    def __init__(self) -> None:
        self._homes: dict[int, str] = {}
        """Where each class and function was written, by its identity."""
        self._further: dict[str, Any] = {}
        """Aliases and typed dictionaries that signatures name."""

    def page(self) -> str:
        """Return the whole snapshot."""
        lines = [INTRODUCTION]
        for module in MODULES:
            lines += [f"# {module}", ""]
            for name in sorted(DOORS.get(module) or import_module(module).__all__):
                lines += self._item(f"{module}.{name}", getattr(import_module(module), name))
            lines.append("")
        lines += ["# Types that signatures name", ""]
        written: set[str] = set()
        while waiting := sorted(self._further.keys() - written):
            written.update(waiting)
            for name in waiting:
                if id(self._further[name]) not in self._homes:
                    lines += self._item(name, self._further[name])
        return "\n".join([*lines, ""])

    def _item(self, name: str, value: Any) -> Iterator[str]:
        is_class = inspect.isclass(value) and not get_origin(value)
        if is_class or inspect.isroutine(value):
            if id(value) in self._homes:
                yield f"{name} = {self._homes[id(value)]}"
                return
            self._homes[id(value)] = name
        if is_class:
            yield from self._class(name, value)
        elif inspect.isroutine(value):
            yield self._function(name, value)
        else:
            yield f"{name} = {shown(value)}"

    def _class(self, name: str, cls: type) -> Iterator[str]:
        bases = [base for base in cls.__mro__[1:] if base.__name__[0] != "_" and base is not object]
        bases = [base for base in bases if not any(base in other.__mro__[1:] for other in bases)]
        yield f"class {name}({', '.join(base.__name__ for base in bases)}):"
        own = [each for each in cls.__mro__ if each.__module__.startswith("streamdec")]
        if any({"__init__", "__new__"} & vars(each).keys() for each in own):
            with suppress(ValueError):
                yield f"    {self._signature(cls)}"
        found: dict[str, str] = {}
        for each in reversed(own):
            scope = vars(sys.modules[each.__module__])
            for member, annotation in vars(each).get("__annotations__", {}).items():
                if not member.startswith("_"):
                    found[member] = f"{member}: {self._annotation(annotation, scope)}"
            for member in _set_in_init(each):
                found.setdefault(member, member)
            for member, value in vars(each).items():
                if not member.startswith("_") or _is_written(member, value):
                    found[member] = self._member(member, value, found.get(member, member))
        for member in sorted(found):
            yield f"    {found[member]}"

    def _member(self, name: str, value: Any, known: str) -> str:
        if isinstance(value, (classmethod, staticmethod)):
            return f"@{type(value).__name__} {self._function(name, value.__func__)}"
        if inspect.isfunction(value):
            return self._function(name, value)
        if isinstance(value, (property, cached_property)):
            getter: Any = value.fget if isinstance(value, property) else value.func
            settable = " (may be set)" if getattr(value, "fset", None) else ""
            returned = inspect.signature(getter).return_annotation
            return f"{name}: {self._annotation(returned, getter.__globals__)}{settable}"
        return f"{known} = {shown(value)}" if isinstance(value, (bool, int, float, str)) else known

    def _function(self, name: str, function: Any) -> str:
        is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        return f"{'async ' * is_async}def {name}{self._signature(function)}"

    def _signature(self, function: Any) -> str:
        signature = inspect.signature(function)
        maker = function.__init__ if inspect.isclass(function) else inspect.unwrap(function)
        maker = getattr(maker, "__func__", maker)
        scope = getattr(maker, "__globals__", {})

        def written(value: Any) -> Any:
            return (
                value if value is inspect.Signature.empty else Text(self._annotation(value, scope))
            )

        parameters = [
            each.replace(
                annotation=written(each.annotation),
                default=each.default if each.default is each.empty else Text(shown(each.default)),
            )
            for each in signature.parameters.values()
        ]
        returned = written(signature.return_annotation)
        return str(signature.replace(parameters=parameters, return_annotation=returned))

    def _annotation(self, annotation: Any, scope: Any) -> str:
        """An annotation as text. Aliases and private dictionaries in it are written at the end."""
        text = annotation if isinstance(annotation, str) else shown(annotation)
        for name in re.findall(r"[A-Za-z]\w*", text):
            value = scope.get(name)
            is_options = f"Unpack[{name}]" in text
            if is_options or (get_origin(value) is not None and get_args(value)):
                self._further[name] = value
        return str(text)


def _is_written(name: str, value: Any) -> bool:
    """Return whether a special method is in the source: Python and dataclasses make others."""
    file = getattr(getattr(value, "__code__", None), "co_filename", "")
    return name.startswith("__") and name not in UNTOLD and "streamdec" in Path(file).parts


def _set_in_init(cls: type) -> set[str]:
    """Return the public attributes that ``__init__`` sets."""
    with suppress(OSError, TypeError, KeyError):
        source = inspect.getsource(vars(cls)["__init__"])
        return {*re.findall(r"^ +self\.([a-z]\w*)(?:: [^=]+)? = ", source, re.MULTILINE)}
    return set()


def shown(value: Any) -> str:
    """Return a value as text, without what differs between runs."""
    if isinstance(value, ForwardRef):
        return value.__forward_arg__
    if inspect.isclass(value) and not get_origin(value):
        return str(value.__qualname__)
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({{{', '.join(sorted(map(shown, value)))}}})"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value)).replace("typing.", "")
    text = re.sub(r"\b(?:collections\.abc|streamdec(?:\.\w+)+)\.(?=\w)", "", text)
    return text if len(text) <= LONGEST or get_origin(value) else f"{type(value).__name__}(...)"


if __name__ == "__main__":
    TARGET.write_text(Writer().page(), "utf-8")
