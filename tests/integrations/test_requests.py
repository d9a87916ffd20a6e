"""What a request means, which fields are rejected, and by which names."""

from __future__ import annotations

import copy
from collections import UserDict
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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

CHAT = {
    "model": "m",
    "messages": [{"role": "user", "content": "stop"}],
    "temperature": 0.0,
    "n": 2,
    "seed": 7,
    "stream": True,
    "stream_options": {"include_usage": True},
    "logprobs": True,
    "logit_bias": {"2": -100},
    "modalities": ["text"],
    "response_format": {"type": "json_object"},
    "reasoning_effort": "high",
    "store": False,
    "stop": None,
    "max_tokens": None,
    "max_completion_tokens": None,
}
VLLM_EXTRAS = {
    **CHAT,
    "min_p": 0.1,
    "bad_words": ["damn"],
    "allowed_token_ids": [1, 2],
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "thinking_token_budget": 100,
    "truncate_prompt_tokens": 10,
    "structured_outputs": {"regex": "a+"},
    "detokenize": False,
    "use_beam_search": False,
    "repetition_detection": None,
    "stop": [],
    "stop_token_ids": [],
    "include_stop_str_in_output": False,
    "ignore_eos": False,
    "min_tokens": 0,
}
SGLANG_PARAMS = {
    "temperature": 1.0,
    "min_p": 0.1,
    "regex": "a+",
    "custom_params": {"thinking_budget": 5},
    "skip_special_tokens": False,
    "spaces_between_special_tokens": False,
    "stream_interval": 2,
    "stop": None,
    "stop_token_ids": None,
    "stop_regex": None,
    "max_new_tokens": None,
    "min_new_tokens": 0,
    "ignore_eos": False,
    "no_stop_trim": False,
}


# --- what is read


@pytest.mark.parametrize(
    ("read", "request_", "meant"),
    [
        (from_openai, {}, {}),
        (from_openai, CHAT, {}),
        (from_openai, {**CHAT, "stop": "User:"}, {"stop": "User:"}),
        (from_openai, {"stop": ["b", "a", "b"]}, {"stop": ["a", "b"]}),
        (from_openai, {"stop": list("abcdefgh")}, {"stop": list("abcdefgh")}),
        (from_openai, {"stop": []}, {}),
        (from_openai, {"max_tokens": 5}, {"max_tokens": 5}),
        (from_openai, {"max_completion_tokens": 5}, {"max_tokens": 5}),
        (from_openai, {"max_completion_tokens": 5, "max_tokens": 9}, {"max_tokens": 5}),
        (from_openai, {"max_tokens": 9, "max_completion_tokens": None}, {"max_tokens": 9}),
        # Fields of other servers may be there if they do not change the answer.
        (from_openai, {"ignore_eos": False, "stop_token_ids": [], "min_tokens": 0}, {}),
        (from_vllm, {}, {}),
        (from_vllm, VLLM_EXTRAS, {}),
        (
            from_vllm,
            {
                **VLLM_EXTRAS,
                "stop": ["b", "a"],
                "stop_token_ids": [9, 7, 9],
                "include_stop_str_in_output": True,
                "ignore_eos": True,
                "min_tokens": 2,
                "max_tokens": 5,
            },
            {
                "stop": ["a", "b"],
                "stop_token_ids": [7, 9],
                "include_stop_str_in_output": True,
                "ignore_eos": True,
                "min_tokens": 2,
                "max_tokens": 5,
            },
        ),
        (from_vllm, {"max_completion_tokens": 5, "max_tokens": 9}, {"max_tokens": 5}),
        # The ids come from an engine that was told to make no text: the text is ours.
        (from_vllm, {"detokenize": False, "stop": "a"}, {"stop": "a"}),
        (from_sglang, {}, {}),
        (from_sglang, SGLANG_PARAMS, {}),
        (
            from_sglang,
            {
                **SGLANG_PARAMS,
                "stop": "a",
                "stop_token_ids": {9, 7},
                "no_stop_trim": True,
                "min_new_tokens": 2,
                "max_new_tokens": 5,
            },
            {
                "stop": "a",
                "stop_token_ids": [7, 9],
                "include_stop_str_in_output": True,
                "min_tokens": 2,
                "max_tokens": 5,
            },
        ),
        (
            from_sglang,
            {**CHAT, "min_tokens": 2, "max_tokens": 5},
            {"min_tokens": 2, "max_tokens": 5},
        ),
        (from_sglang, {"max_completion_tokens": 5, "max_tokens": 9}, {"max_tokens": 5}),
        (
            from_sglang,
            {"stop": "a", "stop_token_ids": [7], "ignore_eos": False},
            {"stop": "a", "stop_token_ids": 7},
        ),
        (
            from_sglang,
            {"stop": "a", "stop_token_ids": [7], "ignore_eos": True},
            {"stop": "a", "ignore_eos": True},
        ),
    ],
)
def test_a_request_means(read: Reader, request_: dict[str, Any], meant: dict[str, Any]) -> None:
    before = copy.deepcopy(request_)
    assert read(request_) == StopConditions(**meant)
    assert request_ == before


@pytest.mark.parametrize("patterns", ["a+b", ["a+b", "c"]])
def test_patterns_are_handed_on(patterns: str | list[str]) -> None:
    found = from_sglang({"stop_regex": patterns, "stop": None}, max_match_length=9)
    assert found == StopConditions(stop_regex=patterns, max_match_length=9)


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


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.integers() | st.text()))
def test_other_keys_do_not_matter(others: dict[str, Any]) -> None:
    for read, _ in READERS:
        unrelated = {
            key: value
            for key, value in others.items()
            if not key.startswith("stop") and not {key} & {*STRANGERS, *ADVICE}
        }
        assert read({**unrelated, "stop": "a"}) == StopConditions("a")


# --- what is rejected


@pytest.mark.parametrize(
    ("read", "request_", "message"),
    [
        (from_openai, {"ignore_eos": True}, "ignore_eos=True: .* from_vllm and from_sglang can"),
        (from_openai, {"stop_sequences": ["a"]}, r"stop_sequences=\['a'\]: .* max_tokens$"),
        (from_openai, {"stopSequences": ["a"]}, "stopSequences="),
        (from_vllm, {"no_stop_trim": True}, "no_stop_trim=True: .*vLLM.* from_sglang can read"),
        (from_vllm, {"use_beam_search": True}, "use_beam_search=True cannot .*the winning beam"),
        (from_sglang, {"sampling_params": {"stop": "a"}}, "sampling_params=.*'sampling_params'"),
        (from_sglang, {"max_new_tokens": 5, "max_tokens": 6}, "max_new_tokens=5 and max_tokens=6"),
        (from_sglang, {"min_tokens": 5, "min_new_tokens": 6}, "min_tokens=5 and min_new_tokens=6"),
    ],
)
def test_unsupported_parameters_are_rejected(
    read: Reader, request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        read({**request_, "stop": "b"})


@pytest.mark.parametrize(("read", "dialect"), READERS)
@pytest.mark.parametrize("value", [None, False, 0, [], {}, ""])
def test_unsupported_parameters_without_effect_are_accepted(
    read: Reader, dialect: Dialect, value: object
) -> None:
    foreign = {*STRANGERS, *ADVICE, "stops"} - dialect.keys.keys()
    ids = {key for key in foreign if "_id" in key and value == 0 and value is not False}
    assert read(dict.fromkeys(foreign - ids, value)) == StopConditions()


@pytest.mark.parametrize(("read", "dialect"), READERS)
def test_the_id_0_is_a_value(read: Reader, dialect: Dialect) -> None:
    for key in {"eos_token_id", "eos_token_ids", "stop_id"} - dialect.keys.keys():
        with pytest.raises(ValueError, match=f"^{key}=0"):
            read({key: 0})
    if "stop_token_ids" in dialect.keys:
        assert read({"stop_token_ids": 0}).stop_token_ids == (0,)


@pytest.mark.parametrize(("read", "dialect"), READERS)
def test_every_foreign_key_is_rejected(read: Reader, dialect: Dialect) -> None:
    for key in {*STRANGERS, *ADVICE} - dialect.keys.keys():
        with pytest.raises(ValueError, match=f"^{key}=5"):
            read({key: 5})


def test_the_tables_lead_to_arguments() -> None:
    names = {each.name for each in fields(StopConditions)} | {"stop_regex"}
    for _, dialect in READERS:
        assert set(dialect.keys.values()) <= names
    assert names <= STRANGERS | {name for name in names if name.startswith("stop")}


@pytest.mark.parametrize("read", [from_openai, from_vllm, from_sglang])
@pytest.mark.parametrize("wrong", [None, "stop", ["stop"], 5, StopConditions("a"), [{"stop": "a"}]])
def test_an_object_that_is_not_a_mapping_is_rejected(read: Reader, wrong: Any) -> None:
    with pytest.raises(
        TypeError,
        match=rf"^request must be a mapping, .*model_dump\(\).*, not {type(wrong).__name__}$",
    ):
        read(wrong)
