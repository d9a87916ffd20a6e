"""``BulkDecoder``: from table to table, in this process and in others."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamdec import MockTokenizer, StopConditions
from streamdec.bulk import BulkDecoder, batches, decode_arrow
from streamdec.errors import SourceError, TokenizerLoadError
from tests.cli.running import LIBRARY, TOKENIZER

IDS = [list(LIBRARY.encode(text).ids) for text in ("It is an owl 🦉.", "", "Useful.\nUser: what")]
TEXTS = [LIBRARY.decode(ids) for ids in IDS]
TABLE = pa.table({"id": [1, 2, 3], "token_ids": IDS, "more": [None, "a", "b"]})
STOPS = StopConditions("\nUser:")
COLUMNS = ["finish_reason", "stop_reason", "stop_token_id", "token_index", "tokens_before"]
COLUMNS += ["unread_tokens", "unknown_tokens"]


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "_loaded", {})


@pytest.mark.parametrize("given", [TABLE, TABLE.to_batches()[0]], ids=["table", "batch"])
@pytest.mark.parametrize("conditions", [None, STOPS], ids=["no stops", "stops"])
def test_columns_are_appended(given: Any, conditions: StopConditions | None) -> None:
    decoder = BulkDecoder(TOKENIZER, conditions=conditions)
    found = decoder(given)
    assert type(found) is type(given)
    names = ["text", *COLUMNS] if conditions else ["text"]
    assert found.schema.names == ["id", "token_ids", "more", *names]
    assert found.select(TABLE.column_names) == given
    expected = decode_arrow(TABLE["token_ids"], decoder.tokenizer, conditions=conditions)
    if conditions is None:
        assert found["text"].to_pylist() == expected.to_pylist() == TEXTS
    else:
        assert found.select(names).to_pylist() == expected.to_pylist()
        assert found["text"].to_pylist()[2] == "Useful."


def test_the_tokenizer_is_loaded_once_in_a_process_and_not_before() -> None:
    first, second = BulkDecoder(TOKENIZER), BulkDecoder(str(TOKENIZER))
    again = pickle.loads(pickle.dumps(first))
    assert batches._loaded == {}
    assert first.tokenizer is second.tokenizer is again.tokenizer
    assert len(batches._loaded) == 1
    assert len(pickle.dumps(first)) < 1_000
    assert again(TABLE) == first(TABLE)
    other = BulkDecoder(TOKENIZER, loading={"fast": "now"})
    assert other.tokenizer is not first.tokenizer


def test_a_tokenizer_itself_is_pickled_too() -> None:
    tokenizer = MockTokenizer.from_tokens([b"Hi", b"!"])
    decoder = BulkDecoder(tokenizer, "ids", prefix="a_", skip_special_tokens=False)
    again = pickle.loads(pickle.dumps(decoder))
    assert again.tokenizer is not tokenizer
    assert again(pa.table({"ids": [[0, 1]]})).column("a_text").to_pylist() == ["Hi!"]


def test_the_schema_is_known_before_any_row() -> None:
    for decoder in (BulkDecoder(TOKENIZER), BulkDecoder(TOKENIZER, conditions=STOPS)):
        assert decoder.schema(TABLE.schema) == decoder(TABLE).schema
    with pytest.raises(SourceError, match="no column 'token_ids'; the columns are: 'x'"):
        BulkDecoder(TOKENIZER).schema(pa.schema({"x": pa.int64()}))


def test_rollouts_whose_columns_have_our_names_are_cut_too() -> None:
    table = TABLE.append_column("finish_reason", [["length", "length", "stop"]])
    message = (
        r"^there is a column 'finish_reason' already; choose other names for the new columns "
        r"with prefix= \(or --prefix\), such as 'new_'$"
    )
    with pytest.raises(SourceError, match=message):
        BulkDecoder(TOKENIZER, conditions=STOPS)(table)
    decoder = BulkDecoder(TOKENIZER, prefix="new_", conditions=STOPS)
    assert decoder.columns == [f"new_{name}" for name in ("text", *COLUMNS)]
    found = decoder(table)
    assert found.select(table.column_names) == table
    assert found["new_finish_reason"].to_pylist() == [None, None, "stop"]


def test_a_missing_or_doubled_column_is_reported() -> None:
    message = (
        "^no column 'ids'; the columns are: 'id', 'token_ids', 'more'; "
        r"choose one with column= \(or --column\)$"
    )
    with pytest.raises(SourceError, match=message):
        BulkDecoder(TOKENIZER, "ids")(TABLE)
    twice = pa.Table.from_arrays([TABLE["token_ids"]] * 2, ["token_ids"] * 2)
    with pytest.raises(SourceError, match=r"^several columns are called 'token_ids'; rename the o"):
        BulkDecoder(TOKENIZER)(twice)


def test_something_else_than_a_table_is_reported() -> None:
    for given in (TABLE["token_ids"], IDS, {"token_ids": IDS}, map(str, [])):
        told = f"expected a pyarrow Table or RecordBatch, got {type(given).__name__}; batch_format="
        with pytest.raises(TypeError, match=f"^{told}"):
            BulkDecoder(TOKENIZER)(given)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tokenizer": MockTokenizer(), "loading": {"revision": "a"}}, "remove revision"),
        ({"conditions": "User:"}, "conditions must be StopConditions, not 'User:'"),
        ({"colum": "ids"}, "unexpected keyword argument 'colum'"),
        ({"conditions": STOPS, "stop": "x"}, "got conditions and stop"),
    ],
)
def test_bad_options_are_reported_at_once(options: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError, match=re.escape(told)):
        BulkDecoder(**{"tokenizer": TOKENIZER, **options})


def test_a_missing_tokenizer_is_reported_when_it_is_needed(tmp_path: Path) -> None:
    decoder = BulkDecoder(tmp_path / "none")
    with pytest.raises(TokenizerLoadError, match="none") as raised:
        decoder(TABLE)
    assert "column" not in str(raised.value)
