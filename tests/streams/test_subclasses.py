"""Subclasses of the decoders: with each method, their own ``step`` decodes each id."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterable
from typing import Any, Generic, SupportsIndex, TypeVar

import pytest

from streamdec import (
    Chunk,
    DecodeStream,
    Hook,
    MockTokenizer,
    SectionDecoder,
    Sequence,
    StopConditions,
    StopSequenceDecoder,
    TextIterator,
    TextStopDecoder,
    add_hook,
    iter_chunks,
    wrap,
)
from streamdec.hooks import StreamEnded
from streamdec.integrations.logprobs import LogprobTracker, TokenLogprob
from streamdec.trace import Tracer
from tests.streams.engines import Engine

TOKENIZER = MockTokenizer.from_tokens([b"<t>", b"</t>", b"a", b"b", b"\xc3", b"\xa9", b"STOP"])
A, B, LEAD, REST, STOP = 2, 3, 4, 5, 6
IDS, TEXT, SWAPPED = [A, B, LEAD, REST, A], "abéa", "baéb"
OUTPUTS: list[list[Any]] = [[IDS], [IDS[:2], IDS[2], IDS[3:]]]
SECTIONS = {"r": ("<t>", "</t>")}

T = TypeVar("T")


def _swapped(token_id: Any) -> Any:
    return {A: B, B: A}.get(token_id, token_id)


class Swapping:
    """A mixin, whose ``step`` is found before that of the decoder. It takes A for B."""

    def step(self, token_id: SupportsIndex) -> Any:
        return super().step(_swapped(token_id))  # type: ignore[misc]


def by_a_mixin(base: Any) -> Any:
    return type("ByAMixin", (Swapping, base), {})


def by_a_base_between(base: Any) -> Any:
    return type("ByABaseBetween", (by_a_mixin(base),), {})


def in_the_body(base: Any) -> Any:
    class InTheBody(base):  # type: ignore[misc]
        def step(self, token_id: SupportsIndex) -> Any:
            return super().step(_swapped(token_id))

    return InTheBody


def patched_later(base: Any) -> Any:
    made = type("PatchedLater", (base,), {})
    made.step = lambda self, token_id: base.step(self, _swapped(token_id))  # type: ignore[attr-defined]
    return made


BASES = [DecodeStream, StopSequenceDecoder, SectionDecoder]
WAYS = [by_a_mixin, by_a_base_between, in_the_body, patched_later]

each_base = pytest.mark.parametrize("base", BASES, ids=lambda each: each.__name__)
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda each: each.__name__)
with_and_without_ids = pytest.mark.parametrize("with_ids", [False, True])


def made(kind: Any, *arguments: Any) -> Any:
    """A decoder of the class ``kind``."""
    options = {"sections": SECTIONS} if issubclass(kind, SectionDecoder) else {}
    return kind(TOKENIZER, *arguments, **options)


def joined(out: Any) -> str:
    """The text of the result of a ``step_batch``."""
    return "".join(out) if isinstance(out, list) else out.text


@each_way
@each_base
def test_step_batch_calls_an_overridden_step(base: Any, way: Callable[[Any], Any]) -> None:
    assert joined(made(way(base)).step_batch(IDS)) == SWAPPED


@each_way
@pytest.mark.parametrize("base", BASES[1:], ids=lambda each: each.__name__)
def test_a_stop_in_a_list_counts_the_ids_after_it(base: Any, way: Callable[[Any], Any]) -> None:
    decoder = made(way(base), StopConditions(stop="STOP"))
    chunk = decoder.step_batch([*IDS, STOP, A, B])
    assert (chunk.text, chunk.finish_reason, chunk.unread_tokens) == (SWAPPED, "stop", 2)


@with_and_without_ids
@pytest.mark.parametrize("outputs", OUTPUTS, ids=["one list", "ids and lists"])
@each_way
@pytest.mark.parametrize("base", BASES[1:], ids=lambda each: each.__name__)
def test_iter_chunks_calls_an_overridden_step(
    base: Any, way: Callable[[Any], Any], outputs: list[Any], with_ids: bool
) -> None:
    decoder = made(way(base))
    chunks = [*iter_chunks(outputs, decoder=decoder, return_token_ids=with_ids)]
    assert "".join(chunk.text for chunk in chunks) == SWAPPED
    if with_ids:
        assert [token_id for chunk in chunks for token_id in chunk.token_ids] == IDS


@pytest.mark.anyio
@with_and_without_ids
@pytest.mark.parametrize("outputs", OUTPUTS, ids=["one list", "ids and lists"])
@each_way
@each_base
async def test_streams_call_an_overridden_step(
    base: Any, way: Callable[[Any], Any], outputs: list[Any], with_ids: bool
) -> None:
    chunks = wrap(Engine(outputs), made(way(base)), return_token_ids=with_ids)
    assert "".join([chunk.text async for chunk in chunks]) == SWAPPED


@pytest.mark.anyio
@each_way
@each_base
async def test_tracers_call_an_overridden_step(base: Any, way: Callable[[Any], Any]) -> None:
    tracer: Any = Tracer(made(way(base)))
    assert "".join([chunk.text async for chunk in wrap(Engine(OUTPUTS[1]), tracer)]) == SWAPPED


@each_way
def test_trackers_of_log_probabilities_call_an_overridden_step(way: Callable[[Any], Any]) -> None:
    tracker = LogprobTracker(made(way(StopSequenceDecoder)))
    tracker.put(TokenLogprob(token_id, -0.5) for token_id in IDS)
    assert tracker.step_batch(IDS).text == SWAPPED


class Request:
    """A mixin that keeps the id of a request."""

    request_id = "none"


def in_a_dict(base: Any) -> Any:
    return type("Named", (Request, base), {})


def in_slots(base: Any) -> Any:
    class Slotted(base):  # type: ignore[misc]
        __slots__ = ("__secret", "request_id")

        @property
        def secret(self) -> str:
            return self.__secret

        def keep(self, secret: str) -> None:
            self.__secret = secret

    return Slotted


def in_slots_of_two_classes(base: Any) -> Any:
    return type("Between", (type("Slotted", (base,), {"__slots__": "request_id"}),), {})


KINDS = [
    (base, way)
    for base in [*BASES, Sequence, TextStopDecoder]
    for way in [in_a_dict, in_slots, in_slots_of_two_classes]
]


@pytest.mark.parametrize(("base", "way"), KINDS)
def test_copies_have_the_attributes_of_a_subclass(base: Any, way: Callable[[Any], Any]) -> None:
    decoder = way(base)() if base is TextStopDecoder else made(way(base))
    decoder.request_id = "r1"
    copies = [decoder.fork(), copy.copy(decoder), copy.deepcopy(decoder)]
    decoder.request_id = "r2"
    assert [each.request_id for each in copies] == ["r1"] * 3
    assert unpickled(decoder).request_id == "r2"


def unpickled(decoder: Any) -> Any:
    """Return the copy that pickle makes; it cannot import the class of ``decoder`` by its name."""
    restore, arguments, state = decoder.__reduce__()
    again = restore(*arguments)
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    for name, value in {**(attributes or {}), **(slots or {})}.items():
        setattr(again, name, value)
    return again


@pytest.mark.parametrize("base", [*BASES, Sequence], ids=lambda each: each.__name__)
def test_copies_have_the_private_slots_of_a_subclass(base: Any) -> None:
    decoder = made(in_slots(base))
    assert not hasattr(decoder.fork(), "secret")  # not set yet
    decoder.keep("s")
    assert (decoder.fork().secret, unpickled(decoder).secret) == ("s", "s")


class Pickled(SectionDecoder):
    __slots__ = ("request_id",)
    request_id: str


def test_a_pickle_has_the_slots_of_a_subclass() -> None:
    decoder = Pickled(MockTokenizer(), sections=SECTIONS)
    decoder.request_id = "r1"
    decoder.step(1)
    again = pickle.loads(pickle.dumps(decoder))
    assert (again.request_id, again.num_tokens) == ("r1", 1)


class OfARequest:
    """A mixin whose attribute has the name of an attribute of tracers."""

    decoder = "utf-8"


@pytest.mark.parametrize("base", [*BASES, Sequence], ids=lambda each: each.__name__)
def test_an_attribute_decoder_does_not_make_a_subclass_a_tracer(base: Any) -> None:
    counted = list[int]()

    class Count(Hook):
        def stream_ended(self, event: StreamEnded) -> None:
            counted.append(event.tokens)

    remove = add_hook(Count())
    try:
        with TextIterator([0, A, 1, B], made(type("OfARequest", (OfARequest, base), {}))) as chunks:
            sections = [chunk.section for chunk in chunks if chunk.text in ("a", "b")]
    finally:
        remove()
    assert (sections[0], counted) == ("r" if base is SectionDecoder else None, [4])


def test_a_tracker_takes_a_subclass_with_an_attribute_decoder() -> None:
    kind: Any = type("OfARequest", (OfARequest, StopSequenceDecoder), {})
    tracker = LogprobTracker(kind(TOKENIZER))
    tracker.put([TokenLogprob(A, -0.5)])
    assert tracker.step(A).text == "a"


@each_base
def test_a_copy_does_not_step_the_original(base: Any) -> None:
    """Though a method of the original was replaced by a function that does."""
    decoder = made(type("Patched", (base,), {}))
    original = decoder.step_chunk
    decoder.step_chunk = lambda token_id: original(token_id)
    copied = decoder.fork()
    list(TextIterator([A, B], copied))
    assert (decoder.num_tokens, copied.num_tokens) == (0, 2)


def test_a_feed_may_call_step_batch() -> None:
    class Feeding(StopSequenceDecoder):
        def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
            return self.step_batch(token_ids)

    assert Feeding(TOKENIZER).feed(IDS) == Chunk(TEXT)
    assert [each.text for each in iter_chunks([IDS], decoder=Feeding(TOKENIZER))] == [TEXT, ""]


class Logging:
    """A mixin whose ``feed`` only calls the next ``feed``."""

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Any:
        return super().feed(token_ids)  # type: ignore[misc]


@with_and_without_ids
@each_way
@each_base
def test_an_inherited_feed_does_not_bypass_an_overridden_step(
    base: Any, way: Callable[[Any], Any], with_ids: bool
) -> None:
    kind = way(type("Logged", (Logging, base), {}))
    chunks = TextIterator([A, IDS[1:3], REST, [A]], made(kind), return_token_ids=with_ids)
    assert "".join(chunk.text for chunk in chunks) == SWAPPED


@with_and_without_ids
@pytest.mark.parametrize("outputs", [IDS, [IDS]], ids=["ids", "one list"])
@each_base
def test_step_chunk_can_be_overridden_too(base: Any, outputs: list[Any], with_ids: bool) -> None:
    class Ending(base):  # type: ignore[misc]
        def step_chunk(self, token_id: SupportsIndex) -> Chunk:
            chunk: Chunk = super().step_chunk(token_id)
            return Chunk("B", "stop") if chunk.text == "b" else chunk

    chunks = [*TextIterator(outputs, made(Ending), return_token_ids=with_ids)]
    assert "".join(chunk.text for chunk in chunks) == "aB"
    assert chunks[-1].finish_reason == "stop"


def test_a_subclass_does_not_change_the_ids_of_other_streams() -> None:
    tokenizer = MockTokenizer.from_tokens([b"b\xc3", b"\xa9", b"z"])

    class NeverHolding(StopSequenceDecoder):
        def step(self, token_id: SupportsIndex) -> Chunk:
            chunk = super().step(token_id)
            self.release()
            return chunk

    def ids_of(ids: list[int], decoder: StopSequenceDecoder) -> list[Any]:
        chunks = iter_chunks(ids, decoder=decoder, return_token_ids=True)
        return [(chunk.text, chunk.token_ids) for chunk in chunks]

    expected = [("b", ()), ("é", (0, 1)), ("", ())]
    assert ids_of([0, 1], StopSequenceDecoder(tokenizer)) == expected
    assert ids_of([0, 2], NeverHolding(tokenizer)) == [("b", (0,)), ("z", (2,)), ("", ())]
    assert ids_of([0, 1], StopSequenceDecoder(tokenizer)) == expected


class Named:
    """A base that takes a keyword of the class statement, and passes the others on."""

    name = ""

    def __init_subclass__(cls, *, name: str = "", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name = name


@each_base
def test_other_bases_get_the_keywords_of_the_class_statement(base: Any) -> None:
    class First(base, Named, name="first"):  # type: ignore[misc]
        pass

    class Typed(base, Generic[T]):  # type: ignore[misc]
        pass

    assert First.name == "first"
    for kind in (First, Typed):
        assert joined(made(kind).step_batch(IDS)) == TEXT
