from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream
from streamdec.backends.gguf import GGUFTokenizer
from streamdec.core.programs import route_of
from streamdec.errors import EncodeError, StreamdecWarning, TokenizerLoadError
from streamdec.protocols import Tokenizer as TokenizerProtocol
from tests.support.files import LLAMA_TOKENS, gguf, shared, small_gguf

IDS = {text: i for i, (text, _, _) in enumerate(LLAMA_TOKENS)}
BYTE_LEVEL = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": ["h", "e", "he", "Ġ", "Ġhe", "ü", "é", "<end>", "<tool ü>", "你"],
    "token_type": [1, 1, 1, 1, 1, 4, 1, 3, 4, 1],
    "merges": ["h e", "Ġ he"],
    "bos_token_id": 7,
    "eos_token_id": 7,
    "add_bos_token": False,
    "scores": None,
}


def made(tmp_path: Path, **changes: Any) -> GGUFTokenizer:
    (tmp_path / "file.gguf").write_bytes(small_gguf(**changes))
    return GGUFTokenizer(tmp_path / "file.gguf")


# --- decoding -------------------------------------------------------------------------------------


def bytes_of(token_id: int) -> bytes:
    text, kind, _ = LLAMA_TOKENS[token_id]
    if kind in (2, 3, 5):
        return b""
    return bytes([int(text[3:5], 16)]) if kind == 6 else text.replace("\u2581", " ").encode()


@given(st.lists(st.integers(0, len(LLAMA_TOKENS) + 3)))
def test_all_bytes_are_decoded_at_once(tmp_path: Path, ids: list[int]) -> None:
    ours = made(tmp_path)
    data = b"".join(bytes_of(i) for i in ids if i < len(LLAMA_TOKENS))
    expected = data.decode("utf-8", "replace").removeprefix(" ")
    assert ours.decode(ids) == expected
    stream = DecodeStream(ours)
    assert "".join(stream.step_batch(ids)) + stream.flush() == expected


def test_special_tokens(tmp_path: Path) -> None:
    ours = made(tmp_path)
    ids = [IDS[text] for text in ("<s>", "▁hello", "<unk>", "<tool>", "<unused>", "</s>")]
    assert ours.decode(ids) == "hello<tool>"
    assert ours.decode(ids, skip_special_tokens=False) == "<s> hello<unk><tool></s>"
    assert ours.special_tokens.all == ("<s>", "</s>", "<unk>")
    assert made(tmp_path, add_space_prefix=False).decode(ids) == " hello<tool>"


def test_letters_of_added_tokens_are_letters(tmp_path: Path) -> None:
    """Where the rule of ``tokenizers`` would make them bytes."""
    ours = made(tmp_path, **BYTE_LEVEL)
    assert [ours.piece(i) for i in (4, 5, 6, 8, 9)] == [
        *(b" he", "ü".encode(), b"\xe9", "<tool ü>".encode(), "你".encode())
    ]
    assert ours.decode([3, 2, 7]) == " he"


def test_words_of_bert(tmp_path: Path) -> None:
    tokens = {"tokens": ["[CLS]", "▁hello", "s", "▁there"], "token_type": [3, 1, 1, 1]}
    ours = made(tmp_path, model="bert", scores=None, **tokens)
    assert ours.decode([0, 1, 2, 3]) == "hellos there"
    with pytest.raises(EncodeError, match="does not tell how a text is cut"):
        ours.encode("hello")


def test_it_is_compiled_and_can_be_pickled(tmp_path: Path) -> None:
    for changes in ({}, BYTE_LEVEL):
        ours = made(tmp_path, **changes)
        assert route_of(ours) == "bytes"
        assert isinstance(ours, TokenizerProtocol)
        copy = pickle.loads(pickle.dumps(ours))
        assert copy.fingerprint == ours.fingerprint
        assert (copy.vocab_size, copy.encodes) == (ours.vocab_size, "best effort")


def test_names_go_both_ways(tmp_path: Path) -> None:
    ours = made(tmp_path)
    for text, token_id in IDS.items():
        assert (ours.id_to_token(token_id), ours.token_to_id(text)) == (text, token_id)
    assert [ours.id_to_token(-1), ours.id_to_token(len(IDS)), ours.token_to_id("none")] == [
        None
    ] * 3
    assert ours.token_bytes(IDS["<0xE4>"]) == b"\xe4"


# --- encoding -------------------------------------------------------------------------------------


def test_encoding_is_labelled(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    for changes in ({}, BYTE_LEVEL):
        with pytest.warns(StreamdecWarning, match="encoding is best effort"):
            made(tmp_path, **changes).encode("he")


@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_a_model_of_llama_encodes(tmp_path: Path) -> None:
    pytest.importorskip("sentencepiece")
    ours = made(tmp_path)
    assert ours.encode("hello").tokens == ("▁hello",)
    assert ours.encode("hello", add_special_tokens=True).tokens == ("<s>", "▁hello")
    assert ours.encode("hello</s>").tokens == ("▁hello", "</s>")
    assert ours.decode(ours.encode("😀 hello 你").ids) == "😀 hello 你"
    with pytest.raises(EncodeError, match="'</s>' at index 1"):
        ours.encode("h</s>", special="forbid")


@pytest.mark.filterwarnings("ignore::streamdec.errors.StreamdecWarning")
def test_a_byte_level_model_encodes(tmp_path: Path) -> None:
    ours = made(tmp_path, **BYTE_LEVEL)
    assert ours.encode("he he<end>").ids == (2, 4, 7)
    assert 7 not in ours.encode("he<end>", special="text").ids
    with pytest.raises(EncodeError, match="'<end>' at index 2"):
        ours.encode("he<end>", special="forbid")
    with pytest.raises(EncodeError, match="cut as 'unheard'"):
        made(tmp_path, **BYTE_LEVEL | {"pre": "unheard"}).encode("he")
    with pytest.raises(EncodeError, match="merges are bad"):
        made(tmp_path, **BYTE_LEVEL | {"merges": ["x y"]}).encode("he")
    twice = {"tokens": ["<unk>", "a", "a"], "token_type": [2, 1, 1], "scores": [0.0, 0.0, 0.0]}
    with pytest.raises(EncodeError, match=r"already defined.*; it decodes"):
        made(tmp_path, **twice).encode("he")


# --- what cannot be loaded ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "rwkv"}, "of the kind 'rwkv'; served: llama, gpt2"),
        ({"model": None}, "of the kind None"),
        ({"model": ["llama"]}, "of the kind"),
        ({"tokens": None}, "without tokens"),
        ({"tokens": []}, "without tokens"),
        ({"tokens": [1, 2]}, "tokens is not a list of strings"),
        ({"tokens": "text"}, "tokens is not a list of strings"),
        ({"tokens": ["\udcff"], "token_type": [1]}, "surrogates not allowed"),
        ({"token_type": [1]}, "1 types of"),
        ({"token_type": 5}, "has no len"),
        ({"tokens": ["<0xZZ>"], "token_type": [6]}, "invalid literal"),
        ({"tokens": ["a"], "token_type": [6]}, "a byte token 'a'"),
        ({"merges": 5}, "merges is not a list"),
    ],
)
def test_what_is_wrong_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError, match=rf"file\.gguf': .*{message}"):
        made(tmp_path, **changes)


def test_a_file_without_a_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "file.gguf").write_bytes(gguf([("general.name", "x")]))
    with pytest.raises(TokenizerLoadError, match="of the kind None"):
        GGUFTokenizer(tmp_path / "file.gguf")


@given(st.data())
def test_damaged_files_end_in_an_error_of_ours(tmp_path: Path, data: st.DataObject) -> None:
    content = bytearray(small_gguf())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "bad.gguf").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        ours = GGUFTokenizer(tmp_path / "bad.gguf")
    except TokenizerLoadError:
        return
    assert isinstance(ours.decode(ours.sample_ids()), str)


# --- real files -----------------------------------------------------------------------------------

REAL = {path.parent.name: path for path in shared("gguf-*/*.gguf")}


def pairs(path: Path) -> list[tuple[str, list[int]]]:
    """Texts, and the ids that llama.cpp gave for them."""
    texts = path.with_suffix(".gguf.inp").read_bytes().decode().split("\n__ggml_vocab_test__\n")
    lines = path.with_suffix(".gguf.out").read_text("utf-8").split("\n")
    return [(text, [*map(int, line.split())]) for text, line in zip(texts, lines, strict=False)]


@pytest.mark.parametrize("name", sorted(REAL))
def test_real_files_decode_what_llama_cpp_encoded(name: str) -> None:
    ours = GGUFTokenizer(REAL[name])
    assert route_of(ours) == "bytes"
    for text, ids in pairs(REAL[name]):
        # The one of bert lowers letters and drops accents before it encodes.
        assert name == "gguf-bert-bge" or ours.decode(ids) == text


@pytest.mark.parametrize("name", sorted(REAL.keys() - {"gguf-bert-bge"}))
def test_real_files_encode_as_llama_cpp(name: str) -> None:
    pytest.importorskip("sentencepiece")
    ours = GGUFTokenizer(REAL[name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StreamdecWarning)
        for text, ids in pairs(REAL[name]):
            assert list(ours.encode(text, special="text")) == ids
