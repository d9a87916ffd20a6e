"""``streamdec info``: what a file is, what serves it, and why."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import pytest

from streamdec import load_tokenizer
from streamdec.fastpath.options import VARIABLE
from streamdec.tokenizers import detect_format
from tests.cli.running import LIBRARY, TOKENIZER, run, run_process
from tests.support.files import shared_folders

CAVEATS = {
    "chatglm3": {"ADDED_TOKEN_ID_DRIFT", "ADDED_TOKEN_ONLY_IN_CONFIG"},
    "deepseek-coder": {"ADDED_TOKEN_OF_BYTE_LETTERS"},
    "ort-added-tokens": {
        "ADDED_TOKEN_ID_NOT_HONOURED",
        "ADDED_TOKEN_ID_DRIFT",
        "ADDED_TOKEN_ONLY_IN_CONFIG",
    },
    "phi-2": {"CLEAN_UP_TOKENIZATION_SPACES"},
    "synthetic-bytelevel": {"ADDED_TOKEN_OF_BYTE_LETTERS"},
    "t5-small": {"CLEAN_UP_TOKENIZATION_SPACES"},
    "whisper-tiny": {"CLEAN_UP_TOKENIZATION_SPACES"},
}
"""Shared tokenizers with caveats."""
WITHOUT = {"gguf-llama-spm", "gpt2", "kimi-k2", "mistral-nemo-tekken", "mistral-sp-v3"}
"""Shared tokenizers of all formats without a caveat."""
WARNED = {"deepseek-coder", "synthetic-bytelevel"}
CONTRADICTED = {"chatglm3"}
"""Folders whose own code makes the tokenizer, and whose files contradict each other."""
REAL = [
    pytest.param(path, id=path.name)
    for path in shared_folders()
    if path.name in CAVEATS.keys() | WITHOUT
]


@pytest.fixture(autouse=True)
def _no_wish_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_the_text_output_describes_the_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, "info", TOKENIZER, "--fast=off")
    assert (result.status, result.err) == (0, "")
    told = dict(line.split(maxsplit=1) for line in result.out.splitlines())
    assert told["format"] == "huggingface: a tokenizer.json"
    assert told["encodes"] == "huggingface: fastokens is switched off"
    size = LIBRARY.get_vocab_size()
    added = len(LIBRARY.get_added_tokens_decoder())
    assert told["ids"] == f"below {size:,}; {size:,} tokens, {added} of them added"
    assert told["decoder"] == "ByteLevel"
    assert told["file"] == f"{TOKENIZER.stat().st_size:,} bytes"
    assert "caveat" not in told
    end = LIBRARY.token_to_id("<|im_end|>")
    assert f"<|im_end|> {end}" in told["special"]
    assert "fast         off (by --fast)\n" in result.out


def test_the_source_of_the_mode_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")
    assert "off (by the environment)" in run(monkeypatch, "info", TOKENIZER).out
    report = json.loads(run(monkeypatch, "info", "--json", "--fast=background", TOKENIZER).out)
    asked = report["report"]
    assert (asked["requested"], asked["requested_by"]) == ("background", "argument")


@pytest.mark.filterwarnings("ignore:.*may differ from those of transformers")  # whisper-tiny
@pytest.mark.parametrize("folder", REAL)
def test_the_json_output_has_the_report_of_the_tokenizer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        tokenizer = load_tokenizer(
            folder, fast="off", apply_tokenizer_config=True if folder.name in CONTRADICTED else None
        )
    flags = ["--apply-tokenizer-config"] if folder.name in CONTRADICTED else []
    result = run(monkeypatch, "info", folder, "--json", "--fast=off", *flags)
    facts = json.loads(result.out)
    assert (result.status, result.err) == (0, "")
    odd = {caveat["code"] for caveat in facts["caveats"]}
    assert odd == CAVEATS.get(folder.name, set())
    warned = [one for one in told if "decoded as other text" in str(one.message)]
    assert len(warned) == (folder.name in WARNED)
    assert 0 < facts["sizes"]["tokens"] <= facts["vocab_size"]
    assert facts["fingerprint"] == tokenizer.fingerprint
    assert facts["vocab_size"] == tokenizer.vocab_size
    assert list(facts["special_tokens"]) == list(tokenizer.special_tokens.all)
    assert facts["streams"] == "bytes"
    detected = detect_format(folder)
    assert facts["report"]["format"] == detected.format
    assert facts["found"] == detected.description
    assert facts["report"]["sha256"] == tokenizer.report.sha256


def test_a_caveat_is_printed_once_with_its_consequence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data = json.loads(TOKENIZER.read_text("utf-8"))
    end = {**data["added_tokens"][-1], "id": 10**6, "content": "üÿ", "special": False}
    data["added_tokens"].append(end)
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), "utf-8")
    result = run(monkeypatch, "info", tmp_path)
    assert (result.status, result.err) == (0, "")
    odd = [line.split(maxsplit=1)[1] for line in result.out.splitlines() if line[:7] == "caveat "]
    size = LIBRARY.get_vocab_size()
    assert [line.split(":")[0] for line in odd] == [
        "added tokens whose letters stand for bytes",
        "added tokens with other ids than the tokenizer.json says",
    ]
    assert all(f": 1: üÿ {size}. " in line for line in odd)
    assert odd[0].endswith("[ADDED_TOKEN_OF_BYTE_LETTERS]")
    (tmp_path / "ids").write_text(str(size))
    decoding = run_process("decode", "--tokenizer", tmp_path, tmp_path / "ids")
    assert decoding.stderr.startswith(b"Warning: ")
    assert decoding.stderr.count(b"\n") == 2
    assert decoding.stdout.decode() == "\ufffd\ufffd\n"
    facts = json.loads(run(monkeypatch, "info", "--json", tmp_path).out)
    assert [caveat["tokens"] for caveat in facts["caveats"]] == [{"üÿ": size}] * 2


@pytest.mark.thorough
def test_an_id_of_the_hub_in_the_cache(tmp_path: Path) -> None:
    pytest.importorskip("huggingface_hub")
    commit = "c" * 40
    folder = tmp_path / "hub" / "models--org--model"
    (folder / "snapshots" / commit).mkdir(parents=True)
    (folder / "refs").mkdir()
    (folder / "refs" / "v1").write_text(commit)
    (folder / "snapshots" / commit / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    environment = {"HF_HOME": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "hub")}
    environment["HF_ENDPOINT"] = "http://127.0.0.1:9"
    found = run_process("info", "--revision=v1", "org/model", environment=environment)
    assert f"revision     {commit}\n" in found.stdout.decode()
    missing = run_process("info", "org/model", environment=environment)
    assert missing.returncode == 2
    assert b"it is not in the local cache, and downloads are not allowed" in missing.stderr
    assert missing.stderr.count(b"\n") == 1
    failed = run_process("info", "--allow-download", "org/model", environment=environment)
    assert failed.returncode == 2
    assert b"and the download failed: " in failed.stderr


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="paths are UTF-8 there")
def test_a_path_that_is_not_utf_8_on_an_ascii_output(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/\xff"
    os.mkdir(folder)  # noqa: PTH102 (of bytes)
    (Path(os.fsdecode(folder)) / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    environment = {"PYTHONIOENCODING": "ascii"}
    people = run_process("info", os.fsdecode(folder), environment=environment)
    assert (people.returncode, people.stderr) == (0, b"")
    assert rb"\udcff/tokenizer.json" in people.stdout
    as_json = run_process("info", "--json", os.fsdecode(folder), environment=environment)
    assert json.loads(as_json.stdout)["name"] == os.fsdecode(folder + b"/tokenizer.json")
