from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream
from streamdec.backends.sentencepiece import SentencePieceTokenizer
from streamdec.errors import EncodeError, TokenizerLoadError
from tests import reference
from tests.support.files import sentencepiece, shared

library = pytest.importorskip("sentencepiece")

PLAIN = {"remove_extra_whitespaces": False, "byte_fallback": True, "vocab_size": 600}
MADE: dict[str, dict[str, Any]] = {
    "llama": {**PLAIN, "user_defined_symbols": ["  ", "    "], "control_symbols": ["[INST]"]},
    "no_prefix": {**PLAIN, "add_dummy_prefix": False},
    "unigram": {"model_type": "unigram", "vocab_size": 120},
    "bytes_and_spaces": {"byte_fallback": True, "vocab_size": 600},
    "char": {"model_type": "char", "vocab_size": 60},
    "suffix": {"model_type": "unigram", "vocab_size": 120, "treat_whitespace_as_suffix": True},
    "surface": {"unk_surface": "[UNK]", "pad_id": 3},
}
REAL = {
    path.parent.name: path
    for path in shared("*/*.model*")
    if path.parent.name in ("mistral-7b-sp-v1", "mistral-sp-v3", "sentencepiece-test-model")
}


@cache
def content(name: str) -> bytes:
    return REAL[name].read_bytes() if name in REAL else sentencepiece(**MADE[name])


@cache
def both(name: str) -> tuple[SentencePieceTokenizer, Any]:
    """Ours, and the library's."""
    theirs = library.SentencePieceProcessor(model_proto=content(name))
    return SentencePieceTokenizer(content(name)), theirs


@pytest.fixture(params=[*MADE, *(pytest.param(name, marks=pytest.mark.thorough) for name in REAL)])
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def draw_ids(data: st.DataObject, theirs: Any) -> list[int]:
    """No control pieces, in the middle of which the library decodes otherwise."""
    usual = [i for i in range(theirs.GetPieceSize()) if not theirs.IsControl(i)]
    few = [theirs.PieceToId("▁"), theirs.unk_id(), theirs.PieceToId("<0x20>")]
    bytes_ = [i for i in usual if theirs.IsByte(i)] or usual
    each = st.sampled_from([usual, bytes_, few]).flatmap(st.sampled_from)
    return data.draw(st.lists(each, max_size=20))


@given(data=st.data())
def test_a_stream_is_the_library(name: str, data: st.DataObject) -> None:
    ours, theirs = both(name)
    ids = draw_ids(data, theirs)
    stream, expected = DecodeStream(ours), theirs.DecodeIds(ids)
    assert "".join(stream.step_batch(ids)) + stream.flush() == expected
    if "\ufffd" not in expected:  # all bytes make characters
        assert ours.decode(ids) == expected


@given(data=st.data(), skip=st.booleans())
def test_a_row_of_a_batch_is_decoded_as_alone_and_as_a_stream(
    name: str, data: st.DataObject, skip: bool
) -> None:
    """Most rows are joined, and streams follow the rules; any ids, any order."""
    ours, theirs = both(name)
    spaces = st.sampled_from([theirs.PieceToId("▁"), theirs.PieceToId("<0x20>")])
    row = st.lists(st.integers(0, ours.vocab_size) | spaces, max_size=8)
    rows = data.draw(st.lists(row, max_size=4))
    texts = [ours.decode(ids, skip_special_tokens=skip) for ids in rows]
    assert ours.decode_batch(rows, skip_special_tokens=skip) == texts
    for ids, text in zip(rows, texts, strict=True):
        stream = DecodeStream(
            ours, skip_special_tokens=skip, byte_fallback="exact", unknown_ids="skip"
        )
        assert "".join(stream.step_batch(ids)) + stream.flush() == text


@given(data=st.data(), text=st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_encoded_text_is_decoded_as_by_the_library(
    name: str, data: st.DataObject, text: str
) -> None:
    ours, theirs = both(name)
    text = data.draw(st.sampled_from(["the ", " the", "  ", "", "hello"])) + text
    ids = ours.encode(text, special="text").ids
    assert list(ids) == theirs.EncodeAsIds(text)
    assert ours.decode(ids) == theirs.DecodeIds(list(ids))


def test_control_pieces_bytes_and_unknown_ids() -> None:
    ours, theirs = both("llama")
    word, control = theirs.PieceToId("▁the"), theirs.PieceToId("[INST]")
    ids = [1, control, word, 10**6, 2**32 - 1, word, 2]
    assert ours.decode(ids) == "the the"
    assert ours.decode(ids, skip_special_tokens=False) == "<s>[INST] the the</s>"
    assert [ours.is_skipped(i) for i in (0, 1, 2, control, word)] == [0, 1, 1, 1, 0]
    pieces = map(theirs.PieceToId, ("<0xE4>", "▁the"))
    assert [*map(ours.token_bytes, (*pieces, -1))] == [b"\xe4", b" the", None]
    run = [theirs.PieceToId(f"<0x{byte:02X}>") for byte in b"\xe4\xbd\xa0\xff"]
    assert theirs.DecodeIds(run) == reference.text_of(b"\xe4\xbd\xa0\xff", per_byte=True)
    assert (ours.decode(run), ours.decode(run[:3])) == ("\ufffd" * 4, "你")
    ours, theirs = both("surface")
    ids = [theirs.PieceToId("▁the"), 0]
    assert ours.decode(ids) == theirs.DecodeIds(ids) == "the[UNK]"
    ids = [theirs.PieceToId("▁")] * 2 + ids  # each loses a space
    assert ours.decode(ids) == theirs.DecodeIds(ids) == "the[UNK]"


def test_special_tokens_in_a_text() -> None:
    ours, theirs = both("llama")
    text = "<s>hello [INST]the"
    parts = [1, *theirs.EncodeAsIds("hello "), theirs.PieceToId("[INST]")]
    assert list(ours.encode(text)) == [*parts, *theirs.EncodeAsIds("the")]
    assert list(ours.encode(text, special="text")) == theirs.EncodeAsIds(text)
    with pytest.raises(EncodeError, match="'<s>' at index 0"):
        ours.encode(text, special="forbid")
    assert ours.encode("the", special="forbid") == ours.encode("the")
    assert list(ours.encode("the", add_special_tokens=True)) == [1, *theirs.EncodeAsIds("the")]


@pytest.mark.parametrize("text", ["the   ﬁ", "  a ½ Ａ  ", "e\u0301 café 😀😀", "", "\u3000x"])
def test_offsets_of_a_text_that_was_normalized_are_those_of_the_library(text: str) -> None:
    ours, theirs = both("unigram")
    if not hasattr(theirs, "EncodeAsOffsetMapping"):
        pytest.skip("this sentencepiece does not list offsets")
    encoding = ours.encode(text)
    expected = theirs.EncodeAsOffsetMapping(text)
    assert list(encoding.ids) == expected["ids"]
    assert list(encoding.offsets) == expected["offsets"]


def test_offsets_count_special_tokens_and_those_that_are_added() -> None:
    ours, _ = both("llama")
    text = "x  ﬁ</s>  é"
    encoding = ours.encode(text, add_special_tokens=True)
    assert encoding.offsets[0] == (0, 0)
    place = encoding.tokens.index("</s>")
    assert encoding.offsets[place] == (4, 8)
    assert encoding.offsets[-1][1] == len(text)
    starts = [start for start, _ in encoding.offsets]
    assert starts == sorted(starts)
    plain = ours.encode("the é")  # the model adds a space
    assert (plain.offsets[0][0], plain.offsets[-1][1], plain.byte_offsets[-1][1]) == (0, 5, 6)


def test_roles_are_those_of_the_model() -> None:
    llama, surface = both("llama")[0].special_tokens, both("surface")[0].special_tokens
    assert (llama.bos_token, llama.eos_token, llama.unk_token) == ("<s>", "</s>", "<unk>")
    assert (llama.pad_token, llama.additional_special_tokens) == (None, ("[INST]",))
    assert surface.pad_token == "<pad>"


@pytest.mark.parametrize("bad", [b"", b"\n", b"hello", b"\n\x05\n\x03abc"[:-2], b"\xff" * 100])
def test_a_file_that_is_not_a_model_is_named(bad: bytes) -> None:
    message = "'SentencePiece model': not a SentencePiece model"
    with pytest.raises(TokenizerLoadError, match=message):
        SentencePieceTokenizer(bad)


def test_a_model_that_would_take_all_memory_is_not_parsed() -> None:
    """Two bytes for each piece, for which the library takes forty."""
    with pytest.raises(TokenizerLoadError, match="'SentencePiece model': more than 16777216 bytes"):
        SentencePieceTokenizer(b"\x0a\x00" * (2**23 + 1))


def test_a_model_that_the_rules_do_not_decode_is_refused(tmp_path: Path) -> None:
    rules = tmp_path / "rules.tsv"
    rules.write_text("61\t62\n")  # a is decoded as b
    changed = sentencepiece(denormalization_rule_tsv=str(rules))
    with pytest.raises(TokenizerLoadError, match=r"the library decodes '.*, and its rules"):
        SentencePieceTokenizer(changed)


@pytest.mark.parametrize(
    ("options", "text"),
    [({"user_defined_symbols": ["<0x41>"]}, "<0x41>"), ({"unk_surface": "▁?"}, "▁?")],
)
def test_text_that_the_rules_read_otherwise_is_refused(options: dict[str, Any], text: str) -> None:
    model = sentencepiece(vocab_size=120, model_type="unigram", **options)
    with pytest.raises(TokenizerLoadError, match=f"misread the text {re.escape(repr(text))}"):
        SentencePieceTokenizer(model)
