"""``streamdec trace``: the table, JSON lines and the page."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from streamdec.cli.trace import _cells
from streamdec.trace import TokenRecord
from tests.cli.running import LIBRARY, ROOT, TOKENIZER, Run, command, jsonl, run
from tests.cli.terminal import everything_shown

Tracing = Callable[..., Run]

IDS = LIBRARY.encode("An owl 🦉.\nUseful\nUser: no").ids
WORDS = " ".join(map(str, IDS))
STOP = r"--stop=\nUser:"
JSONL = "--input-format=jsonl"


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Tracing:
    def tracing(stdin: str, *options: str | Path) -> Run:
        return run(monkeypatch, "trace", "--tokenizer", TOKENIZER, *options, stdin=stdin.encode())

    return tracing


def table(result: Run) -> list[dict[str, str]]:
    """The rows below the header."""
    lines = [line for line in result.out.splitlines() if not line.startswith("# ")]
    names, *rows = [line.split("\t") for line in lines]
    return [dict(zip(names, row, strict=True)) for row in rows]


def header(result: Run) -> dict[str, str]:
    lines = [line[2:] for line in result.out.splitlines() if line.startswith("# ")]
    return {name: told.strip() for name, _, told in (line.partition(" ") for line in lines)}


def test_a_row_for_each_token(trace: Tracing) -> None:
    result = trace(WORDS, STOP)
    assert (result.status, result.err) == (0, "")
    rows = table(result)
    assert [int(row["id"]) for row in rows] == IDS[: len(rows)]
    assert [row["token"] for row in rows] == [str(place) for place in range(len(rows))]
    text = "".join(literal_eval(row["output"] or "''") for row in rows)
    assert text == "An owl 🦉.\nUseful"
    held = [row for row in rows if row["held"]]
    assert held
    assert all(row["held"].startswith("f0") for row in held)
    assert {row["may become"] for row in rows if row["jailed"]} == {r"'\nUser:'"}
    assert [row["finish"] for row in rows if row["finish"]] == [r"stop: '\nUser:'"]
    above = header(result)
    assert above["verdict"] == "equal to the full decode: yes"
    assert above["stops"] == r'{"stop": ["\nUser:"]}'
    assert (above["route"], above["tokens"]) == ("bytes", str(len(rows)))
    assert len(above["fingerprint"]) == 33


def test_one_row_of_several(trace: Tracing) -> None:
    rows = jsonl(IDS[:3], IDS[3:5], IDS[5:7])
    first = trace(rows, JSONL)
    assert first.err == "line 1 is traced; --line N traces another row (2 more)\n"
    assert [row["id"] for row in table(first)] == [str(each) for each in IDS[:3]]
    second = trace(rows, JSONL, "--line=2")
    assert [row["id"] for row in table(second)] == [str(each) for each in IDS[3:5]]
    assert second.err == ""
    missing = trace(rows, JSONL, "--line=9")
    assert missing.status == 2
    assert "line 9 has no row" in missing.err
    assert trace(WORDS, "--line=2").status == 2


def test_after_a_prompt(trace: Tracing) -> None:
    owl = LIBRARY.encode("🦉").ids
    result = trace(str(owl[-1]), "--prompt-ids", ",".join(map(str, owl[:-1])))
    assert table(result)[0]["output"] == "'🦉'"
    assert header(result)["verdict"] == "equal to the full decode: yes"
    assert header(result)["tokens"] == "1, after a prompt"
    bad = trace(WORDS, "--prompt-ids=1,x")
    assert bad.status == 2
    assert "'x' is not a token id" in bad.err


def test_options_of_the_decoder(trace: Tracing) -> None:
    end = str(LIBRARY.token_to_id("<|im_end|>"))
    assert table(trace(end))[0]["piece"] == "<|im_end|> (skipped)"
    assert table(trace(end, "--keep-special-tokens"))[0]["piece"] == "<|im_end|> (special)"
    assert table(trace("40000", "--unknown-ids=replace"))[0]["output"] == "'\ufffd'"
    assert table(trace(end, f"--eos-id={end}"))[0]["finish"] == "stop"


def test_each_kind_of_stop_is_named() -> None:
    token = TokenRecord(
        index=3,
        token_id=7,
        piece="x",
        data=b"x",
        kind="text",
        position=3,
        text="",
        held=b"",
        jailed="x",
        may_become=("x\u202e\n", "x7"),
        chunk=3,
    )
    assert _cells(token)[6] == r"'x\u202e\n' | 'x7'"
    stopped = replace(token, finish_reason="stop", stop_reason=7)
    assert _cells(stopped)[8] == "stop: 7"
    assert _cells(replace(stopped, stop_reason=None))[8] == "stop"


def test_the_last_row_has_the_flushed_text(trace: Tracing) -> None:
    owl = LIBRARY.encode("🦉").ids
    rows = table(trace(" ".join(map(str, owl[:-1]))))
    assert (rows[-1]["token"], rows[-1]["output"], rows[-1]["finish"]) == ("end", "'\ufffd'", "")


def test_a_word_that_is_not_an_id_is_named_and_skipped(trace: Tracing) -> None:
    result = trace(f"{IDS[0]} x {IDS[1]}\n9999999999 {IDS[2]}")
    assert result.status == 1
    assert [row["id"] for row in table(result)] == [str(each) for each in IDS[:3]]
    assert "line 1: 'x' is not a token id" in result.err
    assert "line 2: token 3 is out of range" in result.err
    grouped = trace(jsonl([IDS[0], True, IDS[1], -1, IDS[2]]), JSONL)
    assert grouped.status == 1
    assert [row["id"] for row in table(grouped)] == [str(each) for each in IDS[:3]]
    assert len(grouped.err.splitlines()) == 2


def test_a_row_that_cannot_be_read_is_named_and_the_next_one_is_traced(trace: Tracing) -> None:
    rows = "[1, 2\n" + jsonl(IDS[:2], IDS[2:4])
    result = trace(rows, JSONL)
    assert result.status == 1
    assert [row["id"] for row in table(result)] == [str(each) for each in IDS[:2]]
    bad, told = result.err.splitlines()
    assert "line 1: not JSON" in bad
    assert told == "line 2 is traced; --line N traces another row (1 more)"
    wanted = trace(rows, JSONL, "--line=1")
    assert (wanted.status, wanted.out, wanted.err) == (1, "", f"{bad}\n")


@pytest.mark.parametrize(("given", "status"), [("", 2), ("\n \n", 2), ("x y", 1), ("[x, 2]\n", 1)])
def test_without_a_traced_row_there_is_no_verdict(trace: Tracing, given: str, status: int) -> None:
    result = trace(given)
    assert (result.status, result.out) == (status, "")
    assert ("no token id to trace\n" in result.err) == (status == 2)
    assert trace("[]", JSONL).status == 0  # a row of no ids is one


def test_lines_for_machines(trace: Tracing) -> None:
    result = trace(WORDS, STOP, "--jsonl")
    assert (result.status, result.err) == (0, "")
    above, *tokens, end = map(json.loads, result.out.splitlines())
    assert above["conditions"] == {"stop": ["\nUser:"]}
    assert "".join(token.get("text", "") for token in tokens) == "An owl 🦉.\nUseful"
    assert (tokens[-1]["stop_reason"], end["verdict"]["equal"]) == ("\nUser:", True)


def test_html_writes_the_trace_as_a_page(trace: Tracing, tmp_path: Path) -> None:
    file = tmp_path / "owl.html"
    result = trace(WORDS, STOP, "--html", file)
    assert result.status == 0
    assert header(result)["page"] == str(file)
    assert "\nAn" not in result.out
    page = file.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert trace(WORDS, STOP, "--html=-").out == page
    assert trace(WORDS, "--jsonl", "--html=-").status == 2
    assert trace(WORDS, "--html", tmp_path / "missing" / "owl.html").status == 2


def test_on_a_terminal_it_is_a_table() -> None:
    shown = shown_on_a_terminal(150)
    assert "may become" in shown
    assert "equal to the full decode: yes" in shown
    assert shown.count(r"'\nUser:'") > 3
    assert "🦉" in shown
    assert "\t" not in shown
    assert "chunk" not in shown  # each token came alone


def test_on_a_narrow_terminal_numbers_are_whole_and_nothing_is_cut() -> None:
    shown = shown_on_a_terminal(40)
    rows = [row.split() for row in shown.splitlines() if re.match(r" *\d+ +\d+ ", row)]
    assert [(row[0], row[1]) for row in rows] == [(str(i), str(t)) for i, t in enumerate(IDS[:19])]
    assert "…" not in shown


def shown_on_a_terminal(columns: int) -> str:
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command("trace", "--tokenizer", TOKENIZER, STOP, "-"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=follower,
        env=environment,
    )
    os.close(follower)
    assert process.stdin
    process.stdin.write(WORDS.encode())
    process.stdin.close()
    written = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:  # Linux says so where the other end is closed
            break
        if not part:
            break
        written += part
    os.close(leader)
    assert process.wait(60) == 0
    assert "\x1b[" in written.decode()
    return everything_shown(written.decode())


def test_a_closed_pipe_ends_the_trace_silently() -> None:
    with subprocess.Popen(
        command("trace", "--tokenizer", TOKENIZER, "-"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        process.stdin.write((WORDS + " ").encode() * 400)
        process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141
