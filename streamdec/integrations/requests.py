"""Reads the stop conditions of a request to OpenAI, vLLM or SGLang.

One table for each family of requests maps its keys to the arguments of
:class:`~streamdec.StopConditions`. Other keys that would end a stream raise an error, because
otherwise the stream would end in the wrong place. All other keys are ignored: messages, sampling,
and keys that only change which ids the engine generates. ``skip_special_tokens`` is an option of
the decoder. A request without a limit has none here, even if its engine has a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, SupportsIndex, TypedDict, Unpack

from streamdec.core.conditions import StopConditions
from streamdec.core.patterns.compile import read_patterns

__all__ = ["FurtherConditions", "from_openai", "from_sglang", "from_vllm"]


class Dialect(NamedTuple):
    """The keys of one family of requests that end a stream."""

    name: str
    keys: Mapping[str, str]
    """Its keys, and the argument of StopConditions for each."""


_LIMITS = dict.fromkeys(("max_completion_tokens", "max_output_tokens", "max_tokens"), "max_tokens")
_SAME = {each: each for each in ("stop", "stop_token_ids", "ignore_eos", "min_tokens")}
_VISIBLE = "include_stop_str_in_output"

OPENAI = Dialect("OpenAI", {"stop": "stop", **_LIMITS})
VLLM = Dialect("vLLM", {**_SAME, _VISIBLE: _VISIBLE, **_LIMITS})
SGLANG = Dialect(
    "SGLang",
    {
        **_SAME,
        "stop_regex": "stop_regex",
        "no_stop_trim": _VISIBLE,
        "min_new_tokens": "min_tokens",
        "max_new_tokens": "max_tokens",
        **_LIMITS,
    },
)

ADVICE: Mapping[str, str] = {
    "sampling_params": "the stops are inside it; pass request['sampling_params']",
    "parameters": "stops may be inside it; pass them by their OpenAI names",
    "options": "stops may be inside it; pass them by their OpenAI names",
    "extra_body": "the client sends its keys in the request itself; merge them into it",
    "repetition_detection": "leave it out, and flush() the stream when the engine ends it",
}
"""Keys that no function reads, and what to do instead."""

STRANGERS = frozenset({
    # of StopConditions
    "ignore_stops_between", "starts_inside", "eos_token_ids", "max_match_length",
    "visible_stop", "visible_stop_token_ids",
    # of other libraries
    "eos_token_id", "max_length", "max_token", "min_length", "min_token", "n_predict",
    "num_predict", "use_beam_search",
}).union(OPENAI.keys, VLLM.keys, SGLANG.keys)  # fmt: skip
"""Keys that end a stream in some API. Each key that begins with "stop" may do so, too."""


class FurtherConditions(TypedDict, total=False):
    """What a request does not have: other conditions, and bounds on its stops.

    The bounds are for requests that are not trusted. All others are as for StopConditions.

    >>> from streamdec.integrations.requests import FurtherConditions, from_openai
    >>> ours: FurtherConditions = {"eos_token_ids": 2, "max_stop_length": 256}
    >>> from_openai({"stop": "User:"}, **ours).to_json()
    {'stop': ['User:'], 'eos_token_ids': [2]}
    """

    eos_token_ids: SupportsIndex | Iterable[SupportsIndex] | None
    """The end-of-sequence ids of the model."""
    ignore_stops_between: tuple[str | int, str | int] | Iterable[tuple[str | int, str | int]] | None
    """Pairs of markers between which stops do not count."""
    starts_inside: bool | None
    """Whether streams begin between the first pair."""
    max_match_length: int | None
    """For ``stop_regex`` of SGLang's requests; ignored if the request has no pattern."""
    max_stop_length: int | None
    """The most code points of a stop string, a marker or a match of ``stop_regex``."""
    max_total_length: int | None
    """The most code points of all stop strings, markers and sources of patterns together; and the
    most entries of a list of stops or ids."""


def from_openai(request: Mapping[str, Any], **further: Unpack[FurtherConditions]) -> StopConditions:
    """Return the conditions of a request to any of OpenAI's APIs that generate text.

    ``request`` is its body as a dict, or what an object's ``model_dump()`` returns.
    ``max_completion_tokens`` takes precedence over ``max_tokens``; ``max_output_tokens`` must equal
    the limit beside it. ``further`` are other conditions; see FurtherConditions.

    Raises TypeError if ``request`` is not a mapping or ``further`` has an argument that is read
    from the request; ValueError for a key that ends a stream and is not supported, for keys that
    contradict each other, and for a stop over a bound in ``further``. Raises the errors of
    StopConditions.

    >>> from streamdec.integrations.requests import from_openai
    >>> from_openai({"stop": ["User:"], "max_completion_tokens": 100}).max_tokens
    100
    >>> from_openai({"stop": "#" * 1000}, max_stop_length=256)
    Traceback (most recent call last):
        ...
    ValueError: stop: 1000 code points exceed the limit of 256
    """
    return _conditions(request, OPENAI, further)


def from_vllm(request: Mapping[str, Any], **further: Unpack[FurtherConditions]) -> StopConditions:
    """Return the conditions of vLLM's ``SamplingParams`` or of a request's body.

    The body may have vLLM's extra keys. Two things differ from vLLM. If several stops are complete
    at one code point, the longest counts, not the first in the list. And a stop string that is the
    text of a skipped special token ends the stream. Arguments and errors are as for
    ``from_openai``.

    >>> from streamdec.integrations.requests import from_vllm
    >>> from_vllm({"stop": "User:", "min_tokens": 2, "temperature": 0.7}).min_tokens
    2
    """
    return _conditions(request, VLLM, further)


def from_sglang(request: Mapping[str, Any], **further: Unpack[FurtherConditions]) -> StopConditions:
    """Return the conditions of SGLang's ``sampling_params`` or of a request's body.

    The body may have SGLang's extra keys. As in SGLang, ``ignore_eos`` ignores ``stop_token_ids``
    too. Three things differ. ``min_new_tokens`` holds for strings and not only for ids. The stop
    that is complete first counts, not the first in the list. The text that ``stop_regex`` matches
    is hidden like any stop. Arguments and errors are as for ``from_openai``.

    >>> from streamdec.integrations.requests import from_sglang
    >>> from_sglang({"stop": "User:", "max_new_tokens": 100}).max_tokens
    100
    """
    return _conditions(request, SGLANG, further)


def _conditions(
    request: Mapping[str, Any], dialect: Dialect, further: FurtherConditions
) -> StopConditions:
    if read := sorted(further.keys() & set(dialect.keys.values())):  # it would replace the client's
        name = read[0]
        value = f"(*conditions.{name}, ...)" if name.startswith("stop") else "..."
        raise TypeError(
            f"from_{dialect.name.lower()}() reads {name} from the request; to set your own, write "
            f"dataclasses.replace(conditions, {name}={value}) with its result"
        )
    if not isinstance(request, Mapping):
        raise TypeError(
            "request must be a mapping, such as a dict or the result of model_dump(), "
            f"not {type(request).__name__}"
        )
    try:
        for key, value in request.items():
            _check(key, value, dialect)
        arguments: dict[str, Any] = {**_arguments(request, dialect), **further}
        most = arguments.pop("max_stop_length", None)
        most_together = arguments.pop("max_total_length", None)
        for name, value in arguments.items():  # before they are read
            size = len(value) if isinstance(value, (list, tuple)) else 0
            if most_together is not None and size > most_together:
                raise ValueError(f"{name}: {size} entries exceed the limit of {most_together}")
        if "stop_regex" not in arguments:
            arguments.pop("max_match_length", None)
        conditions = StopConditions(**arguments)
    except RecursionError:
        raise ValueError("the request is nested too deeply") from None
    _check_lengths(conditions, most, most_together)
    return conditions


def _check_lengths(conditions: StopConditions, most: int | None, most_together: int | None) -> None:
    """Raise ValueError if a stop, or all stops together, exceed these bounds."""
    if most is None and most_together is None:
        return
    markers = [each for each in conditions.markers if isinstance(each, str)]
    lengths = [("stop", len(each)) for each in conditions.stop]
    lengths += [("ignore_stops_between", len(each)) for each in markers]
    together = sum(length for _, length in lengths) + sum(map(len, conditions.stop_regex))
    patterns = read_patterns(conditions.stop_regex, conditions.max_match_length)
    lengths += [("stop_regex", each.longest) for each in patterns]
    bounds = [(name, length, most) for name, length in lengths]
    for name, length, limit in [*bounds, ("all stops together", together, most_together)]:
        if limit is not None and length > limit:
            raise ValueError(f"{name}: {length} code points exceed the limit of {limit}")


def _check(key: str, value: object, dialect: Dialect) -> None:
    """Raise ValueError if ``key`` would end a stream and is not in ``dialect``."""
    is_id = type(value) is int and "_id" in str(key)  # 0 is an id
    is_empty = value is None or (isinstance(value, (int, str, list, dict)) and not value)
    if (is_empty and not is_id) or key in dialect.keys:
        return
    if key in ADVICE:
        raise ValueError(f"{key}={value!r:.60} cannot be translated: {ADVICE[key]}")
    if key in STRANGERS or str(key).startswith("stop"):
        readers = [f"from_{d.name.lower()}" for d in (OPENAI, VLLM, SGLANG) if key in d.keys]
        raise ValueError(
            f"{key!s:.60}={value!r:.60}: not a stop parameter of {dialect.name}; expected "
            + ", ".join(dialect.keys)
            + (f". {' and '.join(readers)} can read {key}" if readers else "")
        )


def _arguments(request: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return the arguments of StopConditions that ``request`` has."""
    given = {key for key in dialect.keys if request.get(key) is not None}
    if "max_completion_tokens" in given:
        given.discard("max_tokens")  # as in engines; OpenAI rejects the two together
    if dialect is SGLANG and request.get("ignore_eos") is True:
        given.discard("stop_token_ids")
    names: dict[str, str] = {}
    for key in filter(given.__contains__, dialect.keys):
        other = names.setdefault(dialect.keys[key], key)
        if other != key and request[other] != request[key]:
            raise ValueError(
                f"{other}={request[other]!r:.60} and {key}={request[key]!r:.60} contradict each "
                "other: give one of them"
            )
    return {argument: request[key] for argument, key in names.items()}
