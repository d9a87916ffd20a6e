"""What to write instead: the ends of errors for mistakes that were really made.

All hints are here, at most fifteen. Other wrong arguments get Python's own error, or one that names
what was expected.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final


def hint(place: str, given: object) -> str:
    """Return the end of an error: what to write instead of ``given``, or "".

    Args:
        place: what ``given`` was passed as: a key of the table below.
        given: the wrong value.
    """
    return next((f"; {message}" for fits, message in _HINTS[place] if fits(given)), "")


def shown(value: object, most: int = 60) -> str:
    """Return a short repr of ``value``, which may be anything, for an error message."""
    try:
        return repr(value)[:most]
    except (RecursionError, ValueError):  # too deep, or too many digits
        return f"an object of type {type(value).__name__}"


def check_flag(name: str, value: object) -> bool:
    """Return the option ``name``. Raises TypeError if it is not a bool.

    Other values may not mean what they are taken for: the text "false" is true.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r:.40}")
    return value


def _is_a(*kinds: type) -> Callable[[object], bool]:
    return lambda given: isinstance(given, kinds)


def _has(*names: str) -> Callable[[object], bool]:
    return lambda given: all(hasattr(given, name) for name in names)


def _is_texts(given: Any) -> bool:
    is_list = isinstance(given, (list, tuple, set))
    return isinstance(given, str) or (is_list and all(isinstance(each, str) for each in given))


def _is_list(given: Any) -> bool:
    return isinstance(given, (list, tuple)) or getattr(given, "ndim", 0) != 0


_OF_A_TEXT = "tokenizer.encode(text).ids returns the ids of a text"

_HINTS: Final[dict[str, tuple[tuple[Callable[[Any], bool], str], ...]]] = {
    "source": (
        (_has("__await__"), "await it, and pass its result"),
        (_has("get", "put"), "use a TokenQueue, or iter(queue.get, None) for a queue.Queue"),
        (_has("__aiter__"), "use stream() or wrap()"),
        (callable, "call it, and pass its result"),
    ),
    "output": ((_is_a(str), "for text use wrap(source, TextStopDecoder(...))"),),
    "tokenizer": ((_is_a(str, os.PathLike), "load_tokenizer(path) returns one"),),
    "conditions": ((_is_texts, "write stop=..."),),
    "stop": (
        (_is_a(re.Pattern), "pass its pattern as stop_regex, with its flags in it, such as (?i)"),
        (_has("__index__"), "pass token ids as stop_token_ids or visible_stop_token_ids"),
    ),
    "ids": (
        (_is_a(str), _OF_A_TEXT),
        (_is_a(Mapping), "pass its ['input_ids']"),
        (_has("__index__"), "for one id pass a list, such as [12]"),
    ),
    "rows": ((_is_list, "pass one row, such as array[0]"),),
    "id": (
        (_is_a(str), _OF_A_TEXT),
        (_is_list, "pass several ids as one flat list, such as [12, 13]"),
    ),
    "snapshot": ((_is_a(str, bytes), "write json.loads(snapshot)"),),
}
