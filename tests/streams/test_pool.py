"""DecoderPool and its sinks: many requests at once, and none of them disturbs another."""

from __future__ import annotations

import asyncio
import random
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    Chunk,
    DecoderPool,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TokenIdError,
)
from streamdec.chunks import chunk_before, joined
from streamdec.errors import RewriteError, UnknownRequestError
from tests.stop_laws import new_tokenizer
from tests.stop_model import Situation, decoder_of, draw_table, options_of
from tests.strategies import situations
from tests.streams.engines import BoomError
from tests.support.wrappers import Decoding, FrozenError, taking_back

TOKENS = [b"a", b"b", b"\xe4\xbd", b"\xa0", b"STOP", b"ST", b"OP"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
LETTERS = MockTokenizer.from_tokens([bytes([byte]) for byte in range(256)])
A, B, HALF, REST, STOP, ST, OP = range(len(TOKENS))
CONDITIONS = StopConditions(stop="STOP")


def pool_of(*names: Any, **options: Any) -> DecoderPool:
    pool = DecoderPool(TOKENIZER, **options)
    for name in names:
        pool.add(name, CONDITIONS)
    return pool


# --- together as alone ----------------------------------------------------------------------------

ONE_TABLE = [situations(draw_table(random.Random(n)), sections=n % 2 == 1) for n in range(8)]


@pytest.mark.filterwarnings("ignore:.*seem to be cumulative")  # drawn ids may repeat
@pytest.mark.filterwarnings("ignore:sections. the marker")  # it may be a skipped token's
@given(st.one_of([st.lists(each, min_size=1, max_size=4) for each in ONE_TABLE]), st.data())
def test_a_request_in_a_pool_equals_a_decoder(drawn: list[Situation], data: st.DataObject) -> None:
    """Whether other requests stop, fail or send nothing."""
    tokenizer = new_tokenizer(drawn[0])
    pool = DecoderPool(tokenizer)
    alone: dict[int, StopSequenceDecoder] = {}
    for name, situation in enumerate(drawn):
        pool.add(name, situation.conditions.build(), situation.prompt, **options_of(situation))
        alone[name] = decoder_of(situation, tokenizer)
    rest = {name: [*situation.ids] for name, situation in enumerate(drawn)}
    while any(rest.values()):
        sizes = data.draw(st.tuples(*[st.integers(0, 3) for _ in drawn]))
        batch = {name: rest[name][:size] for name, size in enumerate(sizes)}
        for name, size in enumerate(sizes):
            del rest[name][:size]
        names = set(pool)
        chunks = pool.step(batch)
        assert set(chunks) == names
        for name, ids in batch.items():
            _as_alone(pool, name, alone[name], ids, chunks.get(name))
            if name not in pool:
                rest[name].clear()
    for name in [*pool]:
        assert pool.finish(name, "length") == alone[name].flush()
    assert len(pool) == 0


def _as_alone(
    pool: DecoderPool,
    name: int,
    decoder: StopSequenceDecoder,
    ids: Sequence[int],
    chunk: Chunk | None,
) -> None:
    if chunk is None:
        assert decoder.finished
        assert isinstance(pool.errors[name], UnknownRequestError)
        return
    expected, problem = _stepped(decoder, ids)
    assert str(pool.errors.get(name)) == str(problem)
    assert chunk == expected
    found = pool.ended[name] if decoder.finished else pool[name]
    assert found.snapshot() == decoder.snapshot()
    assert (name in pool) == (not decoder.finished)


def _stepped(decoder: StopSequenceDecoder, ids: Sequence[int]) -> tuple[Chunk, TokenIdError | None]:
    try:
        return decoder.feed(ids), None
    except TokenIdError as error:
        return joined(error.chunk or Chunk(), decoder.flush("error")), error


# --- a round --------------------------------------------------------------------------------------


def test_step_takes_any_of_the_requests_and_ids_in_any_form() -> None:
    pool = pool_of("a", "b", "c", 4)
    assert pool.step({"a": 0, "b": [0, 1], "c": np.array([1, 1]), 4: (1,)}) == {
        "a": Chunk("a"),
        "b": Chunk("ab"),
        "c": Chunk("bb"),
        4: Chunk("b"),
    }
    assert pool.step({"b": [HALF], "a": []}) == {"b": Chunk(""), "a": Chunk("")}
    assert pool.step({"b": REST}) == {"b": Chunk("你")}
    assert pool.step({}) == {}
    assert pool["b"].num_tokens == 4


@pytest.mark.parametrize("error", [KeyError, FrozenError])
def test_an_error_of_a_tokenizer_ends_only_its_request(error: type[Exception]) -> None:
    """Also an error that cannot be changed; and a KeyError is not an unknown request."""

    def broken(token_ids: Sequence[int]) -> str:
        if 2 in token_ids:
            raise error
        return "x" * len(token_ids)

    pool = DecoderPool(Decoding(broken))
    pool.add("a")
    pool.add("b")
    assert pool.step({"a": [1, 1]}) == {"a": Chunk("xx")}
    assert pool.step({"a": 2, "b": 1}) == {"a": Chunk("", "error"), "b": Chunk("x")}
    assert type(pool.errors["a"]) is error


@pytest.mark.parametrize("ids", [[[0]], [True], ["0"], [None], [0.5], np.array([[0, 1]])], ids=repr)
def test_a_list_of_one_object_that_is_no_id_is_an_error(ids: Any) -> None:
    """Not only in the first rounds, in which the pool looks whether lists are cumulative."""
    pool = pool_of("a", "b")
    for _ in range(3):
        pool.step({"a": [0], "b": [0]})
    assert pool.step({"a": ids, "b": [0]}) == {"a": Chunk("", "error"), "b": Chunk("a")}
    assert isinstance(pool.errors["a"], (TokenIdError, TypeError))


def test_a_request_whose_flush_fails_outputs_its_decided_text_and_is_removed() -> None:
    pool = DecoderPool(Decoding(taking_back))
    for name in ("a", "c"):
        pool.add(name, StopConditions(stop="xq"))
    pool.add("b")
    pool.step({"a": [1, 1, 9], "b": [1, 9], "c": [1, 1]})
    assert pool.step({"c": [9, -1]}) == {"c": Chunk("x", "error")}
    assert isinstance(pool.errors["c"], TokenIdError)
    assert pool.finish("a", "length") == Chunk("x", "error")
    assert [*pool.errors] == [*pool.ended] == ["a"]
    assert isinstance(pool.errors["a"], RewriteError)
    assert pool.abort("b") == Chunk("", "error")
    assert [*pool.errors] == ["b"]
    assert len(pool) == 0


# --- coming and going -----------------------------------------------------------------------------


def ended() -> StopSequenceDecoder:
    decoder = StopSequenceDecoder(TOKENIZER)
    decoder.flush()
    return decoder


HAS_IT = "the pool already has a request 'a'"


@pytest.mark.parametrize(
    ("call", "kind", "told"),
    [
        (lambda pool: pool.step([("a", 1)]), TypeError, r"step\(\) takes a mapping of request ids"),
        (lambda pool: pool.add(None), TypeError, "a request id must be a string or an int"),
        (lambda pool: pool.add(True), TypeError, "a request id must be a string or an int"),
        (lambda pool: pool.add("a"), ValueError, HAS_IT),
        (lambda pool: pool.fork("a", "a"), ValueError, HAS_IT),
        (lambda pool: pool.adopt("a", StopSequenceDecoder(TOKENIZER)), ValueError, HAS_IT),
        (lambda pool: pool.add("b", "stop"), TypeError, "conditions must be StopConditions"),
        (lambda pool: pool.add("b", CONDITIONS, [-1]), TokenIdError, "out of range"),
        (lambda pool: pool.adopt("b", ended()), ValueError, "the decoder has ended"),
        (lambda pool: pool.adopt("b", "x"), TypeError, "decoder must be a StopSequenceDecoder"),
        (lambda pool: pool.finish("a", "eos"), ValueError, "finish_reason must be one of"),
        (lambda pool: pool.finish("b"), UnknownRequestError, "the pool has no request 'b'"),
        (lambda pool: pool.fork("b", "c"), KeyError, "the pool has no request 'b'"),
        (lambda pool: pool["b"], UnknownRequestError, "the pool has no request 'b'"),
        (lambda pool: pool.attach("b", print), UnknownRequestError, "the pool has no request 'b'"),
        (lambda pool: pool.attach("a", 5), TypeError, "a sink must be callable with a chunk, got"),
    ],
)
def test_a_rejected_call_changes_nothing(call: Any, kind: type[Exception], told: str) -> None:
    pool = pool_of("a")
    with pytest.raises(kind, match=told):
        call(pool)
    assert [*pool] == ["a"]
    assert pool.step({"a": 0}) == {"a": Chunk("a")}


def test_a_running_decoder_can_be_adopted() -> None:
    decoder = StopSequenceDecoder(TOKENIZER, CONDITIONS)
    decoder.step(ST)
    pool = DecoderPool(TOKENIZER)
    pool.adopt("a", decoder)
    assert pool["a"] is decoder
    assert pool.step({"a": [0]}) == {"a": Chunk("STa")}


def test_chunks_say_which_ids_they_cover_also_after_a_fork_and_an_error() -> None:
    pool = pool_of("a", return_token_ids=True)
    assert pool.step({"a": [0, HALF]}) == {"a": Chunk("a", token_ids=(0,))}
    pool.fork("a", "b")
    assert pool.step({"a": REST, "b": [0, ST, -1]}) == {
        "a": Chunk("你", token_ids=(HALF, REST)),
        "b": Chunk("\ufffdaST", "error", token_ids=(HALF, 0, ST)),
    }
    error: Any = pool.errors["b"]
    assert error.chunk is None, "its text was output"
    assert pool.step({"a": 0}) == {"a": Chunk("a", token_ids=(0,))}


def test_a_request_can_be_looked_at() -> None:
    pool = pool_of("a", "b")
    assert ("a" in pool, "x" in pool, len(pool), [*pool]) == (True, False, 2, ["a", "b"])
    assert repr(pool) == "<DecoderPool of 2 requests>"
    assert (pool.abort("x"), pool.abort("a")) == (None, Chunk("", "abort"))


# --- cumulative outputs ---------------------------------------------------------------------------


def test_lists_that_repeat_all_ids_are_noticed() -> None:
    pool = DecoderPool(LETTERS)
    pool.add("short")
    pool.step({"short": [97, 98]})
    pool.finish("short")
    pool.add("a")
    pool.add("b")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for size in range(1, 8):
            pool.step({"a": [*b"abcdefgh"[:size]], "b": [*b"xyzxyzxyz"[:size]]})
    assert [each.category for each in warned] == [StreamdecWarning]
    assert str(warned[0].message).endswith("repeated; pass only the new ids of each round")


@pytest.mark.parametrize(
    "rounds",
    [
        [{"a": [97] * size} for size in (1, 2, 3, 1, 2, 3, 4, 5)],
        [{"a": [97]}, {"b": [97, 98]}, {"a": [99]}, {"b": [97, 98, 99]}] * 4,
        [{"a": [97, 98][:size], "b": 97} for size in (0, 1, 2)],
    ],
)
def test_lists_that_do_not_repeat_ids_give_no_warning(rounds: list[dict[str, Any]]) -> None:
    pool = DecoderPool(LETTERS)
    pool.add("a")
    pool.add("b")
    for token_ids in rounds:
        pool.step(token_ids)
        assert pool.errors == {}  # a warning is an error, which would end its request


# --- sinks ----------------------------------------------------------------------------------------


class Recording:
    """A sink that keeps its chunks, and raises at one of them."""

    def __init__(self, place: int = -1, raised: BaseException | None = None) -> None:
        self._place, self._raised = place, raised
        self.chunks: list[Chunk] = []

    def __call__(self, chunk: Chunk) -> None:
        if self._raised is not None and len(self.chunks) == self._place:
            raise self._raised
        self.chunks.append(chunk)

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)


def pool_with(**sinks: Any) -> DecoderPool:
    pool = pool_of(*sinks)
    for name, sink in sinks.items():
        if sink is not None:
            pool.attach(name, sink)
    return pool


rounds_of_ids = st.lists(
    st.dictionaries(
        st.sampled_from("abc"),
        st.one_of(
            st.integers(0, len(TOKENS) - 1), st.lists(st.integers(-1, len(TOKENS) - 1), max_size=4)
        ),
    ),
    max_size=12,
)


@pytest.mark.filterwarnings("ignore:.*seem to be cumulative")  # drawn ids may repeat
@given(rounds_of_ids, st.booleans(), st.sampled_from([None, {"r": (B, "ST")}]))
def test_a_sink_gets_the_chunks_that_step_would_return(
    rounds: Sequence[dict[str, Any]], return_token_ids: bool, sections: Any
) -> None:
    plain = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
    pool = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
    sent: dict[str, list[Chunk]] = {}
    for name in "abc":
        plain.add(name, CONDITIONS, sections=sections)
        pool.add(name, CONDITIONS, sections=sections)
        pool.attach(name, sent.setdefault(name, []).append)
    expected: dict[str, list[Chunk]] = {name: [] for name in "abc"}
    for token_ids in rounds:
        for name, chunk in plain.step(token_ids).items():
            if chunk.text or chunk.finish_reason is not None:
                expected[name].append(chunk)
        assert pool.step(token_ids) == {}
        assert (pool.errors.keys(), pool.ended.keys()) == (plain.errors.keys(), plain.ended.keys())
    assert sent == expected
    for name in [*pool]:
        assert pool.finish(name) == plain.finish(name) == sent[name][-1]
    assert [*pool] == []


# --- a sink that raises ---------------------------------------------------------------------------

INTERRUPTS = [KeyboardInterrupt(), SystemExit(3)]
RAISED = [*INTERRUPTS, asyncio.CancelledError(), GeneratorExit(), BoomError()]


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("raised", RAISED, ids=repr)
def test_whatever_a_sink_raises_no_request_loses_text(raised: BaseException, place: int) -> None:
    """The text of each request is sent, returned, or in the error; then the round is over."""
    raising, sent, got = Recording(place, raised), Recording(), dict.fromkeys("xyz", "")
    pool = pool_with(x=None, raising=raising, y=None, sent=sent, z=None)
    interrupts = []
    for number, token_id in enumerate([A, B, HALF, REST, ST, A, ST, OP]):
        running = [*pool]
        try:
            chunks = pool.step(dict.fromkeys(running, token_id))
        except BaseException as error:  # noqa: BLE001 (it is compared)
            interrupts.append(error)
            chunks = pool.chunks
        assert [*chunks] == [*"xyz"]
        for name, chunk in chunks.items():
            got[name] += chunk.text
        if "raising" in pool.errors:
            failed: Any = pool.errors["raising"]
            taken = "".join(each.text for each in raising.chunks) + failed.chunk.text
            ended: Any = pool.ended["raising"].fork()
            ended.reset()
            ids = [A, B, HALF, REST, ST, A, ST, OP][: number + 1]
            assert taken == ended.feed(ids).text + ended.flush().text
            assert failed is raised or failed.__cause__ is raised
            assert isinstance(failed, Exception)
    assert interrupts == [raised] * isinstance(raised, (KeyboardInterrupt, SystemExit))
    assert [*got.values(), sent.text] == ["ab你STa"] * 4
    assert [*pool] == []


def test_an_interrupt_of_a_request_that_a_sink_ends_is_raised_after_the_round() -> None:
    raised, last = KeyboardInterrupt(), Recording()
    pool = pool_with(b=Recording(0, raised), a=None, c=last)
    pool.attach("a", lambda _: pool.abort("b"))
    with pytest.raises(KeyboardInterrupt):
        pool.step({"a": A, "c": A})
    assert (last.text, [*pool], [*pool.errors]) == ("a", ["a", "c"], ["b"])


@pytest.mark.parametrize("raised", [BoomError(), FrozenError(), KeyboardInterrupt()], ids=repr)
def test_sinks_that_raise_the_same_error_each_have_their_text(raised: BaseException) -> None:
    """Also if nothing can be noted on it: then it is the cause of another one."""
    pool, last = pool_with(a=Recording(0, raised), b=Recording(0, raised)), Recording()
    pool.add("c")
    pool.attach("c", last)
    with suppress(KeyboardInterrupt):
        pool.step({"a": A, "b": B, "c": A})
    errors: dict[Any, Any] = pool.errors
    assert {name: error.chunk.text for name, error in errors.items()} == {"a": "a", "b": "b"}
    assert all(raised in (error, error.__cause__) for error in errors.values())
    assert last.text == "a"


# --- sinks that call the pool ---------------------------------------------------------------------


def test_a_sink_that_returns_a_coroutine_ends_its_request() -> None:
    """Its text would be lost, because nothing awaits the coroutine."""
    pool = pool_with(a=lambda _: asyncio.sleep(0))
    pool.step({"a": [A, ST]})
    error: Any = pool.errors["a"]
    assert isinstance(error, TypeError)
    assert str(error).startswith("a sink must be a plain function, but it returned a coroutine, <")
    unsent = chunk_before(error)
    assert (unsent.text, unsent.finish_reason) == ("aST", "abort")
    assert "a" not in pool


def test_a_sink_that_steps_its_pool_ends_its_request() -> None:
    other = Recording()
    pool = pool_with(b=other)
    pool.add("a")
    pool.attach("a", lambda _: pool.step({"b": B}))
    pool.step({"b": A, "a": A})
    assert str(pool.errors["a"]).startswith("a sink must not call step() of its pool; call it")
    pool.step({"b": B})
    assert (other.text, pool.errors) == ("ab", {})


def test_a_sink_that_raises_does_not_end_the_request_that_it_added() -> None:
    pool = pool_with(a=None)

    def replace(_: Chunk) -> None:
        pool.abort("a")
        pool.add("a")
        raise BoomError

    pool.attach("a", replace)
    pool.step({"a": A})
    assert [*pool] == [*pool.errors] == ["a"]
    assert pool.step({"a": A}) == {"a": Chunk("a")}


def test_ids_of_a_request_that_a_sink_replaces_are_not_those_of_the_new_one() -> None:
    """Also if the sink removes the ended request from the engine's own batch."""
    pool, batch = pool_with(a=None, b=None, c=None, d=None), dict.fromkeys("abcd", A)

    def replace(_: Chunk) -> None:
        for name in "bc":
            pool.abort(name)
            pool.add(name)
        del batch["c"]

    pool.attach("a", replace)
    assert pool.step(batch) == {"d": Chunk("a")}
    assert {name: pool[name].num_tokens for name in pool} == {"a": 1, "b": 0, "c": 0, "d": 1}
    assert [*pool.errors] == [*pool.ended] == ["b", "c"]
    assert pool.step({"c": B, "b": B}) == {"c": Chunk("b"), "b": Chunk("b")}


def test_the_errors_of_sinks_that_end_other_requests_are_kept() -> None:
    pool = pool_with(b=Recording(0, BoomError()), c=Recording())
    pool.add("a")
    pool.attach("a", lambda _: [pool.abort("b"), pool.abort("c")])
    pool.finish("a")
    assert [type(error) for error in pool.errors.values()] == [BoomError]
    assert [*pool.ended] == ["a", "b", "c"]


def test_an_error_of_a_sink_is_kept_although_its_request_still_gets_ids() -> None:
    pool = pool_with(a=None, b=Recording(0, BoomError()))
    pool.step({"b": ST})
    pool.attach("a", lambda _: pool.abort("b"))
    pool.step({"a": A, "b": OP})
    assert isinstance(pool.errors["b"], BoomError)
    assert chunk_before(pool.errors["b"]).text == "ST"
