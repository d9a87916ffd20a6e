"""``streamdec verify --encode``: both encoders on one's own texts."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from streamdec.backends.fast import VARIABLE
from tests.cli.running import ROOT, TOKENIZER, command, jsonl, run
from tests.support.files import rank_file
from tests.support.zoo import ZOO

needs_fastokens = pytest.mark.skipif(
    find_spec("fastokens") is None,
    reason="fastokens (extra fast, which the extra test installs) is not there",
)


@pytest.fixture(autouse=True)
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def crooked(tmp_path: Path) -> Path:
    r"""A regex that is read in two ways: ``\h`` is a hexadecimal digit, or a horizontal space."""
    data = json.loads(ZOO["byte_level_trained"]().to_str())
    split: dict[str, Any] = {"type": "Split", "behavior": "Isolated", "invert": False}
    split["pattern"] = {"Regex": r"\h"}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    byte_level["trim_offsets"] = True
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, byte_level]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), "utf-8")
    return tmp_path


@needs_fastokens
def test_texts_with_the_same_ids_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = jsonl("Hello 👋 <|im_end|>", {"text": "नमस्ते, 世界"}, "")
    result = run(
        monkeypatch,
        *("verify", "--encode", TOKENIZER, "--input-format=jsonl"),
        stdin=texts.encode(),
    )
    assert (result.status, result.out) == (0, "3 texts compared, 0 with other ids\n")
    assert result.err.startswith("fastokens encodes: the same ids for ")


@needs_fastokens
def test_the_smallest_difference_is_shown(crooked: Path) -> None:
    """In a process of its own, as a user would run it."""
    text = "Größe " * 2_000 + "quick" + " sl\np" * 3_000
    prompts = ["jump ! Größe", text]
    result = subprocess.run(
        command("verify", "--encode", crooked, "--input-format=jsonl"),
        cwd=ROOT,
        input=jsonl(*prompts).encode(),
        capture_output=True,
        check=False,
    )
    out = result.stdout.decode().splitlines()
    assert result.returncode == 1
    assert (
        b"huggingface encodes: fastokens may give other ids: regexes of its kind" in result.stderr
    )
    place = text.index("ck")
    assert out[0] == f"line 2: 'ck', from character {place} on, without special tokens added"
    assert [line.split()[0] for line in out[1:3]] == ["fastokens", "huggingface"]
    assert out[1].split()[1:] != out[2].split()[1:]
    assert out[3] == "2 texts compared, 1 with other ids"


@needs_fastokens
def test_bad_rows_are_named_and_make_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("verify", "--encode", TOKENIZER, "--input-format=jsonl")
    result = run(monkeypatch, *arguments, stdin=b'"\\ud800"\n3\n"x"\n')
    assert result.status == 1
    assert "line 1: a lone surrogate" in result.err
    assert "line 2: expected a string" in result.err
    assert result.out == "1 texts compared, 0 with other ids\n"


def test_one_encoder_has_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("tiktoken")
    from tests.support.files import tekken, write_json

    write_json(tmp_path / "tekken.json", tekken())
    result = run(monkeypatch, "verify", "--encode", tmp_path, stdin=b"x")
    assert result.status == 2
    assert "has one encoder only (its format is tekken)" in result.err
    (tmp_path / "ranks").write_bytes(rank_file())
    assert run(monkeypatch, "verify", "--encode", tmp_path / "ranks", stdin=b"x").status == 2


def test_without_fastokens_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    result = run(monkeypatch, "verify", "--encode", TOKENIZER, stdin=b"x")
    assert result.status == 2
    assert "pip install 'streamdec[fast]'" in result.err
