"""``decode_rollouts`` against a StopSequenceDecoder for each row, however the rows are decoded."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder, TokenIdError
from streamdec.bulk import Rollout, decode_arrow, decode_rollouts, rollouts
from tests.bulk.test_arrays import FEWER, subject
from tests.stop_model import Pieces, TokenTable, draw_conditions
from tests.strategies import token_ids
from tests.support.pages import Page, printed_by
from tests.support.zoo import ZOO

pytestmark = pytest.mark.filterwarnings("ignore:.*streaming over a window")

TOKENIZER = MockTokenizer.from_tokens(
    [b"Hi", b" you", b"!\nUs", b"er: no", "caf\xe9".encode()[:4], b"\xa9", b"<end>"], [6]
)
STOP = StopConditions("\nUser:", eos_token_ids=6)
ALWAYS, NEVER = 0, 2**40


@pytest.fixture(params=[ALWAYS, NEVER], ids=["column", "decoder"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are decoded as a column; and each by a decoder."""
    monkeypatch.setattr(rollouts, "FEWEST_TOKENS", request.param)


both_ways = pytest.mark.usefixtures("_way")


STOPPED = [*ZOO, "sentencepiece", "regex_after_fuse"]


class Parts(Pieces):
    """Parts of the text of ``ids``, of which ``specials`` have no text if they are skipped."""

    def __init__(self, rng: random.Random, text: str, ids: list[int], specials: list[str]) -> None:
        names, letters = tuple(map(str.encode, specials)), tuple(dict.fromkeys(text))
        self.table = TokenTable(names, tuple(range(len(names))), "", letters[:4], ())
        self.rng, self.text, self.ids = rng, text, tuple(ids)

    def draw_id(self) -> int:
        return self.rng.choice(self.ids)


def streamed(
    decoder: StopSequenceDecoder, row: Sequence[int], *, spans: bool
) -> tuple[Rollout, dict[str, Any]]:
    """What a stream gives for ``row``, id by id: as a Rollout, and as a row of ``decode_arrow``."""
    text, kept = "", []
    for token_id in row:
        chunk = decoder.step(token_id)
        text += chunk.text
        kept.append(token_id)
        if chunk.finish_reason is not None:
            break
    text += decoder.flush("abort").text
    reason = None if decoder.finish_reason == "abort" else decoder.finish_reason
    match = decoder.match
    stop = match and match.stop
    struct = {
        "text": text,
        "finish_reason": reason,
        "stop_reason": stop if isinstance(stop, str) else None,
        "stop_token_id": stop if isinstance(stop, int) else None,
        "token_index": match and match.token_index,
        "tokens_before": match and match.tokens_before,
        "unread_tokens": len(row) - len(kept),
        "unknown_tokens": decoder.unknown_tokens,
    }
    taken = decoder.take_spans() if spans else None
    return Rollout(text, kept, reason, match, spans=taken), struct


def check_spans(rollout: Rollout) -> None:
    """The spans are those of the ids, in order, and cover the text."""
    text, spans = rollout.text, rollout.spans
    assert spans is not None
    assert [span.token_index for span in spans] == [*range(len(rollout.token_ids))]
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    covered = {place for span in spans for place in range(span.start, span.end)}
    assert covered == {*range(len(text))}
    for span in spans:
        assert span.byte_start == len(text[: span.start].encode())
        assert span.byte_end == len(text[: span.end].encode())


# --- each row is what a stream gives --------------------------------------------------------------


@pytest.mark.parametrize("name", STOPPED)
@FEWER
@given(data=st.data(), skip=st.booleans(), spans=st.booleans(), fewest=st.sampled_from([0, 2**40]))
def test_each_row_is_what_a_stream_gives(
    name: str, data: st.DataObject, skip: bool, spans: bool, fewest: int
) -> None:
    it = subject(name)
    spans = spans and has_spans(it.tokenizer)
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    rows = data.draw(st.lists(token_ids(it), max_size=4))
    rows.append(rng.choices(it.usual + it.partial, k=4))
    rows += [rng.choices(it.ordinary, k=size) for size in (3, 9)]
    ids = [i for row in rows for i in row]
    specials = [each for each in it.tokenizer.special_tokens.all if each][:3]
    text = it.tokenizer.decode(ids) or "a"
    prompt = token_ids(it) | st.just(ids[:1])
    prompts = data.draw(st.none() | st.lists(prompt, min_size=len(rows), max_size=len(rows)))
    options: dict[str, Any] = {"spans": spans, "skip_special_tokens": skip}
    parts = Parts(rng, text, ids, specials)
    at = rng.randrange(len(text))
    cases = [draw_conditions(rng, parts).build() for _ in range(2)]
    cases.append(StopConditions(stop_regex=f"{re.escape(text[at])}[^x]?"))
    strings = filter(None, [text[at : at + 2], text[at + 1 : at + 3]])
    plain = StopConditions(
        [*strings],
        min_tokens=rng.choice((0, 0, 2)),
        max_tokens=rng.choice((None, 4)),
        eos_token_ids=ids[-1],
        include_stop_str_in_output=rng.random() < 0.3,
    )
    cases.append(plain)
    for conditions in cases:
        make = partial(StopSequenceDecoder, it.tokenizer, conditions, **options)
        decoders = map(make, prompts or [[]] * len(rows))
        given = zip(decoders, rows, strict=True)
        expected = [streamed(decoder, row, spans=spans) for decoder, row in given]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rollouts, "FEWEST_TOKENS", fewest)
            read_once = prompts and map(iter, prompts)
            found = decode_rollouts(
                rows, it.tokenizer, conditions, prompt_token_ids=read_once, **options
            )
        assert found == [rollout for rollout, _ in expected]
        if prompts is None:
            for each in found if spans else ():
                check_spans(each)
            array = pa.array(rows, pa.list_(pa.uint32()))
            structs = decode_arrow(array, it.tokenizer, conditions, skip_special_tokens=skip)
            assert structs.to_pylist() == [struct for _, struct in expected]


def has_spans(tokenizer: Any) -> bool:
    try:
        StopSequenceDecoder(tokenizer, spans=True)
    except ValueError:
        return False
    return True


# --- what is cut alike ----------------------------------------------------------------------------


@both_ways
def test_sequences_are_cut_as_the_ids_are() -> None:
    rows = [[6, 0, 6, 6], [0, 1, 2, 3], [6, 6, 6, 6]]
    mask = [[0, 1, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]]
    logprobs = [[0.0, -0.1, -0.2, 0.0], [-1.0, -2.0, -3.0, -4.0], [0.0] * 4]
    found = decode_rollouts(rows, TOKENIZER, STOP, mask=mask, logprobs=logprobs)
    assert [each.token_ids for each in found] == [[0, 6], [0, 1, 2, 3], []]
    assert [each.logprobs for each in found] == [[-0.1, -0.2], [-1.0, -2.0, -3.0, -4.0], []]
    assert [each.text for each in found] == ["Hi", "Hi you!", ""]


class Column:
    """The part of a Polars column that the code uses. It has no ``tolist`` and no ``ndim``."""

    dtype = "List(Int64)"

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def to_list(self) -> list[Any]:
        return self._values


def objects(*rows: Any) -> Any:
    """Return an array of lists, as in a column of pandas."""
    found = np.empty(len(rows), object)
    found[:] = rows
    return found


@both_ways
@pytest.mark.parametrize(
    "rows",
    [
        pa.array([[0, 6], [1]]),
        pa.chunked_array([[[0, 6]], [[1]]]),
        [*pa.array([[0, 6], [1]])],
        [pa.array([0, 6]), pa.array([1])],
        Column([Column([0, 6]), Column([1])]),
        objects([0, 6], np.array([1])),
    ],
    ids=["Arrow", "chunks", "rows of Arrow", "arrays of Arrow", "Polars", "pandas"],
)
def test_columns_of_libraries_are_rows_of_plain_ids(rows: Any) -> None:
    first, second = decode_rollouts(rows, TOKENIZER, STOP, mask=pa.array([[1, 1], [1]]))
    assert (first.text, first.token_ids, second.token_ids) == ("Hi", [0, 6], [1])
    assert {type(each) for each in first.token_ids + second.token_ids} == {int}


@both_ways
def test_arrays_are_sliced_and_stay_arrays() -> None:
    rows = np.array([[0, 6, 6], [0, 1, 1]])
    logprobs = np.array([[-0.5, -0.25, 0.0], [-1.0, -2.0, -3.0]], np.float32)
    found = decode_rollouts(rows, TOKENIZER, STOP, mask=rows != 6, logprobs=logprobs)
    assert [each.token_ids for each in found] == [[0], [0, 1, 1]]
    assert all(type(token_id) is int for each in found for token_id in each.token_ids)
    assert isinstance(found[1].logprobs, np.ndarray)
    assert found[0].logprobs.tolist() == [-0.5]


# --- rows that cannot be decoded ------------------------------------------------------------------

BAD: list[Any] = [-100, 2**32, 2**64, True, 1.0, None, "1"]


@both_ways
@pytest.mark.parametrize("spans", [False, True])
@pytest.mark.parametrize("bad", BAD, ids=repr)
def test_a_bad_id_ends_its_row_alone(bad: Any, spans: bool) -> None:
    rows: Any = [[0, 1], [0, 4, bad, 1], [0, 6, bad], [bad], [1, 1]]
    logprobs = [[-1.0] * len(row) for row in rows]
    found = decode_rollouts(rows, TOKENIZER, STOP, logprobs=logprobs, spans=spans)
    assert [each.text for each in found] == ["Hi you", "Hicaf\ufffd", "Hi", "", " you you"]
    assert [each.finish_reason for each in found] == [None, "error", "stop", "error", None]
    assert [each.token_ids for each in found] == [[0, 1], [0, 4], [0, 6], [], [1, 1]]
    assert [each.logprobs for each in found] == [[-1.0] * len(each.token_ids) for each in found]
    assert [each.error is None for each in found] == [True, False, True, False, True]
    assert isinstance(found[1].error, TokenIdError)
    for each in found if spans else ():
        check_spans(each)


@both_ways
def test_an_unknown_id_is_an_error_if_that_is_asked_for() -> None:
    rows = [[0, 99, 1], [0, 1]]
    assert [each.text for each in decode_rollouts(rows, TOKENIZER)] == ["Hi you", "Hi you"]
    found = decode_rollouts(rows, TOKENIZER, unknown_ids="error")
    assert [each.text for each in found] == ["Hi", "Hi you"]
    assert [type(each.error) for each in found] == [TokenIdError, type(None)]
    found = decode_rollouts(rows, TOKENIZER, unknown_ids="replace")
    assert [each.text for each in found] == ["Hi\ufffd you", "Hi you"]


@both_ways
def test_a_bad_prompt_ends_its_row_alone() -> None:
    found = decode_rollouts([[0], [1]], TOKENIZER, prompt_token_ids=[[-1], [0]], spans=True)
    assert [(each.text, each.finish_reason) for each in found] == [("", "error"), (" you", None)]
    assert [len(each.spans or ()) for each in found] == [0, 1]
    assert found[0].spans == []
    assert isinstance(found[0].error, TokenIdError)


# --- calls that are wrong -------------------------------------------------------------------------

NO_SPANS = subject("regex_after_fuse").tokenizer


@pytest.mark.parametrize(
    ("given", "kind", "told"),
    [
        ({"rows": [0, 1]}, TypeError, "row 0: token ids must be a list or an array, not int"),
        ({"rows": [np.array([[0]])]}, TypeError, "row 0: an array of token ids must have one dim"),
        ({"rows": "text"}, TypeError, "row 0: token ids must be a list or an array, not str; "),
        ({"rows": pa.table({"a": [[0]]})}, TypeError, "row 0: token ids must be a list or an arr"),
        ({"rows": [[0], None]}, TypeError, "row 1: token ids must be a list or an array, not None"),
        ({"rows": TOKENIZER, "tokenizer": [[0]]}, TypeError, "must have a method decode(token_ids"),
        ({"conditions": "stop"}, TypeError, "not 'stop'; write stop=..."),
        ({"conditions": STOP, "stop": "x"}, TypeError, "got conditions and stop"),
        ({"prompt": []}, TypeError, "unexpected keyword argument 'prompt'"),
        ({"mask": [[1, 1]]}, ValueError, "mask has 1 rows, and there are 2 rows of ids"),
        ({"mask": [[1, 1], [1, 1]]}, ValueError, "mask of row 1 has 2 values for 1 ids"),
        ({"mask": [[1, 0.5], [1]]}, ValueError, "mask of row 0: expected 0s, then 1s, then 0s"),
        ({"rows": [[0] * 3], "mask": [[1, 0, 1]]}, ValueError, "mask of row 0: expected 0s, then"),
        ({"logprobs": [[0.0]] * 2}, ValueError, "logprobs of row 0 has 1 values for 2 ids"),
        ({"logprobs": [None, None]}, ValueError, "logprobs of row 0 has None for 2 ids"),
        ({"prompt_token_ids": [[0]]}, ValueError, "prompt_token_ids has 1 rows"),
        ({"tokenizer": NO_SPANS, "spans": True}, ValueError, "spans and log probabilities need"),
    ],
    ids=range(17),
)
def test_a_wrong_call_is_reported(given: dict[str, Any], kind: type[Exception], told: str) -> None:
    with pytest.raises(kind) as caught:
        decode_rollouts(**{"rows": [[0, 1], [2]], "tokenizer": TOKENIZER, **given})
    assert told in str(caught.value)


def test_without_pyarrow_rows_are_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollouts, "FEWEST_TOKENS", ALWAYS)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (found,) = decode_rollouts([[0, 1, 2, 3]], TOKENIZER, STOP, spans=True)
    assert (found.text, len(found.spans or ())) == ("Hi you!", 4)


def test_the_example_of_the_page_prints_what_it_says() -> None:
    """Its recipes are run where their trainers are installed: tests/integrations/rollouts."""
    ((code, text),) = Page("docs/how-to/train.md").examples
    assert printed_by(code) == text.splitlines()
