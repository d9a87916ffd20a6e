"""The docstrings of streamdec as tests read them: the public names and their texts.

Docstrings are read from the sources, so that none is missed because its module needs a library that
is not there, and those after constants and fields are found as well.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.public_api import public_names

__all__ = [
    "Docstring",
    "Member",
    "attribute_docstrings",
    "docstrings",
    "public_members",
    "raised_by",
    "says",
    "says_parameter",
]

ROOT = Path(__file__).resolve().parent.parent.parent

# --- what is public -------------------------------------------------------------------------------


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
    for name, node in _strings_in(tree, ""):
        yield Docstring(module, name, node.value, path, node.lineno)


def _strings_in(node: ast.AST, name: str) -> Iterator[tuple[str, Any]]:
    """The docstrings, by the names of what they describe."""
    body: list[ast.stmt] = getattr(node, "body", [])
    last = name if isinstance(node, _DOCUMENTED) else None
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if isinstance(statement.value.value, str) and last is not None:
                yield last, statement.value
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
        found |= _attribute_docstrings(f"{base.__module__}.{base.__qualname__}")
    return found


@cache
def _attribute_docstrings(path: str) -> dict[str, str]:
    found = [each for each in docstrings() if f"{each}".startswith(f"{path}.")]
    return {each.name.rpartition(".")[2]: each.text for each in found}


# --- what is raised -------------------------------------------------------------------------------


def raised_by(member: Member) -> set[str]:
    """The exceptions that ``raise`` statements of a function name, and of its private helpers.

    Those of other modules are not followed, so there may be more. Left out is what is raised in a
    ``try``, which may catch it, and in a ``with``, which may make another of it. Of a class it is
    what making one raises.
    """
    value = _function_of(member.value)
    if inspect.isclass(value):
        found: set[str] = set()
        for name in ("__new__", "__init__", "__post_init__"):
            owner = next((base for base in value.__mro__ if name in base.__dict__), object)
            if owner.__module__.startswith("streamdec"):
                found |= _raised(owner.__module__, owner.__qualname__, name, set())
        return found
    if member.is_property:
        value = getattr(value, "fget", getattr(value, "func", None))
    else:
        value = inspect.unwrap(value)
    class_name = "" if member.owner is None else member.owner.__qualname__
    return _raised(value.__module__, class_name, value.__name__, set())


def _raised(module: str, class_name: str, name: str, seen: set[tuple[str, str]]) -> set[str]:
    function = _functions_of(module).get((class_name, name))
    if function is None or (class_name, name) in seen:
        return set()
    seen.add((class_name, name))
    every = [*ast.walk(function)]
    guarded = {
        id(inner)
        for node in every
        if isinstance(node, ast.Try)
        or (isinstance(node, ast.With) and "lock" not in ast.unparse(node.items[0]))
        for statement in node.body
        for inner in ast.walk(statement)
    }
    found: set[str] = set()
    for node in every:
        if id(node) in guarded:
            continue
        if isinstance(node, ast.Raise) and node.exc is not None:
            called = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            kind = _named(module, getattr(called, "id", ""))
            is_error = inspect.isclass(kind) and issubclass(kind, BaseException)
            if is_error and kind is not NotImplementedError:  # a base class leaves it to others
                found.add(kind.__name__)
        elif isinstance(node, ast.Call):
            owner, _, last = ast.unparse(node.func).rpartition(".")
            if last.startswith("_") and owner in ("", "self", "cls"):
                found |= _raised(module, class_name if owner else "", last, seen)
    return found


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name, getattr(builtins, name, None))


@cache
def _functions_of(module: str) -> dict[tuple[str, str], ast.FunctionDef | ast.AsyncFunctionDef]:
    """The functions of a module by the names of class and function."""
    tree = ast.parse(Path(str(importlib.import_module(module).__file__)).read_text("utf-8"))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    owners: list[Any] = [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]
    return {
        (getattr(owner, "name", ""), node.name): node
        for owner in owners
        for node in owner.body
        if isinstance(node, kinds)
    }


# --- their texts ----------------------------------------------------------------------------------


def says(
    member: Member,
    word: str,
    resolve: Callable[[str], Member | None],
    *,
    by_class: bool = True,
) -> bool:
    """Whether a docstring has ``word``, or one that it refers to; ``by_class``: or its class's.

    It refers to it by a sentence that says what something else raises ("Raises what ``step``
    raises"), or that it is as something else ("All else as for ``restore``").
    """
    return _says(member, resolve, by_class, lambda text: _has(text, word), word)


def says_parameter(member: Member, name: str, resolve: Callable[[str], Member | None]) -> bool:
    """The same of a parameter: as code, or at the head of its line under ``Args``.

    Many are called as common words are (``text``, ``to``, ``only``).
    """
    head = re.compile(rf"^\s*(?:\w+, )*\*{{0,2}}{name}(?:, \*{{0,2}}\w+)*:", re.MULTILINE)

    def has(text: str) -> bool:
        return head.search(text) is not None or _has(" ".join(_CODE.findall(text)), name)

    return _says(member, resolve, True, has, name)


_CODE = re.compile(r"``(.+?)``", re.DOTALL)


def _says(
    member: Member,
    resolve: Callable[[str], Member | None],
    by_class: bool,
    has: Callable[[str], bool],
    field: str,
) -> bool:
    """Whether ``has`` a docstring, or one that it refers to; or it is of a class with ``field``."""
    seen: set[str] = set()
    waiting = [member]
    while waiting:
        each = waiting.pop()
        if each.path in seen:
            continue
        seen.add(each.path)
        fields = attribute_docstrings(each.value) if inspect.isclass(each.value) else {}
        if has(_prose(each.doc)) or field in fields:
            return True
        waiting += filter(None, map(resolve, _references_in(each)))
        if by_class and each.owner is not None:
            home = f"{each.owner.__module__}.{each.owner.__name__}"
            waiting += filter(None, [resolve(each.path.rpartition(".")[0])])
            waiting.append(Member(home, each.owner, None))
    return False


def _prose(text: str) -> str:
    """A docstring without its examples: what is only in one of them is not said."""
    parts = doctest.DocTestParser().parse(text)
    return "".join(part for part in parts if isinstance(part, str))


def _has(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


_REFERRING = re.compile(r"\b[Rr]aises? what\b|\b[Aa]s (?:for|of|``|:\w+:)|\b[Ss]ee\b|\ball else\b")
_NAMES = re.compile(r"`~?([\w.]+)(?:\(\))?`|\b([A-Z]\w*[a-z]\w*[A-Z]\w*)\b|\b(Sequence|Face)\b")


def _references_in(member: Member) -> Iterator[str]:
    """What a docstring says something is raised by as well, as paths that may be none."""
    before = member.path.rpartition(".")[0]
    prefix = before if member.owner else member.path
    for sentence in re.split(r"(?<=[.:;])\s|\n\n", member.doc):
        flat = " ".join(sentence.split())
        if not _REFERRING.search(flat):
            continue
        for found in _NAMES.findall(flat):
            name = "".join(found)
            last = name.rpartition(".")[2]
            yield from (f"{place}.{last}" for place in (prefix, before, "streamdec"))
            yield from (name, f"streamdec.{name}")
        if "the constructor" in flat:
            yield prefix
