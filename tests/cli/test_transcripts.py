"""Command lines with what they print and their exit status.

``transcripts.txt`` has them. A line ``$ streamdec …`` is a command, maybe after ``printf '…' |``.
The lines after it are its stdout, then its stderr with ``! `` before each line, then ``[status]``
if that is not 0. ``…`` stands for any text within a line, and a line ``…`` for any lines.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from streamdec.preflight.examples import write_example
from tests.cli.running import LIBRARY, TOKENIZER, jsonl, run
from tests.support.files import write_files

TRANSCRIPTS = (Path(__file__).parent / "transcripts.txt").read_text("utf-8")
CASES = re.findall(r"^\$ (.*)\n((?:(?![$#] ).*\n)*)", TRANSCRIPTS, re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the transcripts name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    owl = LIBRARY.encode("It is an owl 🦉.\nUser: yes").ids
    letters = [token_id for letter in "byte byte" for token_id in LIBRARY.encode(letter).ids]
    rows = jsonl(owl, {"token_ids": owl[:2], "ids": owl[:3]}, {"ids": 5}, "x", [-1])
    # No stream can follow this decoder: what was output changes some tokens later.
    tokenizer = json.loads(TOKENIZER.read_text("utf-8"))
    replace = {"type": "Replace", "pattern": {"Regex": "b(y)te"}, "content": "BIT"}
    decoder = {"type": "Sequence", "decoders": [tokenizer["decoder"], replace]}
    files = {
        "owl.ids": "\n".join(map(str, owl)),
        "rows.jsonl": rows.encode() + b'\n{"token_ids": [1\n\xff\n',
        "good.jsonl": jsonl(owl, owl[:4]),
        "texts.jsonl": jsonl("Hello", {"text": "an owl"}, {"said": "x"}),
        "long.jsonl": " " * 200 + "[1]\n",
        "binary": b"PAR1\x00\xff",
        "bytes.jsonl": jsonl(owl, letters),
        "window.json": {**tokenizer, "decoder": decoder},
        "chat.json": [{"role": "user", "content": "Hi"}],
        "nothing": "",
        "text": "words of a text",
        "data/README.md": "rows",
        "data/rows.parquet": b"PAR1",
        "data/tokenizers.py": "",
        "gguf/tiny.gguf": b"GGUF",
        "ids.jsonl": "42 788\n",
        "other.jinja": "{{ greeting }}, {{ messages[0].content }}|",
        "parts.jinja": "{{ messages[0].content.strip() }}",
        "wrong.jinja": "{{ raise_exception('no such role') }}",
        "several/additional_chat_templates/default.jinja": "default!",
        "several/additional_chat_templates/rag.jinja": "rag!",
    }
    for model in ("model", "several"):
        files[f"{model}/tokenizer.json"] = TOKENIZER.read_bytes()
        files[f"{model}/chat_template.jinja"] = "{{ messages[0].content }}!"
    write_files(tmp_path, files)
    for name in ("folder", "models"):
        Path(name).mkdir()
    for place in (tmp_path, tmp_path / "models"):
        write_example("qwen", place)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("line", "expected"), CASES, ids=[line for line, _ in CASES])
def test_a_command_prints_what_the_transcript_says(
    line: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamdec.cli.inputs.MOST_BYTES", 100 if "long" in line else 1 << 26)
    before, pipe, after = line.rpartition(" | ")
    stdin = shlex.split(before)[1].encode().decode("unicode_escape").encode() if pipe else b""
    result = run(monkeypatch, *shlex.split(after)[1:], stdin=stdin)
    if result.status == 2 and line != "streamdec":
        *others, last = result.err.rstrip("\n").split("\n")
        begins = ("Usage: ", "Try ", "template: ", "huggingface encodes: ")
        assert last.startswith("Error: ")
        assert all(row.startswith(begins) or not row for row in others), "it is one clear sentence"
    lines = result.out.splitlines()
    lines += [f"! {each}" for each in result.err.splitlines() if each]
    lines += [f"[{result.status}]"] * (result.status != 0)
    pattern = "".join(
        "(?:.*\n)*" if row == "…" else re.escape(row).replace("…", ".*") + "\n"
        for row in expected.rstrip("\n").split("\n")
    )
    told = "".join(f"{row}\n" for row in lines or [""])
    assert re.fullmatch(pattern, told), told
