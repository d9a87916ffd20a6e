"""``streamdec encode``: text in, ids out; a bad row is named and the others are still done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streamdec.fastpath.options import VARIABLE
from tests.cli.running import LIBRARY, ROOT, TOKENIZER, Run, command, jsonl, objects, run
from tests.support.files import SHARED, small_gguf

TEXT = "Größe <|im_end|> 世界\n"


@pytest.fixture(autouse=True)
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def ids_of(text: str) -> list[int]:
    """The library's own."""
    return list(LIBRARY.encode(text, add_special_tokens=False).ids)


def plain_ids(result: Run) -> list[list[int]]:
    """The ids in each line of the output."""
    return [[int(word) for word in line.split()] for line in result.out.splitlines()]


class Encoding:
    """``streamdec encode`` with the demo's tokenizer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def __call__(self, stdin: str | bytes, *options: str | Path) -> Run:
        given = stdin.encode() if isinstance(stdin, str) else stdin
        return run(self._monkeypatch, "encode", "--tokenizer", TOKENIZER, *options, stdin=given)


@pytest.fixture
def encode(monkeypatch: pytest.MonkeyPatch) -> Encoding:
    return Encoding(monkeypatch)


@pytest.mark.parametrize("fast", ["off", "now", "BACKGROUND"])
def test_the_whole_input_is_one_text(encode: Encoding, fast: str) -> None:
    result = encode(TEXT, "--fast", fast)
    assert plain_ids(result) == [ids_of(TEXT)]
    assert result.status == 0


@pytest.mark.parametrize("name", ["encode", "decode", "trace"])
@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("12 13", "; FILE is a path. To give the input itself, pipe it: echo -n ... | streamdec"),
        ("Hello", "; FILE is a path. To give the input itself, pipe it: echo -n ... | streamdec"),
        ("See a/b.txt", "; FILE is a path. To give the input itself, pipe it: "),
        ("nowhere.txt", ""),
        ("nowhere/ids", ""),
    ],
)
def test_an_input_in_place_of_a_path_gets_a_hint(
    name: str, given: str, hint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run(monkeypatch, name, "--tokenizer", TOKENIZER, given)
    told = " ".join(result.err.split())
    assert f"'{given}': No such file or directory{hint}" in told
    assert ("pipe it" in told) == bool(hint)
    assert result.status == 2


@pytest.mark.parametrize("name", ["encode", "decode", "trace", "verify"])
def test_a_tokenizer_in_place_of_file_gets_a_hint(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = run(monkeypatch, name, tmp_path, "12 13")
    told = f"'{tmp_path}': Is a directory; FILE is a file with rows. For the tokenizer, write --to"
    assert told in " ".join(result.err.split())
    assert result.status == 2


def test_a_file_of_jsonl_is_known_by_its_name(encode: Encoding, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_text(jsonl("one\r", "", "two words"), "utf-8")
    assert plain_ids(encode("", path)) == [ids_of("one\r"), [], ids_of("two words")]


def test_rows_keep_their_other_fields(encode: Encoding) -> None:
    rows = jsonl("one", {"text": "two", "id": 7})
    assert objects(encode(rows, "--input-format=jsonl", "--output=jsonl")) == [
        {"line": 1, "token_ids": ids_of("one")},
        {"line": 2, "token_ids": ids_of("two"), "id": 7},
    ]
    result = encode(jsonl({"prompt": "two"}), "--input-format=jsonl", "--column=prompt")
    assert plain_ids(result) == [ids_of("two")]


def test_bad_rows_are_named_and_left_out(encode: Encoding) -> None:
    rows = b'"one"\n\n{"x": 1}\n"\\ud800"\n[1]\n{\n"\xff"\n{"text": 3}\n"two"\n'
    result = encode(rows, "--input-format=jsonl")
    assert plain_ids(result) == [ids_of("one"), ids_of("two")]
    assert result.status == 1
    complaints = result.err.splitlines()[1:]
    assert [line.partition(": line ")[2] for line in complaints] == [
        "3: no column 'text'; the columns are: 'x'; choose one with --column",
        "4: a lone surrogate cannot be encoded: U+D800 at index 0",
        "5: expected a string or an object, got a list",
        (
            "6: not JSON: Expecting property name enclosed in double quotes (character 2); "
            "expected JSONL, with a complete JSON value in each line"
        ),
        "7: not UTF-8: byte 0xff at position 2",
        "8: 'text' must be a string or null, got a number",
    ]


def test_special_tokens_are_parsed_or_text_or_forbidden(encode: Encoding) -> None:
    end = LIBRARY.token_to_id("<|im_end|>")
    assert end in ids_of(TEXT)
    [as_text] = plain_ids(encode(TEXT, "--special=text"))
    assert end not in as_text
    assert LIBRARY.decode(as_text) == TEXT
    forbidden = encode(TEXT, "--special=forbid")
    assert forbidden.status == 1
    assert "line 1: the text contains special tokens" in forbidden.err


@pytest.mark.filterwarnings("default::streamdec.errors.StreamdecWarning")
def test_the_encoder_is_printed(
    encode: Encoding, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("fastokens")
    fast = encode("a", "--fast=now").err
    assert fast.startswith("fastokens encodes: the same ids for ")
    assert fast.count("\n") == 1
    slow = "huggingface encodes: fastokens is switched off\n"
    assert encode("a", "--fast=off").err == slow
    monkeypatch.setenv(VARIABLE, "off")
    assert encode("a").err == slow
    assert encode("a", "--fast=now").err == fast
    monkeypatch.setenv(VARIABLE, "rust")
    assert encode("a").err.startswith(
        f"Warning: the environment variable {VARIABLE} must be one of off, now, background, got "
    )
    (tmp_path / "a.gguf").write_bytes(small_gguf())
    result = run(monkeypatch, *("encode", "--tokenizer", tmp_path, "--fast=now"), stdin=b"a")
    assert "gguf encodes: " in result.err


def test_decode_accepts_the_output_of_encode() -> None:
    encoder = command("encode", "--tokenizer", TOKENIZER)
    ids = subprocess.run(encoder, cwd=ROOT, input=TEXT.encode(), capture_output=True, check=True)
    decoder = command("decode", "--tokenizer", TOKENIZER, "--keep-special-tokens")
    text = subprocess.run(decoder, cwd=ROOT, input=ids.stdout, capture_output=True, check=True)
    assert text.stdout.decode() == TEXT + "\n"


def test_special_tokens_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    path = SHARED / "mistral-7b-v0.1"
    if not path.exists():
        pytest.skip("the folder of real tokenizers is not here")
    arguments = ("encode", "--tokenizer", path, "--fast=off")
    [without] = plain_ids(run(monkeypatch, *arguments, stdin=b"Hi"))
    [added] = plain_ids(run(monkeypatch, *arguments, "--add-special-tokens", stdin=b"Hi"))
    assert added == [1, *without]


def test_an_encoding_is_only_for_rank_files(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("encode", "--tokenizer", TOKENIZER, "--encoding", "cl100k_base")
    result = run(monkeypatch, *arguments, stdin=b"one")
    assert result.status == 2
    assert "--encoding, which is only for rank files" in result.err
