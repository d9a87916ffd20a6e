"""The event of a stream has what its reader can count."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import (
    DecoderPool,
    MockTokenizer,
    SourceError,
    StopConditions,
    StopSequenceDecoder,
    StreamdecWarning,
    TokenIdError,
    iter_chunks,
    stream,
)
from streamdec.hooks import StopKind, StreamEnded
from tests.hooks.recording import recording
from tests.stop_laws import setup_of
from tests.stop_model import Situation
from tests.strategies import situations
from tests.streams.engines import Script, async_generator, read_async, read_plain
from tests.support.wrappers import Decoding

TOKENS = [b"a", b"b", b"\xe4\xbd", b"\xa0", b"STOP", b"ST", b"<eos>", b"O"]
TOKENIZER = MockTokenizer.from_tokens(TOKENS, {6})
HALF, REST, STOP, ST, EOS, OH = 2, 3, 4, 5, 6, 7


class Counted(NamedTuple):
    """What a reader sees who looks at everything after each output, as an event names it."""

    tokens: int
    chunks: int
    characters: int
    held_tokens: int
    jailed_tokens: int
    max_held_bytes: int
    max_jailed_characters: int
    max_pending_tokens: int


def counted(decoder: StopSequenceDecoder, outputs: Sequence[list[int]]) -> Counted:
    """As it would be without a stream: each output stepped by itself, and then the end."""
    texts: list[str] = []
    withheld: list[tuple[int, int, int]] = []
    for ids in outputs:
        chunk = decoder.feed(ids)
        texts.append(chunk.text)
        if chunk.finish_reason is not None:
            break
        if not chunk.text:
            withheld.append((len(decoder.held), len(decoder.jailed), decoder.num_pending_tokens))
    else:
        texts.append(decoder.flush().text)
    held, jailed, pending = zip(*withheld, strict=True) if withheld else ((0,), (0,), (0,))
    return Counted(
        decoder.num_tokens,
        *(sum(map(bool, texts)), len("".join(texts))),
        *(sum(map(bool, held)), sum(map(bool, jailed))),
        *(max(held), max(jailed), max(pending)),
    )


def told(event: StreamEnded) -> Counted:
    return Counted(*(getattr(event, name) for name in Counted._fields))


def read_engine(outputs: Sequence[Any], decoder: StopSequenceDecoder, **options: Any) -> None:
    read_async(async_generator(Script(outputs)), decoder, **options)


def read_pool(outputs: Sequence[Any], decoder: StopSequenceDecoder, **options: Any) -> None:
    pool = DecoderPool(decoder.tokenizer, **options)
    pool.adopt("it", decoder)
    for ids in outputs:
        pool.step({"it": ids})
        if "it" not in pool:
            return
    pool.finish("it", "length")


READERS: list[Callable[..., object]] = [read_plain, read_engine, read_pool]
SITUATIONS = situations(unknown_ids=False).filter(lambda situation: bool(situation.ids))


@pytest.mark.filterwarnings("ignore:.*seem to be cumulative")  # drawn ids may repeat
@pytest.mark.parametrize("read", READERS)
@given(SITUATIONS, st.data(), st.booleans())
def test_a_stream_counts_what_its_reader_can(
    read: Callable[..., None], situation: Situation, data: st.DataObject, covers: bool
) -> None:
    """However outputs are cut, and whether or not chunks say which ids they cover."""
    ids = list(situation.ids)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(ids)))))
    outputs = [ids[a:b] for a, b in zip([0, *cuts], [*cuts, len(ids)], strict=True) if a < b]
    expected = counted(setup_of(situation).decoder(), outputs)
    given: list[Any] = [ids[0] if len(ids) == 1 else ids for ids in outputs]
    with recording() as hook:
        read(given, setup_of(situation).decoder(), return_token_ids=covers)
    (event,) = hook.streams
    assert told(event) == expected


def ended(outputs: Any, **options: Any) -> StreamEnded:
    with recording() as hook:
        with iter_chunks(outputs, TOKENIZER, **options) as chunks:
            for _ in chunks:
                pass
        (event,) = hook.streams
    return event


@pytest.mark.parametrize(
    ("outputs", "options", "finish", "kind"),
    [
        ([0, STOP, 0], {"stop": "STOP"}, "stop", "string"),
        ([0, ST, OH, 0], {"stop_regex": "STO"}, "stop", "regex"),
        ([0, STOP], {"stop_token_ids": [STOP]}, "stop", "token_id"),
        ([0, EOS], {"eos_token_ids": [EOS]}, "stop", "eos"),
        ([0, {"token_ids": [1], "finish_reason": "stop"}], {}, "stop", "engine"),
        ([0, {"token_ids": [1], "finish_reason": "length"}], {}, "length", None),
        ([0, 1], {"max_tokens": 1}, "length", None),
        ([0, {"token_ids": [], "finish_reason": "abort"}], {}, "abort", None),
        ([], {}, "length", None),
    ],
)
def test_why_it_ended(
    outputs: list[Any], options: dict[str, Any], finish: str, kind: StopKind | None
) -> None:
    event = ended(outputs, **options)
    assert (event.finish_reason, event.stop_kind, event.error_type) == (finish, kind, None)


def test_a_stream_that_is_left_is_reported_once_as_aborted() -> None:
    with recording() as hook:
        with iter_chunks([0, 1, 0], TOKENIZER) as chunks:
            assert next(chunks).text == "a"
        chunks.close()
        assert [(e.finish_reason, e.tokens, e.chunks) for e in hook.streams] == [("abort", 1, 1)]
        with iter_chunks([0, 1, 0], TOKENIZER):
            pass
    assert [(e.finish_reason, e.tokens) for e in hook.streams] == [("abort", 1), ("abort", 0)]


def test_a_cancelled_reader_has_aborted_and_not_failed() -> None:
    async def engine() -> Any:
        yield 0
        await anyio.sleep_forever()

    async def main() -> None:
        with anyio.move_on_after(0.01):
            async for _ in stream(engine(), TOKENIZER):
                pass

    with recording() as hook:
        anyio.run(main)
    (event,) = hook.streams
    assert (event.finish_reason, event.error_type, event.chunks) == ("abort", None, 1)


@pytest.mark.parametrize("output", [-1, [0, -1], [0, ST, -1], {"new": 0}])
def test_a_bad_output_is_an_error_after_the_text_before_it(output: Any) -> None:
    with recording() as hook, pytest.raises((TokenIdError, SourceError)) as raised:
        for _ in iter_chunks([1, output], TOKENIZER, stop="STOP"):
            pass
    (event,) = hook.streams
    before = output[:-1] if isinstance(output, list) else []
    assert (event.finish_reason, event.error_type) == ("error", raised.type.__name__)
    assert (event.tokens, event.chunks) == (1 + len(before), 1 + (0 in before))


def test_a_bad_id_in_a_pool_is_the_end_of_its_request() -> None:
    pool = DecoderPool(TOKENIZER)
    with recording() as hook:
        pool.add("a")
        pool.add("b")
        pool.step({"a": [0, HALF, -1], "b": 1})
        pool.fork("b", "c")
        pool.step({"b": 0, "c": [0, 0]})
        pool.abort("c")
        pool.finish("b")
    a, c, b = hook.streams
    assert (a.finish_reason, a.error_type, a.tokens, a.chunks) == ("error", "TokenIdError", 2, 1)
    assert (b.finish_reason, b.stop_kind, b.tokens) == ("stop", "engine", 2)
    assert (c.finish_reason, c.tokens, c.characters) == ("abort", 2, 2)


@pytest.mark.parametrize("read", READERS)
def test_a_round_without_a_token_is_not_counted_as_an_output(read: Callable[..., None]) -> None:
    with recording() as hook:
        for outputs in ([[0], [HALF], [REST, ST]], [[0], [], [HALF], [], [], [REST, ST], []]):
            read(outputs, StopSequenceDecoder(TOKENIZER, StopConditions(stop="STOP")))
    plain, with_empty = hook.streams
    assert plain == with_empty
    assert (plain.held_tokens, plain.jailed_tokens, plain.chunks) == (1, 0, 3)


@pytest.mark.parametrize("read", READERS)
def test_the_text_of_markers_is_not_counted(read: Callable[..., None]) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, sections={"s": ("STOP", "O")})
    with recording() as hook:
        read([0, STOP, [1, OH, 1], 0], decoder)
    (event,) = hook.streams
    assert (event.characters, event.chunks, event.tokens) == (4, 4, 6)


def test_an_unfinished_character_is_reported() -> None:
    assert ended([0, HALF]).ends_incomplete
    assert ended([0, HALF], max_tokens=2).ends_incomplete
    assert not ended([0, HALF, REST]).ends_incomplete


@pytest.mark.parametrize("has_ids", [False, True])
def test_a_resumed_stream_reports_only_its_own_part(has_ids: bool) -> None:
    decoder = StopSequenceDecoder(TOKENIZER, StopConditions(stop="STOP"))
    decoder.step_batch([0, 99, 1, ST])
    with recording() as hook:
        again = StopSequenceDecoder.restore(TOKENIZER, decoder.snapshot())
        chunks = [*iter_chunks([OH, 0, 1], again, return_token_ids=has_ids)]
    assert "".join(chunk.text for chunk in chunks) == "STOab"
    assert sum((chunk.token_ids for chunk in chunks), ()) == ((OH, 0, 1) if has_ids else ())
    (event,) = hook.streams
    assert (event.tokens, event.unknown_tokens, event.characters, event.chunks) == (3, 0, 5, 2)
    ended_already = pytest.warns(StreamdecWarning, match="has already ended")
    with recording() as hook, ended_already:  # the end is not reported twice
        assert not [chunk for chunk in iter_chunks([0], again) if chunk.text]
    assert hook.streams == []


def test_the_decoder_is_named() -> None:
    assert (ended([0]).tokenizer_type, ended([0]).route) == ("mock", "bytes")
    with recording() as hook:
        for _ in iter_chunks([0, 1], Decoding(lambda ids: "x" * len(ids))):
            pass
    (event,) = hook.streams
    assert (event.tokenizer_type, event.route, event.characters) == ("Decoding", "window", 2)
    assert hook.calls == []
