"""StopSequenceDecoder with cases by hand, which the random ones did not find."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from streamdec import (
    Chunk,
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    wrap,
)
from streamdec.errors import EncodeError, RewriteError
from streamdec.protocols import BPESuffix, ByteFallback, Metaspace, TextRules


def decoder_of(
    tokens: Sequence[bytes], conditions: StopConditions, special: Sequence[int] = ()
) -> StopSequenceDecoder:
    tokenizer = MockTokenizer.from_tokens(tokens, special)
    return StopSequenceDecoder(tokenizer, conditions, skip_special_tokens=False)


class Changing:
    """Its ``decode`` changes the text of token 0 if token 1 follows, which may be unfinished."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text = "".join("x\ufffdz"[token_id] for token_id in token_ids)
        return text.replace("x", "y") if 1 in token_ids else text


@pytest.mark.filterwarnings("ignore::streamdec.StreamdecWarning")
def test_a_last_token_whose_release_fails_was_not_taken() -> None:
    decoder = StopSequenceDecoder(Changing(), StopConditions(stop="ab", max_tokens=2))
    assert decoder.step(0).text == "x"
    before = decoder.snapshot()
    with pytest.raises(RewriteError):
        decoder.step(1)
    assert decoder.snapshot() == before
    assert decoder.step(2) == Chunk("z", "length")


@pytest.mark.parametrize("limit", [1, 2, 3, 1_024, 5_000])
@pytest.mark.parametrize("id_at_rest", [0, 2])
def test_max_tokens_is_exact_for_streams_of_any_length(limit: int, id_at_rest: int) -> None:
    """The hot path does not ask for it: the count reaches zero."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"b", b"c"])
    for _ in range(2):
        decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="x", max_tokens=limit))
        chunk = decoder.feed([id_at_rest] * (limit + 5))
        assert (decoder.num_tokens, chunk.unread_tokens) == (limit, 5)
        assert len(chunk.text) == limit
        assert chunk.finish_reason == "length"


def test_tokens_that_wait_since_the_prompt_survive_a_snapshot() -> None:
    tokenizer = MockTokenizer.from_tokens([b"x", b"\xf0", b"\x9f"], decoder="byte_fallback")
    conditions = StopConditions("\ufffd\ufffd", visible_stop_token_ids=[2])
    decoder = StopSequenceDecoder(tokenizer, conditions, [0, 1, 2], byte_fallback="exact")
    moved = StopSequenceDecoder.restore(tokenizer, json.loads(json.dumps(decoder.snapshot())))
    assert moved.snapshot() == decoder.snapshot()
    assert moved.step(2) == decoder.step(2) == Chunk("", "stop", "\ufffd\ufffd")


def test_text_before_a_visible_stop_id_is_matched_in_replaced_text() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b" ", b"x"])
    conditions = StopConditions(" ", visible_stop_token_ids=[2])
    decoder = StopSequenceDecoder(tokenizer, conditions, clean_up_tokenization_spaces=True)
    assert [decoder.step(token_id) for token_id in (0, 1, 2)][-1] == Chunk("", "stop", " ")
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.tokens_before) == (1, 1)


def test_text_before_a_visible_stop_id_is_matched_on_the_windowed_route() -> None:
    tokenizer = Window.from_tokens([b"a", b"\xe4", b"x"])
    for conditions, expected in (
        (StopConditions("\ufffd", visible_stop_token_ids=[2]), Chunk("", "stop", "\ufffd")),
        (StopConditions("y", visible_stop_token_ids=[2]), Chunk("\ufffdx", "stop", 2)),
    ):
        decoder = StopSequenceDecoder(tokenizer, conditions)
        assert decoder.route == "window"
        assert [decoder.step(token_id) for token_id in (0, 1, 2)][-1] == expected


def test_text_that_the_prompt_began_is_held_on_the_windowed_route() -> None:
    tokenizer = Window.from_tokens([b"a", b"\xe4", b"\xbd", b"\xa0"])
    decoder = StopSequenceDecoder(tokenizer, prompt_token_ids=[0, 1])
    for tokens in (0, 1):
        assert (decoder.held, decoder.num_pending_tokens) == ("\ufffd".encode(), tokens)
        text = decoder.step(2 + decoder.num_tokens).text
    assert (text, decoder.held, decoder.num_pending_tokens) == ("你", b"", 0)


class Window(MockTokenizer):
    """Knows no rules, so its streams are windowed."""

    rules = None  # type: ignore[assignment]


def test_the_tokens_before_a_stop_in_cleaned_up_text_of_a_window() -> None:
    tokenizer = Window.from_tokens([b"a", b" '", b"", b"x"])
    decoder = StopSequenceDecoder(
        tokenizer, StopConditions(" 'x"), clean_up_tokenization_spaces=True
    )
    decoder.step_batch([0, 1, 2, 3])
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.tokens_before) == (1, 1)


@pytest.mark.parametrize("byte_fallback", ["eager", "exact"])
def test_the_tokens_before_a_stop_where_bytes_cannot_be_told_apart(byte_fallback: Any) -> None:
    rule = ByteFallback(Metaspace("\u2581", prepend=True))
    tokenizer = MockTokenizer.from_tokens([b"a", b"<0xE4>", b"x"], decoder=rule)
    decoder = StopSequenceDecoder(tokenizer, StopConditions("\ufffdx"), byte_fallback=byte_fallback)
    decoder.step_batch([0, 1, 2])
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.tokens_before) == (1, 1)
    shown = StopConditions("\ufffd", visible_stop_token_ids=[2])
    decoder = StopSequenceDecoder(tokenizer, shown, byte_fallback=byte_fallback)
    assert [decoder.step(token_id) for token_id in (0, 1, 2)][-1] == Chunk("", "stop", "\ufffd")


@pytest.mark.parametrize(("num_tokens", "reason"), [(1, "length"), (2, "length"), (3, "stop")])
def test_the_end_completes_no_stop_before_min_tokens(num_tokens: int, reason: str) -> None:
    """The U+FFFD of a character that stays unfinished comes with the end."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xc3"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions("\ufffd", min_tokens=2))
    decoder.step_batch([0] * (num_tokens - 1) + [1])
    pending = decoder.pending_text
    last = decoder.flush()
    assert (pending, last.finish_reason) == (last.text, reason)
    assert last.text == ("" if reason == "stop" else "\ufffd")


def test_the_first_character_of_a_visible_stop_may_be_an_earlier_tokens() -> None:
    conditions = StopConditions(stop_token_ids=[2], include_stop_str_in_output=True)
    decoder = decoder_of([b"a\xe4", b"\xb8", b"\xad"], conditions)
    assert [decoder.step(token_id).text for token_id in (0, 1, 2)] == ["a", "", "中"]
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.tokens_before) == (1, 0)


def test_the_first_character_of_a_visible_stop_may_be_the_end_of_the_word_before() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a</w>x", b"b"], decoder=BPESuffix())
    conditions = StopConditions(visible_stop_token_ids=[1])
    decoder = StopSequenceDecoder(tokenizer, conditions, clean_up_tokenization_spaces=True)
    assert decoder.feed([0, 1]).text == "a xb"
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.end, decoder.match.tokens_before) == (1, 4, 0)


def test_a_stop_id_that_another_stream_reads_as_text_stops() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"b"])
    for _ in range(2):
        assert StopSequenceDecoder(tokenizer, StopConditions("x")).step(0) == Chunk("a")
    decoder = StopSequenceDecoder(tokenizer, StopConditions("x", [0]))
    assert decoder.step(0) == Chunk("", "stop", 0)


def test_the_tokens_before_a_stop_in_a_run_whose_first_space_was_removed() -> None:
    rules = TextRules(ByteFallback(), strip_left=(" ", 1))
    pieces = [b"<0x20>", b"<0xE4>", b"<0xBD>", b"<0xA0>", b"x"]
    tokenizer = MockTokenizer.from_tokens(pieces, decoder=rules)
    decoder = StopSequenceDecoder(tokenizer, StopConditions("你"), byte_fallback="exact")
    decoder.step_batch([0, 1, 2, 3, 4])
    assert decoder.match is not None
    assert (decoder.match.token_index, decoder.match.tokens_before) == (4, 1)


def test_a_marker_that_cannot_be_encoded_is_not_found_by_its_id_in_a_prompt() -> None:
    """It has an id, but the tokenizer makes it of no text: two special tokens have this text."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"#", b"#", b"x", b"y"], special_ids=[1, 2])
    with pytest.raises(EncodeError):
        tokenizer.encode("###")
    conditions = StopConditions("a", ignore_stops_between=[("#", "x"), (1, "y")])
    decoder = StopSequenceDecoder(tokenizer, conditions, [1])
    assert decoder.feed([3, 0]).text == "xa", "in the section that the id opens"
    assert decoder.feed([4, 0]).finish_reason == "stop"


@pytest.mark.parametrize("marker", [False, True])
@pytest.mark.parametrize("way", ["step", "step_batch", "stream", "stream of lists"])
def test_an_id_that_other_streams_met_before_it_was_a_stop_is_one(way: str, marker: bool) -> None:
    """It is met inside a character, where the table does not note which ids are named."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xc3", b"\xa9", b"b"])
    ids = [0, 1, 2, 3]
    assert "".join(DecodeStream(tokenizer).step_batch(ids)) == "aéb"
    conditions = StopConditions(stop_token_ids=[2])
    if marker:
        conditions = StopConditions("b", ignore_stops_between=("x", 2), starts_inside=True)
    decoder = StopSequenceDecoder(tokenizer, conditions)

    async def read() -> list[str]:
        source = [ids] if way == "stream of lists" else ids
        return [chunk.text async for chunk in wrap(source, decoder)]

    if way == "step":
        texts = [decoder.step(each).text for each in ids[: 4 if marker else 3]]
    else:
        texts = [decoder.feed(ids).text] if way == "step_batch" else anyio.run(read)
    assert "".join(texts) == ("aé" if marker else "a\ufffd")
    assert decoder.finish_reason == "stop"


def test_a_marker_id_while_a_suffix_owes_a_space_is_not_forgotten_by_a_release() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a</w>", b"<t>", b"b"], [1], BPESuffix())
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = [decoder.step(0), decoder.step(1), decoder.release(), decoder.step(2), decoder.flush()]
    parts = [(part.section, part.text) for chunk in chunks for part in chunk.split() if part.text]
    assert parts[-1][0] == "r"
    assert "".join(text for section, text in parts if section is None).strip() == "a"
