"""Wrong use, and input with which a command cannot begin: one clear sentence, exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamdec.cli.commands import COMMANDS
from tests.cli.running import LIBRARY, jsonl, run

CASES = [
    *[(f"{name} --no-such-option", "No such option '--no-such-option'.") for name in COMMANDS],
    *[
        (f"{name} nowhere{rest}", "'nowhere': No such file or directory; it is not the name of a ")
        for name, rest in {
            "info": "",
            "encode": " text",
            "decode": " 1",
            "trace": " 1",
            "verify": " 1",
            "chat": " chat.json",
            "bench": "",
            "bulk": " rows.jsonl out.jsonl",
            "serve": "",
        }.items()
    ],
    ("decoed", "No such command 'decoed'."),
    ("info", "Missing argument 'TOKENIZER'."),
    ("info binary", "'binary': "),
    ("demo --rate fast", "Invalid value for '--rate': 'fast' is not a valid float range."),
    ("demo --rate -1", "Invalid value for '--rate': -1.0 is not in the range x>=0."),
    ("encode demo absent", "No such file or directory: 'absent'"),
    ("encode demo text --special maybe", "'maybe' is not one of 'parse', 'text', 'forbid'."),
    ("decode demo folder", "Is a directory: 'folder'"),
    ("decode demo 1 rows.jsonl", "INPUT must be token ids or one file, got 'rows.jsonl'"),
    ("decode demo text", "text: token 0: 'words' is not a token id"),
    ("decode demo 1 --max-tokens 0", "Invalid value for '--max-tokens': 0 is not in the range"),
    ("decode demo 1 --stop-id x", "Invalid value for '--stop-id': 'x' is not a valid integer"),
    ("trace demo 1 --html folder/no/page.html", "No such file or directory: 'folder/no/page.html'"),
    ("trace demo empty", "empty: no token id to trace"),
    (
        "trace demo ids.jsonl",
        "a name that ends in .jsonl is for JSON, so use another one for plain",
    ),
    ("verify demo empty", "empty: no row to verify"),
    ("preflight", "give the folder of a model, or --example"),
    ("preflight text", "'text': expected the folder of a model: Not a directory"),
    ("preflight absent", "'absent': expected the folder of a model: No such file or directory"),
    ("preflight folder --engine vllm@x", "'vllm@x': the version must be numbers"),
    ("chat demo absent.json", "Invalid value for '[MESSAGES]': 'absent.json': No such file"),
    ("chat demo binary", "binary: not JSON: 'utf-8' codec can't decode byte 0xff"),
    ("chat demo text", "text: not JSON: Expecting value: line 1 column 1 (char 0)"),
    ("bench demo --seconds 0", "Invalid value for '--seconds': 0.0 is not in the range x>0."),
    ("bulk demo rows.jsonl", "Missing argument 'OUTPUT'."),
    ("bulk demo rows.jsonl out.csv", "out.csv: unknown suffix; expected .parquet, "),
    (
        "bulk demo rows.jsonl out.parquet",
        "out.parquet: expected the suffix of the input, .jsonl",
    ),
    ("bulk demo rows.jsonl rows.jsonl", "rows.jsonl: the input and the output are the same file"),
    ("bulk demo absent.jsonl out.jsonl", "No such file or directory: 'absent.jsonl'"),
    ("bulk demo folder out", "folder: no files (.parquet, "),
    ("bulk demo rows.jsonl out.jsonl --workers 0", "Invalid value for '--workers': 0 is not in "),
    ("serve --engine engine:generate", "--engine needs TOKENIZER, that of the engine's model"),
    ("serve demo --engine nowhere:generate", "nowhere"),
    ("serve demo --engine generate", "expected an engine as module:callable, such as generate:"),
    ("serve demo --text binary", "binary: not UTF-8: "),
    ("serve demo --port 70000", "Invalid value for '--port': 70000 is not in the range"),
]


@pytest.mark.parametrize(("line", "told"), CASES, ids=[line for line, _ in CASES])
def test_it_is_one_clear_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, line: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("folder").mkdir()
    Path("empty").touch()
    Path("text").write_text("words of a text", "utf-8")
    Path("binary").write_bytes(b"\xff\x00")
    Path("ids.jsonl").write_text("42 788\n", "utf-8")
    Path("chat.json").write_text("[]", "utf-8")
    Path("rows.jsonl").write_text(jsonl({"token_ids": LIBRARY.encode("an owl").ids}), "utf-8")
    result = run(monkeypatch, *line.split())
    assert (result.status, result.out) == (2, "")
    *usage, last = result.err.rstrip("\n").split("\n")
    assert last.startswith("Error: ")
    assert told in last
    assert all(row.startswith(("Usage: ", "Try ", "template: ")) or not row for row in usage)
