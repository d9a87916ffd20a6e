"""What one rendering has left: a budget of work, and the sizes that its values may have.

In: what each operation is about to make. Out: nothing, or a :class:`ChatTemplateError` before the
memory is taken or the time is spent.

Units are characters: a text of n characters costs n to make, a list 16 for each item, a pass of a
loop 64. Two rules bound a rendering, whatever its operations are:

1. No value that a template makes is larger than ``value`` when it is written out, and none is
   nested deeper than ``depth``. So every single operation of Python on it (a comparison, a hash,
   ``str``) is bounded, also where the same list stands in a list a thousand times.
2. All values, passes and texts together cost no more than ``work``.

The limits grow with what the caller passes in (a prompt may be long), which is measured only when a
rendering reaches one of them: others pay nothing for it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import chain
from types import GeneratorType, MappingProxyType
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

from streamdec.chat._static_check import StaticLimits, too_much

__all__ = ["CONTAINERS", "LIMITS", "VIEWS", "Limits", "Meter", "running_meter"]

VIEWS = frozenset(map(type, ({}.keys(), {}.values(), {}.items())))
"""What shows a part of a dict, and is written out as that."""
CONTAINERS = frozenset((list, tuple, dict, set, frozenset, MappingProxyType, *VIEWS))
"""Types whose values are weighed item by item."""

ITEM = 16
"""Units of an item of a list or a dict: its reference and what Python keeps beside it."""
PASS = 64
"""Units of a pass of a loop, a call, and of 16 statements in a row."""
NUMBERS = re.compile(r"\d+")
SLICE = 1 << 20
"""Units between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one rendering may take; ``input`` is the size of what the caller passed in, in units."""

    static: StaticLimits = field(default_factory=StaticLimits)
    """Of the template's text, before it is compiled."""
    work: int = 64 << 20
    """Units for everything together, and 64 more for each unit of the input."""
    value: int = 4 << 20
    """Units of one value, and twice the input."""
    output: int = 16 << 20
    """Characters of the text that comes out, and 16 times the input."""
    items: int = 100_000
    """Items of ``range`` and of the parts of a text, and the input."""
    range: int = 20_000
    """Items of ``range``, and the input. jinja2's own sandbox lets 100,000 pass."""
    int_bits: int = 4_096
    """Of an integer that is computed."""
    width: int = 1_000
    """Of what is padded: columns, indentation, places after the point."""
    depth: int = 100
    """Levels of lists and dicts that a template makes."""
    calls: int = 48
    """Macros, recursive loops and blocks within each other; filters that read each other."""
    seconds: float = 2.0
    """Of processor time of the thread; a second more for four million units of the input."""


LIMITS = Limits()
"""What holds if nothing else is said."""


class Meter:
    """What is left for one rendering."""

    __slots__ = (
        *("_chains", "_rest", "_until", "_variables", "_weights"),
        *("calls", "extra", "left", "limits"),
    )

    def __init__(self, limits: Limits, variables: Mapping[str, Any] | None = None) -> None:
        self.limits = limits
        self.left = min(SLICE, limits.work)
        """Units until the next look at the clock. Negative: call :meth:`refill`."""
        self.calls = 0
        """Macros that are under way."""
        self.extra: int | None = None
        """Units of the input; None until they were needed."""
        self._rest = limits.work - self.left
        self._until: float | None = None
        self._variables = variables or {}
        self._weights: dict[int, tuple[int, int, object]] = {}
        self._chains: WeakKeyDictionary[object, int] | None = None

    # --- work -------------------------------------------------------------------------------------

    def spend(self, units: int) -> None:
        """Takes ``units`` from the budget. Raises :class:`ChatTemplateError` if it is used up."""
        self.left -= units
        if self.left < 0:
            self.refill()

    def refill(self) -> None:
        """Takes the next slice from the rest, after a look at the clock."""
        now = time.thread_time()
        if self._until is None:
            self._until = now + self.limits.seconds
        owed = -self.left
        if owed > self._rest:
            self.measure_input()
        if owed > self._rest:
            self._rest = 0  # whoever catches the error has nothing left either
            self.refuse(f"more work than {self.limits.work:,} units")
        if now > self._until and now > self._until + self.measure_input() / 4e6:
            self.refuse(f"more than {self.limits.seconds:g} seconds of processor time")
        taken = min(self._rest, owed + SLICE)
        self._rest -= taken
        self.left += taken

    def extra_if(self, needed: bool) -> int:
        """Units of the input, measured only if they are needed."""
        return self.measure_input() if needed else 0

    def measure_input(self) -> int:
        """Units of what the caller passed in, measured once; the budget grows by it."""
        if self.extra is None:
            self.extra = _size_of_input([*self._variables.values()], {})
            self._rest += 64 * self.extra
        return self.extra

    # --- sizes ------------------------------------------------------------------------------------

    def make_text(self, size: int) -> None:
        """A text (or bytes) of ``size`` is about to be made, or was: checked and paid for."""
        if size > self.limits.value and size > self.limits.value + 2 * self.measure_input():
            self.refuse(f"a text of {size:,} characters")
        self.spend(size + ITEM)

    def make_items(self, count: int) -> None:
        """``count`` items are about to be made, or gone through."""
        if count > self.limits.items and count > self.limits.items + self.measure_input():
            self.refuse(f"a list of {count:,} items")
        self.spend(ITEM * count)

    def check_width(self, *widths: object) -> None:
        """Columns that a text is padded to."""
        for width in widths:
            if isinstance(width, int) and abs(width) > self.limits.width:
                self.refuse(f"a width of {width:,.0f}" if width.bit_length() < 99 else "a width")

    def check_format(self, text: str) -> None:
        """A format with widths in it: those of ``strftime``, or of a field of ``str.format``."""
        if len(text) > self.limits.width:
            self.refuse("a format of more than a line")
        self.check_width(*(int(digits[:9]) for digits in NUMBERS.findall(text)))

    def check_int(self, bits: int) -> None:
        """An integer of ``bits`` is about to be made."""
        if bits > self.limits.int_bits:
            self.refuse(f"an integer of more than {self.limits.int_bits:,} bits")

    def hold(self, value: object) -> None:
        """A list, tuple or dict that a template made: its size written out and its depth."""
        size, depth = self.weigh(value)
        if depth > self.limits.depth:
            self.refuse(f"lists nested more than {self.limits.depth} deep")
        if size > self.limits.value and size > self.limits.value + 2 * self.measure_input():
            self.refuse(f"a list or dict of {size:,} characters")

    def weigh(self, value: object) -> tuple[int, int]:
        """Units of ``value`` written out, and its depth.

        What was weighed is remembered by its identity and kept alive: nothing in the sandbox can
        change it. So a list that holds the same list many times is not gone through many times.
        """
        kind = type(value)
        if kind is str:
            return len(value) + 8, 0  # type: ignore[arg-type]
        if kind in CONTAINERS or isinstance(value, (list, tuple, dict)):
            known = self._weights.get(id(value))
            if known is None:
                known = self._weigh_items(value)  # type: ignore[arg-type]
                self._weights[id(value)] = known
            return known[0], known[1]
        if isinstance(value, (str, bytes, bytearray)):
            return len(value) + 8, 0
        return (value.bit_length() // 3 if isinstance(value, int) else 0) + 8, 0

    def _weigh_items(self, value: Collection[object]) -> tuple[int, int, object]:
        total, deepest = ITEM + 2 * ITEM * len(value), 0
        self.spend(ITEM * len(value))
        for item in _items(value):
            if type(item) is str:
                total += len(item)
            else:
                size, depth = self.weigh(item)
                total += size
                if depth > deepest:
                    deepest = depth
        return total, deepest + 1, value

    def chain(self, given: object, made: object) -> None:
        """A filter made the iterator ``made``, which will read ``given``.

        Python ends what reads another one, and that another one, on the stack of C: without an
        error if there are thousands, but with the process.
        """
        if isinstance(given, GeneratorType) and isinstance(made, GeneratorType):
            if self._chains is None:
                self._chains = WeakKeyDictionary()
            self._chains[made] = links = self._chains.get(given, 0) + 1
            if links > self.limits.calls:
                self.refuse(f"more than {self.limits.calls} filters that read each other")

    def count(self, items: Iterable[Any], each: int) -> Iterator[Any]:
        """The same items; ``each`` units are paid when one comes."""
        for item in items:
            self.left -= each
            if self.left < 0:
                self.refill()
            yield item

    def refuse(self, what: str) -> NoReturn:
        """Raise the error of a template that wants ``what``."""
        raise too_much(f"the template was stopped: {what}")


running_meter: ContextVar[Meter] = ContextVar("running_meter")
"""The meter of the rendering that runs here; a compiled template is shared by threads."""


def _items(value: Any) -> Iterable[object]:
    if type(value) in VIEWS:  # as the dict it is of: its items would be made for this alone
        value = value.mapping
    return chain(value, value.values()) if isinstance(value, (dict, MappingProxyType)) else value


def _size_of_input(value: object, known: dict[int, int]) -> int:
    """Units of all plain values in ``value``, written out."""
    if isinstance(value, (str, bytes)):
        return len(value) + 8
    if not isinstance(value, (list, tuple, dict)):
        return 8
    size = known.get(id(value))
    if size is None:
        items = sum(_size_of_input(item, known) for item in _items(value))
        size = known[id(value)] = items + ITEM + 2 * ITEM * len(value)
    return size
