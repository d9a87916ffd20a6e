"""StopConditions: when a stream ends, as data.

Checked once, when they are made; immutable, hashable, picklable, and JSON both ways, so they can be
the key of a cache and travel inside a snapshot.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields
from typing import Any, Self, SupportsIndex, TypeGuard

from streamdec.core.stops.patterns import StopPattern, read_patterns
from streamdec.core.stops.regex_matcher import matcher_of
from streamdec.core.stops.request_fields import OPENAI, SGLANG, VLLM, translated
from streamdec.core.token_ids import check_token_id, is_bool

__all__ = ["StopConditions", "StopLimits"]

Texts = str | Iterable[str] | None
Ids = SupportsIndex | Iterable[SupportsIndex] | None
Marker = str | int | None
Sections = tuple[str | int, str | int] | Iterable[tuple[str | int, str | int]] | None


@dataclass(frozen=True, slots=True)
class StopLimits:
    r"""How much a caller from outside may ask for. None: no limit.

    Counted are stop strings, markers of a gate that are text, and patterns, in code points; and
    sequences of ids, in ids. Single ids are not. Memory and the cost of making conditions grow with
    the total; the cost of a token grows with the longest stop, while much of it is withheld.

    Raises TypeError or ValueError for a limit that is no count.

    >>> from streamdec import StopConditions, StopLimits
    >>> StopConditions("#" * 1000, limits=StopLimits(longest_stop=256, total_size=8192))
    Traceback (most recent call last):
        ...
    ValueError: the longest stop: 1000 code points or ids, and the limit is 256
    """

    longest_stop: int | None = None
    """The longest stop string, marker, match of a pattern, or sequence."""
    total_size: int | None = None
    """All stop strings, markers, patterns and sequences together."""

    def __post_init__(self) -> None:
        for each in fields(self):
            limit = getattr(self, each.name)
            if limit is not None:
                _count(each.name, limit, least=0)

    def check(
        self, stops: Iterable[Sequence[object]], patterns: Iterable[StopPattern] = ()
    ) -> None:
        """Raises ValueError if ``stops`` (texts or sequences) or ``patterns`` exceed a limit.

        Conditions that are given ``limits`` call it.
        """
        sizes = [len(stop) for stop in stops]
        matches = list(patterns)
        longest = [*sizes, *(pattern.longest for pattern in matches)]
        for what, found, limit in (
            ("the longest stop", max(longest, default=0), self.longest_stop),
            (
                "all stops together",
                sum(sizes) + sum(len(pattern.source) for pattern in matches),
                self.total_size,
            ),
        ):
            if limit is not None and found > limit:
                raise ValueError(f"{what}: {found} code points or ids, and the limit is {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fields:
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    visible_stop: tuple[str, ...] = ()
    visible_stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    min_tokens: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False
    eos_token_ids: tuple[int, ...] = ()
    stop_token_sequences: tuple[tuple[int, ...], ...] = ()
    enable_stops_after: Marker = None
    disable_stops_after: Marker = None
    ignore_stops_between: tuple[tuple[str | int, str | int], ...] = ()
    starts_inside: bool | None = None
    stop_regex: tuple[str, ...] = ()
    max_match_length: int | None = None


class StopConditions(_Fields):
    r"""When a stream ends. The names are vLLM's.

    Checked when they are made; then immutable, hashable and comparable, for any number of streams.
    One text or id stands for a list of one, None for an empty list; duplicates collapse. The
    attributes have the names of the arguments. Lists become sorted tuples, except ``stop_regex``:
    if two patterns match up to the same code point with the same length, the first wins.

    Args:
        stop: stop strings. Their text is not given out (*hidden*).
        stop_token_ids: ids that end the stream; their own text is not given out.
        visible_stop: stop strings whose text is given out. One that is both is hidden.
        visible_stop_token_ids: ids that end the stream, and whose text is given out. One that is
            both is hidden.
        include_stop_str_in_output: show every stop: strings, patterns, ids, sequences,
            end-of-sequence.
        min_tokens: stops of every kind, end-of-sequence too, are ordinary text if they are complete
            with generated token number ``min_tokens``, counted from 1, or an earlier one.
        max_tokens: how many tokens are generated at most, skipped and unknown ones included: the
            stream ends in the step of the last, with ``finish_reason="length"`` unless that is a
            stop. None is no limit.
        ignore_eos: ``eos_token_ids`` do not end the stream.
        eos_token_ids: like ``stop_token_ids``, with ``stop_reason`` None. An id that the caller
            named as a stop as well is treated and reported as such.
        stop_token_sequences: several ids in a row, skipped and unknown ones included. The longest
            wins; ``stop_reason`` is the tuple of its ids.
        enable_stops_after: a text or an id. Stops are ignored until it was generated; the prompt
            does not count. A stop begins after it. End-of-sequence ids and ``max_tokens`` always
            apply.
        disable_stops_after: a text or an id after which stops are ignored again.
        ignore_stops_between: an opening and a closing marker, each a text or an id, or a list of
            such pairs, such as ``("<think>", "</think>")``. From an opening marker to its closing
            marker (a *section*) stops are ignored, except end-of-sequence ids and ``max_tokens``.
            A stream begins inside a section if the last marker of its prompt is an opening one.
            Cannot be combined with the two conditions above.
        starts_inside: whether streams begin inside the first section, whatever the prompt is. None:
            the prompt decides. Markers that are ids, or texts that are always encoded as one token,
            are searched among the ids of the prompt; for other texts the prompt is decoded.
        stop_regex: patterns of Python's ``re``, flags inline (``(?i)``). One is complete at the
            first code point up to which some text is a whole match, so ``\d+`` at the first digit:
            greedy and lazy are the same. Of the matches that end there the longest is the stop, and
            ``stop_reason`` is the pattern. ``^`` is where the generated text begins, or what
            follows ``enable_stops_after``; look-behinds and ``\b`` see the generated text before.
            Hidden, and withheld as stop strings are. Which characters are letters, digits or
            spaces, and which differ only in case, is as in the ``regex`` library:
            ``pip install 'streamdec[regex]'``.
        max_match_length: the most code points of a match of ``stop_regex``; longer ones are not
            found, so fewer than this are ever withheld. Must be given where a match may be of any
            length.
        limits: what callers from outside may ask for; checked, and not kept.

    Raises:
        ValueError: an empty stop, a lone surrogate, a negative id, a bool for a number,
            ``max_tokens`` below 1 or ``min_tokens``, ``max_match_length`` without ``stop_regex``, a
            limit exceeded (``limits``). A pattern that is none, that may match nothing, or that
            asks for what follows the match: a look-ahead, ``$``, ``\b`` at its end, an atomic group
            or possessive repeat.
        TypeError: something that is no string, id or number at all.
        MissingExtraError: ``stop_regex`` without the ``regex`` library.

    ``from_openai``, ``from_vllm`` and ``from_sglang`` read a request instead. What does not end a
    stream is ignored; they raise ValueError for a stop option that is not supported. Where a
    request gives no limit there is none, whatever default its engine has. ``skip_special_tokens``
    is not read: it is an option of the decoder. Nor is ``spaces_between_special_tokens``: spaces
    are those of the tokenizer's own decode. ``dataclasses.replace`` adds what requests cannot say.

    >>> from streamdec import StopConditions
    >>> StopConditions(["User:", "\n\n"], max_tokens=100).to_json()
    {'stop': ['\n\n', 'User:'], 'max_tokens': 100}
    >>> StopConditions.from_sglang({"stop": "User:", "max_new_tokens": 100, "top_p": 0.9}).to_json()
    {'stop': ['User:'], 'max_tokens': 100}
    """

    __slots__ = ()

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
        stop_token_sequences: Iterable[Iterable[SupportsIndex]] | None = (),
        enable_stops_after: Marker = None,
        disable_stops_after: Marker = None,
        ignore_stops_between: Sections = (),
        starts_inside: bool | None = None,
        stop_regex: Texts = (),
        max_match_length: int | None = None,
        limits: StopLimits | None = None,
    ) -> None:
        values = {
            "stop": _texts("stop", stop),
            "stop_token_ids": _ids("stop_token_ids", stop_token_ids),
            "visible_stop": _texts("visible_stop", visible_stop),
            "visible_stop_token_ids": _ids("visible_stop_token_ids", visible_stop_token_ids),
            "include_stop_str_in_output": _flag(
                "include_stop_str_in_output", include_stop_str_in_output
            ),
            "min_tokens": _count("min_tokens", min_tokens, least=0),
            "max_tokens": None if max_tokens is None else _count("max_tokens", max_tokens, least=1),
            "ignore_eos": _flag("ignore_eos", ignore_eos),
            "eos_token_ids": _ids("eos_token_ids", eos_token_ids),
            "stop_token_sequences": _sequences(stop_token_sequences),
            "enable_stops_after": _marker("enable_stops_after", enable_stops_after),
            "disable_stops_after": _marker("disable_stops_after", disable_stops_after),
            "ignore_stops_between": _sections("ignore_stops_between", ignore_stops_between),
            "starts_inside": None
            if starts_inside is None
            else _flag("starts_inside", starts_inside),
            "stop_regex": _in_order("stop_regex", stop_regex),
            "max_match_length": None
            if max_match_length is None
            else _count("max_match_length", max_match_length, least=1),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(
                f"min_tokens ({self.min_tokens}) must not exceed max_tokens ({self.max_tokens})"
            )
        if self.starts_inside is not None and not self.ignore_stops_between:
            raise ValueError("starts_inside is about ignore_stops_between, and there is none")
        has_switch = self.enable_stops_after is not None or self.disable_stops_after is not None
        if self.ignore_stops_between and has_switch:
            raise ValueError(
                "ignore_stops_between cannot be combined with enable_stops_after or "
                "disable_stops_after"
            )
        if self.max_match_length is not None and not self.stop_regex:
            raise ValueError("max_match_length is about stop_regex, and there is none")
        patterns = read_patterns(self.stop_regex, self.max_match_length)
        if limits is not None:
            if not isinstance(limits, StopLimits):
                raise TypeError(f"limits must be StopLimits, not {limits!r:.60}")
            markers = [each for each in self.markers if isinstance(each, str)]
            texts = (*self.stop, *self.visible_stop, *markers)
            limits.check((*texts, *self.stop_token_sequences), patterns)
        if patterns:
            matcher_of((), (), patterns)  # what cannot be compiled is refused here

    @property
    def markers(self) -> tuple[str | int, ...]:
        """The markers of the gate: texts and ids at which stops begin or cease to count."""
        pairs = self.ignore_stops_between
        each = (
            self.enable_stops_after,
            self.disable_stops_after,
            *(m for pair in pairs for m in pair),
        )
        return tuple(marker for marker in each if marker is not None)

    # --- requests

    @classmethod
    def from_openai(
        cls,
        request: Mapping[str, Any],
        *,
        eos_token_ids: Ids = (),
        enable_stops_after: str | int | None = None,
        disable_stops_after: str | int | None = None,
        ignore_stops_between: Sections = (),
        starts_inside: bool | None = None,
        limits: StopLimits | None = None,
    ) -> Self:
        """The conditions of a request to OpenAI, of any of its APIs that make text.

        There is no limit of four stops. ``max_completion_tokens`` counts before ``max_tokens``.

        Args:
            request: its body as a dict, or what an object's ``model_dump()`` gives.
            eos_token_ids: the model's own, which no request names.
            enable_stops_after: as for the constructor; no API has a word for it.
            disable_stops_after: likewise.
            ignore_stops_between: likewise.
            starts_inside: likewise.
            limits: as for the constructor.

        Raises what the constructor raises, and TypeError if ``request`` is no mapping. Messages
        name the request's own keys.

        >>> from streamdec import StopConditions
        >>> body = {"model": "tiny", "stop": ["User:"], "max_completion_tokens": 100}
        >>> StopConditions.from_openai(body, eos_token_ids=2).to_json()
        {'stop': ['User:'], 'max_tokens': 100, 'eos_token_ids': [2]}
        """
        with translated(request, OPENAI) as arguments:
            return cls(
                **arguments,
                eos_token_ids=eos_token_ids,
                enable_stops_after=enable_stops_after,
                disable_stops_after=disable_stops_after,
                ignore_stops_between=ignore_stops_between,
                starts_inside=starts_inside,
                limits=limits,
            )

    @classmethod
    def from_vllm(
        cls,
        request: Mapping[str, Any],
        *,
        eos_token_ids: Ids = (),
        enable_stops_after: str | int | None = None,
        disable_stops_after: str | int | None = None,
        ignore_stops_between: Sections = (),
        starts_inside: bool | None = None,
        limits: StopLimits | None = None,
    ) -> Self:
        """The conditions of vLLM's ``SamplingParams`` as a dict, or of a body with its extra keys.

        Otherwise than there, the longest of the stops that are complete at one code point counts,
        not the first in the list; and a stop string that is the text of a skipped special token
        ends the stream too. The arguments and what is raised are as for ``from_openai``.
        """
        with translated(request, VLLM) as arguments:
            return cls(
                **arguments,
                eos_token_ids=eos_token_ids,
                enable_stops_after=enable_stops_after,
                disable_stops_after=disable_stops_after,
                ignore_stops_between=ignore_stops_between,
                starts_inside=starts_inside,
                limits=limits,
            )

    @classmethod
    def from_sglang(
        cls,
        request: Mapping[str, Any],
        *,
        eos_token_ids: Ids = (),
        enable_stops_after: str | int | None = None,
        disable_stops_after: str | int | None = None,
        ignore_stops_between: Sections = (),
        starts_inside: bool | None = None,
        max_match_length: int | None = None,
        limits: StopLimits | None = None,
    ) -> Self:
        """The conditions of SGLang's ``sampling_params``, or of a body with its extra keys.

        As there, ``ignore_eos`` ignores ``stop_token_ids`` too. Otherwise than there,
        ``min_new_tokens`` holds for strings and not only for ids; the stop that is complete first
        counts, not the first in the list; and what ``stop_regex`` matches is hidden like any stop.
        ``max_match_length`` is for requests that have one. The other arguments and what is raised
        are as for ``from_openai``.
        """
        with translated(request, SGLANG) as arguments:
            if "stop_regex" in arguments:
                arguments["max_match_length"] = max_match_length
            return cls(
                **arguments,
                eos_token_ids=eos_token_ids,
                enable_stops_after=enable_stops_after,
                disable_stops_after=disable_stops_after,
                ignore_stops_between=ignore_stops_between,
                starts_inside=starts_inside,
                limits=limits,
            )

    # --- JSON

    def to_json(self) -> dict[str, Any]:
        """What differs from the default, as JSON: a new dict of lists, texts and numbers."""
        return {
            each.name: _plain(value)
            for each in fields(self)
            if (value := getattr(self, each.name)) != each.default
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The conditions that ``to_json`` gave ``data`` for.

        Raises what the constructor raises; ValueError for a key that is no condition, TypeError for
        what is no mapping.

        >>> from streamdec import StopConditions
        >>> conditions = StopConditions("User:", eos_token_ids=2)
        >>> StopConditions.from_json(conditions.to_json()) == conditions
        True
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"stop conditions are a mapping, not {type(data).__name__}")
        unknown = sorted(map(str, data.keys() - {each.name for each in fields(cls)}))
        if unknown:
            raise ValueError(f"unknown stop conditions: {', '.join(unknown)}")
        return cls(**data)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_json, (self.to_json(),)


def _plain(value: Any) -> Any:
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _texts(name: str, given: Any) -> tuple[str, ...]:
    """Each once, in one order."""
    texts = _listed(given)
    for text in texts:
        _check_text(name, text)
    # Plain strings: those of NumPy and other subclasses may compare in their own way.
    return tuple(sorted({str.__str__(text) for text in texts}))


def _in_order(name: str, given: Any) -> tuple[str, ...]:
    """Each once, in the caller's order: the first of equal matches wins."""
    texts = _listed(given)
    for text in texts:
        _check_text(name, text)
    return tuple(dict.fromkeys(str.__str__(text) for text in texts))


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name}: a stop is a string, not {text!r:.60}")
    if not text:
        raise ValueError(f"{name}: an empty stop would match everywhere")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name}: {text!r:.60} has a lone surrogate") from None


def _ids(name: str, given: Ids) -> tuple[int, ...]:
    tolist = getattr(given, "tolist", None)
    ids = tolist() if tolist is not None else given
    ids = _listed(ids)
    return tuple(sorted({check_token_id(token_id, what=name) for token_id in ids}))


def _listed(given: Any) -> list[Any]:
    """Return ``given`` as a list: a single value as one, None as none."""
    if given is None:
        return []
    if isinstance(given, (list, tuple)) or _is_list(given):
        return [*given]
    return [given]


def _is_list(given: object) -> TypeGuard[Iterable[Any]]:
    """Whether ``given`` is many things. A text is one, a mapping another argument gone astray."""
    return isinstance(given, Iterable) and not isinstance(given, (str, bytes, Mapping))


def _sequences(given: Any) -> tuple[tuple[int, ...], ...]:
    what = "stop_token_sequences"
    for sequence in (given := _listed(given)):
        if not _is_list(sequence) or isinstance(sequence, AbstractSet):  # a set has no order
            raise TypeError(f"{what}: a sequence is a list of ids, not {sequence!r:.60}")
    sequences = {tuple(check_token_id(i, what=what) for i in sequence) for sequence in given}
    if () in sequences:
        raise ValueError(f"{what}: an empty sequence would match everywhere")
    return tuple(sorted(sequences))


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r:.40}")
    return value


def _count(name: str, value: Any, *, least: int) -> int:
    if isinstance(value, bool):
        raise ValueError(f"{name} must be an integer, not {value}")
    try:
        count = operator.index(value)
    except TypeError:
        count = None
    if count is None or is_bool(value):
        raise TypeError(f"{name} must be an integer, not {value!r:.40}")
    if count < least:
        raise ValueError(f"{name} must be at least {least}, not {count}")
    return count


def _marker(name: str, value: Any) -> Marker:
    return None if value is None else _text_or_id(name, value)


def _text_or_id(name: str, value: Any) -> str | int:
    if isinstance(value, str):
        _check_text(name, value)
        return str.__str__(value)
    return check_token_id(value, what=name)


def _sections(name: str, given: Any) -> tuple[tuple[str | int, str | int], ...]:
    """Pairs of markers, each once, in the caller's order: the first is that of starts_inside."""
    pairs = _listed(given)
    if pairs and not _is_list(pairs[0]):
        pairs = [pairs]  # one pair
    sections: dict[str | int, str | int] = {}
    for pair in pairs:
        if not _is_list(pair) or len(markers := [*pair]) != 2:
            raise TypeError(
                f"{name}: expected pairs of an opening and a closing marker, got {given!r:.80}"
            )
        opening, closing = (_text_or_id(name, marker) for marker in markers)
        if opening == closing:
            raise ValueError(f"{name}: the opening and the closing marker are both {opening!r:.60}")
        if sections.setdefault(opening, closing) != closing:
            raise ValueError(f"{name}: {opening!r:.60} opens two sections")
    return tuple(sections.items())


NO_CONDITIONS = StopConditions()
"""Nothing ends the stream."""
