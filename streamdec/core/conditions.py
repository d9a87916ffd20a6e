"""StopConditions: when a stream ends, as data.

StopConditions are checked once, when they are made. They are immutable, hashable and picklable, and
convert to JSON and back, so they can be the key of a cache and part of a snapshot.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, Self, SupportsIndex, TypedDict, TypeGuard

from streamdec.core.patterns.compile import read_patterns
from streamdec.core.token_ids import check_token_id, is_bool
from streamdec.mistakes import check_flag, hint, shown

__all__ = ["StopConditions", "StopOptions"]

Texts = str | Iterable[str] | None
Ids = SupportsIndex | Iterable[SupportsIndex] | None
Pair = tuple[str | int, str | int]
"""An opening and a closing marker."""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class StopConditions:
    r"""Define when a stream ends. Most names are those of vLLM.

    Immutable, hashable and comparable; any number of streams can share it. Where a list is
    expected, one string or id stands for a list of one, and None for an empty list. The attributes
    have the names of the arguments. Lists become tuples without duplicates, sorted except
    ``stop_regex`` and ``ignore_stops_between``.

    Args:
        stop: stop strings. Their text is not output (*hidden*).
        stop_token_ids: ids that end the stream; their own text is not output.
        visible_stop: stop strings whose text is output. One that is also in ``stop`` is hidden.
        visible_stop_token_ids: ids that end the stream, and whose text is output. One that is also
            in ``stop_token_ids`` is hidden.
        include_stop_str_in_output: show every stop: strings, patterns, ids, end-of-sequence.
        min_tokens: a stop of any kind, end-of-sequence included, is ordinary text if one of the
            first ``min_tokens`` generated tokens completes it.
        max_tokens: the most tokens that are generated, skipped and unknown ones included. The step
            of the last one ends the stream, with ``finish_reason="length"``, or ``"stop"`` if that
            token completes a stop. None: no limit.
        ignore_eos: ``eos_token_ids`` do not end the stream.
        eos_token_ids: like ``stop_token_ids``, with ``stop_reason`` None. An id that the caller
            named as a stop as well is treated and reported as such.
        ignore_stops_between: an opening and a closing marker, each a text or an id, or a list of
            such pairs, such as ``("<think>", "</think>")``. From an opening marker to its closing
            marker (a *section*) stops are ignored, except end-of-sequence ids and ``max_tokens``.
            A stop cannot contain a part of a marker. A stream begins inside a section if the last
            marker of its prompt is an opening one.
        starts_inside: whether streams begin inside the first section, for any prompt. Only with
            ``ignore_stops_between``. None: the prompt decides. Markers that are ids, or texts
            that are always encoded as one token, are searched among the ids of the prompt; for
            other texts the prompt is decoded.
        stop_regex: patterns of Python's ``re``, flags inline (``(?i)``). A pattern is complete at
            the first code point where a match can end, so ``\d+`` at the first digit. If several
            matches end there, the longest is the stop, and of equally long ones that of the first
            pattern. ``stop_reason`` is the source of the pattern. ``^`` is where the generated text
            begins, or where a section of ``ignore_stops_between`` ended; look-behinds and ``\b``
            see the generated text before. Hidden, and withheld as stop strings are. All patterns
            together have at most 1,000 parts, repetitions counted, and 8,192 code points.
        max_match_length: the most code points of a match of ``stop_regex``. Longer matches are not
            found, so a pattern withholds at most this many code points, less one. Required if a
            pattern can match text of any length, such as ``a+``.

    Raises:
        ValueError: a stop is empty or has a lone surrogate; a bool is given for a number;
            ``min_tokens`` is negative; ``max_tokens`` is below 1 or below ``min_tokens``;
            ``max_match_length`` without ``stop_regex``; ``starts_inside`` without
            ``ignore_stops_between``; a marker that opens two sections. Also if a pattern is
            invalid, can match the empty string, or depends on the text after the match (a
            look-ahead, ``$``, ``\b`` at its end, an atomic group, a possessive repeat) or on what
            a group matched (``\1``).
        TokenIdError: an id is not an integer from 0 to 2**32 - 1.
        TypeError: another argument has a wrong type.

    >>> from streamdec import StopConditions
    >>> StopConditions(["User:", "\n\n"], max_tokens=100).to_json()
    {'stop': ['\n\n', 'User:'], 'max_tokens': 100}
    """

    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    visible_stop: tuple[str, ...] = ()
    visible_stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False
    eos_token_ids: tuple[int, ...] = ()
    ignore_stops_between: tuple[Pair, ...] = ()
    starts_inside: bool | None = None
    stop_regex: tuple[str, ...] = ()
    max_match_length: int | None = None

    def __init__(
        self,
        stop: Texts = (),
        stop_token_ids: Ids = (),
        *,
        visible_stop: Texts = (),
        visible_stop_token_ids: Ids = (),
        include_stop_str_in_output: bool = False,
        min_tokens: int = 0,
        max_tokens: int | None = None,
        ignore_eos: bool = False,
        eos_token_ids: Ids = (),
        ignore_stops_between: Pair | Iterable[Pair] | None = (),
        starts_inside: bool | None = None,
        stop_regex: Texts = (),
        max_match_length: int | None = None,
    ) -> None:
        given = (
            *(stop, stop_token_ids, visible_stop, visible_stop_token_ids),
            *(include_stop_str_in_output, min_tokens, max_tokens, ignore_eos, eos_token_ids),
            *(ignore_stops_between, starts_inside, stop_regex, max_match_length),
        )
        for (put, name, default, read), value in zip(_READERS, given, strict=True):
            put(self, value if value is default else read(name, value))
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})"
            )
        if self.starts_inside is not None and not self.ignore_stops_between:
            raise ValueError("starts_inside needs ignore_stops_between (or, in a stream, sections)")
        if self.max_match_length is not None and not self.stop_regex:
            raise ValueError("max_match_length needs stop_regex")
        if self.stop_regex:
            read_patterns(self.stop_regex, self.max_match_length)

    @property
    def markers(self) -> tuple[str | int, ...]:
        """The markers of ``ignore_stops_between``."""
        return (*chain.from_iterable(self.ignore_stops_between),)

    # --- JSON

    def to_json(self) -> dict[str, Any]:
        """Return a new dict of JSON values, of all fields that are not the default."""
        return {
            each.name: _plain(value)
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the conditions that a dict from ``to_json`` describes.

        Raises what the constructor raises, ValueError for an unknown key, and TypeError if
        ``data`` is not a mapping.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"stop conditions must be a mapping, not {type(data).__name__}")
        unknown = sorted(map(str, data.keys() - {each.name for each in fields(cls)}))
        if unknown:
            known = ", ".join(each.name for each in fields(cls))
            raise ValueError(f"unknown stop conditions: {', '.join(unknown)}; expected {known}")
        return cls(**data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)

    def __repr__(self) -> str:
        changed = (f"{each}={getattr(self, each)!r}" for each in self.to_json())
        return f"{type(self).__name__}({', '.join(changed)})"


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _texts(name: str, given: Any) -> tuple[str, ...]:
    """Return the texts without duplicates, sorted."""
    return tuple(sorted(_in_order(name, given)))


def _in_order(name: str, given: Any) -> tuple[str, ...]:
    """Each once, in the caller's order: the first of equal matches wins."""
    texts = _listed(given)
    for text in texts:
        if type(text) is not str or not text or not text.isascii():
            _check_text(name, text)
    # Plain strings: those of NumPy and other subclasses may compare in their own way.
    return tuple(dict.fromkeys(map(str.__str__, texts)))


def _check_text(name: str, text: object, *, what: str = "stop") -> None:
    if not isinstance(text, str):
        message = f"{name} must be a string or a list of strings, not {text!r:.60}"
        raise TypeError(message + hint("stop", text))
    if not text:
        raise ValueError(f"{name}: an empty {what} would match everywhere; leave it out")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            message = f"{name}: {text!r:.60} has a lone surrogate, half of a character"
            raise ValueError(f"{message}: write the whole character") from None


def _ids(name: str, given: Ids) -> tuple[int, ...]:
    tolist = getattr(given, "tolist", None)
    ids = _listed(given if tolist is None else tolist())
    return tuple(sorted({check_token_id(token_id, what=name) for token_id in ids}))


def _listed(given: Any) -> Sequence[Any]:
    """Return ``given`` as a list: one value as a list of one, None as an empty list."""
    if isinstance(given, (list, tuple)):  # the usual case
        return given
    if given is None:
        return []
    return [*given] if _is_list(given) else [given]


def _is_list(given: object) -> TypeGuard[Iterable[Any]]:
    """Whether ``given`` is a list: a text is one value, and a mapping is a mistake."""
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))


def _count(name: str, value: Any, *, least: int) -> int:
    try:
        count = None if is_bool(value) else operator.index(value)
    except TypeError:
        count = None
    if count is None:
        wrong = ValueError if isinstance(value, bool) else TypeError
        raise wrong(f"{name} must be an integer, not {shown(value, 40)}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, not {shown(count, 40)}")
    return count


def _text_or_id(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        _check_text(name, value, what="marker")
        return str.__str__(value)
    if value is None or isinstance(value, (bytes, float, list, tuple, Mapping)):
        raise TypeError(f"{name}: a marker must be a text or a token id, got {value!r:.60}")
    return check_token_id(value, what=name)


def pairs_of(name: str, given: Any) -> tuple[Pair, ...]:
    """Return the pairs of markers in ``given``; errors begin with ``name``."""
    pairs = _listed(given)
    if pairs and not _is_list(pairs[0]):
        pairs = [pairs]  # one pair
    sections: dict[str | int, str | int] = {}
    for pair in pairs:
        if not _is_list(pair) or len(markers := [*pair]) != 2:
            raise TypeError(
                f"{name}: expected pairs of an opening and a closing marker, such as "
                f"('<think>', '</think>'), got {given!r:.80}"
            )
        opening, closing = (_text_or_id(name, marker) for marker in markers)
        if opening == closing:
            raise ValueError(
                f"{name}: the opening and the closing marker are both {opening!r:.60}; they must "
                "be different"
            )
        if sections.setdefault(opening, closing) != closing:
            raise _opens_two(name, opening)
    return tuple(sections.items())


def _opens_two(name: str, opening: str | int) -> ValueError:
    message = "opens two sections; it can have only one closing marker"
    return ValueError(f"{name}: {opening!r:.60} {message}")


_READ: dict[str, Callable[[str, Any], Any]] = {
    "stop": _texts,
    "stop_token_ids": _ids,
    "visible_stop": _texts,
    "visible_stop_token_ids": _ids,
    "include_stop_str_in_output": check_flag,
    "min_tokens": partial(_count, least=0),
    "max_tokens": partial(_count, least=1),
    "ignore_eos": check_flag,
    "eos_token_ids": _ids,
    "ignore_stops_between": pairs_of,
    "starts_inside": check_flag,
    "stop_regex": _in_order,
    "max_match_length": partial(_count, least=1),
}

# For each field: the setter of its slot, its name, its default, and the function that checks any
# other value. Setting a frozen field through its slot takes half the time of object.__setattr__.
_READERS = [
    (getattr(StopConditions, each.name).__set__, each.name, each.default, _READ[each.name])
    for each in fields(StopConditions)
]

NO_CONDITIONS = StopConditions()
"""Nothing ends the stream."""


class StopOptions(TypedDict, total=False):
    """The arguments of StopConditions, wherever these can be given: ``stop="User:"``."""

    stop: Texts
    stop_token_ids: Ids
    visible_stop: Texts
    visible_stop_token_ids: Ids
    include_stop_str_in_output: bool
    min_tokens: int
    max_tokens: int | None
    ignore_eos: bool
    eos_token_ids: Ids
    ignore_stops_between: Pair | Iterable[Pair] | None
    starts_inside: bool | None
    stop_regex: Texts
    max_match_length: int | None


_MOST_KEPT, _LONGEST_KEPT = 1_024, 4_096
_kept: dict[tuple[Any, ...], StopConditions] = {}
"""The conditions of the last short options: requests often have the same ones."""
_PLAIN = frozenset((str, int, bool, type(None)))
_LISTS = frozenset((list, tuple))


def conditions_of(conditions: StopConditions | None, options: StopOptions) -> StopConditions:
    """Return ``conditions``, or those of ``options``; TypeError if both are given."""
    if conditions is not None:
        if not isinstance(conditions, StopConditions):
            message = f"conditions must be StopConditions, not {conditions!r:.80}"
            raise TypeError(message + hint("conditions", conditions))
        if options:
            StopConditions(**options)  # raises Python's error for an argument that does not exist
            names = ", ".join(options)
            message = "pass one StopConditions, or only its parts"
            raise TypeError(f"got conditions and {names}: {message}")
        return conditions
    if not options:
        return NO_CONDITIONS
    key: list[Any] = []
    given: Any
    for name, given in options.items():
        kinds = {type(given)}
        if kinds <= _LISTS:
            kinds, given = {*map(type, given)}, (*given,)
        if len(kinds) > 1 or not kinds <= _PLAIN:
            return StopConditions(**options)
        key += name, *kinds, given  # with the type: 1 and True are equal
    found = _kept.get(tuple(key))
    if found is None:
        found = StopConditions(**options)
        with suppress(ValueError):  # an integer of too many digits
            if len(repr(key)) <= _LONGEST_KEPT:
                if len(_kept) >= _MOST_KEPT:
                    _kept.clear()
                _kept[tuple(key)] = found
    return found


# --- the names of sections ------------------------------------------------------------------------

SectionsOption = Mapping[str, Pair | Iterable[Pair]]
"""As users write it: the name of each section, and its pair of markers or a list of pairs."""


class Definition(NamedTuple):
    """The sections of a stream: the name of each, and its markers."""

    names: tuple[str, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def markers(self) -> tuple[str | int, ...]:
        """All markers."""
        return (*chain.from_iterable(self.pairs),)


NO_DEFINITION = Definition()


def definition_of(sections: Any) -> Definition:
    """Return the definition of ``sections``. Raises TypeError or ValueError."""
    if not isinstance(sections, Mapping) or not sections:
        raise TypeError(
            "sections must be a mapping of names to markers, such as "
            f"{{'reasoning': ('<think>', '</think>')}}, not {sections!r:.80}"
        )
    named: dict[str | int, tuple[str, Pair]] = {}
    for name, given in sections.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"sections: a name must be a string and not empty, got {name!r:.40}")
        what = f"sections[{name!r:.40}]"
        pairs = pairs_of(what, given)
        if not pairs:
            message = "has no markers; expected a pair such as ('<think>', '</think>')"
            raise ValueError(f"{what} {message}")
        for opening, closing in pairs:
            if opening in named:
                raise _opens_two("sections", opening)
            named[opening] = name, (opening, closing)
    names, all_pairs = zip(*named.values(), strict=True)
    return Definition(names, all_pairs)
