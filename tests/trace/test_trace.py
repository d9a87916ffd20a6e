"""A trace tells what happened, and can be written as lines and as a page."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamdec import Chunk, DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.decode_options import ByteFallbackMode
from streamdec.errors import TokenIdError
from streamdec.trace import Trace, Tracer, Verdict
from streamdec.trace.html import html_page
from streamdec.trace.records import TokenRecord
from streamdec.trace.verdict import verdict_on
from tests.stop_laws import setup_of
from tests.stop_model import Situation
from tests.streams.engines import read_async, read_plain
from tests.test_laws import subject_named
from tests.test_stop_patterns import ANY
from tests.trace.pages import HOSTILE, trace_of

TOKENS = [
    *(b"a", b"b", b" the", b"\n", b"Us", b"er:", b"\xf0\x9f", b"\x98\x80", b"\xc3", b"\xa9"),
    *(b"\xff", b"\x80", b"", b"<end>", "ß日😀".encode()),
]
SKIPPED = [13]
UNKNOWN = len(TOKENS) + 7
STOPS = StopConditions(["\nUser:", "\nUs\n"], stop_token_ids=[12], visible_stop=["日"])


def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens(TOKENS, SKIPPED)


def test_a_traced_token_has_its_state_and_output() -> None:
    tracer = Tracer(StopSequenceDecoder(tokenizer(), STOPS))
    tracer.step_batch([6, 7, 13, UNKNOWN, 3, 4])
    last = tracer.step(5)
    half, whole, skipped, unknown, newline, us, end = tracer.trace().tokens
    assert (half.token_id, half.data, half.text, half.held) == (6, b"\xf0\x9f", "", b"\xf0\x9f")
    assert (whole.text, whole.held) == ("😀", b"")
    assert [token.kind for token in (half, skipped, unknown)] == ["text", "skipped", "unknown"]
    assert (newline.jailed, newline.may_become) == ("\n", ("\nUs\n", "\nUser:"))
    assert (us.jailed, us.may_become, us.chunk) == ("\nUs", ("\nUs\n", "\nUser:"), 0)
    assert (end.chunk, end.finish_reason, end.stop_reason) == (1, "stop", "\nUser:")
    assert last.stop_reason == end.stop_reason
    assert [token.position for token in (half, whole, newline, us, end)] == [0, 0, 1, 2, 4]
    shown = Tracer(DecodeStream(tokenizer(), skip_special_tokens=False))
    assert shown.step(13) == "<end>"
    assert shown.trace().tokens[0].kind == "special"


def test_a_trace_may_begin_in_the_middle_or_after_an_unknown_prompt() -> None:
    not_known = Verdict(None, reason="the ids before the trace are not known")
    after_prompt = Tracer(DecodeStream(tokenizer(), [8]))
    assert after_prompt.step(9) + after_prompt.flush() == "é"
    assert after_prompt.trace().verdict == not_known
    for prompt in (None, [0]):
        decoder = StopSequenceDecoder(tokenizer(), STOPS)
        decoder.step_batch([0, 3])
        tracer = Tracer(decoder, prompt)
        tracer.step(8)
        tracer.step(9)
        tracer.flush()
        trace = tracer.trace()
        assert [(token.text, token.position) for token in trace.tokens] == [("", 1), ("\né", 1)]
        assert trace.verdict == not_known


def test_lines_leave_out_default_values() -> None:
    tracer = Tracer(StopSequenceDecoder(tokenizer(), STOPS))
    tracer.step_batch([0, 3])
    tracer.flush()
    header, first, second, end = map(json.loads, tracer.trace().lines())
    assert (header["streamdec_trace"], header["machine"], header["route"]) == (1, "stop", "bytes")
    assert (first["index"], first["token_id"], first["text"]) == (0, 0, "a")
    assert {"held", "jailed", "may_become", "kind", "stop_reason"}.isdisjoint(first)
    assert (second["jailed"], second["may_become"]) == ("\n", ["\nUs\n", "\nUser:"])
    assert end["end"] == {"text": "\n", "finish_reason": "length", "stop_reason": None}
    assert end["verdict"]["equal"] is True


def test_copies_are_the_decoders_own() -> None:
    tracer = Tracer(StopSequenceDecoder(tokenizer(), STOPS))
    assert {type(tracer.fork()), type(copy.copy(tracer))} == {StopSequenceDecoder}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tracer.nothing
    for name in ("step_bytes", "flush_bytes", "release"):
        with pytest.raises(AttributeError, match=rf"{name}\(\) cannot be traced"):
            getattr(tracer, name)


SECTIONS = {"thought": ("<t>", "</t>")}


def test_a_decoder_with_sections_is_traced() -> None:
    made = MockTokenizer.from_tokens([b"<t", b">", b"a", b"</t>", b"b\n", b"Us"])
    tracer = Tracer(StopSequenceDecoder(made, STOPS, sections=SECTIONS))
    chunks = [tracer.step(token_id) for token_id in range(6)]
    shown = [(chunk.text, chunk.section) for chunk in chunks if chunk.text]
    assert shown == [("a", "thought"), ("b", None)]
    tracer.flush()
    trace = tracer.trace()
    assert [token.position for token in trace.tokens] == [0, 2, 3, 4, 8, 10]
    assert [token.may_become for token in trace.tokens[:2]] == [(), ()]
    assert (trace.tokens[0].jailed, trace.tokens[4].jailed) == ("<t", "\n")
    assert trace.tokens[4].may_become == ("\nUs\n", "\nUser:")
    assert trace.verdict == Verdict(None, reason="the markers of sections are not output")


OUTPUTS: list[Any] = [0, [3, 4], [3, 8], 9, [3, 4, 5, 0]]
WAYS: dict[str, Callable[[Any], list[Chunk]]] = {
    "wrap": lambda machine: read_async(OUTPUTS, machine),
    "wrap, with ids": lambda machine: read_async(OUTPUTS, machine, return_token_ids=True),
    "iter_chunks": lambda machine: read_plain(OUTPUTS, machine),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_decoder_inside_a_stream(way: str) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: StopSequenceDecoder(tokenizer(), STOPS),
        lambda: StopSequenceDecoder(tokenizer()),
    ]
    if way != "iter_chunks":
        makers.append(lambda: DecodeStream(tokenizer()))
    for make, finish_reason in zip(makers, ("stop", "length", None), strict=False):
        tracer = Tracer(make())
        assert WAYS[way](tracer) == WAYS[way](make())
        trace = tracer.trace()
        assert trace.verdict.equal, trace.verdict
        if way != "wrap, with ids":  # then each id is given alone
            ids = [output if isinstance(output, list) else [output] for output in OUTPUTS]
            expected = [chunk for chunk, group in enumerate(ids) for _ in group]
            assert [token.chunk for token in trace.tokens] == expected[: len(trace.tokens)]
        assert trace.finish_reason == finish_reason


PIECES = {
    "byte_level": ["a", "Ã ©", "Ã", "©", "ÿ"],
    "byte_fallback": ["<0x61>", "<0xC3> <0xA9>", "<0xC3>", "<0xA9>", "<0xFF>"],
    "bpe_suffix": ["i</w>", "</w>j", "x", "</w>", "<s>"],
}
PLACES = st.lists(st.integers(0, 4), max_size=5)
MODES = st.sampled_from(["eager", "exact"])


@pytest.mark.parametrize("name", PIECES)
@settings(max_examples=50)
@example(([0, 2], [3]), 0, True, "exact")
@given(st.tuples(PLACES, PLACES), st.integers(0, 9), st.booleans(), MODES)
def test_a_stream_after_a_prompt_has_no_difference_and_lost_text_is_one(
    name: str, places: Any, lost: int, skip: bool, byte_fallback: ByteFallbackMode
) -> None:
    made = subject_named(name).tokenizer
    texts = (" ".join(PIECES[name][place] for place in each) for each in places)
    prompt, ids = ([made.token_to_id(piece) or 0 for piece in text.split()] for text in texts)
    stream = DecodeStream(made, prompt, skip_special_tokens=skip, byte_fallback=byte_fallback)
    tracer = Tracer(stream, prompt)
    tracer.step_batch(ids)
    tracer.flush()
    trace = tracer.trace()
    assert trace.verdict.equal, trace.verdict
    assert byte_fallback == "eager" or "bad bytes" not in trace.verdict.reason
    shown = [token for token in trace.tokens if token.text]
    if shown:
        index, tokens = shown[lost % len(shown)].index, [*trace.tokens]
        tokens[index] = replace(tokens[index], text="")
        assert verdict_on(replace(trace, tokens=tuple(tokens)), made, ids, prompt).equal is False


class Elements(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attributes if name in ("src", "href")]


def data_in(page: str) -> list[object]:
    found = re.search(r'<script type="application/json" id="trace">(.*?)</script>', page, re.DOTALL)
    assert found
    rows = json.loads(found[1])
    assert isinstance(rows, list)
    return rows


def test_the_page_has_the_trace_as_it_is_and_names_no_other_place() -> None:
    trace = trace_of()
    assert data_in(html_page(trace)) == [json.loads(line) for line in trace.lines()]
    page = html_page(replace(trace_of(), tokens=()))
    assert not re.search(r"https?:|url\(|@import|src=|href=|fetch\(|XMLHttp|import\(", page)


def test_no_text_becomes_an_element() -> None:
    plain = Elements(html_page(Trace(trace_of().header)))
    trace = trace_of()
    header = replace(trace.header, tokenizer=HOSTILE + "\ud800", tokenizer_class=HOSTILE)
    header = replace(header, conditions={"stop": (HOSTILE,)})
    verdict = replace(trace.verdict, equal=False, reason=HOSTILE)
    page = html_page(replace(trace, header=header, error=HOSTILE, verdict=verdict))
    tags = Elements(page).tags
    assert [tag for tag in tags if tag not in ("dt", "dd")] == [
        tag for tag in plain.tags if tag not in ("dt", "dd")
    ]
    assert Elements(page).addresses == []
    page.encode()
    # Not even the signs that change how a reader sees the rest.
    assert not set(page) & set("\u2028\u202e\u0000\ud800")


def test_the_page_has_a_head_with_the_verdict_and_the_options() -> None:
    page = html_page(trace_of())
    assert "equal to the full decode: yes" in page
    facts = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", unescape(page)))
    assert (facts["decoder"], facts["route"]) == ("StopSequenceDecoder", "bytes")
    assert (facts["byte_fallback"], facts["stop"]) == ('"eager"', r'["\nUser:"]')
    assert "streamdec" in facts["versions"]
    tracer = Tracer(DecodeStream(MockTokenizer(), [1]))
    assert "the stream began after a prompt" in html_page(tracer.trace())
    assert "not compared: the stream continues" in html_page(tracer.trace())


WORDS = [b"Hi", b" you", b" \xe6\x97", b"\xa5", b"\nUs", b"er:", b"!", b"<end>", b"."]
HI_YOU = [0, 1, 2, 3, 6, 4, 5]
"""Hi you, a character over two tokens, and a stop over two."""


def words() -> MockTokenizer:
    return MockTokenizer.from_tokens(WORDS, [7])


def traced(ids: Sequence[int], **conditions: Any) -> Tracer[Any]:
    tracer = Tracer(StopSequenceDecoder(words(), StopConditions(**conditions)))
    tracer.step_batch(ids)
    tracer.flush()
    return tracer


@given(situation=ANY, group=st.integers(1, 4))
def test_the_text_of_a_stopped_stream_equals_the_full_decode(
    situation: Situation, group: int
) -> None:
    tracer = Tracer(setup_of(situation).decoder(), situation.prompt)
    try:
        for start in range(0, len(situation.ids), group):
            if not tracer.finished:
                tracer.step_batch(situation.ids[start : start + group])
    except TokenIdError:
        assert "TokenIdError" in (tracer.trace().error or "")
    if not tracer.finished:
        assert tracer.trace().verdict == Verdict(None, reason="the stream continues")
    tracer.flush()
    verdict = tracer.trace().verdict
    if situation.unknown_ids == "replace":
        assert "which decode() does not have" in verdict.reason
    else:
        assert verdict.equal, verdict


def test_a_prompt_is_known_again_after_a_reset() -> None:
    stream = DecodeStream(words(), [0, 2])
    stream.step(3)
    tracer = Tracer(stream, [0, 2])
    tracer.reset()
    tracer.step(3)
    tracer.flush()
    assert tracer.trace().verdict == Verdict(equal=True)


@pytest.mark.parametrize(("kind", "text"), [("visible_stop", "Hi \ufffd"), ("stop", "Hi")])
def test_a_stop_in_the_text_that_a_stop_id_ends_is_no_difference(kind: str, text: str) -> None:
    """The id would complete the character, of which the stop has the U+FFFD."""
    tracer = traced([0, 2, 3], **{kind: " \ufffd"}, stop_token_ids=[3])
    trace = tracer.trace()
    assert (trace.text, tracer.match.stop) == (text, " \ufffd")
    assert trace.verdict == Verdict(equal=True)


@pytest.mark.parametrize("conditions", [{"stop_token_ids": [7]}, {"stop": "<end>"}], ids=str)
def test_text_that_is_lost_before_an_id_is_a_difference(conditions: dict[str, Any]) -> None:
    """Also if the decoder says that the stop is as much earlier."""
    tracer = traced([0, 1, 7, 0], **conditions)
    trace, match = tracer.trace(), tracer.match._replace(start=5)
    assert trace.verdict == Verdict(equal=True)
    tokens = trace.tokens[0], replace(trace.tokens[1], text=" yo"), trace.tokens[2]
    verdict = verdict_on(replace(trace, tokens=tokens), words(), [0, 1, 7], None, match)
    assert (verdict.equal, verdict.token_index, verdict.position) == (False, 1, 5)


def test_a_decode_that_raises_gives_no_verdict() -> None:
    class Broken(MockTokenizer):
        def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
            if len(token_ids) > 1:
                raise RuntimeError("Hi you: no")
            return super().decode(token_ids, skip_special_tokens=skip_special_tokens)

    tracer = traced([0, 1])
    tracer.decoder.tokenizer = Broken.from_tokens(WORDS, [7])
    trace = tracer.trace()
    assert trace.verdict == Verdict(None, reason="decode() raised RuntimeError: Hi you: no")


def test_text_that_decode_does_not_clean_up_is_not_compared() -> None:
    tracer = Tracer(DecodeStream(words(), clean_up_tokenization_spaces=True))
    tracer.flush()
    told = "clean_up_tokenization_spaces=True, which decode() does not have"
    assert tracer.trace().verdict == Verdict(None, reason=told)


Breaking = Callable[[TokenRecord], TokenRecord]

LOST: Breaking = lambda token: replace(token, text="")  # noqa: E731 (each is one word of a table)
CHANGED: Breaking = lambda token: replace(token, text="#" + token.text[1:])  # noqa: E731
DOUBLED: Breaking = lambda token: replace(token, text=token.text * 2)  # noqa: E731
LEAKED: Breaking = lambda token: replace(token, text=token.text + "?")  # noqa: E731


def broken(tracer: Tracer[Any], index: int, breaking: Breaking) -> Verdict:
    """The verdict on a trace in which one token did something else."""
    trace = tracer.trace()
    assert trace.verdict.equal
    tokens = list(trace.tokens)
    tokens[index] = breaking(tokens[index])
    assert tokens[index] != trace.tokens[index]
    other = replace(trace, tokens=tuple(tokens))
    ids = [token.token_id or 0 for token in tokens]
    match = getattr(tracer, "match", None)
    return verdict_on(other, tracer.decoder.tokenizer, ids, None, match)


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"stop": "\nUser:"},
        {"visible_stop": "\nUser:"},
        {"stop_token_ids": [5]},
        {"visible_stop_token_ids": [5]},
        {"eos_token_ids": [5]},
        {"stop_token_ids": [5], "include_stop_str_in_output": True},
        {"max_tokens": 6},
    ],
    ids=str,
)
def test_a_token_that_gives_something_else_is_named(conditions: dict[str, Any]) -> None:
    for index, breaking in itertools.product([0, 1, 3, 4], [LOST, CHANGED, DOUBLED, LEAKED]):
        tracer = traced(HI_YOU, **conditions)
        verdict = broken(tracer, index, breaking)
        assert (verdict.equal, verdict.token_index) == (False, index)
        if breaking is CHANGED:
            assert verdict.position == tracer.trace().tokens[index].position
        assert f"first difference at token {index}" in str(verdict)


def test_text_that_is_lost_before_a_regex_is_a_difference() -> None:
    tracer = traced(HI_YOU, stop_regex=[r"\n\w+:"], max_match_length=9)
    assert tracer.finish_reason == "stop"
    verdict = broken(tracer, 4, LOST)
    assert (verdict.equal, verdict.token_index) == (False, 4)
    assert verdict.reason == r"the stream has 'Hi you 日', decode() has 'Hi you 日!\nUser:'"


def test_jailed_text_is_compared_too() -> None:
    tracer = traced([0, 4, 6], stop="\nUser:")
    trace = tracer.trace()
    first, us, last = trace.tokens
    wrong = replace(us, jailed="#Us"), replace(last, text="#Us!")
    for found, token_index in ((wrong, 1), ((us, wrong[1]), 2)):
        verdict = verdict_on(replace(trace, tokens=(first, *found)), words(), [0, 4, 6], None)
        assert (verdict.token_index, verdict.position) == (token_index, 2)


def test_a_difference_in_the_flush_is_at_no_token() -> None:
    tracer = traced([0, 2])
    trace = tracer.trace()
    assert trace.end is not None
    lost = replace(trace, end=replace(trace.end, text=""))
    verdict = verdict_on(lost, words(), [0, 2], None)
    assert (verdict.equal, verdict.token_index, verdict.position) == (False, None, 3)
    assert "no, first difference after the last: the stream has 'Hi '" in str(verdict)
