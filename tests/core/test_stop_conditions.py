"""StopConditions as an object: valid and invalid values, equality, and pickling."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import random
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder, TokenIdError
from tests.core.test_token_ids import Named

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
ids = st.integers(0, 2**32 - 1)
markers = texts | ids
pairs = st.tuples(markers, markers).filter(lambda pair: pair[0] != pair[1])


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments that are in order; each may be left out."""
    least = draw(st.integers(0, 5))
    optional = {
        "stop": texts | st.lists(texts, max_size=4),
        "stop_token_ids": ids | st.lists(ids, max_size=4),
        "visible_stop": st.lists(texts, max_size=4),
        "visible_stop_token_ids": st.lists(ids, max_size=4),
        "include_stop_str_in_output": st.booleans(),
        "min_tokens": st.just(least),
        "max_tokens": st.none() | st.integers(max(least, 1), 10),
        "ignore_eos": st.booleans(),
        "eos_token_ids": st.lists(ids, max_size=4),
        "ignore_stops_between": pairs,
        "stop_regex": st.permutations(["ab", "a|b", "c{2}"]).map(tuple),  # their order matters
    }
    return draw(st.fixed_dictionaries({}, optional=optional))


Rows = list[tuple[Any, type[Exception], str]]
"""Values of a condition, the class of the error, and what its message says."""
STRINGS: Rows = [
    ("", ValueError, ": an empty stop would match everywhere; leave it out$"),
    (["a", ""], ValueError, ": an empty stop would match everywhere; leave it out$"),
    (
        "a\ud800",
        ValueError,
        r": 'a\\ud800' has a lone surrogate, half .*: write the whole character$",
    ),
    (["é", "\udfff"], ValueError, r": '\\udfff' has a lone surrogate"),
    (b"ab", TypeError, " must be a string or a list of strings, not b'ab'$"),
    ([b"ab"], TypeError, " must be a string or a list of strings, not b'ab'$"),
    (["a", 5], TypeError, " must be a string or a list of strings, not 5"),
    ([None], TypeError, " must be a string or a list of strings, not None$"),
    ({"a": 1}, TypeError, r" must be a string or a list of strings, not \{'a': 1\}$"),
]
IDS: Rows = [
    (-1, TokenIdError, " is out of range: -1; a token id is an integer from 0 to"),
    ([3, 2**32], TokenIdError, " is out of range: 4294967296"),
    (True, TokenIdError, " is a bool: True"),
    (np.array([True]), TokenIdError, " is a bool: True"),
    (["12"], TokenIdError, " is of type str: '12'"),
    (b"12", TokenIdError, " is of type bytes: b'12'"),
    ({3: -100}, TokenIdError, " is of type dict: {3: -100}"),
    ([3.0], TokenIdError, r" is of type float: 3\.0"),
    ([None], TokenIdError, " is of type NoneType: None"),
    (np.array([[3]]), TokenIdError, r" is of type list: \[3\]"),
]
COUNTS: Rows = [
    (True, ValueError, " must be an integer, not True"),
    (np.True_, TypeError, " must be an integer, not "),
    (1.0, TypeError, r" must be an integer, not 1\.0"),
    ("1", TypeError, " must be an integer, not '1'"),
    (np.array([1]), TypeError, " must be an integer, not array"),
    (-1, ValueError, " must be at least [01], not -1"),
]
FLAGS: Rows = [
    (1, TypeError, " must be True or False, not 1$"),
    (None, TypeError, " must be True or False, not None$"),
]
PAIRS = "pairs of an opening"
SECTIONS: Rows = [
    ("<think>", TypeError, ".*such as .'<think>', '</think>'., got"),
    (["<a>", "b", "c"], TypeError, f".*{PAIRS}"),
    ([("a", "b", "c")], TypeError, f".*{PAIRS}"),
    ({"a": "b"}, TypeError, f".*{PAIRS}"),
    (("a", None), TypeError, ".*a text or a token id, got None"),
    (("", "b"), ValueError, ": an empty"),
    (("a", "\udc00"), ValueError, ".*lone surrogate"),
    (("a", True), TypeError, ".*is a bool"),
    ((1, -1), ValueError, ".*out of range"),
    (("a", "a"), ValueError, ".*the opening and the closing marker"),
    ([("a", "b"), ("a", "c")], ValueError, ".*'a' opens two sections"),
]
WRONG: list[tuple[tuple[str, ...], Rows]] = [
    (("stop", "visible_stop"), STRINGS),
    (("stop_token_ids", "visible_stop_token_ids", "eos_token_ids"), IDS),
    (("min_tokens", "max_tokens"), COUNTS),
    (("include_stop_str_in_output", "ignore_eos"), FLAGS),
    (("ignore_stops_between",), SECTIONS),
    (("max_tokens",), [(0, ValueError, " must be at least 1, not 0$")]),
    (("min_tokens",), [(None, TypeError, " must be an integer, not None$")]),
    (("starts_inside",), [(True, ValueError, " needs ignore_stops_between")]),
    (("stop_regex",), [(each, TypeError, " must be a") for each in (True, 1, [None], [b"a"])]),
    (("max_match_length",), [(2, ValueError, ""), (0, ValueError, ""), (True, ValueError, "")]),
]


TOGETHER: Rows = [
    ({"min_tokens": 4, "max_tokens": 3}, ValueError, r"min_tokens \(4\) must not exceed max_tok"),
    ({"ignore_stops_between": ("a", "b"), "starts_inside": 1}, TypeError, "starts_inside must"),
    ({"stop_regex": "abc", "max_match_length": 2}, ValueError, "stop_regex .* is 2: use 3"),
    ({"stop_regex": "a", "max_match_length": "1"}, TypeError, "max_match_length must be"),
    ({"stop_regex": "a", "max_match_length": 0}, ValueError, "max_match_length must be"),
]
"""Conditions that do not fit one another."""
ALONE = [
    ({name: value}, kind, name + message)
    for names, rows in WRONG
    for name in names
    for value, kind, message in rows
]


@pytest.mark.parametrize(("given", "kind", "message"), [*ALONE, *TOGETHER])
def test_bad_conditions_are_rejected_by_name(
    given: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"^{message}"):
        StopConditions(**given)


@pytest.mark.parametrize("many", [list, tuple, set, frozenset, iter])
def test_strings_come_in_any_collection(many: Callable[[Any], Any]) -> None:
    assert StopConditions(stop=many(["b", "a", "b"])).stop == ("a", "b")


@pytest.mark.parametrize(
    "given",
    [
        [9, 7, 9],
        {7, 9},
        range(7, 10, 2),
        np.array([9, 7], dtype=np.uint8),
        [np.int64(9), Named.SEVEN],
        (number for number in (9, 7)),
    ],
    ids=lambda given: type(given).__name__,
)
def test_ids_come_in_any_collection(given: Any) -> None:
    made = StopConditions(stop_token_ids=given)
    assert made.stop_token_ids == (7, 9)
    assert [type(token_id) for token_id in made.stop_token_ids] == [int, int]


@given(arguments(), st.randoms(use_true_random=False))
def test_neither_order_nor_repetition_matters(given: dict[str, Any], chance: random.Random) -> None:
    def shuffled(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        twice = value + value[: chance.randint(0, len(value))]
        chance.shuffle(twice)
        return twice

    made = StopConditions(**given)
    other = StopConditions(**{name: shuffled(value) for name, value in given.items()})
    assert other == made
    assert hash(other) == hash(made)
    assert other.to_json() == made.to_json()


def test_conditions_cannot_be_changed_and_replace_checks_the_new_ones() -> None:
    made = StopConditions("a", max_tokens=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.stop = ("b",)  # type: ignore[misc]
    assert dataclasses.replace(made, ignore_eos=True) == StopConditions(
        "a", max_tokens=3, ignore_eos=True
    )
    with pytest.raises(ValueError, match=r"min_tokens \(4\) must not exceed max_tokens \(3\)"):
        dataclasses.replace(made, min_tokens=4)


@given(arguments(), st.integers(0, pickle.HIGHEST_PROTOCOL))
def test_conditions_survive_json_pickle_copy_replace_and_repr(
    given: dict[str, Any], protocol: int
) -> None:
    made = StopConditions(**given)
    copies: Iterable[StopConditions] = (
        StopConditions.from_json(json.loads(json.dumps(made.to_json()))),
        pickle.loads(pickle.dumps(made, protocol)),
        copy.copy(made),
        copy.deepcopy(made),
        dataclasses.replace(made),
        eval(repr(made)),
    )
    for each in copies:
        assert each == made
        assert hash(each) == hash(made)
        assert each.to_json() == made.to_json()
        assert type(each) is StopConditions


def test_repr_and_json_have_only_what_differs_from_the_default() -> None:
    assert repr(StopConditions()) == "StopConditions()"
    assert StopConditions().to_json() == {}
    made = StopConditions("User:", eos_token_ids=2, max_tokens=9)
    assert repr(made) == "StopConditions(stop=('User:',), max_tokens=9, eos_token_ids=(2,))"
    made = StopConditions("b", [2], min_tokens=0, ignore_stops_between=("x", 2))
    pairs = [["x", 2]]
    assert made.to_json() == {"stop": ["b"], "stop_token_ids": [2], "ignore_stops_between": pairs}


@pytest.mark.parametrize(
    ("given", "pairs"),
    [
        (("<a>", "</a>"), (("<a>", "</a>"),)),
        ((5, 7), ((5, 7),)),
        ([["b", 7], (5, "a")], (("b", 7), (5, "a"))),
        ([("b", "c"), ("a", "d"), ("b", "c")], (("b", "c"), ("a", "d"))),
        ((pair for pair in [("a", "b")]), (("a", "b"),)),
        (None, ()),
        ([], ()),
    ],
)
def test_a_section_is_one_pair_or_a_list_of_pairs_whose_order_is_kept(
    given: Any, pairs: tuple[tuple[object, object], ...]
) -> None:
    """The first is the one in which a stream may begin."""
    made = StopConditions("x", ignore_stops_between=given)
    assert made.ignore_stops_between == pairs
    assert StopConditions.from_json(json.loads(json.dumps(made.to_json()))) == made


def test_none_means_no_stops() -> None:
    """As in requests of APIs, where a field that is absent is often null."""
    names = ("stop", "visible_stop", "stop_regex", "stop_token_ids", "visible_stop_token_ids")
    nothing: dict[str, Any] = dict.fromkeys((*names, "eos_token_ids", "ignore_stops_between"))
    assert StopConditions(**nothing) == StopConditions()


def test_equal_options_are_checked_each_time() -> None:
    """Conditions of equal options are shared, but 1 and True are equal, too."""
    tokenizer = MockTokenizer()
    for good, bad in (({"max_tokens": 1}, {"max_tokens": True}), ({"stop": "1"}, {"stop": 1})):
        StopSequenceDecoder(tokenizer, **good)
        with pytest.raises((TypeError, ValueError)):
            StopSequenceDecoder(tokenizer, **bad)
    assert StopSequenceDecoder(tokenizer, stop_token_ids=[1]).conditions.stop_token_ids == (1,)
    with pytest.raises(TokenIdError):
        StopSequenceDecoder(tokenizer, stop_token_ids=[True])
    stops = ["b"]
    first = StopSequenceDecoder(tokenizer, stop=stops).conditions
    stops.append("a")
    second = StopSequenceDecoder(tokenizer, stop=stops).conditions
    assert (first.stop, second.stop) == (("b",), ("a", "b"))
