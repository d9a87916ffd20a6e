"""Writes ``tests/public_api.txt``: every public name, with its signature, to be read as a diff.

Run it after changing one: ``python scripts/make_api_snapshot.py``. Signatures are written as their
source has them, so the page is the same on every Python. It needs the libraries of all extras.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import GenericAlias, ModuleType, UnionType
from typing import (
    Any,
    ForwardRef,
    Literal,
    TypedDict,
    TypeGuard,
    TypeVar,
    get_args,
    get_origin,
    is_typeddict,
)

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

WIDTH = 100
STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
PLAIN = {bool, int, float, str, bytes}
"""Types of values that stand for themselves."""


def page() -> str:
    """The whole snapshot."""
    writer = Writer()
    parts = [writer.module(name) for name in MODULES]
    return "\n".join([INTRODUCTION, *parts, writer.options(), writer.aliases()])


class Writer:
    """Writes modules one after the other; what an earlier one had is only named again."""

    def __init__(self) -> None:
        self._homes: dict[int, str] = {}
        """Where each object was written, by its identity."""
        self._options: dict[str, type] = {}
        """Typed dictionaries that signatures unpack, by their names."""
        self._aliases: set[str] = set()
        """Types in annotations that are not classes, and their meaning."""
        self._written: set[str] = set()
        """Those of them that have a public name."""

    def module(self, name: str) -> str:
        """All that is public in the module."""
        module = import_module(name)
        lines = [f"# {name}", ""]
        for public in sorted(DOORS.get(name) or module.__all__):
            lines += self._item(module, public)
        return "\n".join([*lines, ""])

    def options(self) -> str:
        """The keyword arguments that ``Unpack`` stands for, of all modules."""
        lines = ["# Options that signatures unpack", ""]
        written: set[str] = set()
        while waiting := sorted(self._options.keys() - written):
            written.update(waiting)
            new = [name for name in waiting if id(self._options[name]) not in self._homes]
            for name in new:
                lines += self._class(name, self._options[name])
        return "\n".join([*lines, ""])

    def _item(self, module: ModuleType, name: str) -> Iterator[str]:
        value = getattr(module, name)
        full = f"{module.__name__}.{name}"
        is_named = inspect.isclass(value) or inspect.isroutine(value)
        if is_named and id(value) in self._homes:
            yield f"{full} = {self._homes[id(value)]}"
            return
        if is_named:
            self._homes[id(value)] = full
        if inspect.isclass(value) and not isinstance(value, GenericAlias):
            yield from self._class(full, value)
        elif inspect.isroutine(value):
            yield from self._function(full, value)
        elif isinstance(value, ModuleType):
            yield f"module {full}"
        else:
            self._written.add(f"{name} = {shown(value)}")
            yield f"{full} = {shown(value)}"

    # --- types by name

    def aliases(self) -> str:
        """The meaning of names in annotations that are not classes."""
        lines = sorted(self._aliases - self._written)
        return "\n".join(["# Types that signatures name", "", *lines, ""])

    def _type(self, annotation: Any, scope: Mapping[str, Any]) -> str:
        """An annotation as text; the names in it are those of ``scope``."""
        text = shown_type(annotation)
        for name in re.findall(r"[A-Za-z]\w*", text):
            value = scope.get(name)
            if get_origin(value) is not None and get_args(value):
                self._aliases.add(f"{name} = {shown_type(value)}")
        return text

    # --- functions

    def _function(self, name: str, function: Any, indent: str = "") -> list[str]:
        keyword = "async def" if _is_async(function) else "def"
        signature = inspect.signature(function)
        self._note_options(function, signature)
        scope = _scope_of(function)
        parts = [self._parameter(each, scope) for each in signature.parameters.values()]
        parts = _with_marks(list(signature.parameters.values()), parts)
        returned = signature.return_annotation
        end = "" if returned is signature.empty else f" -> {self._type(returned, scope)}"
        line = f"{indent}{keyword} {name}({', '.join(parts)}){end}"
        if len(line) <= WIDTH:
            return [line]
        inner = [f"{indent}    {part}," for part in parts]
        return [f"{indent}{keyword} {name}(", *inner, f"{indent}){end}"]

    def _note_options(self, function: Any, signature: inspect.Signature) -> None:
        for each in signature.parameters.values():
            found = re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))
            if found is not None:
                options = _scope_of(function)[found[1]]
                self._options[f"{options.__module__}.{options.__name__}"] = options

    def _parameter(self, each: inspect.Parameter, scope: Mapping[str, Any]) -> str:
        text = STARS.get(each.kind, "") + each.name
        if each.annotation is not each.empty:
            text += f": {self._type(each.annotation, scope)}"
        if each.default is not each.empty:
            text += (" = " if ":" in text else "=") + shown(each.default)
        return text

    # --- classes

    def _class(self, name: str, cls: type) -> Iterator[str]:
        if "__dataclass_params__" in vars(cls):
            yield f"@dataclass(frozen={vars(cls)['__dataclass_params__'].frozen})"
        bases = ", ".join(filter(None, map(_base, _bases(cls))))
        yield f"class {name}({bases}):" if bases else f"class {name}:"
        yield from self._members(cls) or ["    ..."]

    def _members(self, cls: type) -> list[str]:
        if is_typeddict(cls):
            scope = vars(sys.modules[cls.__module__])
            return sorted(self._keys(cls, scope))
        if issubclass(cls, Enum):
            return [f"    {each.name} = {each.value!r}" for each in cls]
        lines = self._constructor(cls)
        for name in sorted(_public_names(cls)):
            lines += self._member(cls, name)
        return lines

    def _constructor(self, cls: type) -> list[str]:
        """Its constructor, if a class of streamdec defines it."""
        maker = next((c for c in cls.__mro__ if {"__init__", "__new__"} & vars(c).keys()), object)
        is_protocol = getattr(cls, "_is_protocol", False)
        if is_protocol or not maker.__module__.startswith("streamdec"):
            return []
        method = maker.__init__ if "__init__" in vars(maker) else maker.__new__  # type: ignore[misc]
        own = list(inspect.signature(method).parameters.values())[1:]
        signature = inspect.Signature(own)
        self._note_options(method, signature)
        scope = _scope_of(method)
        parts = _with_marks(own, [self._parameter(each, scope) for each in own])
        line = f"    ({', '.join(parts)})"
        if len(line) <= WIDTH:
            return [line]
        return ["    (", *(f"        {part}," for part in parts), "    )"]

    def _member(self, cls: type, name: str) -> list[str]:
        value = next((vars(c)[name] for c in cls.__mro__ if name in vars(c)), None)
        kind = ""
        if isinstance(value, (classmethod, staticmethod)):
            kind = f"    @{type(value).__name__}"
            value = value.__func__
        if inspect.isfunction(value):
            return [*filter(None, [kind]), *self._function(name, value, "    ")]
        if isinstance(value, (property, cached_property)):
            getter: Any = value.fget if isinstance(value, property) else value.func
            settable = " (may be set)" if getattr(value, "fset", None) else ""
            returned = self._type(inspect.signature(getter).return_annotation, _scope_of(getter))
            return [f"    {name}: {returned}{settable}"]
        annotation, home = _annotation(cls, name)
        if annotation:
            return [f"    {name}: {self._type(annotation, vars(sys.modules[home.__module__]))}"]
        return [f"    {name} = {shown(value)}" if type(value) in PLAIN else f"    {name}"]

    def _keys(self, cls: type, scope: Mapping[str, Any]) -> Iterator[str]:
        """The keys of a typed dictionary, with those of its bases."""
        required: frozenset[str] = cls.__required_keys__  # type: ignore[attr-defined]
        for name, annotation in cls.__annotations__.items():
            text = self._type(annotation, scope)
            # "Required[...]" is not evaluated, so required has it not.
            found = re.fullmatch(r"((?:Not)?Required)\[(.*)\]", text)
            is_required = found[1] == "Required" if found else name in required
            mark = " (required)" if is_required else ""
            yield f"    {name}: {found[2] if found else text}{mark}"


# --- what a class has -----------------------------------------------------------------------------


def _own(cls: type) -> list[type]:
    """It and those of its bases that are streamdec's."""
    return [each for each in cls.__mro__ if each.__module__.startswith("streamdec")]


def _bases(cls: type) -> tuple[Any, ...]:
    if is_typeddict(cls):
        return (TypedDict,)
    return getattr(cls, "__orig_bases__", None) or cls.__bases__


def _base(base: Any) -> str:
    """The name of a base; none for object, and for private classes, whose members are listed."""
    name = shown_type(base)
    return "" if base is object or name.startswith("_") else name


def _public_names(cls: type) -> set[str]:
    """Attributes without an underscore, and the special methods that the source defines."""
    names: set[str] = set()
    for each in _own(cls):
        names |= {name for name in vars(each) if not name.startswith("_")}
        names |= {name for name in vars(each).get("__annotations__", ()) if name[0] != "_"}
        names |= _written_names(each)
    return names


UNTOLD = {"__init__", "__new__", "__init_subclass__", "__repr__", "__str__", "__slots__"}


def _written_names(cls: type) -> set[str]:
    """Special methods of a class, and what its ``__init__`` puts on it, from its source."""
    names = set()
    for method in _methods(cls):
        if method.name.startswith("__") and method.name not in UNTOLD:
            names.add(method.name)
    names |= _set_in_init(cls).keys()
    return names


@cache
def _set_in_init(cls: type) -> dict[str, str]:
    """Public attributes that ``__init__`` sets, each with its annotation, if there is one."""
    found: dict[str, str] = {}
    for method in _methods(cls):
        if method.name != "__init__":
            continue
        types = {each.arg: each.annotation for each in [*method.args.args, *method.args.kwonlyargs]}
        for node in ast.walk(method):
            targets: list[ast.expr] = []
            annotation: ast.expr | None = None
            if isinstance(node, ast.AnnAssign):
                targets, annotation = [node.target], node.annotation
            elif isinstance(node, ast.Assign):
                targets = [t for each in node.targets for t in getattr(each, "elts", [each])]
                if isinstance(node.value, ast.Name):
                    annotation = types.get(node.value.id)
            for target in targets:
                if _is_of_self(target) and not target.attr.startswith("_"):
                    found[target.attr] = ast.unparse(annotation) if annotation else ""
    return found


def _is_of_self(node: ast.expr) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    )


@cache
def _methods(cls: type) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):
        return []
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef), cls
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [node for node in tree.body if isinstance(node, kinds)]


def _annotation(cls: type, name: str) -> tuple[str, type]:
    """The annotation of an attribute, if there is one, and the class that has it."""
    for each in _own(cls):
        if name in vars(each).get("__annotations__", ()):
            return shown_type(vars(each)["__annotations__"][name]), each
        if name in (found := _set_in_init(each)):
            return found[name], each
    return "", cls


# --- as text --------------------------------------------------------------------------------------


def _is_async(function: Any) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _scope_of(function: Any) -> Mapping[str, Any]:
    """The names of the module that has a function, or of none if it is not of Python."""
    inner = inspect.unwrap(getattr(function, "__func__", function))
    return getattr(inner, "__globals__", {})


def _with_marks(parameters: list[inspect.Parameter], parts: list[str]) -> list[str]:
    """The parts with ``/`` and ``*`` between them, as in a definition."""
    marked: list[str] = []
    kinds = [each.kind for each in parameters]
    for number, (kind, part) in enumerate(zip(kinds, parts, strict=True)):
        before = kinds[number - 1] if number else None
        if before is inspect.Parameter.POSITIONAL_ONLY and kind is not before:
            marked.append("/")
        is_first = kind is inspect.Parameter.KEYWORD_ONLY and before is not kind
        if is_first and before is not inspect.Parameter.VAR_POSITIONAL:
            marked.append("*")
        marked.append(part)
    if kinds and kinds[-1] is inspect.Parameter.POSITIONAL_ONLY:
        marked.append("/")
    return marked


def shown(value: Any) -> str:
    """A value, without what differs between runs."""
    if inspect.isclass(value) or get_origin(value) or isinstance(value, UnionType):
        return shown_type(value)
    if isinstance(value, (set, frozenset)):
        return f"{type(value).__name__}({{{', '.join(sorted(map(shown, value)))}}})"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple) and type(value) is tuple and len(value) > 8:
        return f"({', '.join(map(shown, value[:2]))}, ...)"
    text = re.sub(r" at 0x[0-9a-f]+", "", repr(value))
    return text if len(text) <= WIDTH else f"{type(value).__name__}(...)"


def shown_type(value: Any) -> str:
    """An annotation, as its source has it where it was not evaluated."""
    if isinstance(value, str):
        return value
    if isinstance(value, ForwardRef):
        return str(value.__forward_arg__)
    if isinstance(value, TypeVar):
        return str(value.__name__)
    if value is None or value is type(None):
        return "None"
    if value is ...:
        return "..."
    if isinstance(value, list):
        return f"[{', '.join(map(shown_type, value))}]"
    origin, arguments = get_origin(value), get_args(value)
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if origin is not None and "Union" in str(origin):
        return " | ".join(map(shown_type, arguments))
    if origin is not None:
        name = getattr(value, "__name__", None) or origin.__name__
        return f"{name}[{', '.join(map(shown_type, arguments))}]"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return str(name or value).removeprefix("typing.")


if __name__ == "__main__":
    TARGET.write_text(page(), "utf-8")
