"""What engines give: ids found in outputs of every shape, and their own words for the end."""

from __future__ import annotations

import enum
import operator
import warnings
from collections import UserList, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple, get_args

import numpy as np
import pytest

from streamdec import Chunk, FinishReason, MockTokenizer, SourceError, StreamdecWarning, iter_chunks
from streamdec.streams.outputs import OutputReader
from streamdec.streams.reading import MAX_TOKENS_AT_ONCE
from tests.core.test_token_ids import PandasColumn, PolarsColumn
from tests.streams.engines import read_async, read_plain

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b", b"c", b"STOP"])


def ids_in(*outputs: Any, **options: Any) -> list[list[int]]:
    reader = OutputReader(**options)
    return [[*map(int, reader.parts(output)[0])] for output in outputs]


class Named(NamedTuple):
    """An output that is a tuple too."""

    token_ids: list[int]


class Numbered(NamedTuple):
    """An output that is a tuple, and would be one of two ids."""

    output_ids: list[int] | int
    rank: int = 0


# --- plain ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "ids"),
    [
        (np.array(5), [5]),
        (np.array([5, 6], dtype=np.uint16), [5, 6]),
        (range(5, 7), [5, 6]),
        (UserList([5, 6]), [5, 6]),
        (deque([5, 6]), [5, 6]),
        (PandasColumn(), [1, 2, 3]),
        (PolarsColumn(), [1, 2, 3]),
        (Named([5, 6]), [5, 6]),
        (Numbered([5, 6], 1), [5, 6]),
        ({"token_ids": None}, []),
        ({"token_ids": None, "output_ids": [5, 6]}, [5, 6]),
        ({"token_ids_diff": None, "token_ids": [5, 6]}, [5, 6]),
        ({"outputs": [], "token_ids": [5, 6]}, [5, 6]),
        ({"outputs": iter(()), "output_ids": [5, 6]}, [5, 6]),
    ],
)
def test_ids_are_found_in_numbers_lists_arrays_and_tensors(output: Any, ids: list[int]) -> None:
    assert ids_in(output) == [ids]


@pytest.mark.parametrize("kind", [list, tuple, np.array, deque, UserList])
@pytest.mark.parametrize("options", [{}, {"chunk_by": "token"}, {"cumulative": True}])
def test_ids_of_any_kind_are_divided_where_they_must_be(
    kind: Callable[[list[int]], Any], options: dict[str, Any]
) -> None:
    """A chunk covers 256 at most; a deque has no slices."""
    size = 2 * MAX_TOKENS_AT_ONCE + 1
    sizes = [len(c.text) for c in iter_chunks([kind([0]), kind([0] * size)], TOKENIZER, **options)]
    assert sum(sizes) == size + ("cumulative" not in options)
    assert max(sizes) == (1 if "chunk_by" in options else MAX_TOKENS_AT_ONCE)


# --- engines --------------------------------------------------------------------------------------


@dataclass
class Completion:
    """As vLLM's CompletionOutput."""

    token_ids: Sequence[int]
    index: int = 0
    text: str = ""
    finish_reason: str | None = None
    stop_reason: int | str | None = None


@dataclass
class RequestOutput:
    """As vLLM's."""

    outputs: list[Any]
    finished: bool = False
    prompt_token_ids: list[int] = field(default_factory=lambda: [9, 9, 9])


@dataclass
class Result:
    """As TensorRT-LLM's: one object that grows, and says what is new."""

    token_ids: list[int] = field(default_factory=list)
    seen: int = 0
    index: int = 0
    finish_reason: str | None = None
    stop_reason: int | str | None = None

    @property
    def outputs(self) -> list[Result]:
        return [self]

    @property
    def token_ids_diff(self) -> list[int]:
        return self.token_ids[self.seen :]

    def grown(self, *ids: int) -> Result:
        self.seen = len(self.token_ids)
        self.token_ids += ids
        return self


def sglang(*ids: int, index: int = 0, reason: Any = None) -> dict[str, Any]:
    meta = {"id": "1", "finish_reason": reason, "prompt_tokens": 3}
    return {"text": "", "output_ids": [*ids], "index": index, "meta_info": meta}


def vllm(*ids: int, **kwargs: Any) -> RequestOutput:
    return RequestOutput([Completion([*ids], **kwargs)], finished="finish_reason" in kwargs)


def test_samples_that_grow_in_turns_are_read_one_at_a_time() -> None:
    """Of all samples, each output of TensorRT-LLM has what was new when they last grew."""
    first, second = Result(), Result(index=1)

    def engine() -> Any:
        both = SimpleNamespace(outputs=[first, second])
        first.grown(0)
        yield both
        second.grown(1)
        yield both
        first.grown(2)
        second.grown(0).finish_reason = "stop"
        yield both

    chunks = iter_chunks(engine(), TOKENIZER, index=1, cumulative=True)
    assert [*chunks] == [Chunk("b"), Chunk("a"), Chunk("", "stop")]
    first.token_ids, second.token_ids = [], []
    with pytest.raises(SourceError, match=r"token_ids_diff of several samples .* cumulative=True"):
        next(iter_chunks(engine(), TOKENIZER, index=1))


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        ([[0, 1], [1]], [[0, 1], []]),
        ([[0], [1, 1]], [[0], [1]]),
        ([[0], [1]], [[0], [1]]),
        ([[1]], [[]]),
    ],
)
def test_an_id_that_sglang_gives_again_with_an_abort_is_read_once(
    outputs: list[list[int]], expected: list[list[int]]
) -> None:
    """Aborted while it waits, after it was taken back from the batch; the count is all so far."""
    total = sum(map(len, expected))
    given = [sglang(*ids) for ids in outputs]
    given[-1]["meta_info"] |= {"finish_reason": {"type": "abort"}, "completion_tokens": total}
    assert ids_in(*given) == expected
    given[-1]["meta_info"]["finish_reason"] = {"type": "length", "length": total}
    assert ids_in(*given) == outputs, "only an abort repeats"


def test_text_that_the_engines_end_releases_may_be_a_stop() -> None:
    """It is matched like any text; the finish is then ours."""
    tokens = MockTokenizer.from_tokens([b"a", b"\xe4\xbd"])
    chunks = iter_chunks(
        [[0, 1], {"token_ids": (), "finish_reason": "length"}], tokens, stop="a\ufffd"
    )
    assert [*chunks] == [Chunk("", "stop", "a\ufffd")]
    assert chunks.engine_finish_reason == "length"


# --- words for the end ----------------------------------------------------------------------------


class Why(enum.Enum):
    STOP = "stop"
    LENGTH = 0
    NONE = 1
    NOT_FINISHED = 2


@pytest.mark.parametrize(
    ("word", "reason", "kept"),
    [
        *((reason, reason, reason) for reason in get_args(FinishReason)),
        ("eos", "stop", "eos"),
        ("tool_use", "stop", "tool_use"),
        ("repetition", "length", "repetition"),
        ("cancelled", "abort", "cancelled"),
        ("refusal", "content_filter", "refusal"),
        ("error: out of memory", "error", "error: out of memory"),
        ("STOP", "stop", "STOP"),
        (Why.STOP, "stop", "stop"),
        (Why.LENGTH, "length", "length"),
        ({"type": "length", "length": 9}, "length", "length"),
        ({"type": "abort", "message": "gone"}, "abort", "abort"),
        ({"error": "out of memory"}, "error", "error: out of memory"),
    ],
)
def test_an_engines_finish_reason_is_translated_and_kept(word: Any, reason: str, kept: str) -> None:
    chunks = iter_chunks([{"token_ids": [0], "finish_reason": word}], TOKENIZER)
    assert [*chunks][-1] == Chunk("", reason)  # type: ignore[arg-type]
    assert chunks.engine_finish_reason == kept


@pytest.mark.parametrize(
    ("word", "stop"), [("stop", None), ("stop", True), ("stop", ["x"]), ("length", 7)]
)
def test_a_stop_reason_is_text_or_an_id_and_belongs_to_a_stop(word: Any, stop: Any) -> None:
    output = {"token_ids": [], "finish_reason": word, "stop_reason": stop}
    assert [*iter_chunks([output], TOKENIZER)] == [Chunk("", word)]


@pytest.mark.parametrize(
    "word", [None, "", {}, {"type": None}, {"type": ""}, 0, False, Why.NONE, Why.NOT_FINISHED]
)
def test_an_empty_finish_reason_does_not_end_a_stream(word: Any) -> None:
    outputs = [{"token_ids": [0], "finish_reason": word}, {"token_ids": [1]}]
    chunks = iter_chunks(outputs, TOKENIZER)
    assert [chunk.text for chunk in chunks] == ["a", "b", ""]
    assert chunks.engine_finish_reason is None


# --- several samples ------------------------------------------------------------------------------


def test_samples_without_an_index_are_counted() -> None:
    outputs = [{"outputs": [{"token_ids": [0]}, {"token_ids": [1]}]}, {"outputs": []}]
    assert ids_in(*outputs, index=0) == [[0], []]
    assert ids_in(*outputs, index=1) == [[1], []]
    for several, shown in ((outputs, "0 and 1"), ([vllm(0, index=3), vllm(2)], "3 and 0")):
        with pytest.raises(SourceError, match=f"samples, such as {shown}; choose one with index="):
            ids_in(*several)


# --- cumulative outputs must grow -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "problem"),
    [
        ([[0, 1], [0]], r"length 2 that ends with \[0, 1\], an output of length 1 has \[0\]"),
        ([[0, 1], []], r"an output of length 0 has \[\]"),
        ([0, 1], r"an output of length 1 has \[1\]"),
        ([sglang(0, 1), sglang(2)], r"an output of length 1 has \[2\]"),
        ([[*range(20)], [*range(19), 7, 7]], r"an output of length 21 has \[.*18, 7\]"),
    ],
)
def test_a_cumulative_output_that_does_not_continue_is_rejected(
    outputs: list[Any], problem: str
) -> None:
    with pytest.raises(SourceError, match=f"cumulative=True expects .*{problem}"):
        ids_in(*outputs, cumulative=True)


# --- anything else, by ids= -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ids", "outputs"),
    [
        (lambda output: output[0], [(0, "logprobs"), (1, "logprobs")]),
        (lambda output: output.new, [SimpleNamespace(new=[0]), SimpleNamespace(new=np.array([1]))]),
        (lambda output: output["data"], [{"data": {"token_ids": [0]}}, {"data": sglang(1)}]),
        (lambda output: output, [0, [1]]),
        (lambda output: output.get("new"), [{"new": 0}, {"heartbeat": 1}, {"new": [1]}]),
    ],
)
def test_ids_says_where_they_are(ids: Callable[[Any], Any], outputs: list[Any]) -> None:
    chunks = iter_chunks([*outputs], TOKENIZER, ids=ids)
    assert [chunk.text for chunk in chunks] == ["a", "b", ""]


@pytest.mark.parametrize("item", [0, True, "a", {"new": 0}, None])
@pytest.mark.parametrize("read", [read_plain, read_async])
def test_ids_gets_each_output_as_it_is(read: Callable[..., list[Chunk]], item: Any) -> None:
    """Lists of one item too, which a stream without ``ids`` may read as one id."""
    outputs = [[item], [item, item], item, [item]]
    given: list[Any] = []

    def ids(output: Any) -> list[int]:
        given.append(output)
        return [0]

    assert read(outputs, TOKENIZER, ids=ids) == [*[Chunk("a")] * len(outputs), Chunk("", "length")]
    assert all(map(operator.is_, given, outputs))


@pytest.mark.parametrize("last", [[0, 1], [0], None])
@pytest.mark.parametrize("cumulative", [False, True])
def test_the_end_is_found_in_the_output_where_ids_gives_only_ids(
    last: list[int] | None, cumulative: bool
) -> None:
    """An engine may take back its stop, or have nothing more to give."""
    if last is not None and not cumulative:
        last = last[1:]
    outputs = [
        SimpleNamespace(new=[0], finish_reason=None),
        SimpleNamespace(new=last, finish_reason="eos", stop_reason=7),
        SimpleNamespace(new=[0], finish_reason=None),
    ]
    chunks = iter_chunks(outputs, TOKENIZER, ids=lambda o: o.new, cumulative=cumulative)
    body = [Chunk("a"), Chunk("b")] if last and 1 in last else [Chunk("a")]
    assert [*chunks] == [*body, Chunk("", "stop", 7)]
    assert chunks.engine_finish_reason == "eos"


def test_the_end_is_found_in_the_output_where_ids_gives_a_part_of_it() -> None:
    """The word of the part counts before the word of the output. Other samples do not count."""
    outputs: list[dict[str, Any]] = [
        {"data": {"token_ids": [0]}, "finish_reason": None},
        {"data": {"token_ids": [1], "index": 0}, "finish_reason": "eos", "stop_reason": 7},
        {"data": {"token_ids": [0]}},
    ]
    chunks = iter_chunks(outputs, TOKENIZER, ids=lambda o: o["data"])
    assert [*chunks] == [Chunk("a"), Chunk("b"), Chunk("", "stop", 7)]
    assert chunks.engine_finish_reason == "eos"
    outputs[0]["data"] = {"token_ids": [0], "finish_reason": "length"}
    outputs[0]["finish_reason"] = "stop"
    ended = iter_chunks(outputs, TOKENIZER, ids=lambda o: o["data"])
    assert [*ended] == [Chunk("a"), Chunk("", "length")]
    others = {"data": {"token_ids": [1], "index": 1}, "finish_reason": "stop"}
    both = [others, {"data": {"token_ids": [0], "index": 0}}]
    read = iter_chunks(both, TOKENIZER, ids=lambda o: o["data"], index=0)
    assert [*read] == [Chunk("a"), Chunk("", "length")]


# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        ("secret", "a str of length 6,"),
        (1.0, "1.0"),
        (None, "None"),
        ({"text": "secret", "meta_info": {}}, r"a dict with the fields \['meta_info', 'text'\]"),
        ({1, 2}, "a set,"),
        (SimpleNamespace(text="secret", _n=1), r"a SimpleNamespace with the fields \['text'\],"),
        (SimpleNamespace(outputs=5), r"a SimpleNamespace with the fields \['outputs'\],"),
        (RequestOutput([SimpleNamespace(text="secret")]), "RequestOutput"),
        ({"token_ids": "secret"}, "a dict with"),
    ],
)
def test_the_error_for_an_output_without_ids_names_the_expected_forms(
    output: Any, shown: str
) -> None:
    """It has no text of an answer, because a server logs it."""
    with pytest.raises(SourceError, match=f"no token ids in .*{shown}") as raised:
        OutputReader().parts(output)
    told = str(raised.value)
    assert "expected an id, a list of ids, or an object with token_ids, output_ids" in told
    assert "pass ids=, a function that returns the ids" in told
    assert "secret" not in told


def test_a_chunk_is_not_an_output() -> None:
    """Its text would be lost if it had no ids."""
    with pytest.raises(SourceError, match="a Chunk: its text is already decoded") as raised:
        OutputReader().parts(Chunk("secret", token_ids=(1,)))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("read", [read_plain, read_async])
def test_an_index_that_no_output_has_is_an_error(read: Callable[..., list[Chunk]]) -> None:
    outputs = [{"outputs": [{"index": 0, "token_ids": [1], "finish_reason": "stop"}]}]
    with pytest.raises(SourceError, match=r"no output of the source had the sample index=1; sam"):
        read(outputs, TOKENIZER, index=1)
    assert read([], TOKENIZER, index=1)[-1].finish_reason == "length"
    empty: list[Any] = [{"outputs": []}]
    for source in (empty, [*empty, [1, 2]]):
        assert read(source, TOKENIZER)[-1].finish_reason == "length"
    both = [{"index": 1, "token_ids": [1], "finish_reason": "stop"}, [2]]
    assert read(both, TOKENIZER, index=0)[-1].finish_reason == "length"
    other = [{"index": 1, "token_ids": [2]}, *outputs]
    assert "".join(chunk.text for chunk in read(other, TOKENIZER, index=1)) == TOKENIZER.decode([2])


# --- cumulative outputs that were not announced ---------------------------------------------------

LETTERS = MockTokenizer.from_tokens([bytes([byte]) for byte in range(256)])


def outputs_of(counts: Sequence[int]) -> list[Any]:
    """Lists of the first ids of one sequence, as many as ``counts`` says."""
    ids = [*b"abcdefgh"]
    return [ids[:count] for count in counts]


@pytest.mark.parametrize(
    ("outputs", "repeated"),
    [
        (outputs_of([2, 3, 4]), "ab"),  # at the second output
        (outputs_of([0, 2, 3, 4]), "ab"),
        (outputs_of([1, 2, 3, 4]), "aab"),  # one id may repeat by chance, two do not
        ([[97] * size for size in range(1, 4)] + [[97, 97, 97, 98], [97, 97, 97, 98, 99]], None),
    ],
)
@pytest.mark.parametrize("shape", [lambda ids: ids, lambda ids: {"token_ids": ids}])
def test_cumulative_outputs_are_noticed_before_text_is_repeated_twice(
    outputs: list[Any], repeated: str | None, shape: Callable[[Any], Any]
) -> None:
    """With the warning as an error, no more text comes."""
    chunks = iter_chunks([shape(ids) for ids in outputs], LETTERS)
    texts: list[str] = []
    with pytest.raises(StreamdecWarning, match="or give the stream cumulative=True"):
        texts.extend(chunk.text for chunk in chunks)
    if repeated is not None:
        assert "".join(texts) == repeated


@pytest.mark.parametrize(
    "outputs",
    [
        outputs_of([1, 2]),  # One id that comes again may be a coincidence.
        [[97], [97], [97, 98]],
        [[97, 98], [97, 98], [98]],
        [[97] * size for size in range(1, 9)],  # A line of equal tokens.
        [[97, 98], [97], [97, 98], [97, 98, 99], [97, 98, 99, 100]],
        [[97], [98], *([*b"cdefghijk"[:size]] for size in range(1, 9))],
        [each for count in range(2, 7) for each in ([*b"abcdefg"][:count], [97])],
    ],
)
def test_outputs_that_do_not_repeat_ids_cause_no_warning(outputs: list[Any]) -> None:
    text = "".join(chunk.text for chunk in iter_chunks(outputs, LETTERS))
    assert text == bytes(token_id for output in outputs for token_id in output).decode()


# --- outputs whose shape is known -----------------------------------------------------------------

FIELDS: dict[str, list[Any]] = {
    "index": [0, 1, None, True],
    "finish_reason": [None, "stop", "abort", ""],
    "token_ids": [(1, 2), [1, 2], [], None, 2, "ab"],
    "meta_info": [None, {}, {"finish_reason": None}, {"finish_reason": {"type": "abort"}}],
    "token_ids_diff": [[7]],
    "outputs": [None, [], 5, [{"token_ids": [0]}], [{"token_ids": [0]}] * 2],
}
USUAL: dict[str, Callable[..., Any]] = {
    "dict": lambda **fields: {"token_ids": [0], **fields},
    "no samples": lambda **fields: {"token_ids": [0], "outputs": None, **fields},
    "nothing new": lambda **fields: {"token_ids_diff": None, "token_ids": [0], **fields},
    "sglang": lambda **fields: sglang(0) | fields,
    "dynamo": lambda **fields: {"token_ids": [0], "finish_reason": None, "index": 0, **fields},
    "vllm": lambda **fields: RequestOutput([Completion(**{"token_ids": [0], **fields})]),
    "tensorrt": lambda **fields: RequestOutput(
        [Grown(**{"token_ids": [9, 0], "token_ids_diff": [0], **fields})]
    ),
    "meta_info": lambda **fields: RequestOutput([Informed(**{"token_ids": [0], **fields})]),
}


@dataclass
class Grown(Completion):
    token_ids_diff: list[int] | None = None


@dataclass
class Informed(Completion):
    meta_info: Any = None


@pytest.mark.parametrize("kind", USUAL)
@pytest.mark.parametrize("options", [{}, {"index": 0}], ids=str)
def test_an_output_that_differs_from_a_known_shape_is_read_as_any_output(
    kind: str, options: dict[str, Any]
) -> None:
    usual = USUAL[kind]
    fields = usual() if isinstance(usual(), dict) else vars(usual().outputs[0])
    names = [name for name in FIELDS if name in fields or isinstance(usual(), dict)]
    others = [usual(**{name: value}) for name in names for value in FIELDS[name]]
    for other in [*others, RequestOutput([Result([1, 2], seen=1)])]:
        outputs = [usual(), usual(), other, usual(), other, other, usual()]
        reader = check_fast_reader(outputs, **options)
        is_learnt = reader.shape_type is type(usual()) and reader.shape(usual()) is not None
        assert is_learnt == (kind not in {"no samples", "nothing new", "meta_info"})


@pytest.mark.parametrize("make", [sglang, vllm])
def test_cumulative_outputs_of_a_known_shape_have_new_ids(make: Callable[..., Any]) -> None:
    reader = check_fast_reader([make(*range(n)) for n in (1, 2, 2, 4, 5)], cumulative=True)
    assert reader.num_seen == 5
    ended = {"token_ids": [0], "finish_reason": "stop"}  # the ids of a stop were removed
    assert not reader.parts(ended)[0]


@pytest.mark.parametrize(("cumulative", "text"), [(False, "aaaa"), (True, "a")])
def test_ids_is_called_for_outputs_of_the_shape_that_it_returns(
    cumulative: bool, text: str
) -> None:
    outputs = [{"token_ids": [0, 1]}] * 4
    chunks = iter_chunks(
        outputs, TOKENIZER, ids=lambda _: {"token_ids": [0]}, cumulative=cumulative
    )
    assert "".join(chunk.text for chunk in chunks) == text


def check_fast_reader(outputs: Sequence[Any], **options: Any) -> OutputReader:
    """The fast reader reads what the general one does. Return the fast one."""
    fast, general = OutputReader(**options), OutputReader(**options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for output in outputs:
            known = fast.shape(output) if type(output) is fast.shape_type else None
            if known is None:
                found = outcome(fast.parts, output)
            else:
                fast.num_seen += len(known)
                found = known, None, None
            assert found == outcome(general.parts, output)
    return fast


def outcome(read: Callable[[Any], Any], output: Any) -> Any:
    try:
        return read(output)
    except SourceError as error:
        return str(error)
