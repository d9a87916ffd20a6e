"""Errors for columns that are missing, or there already."""

from __future__ import annotations

from collections.abc import Container, Iterable

from streamdec.errors import SourceError

_MOST_NAMES = 12
"""The most columns that an error names."""


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
