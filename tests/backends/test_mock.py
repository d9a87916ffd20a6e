from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from streamdec.backends.mock import MockTokenizer
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    ByteLevel,
    Concatenation,
    DecodingRule,
    Joined,
    LiteralReplace,
    Metaspace,
    TextRules,
    WordPiece,
)
from tests.support.zoo import BYTE_PIECES, PIECES

# --- eight words ----------------------------------------------------------------------------------


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


def test_words_decode_as_the_librarys_without_a_decoder() -> None:
    ours = MockTokenizer()
    vocabulary = {ours.id_to_token(i) or "": i for i in ours.sample_ids()}
    library = Tokenizer(models.WordLevel(vocabulary, unk_token="Hello"))
    library.add_special_tokens(["<eos>", "<bos>"])
    for ids in ([], [1], [5, 5], [1, 999, 2], [6, 1000, 4, 3]):
        assert ours.decode(ids) == library.decode(ids)


# --- tables of bytes ------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=5)), st.data())
def test_byte_level_is_all_bytes_decoded_at_once(tokens: list[bytes], data: st.DataObject) -> None:
    tokenizer = MockTokenizer.from_tokens(tokens)
    ids = data.draw(st.lists(st.integers(0, len(tokens))))
    whole = b"".join(tokens[i] for i in ids if i < len(tokens))
    assert tokenizer.decode(ids) == whole.decode("utf-8", "replace")
    assert [tokenizer.piece(i) for i in range(len(tokens))] == tokens
    assert tokenizer.piece(len(tokens)) is None


def test_byte_fallback_spells_high_bytes() -> None:
    tokens = [b"\xc3", b"\xa9", b"\x7f", "é".encode(), b"<0x41>", b""]
    tokenizer = MockTokenizer.from_tokens(tokens, decoder="byte_fallback")
    pieces = ["<0xC3>", "<0xA9>", "\x7f", "é", "<0x41>", ""]
    assert [tokenizer.piece(i) for i in range(6)] == pieces
    assert tokenizer.rules == TextRules(ByteFallback())
    assert tokenizer.decode([0, 1, 4, 0, 3]) == "\ufffd" * 4 + "é"
    assert tokenizer.decode([0, 1, 4, 3]) == "éAé"


@pytest.mark.parametrize("decoder", ["byte_fallback", ByteLevel(), TextRules(Concatenation())])
def test_a_token_that_is_not_utf_8_is_named(decoder: str | DecodingRule | TextRules) -> None:
    with pytest.raises(ValueError, match=r"token 1 is not UTF-8: b'\\xff\\xfe'"):
        MockTokenizer.from_tokens([b"a", b"\xff\xfe"], decoder=decoder)


def test_an_unknown_decoder_is_named() -> None:
    with pytest.raises(ValueError, match="'wordpiece'"):
        MockTokenizer.from_tokens([], decoder="wordpiece")


def test_a_special_id_without_a_token_is_named() -> None:
    with pytest.raises(ValueError, match=r"\[3, 5\]"):
        MockTokenizer.from_tokens([b"a", b"b"], special_ids=[5, 0, 3])


# --- every rule against a tokenizer of the library ------------------------------------------------


META = Metaspace("\u2581", prepend=True)
NEVER = Metaspace("\u2581", prepend=False)
EVERY_RULE: list[tuple[DecodingRule, list[decoders.Decoder] | None]] = [
    (ByteLevel(), [decoders.ByteLevel()]),
    (Concatenation(), []),
    (Joined(" "), None),
    (META, [decoders.Metaspace()]),
    (NEVER, [decoders.Metaspace(prepend_scheme="never")]),
    (ByteFallback(), [decoders.ByteFallback()]),
    (ByteFallback(META), [decoders.ByteFallback(), decoders.Metaspace()]),
    (ByteFallback(NEVER), [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")]),
    (WordPiece(), [decoders.WordPiece()]),
    (WordPiece("_", cleanup=False), [decoders.WordPiece("_", cleanup=False)]),
    (BPESuffix("|"), [decoders.BPEDecoder("|")]),
    (CTC(), [decoders.CTC()]),
    (CTC("l", "_", cleanup=False), [decoders.CTC("l", "_", cleanup=False)]),
    (CTC(metaspace=META), [decoders.CTC(), decoders.Metaspace()]),
]
TEXTS = [*BYTE_PIECES[0xBD:0xE8], *PIECES]


def library(chain: list[decoders.Decoder] | None) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE({text: i for i, text in enumerate(TEXTS)}, []))
    tokenizer.decoder = None if chain is None else decoders.Sequence(chain)
    return tokenizer


def check(rules: DecodingRule | TextRules, chain: list[decoders.Decoder] | None) -> None:
    ours = MockTokenizer.from_tokens([text.encode() for text in TEXTS], [3], rules)
    theirs = library(chain)

    @given(st.lists(st.integers(0, len(TEXTS))))
    def alike(ids: list[int]) -> None:
        assert ours.decode(ids, skip_special_tokens=False) == theirs.decode(ids)
        assert ours.decode(ids) == theirs.decode([i for i in ids if i != 3])

    alike()


@pytest.mark.parametrize(("rule", "chain"), EVERY_RULE)
def test_a_rule_decodes_as_the_library(
    rule: DecodingRule, chain: list[decoders.Decoder] | None
) -> None:
    check(rule, chain)


@pytest.mark.parametrize(
    ("rule", "chain"), [(rule, chain) for rule, chain in EVERY_RULE if chain is not None]
)
def test_changes_of_the_whole_text_are_streamed(
    rule: DecodingRule, chain: list[decoders.Decoder]
) -> None:
    rules = TextRules(rule, (" ", 2), (LiteralReplace("l", "xx"), LiteralReplace("xxx", "")))
    after = [decoders.Replace("l", "xx"), decoders.Replace("xxx", "")]
    check(rules, [*chain, decoders.Fuse(), decoders.Strip(" ", 2, 0), *after])


# --- encoding -------------------------------------------------------------------------------------


def test_encode_takes_the_longest_token_and_the_first_of_equal_ones() -> None:
    tokens = [b"a", b"ab", b"ab", b"\xc3", b"\xa9", b"", b"abc"]
    tokenizer = MockTokenizer.from_tokens(tokens, special_ids=[6])
    assert tokenizer.encode("abaé").ids == (1, 0, 3, 4)
    with pytest.raises(ValueError, match=r"no token begins at byte 2: b'cab'"):
        tokenizer.encode("abcab")


# --- the vocabulary -------------------------------------------------------------------------------


def test_names_of_bytes() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"\xff", b"a"])
    assert [tokenizer.id_to_token(i) for i in range(4)] == ["a", "\\xff", "a", None]
    assert tokenizer.token_to_id("a") == 0
    assert tokenizer.token_to_id("\\xff") == 1
    assert tokenizer.token_to_id("b") is None
    assert tokenizer.vocab_size == 3


def test_an_empty_table() -> None:
    tokenizer = MockTokenizer.from_tokens([])
    assert tokenizer.decode([0]) == ""
    assert tokenizer.encode("").ids == ()
    assert tokenizer.vocab_size == 0


@pytest.mark.parametrize(
    "tokenizer",
    [
        MockTokenizer(),
        MockTokenizer.from_tokens([b"\xe4", b"a"], [0], "byte_fallback"),
        MockTokenizer.from_tokens([b"\xe4", b"a"], [0]),
    ],
)
def test_pickling_keeps_everything(tokenizer: MockTokenizer) -> None:
    tokenizer.decode([0, 1])
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.fingerprint == tokenizer.fingerprint
    assert copy.encode("a").ids == tokenizer.encode("a").ids
    assert copy.decode([1, 0]) == tokenizer.decode([1, 0])


def test_a_token_of_text_is_named() -> None:
    with pytest.raises(TypeError, match=r"token 1 must be bytes, such as b'Hi', got 'b'"):
        MockTokenizer.from_tokens([b"a", "b"])  # type: ignore[list-item]
