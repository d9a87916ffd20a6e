"""Sinks: each gets what the pool would have returned."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import Chunk, DecoderPool, MockTokenizer, StopConditions
from streamdec.chunks import chunk_before
from tests.streams.engines import BoomError
from tests.support.wrappers import FrozenError

TOKENS = [b"a", b"b", b"\xc3", b"\xa9", b"ST", b"OP"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS)
A, B, C3, A9, ST, OP = range(len(TOKENS))
STOPPING = StopConditions(stop="STOP")


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
    pool = DecoderPool(TOKENIZER)
    for name, sink in sinks.items():
        pool.add(name, STOPPING)
        pool.attach(name, sink)
    return pool


# --- what a sink gets -----------------------------------------------------------------------------


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
@given(rounds_of_ids, st.booleans())
def test_a_sink_gets_the_chunks_that_step_would_return(
    rounds: Sequence[dict[str, Any]], return_token_ids: bool
) -> None:
    plain = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
    pool = DecoderPool(TOKENIZER, return_token_ids=return_token_ids)
    sent: dict[str, list[Chunk]] = {}
    for name in "abc":
        plain.add(name, STOPPING)
        pool.add(name, STOPPING)
        pool.attach(name, sent.setdefault(name, []).append)
    expected: dict[str, list[Chunk]] = {name: [] for name in "abc"}
    for token_ids in rounds:
        for name, chunk in plain.step(token_ids).items():
            if not chunk.is_empty:
                expected[name].append(chunk)
        assert pool.step(token_ids) == {}
        assert (pool.errors.keys(), pool.ended.keys()) == (plain.errors.keys(), plain.ended.keys())
    assert sent == expected
    for name in [*pool]:
        assert pool.finish(name) == plain.finish(name) == sent[name][-1]
    assert [*pool] == []


def test_requests_without_a_sink_are_returned() -> None:
    sink = Recording()
    pool = pool_with(a=sink)
    pool.add("b")
    assert pool.step({"a": A, "b": B}) == {"b": Chunk("b")}
    pool.attach("a", None)
    assert pool.step({"a": B}) == {"a": Chunk("b")}
    assert sink.text == "a"


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
    for number, token_id in enumerate([A, B, C3, A9, ST, A, ST, OP]):
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
            ids = [A, B, C3, A9, ST, A, ST, OP][: number + 1]
            assert taken == ended.feed(ids).text + ended.flush().text
            assert failed is raised or failed.__cause__ is raised
            assert isinstance(failed, Exception)
    assert interrupts == [raised] * isinstance(raised, (KeyboardInterrupt, SystemExit))
    assert [*got.values(), sent.text] == ["abéSTa"] * 4
    assert [*pool] == []


@pytest.mark.parametrize("raised", INTERRUPTS, ids=repr)
def test_an_interrupt_at_an_end_is_raised_when_the_request_has_left(raised: BaseException) -> None:
    pool = pool_with(a=Recording(0, raised))
    pool.step({"a": ST})
    with pytest.raises(type(raised)):
        pool.finish("a", "length")
    assert pool.errors["a"].chunk == Chunk("ST", "length")  # type: ignore[attr-defined]
    assert [*pool.ended] == ["a"]
    pool.step({})  # the interrupt is raised once


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


def test_a_sink_may_end_its_request_and_begin_another() -> None:
    pool = DecoderPool(TOKENIZER)
    sent: list[Chunk] = []

    def once(chunk: Chunk) -> None:
        sent.append(chunk)
        if chunk.finish_reason is None:
            pool.abort("a")
            pool.add("b")

    pool.add("a", STOPPING)
    pool.attach("a", once)
    pool.step({"a": A, "missing": A})
    assert sent == [Chunk("a"), Chunk("", "abort")]
    assert [*pool] == ["b"]
    assert pool.errors.keys() == {"missing"}
    assert pool.ended.keys() == {"a"}


def test_a_sink_that_returns_a_coroutine_ends_its_request() -> None:
    """Its text would be lost, because nothing awaits the coroutine."""

    async def send(_: Chunk) -> None:
        raise AssertionError

    def sink(chunk: Chunk) -> Any:
        return send(chunk)

    pool = pool_with(a=sink)
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


def test_a_request_may_be_added_again_by_its_last_sink() -> None:
    pool = pool_with(a=None)

    def again(chunk: Chunk) -> None:
        if chunk.finish_reason is not None:
            pool.add("a")

    for end in (lambda: pool.step({"a": [ST, OP]}), lambda: pool.finish("a")):
        pool.attach("a", again)
        end()
        assert [*pool] == ["a"]
        pool.abort("a")
        pool.add("a", STOPPING)


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


def test_the_errors_of_sinks_that_end_other_requests_are_kept() -> None:
    def failing(_: Chunk) -> None:
        raise BoomError

    pool = pool_with(b=failing, c=Recording())
    pool.add("a")
    pool.attach("a", lambda _: [pool.abort("b"), pool.abort("c")])
    pool.finish("a")
    assert [type(error) for error in pool.errors.values()] == [BoomError]
    assert [*pool.ended] == ["a", "b", "c"]
