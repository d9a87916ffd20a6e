"""Folders whose class builds its own tokenizer: transformers loads them, or nothing does."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamdec import DecodeStream, HuggingFaceTokenizer, load_tokenizer
from streamdec.backends.transformers_object import TransformersTokenizer
from streamdec.errors import EncodeError, StreamdecWarning, TokenizerLoadError
from streamdec.folders.sentencepiece_proto import ModelProto
from streamdec.folders.tokenizer_config import CONFIG
from tests.support.files import sentencepiece, write_json
from tests.support.made_folders import write_folder

pytest.importorskip("sentencepiece")

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
MODEL = sentencepiece(model_type="unigram", vocab_size=120)
TEXTS = ["hello worlds the", "HELLO WORLD", "é </s>x", ""]
FAST = {
    "GPT2Tokenizer": "vocab.json",
    "CLIPTokenizer": "vocab.json",
    "BertTokenizer": "vocab.txt",
    "T5Tokenizer": "tokenizer.model",
    "LlamaTokenizer": "tokenizer.model",
    "SeamlessM4TTokenizer": "tokenizer.model",  # adds other tokens before it is called
}
"""Classes that make a fast tokenizer, and the form of the vocabulary that they read."""
SLOW = ("ByT5Tokenizer", "M2M100Tokenizer")


def write(folder: Path, name: str) -> None:
    """Write a folder of a class, for transformers to load."""
    pytest.importorskip("transformers")
    if name in FAST:
        write_folder(folder, name, FAST[name], "")
    elif name == "ByT5Tokenizer":
        write_json(folder / "tokenizer_config.json", {"tokenizer_class": name})
    else:  # with a vocab.json whose ids are not those of the SentencePiece model
        (folder / "sentencepiece.bpe.model").write_bytes(MODEL)
        texts = [each.text for each in ModelProto.parse(MODEL).pieces if each.text not in SPECIAL]
        ids = {text: i for i, text in enumerate([*SPECIAL, *reversed(texts)])}
        write_json(folder / "vocab.json", ids)
        write_json(folder / "config.json", {"model_type": "m2m_100"})


@pytest.mark.filterwarnings("ignore:.*the compiled table differs")  # CLIP's own decode
@pytest.mark.parametrize("name", [*FAST, *SLOW])
def test_the_tokenizer_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    write(tmp_path, name)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    ours = load_tokenizer(tmp_path)
    assert isinstance(ours, HuggingFaceTokenizer if name in FAST else TransformersTokenizer)
    assert ours.special_tokens.eos_token == theirs.eos_token
    assert ours.report.sha256 is None
    for text in TEXTS:
        plain = ours.encode(text).ids
        assert list(plain) == theirs.encode(text, add_special_tokens=False)
        ids = ours.encode(text, add_special_tokens=True).ids
        assert list(ids) == theirs(text)["input_ids"]
        for skip in (True, False):
            expected = theirs.decode(ids, skip_special_tokens=skip)
            stream = DecodeStream(ours, skip_special_tokens=skip)
            assert ours.decode(ids, skip_special_tokens=skip) == expected
            assert "".join(map(stream.step, ids)) + stream.flush() == expected


@pytest.mark.parametrize("flag", ["split_special_tokens", "clean_up_tokenization_spaces"])
def test_what_is_not_done_as_in_transformers_is_warned_of(flag: str, tmp_path: Path) -> None:
    write(tmp_path, "T5Tokenizer")
    write_json(tmp_path / CONFIG, {"tokenizer_class": "T5Tokenizer", flag: True})
    with pytest.warns(StreamdecWarning, match=f"{flag} of {CONFIG} is (ignored|not applied)"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("name", SLOW)
def test_a_tokenizer_in_python_has_what_others_have(name: str, tmp_path: Path) -> None:
    write(tmp_path, name)
    ours = load_tokenizer(tmp_path)
    end = ours.token_to_id("</s>")
    assert end is not None
    assert ours.id_to_token(end) == "</s>"
    assert ours.token_bytes(end) == b"</s>"
    assert end in ours.encode("a</s>").ids
    assert end not in ours.encode("a</s>", special="text").ids
    with pytest.raises(EncodeError, match="the special token '</s>' at index 1"):
        ours.encode("a</s>", special="forbid")
    assert ours.decode([end, 10**7]) == ""
    assert [ours.piece(i) for i in (-1, 10**7)] == [None, None]
    copy = pickle.loads(pickle.dumps(ours))
    assert copy.fingerprint == ours.fingerprint
    assert copy.encode("hello").ids == ours.encode("hello").ids


def test_a_part_without_an_id_is_not_encoded_and_such_a_role_is_left_out(tmp_path: Path) -> None:
    """The id of the part is None in transformers."""
    pytest.importorskip("transformers")
    write_json(tmp_path / CONFIG, {"tokenizer_class": "Wav2Vec2CTCTokenizer"})
    write_json(tmp_path / "vocab.json", {"<pad>": 0, "|": 1, "a": 2})
    ours = load_tokenizer(tmp_path)
    assert ours.encode("a a").ids == (2, 1, 2)
    for text in ("a b", "b a"):
        with pytest.raises(EncodeError, match="no token for a part of the text"):
            ours.encode(text)
    # A vocabulary that lacks an id: transformers gives "<s>" that of its last token.
    write_json(tmp_path / "vocab.json", {"|": 1, "a": 2, "<x>": 3})
    special = load_tokenizer(tmp_path).special_tokens
    assert (special.bos_token, special.eos_token) == (None, "</s>")


def test_two_ids_may_have_the_same_token(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_json(tmp_path / CONFIG, {"tokenizer_class": "PerceiverTokenizer", "mask_token": "a"})
    ours = load_tokenizer(tmp_path)
    ids = [ord(letter) + 6 for letter in "ab"]
    assert ours.token_to_id("a") not in (None, ids[0])
    assert ours.decode(ids) == "ab"


def test_what_transformers_cannot_load_is_named(tmp_path: Path) -> None:
    write(tmp_path, "GPT2Tokenizer")
    (tmp_path / "vocab.json").write_text("[", "utf-8")
    with pytest.raises(TokenizerLoadError, match="transformers cannot load it") as error:
        load_tokenizer(tmp_path)
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize("members", [{}, {"added_tokens_decoder": lambda _: None}])
def test_a_class_that_does_not_list_its_tokens_is_named(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RagTokenizer has two tokenizers; in MistralCommonBackend the list is not implemented."""
    kind = type("RagTokenizer", (), members)
    auto = SimpleNamespace(from_pretrained=lambda *_, **__: kind())
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(AutoTokenizer=auto))
    write_folder(tmp_path, "RagTokenizer", "tokenizer.json", "Unigram")
    with pytest.raises(TokenizerLoadError, match="a RagTokenizer, which does not list its tokens"):
        load_tokenizer(tmp_path)
