"""How figures are written: ratios, times and sizes, with two or three digits."""

from __future__ import annotations

from collections.abc import Sequence

_TIMES = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZES = ((2.0**20, "MB"), (2.0**10, "kB"), (1.0, "B"))


def times(value: float) -> str:
    """Return a ratio with two digits, or with all digits before the point."""
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:,.{digits}f} ×"


def duration(nanoseconds: float) -> str:
    """Return a time in the largest unit of which it is one or more."""
    return _in_units(nanoseconds, _TIMES)


def size(count: float) -> str:
    """Return a number of bytes in the largest unit that is not larger than it.

    The units are MiB, KiB and B.
    """
    return _in_units(count, _SIZES)


def _in_units(value: float, units: Sequence[tuple[float, str]]) -> str:
    unit, name = next((each for each in units if value >= each[0]), units[-1])
    part = value / unit
    digits = 1 if part < 10 and unit > 1 else 0
    return f"{part:,.{digits}f} {name}"
