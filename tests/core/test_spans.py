"""Where each token stands, on cases made by hand."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.chunks import TokenSpan
from streamdec.core.byte_table import ByteTable
from streamdec.errors import RewriteError
from streamdec.protocols import CTC, BPESuffix, ByteFallback, DecodingRule, Metaspace, TextRules

Place = tuple[int, int, int, int]
"""start and end in code points, then in bytes."""


def stream_of(
    rule: str | DecodingRule | TextRules,
    tokens: Sequence[bytes],
    special: Sequence[int] = (),
    prompt: Sequence[int] = (),
    **options: bool | str,
) -> DecodeStream:
    tokenizer = MockTokenizer.from_tokens(tokens, special, rule)
    return DecodeStream(tokenizer, prompt, spans=True, **options)  # type: ignore[arg-type]


def places(stream: DecodeStream, token_ids: Sequence[int]) -> list[Place]:
    """Of each token in turn; none is handed out twice or out of order."""
    taken: list[TokenSpan] = []
    for token_id in token_ids:
        stream.step(token_id)
        taken += stream.take_spans()
    stream.flush()
    taken += stream.take_spans()
    assert [span.token_index for span in taken] == list(range(len(token_ids)))
    return [span[1:] for span in taken]


def of_bytes(*tokens: bytes, special: Sequence[int] = ()) -> list[Place]:
    return places(stream_of("byte_level", tokens, special), range(len(tokens)))


def test_an_end_that_raises_leaves_the_spans_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object, **__: object) -> None:
        raise RewriteError("decode changed its text")

    tokenizer = MockTokenizer.from_tokens([b"a", b"b\xc3"])
    decoder = StopSequenceDecoder(tokenizer, StopConditions(max_tokens=2), spans=True)
    decoder.step(0)
    with monkeypatch.context() as patch:
        patch.setattr(ByteTable, "flush", raises)
        with pytest.raises(RewriteError):
            decoder.step(1)
    assert decoder.step(1).finish_reason == "length"
    assert [span[:3] for span in decoder.take_spans()] == [(0, 0, 1), (1, 1, 3)]


def test_tokens_of_a_shared_character_all_point_at_it() -> None:
    """The ids of "ございます！" as llama.cpp gave them (abetlen/llama-cpp-python#1037)."""
    kana = ["ご", "い", "ま", "す", "！"]
    first, *others = (text.encode() for text in kana)
    found = of_bytes(first, b"\xe3", b"\x81", b"\x96", *others, b"\n", b"\n", b"I")
    assert [place[0] for place in found] == [0, 1, 1, 1, 2, 3, 4, 5, 6, 7, 8]
    assert [place[1] for place in found] == [1, 2, 2, 2, 3, 4, 5, 6, 7, 8, 9]
    assert [place[2] for place in found] == [0, 3, 3, 3, 6, 9, 12, 15, 18, 19, 20]


def test_a_token_without_text_has_its_span_before_the_character_it_interrupts() -> None:
    found = of_bytes(b"a\xe4", b"<s>", b"\xbd\xa0", b"<s>", b"", special=[1, 3])
    assert found == [(0, 2, 0, 4), (1, 1, 1, 1), (1, 2, 1, 4), (2, 2, 4, 4), (2, 2, 4, 4)]


def test_the_space_of_a_suffix_belongs_to_the_token_before() -> None:
    stream = stream_of(BPESuffix(), [b"a</w>", b"b", b"c</w>"])
    assert places(stream, [0, 1, 2]) == [(0, 2, 0, 2), (2, 3, 2, 3), (3, 4, 3, 4)]
    stream = stream_of(BPESuffix(), [b"</w>", b"b"])
    assert places(stream, [0, 1]) == [(0, 1, 0, 1), (1, 2, 1, 2)]
    stream = stream_of(BPESuffix(), [b"</w>"])
    assert places(stream, [0]) == [(0, 0, 0, 0)]


def test_a_stripped_space_belongs_to_no_token() -> None:
    rules = TextRules(ByteFallback(), strip_left=(" ", 2))
    stream = stream_of(rules, [b" ", b" a", b" b"])
    assert places(stream, [0, 1, 2]) == [(0, 0, 0, 0), (0, 1, 0, 1), (1, 3, 1, 3)]
    stream = stream_of(rules, [b"<0x20>", b"<0x41>", b"b"], byte_fallback="exact")
    assert places(stream, [0, 1, 2]) == [(0, 0, 0, 0), (0, 1, 0, 1), (1, 2, 1, 2)]
    stream = stream_of(Metaspace(), ["▁a".encode(), "▁b".encode()])
    assert places(stream, [0, 1]) == [(0, 1, 0, 1), (1, 3, 1, 3)]


def test_a_merged_repetition_has_an_empty_span() -> None:
    stream = stream_of(CTC(), [b"a", b"b"])
    assert places(stream, [0, 0, 1]) == [(0, 1, 0, 1), (1, 1, 1, 1), (1, 2, 1, 2)]


@pytest.mark.parametrize("unknown", ["skip", "replace"])
def test_an_unknown_id_is_empty_or_one_character(unknown: str) -> None:
    stream = stream_of("byte_level", [b"a"], unknown_ids=unknown)
    size = 3 if unknown == "replace" else 0
    middle = (1, 1 + size // 3, 1, 1 + size)
    assert places(stream, [0, 9, 0])[:2] == [(0, 1, 0, 1), middle]


@pytest.mark.parametrize("shown", [False, True])
@pytest.mark.parametrize("unknown", ["skip", "error", "replace"])
def test_an_unknown_stop_id_ends_a_stream_with_spans_too(unknown: str, shown: bool) -> None:
    """Spans change nothing else (law 0): a stop by id comes before the token's own text."""
    tokenizer = MockTokenizer.from_tokens([b"a\xc3"])
    conditions = StopConditions(stop_token_ids=[7], include_stop_str_in_output=shown)
    options: dict[str, Any] = {"unknown_ids": unknown}
    plain = StopSequenceDecoder(tokenizer, conditions, **options)
    decoder = StopSequenceDecoder(tokenizer, conditions, **options, spans=True)
    assert decoder.step_batch([0, 7]) == plain.step_batch([0, 7])
    assert decoder.match == plain.match
    own = int(shown and unknown == "replace")
    places = [(span.start, span.end) for span in decoder.take_spans()]
    assert places == [(0, 2), (2, 2 + own)]


@pytest.mark.parametrize("count", range(1, 4))
@pytest.mark.parametrize("spaces", range(6))
def test_tokens_whose_text_was_removed_have_empty_spans(count: int, spaces: int) -> None:
    """In an open run too, of which several tokens may lose their text."""
    rule = TextRules(ByteFallback(), strip_left=(" ", count))
    tokenizer = MockTokenizer.from_tokens([b"<0x20>", b"<0x41>", b"b"], decoder=rule)
    for byte_fallback in ("exact", "eager"):
        stream = DecodeStream(tokenizer, byte_fallback=byte_fallback, spans=True)
        stream.step_batch([*[0] * spaces, 1, 2])
        sizes = [int(place >= count) for place in range(spaces)] + [1, 1]
        ends = [*itertools.accumulate(sizes)]
        places = [(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        expected = [(index, *place) for index, place in enumerate(places)]
        assert [span[:3] for span in stream.take_spans()] == expected
