"""StopSequenceDecoder with cases by hand, which the oracle does not draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest

from streamdec import Chunk, DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import RewriteError
from streamdec.protocols import BPESuffix, ByteFallback, Metaspace, TextRules
from tests.support.wrappers import Decoding


class Window(MockTokenizer):
    """Knows no rules, so its streams are windowed."""

    rules = None  # type: ignore[assignment]


CLEAN: Mapping[str, Any] = {"clean_up_tokenization_spaces": True}
EXACT: Mapping[str, Any] = {"byte_fallback": "exact"}
SPACED = MockTokenizer.from_tokens([b"a", b"<0xE4>", b"x"], (), ByteFallback(Metaspace()))
SUFFIX = MockTokenizer.from_tokens([b"a</w>x", b"b"], (), BPESuffix())
RUN = [b"<0x20>", b"<0xE4>", b"<0xBD>", b"<0xA0>", b"x"]
STRIPPED = MockTokenizer.from_tokens(RUN, (), TextRules(ByteFallback(), strip_left=(" ", 1)))
FFFD = "\ufffd"
SHOWN = StopConditions(FFFD, visible_stop_token_ids=[2])


class Case(NamedTuple):
    """The tokens of a tokenizer in order, up to a stop."""

    name: str
    tokenizer: MockTokenizer
    conditions: StopConditions
    last: Chunk
    place: tuple[int, int]
    """The start of the match, and the number of tokens before it."""
    options: Mapping[str, Any] = {}


CASES = [
    Case(
        "text before a visible stop id is matched in replaced text",
        MockTokenizer.from_tokens([b"a", b" ", b"x"]),
        StopConditions(" ", visible_stop_token_ids=[2]),
        Chunk("", "stop", " "),
        (1, 1),
        CLEAN,
    ),
    Case(
        "and on the windowed route",
        Window.from_tokens([b"a", b"\xe4", b"x"]),
        SHOWN,
        Chunk("", "stop", FFFD),
        (1, 1),
    ),
    Case(
        "where the text of a visible stop id begins after that of the earlier tokens",
        Window.from_tokens([b"a", b"\xe4", b"x"]),
        StopConditions("y", visible_stop_token_ids=[2]),
        Chunk(f"{FFFD}x", "stop", 2),
        (2, 2),
    ),
    Case(
        "a stop in cleaned up text of a window",
        Window.from_tokens([b"a", b" '", b"", b"x"]),
        StopConditions(" 'x"),
        Chunk("", "stop", " 'x"),
        (1, 1),
        CLEAN,
    ),
    *(
        Case(
            f"bytes that cannot be told apart {options}", SPACED, conditions, last, (1, 1), options
        )
        for options in ({}, EXACT)
        for conditions, last in (
            (StopConditions(f"{FFFD}x"), Chunk("", "stop", f"{FFFD}x")),
            (SHOWN, Chunk("", "stop", FFFD)),
        )
    ),
    Case(
        "the first character of a visible stop id may be the end of the word before",
        SUFFIX,
        StopConditions(visible_stop_token_ids=[1]),
        Chunk(" xb", "stop", 1),
        (1, 0),
        CLEAN,
    ),
    Case(
        "a run whose first space was removed",
        STRIPPED,
        StopConditions("你"),
        Chunk("", "stop", "你"),
        (0, 1),
        EXACT,
    ),
    Case(
        "a visible stop id may be a part of a character that is removed",
        MockTokenizer.from_tokens([b"<0xC3>"], (), TextRules(ByteFallback(), ("é", 2))),
        StopConditions(visible_stop_token_ids=[0]),
        Chunk(FFFD, "stop", 0),
        (0, 0),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_match_has_its_place(case: Case) -> None:
    decoder = StopSequenceDecoder(case.tokenizer, case.conditions, **case.options)
    chunks = [decoder.step(token_id) for token_id in range(case.tokenizer.vocab_size)]
    assert chunks[-1] == case.last
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.tokens_before) == case.place


def changing(token_ids: Sequence[int]) -> str:
    """The text of token 0 changes if token 1 follows, which may be unfinished."""
    text = "".join("x\ufffdz"[token_id] for token_id in token_ids)
    return text.replace("x", "y") if 1 in token_ids else text


@pytest.mark.filterwarnings("ignore::streamdec.StreamdecWarning")
def test_a_last_token_whose_release_fails_was_not_taken() -> None:
    decoder = StopSequenceDecoder(Decoding(changing), StopConditions(stop="ab", max_tokens=2))
    assert decoder.step(0).text == "x"
    before = decoder.snapshot()
    with pytest.raises(RewriteError):
        decoder.step(1)
    assert decoder.snapshot() == before
    assert decoder.step(2) == Chunk("z", "length")


@pytest.mark.parametrize("limit", [1, 1_024, 5_000])
@pytest.mark.parametrize("id_at_rest", [0, 2])
def test_max_tokens_is_exact_for_streams_of_any_length(limit: int, id_at_rest: int) -> None:
    """The hot path does not ask for it: the count reaches zero."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"b", b"c"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="x", max_tokens=limit))
    chunk = decoder.feed([id_at_rest] * (limit + 5))
    assert (decoder.num_tokens, chunk.unread_tokens) == (limit, 5)
    assert (len(chunk.text), chunk.finish_reason) == (limit, "length")


def test_text_that_the_prompt_began_is_held_on_the_windowed_route() -> None:
    tokenizer = Window.from_tokens([b"a", b"\xe4", b"\xbd", b"\xa0"])
    decoder = StopSequenceDecoder(tokenizer, prompt_token_ids=[0, 1])
    for tokens in (0, 1):
        assert (decoder.held, decoder.num_pending_tokens) == (FFFD.encode(), tokens)
        text = decoder.step(2 + decoder.num_tokens).text
    assert (text, decoder.held, decoder.num_pending_tokens) == ("你", b"", 0)


@pytest.mark.parametrize("is_marker", [False, True])
@pytest.mark.parametrize("is_list", [False, True])
def test_an_id_that_other_streams_met_before_it_was_a_stop_is_one(
    is_list: bool, is_marker: bool
) -> None:
    """It is met inside a character, where the table does not note which ids are named."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xc3", b"\xa9", b"b"])
    ids = [0, 1, 2, 3]
    assert "".join(DecodeStream(tokenizer).step_batch(ids)) == "aéb"
    conditions = StopConditions(stop_token_ids=[2])
    if is_marker:
        conditions = StopConditions("b", ignore_stops_between=("x", 2), starts_inside=True)
    decoder = StopSequenceDecoder(tokenizer, conditions)
    groups = [ids] if is_list else [[each] for each in ids]
    text = "".join(decoder.feed(group).text for group in groups if not decoder.finished)
    assert (text, decoder.finish_reason) == ("aé" if is_marker else f"a{FFFD}", "stop")


def test_a_marker_id_while_a_suffix_owes_a_space_is_not_forgotten_by_a_release() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a</w>", b"<t>", b"b"], [1], BPESuffix())
    decoder = StopSequenceDecoder(tokenizer, sections={"r": (1, 9)})
    chunks = [decoder.step(0), decoder.step(1), decoder.release(), decoder.step(2), decoder.flush()]
    parts = [(part.section, part.text) for chunk in chunks for part in chunk.split() if part.text]
    assert parts[-1][0] == "r"
    assert "".join(text for section, text in parts if section is None).strip() == "a"
