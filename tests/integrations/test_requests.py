"""What a request means, which fields are rejected, and by which names."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

from streamdec import StopConditions, TokenIdError
from streamdec.integrations.requests import (
    ADVICE,
    OPENAI,
    SGLANG,
    STRANGERS,
    VLLM,
    Dialect,
    from_openai,
    from_sglang,
    from_vllm,
)

Reader = Callable[..., StopConditions]

READERS: list[tuple[Reader, Dialect]] = [
    (from_openai, OPENAI),
    (from_vllm, VLLM),
    (from_sglang, SGLANG),
]

NEUTRAL: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "stop"}],
    "temperature": 0.0,
    "seed": 7,
    "stream": True,
    "logit_bias": {"2": -100},
    "detokenize": False,  # the ids come without text: the text is ours
    **dict.fromkeys(
        ("skip_special_tokens", "use_beam_search", "ignore_eos", "no_stop_trim"), False
    ),
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_new_tokens"), None),
    **dict.fromkeys(("stop", "stop_regex", "repetition_detection"), None),
    "stop_token_ids": [],
}
"""Keys that no reader reads, and keys without effect."""
FLAGS = {"include_stop_str_in_output": True, "ignore_eos": True, "min_tokens": 2}
"""Parameters of vLLM that have the same names here."""


@pytest.mark.parametrize(
    ("read", "request_", "meant"),
    [
        *((read, {}, {}) for read, _ in READERS),
        *((read, {"max_tokens": 5}, {"max_tokens": 5}) for read, _ in READERS),
        *(
            (read, {"max_completion_tokens": 5, "max_tokens": 9}, {"max_tokens": 5})
            for read, _ in READERS
        ),
        (from_openai, {"stop": ["b", "a", "b"]}, {"stop": ["a", "b"]}),
        (from_openai, {"max_output_tokens": 5}, {"max_tokens": 5}),
        (
            from_vllm,
            {"stop": ["b", "a"], "stop_token_ids": [9, 7, 9], **FLAGS},
            {"stop": ["a", "b"], "stop_token_ids": [7, 9], **FLAGS},
        ),
        (
            from_sglang,
            {"stop_token_ids": {9, 7}, "no_stop_trim": True, "max_new_tokens": 5},
            {"stop_token_ids": [7, 9], "include_stop_str_in_output": True, "max_tokens": 5},
        ),
        *(
            (read, {"stop_token_ids": 0}, {"stop_token_ids": [0]})
            for read in (from_vllm, from_sglang)
        ),
        (from_sglang, {"min_new_tokens": 2}, {"min_tokens": 2}),
        (from_sglang, {"min_tokens": 2}, {"min_tokens": 2}),
        (from_sglang, {"stop_token_ids": [7], "ignore_eos": True}, {"ignore_eos": True}),
        (from_sglang, {"stop_regex": ["a+b", "c"]}, {"stop_regex": ["a+b", "c"]}),
    ],
)
def test_a_request_means(read: Reader, request_: dict[str, Any], meant: dict[str, Any]) -> None:
    """With other keys beside those that are read."""
    request_ = {**NEUTRAL, **request_}
    before = copy.deepcopy(request_)
    bounds: Any = {"max_match_length": 9} if "stop_regex" in meant else {}
    assert read(request_, **bounds) == StopConditions(**meant, **bounds)
    assert request_ == before


@pytest.mark.parametrize("read", [from_openai, from_vllm, from_sglang])
def test_the_end_of_sequence_is_an_argument(read: Reader) -> None:
    request = {"stop": "abcd"}
    assert read(request, eos_token_ids=[2, 3]) == StopConditions("abcd", eos_token_ids=[2, 3])
    with pytest.raises(TokenIdError, match="eos_token_ids is out of range: -1"):
        read(request, eos_token_ids=-1)


@pytest.mark.parametrize("read", [from_openai, from_vllm, from_sglang])
@pytest.mark.parametrize(
    ("request_", "further", "longest", "together"),
    [
        ({"stop": ["a", "abcd"]}, {}, "stop: 4", 5),
        ({"stop": "😋😋"}, {}, "stop: 2", 2),
        ({}, {"ignore_stops_between": ("<a>", 7)}, "ignore_stops_between: 3", 3),
        ({"stop": "ab"}, {"ignore_stops_between": ("<", ">>>")}, "ignore_stops_between: 3", 6),
    ],
)
def test_limits_bound_the_longest_stop_and_all_together(
    read: Reader, request_: dict[str, Any], further: Any, longest: str, together: int
) -> None:
    most = int(longest.split(": ")[1])
    free = read(request_, **further)
    assert read(request_, **further, max_stop_length=most, max_total_length=together) == free
    with pytest.raises(ValueError, match=f"^{longest} code points exceed the limit of {most - 1}$"):
        read(request_, **further, max_stop_length=most - 1)
    told = f"^all stops together: {together} code points exceed the limit of {together - 1}$"
    with pytest.raises(ValueError, match=told):
        read(request_, **further, max_total_length=together - 1)


def test_limits_count_the_longest_match_and_the_sources_of_patterns() -> None:
    read = partial(from_sglang, max_stop_length=5, max_total_length=12)
    read({"stop": "a", "stop_regex": ["a{5}", "bbbb"]})
    read({"stop_regex": "a+"}, max_match_length=5)
    for stop_regex, most in (("a{6}", None), ("a+", 6), ("[abcdefghijk]", None)):
        with pytest.raises(ValueError, match="exceed the limit of"):
            read({"stop": "ab", "stop_regex": stop_regex}, max_match_length=most)


@pytest.mark.parametrize(("read", "dialect"), READERS)
def test_an_argument_cannot_replace_the_clients(read: Reader, dialect: Dialect) -> None:
    for name in set(dialect.keys.values()):
        value = {"max_tokens": 3, "min_tokens": 1, "stop_token_ids": [1]}.get(name, "User:")
        told = rf"^{read.__name__}\(\) reads {name} from the request; .*\b{name}="
        with pytest.raises(TypeError, match=told):
            read({"stop": "###"}, **{name: value})


@pytest.mark.parametrize("mapping", [dict, MappingProxyType, UserDict])
def test_any_mapping_is_a_request(mapping: Callable[[Any], Mapping[str, Any]]) -> None:
    assert from_vllm(mapping({"stop": "a"})) == StopConditions("a")


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def test_a_number_that_is_none_is_no_contradiction() -> None:
    with pytest.raises(TypeError, match=r"^max_tokens must be an integer, not nan$"):
        from_openai({"max_tokens": float("nan")})


@pytest.mark.parametrize("key", ["stop", "stop_token_ids", "stop_regex"])
def test_long_lists_are_refused_before_they_are_read(key: str) -> None:
    """The entries are not what they should be, but that is not seen."""
    with pytest.raises(ValueError, match=f"^{key}: 11 entries exceed the limit of 10$"):
        from_sglang({key: [None] * 11}, max_total_length=10)


@pytest.mark.parametrize(
    ("read", "request_", "message"),
    [
        (from_openai, {"ignore_eos": True}, "ignore_eos=True: .* from_vllm and from_sglang can"),
        (from_openai, {"stop_sequences": ["a"]}, r"stop_sequences=\['a'\]: .* max_tokens$"),
        (from_openai, {"n_predict": 5}, "n_predict=5: not a stop parameter"),
        (from_openai, {"options": {"stop": "a"}}, "options=.* by their OpenAI names"),
        (from_vllm, {"no_stop_trim": True}, "no_stop_trim=True: .*vLLM.* from_sglang can read"),
        (from_vllm, {"use_beam_search": True}, "use_beam_search=True: .* parameter of vLLM;"),
        (from_sglang, {"sampling_params": {"stop": "a"}}, "sampling_params=.*'sampling_params'"),
        (from_sglang, {"max_new_tokens": 5, "max_tokens": 6}, "max_new_tokens=5 and max_tokens=6"),
        (from_sglang, {"min_tokens": 5, "min_new_tokens": 6}, "min_tokens=5 and min_new_tokens=6"),
        (from_openai, {"stop" + "x" * 500: 1}, "stopx{56}=1: not a stop parameter"),
        (from_openai, {"max_tokens": -(10**4000)}, r"max_tokens must be at least 1, not -10{38}$"),
        (from_sglang, {"stop_reasons": nested(200_000)}, "the request is nested too deeply$"),
        (from_sglang, {"stop_regex": nested(200_000)}, "the request is nested too deeply$"),
    ],
)
def test_unsupported_parameters_are_rejected(
    read: Reader, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        read({**request_, "stop": "b"})


@pytest.mark.parametrize(("read", "dialect"), READERS)
def test_every_foreign_key_is_rejected_unless_it_has_no_effect(
    read: Reader, dialect: Dialect
) -> None:
    """The id 0 has one, and the number 0 none."""
    for key in {*STRANGERS, *ADVICE, "stops", "stop_id"} - dialect.keys.keys():
        is_id = "_id" in key
        for value in [5, 0] if is_id else [5]:
            with pytest.raises(ValueError, match=f"^{key}={value}"):
                read({key: value})
        values: list[Any] = [None, False, [], {}, "", *([] if is_id else [0])]
        for value in values:
            assert read({key: value}) == StopConditions()


@pytest.mark.parametrize("read", [from_openai, from_vllm, from_sglang])
@pytest.mark.parametrize("wrong", [None, "stop", ["stop"], 5, StopConditions("a"), [{"stop": "a"}]])
def test_an_object_that_is_not_a_mapping_is_rejected(read: Reader, wrong: Any) -> None:
    with pytest.raises(
        TypeError,
        match=rf"^request must be a mapping, .*model_dump\(\).*, not {type(wrong).__name__}$",
    ):
        read(wrong)
