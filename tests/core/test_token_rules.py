"""Decoding rules: what is read of a prompt, and unknown ids. Their texts: ``tests/laws.py``."""

from __future__ import annotations

from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer, StopSequenceDecoder
from streamdec.core.decode_options import ByteFallbackMode
from streamdec.core.rules.byte_fallback import fallback_byte, fallback_bytes
from streamdec.errors import TokenIdError
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    DecodingRule,
    Joined,
    Metaspace,
    RawBytes,
    TextRules,
    WordPiece,
)

RULES: list[DecodingRule | TextRules] = [
    RawBytes(),
    Joined(),
    Metaspace(),
    BPESuffix(),
    CTC(),
    ByteFallback(),
    ByteFallback(Metaspace()),
    TextRules(ByteFallback(), strip_left=(" ", 1)),
]


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_bad_id_of_a_prompt_is_named(rule: DecodingRule | TextRules) -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"b", b"<s>"], [2], rule)
    for bad in (-1, 2**32, True, 1.0, None):
        prompt: Any = [2, bad, 2]
        with pytest.raises(TokenIdError, match="prompt token"):
            DecodeStream(tokenizer, prompt, byte_fallback="exact")


@pytest.mark.parametrize(
    ("rule", "ids", "texts"),
    [
        (CTC(), [9, 9, 0, 9, 0], ["\ufffd", "\ufffd", "a", "\ufffd", "a"]),
        (Joined(), [9, 0], ["\ufffd", " a"]),
        (WordPiece(), [9, 0], ["\ufffd", " a"]),
    ],
)
def test_an_unknown_id_that_is_replaced_is_a_token_of_its_own(
    rule: DecodingRule, ids: list[int], texts: list[str]
) -> None:
    tokenizer = MockTokenizer.from_tokens([b"a"], (), rule)
    assert DecodeStream(tokenizer, unknown_ids="replace").step_batch(ids) == texts


PIECES = ["", "a", "<0x4>", "<0x041>", "x0x41>", "<0X41>", "<0x41)", "<0x\u0663>", "<0x\xe9>"]
PIECES += [f"<0x{a}{b}>" for a in "0+-_ fFgé" for b in "0+-_ fFgé"]


@pytest.mark.parametrize("piece", PIECES)
def test_the_library_agrees_which_pieces_are_bytes(piece: str) -> None:
    byte = fallback_byte(piece)
    tokenizer = MockTokenizer.from_tokens([piece.encode()], (), ByteFallback())
    expected = piece if byte is None else bytes([byte]).decode("utf-8", "replace")
    assert tokenizer.decode([0]) == expected
    assert fallback_bytes(piece) == (piece.encode() if byte is None else bytes([byte]))


@pytest.mark.parametrize(
    ("byte_fallback", "tokens"),
    [("exact", [b"b", b"<0x2E>", b"a"]), ("eager", [b"b", "\u2581".encode()])],
)
def test_a_stop_in_a_run_begins_in_the_first_token_of_the_run(
    byte_fallback: ByteFallbackMode, tokens: list[bytes]
) -> None:
    tokenizer = MockTokenizer.from_tokens(tokens, (), ByteFallback(Metaspace()))
    decoder = StopSequenceDecoder(tokenizer, stop=[".", " "], byte_fallback=byte_fallback)
    assert decoder.feed(range(len(tokens))).finish_reason == "stop"
    assert decoder.match is not None
    assert decoder.match.tokens_before == 1


@pytest.mark.parametrize(
    ("rule", "first", "later", "released", "then"),
    [
        (BPESuffix(), "b</w>", "c", "", " c"),
        (BPESuffix(), "b</w>a", "c", "a", "c"),
        (BPESuffix(), "b</w>a</w>", "c", "a", " c"),
        (ByteFallback(Metaspace()), "\u2581b", "\u2581c", "", " c"),
    ],
)
def test_a_release_keeps_the_space_before_the_next_word(
    rule: DecodingRule, first: str, later: str, released: str, then: str
) -> None:
    stream = DecodeStream(MockTokenizer.from_tokens([first.encode(), later.encode()], (), rule))
    assert (stream.step(0), stream.release(), stream.step(1)) == ("b", released, then)
