"""The docstrings of streamdec as tests read them: the public names and their texts.

Docstrings are read from the sources, so that none is missed because its module needs a library that
is not there, and those after constants and fields are found as well.
"""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.public_api import public_names

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class Member:
    """A public function, class, method or property."""

    path: str
    """``module.Class.method``, by the module that people import it from."""
    value: Any
    owner: type | None
    """The class that defines it; None for a function or a class."""

    @property
    def doc(self) -> str:
        """Its docstring, or that of the method that it overrides."""
        bases = () if self.owner is None else self.owner.__mro__
        name = self.path.rpartition(".")[2]
        values = [self.value, *(base.__dict__[name] for base in bases if name in base.__dict__)]
        return next(filter(None, map(inspect.getdoc, values)), "")

    @property
    def is_property(self) -> bool:
        return self.owner is not None and not callable(_function_of(self.value))


def public_members(door: str) -> Iterator[Member]:
    """The public functions and classes of a module, each class followed by its members."""
    for name, value in public_names(door).items():
        if inspect.isclass(value):
            yield Member(f"{door}.{name}", value, None)
            for each, found, owner in _members_of(value):
                yield Member(f"{door}.{name}.{each}", found, owner)
        elif inspect.isroutine(value):
            yield Member(f"{door}.{name}", value, None)


def _members_of(kind: type) -> Iterator[tuple[str, Any, type]]:
    """Methods and properties that classes of streamdec define."""
    for name in sorted(set(dir(kind))):
        owner = next((base for base in kind.__mro__ if name in base.__dict__), None)
        if name.startswith("_") and name not in OPERATORS:
            continue
        if owner is None or not owner.__module__.startswith("streamdec"):
            continue
        found = owner.__dict__[name]
        is_method = inspect.isroutine(_function_of(found))
        if is_method or isinstance(found, property) or hasattr(found, "attrname"):
            yield name, found, owner


OPERATORS = frozenset({"__call__", "__getitem__"})
"""Methods of other names that do what no other one does."""


def _function_of(found: Any) -> Any:
    return getattr(found, "__func__", found)


# --- the docstrings -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Docstring:
    """A docstring in a source file."""

    module: str
    name: str
    """What it is of, from the module on; "" for the module itself."""
    text: str
    path: Path
    line: int
    """Where it begins, from 1."""
    opens: bool
    """Whether it opens a module, a class or a function, and does not follow a constant or field."""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}".rstrip(".")


@cache
def docstrings() -> tuple[Docstring, ...]:
    """Every docstring of streamdec, those after constants and fields included."""
    return tuple(
        docstring
        for path in sorted((ROOT / "streamdec").rglob("*.py"))
        for docstring in _docstrings_of(path)
    )


def _docstrings_of(path: Path) -> Iterator[Docstring]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text("utf-8"))
    for name, node, opens in _strings_in(tree, ""):
        yield Docstring(module, name, node.value, path, node.lineno, opens)


def _strings_in(node: ast.AST, name: str) -> Iterator[tuple[str, Any, bool]]:
    """The docstrings, by the names of what they describe, and whether they open it."""
    body: list[ast.stmt] = getattr(node, "body", [])
    last = name if isinstance(node, _DOCUMENTED) else None
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if isinstance(statement.value.value, str) and last is not None:
                yield last, statement.value, statement is body[0]
            last = None
            continue
        last = None
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            last = _dotted(name, _target(statement))
        elif isinstance(statement, _DOCUMENTED):
            yield from _strings_in(statement, _dotted(name, statement.name))
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _strings_in(statement, name)


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    return target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)


def _dotted(*names: str) -> str:
    return ".".join(filter(None, names))


def attribute_docstrings(kind: type) -> dict[str, str]:
    """The docstrings of the fields and attributes of a class, directly after them."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        found |= _docstrings_within().get(f"{base.__module__}.{base.__qualname__}", {})
    return found


@cache
def _docstrings_within() -> dict[str, dict[str, str]]:
    """The docstrings in each module, class and function, by their last names."""
    found: dict[str, dict[str, str]] = {}
    for each in docstrings():
        path, _, last = f"{each}".rpartition(".")
        while path:
            found.setdefault(path, {})[last] = each.text
            path = path.rpartition(".")[0]
    return found


def raised_by(member: Member) -> set[str]:
    """The exceptions that ``raise`` statements of a function name, except those in a ``try`` block.

    Of a class it is what making one raises.
    """
    value = _function_of(member.value)
    if inspect.isclass(value):
        made = [value.__dict__.get(name) for name in ("__new__", "__init__", "__post_init__")]
        return {error for each in filter(None, made) for error in _raised_in(each)}
    if member.is_property:
        value = getattr(value, "fget", getattr(value, "func", None))
    return _raised_in(inspect.unwrap(value))


def _raised_in(function: Any) -> set[str]:
    function = _function_of(function)
    code = getattr(function, "__code__", None)
    if not str(getattr(code, "co_filename", "")).startswith(f"{ROOT / 'streamdec'}"):
        return set()
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    return {*_raises(list(getattr(tree, "body", [])))}


def _raises(nodes: list[Any]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, (*_DOCUMENTED, ast.Lambda)):
            continue
        if isinstance(node, ast.Try):
            yield from _raises([*node.handlers, *node.orelse, *node.finalbody])
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            name = ast.unparse(called)
            if name.endswith("Error") and name != "NotImplementedError":
                yield name
        yield from _raises(list(ast.iter_child_nodes(node)))


def says(member: Member, word: str) -> bool:
    """Whether the docstring of ``member`` or of its class has ``word``, or refers to another one.

    It refers to it by a sentence that says what something else raises ("Raises what ``step``
    raises"), or that it is as something else ("All else as for ``restore``").
    """
    return any(_has(text, word) or _REFERRING.search(text) for text in _texts(member))


def says_parameter(member: Member, name: str) -> bool:
    """The same of a parameter: as code, or at the head of its line under ``Args``.

    Many are called as common words are (``text``, ``to``, ``only``).
    """
    head = re.compile(rf"^\s*(?:\w+, )*\*{{0,2}}{name}(?:, \*{{0,2}}\w+)*:", re.MULTILINE)
    return any(
        head.search(text) or _has(" ".join(_CODE.findall(text)), name) or _REFERRING.search(text)
        for text in _texts(member)
    )


_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_REFERRING = re.compile(r"\b[Rr]aises? what\b|\b[Aa]s (?:for|of|``|:\w+:)|\b[Ss]ee\b|\ball else\b")


def _texts(member: Member) -> list[str]:
    """The docstrings of a member and of its class, without their examples."""
    docs = [member.doc] + ([inspect.getdoc(member.owner) or ""] if member.owner else [])
    parts = [doctest.DocTestParser().parse(doc) for doc in docs]
    return ["".join(part for part in each if isinstance(part, str)) for each in parts]


def _has(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None
