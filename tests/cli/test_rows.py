"""FILE of a command: how its bytes are cut into reads never matters, and mistakes are named."""

from __future__ import annotations

import gzip
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec.cli import command_group
from streamdec.cli.rows import (
    LONGEST_WORD,
    MOST_COMPLAINTS,
    BadInputError,
    Input,
    numbered_lines,
    numbered_words,
    parse_id,
    parse_row,
    without_bom,
)
from streamdec.cli.spelling import spelled
from streamdec.errors import SourceError
from tests.cli.running import TOKENIZER, run

BOM = b"\xef\xbb\xbf"
IDS = ("token_ids", list)
TEXTS = ("text", str)

reads = st.lists(st.binary(max_size=6) | st.sampled_from([b"12", b"\n", b", ", b"\r\n", BOM, b"["]))


@given(reads)
def test_lines_are_those_of_the_whole_file(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    expected = [(number, line) for number, line in enumerate(whole, 1) if line.strip()]
    assert list(numbered_lines(chunks)) == expected


@given(reads)
def test_words_are_those_of_the_whole_file(chunks: list[bytes]) -> None:
    whole = b"".join(chunks).split(b"\n")
    words = [re.split(rb"[\s,]+", line) for line in whole]
    expected = [(number, word) for number, line in enumerate(words, 1) for word in line if word]
    assert [(n, word) for n, line in numbered_words(chunks) for word in line] == expected


@given(reads)
def test_a_byte_order_mark_is_left_out_at_the_beginning_only(chunks: list[bytes]) -> None:
    assert b"".join(without_bom([BOM[:1], BOM[1:], *chunks])) == b"".join(chunks)
    plain = [b"x", *chunks]
    assert b"".join(without_bom(plain)) == b"".join(plain)


def test_words_are_yielded_as_soon_as_they_are_complete() -> None:
    taken = []

    def arriving() -> Iterator[bytes]:
        for chunk in (b"1 2", b"3 4\n5", b" 6"):
            taken.append(chunk)
            yield chunk

    words = numbered_words(arriving())
    assert next(words) == (1, [b"1"])
    assert taken == [b"1 2"]
    assert next(words) == (1, [b"23", b"4"])
    assert list(words) == [(2, [b"5"]), (2, [b"6"])]


def test_an_endless_word_takes_bounded_memory() -> None:
    chunks = (b"7" * 1000 for _ in range(1000))
    ((number, (word,)),) = numbered_words(chunks)
    assert number == 1
    assert word == b"7" * LONGEST_WORD


@pytest.mark.parametrize(
    "word", [b"x", b"1.0", b"+1", b"1_000", b"--1", b"0x10", b"\xff", "\u0663".encode(), b"1" * 65]
)
def test_a_word_that_is_not_an_integer_is_quoted(word: bytes) -> None:
    with pytest.raises(BadInputError, match=r"^'.*' is not a token id; expected an integer"):
        parse_id(word)


@given(
    st.dictionaries(
        st.text(),
        st.recursive(
            st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.text(), st.lists
        ),
    ),
    st.sampled_from([None, 0, 2]),
    st.booleans(),
)
def test_fields_are_spelled_as_they_were(row: dict[str, Any], indent: int, ascii: bool) -> None:  # noqa: A002
    text = json.dumps({"token_ids": [], **row}, indent=indent, ensure_ascii=ascii)
    found = Input(io.BufferedReader(io.BytesIO(b"")), "jsonl", "ids").other_fields(
        text.encode(errors="surrogatepass"), "token_ids"
    )
    row.pop("token_ids", None)
    assert {name: json.loads(value) for name, value in found.items()} == row
    assert all(value in text for value in found.values())


@pytest.mark.parametrize(
    ("line", "fields", "complaint"),
    [
        (b"[1, 2", IDS, "not JSON: Expecting ',' delimiter (character 6)"),
        (b"[1] 2", IDS, "not JSON: Extra data (character 5)"),
        (b"5", IDS, "expected a list of token ids or an object, got a number"),
        (b'"5"', IDS, "expected a list of token ids or an object, got a string"),
        (b"true", IDS, "expected a list of token ids or an object, got a boolean"),
        (b"null", IDS, "expected a list of token ids or an object, got null"),
        (b"[1]", TEXTS, "expected a string or an object, got a list"),
        (
            b'{"ids": [1], "n": 2}',
            IDS,
            "no column 'token_ids'; the columns are: 'ids', 'n'; choose one with column=",
        ),
        (b"{}", IDS, "no column 'token_ids'; the columns are: none; choose one with column="),
        (b'{"token_ids": 5}', IDS, "'token_ids' must be a list of token ids or null, got a number"),
        (
            b'{"token_ids": {}}',
            IDS,
            "'token_ids' must be a list of token ids or null, got an object",
        ),
        (
            b'{"token_ids": "1"}',
            IDS,
            "'token_ids' must be a list of token ids or null, got a string",
        ),
        (b'{"text": ["a"]}', TEXTS, "'text' must be a string or null, got a list"),
        (b"[\xff]", IDS, "not UTF-8: byte 0xff at position 2"),
        (b'["\xe6\xb2"]', IDS, "not UTF-8: byte 0xe6 at position 3"),
    ],
)
def test_the_error_for_a_bad_row_names_the_fault(
    line: bytes, fields: tuple[str, type], complaint: str
) -> None:
    with pytest.raises((BadInputError, SourceError)) as caught:
        parse_row(line, *fields)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        (b'{"\\u001b[2J": 1, "\\ud800": 2}', r"'\x1b[2J', '\ud800'"),
        (b'{"' + b"k" * 1_000 + b'": 1}', "'" + "k" * 39),
        (json.dumps(dict.fromkeys("abcdefghijklmnopqrst")).encode(), "'l', and 8 more"),
    ],
)
def test_keys_are_printable_and_few(line: bytes, keys: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse_row(line, *IDS)
    assert str(caught.value).endswith(f"{keys}; choose one with column=")
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("line", [b"[" * 100_000, b"[" + b"9" * 5000 + b"]"])
def test_json_beyond_the_limits_of_the_reader_is_a_bad_row(line: bytes) -> None:
    with pytest.raises(BadInputError, match="not JSON that can be read"):
        parse_row(line, *IDS)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_any_json_is_a_row_or_a_bad_row(value: Any) -> None:
    line = json.dumps(value).encode()
    if isinstance(value, list) and not isinstance(next(iter(value), None), list):
        assert parse_row(line, *IDS) == value
    else:
        with pytest.raises((BadInputError, SourceError)):
            parse_row(line, *IDS)


# --- files of other formats -----------------------------------------------------------------------

GZIPPED = gzip.compress(b"1 2", mtime=0)
NPY = b"\x93NUMPY\x01\x00v\x00{'descr': '<i8'"


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.parquet", b"PAR1\x15\x04", "{command} does not read Parquet files; decode it with "),
        (
            "a.arrow",
            b"ARROW1\0\0",
            "{command} does not read Arrow files; decode it with 'streamdec",
        ),
        ("a.ids", b"\xff\xff\xff\xff\x10", "{command} does not read Arrow files; "),
        ("a.npy", NPY, "{command} does not read NumPy files; write the rows as JSONL: python -c"),
        ("a.ids", GZIPPED, "compressed with gzip; give it a name that ends in .gz"),
        ("a.jsonl.gz", b"[1]\n", "the name ends in .gz, but the file is not compressed with gzip"),
        ("a.jsonl.gz", GZIPPED[:14], "ended before the end-of-stream"),
        ("a.npz", b"PK\x03\x04", "this is a zip (.npz or .pt) file; expected token ids"),
        ("a.jsonl", b"(\xb5/\xfd", "this is a zstd file; expected a JSON value in each"),
    ],
)
@pytest.mark.parametrize("command", ["decode", "trace", "verify"])
def test_a_file_of_another_format_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    command: str,
    name: str,
    data: bytes,
    told: str,
) -> None:
    (tmp_path / name).write_bytes(data)
    result = run(monkeypatch, command, "--tokenizer", TOKENIZER, tmp_path / name)
    status = 1 if name.endswith(".gz") else 2  # the format is right, but the file is damaged
    assert (result.status, result.out, result.err.count("\n")) == (status, "", 1)
    assert result.err.startswith(f"Error: {tmp_path / name}: ")
    assert told.format(command=f"'streamdec {command}'") in result.err


def test_encode_rejects_a_parquet_file(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, "encode", "--tokenizer", TOKENIZER, stdin=b"PAR1\x15\0")
    told = (
        "Error: <stdin>: 'streamdec encode' does not read Parquet files; write the texts as JSONL"
    )
    assert result.err.splitlines()[-1] == told
    assert result.status == 2


def test_the_command_that_converts_a_numpy_file_works(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import numpy as np

    np.save(tmp_path / "ids.npy", np.array([[20, 21], [22, 23]]))
    arguments = ("--tokenizer", TOKENIZER)
    told = run(monkeypatch, "decode", *arguments, tmp_path / "ids.npy").err
    code = told.partition("python -c ")[2].partition(" > ")[0].strip('"')
    written = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    (tmp_path / "rows.jsonl").write_bytes(written.stdout)
    (tmp_path / "same.jsonl.gz").write_bytes(gzip.compress(b"[20, 21]\n[22, 23]\n"))
    shown = run(monkeypatch, "decode", *arguments, tmp_path / "rows.jsonl")
    assert shown.status == 0
    assert shown == run(monkeypatch, "decode", *arguments, tmp_path / "same.jsonl.gz")


@pytest.mark.parametrize("command", ["decode", "trace", "verify"])
def test_many_errors_are_counted(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    result = run(monkeypatch, command, "--tokenizer", TOKENIZER, stdin=b"x " * 1_020 + b"20")
    assert result.status == 1
    *lines, last = result.err.splitlines()
    assert [line.partition("; ")[0] for line in lines] == [
        "<stdin>: line 1: 'x' is not a token id"
    ] * MOST_COMPLAINTS
    assert last == "<stdin>: 1,000 more errors are not shown; 1,020 in all"


def test_the_place_of_a_bad_id_counts_all_words(monkeypatch: pytest.MonkeyPatch) -> None:
    given = b"20 x -1\n40000"
    for command in ("decode", "trace"):
        arguments = (command, "--tokenizer", TOKENIZER, "--unknown-ids=error")
        _, negative, unknown = run(monkeypatch, *arguments, stdin=given).err.splitlines()
        assert negative.startswith("<stdin>: line 1: token 2 is out of range: -1; ")
        assert unknown == (
            "<stdin>: line 2: token 3: the tokenizer has no id 40000; check that tokenizer and "
            "model match, or pass --unknown-ids skip, which outputs nothing for it"
        )


def test_options_of_python_are_spelled_for_the_command() -> None:
    command = command_group.commands.get_command(click.Context(command_group.commands), "bulk")
    for python, shell in {
        "pass unknown_ids='skip', which": "pass --unknown-ids skip, which",
        "choose another name with to=": "choose another name with --to",
        'pass prefix="new_"; or': "pass --prefix new_; or",
        "pass allow_download=True (or not)": "pass --allow-download (or not)",
        "apply_tokenizer_config=False loads": "--no-apply-tokenizer-config loads",
        "stop_token_ids=": "--stop-id",
        "batch_format='pyarrow'": "batch_format='pyarrow'",
        "to=StopConditions(stop=5)": "to=StopConditions(stop=5)",
    }.items():
        assert spelled(python, command) == shell
        assert spelled(python) == python  # no command is running
