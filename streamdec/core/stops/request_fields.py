"""What the requests of other engines say of a stream's end, in the words of StopConditions.

One table for each family of requests says which of its keys means what. Of its other keys, those
that would end a stream as well are refused by name: a stream that silently ends in another place
than was asked for is worse than an error. The rest (messages, sampling, and what only changes
which ids the engine makes: ``bad_words``, ``thinking_token_budget``, ``response_format``) is not
looked at. ``detokenize=False`` neither: it says that the engine makes no text, and we do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

__all__ = ["IDS", "OPENAI", "SGLANG", "VLLM", "Dialect", "translated"]


class Dialect(NamedTuple):
    """How one family of requests says when a stream ends."""

    name: str
    keys: Mapping[str, str]
    """Its keys, each with the argument of StopConditions that it is."""
    refused: Mapping[str, str] = MappingProxyType({})
    """Its keys that end a stream in a way we do not have, each with what to do instead."""
    ignored_with_eos: frozenset[str] = frozenset()
    """What its ``ignore_eos`` switches off besides end-of-sequence."""


OPENAI = Dialect(
    "OpenAI",
    {
        "stop": "stop",
        "max_completion_tokens": "max_tokens",
        "max_output_tokens": "max_tokens",  # of the Responses API
        "max_tokens": "max_tokens",
    },
)
VLLM = Dialect(
    "vLLM",
    {
        "stop": "stop",
        "stop_token_ids": "stop_token_ids",
        "include_stop_str_in_output": "include_stop_str_in_output",
        "ignore_eos": "ignore_eos",
        "min_tokens": "min_tokens",
        "max_completion_tokens": "max_tokens",
        "max_tokens": "max_tokens",
    },
    {
        "repetition_detection": "leave it out, and flush() the stream when the engine has ended it",
        "use_beam_search": "beams are no streams of ids; decode the one that wins as a whole",
    },
)
SGLANG = Dialect(
    "SGLang",
    {
        "stop": "stop",
        "stop_token_ids": "stop_token_ids",
        "stop_regex": "stop_regex",
        "no_stop_trim": "include_stop_str_in_output",
        "ignore_eos": "ignore_eos",
        "min_new_tokens": "min_tokens",
        "min_tokens": "min_tokens",
        "max_new_tokens": "max_tokens",
        "max_completion_tokens": "max_tokens",
        "max_tokens": "max_tokens",
    },
    ignored_with_eos=frozenset({"stop_token_ids"}),
)

SUPERSEDED: Mapping[str, str] = {"max_tokens": "max_completion_tokens"}
"""Keys that do not count beside a newer one. (OpenAI refuses the two together, engines do this.)"""

WRAPPERS: Mapping[str, str] = {
    "sampling_params": "what ends the stream is inside; give request['sampling_params'] itself",
    "extra_body": "its keys belong to the request itself, as the client sends them; merge the two",
}

STRANGERS = frozenset({
    # StopConditions' own
    "enable_stops_after", "disable_stops_after", "ignore_stops_between", "starts_inside",
    "eos_token_ids", "max_match_length",
    "visible_stop",
    "visible_stop_token_ids",
    # and those of others
    "eos_token_id", "max_length", "max_token", "min_length", "min_token",
}).union(OPENAI.keys, VLLM.keys, SGLANG.keys)  # fmt: skip
"""Keys that mean an end of the stream somewhere, as does every key that begins with "stop"."""


IDS = frozenset(
    {"eos_token_id", "stop_token_id", "stop_id", "enable_stops_after", "disable_stops_after"}
)
"""Of them those that are ids."""


@contextmanager
def translated(request: Mapping[str, Any], dialect: Dialect) -> Iterator[dict[str, Any]]:
    """The arguments of StopConditions that ``request`` gives; what is None is not given.

    Errors that are raised inside also name the request's own keys.

    Raises:
        TypeError: ``request`` is no mapping.
        ValueError: a key that would end the stream in a way that cannot be had, or two keys that
            contradict each other.
    """
    if not isinstance(request, Mapping):
        raise TypeError(
            "a request is a mapping: a dict, or what an object's model_dump() gives, "
            f"not {type(request).__name__}"
        )
    for key, value in request.items():
        _check(key, value, dialect)
    names = _names(request, dialect)
    try:
        yield {argument: request[key] for argument, key in names.items()}
    except (TypeError, ValueError) as error:
        message = str(error)
        told = [
            f"{argument} is {key}"
            for argument, key in names.items()
            if argument != key and argument in message
        ]
        if told:
            error.args = (f"{message} ({', '.join(told)} in the request)", *error.args[1:])
        raise


def _check(key: str, value: object, dialect: Dialect) -> None:
    """ValueError if ``key`` would end a stream and ``dialect`` cannot translate it."""
    is_said = len(value) if isinstance(value, Sized) else value
    if type(value) is int and key in IDS:
        is_said = True  # 0 is one
    if not is_said or key in dialect.keys:
        return
    advice = dialect.refused.get(key) or WRAPPERS.get(key)
    if advice is not None:
        raise ValueError(f"{key}={value!r:.60} cannot be translated: {advice}")
    if key in STRANGERS or str(key).startswith("stop"):
        readers = [f"from_{d.name.lower()}" for d in (OPENAI, VLLM, SGLANG) if key in d.keys]
        known = ", ".join(dialect.keys)
        raise ValueError(
            f"{key}={value!r:.60}: what ends a stream in {dialect.name}'s requests is {known}"
            + (f"; this key is read by {' and '.join(readers)}" if readers else "")
        )


def _names(request: Mapping[str, Any], dialect: Dialect) -> dict[str, str]:
    """The arguments that are given, each with the key that gives it."""
    given = {key for key in dialect.keys if request.get(key) is not None}
    names: dict[str, str] = {}
    for key, argument in dialect.keys.items():
        if key not in given or SUPERSEDED.get(key) in given:
            continue
        other = names.setdefault(argument, key)
        if other != key and request[other] != request[key]:
            raise ValueError(
                f"{other}={request[other]!r:.60} and {key}={request[key]!r:.60} contradict each "
                "other: give one of them"
            )
    if request.get("ignore_eos") is True:
        for argument in dialect.ignored_with_eos & names.keys():
            del names[argument]
    return names
