"""Every id that a file of a folder declares is that of the loaded tokenizer, or loading says so."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.errors import MissingExtraError, StreamdecWarning, TokenizerLoadError
from streamdec.tokenizers import HybridTokenizer
from tests.support.files import write_format, write_json
from tests.support.zoo import ZOO

JSON: dict[str, Any] = json.loads(ZOO["byte_level_trained"]().to_str())
VOCAB: dict[str, int] = JSON["model"]["vocab"]
SIZE = len(VOCAB)
LAST = max(VOCAB, key=VOCAB.__getitem__)
MERGES = [" ".join(pair) for pair in JSON["model"]["merges"]]
ROLES = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
ADDED = {text: SIZE + i for i, text in enumerate(("<s>", "</s>", "<pad>"))}


def healthy(folder: Path, **config: Any) -> Path:
    """Write a folder with every file that declares ids."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    own = [{"id": i, "content": text, "special": True, **flags} for text, i in ADDED.items()]
    write_json(folder / "tokenizer.json", {**JSON, "added_tokens": own})
    write_json(folder / "vocab.json", VOCAB)
    lines(folder, "merges.txt", ["#version: 0.2", *MERGES])
    write_json(folder / "added_tokens.json", ADDED)
    declared = {str(i): {"content": text, "special": True} for text, i in ADDED.items()}
    said = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": declared}
    write_json(folder / "tokenizer_config.json", {**said, **ROLES, **config})
    ids = {f"{role}_id": ADDED[text] for role, text in ROLES.items()}
    write_json(folder / "config.json", ids)
    write_json(folder / "generation_config.json", {**ids, "eos_token_id": [5, ADDED["</s>"]]})
    return folder


def lines(folder: Path, name: str, texts: list[str]) -> None:
    (folder / name).write_text("\n".join(texts) + "\n", "utf-8")


def mirrored(ids: dict[str, int]) -> dict[str, int]:
    return dict(zip(ids, reversed(ids.values()), strict=True))


def swapped(ids: dict[str, int], one: str, other: str) -> dict[str, int]:
    return {**ids, one: ids[other], other: ids[one]}


CONTRADICTING = {
    "vocab.json has id": mirrored(VOCAB),
    r"vocab.json has id \d+ for '.', but tokenizer.json has id \d+ for it, and '.' at \d+": (
        swapped(VOCAB, *sorted(VOCAB)[33:35])
    ),
    f"vocab.json has id {SIZE + 3} for 'new', but tokenizer.json has no such": (
        VOCAB | {"new": SIZE + 3}
    ),
    f"added_tokens.json has id {SIZE + 1} for '<s>', but .* has id {SIZE} for it": (
        swapped(ADDED, "<s>", "</s>")
    ),
    rf"config.json has id 7 for '</s>', but .* has id {SIZE + 1} for it.*\(eos_token in": (
        {"eos_token_id": 7}
    ),
    "generation_config.json has id 99999 for '<pad>', but": {"pad_token_id": 99999},
}
"""What is said, the name of the file first, and its content."""


@pytest.mark.parametrize("message", CONTRADICTING)
def test_a_file_that_contradicts_is_named(message: str, tmp_path: Path) -> None:
    assert load_tokenizer(healthy(tmp_path), fast="off").token_to_id("</s>") == SIZE + 1
    write_json(tmp_path / message.split()[0], CONTRADICTING[message])
    with pytest.warns(StreamdecWarning, match=f"contradict it: {message}"):
        load_tokenizer(tmp_path, fast="off")
    load_tokenizer(tmp_path / "tokenizer.json", fast="off")  # no file beside it is read


def test_lines_are_ids_and_merges_are_tokens(tmp_path: Path) -> None:
    healthy(tmp_path)
    lines(tmp_path, "vocab.txt", [*list(VOCAB)[:-1], f"{LAST} "])
    load_tokenizer(tmp_path, fast="off")
    lines(tmp_path, "vocab.txt", list(VOCAB)[::-1])
    with pytest.warns(StreamdecWarning, match=r"contradict it: vocab.txt has id 0 for"):
        load_tokenizer(tmp_path, fast="off")
    lines(tmp_path, "vocab.txt", [f"{text} 12" for text in VOCAB])  # counts, as in fairseq
    load_tokenizer(tmp_path, fast="off")
    lines(tmp_path, "merges.txt", [*MERGES, f"{LAST} q"])
    with pytest.warns(StreamdecWarning, match=rf"contradict it: merges.txt makes '{LAST}q'"):
        load_tokenizer(tmp_path, fast="off")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("config.json", {"eos_token_id": SIZE, "bos_token_id": None}),  # another special token
        ("config.json", {"eos_token_id": "2", "pad_token_id": True}),
        ("generation_config.json", "{"),
        ("vocab.json", {"en": {"a": 0}}),  # a vocabulary for each language
        ("vocab.json", "["),
    ],
)
def test_what_is_no_contradiction_is_silent(name: str, data: Any, tmp_path: Path) -> None:
    healthy(tmp_path)
    if isinstance(data, str):
        (tmp_path / name).write_text(data, "utf-8")
    else:
        write_json(tmp_path / name, data)
    load_tokenizer(tmp_path, fast="off")


@pytest.mark.filterwarnings("ignore:.*auto_map names code")
def test_it_is_an_error_where_code_of_the_folder_would_use_the_ids(tmp_path: Path) -> None:
    load_tokenizer(healthy(tmp_path, auto_map={"AutoTokenizer": ["x.T", None]}), fast="off")
    write_json(tmp_path / "vocab.json", mirrored(VOCAB))
    told = r"contradict each other: vocab\.json has id .*apply_tokenizer_config=False loads only"
    with pytest.raises(TokenizerLoadError, match=told):
        load_tokenizer(tmp_path)
    alone = load_tokenizer(tmp_path, apply_tokenizer_config=False, fast="off")
    assert alone.token_to_id(LAST) == VOCAB[LAST]


@pytest.mark.parametrize("name", ["Mine", 5, ["GPT2Tokenizer"]])
def test_a_class_that_transformers_does_not_know_is_warned_of(name: Any, tmp_path: Path) -> None:
    told = re.escape(f"may differ from those of transformers: {name}: ")
    with pytest.warns(StreamdecWarning, match=told):
        load_tokenizer(healthy(tmp_path, tokenizer_class=name), fast="off")


def test_a_class_with_its_own_way_needs_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "M2M100Tokenizer"
    monkeypatch.setitem(sys.modules, "transformers", None)
    folder = healthy(tmp_path, tokenizer_class=name)
    told = f"{name}: .*apply_tokenizer_config=False.*needs the library transformers: pip install"
    with pytest.raises(MissingExtraError, match=told):
        load_tokenizer(folder, fast="off")
    for kind in (HuggingFaceTokenizer, HybridTokenizer):
        with pytest.raises(TokenizerLoadError, match=rf"{re.escape(repr(str(folder)))}: {name}"):
            kind(folder)
    assert load_tokenizer(folder, apply_tokenizer_config=False, fast="off").vocab_size


def test_other_formats_are_compared_too(tmp_path: Path) -> None:
    pytest.importorskip("tiktoken")
    pytest.importorskip("sentencepiece")
    for format_ in ("gguf", "tekken", "sentencepiece"):
        folder = tmp_path / format_
        folder.mkdir()
        write_format(folder, format_)
        text = load_tokenizer(folder, fast="off").id_to_token(1)
        write_json(folder / "added_tokens.json", {text: 1})
        if format_ != "sentencepiece":  # other spellings, as of bytes, are not compared
            write_json(folder / "vocab.json", {"nowhere": 0, "é": 1})
        load_tokenizer(folder, fast="off")
        write_json(folder / "added_tokens.json", {text: 2})
        with pytest.warns(StreamdecWarning, match=r"contradict it: added_tokens\.json has id 2"):
            load_tokenizer(folder, fast="off")
