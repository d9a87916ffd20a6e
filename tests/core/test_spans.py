"""Where each token stands, on cases made by hand. The laws: ``tests/laws.py``."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.byte_table import ByteTable
from streamdec.errors import RewriteError
from streamdec.protocols import CTC, BPESuffix, ByteFallback, TextRules

STRIPPED = TextRules(ByteFallback(), strip_left=(" ", 2))
EXACT = {"byte_fallback": "exact"}
REPLACED = {"unknown_ids": "replace"}


@pytest.mark.parametrize(
    ("rule", "tokens", "ids", "options", "expected"),
    [
        # An empty span is before the character that its token interrupts.
        (
            *("byte_level", [b"a\xe4", b"<s>", b"\xbd\xa0"], [0, 1, 2, 1], {}),
            [(0, 2, 0, 4), (1, 1, 1, 1), (1, 2, 1, 4), (2, 2, 4, 4)],
        ),
        # The space of a suffix belongs to its token, except at the end.
        (BPESuffix(), [b"a</w>", b"b"], [0, 1, 0], {}, [(0, 2, 0, 2), (2, 3, 2, 3), (3, 4, 3, 4)]),
        (BPESuffix(), [b"</w>"], [0], {}, [(0, 0, 0, 0)]),
        # A stripped space belongs to no token.
        (STRIPPED, [b" ", b" a"], [0, 1, 1], {}, [(0, 0, 0, 0), (0, 1, 0, 1), (1, 3, 1, 3)]),
        (STRIPPED, [b"<0x20>", b"<0x41>"], [0, 1], EXACT, [(0, 0, 0, 0), (0, 1, 0, 1)]),
        # A repetition that is merged is empty, and a replaced unknown id is one character.
        (CTC(), [b"a", b"b"], [0, 0, 1], {}, [(0, 1, 0, 1), (1, 1, 1, 1), (1, 2, 1, 2)]),
        ("byte_level", [b"a"], [0, 9, 0], REPLACED, [(0, 1, 0, 1), (1, 2, 1, 4), (2, 3, 4, 5)]),
    ],
)
def test_the_spans_of_a_few_tokens(
    rule: Any, tokens: list[bytes], ids: list[int], options: dict[str, Any], expected: list[Any]
) -> None:
    special = [place for place, token in enumerate(tokens) if token == b"<s>"]
    tokenizer = MockTokenizer.from_tokens(tokens, special, rule)
    stream = DecodeStream(tokenizer, spans=True, **options)
    stream.step_batch(ids)
    stream.flush()
    assert stream.take_spans() == [(index, *place) for index, place in enumerate(expected)]


@pytest.mark.parametrize("count", range(1, 4))
@pytest.mark.parametrize("spaces", [0, 1, 2, 5])
@pytest.mark.parametrize("byte_fallback", ["exact", "eager"])
def test_tokens_whose_text_was_removed_have_empty_spans(
    count: int, spaces: int, byte_fallback: Any
) -> None:
    """In an open run too, of which several tokens may lose their text."""
    rule = TextRules(ByteFallback(), strip_left=(" ", count))
    tokenizer = MockTokenizer.from_tokens([b"<0x20>", b"<0x41>", b"b"], decoder=rule)
    stream = DecodeStream(tokenizer, byte_fallback=byte_fallback, spans=True)
    stream.step_batch([*[0] * spaces, 1, 2])
    sizes = [int(place >= count) for place in range(spaces)] + [1, 1]
    ends = [*itertools.accumulate(sizes)]
    expected = [(place, end - sizes[place], end) for place, end in enumerate(ends)]
    assert [span[:3] for span in stream.take_spans()] == expected


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


@pytest.mark.parametrize("is_shown", [False, True])
@pytest.mark.parametrize("unknown", ["skip", "error", "replace"])
def test_an_unknown_stop_id_ends_a_stream_with_spans_too(unknown: Any, is_shown: bool) -> None:
    """Spans change nothing else (law 0): a stop by id comes before the token's own text."""
    tokenizer = MockTokenizer.from_tokens([b"a\xc3"])
    conditions = StopConditions(stop_token_ids=[7], include_stop_str_in_output=is_shown)
    plain, decoder = (
        StopSequenceDecoder(tokenizer, conditions, unknown_ids=unknown, spans=spans)
        for spans in (False, True)
    )
    assert decoder.step_batch([0, 7]) == plain.step_batch([0, 7])
    assert decoder.match == plain.match
    own = int(is_shown and unknown == "replace")
    assert [span[1:3] for span in decoder.take_spans()] == [(0, 2), (2, 2 + own)]
