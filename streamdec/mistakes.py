"""Helpers for errors and warnings that say what to write instead.

Except ``check_new``, they are called only after a mistake, or when an object is registered. So they
may be slow.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from streamdec.errors import SourceError

_MOST_LISTED = 10
"""The most options that a message lists."""

_LEAST_SIMILARITY = 0.8
"""From 0 to 1: a name that is less similar to another one is not a misspelling of it."""

_MOST_NAMES = 12
"""The most columns that an error names."""

_NAMES_ELSEWHERE = {
    "max_completion_tokens": "max_tokens",
    "max_new_tokens": "max_tokens",
    "min_new_tokens": "min_tokens",
    "no_stop_trim": "include_stop_str_in_output",
    "prompt": "prompt_token_ids",
    "stop_conditions": "conditions",
    "stop_sequences": "stop",
    "stop_strings": "stop",
    "stop_words": "stop",
    "timeout": "idle_timeout",
}
"""Options of engines and APIs, and their names in streamdec."""

NOWHERE: Mapping[str, str] = MappingProxyType({})
"""The default of ``elsewhere``: no options of other functions are known."""


def unknown_option(
    what: str, name: str, known: Collection[str], elsewhere: Mapping[str, str] = NOWHERE
) -> TypeError:
    """Return the error for the option ``name``, which ``what`` does not have.

    The message says what to write: the most similar option, or all options if they are few.

    Args:
        what: the function or class.
        name: the unknown option.
        known: the options of ``what``.
        elsewhere: options of other functions and classes, and what to write for each; ``{}`` stands
            for its name.
    """
    from difflib import get_close_matches  # slow to import, and only needed after a mistake

    meant = _NAMES_ELSEWHERE.get(name, name)
    if near := get_close_matches(meant, elsewhere, n=1, cutoff=0.85):
        advice = f"; {elsewhere[near[0]].format(near[0])}"
    elif near := get_close_matches(meant, known, n=1, cutoff=0.7):
        advice = f"; did you mean {near[0]}?"
    else:
        advice = f"; it has {', '.join(known)}" if len(known) <= _MOST_LISTED else ""
    return TypeError(f"{what} has no option {name!r}{advice}")


def check_flag(name: str, value: object) -> bool:
    """Return the option ``name``. Raises TypeError if it is not a bool.

    Other values may not mean what they are taken for: the text "false" is true.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r:.40}")
    return value


def misspelled(names: Iterable[str], missing: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each public name that looks like a ``missing`` name, and that name."""
    from difflib import get_close_matches  # slow to import, and rarely needed

    for name in names:
        if not name.startswith("_") and (
            near := get_close_matches(name, missing, n=1, cutoff=_LEAST_SIMILARITY)
        ):
            yield name, near[0]


def wrong_parameters(call: Callable[..., Any], *arguments: object) -> str | None:
    """Return the parameters of ``call`` if it cannot take ``arguments``.

    Returns None if it can, or if its parameters are not known.
    """
    try:
        signature = inspect.signature(call, follow_wrapped=False)
    except Exception:  # noqa: BLE001 (a function written in C, or a property that raises)
        return None
    try:
        signature.bind(*arguments)
    except TypeError:
        return f"{signature!s:.200}"
    return None


def no_column(name: str, names: Iterable[str]) -> SourceError:
    """Return the error for rows without the column ``name``.

    The rows have the columns ``names``.
    """
    shown = [*names]
    there = ", ".join(f"{each!a:.40}" for each in shown[:_MOST_NAMES]) or "none"
    if len(shown) > _MOST_NAMES:
        there += f", and {len(shown) - _MOST_NAMES:,} more"
    return SourceError(f"no column {name!r}; the columns are: {there}; choose one with column=")


def check_new(new: Iterable[str], names: Container[str]) -> None:
    """Raise SourceError if one of the ``new`` columns is already in ``names``."""
    for name in new:
        if name in names:
            raise SourceError(
                f"there is a column {name!r} already; choose other names for the new columns with "
                "prefix='new_'"
            )
