"""``python -m fuzz.jsonl``: test how ``streamdec`` reads lines of token ids and texts.

An input is the file of the command; its first byte gives the size of the pieces in which it
arrives. Each line that is not blank is one row of the output or one error message. The exit status
shows whether there was an error.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

from streamdec.cli.statuses import CANNOT_BEGIN

import streamdec.loading
from fuzz.edits import edit_lines
from fuzz.harness import Target, main
from streamdec import load_tokenizer
from streamdec.cli import decode, encode, loading, rows, screen  # noqa: F401
from streamdec.tokenizers.tokenizer_report import LoadedTokenizer

TOKENIZER = Path(streamdec.loading.__file__).parent / "demo" / "tokenizer.json"
PREFIX = "new "
TEXT, IDS = f"{PREFIX}text", f"{PREFIX}token_ids"
END, REASON = f"{PREFIX}finish_reason", f"{PREFIX}stop_reason"
COMPLAINT = re.compile(r"<stdin>: line (\d+): .", re.DOTALL)


@cache
def _loaded() -> LoadedTokenizer:
    return load_tokenizer(TOKENIZER, fast="off")


def _load(*_: Any, **__: Any) -> LoadedTokenizer:
    """Return the tokenizer, which is loaded once for all inputs."""
    return _loaded()


class _Pieces(io.RawIOBase):
    """A file that arrives in pieces of ``size`` bytes."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._data.read(min(len(buffer), self._size))
        buffer[: len(found)] = found
        return len(found)


def law(data: bytes) -> None:
    size, data = 1 + sum(data[:1]) % 64, data[1:]
    lines = _lines(data)
    status, out, complaints = _run("decode", "--input-format=jsonl", data=data, size=size)
    if data.startswith(rows.MARKS):
        assert (status, out, complaints) == (CANNOT_BEGIN, [], [])
        return
    expected = [(number, row) for number, line in lines if (row := _row(number, line)) is not None]
    assert [_sorted(row) for row in out] == [_sorted(row) for _, row in expected]
    assert complaints == sorted({number for number, _ in lines} - dict(expected).keys())
    assert status == bool(complaints)
    _of_any_kind(data, size)
    _texts(lines, data, size)


def _sorted(row: dict[str, Any]) -> str:
    """Return ``row`` as text, with its fields sorted. In this text 1 and 1.0 differ."""
    return repr(sorted(row.items()))


def _of_any_kind(data: bytes, size: int) -> None:
    """Test both formats, and stops: pieces only change where rows are divided."""
    options = ("--stop= the", "--max-tokens=9", "--unknown-ids=replace")
    for kind in ("ids", "jsonl"):
        seen = []
        for each in (size, len(data) + 1):
            said = (*options, f"--input-format={kind}")
            status, out, complaints = _run("decode", *said, data=data, size=each)
            assert status == bool(complaints)
            text = "".join(row[TEXT] or "" for row in out)
            ends = [(row[END], row[REASON]) for row in out if END in row]
            seen.append((text, complaints, ends))
        assert seen[0] == seen[1]


def _texts(lines: list[tuple[int, bytes]], data: bytes, size: int) -> None:
    status, out, complaints = _run("encode", "--input-format=jsonl", data=data, size=size)
    good = [(number, line) for number, line in lines if number not in complaints]
    assert {*complaints} <= {number for number, _ in lines}
    assert status == bool(complaints)
    for (number, line), row in zip(good, out, strict=True):
        value = _json(line)
        fields = dict(value) if isinstance(value, dict) else {}
        text = fields.pop("text") if isinstance(value, dict) else value
        ids = None if text is None else [*_loaded().encode(text).ids]
        assert _sorted(row) == _sorted({"line": number, IDS: ids} | fields)


# --- the expected output --------------------------------------------------------------------------


def _lines(data: bytes) -> list[tuple[int, bytes]]:
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _row(number: int, line: bytes) -> dict[str, Any] | None:
    """Return the expected row of the output; None for a bad line."""
    value = _json(line)
    fields: dict[str, Any] = value if isinstance(value, dict) else {"token_ids": value}
    if "token_ids" not in fields or TEXT in fields:
        return None
    ids = fields.pop("token_ids")
    if ids is None and isinstance(value, dict):
        return {"line": number, TEXT: None} | fields
    text = _text(ids) if isinstance(ids, list) else None
    return None if text is None else {"line": number, TEXT: text} | fields


def _json(line: bytes) -> Any:
    """Return the value of a line; if it is not JSON, 5, which is a bad row."""
    try:
        return json.loads(line.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return 5


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _text(ids: list[Any]) -> str | None:
    """Return the library's own text; None if a value is not an id."""
    if all(type(each) is int and 0 <= each < 2**32 for each in ids):
        return _loaded().decode(ids)
    return None


# --- the command ----------------------------------------------------------------------------------


def _run(command: str, *options: str, data: bytes, size: int) -> tuple[int, list[Any], list[int]]:
    """Return the exit status, the written rows, and the lines with errors."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    stdin = io.TextIOWrapper(io.BufferedReader(_Pieces(data, size)), "utf-8")
    arguments = [command, f"--tokenizer={TOKENIZER}", "--output=jsonl", f"--prefix={PREFIX}"]
    with (
        patch.object(loading, "load_tokenizer", _load),
        patch.object(rows, "MOST_COMPLAINTS", len(data) + 1),
        patch.object(sys, "stdin", stdin),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        status = streamdec.cli.main([*arguments, *options])
    out.flush()
    written = out.buffer.getvalue().decode()
    assert "Traceback" not in err.getvalue()
    return status, [*map(json.loads, _lines_of(written))], [*_complaints(err.getvalue())]


def _lines_of(text: str) -> list[str]:
    """Return the lines that end in a new line; a text may contain other line ends."""
    return text.removesuffix("\n").split("\n") if text else []


def _complaints(text: str) -> Iterator[int]:
    for line in _lines_of(text):
        if found := COMPLAINT.match(line):
            yield int(found[1])


# --- seeds ----------------------------------------------------------------------------------------


def seeds() -> dict[str, bytes]:
    ids = [*_loaded().encode("Hello the 😀 world").ids]
    return {
        "digits": b"\x10[" + b"9" * 4301 + b"]\n[1]\n",
        "brackets": b"\x10" + b"[" * 3000 + b"\n[1]\n",
        "lists": b"\x40" + b"%s\n[]\n" % json.dumps(ids).encode() * 2,
        "objects": b"\x02"
        + b'{"token_ids": %s, "id": 1.10, "text": "x", "line": 1}\n' % json.dumps(ids).encode()
        + b'{"token_ids": null, "new text": 1}\n{"token_ids": null, "text": null}\n',
        "blank": b"\x00\n\r\n[1]\r\n \t\n[2]",
        "bad": b'\x05[1, -1]\n{"token_ids": 3}\n{}\nnull\n"\n[1.0]\n[true]\n[40000]\n[\xff]\n',
        "bom": b"\x01\xef\xbb\xbf[5]\n",
        "numpy": b"\x01\x93NUMPY\x01\0",
        "ids": b"\x03" + b"5 6,7\n-1 x 99999999999 8\n",
        "texts": b'\x07"Hello the"\n{"text": "\\ud83d\\ude00", "n": NaN}\n{"text": "\\ud800"}\n',
        "deep": b'\x09[[[[1]]]]\n{"token_ids": [1], "a": {"b": [null]}}\n' + b"[" * 40,
    }


TARGET = Target("jsonl", law, seeds, edit_lines)

if __name__ == "__main__":
    sys.exit(main(TARGET))
