"""Values that a template may use, and whose text would show an address.

In: a method, a function or an iterator. Out: an object that can be called or iterated like it, and
whose text is only the name of its type. The environment gives a template no others, so no filter,
operator or error message can turn an address into text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from jinja2.runtime import BlockReference
from jinja2.utils import Cycler, Joiner

__all__ = [
    "OpaqueCallable",
    "OpaqueCycler",
    "OpaqueJoiner",
    "called",
    "opaque",
    "with_opaque_result",
]

CALLABLES = frozenset((BuiltinMethodType, FunctionType, MethodType, BlockReference))


def opaque(value: Any) -> Any:
    """Return ``value`` itself, or what stands for a callable or an iterator."""
    kind = type(value)
    if kind in CALLABLES:
        return OpaqueCallable(value)
    return OpaqueIterable(value) if hasattr(kind, "__next__") else value


def called(value: Any) -> Any:
    """Return the callable that ``value`` stands for, or ``value`` itself."""
    return value._value if type(value) is OpaqueCallable else value


def with_opaque_result(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with results in a form without addresses."""

    @wraps(function)  # it also copies the mark of a function that takes the context
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return opaque(function(*args, **kwargs))

    return wrapper


class _Opaque:
    __slots__ = ("_value",)  # the sandbox refuses names with an underscore

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return f"<{type(self._value).__name__}>"


class OpaqueCallable(_Opaque):
    """A method or function. The environment calls the function itself."""

    __slots__ = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self._value(*args, **kwargs)


class OpaqueIterable(_Opaque):
    """An iterator. A second loop continues after the items of the first one."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self._value  # type: ignore[no-any-return]


class OpaqueCycler(Cycler):
    """jinja2's ``cycler``."""

    def __repr__(self) -> str:
        return "<Cycler>"


class OpaqueJoiner(Joiner):
    """jinja2's ``joiner``."""

    def __repr__(self) -> str:
        return "<Joiner>"
