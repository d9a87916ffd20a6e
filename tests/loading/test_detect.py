from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from streamdec.errors import ChatTemplateError, TokenizerLoadError
from streamdec.loading import detect, opening, places
from streamdec.loading.detect import detect_format
from streamdec.loading.factory import load_tokenizer
from tests.support.files import gguf, rank_file, tekken, write_files

TOKENIZER = b'{"version": "1.0", "added_tokens": [], "model": {"type": "BPE"'


def found(path: Path) -> str:
    detected = detect_format(path)
    assert detected.format == "unsupported"
    return detected.description


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"GGUF\x03\x00\x00\x00", "gguf"),
        (b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02", "sentencepiece"),
        (b"IQ== 0\nIg== 1\n", "tiktoken"),
        (b"IQ== 0", "tiktoken"),
        (b"IQ== 0\r\nIg== 1\r\n", "tiktoken"),
        (json.dumps(tekken()).encode(), "tekken"),
        (json.dumps(tekken(), indent=2).encode("utf-8-sig"), "tekken"),
        (TOKENIZER, "huggingface"),
        (b"\xef\xbb\xbf\n " + TOKENIZER, "huggingface"),
        (b'{"x": "' + b"y" * 1_000_000 + b'",\n"model"  : \n {}}', "huggingface"),
    ],
)
def test_the_content_tells_the_format(content: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "anything.bin"
    path.write_bytes(content)
    detected = detect_format(str(path))
    assert detected.format == kind
    assert detected.description.startswith("a")


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (b"", "an empty file"),
        (TOKENIZER.decode().encode("utf-16"), "a file of an unknown format that begins with"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "a Git LFS pointer"),
        (b"#version: 0.2\nt h", "a list of BPE merges"),
        (b"<!doctype html><html>", "HTML (download the file itself"),
        (b"\n<HTML>", "HTML (download the file itself"),
        (b"<s>\n</s>\n", "a file of an unknown format that begins with b'<s>"),
        (b"hello there\n", "a file of an unknown format that begins with b'hello there"),
        (b"\n\nhello\n", "a file of an unknown format"),
        (b"{\xff}", 'JSON without a "model"'),
        (b'{"model_max_length": 1024}', 'JSON without a "model" ('),
        (b'{"model": "gpt"}', 'JSON without a "model"'),
        (b'{"eos_token_id": 7, "version": "5"}', 'JSON without a "model"'),
        (b'{"a":1.5,"b":"","c":"","d":"","e":"","f":""}', 'JSON without a "model"'),
    ],
)
def test_other_formats_are_named(content: bytes, description: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    assert found(tmp_path).startswith(description)
    assert "give the folder" not in found(tmp_path)
    (tmp_path / "tokenizer.json").rename(tmp_path / "vocab.txt")
    assert found(tmp_path / "vocab.txt").startswith(description)
    is_part = description.startswith(("JSON", "a file of an unknown"))
    assert ("give the folder" in found(tmp_path / "vocab.txt")) == is_part


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        ({f"{i}.gguf": b"" for i in range(7)}, "with 0.gguf, 1.gguf, 2.gguf, 3.gguf, 4.gguf and 2"),
        ({"model.safetensors": b""}, "a folder with model.safetensors but no tokenizer.json"),
        (
            {"vocab.txt": b"a\n", "tokenizer_config.json": b'{"tokenizer_class": "NobodyKnows"}'},
            'add the class that reads the vocabulary to tokenizer_config.json, such as "tokenizer',
        ),
        ({}, "a folder with no tokenizer.json (download the tokenizer files)"),
        ({"tokenizer.json": POINTER}, "git lfs pull"),
        ({"q4.gguf": gguf([]), "q8.gguf": gguf([])}, "several tokenizer files: q4.gguf, q8.gguf; "),
        ({"tokenizer.model": POINTER, "tokenizer_config.json": b"{}"}, "git lfs pull"),
        ({"vocab.json": POINTER, "merges.txt": b"a b\n"}, "git lfs pull"),
        ({"tokenizer_config.json": b"{}", "config.json": b"{}"}, "download the tokenizer"),
        (
            {"tokenization_x.py": b"", "x.model": b"\x00"},
            "DecodeStream(AutoTokenizer.from_pretrained(folder, trust_remote_code=True))",
        ),
    ],
)
def test_a_folder_that_cannot_be_loaded_says_what_to_do(
    files: dict[str, bytes], advice: str, tmp_path: Path
) -> None:
    assert advice in found(write_files(tmp_path, files))


@pytest.mark.parametrize("name", ["rwkv_vocab_v20230424.txt", "vocab.txt"])
def test_a_vocabulary_of_rwkv_is_refused_with_a_library_that_reads_it(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"1 '\\x00' 1\n2 b'\\xff' 1\n")
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(TokenizerLoadError, match=r"an RWKV vocabulary.*pip install rwkv; "):
            load_tokenizer(path)
    (tmp_path / name).write_bytes(b"1 \\x00 1\n")
    assert "RWKV" not in detect_format(tmp_path).description


KINDS = {
    "tokenizer.json": TOKENIZER,
    "tekken_1.json": json.dumps(tekken()).encode(),
    "x.tiktoken": rank_file(),
    "spiece.model": b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02",
    "weights-00001-of-00002.gguf": gguf([]),
}


def test_a_folder_with_several_formats_gives_the_first(tmp_path: Path) -> None:
    """By the names of files, of which the content tells the format."""
    (tmp_path / "tokenizer.tiktoken").write_bytes(b"hello")
    (tmp_path / "model.gguf").mkdir()
    (tmp_path / "weights-00002-of-00002.gguf").write_bytes(gguf([]))
    (tmp_path / "model.safetensors").write_bytes(gguf([]))
    for name, content in reversed(KINDS.items()):
        (tmp_path / name).write_bytes(content)
        assert detect_format(tmp_path).path == tmp_path / name


def test_no_more_is_read_than_a_tokenizer_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "MAX_FILE", 1_000_000)
    late = b'{"x": "' + b"y" * 2_000_000 + b'", "model": {}}'
    (tmp_path / "t").write_bytes(late)
    assert found(tmp_path / "t").startswith('JSON without a "model"')


@pytest.mark.parametrize("name", ["missing", "missing/t.json", "a\0b", "x" * 3000, "link"])
def test_a_missing_path_is_named(name: str, tmp_path: Path) -> None:
    if sys.platform != "win32":  # links need a privilege
        (tmp_path / "link").symlink_to("gone")
        os.mkfifo(tmp_path / "pipe")
        assert found(tmp_path / "pipe") == "neither a file nor a folder"
    with pytest.raises(TokenizerLoadError) as caught:
        detect_format(tmp_path / name)
    assert str(caught.value).startswith(repr(str(tmp_path))[:-1])
    assert len(str(caught.value)) < 600


def test_a_link_to_nothing_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to("nowhere")
    (tmp_path / "config.json").write_text("{}", "utf-8")
    assert found(tmp_path) == "a tokenizer.json that is a link to nothing (to 'nowhere')"


def test_a_folder_may_come_and_go_while_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if another process replaces it. The template of its parent is never its own."""
    model = tmp_path / "model"
    shutil.copytree(places.DEMO, tmp_path / "later")
    (tmp_path / "chat_template.jinja").write_text("of another model", "utf-8")
    opens = opening.open_tokenizer

    def opens_late(*args: Any, **options: Any) -> Any:
        loaded = opens(*args, **options)
        model.rename(tmp_path / "old")
        return loaded

    def comes(_: str) -> None:
        (tmp_path / "later").rename(model)

    monkeypatch.setattr(places, "_encoding_named", comes)
    monkeypatch.setattr(opening, "open_tokenizer", opens_late)
    with pytest.raises(ChatTemplateError, match="model' is not a folder"):
        load_tokenizer(model).get_chat_template()
