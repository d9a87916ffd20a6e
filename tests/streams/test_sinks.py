"""Sinks: each gets what the pool would have returned, joined while it is behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import Chunk, DecoderPool, MockTokenizer, QueueFullError
from streamdec.chunks import chunk_before
from streamdec.errors import UnknownRequestError
from streamdec.streams.sinks import MAX_BEHIND
from tests.streams.engines import BoomError
from tests.streams.sinks import (
    A9,
    C3,
    LONG,
    OP,
    ST,
    STOPPING,
    TOKENIZER,
    TOKENS,
    A,
    B,
    SlowReader,
    pool_with,
)

# --- what a sink gets -----------------------------------------------------------------------------


rounds_of_ids = st.lists(
    st.dictionaries(
        st.sampled_from("abc"),
        st.one_of(
            st.integers(0, len(TOKENS) - 2),
            st.lists(st.integers(-1, len(TOKENS) - 2), max_size=4),
        ),
    ),
    max_size=12,
)


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
    sink = SlowReader()
    pool = pool_with(a=sink)
    pool.add("b")
    assert pool.step({"a": A, "b": B}) == {"b": Chunk("b")}
    pool.attach("a", None)
    assert pool.step({"a": B}) == {"a": Chunk("b")}
    assert sink.text == "a"


@pytest.mark.parametrize("sink", ["text", 5])
def test_a_sink_can_be_called(sink: Any) -> None:
    pool = DecoderPool(TOKENIZER)
    pool.add("a")
    with pytest.raises(TypeError, match="a sink must be callable with a chunk, got"):
        pool.attach("a", sink)
    with pytest.raises(UnknownRequestError):
        pool.attach("b", print)


# --- a sink that is behind ------------------------------------------------------------------------


def test_chunks_for_a_slow_sink_are_joined() -> None:
    slow, quick = SlowReader(), SlowReader()
    pool = pool_with(slow=slow, quick=quick)
    for token_id in (A, B, C3):
        slow.is_behind = token_id != A
        pool.step({"slow": token_id, "quick": token_id})
    assert (slow.text, quick.text) == ("a", "ab")
    slow.is_behind = False
    pool.step({"slow": A9, "quick": A9})
    assert slow.chunks == [Chunk("a"), Chunk("bé")]
    assert quick.text == "abé"


def test_the_last_chunk_has_all_waiting_text() -> None:
    slow = SlowReader()
    slow.is_behind = True
    pool = pool_with(a=slow)
    pool.step({"a": [A, B]})
    pool.step({"a": [ST, OP]})
    assert slow.chunks == [Chunk("ab", "stop", "STOP")]
    assert "a" not in pool


def test_a_sink_that_stays_behind_is_aborted_and_no_other() -> None:
    slow, quick = SlowReader(), SlowReader()
    slow.is_behind = True
    pool = pool_with(slow=slow, quick=quick)
    num_rounds = 0
    while "slow" in pool:
        pool.step({"slow": LONG, "quick": LONG})
        num_rounds += 1
    assert num_rounds == MAX_BEHIND // 1_000 + 1
    assert isinstance(pool.errors["slow"], QueueFullError)
    assert slow.chunks == [Chunk("x" * 1_000 * num_rounds, "abort")]
    assert pool.ended["slow"].finish_reason == "abort"
    assert len(quick.text) == 1_000 * num_rounds
    assert "quick" in pool


# --- a sink that raises ---------------------------------------------------------------------------


class Broken(SlowReader):
    """A sink that raises at one of its chunks."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self._place = place

    def __call__(self, chunk: Chunk) -> None:
        if len(self.chunks) == self._place:
            raise BoomError
        super().__call__(chunk)


INTERRUPTS = [KeyboardInterrupt(), SystemExit(3)]
RAISED = [*INTERRUPTS, asyncio.CancelledError(), GeneratorExit(), BoomError()]


class Raising(SlowReader):
    """A sink that raises at one of its chunks; it can be behind only if a test says so."""

    def __init__(self, place: int, raised: BaseException) -> None:
        super().__init__()
        self._place, self._raised = place, raised

    def __call__(self, chunk: Chunk) -> None:
        if len(self.chunks) == self._place:
            raise self._raised
        super().__call__(chunk)


@pytest.mark.parametrize("is_behind", [None, False, True])
@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("raised", RAISED, ids=repr)
def test_whatever_a_sink_raises_no_request_loses_text(
    raised: BaseException, place: int, is_behind: bool | None
) -> None:
    """The text of each request is sent, returned, or in the error; then the round is over."""
    raising, sent, got = Raising(place, raised), SlowReader(), dict.fromkeys("xyz", "")
    sinks = {"x": None, "raising": raising, "y": None, "sent": sent, "z": None}
    if is_behind is None:
        sinks["raising"] = raising.__call__  # type: ignore[assignment]
    pool = pool_with(**sinks)
    interrupts = []
    for number, token_id in enumerate([A, B, C3, A9, ST, A, ST, OP]):
        raising.is_behind = bool(is_behind) and number % 2 == 0
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
    pool = pool_with(a=Raising(0, raised))
    pool.step({"a": ST})
    with pytest.raises(type(raised)):
        pool.finish("a", "length")
    assert pool.errors["a"].chunk == Chunk("ST", "length")  # type: ignore[attr-defined]
    assert [*pool.ended] == ["a"]
    pool.step({})  # the interrupt is raised once


def test_an_interrupt_of_a_request_that_a_sink_ends_is_raised_after_the_round() -> None:
    raised, last = KeyboardInterrupt(), SlowReader()
    pool = pool_with(b=Raising(0, raised), a=None, c=last)
    pool.attach("a", lambda _: pool.abort("b"))
    with pytest.raises(KeyboardInterrupt):
        pool.step({"a": A, "c": A})
    assert (last.text, [*pool], [*pool.errors]) == ("a", ["a", "c"], ["b"])


def test_an_interrupt_while_a_full_queue_is_emptied_loses_no_text() -> None:
    raised = KeyboardInterrupt()
    full = Raising(0, raised)
    full.is_behind = True
    pool = pool_with(full=full)
    for _ in range(MAX_BEHIND // 1_000):
        pool.step({"full": LONG})
    with pytest.raises(KeyboardInterrupt):
        pool.step({"full": LONG})
    text = "x" * 1_000 * (MAX_BEHIND // 1_000 + 1)
    assert pool.errors["full"].chunk == Chunk(text, "abort")  # type: ignore[attr-defined]


@pytest.mark.parametrize("new", [None, SlowReader()], ids=["none", "another"])
def test_a_sink_that_is_replaced_gets_the_waiting_text(new: SlowReader | None) -> None:
    slow = SlowReader()
    slow.is_behind = True
    pool = pool_with(a=slow)
    pool.step({"a": [A, B]})
    pool.attach("a", new)
    assert slow.chunks == [Chunk("ab")]
    chunks = pool.step({"a": A})
    assert (chunks if new is None else new.chunks) in ({"a": Chunk("a")}, [Chunk("a")])


class FrozenError(Exception):
    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)


@pytest.mark.parametrize("raised", [BoomError(), FrozenError(), KeyboardInterrupt()], ids=repr)
def test_sinks_that_raise_the_same_error_each_have_their_text(raised: BaseException) -> None:
    """Also if nothing can be noted on it: then it is the cause of another one."""
    pool, last = pool_with(a=Raising(0, raised), b=Raising(0, raised)), SlowReader()
    pool.add("c")
    pool.attach("c", last)
    with suppress(KeyboardInterrupt):
        pool.step({"a": A, "b": B, "c": A})
    errors: dict[Any, Any] = pool.errors
    assert {name: error.chunk.text for name, error in errors.items()} == {"a": "a", "b": "b"}
    assert all(raised in (error, error.__cause__) for error in errors.values())
    assert last.text == "a"


def test_a_sink_that_ends_its_request_while_it_is_replaced_is_the_last() -> None:
    class Leaving(SlowReader):
        def __call__(self, chunk: Chunk) -> None:
            super().__call__(chunk)
            pool.abort("a")

    leaving, new = Leaving(), SlowReader()
    leaving.is_behind = True
    pool = pool_with(a=leaving)
    pool.step({"a": A})
    with pytest.raises(UnknownRequestError):
        pool.attach("a", new)
    pool.add("a")
    assert pool.step({"a": B}) == {"a": Chunk("b")}
    assert (leaving.text, new.text) == ("a", "")


# --- sinks and sections ---------------------------------------------------------------------------

X, Y = "<x>", "</x>"
SECTIONS = {"x": (X, Y)}
SPLIT = MockTokenizer.from_tokens([b"1<x>2</x>3"])
"""One token with text in three parts."""
PARTS = [(None, "1"), ("x", "2"), (None, "3")]


def parts_of(chunks: Sequence[Chunk]) -> list[tuple[str | None, str]]:
    return [(part.section, part.text) for chunk in chunks for part in chunk.split() if part.text]


def pool_in_sections(sink: Any) -> DecoderPool:
    pool = DecoderPool(SPLIT)
    pool.add("a", sections=SECTIONS)
    pool.attach("a", sink)
    return pool


def test_a_sink_gets_each_part_of_a_chunk() -> None:
    slow = SlowReader()
    pool = pool_in_sections(slow)
    for is_behind in (False, True, False):
        slow.is_behind = is_behind
        pool.step({"a": 0})
    assert [(chunk.section, chunk.text) for chunk in slow.chunks] == [
        *PARTS,
        *((None, "1"), ("x", "2"), (None, "31"), ("x", "2"), (None, "3")),
    ]


@pytest.mark.parametrize("place", range(4))
def test_a_sink_that_raises_at_a_part_has_the_rest_in_the_error(place: int) -> None:
    broken = Broken(place)
    pool = pool_in_sections(broken)
    pool.step({"a": 0})
    if place == 3:
        assert parts_of(broken.chunks) == PARTS
        return
    error: Any = pool.errors["a"]
    assert parts_of(broken.chunks) == PARTS[:place]
    assert parts_of([error.chunk]) == PARTS[place:]
    assert error.chunk.finish_reason == "abort"


def test_a_sink_that_ends_its_request_at_a_part_gets_the_rest_before_the_end() -> None:
    sent: list[Chunk] = []

    def once(chunk: Chunk) -> None:
        sent.append(chunk)
        pool.abort("a")

    pool = pool_in_sections(once)
    pool.step({"a": 0})
    assert parts_of(sent) == PARTS
    assert [chunk.finish_reason for chunk in sent] == [None, None, "abort"]
    assert pool.errors == {}


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


def test_text_that_a_full_queue_rejects_twice_is_in_the_error() -> None:
    class Full(SlowReader):
        def __call__(self, chunk: Chunk) -> None:
            raise QueueFullError("the client's queue is full")

    full = Full()
    pool = pool_with(a=full)
    for token_id, full.is_behind in ((A, True), (B, False)):
        pool.step({"a": token_id})
    assert pool.errors["a"].chunk == Chunk("ab", "abort")  # type: ignore[attr-defined]


def test_a_sink_may_abort_at_its_last_chunk() -> None:
    pool = DecoderPool(TOKENIZER)
    sent: list[Chunk] = []

    def leave(chunk: Chunk) -> None:
        sent.append(chunk)
        pool.abort("a")

    pool.add("a", STOPPING)
    pool.attach("a", leave)
    pool.step({"a": [ST, OP]})
    assert sent == [Chunk("", "stop", "STOP")]


@pytest.mark.parametrize("is_behind", [None, False])
def test_a_sink_that_returns_a_coroutine_ends_its_request(is_behind: bool | None) -> None:
    """Its text would be lost, because nothing awaits the coroutine."""

    async def send(_: Chunk) -> None:
        raise AssertionError

    def sink(chunk: Chunk) -> Any:
        return send(chunk)

    if is_behind is not None:
        sink.is_behind = is_behind  # type: ignore[attr-defined]
    pool = pool_with(a=sink)
    pool.step({"a": [A, ST]})
    error: Any = pool.errors["a"]
    assert isinstance(error, TypeError)
    assert str(error).startswith("a sink must be a plain function, but it returned a coroutine, <")
    unsent = chunk_before(error)
    assert (unsent.text, unsent.finish_reason) == ("aST", "abort")
    assert "a" not in pool


def test_a_sink_that_steps_its_pool_ends_its_request() -> None:
    other = SlowReader()
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


def test_the_errors_of_sinks_that_end_other_requests_are_kept() -> None:
    def failing(_: Chunk) -> None:
        raise BoomError

    pool = pool_with(b=failing, c=SlowReader())
    pool.add("a")
    pool.attach("a", lambda _: [pool.abort("b"), pool.abort("c")])
    pool.finish("a")
    assert [type(error) for error in pool.errors.values()] == [BoomError]
    assert [*pool.ended] == ["a", "b", "c"]


def test_an_error_in_is_behind_ends_the_request() -> None:
    """Also an AttributeError: it does not mean that the sink lacks the property."""

    class Misspelled(SlowReader):
        @property
        def is_behind(self) -> bool:
            return bool(self.chunkz)  # type: ignore[attr-defined]

        @is_behind.setter
        def is_behind(self, value: bool) -> None: ...

    pool = pool_with(a=Misspelled())
    pool.step({"a": [A, B]})
    assert "no attribute 'chunkz'" in str(pool.errors["a"])
    assert pool.errors["a"].chunk == Chunk("ab", "abort")  # type: ignore[attr-defined]


def test_a_method_is_behind_is_rejected() -> None:
    """It would count as true, so that no text would be sent before the end."""

    class Forgotten:
        def __call__(self, chunk: Chunk) -> None: ...

        def is_behind(self) -> bool:
            return False

    pool = DecoderPool(TOKENIZER)
    pool.add("a")
    told = r"is_behind of a sink must be an attribute or a property, not a method; write @property"
    with pytest.raises(TypeError, match=told):
        pool.attach("a", Forgotten())
