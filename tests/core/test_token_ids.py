"""Valid token ids, and the errors for others."""

from __future__ import annotations

import array
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from streamdec.core.token_ids import MAX_TOKEN_ID, as_sequence, check_token_id
from streamdec.errors import TokenIdError


class Named(enum.IntEnum):
    SEVEN = 7


class Indexed:
    def __index__(self) -> int:
        return 7


class PandasColumn:
    """A Series of pandas, as far as it resembles a list. Its labels are 2, 1 and 0."""

    dtype = "Int64"
    iloc: Any = None

    def tolist(self) -> list[int]:
        return [1, 2, 3]

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2, 3])

    def __len__(self) -> int:
        return 3

    def __getitem__(self, label: int) -> int:
        return [3, 2, 1][label]


class PolarsColumn:
    """A column of Polars, as far as it resembles a list."""

    def __iter__(self) -> Iterator[int]:
        return iter([1, 2, 3])

    def to_list(self) -> list[int]:
        return [1, 2, 3]


@pytest.mark.parametrize(
    "seven", [7, Named.SEVEN, Indexed(), *(np.dtype(kind).type(7) for kind in "bBhHiIlLqQ")]
)
def test_integers_of_all_kinds_become_plain_ints(seven: Any) -> None:
    token_id = check_token_id(seven)
    assert token_id == 7
    assert type(token_id) is int


@pytest.mark.parametrize("wrong", [-1, 2**32, -(10**30), np.int8(-1), np.uint64(2**63)])
def test_an_integer_out_of_range_is_named_with_its_place(wrong: Any) -> None:
    with pytest.raises(TokenIdError, match=r"token 3 is out of range: .*0 to 4294967295") as raised:
        check_token_id(wrong, 3)
    assert raised.value.token_id is wrong
    assert raised.value.index == 3
    assert [check_token_id(each) for each in (0, MAX_TOKEN_ID)] == [0, 2**32 - 1]


def test_a_long_object_is_cut_short_in_the_message() -> None:
    for wrong in ("x" * 10_000, 10**5_000):  # which has too many digits for ``repr``
        with pytest.raises(TokenIdError) as raised:
            check_token_id(wrong)  # type: ignore[arg-type]
        assert len(str(raised.value)) < 200


def test_lists_and_tuples_are_not_copied() -> None:
    for ids in ([1, 2], (1, 2)):
        assert as_sequence(ids) is ids


@pytest.mark.parametrize(
    "ids",
    [
        range(1, 4),
        iter([1, 2, 3]),
        (n for n in (1, 2, 3)),
        array.array("I", [1, 2, 3]),
        np.array([1, 2, 3]),
        np.array([1, 2, 3], dtype=np.uint32),
        np.array([1, 2, 3], dtype=object),
        memoryview(bytes([1, 2, 3])),
        pa.array([1, 2, 3]),
        pa.chunked_array([[1], [2, 3]]),
        pa.array([[1, 2, 3]])[0],
        PandasColumn(),
        PolarsColumn(),
    ],
)
def test_anything_else_is_a_sequence_of_plain_ints(ids: Any) -> None:
    found = as_sequence(ids)
    assert [*found] == [1, 2, 3]
    assert {type(token_id) for token_id in found} == {int}
    assert (len(found), found[-1], [*found[1:]], [*reversed(found)]) == (3, 3, [2, 3], [3, 2, 1])


NO_SEQUENCES: list[Any] = [None, 3, "12", b"12", bytearray(b"12"), {1: 2}, {1, 2}, frozenset([1])]


@pytest.mark.parametrize("ids", [*NO_SEQUENCES, np.array(5), np.array([[1, 2]])])
def test_objects_that_are_not_lists_of_ids_raise_type_error(ids: Any) -> None:
    with pytest.raises(TypeError):
        as_sequence(ids)
