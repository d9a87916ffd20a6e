"""``decode_arrow`` against ``decode``, for every rule, every backend and every kind of array."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.bulk import BulkDecoder, column, decode_arrow, gather
from streamdec.errors import StreamdecError, TokenIdError, TokenizerLibraryError
from tests.backends.test_every_backend import BACKENDS
from tests.strategies import Subject, token_ids
from tests.support.zoo import UNCOMPILED, ZOO

Rows = Sequence[Sequence[int] | None]

pytestmark = pytest.mark.filterwarnings("ignore:.*streaming over a window")

LETTERS = [bytes([byte]) for byte in range(256)]
TOKENIZER = MockTokenizer.from_tokens(
    [*LETTERS, "é".encode(), b"the", "😀".encode(), b"<s>"], [259]
)
FACE = [*"😀".encode()]


@cache
def subject(name: str) -> Subject:
    make = ZOO.get(name) or UNCOMPILED.get(name)
    tokenizer: Any = HuggingFaceTokenizer(make()) if make else BACKENDS[name]()
    return Subject(name, tokenizer)


def decoded(tokenizer: Any, rows: Rows, skip: bool = True) -> list[str | None]:
    """The oracle."""
    decode: Callable[..., str] = tokenizer.decode
    return [None if row is None else decode(list(row), skip_special_tokens=skip) for row in rows]


def texts(array: Any, tokenizer: Any = TOKENIZER, **options: Any) -> Any:
    found = decode_arrow(array, tokenizer, **options)
    found.validate(full=True)
    return found.to_pylist()


# --- every row is what decode gives ---------------------------------------------------------------

FEWER = settings(max_examples=max(settings.default.max_examples // 3, 2))  # type: ignore[union-attr]
"""Examples, as each of them is many rows."""
PANICS = "strip_stop"  # on an empty text, in its own library


@pytest.mark.parametrize("name", [*ZOO, *BACKENDS, *sorted(UNCOMPILED.keys() - {PANICS})])
@FEWER
@given(data=st.data(), skip=st.booleans(), block=st.sampled_from([8, 1, 3, 2**18]))
def test_every_row_equals_decode(name: str, data: st.DataObject, skip: bool, block: int) -> None:
    """However many tokens a block has."""
    it = subject(name)
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    rows = data.draw(st.lists(st.none() | token_ids(it), max_size=15))
    rows += [rng.choices(it.usual + it.partial, k=size) for size in (7, 1, 0, 0, 8, 3, 12)]
    array = pa.array(rows, pa.list_(pa.uint32()))
    expected = decoded(it.tokenizer, rows, skip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column, "BLOCK_TOKENS", block)
        assert texts(array, it.tokenizer, skip_special_tokens=skip) == expected


@pytest.mark.parametrize("name", ["byte_level", "byte_fallback_strip", "tiktoken"])
def test_rows_of_usual_tokenizers_are_not_decoded_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = subject(name)
    row = [*it.tokenizer.encode("The quick brown fox").ids]
    expected = texts(pa.array([row, row]), it.tokenizer)
    monkeypatch.setattr(type(it.tokenizer), "decode", None)
    assert texts(pa.array([row, row]), it.tokenizer) == expected


@pytest.mark.parametrize("name", ["byte_fallback", "byte_fallback_metaspace"])
def test_a_token_without_text_ends_a_run_of_bytes(name: str) -> None:
    """The bytes on both sides of it would be a character."""
    it = subject(name)
    empty = next(i for i in range(999) if it.tokenizer.piece(i) == "")
    first, *others = [it.byte_ids[byte] for byte in "日".encode()]
    rows = [[it.words[0], first, *between, *others] for between in ([], [empty], [empty] * 2)]
    expected = decoded(it.tokenizer, rows)
    assert expected[0] != expected[1]
    assert texts(pa.array(rows), it.tokenizer) == expected


def test_a_tokenizer_that_only_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Upper:
        def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
            if 7 in token_ids:
                raise TokenizerLibraryError("the library panicked")
            return bytes(token_ids).decode().upper() + "!" * skip_special_tokens

    assert texts(pa.array([[97, 98], [], None]), Upper()) == ["AB!", "!", None]
    assert texts(pa.array([[97]]), Upper(), skip_special_tokens=False) == ["A"]
    for block in (column.BLOCK_TOKENS, 1):
        monkeypatch.setattr(column, "BLOCK_TOKENS", block)
        with pytest.raises(TokenizerLibraryError, match=r"^row 2: the library panicked$"):
            decode_arrow(pa.array([[0, 5], [1], [7]]), Upper())


ROWS: Rows = [[104, 105], None, [], FACE, [257, 256], [*FACE[:2]], None]
PAIRS: Rows = [[104, 105], None, [257, 256], FACE[:2]]
INTEGERS = [pa.int16(), pa.int32(), pa.int64(), pa.uint16(), pa.uint32(), pa.uint64()]
FIXED = pa.array(PAIRS, pa.list_(pa.int32(), 2))
TENSORS = pa.fixed_shape_tensor(pa.int32(), [2])
VALUES = pa.array([104, 105, 257, 65, 66])
UNDER_A_NULL = {"values": pa.array([104, -5, 105]), "mask": pa.array([False, True, False])}
OF_IDS = pa.array([104, 257, 104]).dictionary_encode()
ARRAYS: dict[str, Any] = {
    **{
        f"{lists.__name__} of {each}": pa.array(ROWS, lists(each))
        for each in INTEGERS
        for lists in (pa.list_, pa.large_list)
    },
    "views": pa.array(ROWS, pa.list_view(pa.int64())),
    "large views": pa.array(ROWS, pa.large_list_view(pa.int64())),
    "views that overlap, in another order": pa.ListViewArray.from_arrays(
        [3, 0, 1], [2, 4, 0], VALUES
    ),
    "a fixed size": FIXED,
    "the storage of an extension type": pa.FixedShapeTensorArray.from_storage(TENSORS, FIXED),
    "wrong ids under a null": pa.ListArray.from_arrays([0, 1, 2, 3], **UNDER_A_NULL),
    "a dictionary of rows": pa.DictionaryArray.from_arrays([2, 0, None, 1, 2], pa.array(ROWS[2:5])),
    "a dictionary that has a null": pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(ROWS[:2])),
    "dictionaries of ids": pa.ListArray.from_arrays([0, 2, 3], OF_IDS),
    "tensors of different sizes": pa.array(
        [row and {"data": row, "shape": [len(row)]} for row in (ROWS[0], None, ROWS[4])]
    ),
    "nulls": pa.nulls(3),
    "rows without a value": pa.array([[], None, []]),
    "no rows": pa.array([], pa.list_(pa.int32())),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS)
def test_each_kind_of_array_and_its_slices(array: Any) -> None:
    storage = getattr(array, "storage", array).to_pylist()
    storage = [row["data"] if isinstance(row, dict) else row for row in storage]
    expected = decoded(TOKENIZER, storage)
    assert texts(array) == expected
    assert decode_arrow(array, TOKENIZER).type == pa.large_string()
    for first in range(len(array)):
        for size in range(len(array) - first + 1):
            assert texts(array.slice(first, size)) == expected[first : first + size]


def test_chunks_stay_as_they_are() -> None:
    array = pa.chunked_array([ROWS[:2], [], ROWS[2:3], ROWS[3:]], pa.list_(pa.int32()))
    found = decode_arrow(array, TOKENIZER)
    assert found.to_pylist() == decoded(TOKENIZER, ROWS)
    assert [len(chunk) for chunk in found.chunks] == [2, 0, 1, 4]
    nothing = decode_arrow(pa.chunked_array([], pa.list_(pa.int32())), TOKENIZER)
    assert (len(nothing), nothing.type) == (0, pa.large_string())


# --- errors ---------------------------------------------------------------------------------------

SQUARES = pa.nulls(1, pa.fixed_shape_tensor(pa.int64(), [2, 2]))
SQUARE = pa.array([{"data": [1, 2, 3, 4], "shape": [2, 2]}])


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (pa.array(["text"]), "string"),
        (pa.array([1, 2]), "int64"),
        (pa.array([[1.0]]), "list<item: double>"),
        (pa.array([[True]]), "list<item: bool>"),
        (pa.array([["1"]]), "list<item: string>"),
        (pa.array([[[1]]]), "list<item: list<item: int64>>"),
        (pa.array([{"a": 1}]), "struct<a: int64>"),
        (pa.array([{"data": [1], "shape": ""}]), "struct<data: list<item: int64>, shape: string>"),
        (SQUARES, "extension<arrow.fixed_shape_tensor[value_type=int64, shape=[2,2]]>"),
        (SQUARE, "struct<data: list<item: int64>, shape: list<item: int64>>"),
    ],
    ids=str,
)
def test_an_array_without_lists_of_integers_is_reported(array: Any, kind: str) -> None:
    told = f"expected lists of integers (such as list<int32>), got an array of {kind}"
    with pytest.raises(TokenIdError, match=f"^{re.escape(told)}$"):
        decode_arrow(array, TOKENIZER)


@pytest.mark.parametrize("bad", [-1, 2**32, 2**63 - 1, 2**64 - 1])
def test_an_id_out_of_range_is_reported_with_its_place(bad: int) -> None:
    rows: list[list[int] | None] = [[1], None, [], [2, 3, bad, 4], [bad]]
    kind = pa.list_(pa.int64() if bad < 2**63 else pa.uint64())
    chunks = pa.chunked_array([rows[:2], rows[2:]], kind)
    for array in (pa.array(rows, kind), chunks, pa.array([[0], *rows], kind)):
        row = 3 + (len(array) == 6)
        with pytest.raises(TokenIdError) as caught:
            decode_arrow(array, TOKENIZER)
        assert str(caught.value) == (
            f"row {row}: token 2 is out of range: {bad}; "
            "a token id is an integer from 0 to 4294967295"
        )
        assert (caught.value.token_id, caught.value.index) == (bad, 2)


def test_a_null_among_ids_is_reported_with_its_place() -> None:
    for rows in ([[1], [2, None]], [[1], [2, None, -1]]):
        with pytest.raises(TokenIdError, match=r"^row 1: token 1 is of type NoneType: None; "):
            decode_arrow(pa.array(rows), TOKENIZER)
    with pytest.raises(TokenIdError, match=r"^row 0: token 0 is of type NoneType"):
        decode_arrow(pa.array([[None]]), TOKENIZER)


@pytest.mark.parametrize(
    ("array", "tokenizer", "told"),
    [
        ([[1]], TOKENIZER, "not list; for a list of rows write pyarrow.array(rows)"),
        (pa.table({"token_ids": [[1]]}), TOKENIZER, "not Table; for a list of rows write"),
        (TOKENIZER, pa.array([[1]]), "array must be .*, not MockTokenizer"),
        (pa.array([[1]]), "model", "method decode.* got 'model'; load_tokenizer"),
        (pa.array([], pa.list_(pa.int64())), "model", "method decode.* got 'model'; load_tok"),
    ],
)
def test_other_arguments_are_reported(array: Any, tokenizer: Any, told: str) -> None:
    with pytest.raises(TypeError, match=told.replace("(", r"\(").replace(")", r"\)")):
        decode_arrow(array, tokenizer)


@pytest.mark.parametrize("conditions", [None, StopConditions("no such text", max_tokens=3)])
def test_unknown_ids_are_counted_and_logged_once(
    conditions: StopConditions | None, caplog: pytest.LogCaptureFixture
) -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"b"])
    table = pa.table({"token_ids": [[0, 7, 1, 7], None, [8]]})
    decoder = BulkDecoder(tokenizer, conditions=conditions)
    assert decoder.decode(table)[1] == (3 if conditions is None else 2)
    assert decoder(table)["text"].to_pylist() == ["ab", None, ""]
    (record,) = caplog.records
    assert record.getMessage().endswith(
        "has no id 7; unknown ids are counted in unknown_tokens, and not logged again"
    )


# --- stops ----------------------------------------------------------------------------------------


def test_rows_without_a_stop_string_are_not_decoded_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, conditions = [[104, 105, 256, 104], [257], []], StopConditions("x", eos_token_ids=256)
    monkeypatch.setattr(StopSequenceDecoder, "feed", None)
    found = decode_arrow(pa.array(rows), TOKENIZER, conditions).to_pylist()
    cut = [(row["text"], row["token_index"]) for row in found]
    assert cut == [("hi", 2), ("the", None), ("", None)]


def test_an_error_of_stops_is_reported_with_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise StreamdecError("no more")

    monkeypatch.setattr(StopSequenceDecoder, "feed", fail)
    with pytest.raises(StreamdecError, match=r"^row 1: no more"):
        decode_arrow(pa.array([[98], [97]]), TOKENIZER, StopConditions("a", min_tokens=1))


def test_tables_go_with_their_tokenizer() -> None:
    tokenizer = HuggingFaceTokenizer(ZOO["byte_level"]())
    decode_arrow(pa.array([[1]]), tokenizer)
    before = len(gather._gathers)
    del tokenizer
    __import__("gc").collect()
    assert len(gather._gathers) == before - 1
