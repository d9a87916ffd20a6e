"""Functions and iterators as templates see them: their text has no address.

In: what a template can take hold of. Out: an object that does the same. Python writes the address
of a function, a method or a generator into its text, as in ``<built-in method upper of str object
at 0x7f…>``. It would tell the author of a template where the memory of the process is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from types import BuiltinFunctionType, FunctionType, MethodType, MethodWrapperType
from typing import Any

from jinja2.runtime import BlockReference
from jinja2.utils import Cycler, Joiner

_CALLABLE = frozenset(
    (FunctionType, BuiltinFunctionType, MethodType, MethodWrapperType, BlockReference)
)
"""The types of callable objects that a template can reach and whose text has an address."""


class _Function:
    """A callable that hides the function that it calls from templates.

    Templates do not see its attribute, which begins with an underscore.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __call__(*given: Any, **named: Any) -> Any:  # a template may name an argument "self"
        self, *arguments = given
        return self._call(*arguments, **named)

    def __repr__(self) -> str:
        return "<function>"


class _Iterator:
    """Iterates over what a filter returned."""

    __slots__ = ("_items",)

    def __init__(self, items: Iterator[Any]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._items

    def __next__(self) -> Any:
        return next(self._items)

    def __repr__(self) -> str:
        return "<iterator>"


class NamelessCycler(Cycler):
    """jinja2's ``cycler``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<cycler>"


class NamelessJoiner(Joiner):
    """jinja2's ``joiner``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "<joiner>"


def nameless(value: Any) -> Any:
    """Return ``value``; a function as an object whose text has no address."""
    return _Function(value) if type(value) in _CALLABLE else value


def called(value: Any) -> Any:
    """Return the function that ``value`` calls; ``value`` itself for other types.

    The function may have marks.
    """
    return value._call if type(value) is _Function else value


def returning_nameless(filter_: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter like ``filter_`` that returns iterators without addresses."""

    @wraps(filter_)  # with jinja2's mark for filters that take the environment
    def filtered(*given: Any, **named: Any) -> Any:
        found = filter_(*given, **named)
        return _Iterator(found) if isinstance(found, Iterator) else found

    return filtered
