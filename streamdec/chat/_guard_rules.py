# ruff: noqa: ARG001 - all rules are called in one way
"""What each filter, method and operator of a template may make: asked before it is run.

In: a meter and the operands. Out: nothing, or the error of a template over its limits. A rule says
how large the result can be at most, from the sizes of the operands; where that is not cheap to say
(``str % args``) it says more than it can be, never less.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from streamdec.chat._meter import ITEM, NUMBERS, PASS, Meter

__all__ = [
    "DROPPED",
    "FREE_FILTERS",
    "METHODS",
    "OTHER_METHODS",
    "PLAIN_FILTERS",
    "check_dict",
    "check_operator",
    "compared",
    "filter_input",
    "read_only",
]

Args = Sequence[Any]
Kwargs = Mapping[str, Any]
Rule = Callable[[Meter, Any, Args, Kwargs], None]

DROPPED = frozenset(("lipsum",))
"""Globals of jinja2 that a guarded environment has not: random text, as much as is asked for."""

PRINTF = re.compile(r"%(?:\([^)]*\))?[-+ #0]*(\*|\d+)?(?:\.(\*|\d+)?)?[hlL]?(.?)", re.DOTALL)
NESTED_KEY = re.compile(r"%\([^)]*\(")
MODULUS = sys.hash_info.modulus
"""From here on integers do not hash to themselves."""
Text = (str, bytes, bytearray)
SMALL = 256
"""Characters of a text that costs nothing to compare or to look through."""
FAST_CODECS = frozenset(
    (
        *("ascii", "latin1", "latin-1", "iso-8859-1", "unicode-escape", "raw-unicode-escape"),
        *("utf8", "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"),
        *("utf-32", "utf-32-le", "utf-32-be"),
    )
)
"""Codecs that go through a text once; punycode goes through it again for each character."""


def size_of(value: object) -> int:
    """Characters that ``value`` has as text, at most about."""
    return 0 if value is None else len(value) if isinstance(value, Text) else 32


def sizes_of(meter: Meter, args: Args, kwargs: Kwargs) -> int:
    """Units of the largest argument."""
    sizes = [meter.weigh(value)[0] for value in (*args, *kwargs.values())]
    return max(sizes, default=0)


def argument(args: Args, kwargs: Kwargs, place: int, name: str, default: Any = None) -> Any:
    """The argument at ``place`` or of that ``name``."""
    return args[place] if len(args) > place else kwargs.get(name, default)


def compared(meter: Meter, value: Any, *, searched: bool = False) -> int:
    """Units of a comparison with ``value``; with ``searched``, of looking for something in it."""
    if type(value) is str:
        return len(value) >> 2 if len(value) > SMALL else 0
    if isinstance(value, range):
        return len(value)  # what is no int is compared with each
    if searched and isinstance(value, dict):
        return 0
    return meter.weigh(value)[0] >> 2


def hashed(meter: Meter, keys: Iterable[object]) -> None:
    """Keys of a dict or a set are about to be told apart by their hashes.

    Those of texts are secret. A template can write many integers, or tuples of them, that have the
    same one; each of these is then compared with all before it.
    """
    alike = sum(type(key) is tuple or (type(key) is int and abs(key) >= MODULUS) for key in keys)
    meter.spend(alike * alike >> 2)


def check_dict(meter: Meter, args: Args) -> None:
    """Before ``dict(…)``."""
    for given in args:
        if isinstance(given, (list, tuple)):
            hashed(meter, [pair[0] for pair in given if isinstance(pair, (list, tuple)) and pair])


# --- methods --------------------------------------------------------------------------------------


def _padded(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    meter.check_width(*args, *kwargs.values())


def _expanded_tabs(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    width = argument(args, kwargs, 0, "tabsize", 8)
    if isinstance(width, int):
        tabs = text.count("\t" if isinstance(text, str) else b"\t")
        meter.make_text(len(text) + tabs * max(width, 0))


def _replaced(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    old, new = argument(args, kwargs, 0, "old"), argument(args, kwargs, 1, "new")
    if isinstance(old, type(new)) or isinstance(new, type(old)):
        try:
            found = text.count(old)
        except TypeError:
            return  # the method says it better
        meter.make_text(len(text) + found * size_of(new))


def _joined(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    if args and isinstance(args[0], (list, tuple, dict, *Text)):
        meter.make_text(meter.weigh(args[0])[0] + len(args[0]) * len(text))


def _translated(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    table = args[0] if args else None
    largest = 1
    if isinstance(table, dict):
        meter.make_items(len(table))
        largest = max((size_of(value) for value in table.values()), default=1)
    elif isinstance(table, (list, tuple)):
        largest = meter.weigh(table)[0]
    meter.make_text(len(text) * max(largest, 1))


def _divided(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    by = argument(args, kwargs, 0, "sep")
    empty = by is None or not isinstance(by, type(text)) or not by
    most = argument(args, kwargs, 1, "maxsplit", -1)
    parts = len(text) // 2 + 1 if empty else text.count(by) + 1
    if isinstance(most, int) and most >= 0:
        parts = min(parts, most + 1)
    if empty and parts > meter.limits.items:  # white space: count what is really there
        parts = sum(1 for _ in re.finditer(rb"\S+" if isinstance(text, bytes) else r"\S+", text))
    meter.make_text(len(text))
    meter.make_items(parts)


def _divided_in_lines(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    breaks = (
        b"\n\r" if isinstance(text, (bytes, bytearray)) else "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
    )
    lines = sum(text.count(breaks[place : place + 1]) for place in range(len(breaks)))
    meter.make_text(len(text))
    meter.make_items(lines + 1)


def _searched_backwards(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    """Python looks from the end without a table: what it seeks may be compared at each place."""
    meter.make_text(len(text))
    meter.spend(len(text) * size_of(args[0] if args else None) >> 6)


def _divided_backwards(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    _searched_backwards(meter, text, (argument(args, kwargs, 0, "sep"),), {})
    _divided(meter, text, args, kwargs)


def _stripped(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    """Each character is looked for among those that are given."""
    read_only(meter, text, args, kwargs)
    meter.spend(len(text) * size_of(argument(args, kwargs, 0, "chars")) >> 6)


def _coded(factor: int) -> Rule:
    copied = _copied(factor)

    def rule(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
        copied(meter, text, args, kwargs)
        codec = argument(args, kwargs, 0, "encoding", "utf-8")
        if isinstance(codec, str) and codec.lower().replace("_", "-") not in FAST_CODECS:
            meter.spend(len(text) ** 2)

    return rule


def _copied(factor: int) -> Rule:
    def rule(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
        meter.make_text(len(text) * factor)

    return rule


def _striptags(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    _quadratic(meter, text, (), {})


def _maketrans(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    meter.make_items(sum(size_of(value) for value in args))


def read_only(meter: Meter, text: Any, args: Args, kwargs: Kwargs) -> None:
    """Methods that go through a text and make none, and those that are not known."""
    meter.spend(len(text) >> 2)


def _percent(meter: Meter, text: Any, args: object) -> None:
    """``text % args``."""
    text = text if isinstance(text, str) else bytes(text).decode("latin-1")
    given = args if isinstance(args, tuple) else (args,)
    total, marks, factor = len(text), 0, 1
    if NESTED_KEY.search(text):
        meter.check_width(*(int(digits[:9]) for digits in NUMBERS.findall(text)))
    for width, places, conversion in PRINTF.findall(text):
        marks += 1
        factor = 10 if conversion in "ra" else factor  # they write a character as up to ten
        for number in (width, places):
            if number == "*":
                meter.check_width(*given)
                total += meter.limits.width
            elif number:
                meter.check_width(int(number[:9]))
                total += int(number[:9])
    if isinstance(args, dict):  # each mark may name the same key
        total += factor * marks * sizes_of(meter, tuple(args.values()), {})
    else:
        total += factor * sum(meter.weigh(value)[0] for value in given)
    meter.make_text(total)


def _to_bytes(meter: Meter, number: Any, args: Args, kwargs: Kwargs) -> None:
    meter.check_width(argument(args, kwargs, 0, "length", 1))


def _from_bytes(meter: Meter, number: Any, args: Args, kwargs: Kwargs) -> None:
    given = argument(args, kwargs, 0, "bytes")
    meter.check_int(8 * len(given) if hasattr(given, "__len__") else 0)


def _read_number(meter: Meter, number: Any, args: Args, kwargs: Kwargs) -> None:
    meter.check_width(max((size_of(value) for value in args), default=0))


def _from_keys(meter: Meter, kind: Any, args: Args, kwargs: Kwargs) -> None:
    if args and hasattr(args[0], "__len__"):
        meter.make_items(len(args[0]))
        hashed(meter, args[0])


METHODS: Mapping[str, Rule] = {
    "capitalize": _copied(3),
    "casefold": _copied(3),
    "center": _padded,
    "count": read_only,
    "encode": _coded(4),
    "decode": _coded(1),
    "endswith": read_only,
    "expandtabs": _expanded_tabs,
    "find": read_only,
    "hex": _copied(3),
    "index": read_only,
    "join": _joined,
    "ljust": _padded,
    "lower": _copied(3),
    "lstrip": _stripped,
    "maketrans": _maketrans,
    "partition": _copied(1),
    "replace": _replaced,
    "rfind": _searched_backwards,
    "rindex": _searched_backwards,
    "rjust": _padded,
    "rpartition": _searched_backwards,
    "rsplit": _divided_backwards,
    "rstrip": _stripped,
    "split": _divided,
    "splitlines": _divided_in_lines,
    "startswith": read_only,
    "strip": _stripped,
    "striptags": _striptags,
    "swapcase": _copied(3),
    "title": _copied(3),
    "translate": _translated,
    "unescape": _copied(8),
    "upper": _copied(3),
    "zfill": _padded,
}
"""Methods of str, bytes and Markup. Those not named here make no more than they are given."""

OTHER_METHODS: Mapping[str, Rule] = {
    "to_bytes": _to_bytes,
    "from_bytes": _from_bytes,
    "fromhex": _read_number,
    "fromkeys": _from_keys,
}
"""Of numbers and of the classes that templates can reach."""


# --- operators ------------------------------------------------------------------------------------


def check_operator(meter: Meter, sign: str, left: Any, right: Any) -> None:
    """Before ``left sign right``. Raises the error of a template that goes over its limits."""
    meter.spend(ITEM)
    if isinstance(left, int) and isinstance(right, int):
        _check_ints(meter, sign, left, right)
    elif sign == "%" and isinstance(left, Text):
        _percent(meter, left, right)
    elif sign == "+":
        if isinstance(left, Text) and isinstance(right, Text):
            meter.make_text(len(left) + len(right))
        elif isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
            meter.make_items(len(left) + len(right))
    elif sign == "*":
        if isinstance(left, int):
            left, right = right, left
        if isinstance(right, int) and isinstance(left, (list, tuple, *Text)):
            times = max(right, 0)
            if isinstance(left, Text):
                meter.make_text(len(left) * times)
            else:
                meter.make_items(len(left) * times)
    elif hasattr(left, "__len__"):  # differences of the keys of dicts
        meter.make_items(len(left))
        for side in (left, right):
            if isinstance(side, Collection) and not isinstance(side, Text):
                hashed(meter, side)


def _check_ints(meter: Meter, sign: str, left: int, right: int) -> None:
    bits, others = left.bit_length(), right.bit_length()
    if sign == "**":
        # A negative exponent gives a float; 0, 1 and -1 stay small whatever the exponent.
        meter.check_int(bits * right if right > 0 and bits > 1 else others)
    else:
        meter.check_int(bits + others if sign == "*" else max(bits, others))


# --- filters --------------------------------------------------------------------------------------

FREE_FILTERS = frozenset(
    ("attr", "count", "d", "default", "first", "items", "last", "length", "random")
)
"""Filters that give what is there already, or a number, whatever they are given."""


def filter_input(meter: Meter, name: str, value: Any, args: Args, kwargs: Kwargs) -> Any:
    """What the filter ``name`` is to be given instead of ``value``; the checks before it runs."""
    meter.spend(PASS)
    each = ITEM if name in IN_C else PASS
    if hasattr(value, "__next__"):
        value = meter.count(value, each)
    elif isinstance(value, (list, tuple, dict, range)):
        meter.spend(each * len(value))
    if name in ATTRIBUTE_AT:
        _check_path(meter, argument(args, kwargs, ATTRIBUTE_AT[name], "attribute"))
    rule = FILTERS.get(name)
    if rule is None:
        return value
    if name in TAKES_LIST and hasattr(value, "__next__"):
        value = list(value)
    rule(meter, value, args, kwargs)
    return value


def _check_path(meter: Meter, path: object) -> None:
    """``"function.name"``: each item pays for a pass, whose steps are those of the path."""
    levels = 1 + path.count(".") + path.count(",") if isinstance(path, str) else 1
    if levels > meter.limits.depth:
        meter.refuse(f"an attribute of {levels:,} levels")


def _slow(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    """Filters in Python, many steps for a character; no chat template is known to use them."""
    size = meter.weigh(value)[0]
    extra = sum(size_of(given) for given in (*args, *kwargs.values()))
    meter.make_text(size * (1 + extra))
    meter.spend(31 * size)


def _quadratic(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    """Filters that go through a text again for each of its parts."""
    size = meter.weigh(value)[0]
    _slow(meter, value, args, kwargs)
    meter.spend(size * size // 64)


def _filter_indent(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    width = argument(args, kwargs, 0, "width", 4)
    meter.check_width(width)
    step = size_of(width) if isinstance(width, str) else width if isinstance(width, int) else 0
    text = value if isinstance(value, str) else ""
    _divided_in_lines(meter, text, (), {})
    meter.make_text(len(text) + step * (sum(text.count(end) for end in "\n\r\v\f\x85\u2028") + 2))


def _filter_join(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    between = argument(args, kwargs, 0, "d", "")
    if isinstance(value, str) and between:
        meter.make_items(len(value))
    size, _ = meter.weigh(value)
    count = len(value) if hasattr(value, "__len__") else 0
    meter.make_text(size + count * size_of(between))


def _filter_replace(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    text = str(value)
    old, new = argument(args, kwargs, 0, "old"), argument(args, kwargs, 1, "new")
    meter.make_text(len(text) + text.count(str(old)) * (size_of(new) * 6 + 6))


def _filter_round(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    meter.check_width(argument(args, kwargs, 0, "precision", 0))


def _filter_number(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    if isinstance(value, Text):
        meter.check_width(len(value))


def _filter_pieces(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    count = argument(args, kwargs, 0, "linecount", argument(args, kwargs, 0, "slices", 0))
    if isinstance(count, int):
        meter.make_items(count)
    if isinstance(value, str):
        meter.make_items(len(value))


def _filter_list(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    if hasattr(value, "__len__"):
        meter.make_items(len(value))


def _filter_weighed(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    if isinstance(value, str):
        meter.make_items(len(value))
    meter.spend(4 * meter.weigh(value)[0])


def _filter_unique(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    _filter_weighed(meter, value, args, kwargs)
    if isinstance(value, (list, tuple, range)):
        attribute = argument(args, kwargs, ATTRIBUTE_AT["unique"], "attribute")
        hashed(meter, value if attribute is None else [()] * len(value))


def _filter_sum(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    start = argument(args, kwargs, 1, "start", 0)
    if not isinstance(start, (int, float)) and hasattr(value, "__len__"):
        meter.make_text((meter.weigh(value)[0] + meter.weigh(start)[0]) * (len(value) + 1))


def _filter_json(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    indent = argument(args, kwargs, 1, "indent")
    separators = argument(args, kwargs, 2, "separators") or ()
    meter.check_width(indent, *(size_of(sign) for sign in separators))
    if indent is not None:
        size, depth = meter.weigh(value)
        step = len(indent) if isinstance(indent, str) else indent if isinstance(indent, int) else 0
        meter.check_width(step)
        meter.make_text(size // ITEM * depth * max(step, 0))


def _filter_format(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    _percent(meter, str(value), tuple(args) or dict(kwargs))


def _filter_copied(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    if isinstance(value, Text):
        meter.make_text(len(value) + sum(size_of(given) for given in (*args, *kwargs.values())))


def _filter_trim(meter: Meter, value: Any, args: Args, kwargs: Kwargs) -> None:
    _filter_copied(meter, value, args, kwargs)
    if isinstance(value, Text):
        _stripped(meter, value, args, kwargs)


FILTERS: Mapping[str, Rule] = {
    "batch": _filter_pieces,
    "capitalize": _filter_copied,
    "center": _padded,
    "dictsort": _filter_weighed,
    "e": _filter_copied,
    "escape": _filter_copied,
    "filesizeformat": _filter_number,
    "float": _filter_number,
    "forceescape": _filter_copied,
    "format": _filter_format,
    "groupby": _filter_weighed,
    "indent": _filter_indent,
    "int": _filter_number,
    "join": _filter_join,
    "list": _filter_list,
    "lower": _filter_copied,
    "max": _filter_weighed,
    "min": _filter_weighed,
    "pprint": _slow,
    "replace": _filter_replace,
    "reverse": _filter_copied,
    "round": _filter_round,
    "safe": _filter_copied,
    "slice": _filter_pieces,
    "sort": _filter_weighed,
    "striptags": _quadratic,
    "sum": _filter_sum,
    "title": _slow,
    "tojson": _filter_json,
    "trim": _filter_trim,
    "truncate": _filter_copied,
    "unique": _filter_unique,
    "upper": _filter_copied,
    "urlencode": _slow,
    "urlize": _quadratic,
    "wordcount": _slow,
    "wordwrap": _quadratic,
    "xmlattr": _slow,
}
"""What is asked before a filter runs; what it gives is asked again afterwards."""

PLAIN_FILTERS = frozenset(
    name for name, rule in FILTERS.items() if rule in (_filter_copied, _filter_trim)
)
"""Filters that give about as much text as they are given, if they are given nothing else."""

ATTRIBUTE_AT: Mapping[str, int] = {
    "groupby": 0,
    "join": 1,
    "map": 99,  # by its name alone
    "max": 1,
    "min": 1,
    "rejectattr": 0,
    "selectattr": 0,
    "sort": 2,
    "sum": 0,
    "unique": 1,
}
"""Filters that look up an attribute of each item, and the place of its name in their arguments."""

IN_C = frozenset(("batch", "e", "escape", "join", "list", "reverse", "slice", "string", "tojson"))
"""Filters that go through a list without a step of Python for each item."""

TAKES_LIST = frozenset(("join", "sum", "sort", "unique", "groupby", "min", "max", "slice"))
"""Filters that read all of an iterator anyway: they get a list, whose size can be known."""
