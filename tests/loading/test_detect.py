from __future__ import annotations

import gzip
import json
import lzma
import os
import sys
from pathlib import Path

import pytest

from streamdec.errors import TokenizerLoadError
from streamdec.loading import detect
from streamdec.loading.detect import detect_format
from streamdec.loading.factory import load_tokenizer
from tests.support.files import SHARED as FOLDER
from tests.support.files import gguf, rank_file, tekken

OTHERS = [
    pytest.param("kimi-k2", "tiktoken", "a tiktoken rank file"),
    pytest.param("gpt2", "huggingface", "a tokenizer.json"),
    pytest.param("mistral-sp-v3/tokenizer.model.v3", "sentencepiece", "a SentencePiece model"),
    pytest.param("gguf-llama-spm", "gguf", "a GGUF file"),
    pytest.param(
        "mistral-nemo-tekken/tekken_240718.json.xz", "unsupported", "an xz-compressed file"
    ),
    pytest.param("t5-small/tokenizer_config.json", "unsupported", "a tokenizer_config.json"),
]
TOKENIZER = b'{"version": "1.0", "added_tokens": [], "model": {"type": "BPE"'


def found(path: Path) -> str:
    detected = detect_format(path)
    assert detected.format == "unsupported"
    return detected.description


@pytest.mark.parametrize(("name", "kind", "description"), OTHERS)
def test_real_files_of_other_formats(name: str, kind: str, description: str) -> None:
    if not (FOLDER / name).exists():
        pytest.skip("the folder of real tokenizers is not here")
    detected = detect_format(FOLDER / name)
    assert (detected.format, detected.description) == (kind, detected.description)
    assert detected.description.startswith(description)


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
    ],
)
def test_the_content_tells_the_format(content: bytes, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "anything.bin"
    path.write_bytes(content)
    detected = detect_format(str(path))
    assert detected.format == kind
    assert detected.description.startswith("a")


@pytest.mark.parametrize(
    "content",
    [
        TOKENIZER,
        b"\xef\xbb\xbf\n " + TOKENIZER,
        b'{"x": "' + b"y" * 1_000_000 + b'",\n"model"  : \n {}}',
        *(b'{"x": "' + b"y" * (2**18 - n) + b'", "model": {}}' for n in range(8, 26)),
    ],
)
def test_the_model_is_found_wherever_it_is(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    assert detect_format(tmp_path / "t").format == "huggingface"


@pytest.mark.parametrize(
    ("content", "description"),
    [
        (b"", "an empty file"),
        (b"\xef\xbb\xbf", "a file with nothing but white space"),
        (b" \n", "a file with nothing but white space"),
        (lzma.compress(b"hello"), "an xz-compressed file"),
        (gzip.compress(TOKENIZER, mtime=0), "a gzip-compressed file"),
        (b"\x28\xb5\x2f\xfd\x24", "a zstd-compressed file"),
        (b"PK\x03\x04", "a zip archive"),
        (TOKENIZER.decode().encode("utf-16"), "a text in UTF-16"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "a Git LFS pointer"),
        (b"#version: 0.2\nt h", "a list of BPE merges"),
        (b"<!doctype html><html>", "HTML or XML"),
        (b"[PAD]\n[UNK]\n", 'JSON without a "model"'),
        (b"hello there\n", "a file of an unknown format that begins with b'hello there"),
        (b"\n\nhello\n", "a file of an unknown format"),
        (b"{\xff}", 'JSON without a "model"'),
        (b'{"model_max_length": 1024}', "a tokenizer_config.json"),
        (b'{"added_tokens_decoder": {}}', "a tokenizer_config.json"),
        (json.dumps({'"a': 0, "b": 1}).encode("utf-8-sig"), "a vocabulary"),
        (b'{"model": "gpt"}', 'JSON without a "model"'),
        (b'{"eos_token_id": 7, "version": "5"}', 'JSON without a "model"'),
        (b'{"a":1.5,"b":"","c":"","d":"","e":"","f":""}', 'JSON without a "model"'),
    ],
)
def test_other_formats_are_named(content: bytes, description: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(content)
    assert found(tmp_path / "tokenizer.json").startswith(description)


@pytest.mark.parametrize(
    ("names", "description"),
    [
        ([], "a folder with no tokenizer.json"),
        (["model.safetensors"], "a folder with no tokenizer.json"),
        (["tokenizer.model"], "a folder with tokenizer.model but no tokenizer.json"),
        (["vocab.json"], "a folder with vocab.json but no tokenizer"),
        (
            [f"{i}.gguf" for i in range(7)],
            "a folder with 0.gguf, 1.gguf, 2.gguf, 3.gguf, 4.gguf and 2",
        ),
    ],
)
def test_a_folder_without_one_says_what_it_has(
    names: list[str], description: str, tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).touch()
    assert found(tmp_path).startswith(description)


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        ({"tokenizer.json": POINTER}, "git lfs pull"),
        ({"tokenizer.model": POINTER, "tokenizer_config.json": b"{}"}, "git lfs pull"),
        ({"tekken.json.xz": b"\xfd7zXZ\x00"}, "unpack it with unxz"),
        ({"vocab.json": POINTER, "merges.txt": b"a b\n"}, "git lfs pull"),
        ({"tokenizer_config.json": b"{}", "config.json": b"{}"}, "download the tokenizer"),
        ({}, "download the tokenizer files"),
        ({"vocab.json": b'{"a": 0}'}, "without a way to split a text"),
        ({"tokenizer.model": b"\x00"}, r"DecodeStream(AutoTokenizer.from_pretrained(fold"),
        (
            {"tokenization_x.py": b"", "x.model": b"\x00"},
            "DecodeStream(AutoTokenizer.from_pretrained(folder, trust_remote_code=True))",
        ),
    ],
)
def test_a_folder_that_cannot_be_loaded_says_what_to_do(
    files: dict[str, bytes], advice: str, tmp_path: Path
) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    detected = detect_format(tmp_path)
    assert detected.format == "unsupported"
    assert advice in detected.description


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


@pytest.mark.parametrize("content", [b"<s>\n<pad>\n", b"[PAD]\n[UNK]\n"])
def test_a_vocabulary_may_begin_with_a_bracket(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    assert detect_format(tmp_path / "vocab.txt").description.startswith("a vocabulary")


KINDS = {
    "tokenizer.json": TOKENIZER,
    "tekken_1.json": json.dumps(tekken()).encode(),
    "x.tiktoken": rank_file(),
    "spiece.model": b"\n\x0e\n\x05<unk>\x15\x00\x00\x00\x00\x18\x02",
    "weights.gguf": gguf([]),
}


def test_a_folder_with_several_formats_gives_the_first(tmp_path: Path) -> None:
    for name, content in reversed(KINDS.items()):
        (tmp_path / name).write_bytes(content)
        assert detect_format(tmp_path).path == tmp_path / name


def test_file_names_decide_which_files_are_read(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(rank_file())
    (tmp_path / "tokenizer.tiktoken").write_bytes(b"hello")
    (tmp_path / "model.gguf").mkdir()
    (tmp_path / "tekken.json").write_bytes(b"{}")
    (tmp_path / "model.safetensors").write_bytes(gguf([]))
    assert detect_format(tmp_path).path == tmp_path / "tokenizer.model"


def test_a_folder_with_several_files_of_a_format_is_ambiguous(tmp_path: Path) -> None:
    for name in ("q4.gguf", "q8.gguf"):
        (tmp_path / name).write_bytes(gguf([]))
    several = "a folder with several tokenizer files: q4.gguf, q8.gguf; give the path of one"
    assert found(tmp_path) == several


def test_no_more_is_read_than_a_tokenizer_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "MAX_FILE", 1_000_000)
    late = b'{"x": "' + b"y" * 2_000_000 + b'", "model": {}}'
    (tmp_path / "t").write_bytes(late)
    assert found(tmp_path / "t").endswith('JSON without a "model"')


def test_a_file_in_parts_is_its_first_part(tmp_path: Path) -> None:
    for part in (1, 2, 3):
        (tmp_path / f"model-{part:05}-of-00003.gguf").write_bytes(gguf([]))
    assert detect_format(tmp_path).path.name == "model-00001-of-00003.gguf"


def test_a_tokenizer_json_in_a_folder_is_looked_into(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    detected = detect_format(tmp_path)
    assert detected.path == tmp_path / "tokenizer.json"
    assert detected.description.startswith("a Git LFS pointer")


@pytest.mark.parametrize("name", ["missing", "missing/tokenizer.json", "a\0b", "x" * 3000])
def test_a_missing_path_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(TokenizerLoadError) as caught:
        detect_format(tmp_path / name)
    assert str(caught.value).startswith(repr(str(tmp_path))[:-1])
    assert len(str(caught.value)) < 600


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in folders")
def test_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert found(tmp_path / "pipe") == "neither a file nor a folder"


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_a_link_to_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").symlink_to("gone")
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json"):
        detect_format(tmp_path / "tokenizer.json")


def test_a_class_of_transformers_is_for_a_folder_without_another_format(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").touch()
    (tmp_path / "config.json").write_text('{"model_type": "bert"}', "utf-8")
    detected = detect_format(tmp_path)
    assert (detected.format, detected.path) == ("transformers", tmp_path)
    assert detected.description == "a folder of the class BertTokenizer"
    (tmp_path / "tokenizer.json").write_text('{"model": {}}', "utf-8")
    assert detect_format(tmp_path).format == "huggingface"
