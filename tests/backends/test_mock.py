from __future__ import annotations

from typing import Any

import pytest

from streamdec.backends.mock import MockTokenizer
from streamdec.encoding import SpecialTokens
from streamdec.protocols import ByteLevel, Joined, TextRules


def test_the_default_words_are_those_of_the_router() -> None:
    names = {1: "Hello", 2: "world", 3: "test", 4: "token", 5: " ", 6: ".", 999: "<eos>"}
    tokenizer = MockTokenizer()
    for token_id, name in {**names, 1000: "<bos>"}.items():
        assert tokenizer.id_to_token(token_id) == tokenizer.piece(token_id) == name
        assert tokenizer.token_to_id(name) == token_id
    assert tokenizer.vocab_size == 1001
    assert tokenizer.sample_ids() == [1, 2, 3, 4, 5, 6, 999, 1000]


def test_words_are_joined_with_a_space_and_specials_are_skipped_when_asked() -> None:
    tokenizer = MockTokenizer()
    assert tokenizer.rules == TextRules(Joined(" "))
    assert tokenizer.decode([1000, 1, 2, 7, 999]) == "Hello world"
    whole = tokenizer.decode([1000, 1, 2, 7, 999], skip_special_tokens=False)
    assert whole == "<bos> Hello world <eos>"
    assert [i for i in range(1100) if tokenizer.is_skipped(i)] == [999, 1000]
    assert tokenizer.skipped_ids(["<eos>", "Hello"]) == {"<eos>": (999,)}
    assert tokenizer.special_tokens == SpecialTokens(bos_token="<bos>", eos_token="<eos>")


@pytest.mark.parametrize(
    ("tokens", "options", "error", "told"),
    [
        ([b"a", b"\xff\xfe"], {"decoder": "byte_fallback"}, ValueError, "token 1 is not UTF-8: b"),
        ([b"a", b"\xff\xfe"], {"decoder": ByteLevel()}, ValueError, "token 1 is not UTF-8: b"),
        ([], {"decoder": "wordpiece"}, ValueError, "'wordpiece'"),
        ([b"a", b"b"], {"special_ids": [5, 0, 3]}, ValueError, r"\[3, 5\]"),
        ([b"a", "b"], {}, TypeError, "token 1 must be bytes, such as b'Hi', got 'b'"),
    ],
)
def test_a_table_that_cannot_be_made_is_named(
    tokens: list[Any], options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        MockTokenizer.from_tokens(tokens, **options)


def test_encode_takes_the_longest_token_and_the_first_of_equal_ones() -> None:
    tokens = [b"a", b"ab", b"ab", b"\xc3", b"\xa9", b"", b"abc"]
    tokenizer = MockTokenizer.from_tokens(tokens, special_ids=[6])
    assert [tokenizer.id_to_token(i) for i in (0, 3, 7)] == ["a", "\\xc3", None]
    assert [tokenizer.token_to_id(name) for name in ("ab", "\\xc3", "b")] == [1, 3, None]
    assert tokenizer.encode("abaé").ids == (1, 0, 3, 4)
    with pytest.raises(ValueError, match=r"no token begins at byte 2: b'cab'"):
        tokenizer.encode("abcab")
