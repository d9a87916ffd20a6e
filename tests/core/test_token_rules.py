"""Decoding rules: prompts, unknown ids, literal replacements. Their texts: ``tests/laws.py``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from tokenizers import pre_tokenizers

from streamdec import DecodeStream, MockTokenizer, StopSequenceDecoder
from streamdec.core.decode_options import ByteFallbackMode
from streamdec.core.replacers import CLEAN_UP_TOKENIZATION_SPACES, Replacers
from streamdec.core.rules.base import byte_level
from streamdec.core.rules.byte_fallback import fallback_byte, fallback_bytes
from streamdec.errors import TokenIdError
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    DecodingRule,
    Joined,
    LiteralReplace,
    Metaspace,
    RawBytes,
    TextRules,
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


def test_an_unknown_id_that_is_replaced_is_no_repetition() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a"], (), CTC())
    texts = DecodeStream(tokenizer, unknown_ids="replace").step_batch([9, 9, 0, 9, 0])
    assert texts == ["\ufffd", "\ufffd", "a", "\ufffd", "a"]


PIECES = ["", "a", "<0x4>", "<0x041>", "x0x41>", "<0X41>", "<0x41)", "<0x\u0663>", "<0x\xe9>"]
PIECES += [f"<0x{a}{b}>" for a in "0+-_ fFgé" for b in "0+-_ fFgé"]


@pytest.mark.parametrize("piece", PIECES)
def test_the_library_agrees_which_pieces_are_bytes(piece: str) -> None:
    byte = fallback_byte(piece)
    tokenizer = MockTokenizer.from_tokens([piece.encode()], (), ByteFallback())
    expected = piece if byte is None else bytes([byte]).decode("utf-8", "replace")
    assert tokenizer.decode([0]) == expected
    assert fallback_bytes(piece) == (piece.encode() if byte is None else bytes([byte]))


def test_letters_outside_of_the_byte_alphabet_are_utf_8() -> None:
    alphabet = {*pre_tokenizers.ByteLevel.alphabet()}
    assert sorted(map(byte_level, alphabet)) == [bytes([byte]) for byte in range(256)]
    for letter in {*map(chr, range(0x200))} - alphabet:
        assert byte_level(letter) == letter.encode()


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


Tails = tuple[str, ...]

CLEAN_UP = Replacers(CLEAN_UP_TOKENIZATION_SPACES)
OVERLAPPING = [
    [("aa", "X")],
    [("aa", "a")],
    [("abab", "X")],
    [("aab", "X")],
    [(" ' ", "'")],
    [("a", "")],
    [("ab", "a"), ("aa", "b"), ("b", "")],
    [("a", "aa"), ("aab", "X")],
    [("ab", ""), ("ab", "X")],
]
"""Patterns that begin within themselves, and contents that make room for the next pattern."""


def replacers_of(rules: Sequence[tuple[str, str]]) -> Replacers:
    return Replacers([LiteralReplace(*rule) for rule in rules])


def whole(replacers: Replacers, text: str) -> str:
    for rule in replacers.rules:
        text = text.replace(rule.pattern, rule.content)
    return text


def every_way(replacers: Replacers, letters: str, length: int) -> Iterator[tuple[str, str, Tails]]:
    """Each text of at most ``length`` letters: what came out letter by letter, and the tails."""
    reached = [("", "", replacers.start)]
    for _ in range(length):
        yield from reached
        reached = [
            (text + letter, out + more, tails)
            for text, out, before in reached
            for letter in letters
            for more, tails in [replacers.step(before, letter)]
        ]
    yield from reached


@pytest.mark.parametrize("rules", OVERLAPPING)
def test_patterns_that_overlap_are_replaced_leftmost_first(rules: list[tuple[str, str]]) -> None:
    replacers = replacers_of(rules)
    letters = "".join(sorted({letter for pattern, _ in rules for letter in pattern} | {"x"}))
    for text, out, tails in every_way(replacers, letters, 8):
        assert out + replacers.flush(tails, "") == whole(replacers, text), text


def test_what_came_before_a_text_that_synchronises_does_not_matter() -> None:
    ends = ["x", "x ", "x '", "don't ", "é n'", "ab '", "", " ", " '", "' n'"]
    for end in ends:
        letters = {letter for rule in CLEAN_UP.rules for letter in rule.pattern}
        assert CLEAN_UP.synchronises(end) == (not set(end).issubset(letters))
        for before in ("", " ", " '", " n", "x ", " ' "):
            if CLEAN_UP.synchronises(end):
                expected = CLEAN_UP.step(CLEAN_UP.start, end)
                assert CLEAN_UP.step(CLEAN_UP.start, before + end)[1] == expected[1]
