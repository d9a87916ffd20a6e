"""``streamdec decode``: ids in, text out; a bad line is named and the others are still done."""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders
from tokenizers.models import BPE

from streamdec import DecodeStream, load_tokenizer
from streamdec.fastpath._fastokens import FastEncoder
from tests.cli.running import (
    DEMO_TEXT,
    LIBRARY,
    ROOT,
    TOKENIZER,
    Decoding,
    Run,
    command,
    jsonl,
    next_output,
    objects,
    run,
    run_process,
)
from tests.support.zoo import byte_fallback_strip

TEXTS = ["Hello! 👋", "नमस्ते, 世界", "two\nlines", ""]
ROWS = [LIBRARY.encode(text).ids for text in TEXTS]
OWL = LIBRARY.encode("🦉").ids
UNKNOWN = 40_000


@pytest.mark.parametrize("options", [(), ("--fast=now",), ("--fast=off",)])
def test_nothing_is_built_that_only_encodes(
    decode: Decoding, options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    built = []
    monkeypatch.setattr(FastEncoder, "__init__", lambda _, text: built.append(text))
    assert decode.rows(jsonl(*ROWS), *options) == Run(0, "".join(f"{text}\n" for text in TEXTS), "")
    assert built == []


# --- rows -----------------------------------------------------------------------------------------


def test_jsonl_out_has_the_line_the_text_and_the_other_fields(decode: Decoding) -> None:
    result = decode.rows(
        jsonl(ROWS[0], {"token_ids": ROWS[1], "id": 7, "tags": ["a"]}), "--output=jsonl"
    )
    assert objects(result) == [
        {"line": 1, "text": TEXTS[0]},
        {"line": 2, "text": TEXTS[1], "id": 7, "tags": ["a"]},
    ]
    assert "世界" in result.out  # readable, not escaped


def test_a_field_of_the_row_is_never_replaced(decode: Decoding) -> None:
    row = {"line": "x", "text": "y", "token_ids": ROWS[0]}
    refused = decode.rows(jsonl(row, ROWS[1]), "--output=jsonl")
    assert refused.status == 1
    assert refused.err == (
        "<stdin>: line 1: there is a column 'text' already; choose other names for the new columns "
        "with --prefix new_\n"
    )
    assert objects(refused) == [{"line": 2, "text": TEXTS[1]}]
    kept = decode.rows(jsonl(row), "--output=jsonl", "--prefix=new_")
    assert objects(kept) == [{"new_text": TEXTS[0], "line": "x", "text": "y"}]
    assert decode.rows(jsonl(row)).out == f"{TEXTS[0]}\n"  # no field is written


def test_the_other_fields_keep_their_spelling(decode: Decoding) -> None:
    row = '{"n":[1.10, 1e400, -0,{"a" : "\\u00e9"}] , "token_ids": [], "b": 2,"b": 1E5}'
    assert decode.rows(row, "--output=jsonl").out == (
        '{"line": 1, "text": "", "n": [1.10, 1e400, -0,{"a" : "\\u00e9"}], "b": 1E5}\n'
    )


def test_ids_are_in_the_column_that_is_named(decode: Decoding) -> None:
    row = jsonl({"ids": ROWS[0], "token_ids": "mine"}, ROWS[1])
    result = decode.rows(row, "--column=ids", "--output=jsonl")
    assert objects(result) == [
        {"line": 1, "text": TEXTS[0], "token_ids": "mine"},
        {"line": 2, "text": TEXTS[1]},
    ]


def test_null_ids_have_a_null_text(decode: Decoding) -> None:
    rows = jsonl({"token_ids": None, "id": 7}, ROWS[0])
    assert decode.rows(rows) == Run(0, f"\n{TEXTS[0]}\n", "")
    assert objects(decode.rows(rows, "--output=jsonl"))[0] == {"line": 1, "text": None, "id": 7}
    assert objects(decode.rows(rows, "--output=jsonl", "--max-tokens=1"))[0] == {
        "line": 1,
        "text": None,
        "id": 7,
        "finish_reason": None,
        "stop_reason": None,
        "unread_tokens": None,
    }


def test_the_output_of_encode_keeps_its_line_numbers(
    decode: Decoding, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = ("encode", "--tokenizer", TOKENIZER, "--input-format=jsonl", "--output=jsonl")
    texts = f"\n{jsonl(TEXTS[0], {'text': None})}".encode()
    encoded = run(monkeypatch, *given, stdin=texts).out
    assert objects(decode.rows(encoded, "--output=jsonl")) == [
        {"line": 2, "text": TEXTS[0]},
        {"line": 3, "text": None},
    ]


def test_rows_are_those_of_streams(decode: Decoding) -> None:
    """A row has the text of the tokenizer's ``decode``, for any ids."""
    draw = random.Random(7)
    rows = [[draw.randrange(UNKNOWN) for _ in range(draw.randrange(9))] for _ in range(300)]
    tokenizer = load_tokenizer(TOKENIZER, fast="off")
    for options in ({"skip_special_tokens": False}, {"unknown_ids": "replace"}, {}):
        texts = []
        for row in rows:
            stream = DecodeStream(tokenizer, **options)
            texts.append("".join(stream.step_batch(row)) + stream.flush())
        words = {
            "skip_special_tokens": "--keep-special-tokens",
            "unknown_ids": "--unknown-ids=replace",
        }
        result = decode.rows(jsonl(*rows), "--output=jsonl", *(words[key] for key in options))
        assert [json.loads(line)["text"] for line in result.out.splitlines()] == texts


def test_a_bad_run_of_byte_tokens_is_that_of_a_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(byte_fallback_strip().to_str(), "utf-8")
    tokenizer = load_tokenizer(path, fast="off")
    found = [tokenizer.token_to_id(name) for name in ("<0xC3>", "<0xA9>", "<0xC3>")]
    ids = [token_id for token_id in found if token_id is not None]
    stream = DecodeStream(tokenizer)
    eager = "".join(stream.step_batch(ids)) + stream.flush()
    given = ("decode", "--tokenizer", path, "--input-format=jsonl")
    assert eager == "é\ufffd" != tokenizer.decode(ids)
    assert run(monkeypatch, *given, stdin=jsonl(ids).encode()).out == f"{eager}\n"
    exact = run(monkeypatch, *given, "--byte-fallback=exact", stdin=jsonl(ids).encode()).out
    assert exact == f"{tokenizer.decode(ids)}\n"


@pytest.mark.parametrize(
    "shape",
    [
        "{0}\n{1}\n",
        "{0}\n{1}",
        "{0}\r\n{1}\r\n",
        "\n\n{0}\n \t\n{1}\n\n",
        "\ufeff{0}\n{1}\n",
        "  {0}  \n\t{1}\n",
    ],
    ids=["plain", "no last newline", "CRLF", "blank lines", "byte order mark", "indented"],
)
def test_the_shape_of_the_file_changes_nothing(decode: Decoding, shape: str) -> None:
    given = shape.format(json.dumps(ROWS[0]), json.dumps(ROWS[1]))
    assert decode.rows(given) == Run(0, f"{TEXTS[0]}\n{TEXTS[1]}\n", "")


def test_a_row_of_a_million_ids_is_fine(decode: Decoding) -> None:
    times = 1_000_000 // len(ROWS[0])
    assert decode.rows(jsonl(ROWS[0] * times, ROWS[1])).out == f"{TEXTS[0] * times}\n{TEXTS[1]}\n"


@pytest.mark.parametrize("options", [(), ("--input-format=jsonl",), ("--output=jsonl",)])
def test_an_empty_input_gives_nothing(decode: Decoding, options: tuple[str, ...]) -> None:
    assert decode("", *options) == Run(0, "", "")
    assert decode(" \r\n\n", *options) == Run(0, "", "")


# --- bad rows -------------------------------------------------------------------------------------

BAD_LINES = {
    "[1, 2": "not JSON",
    "7": "got a number",
    '{"ids": [1]}': "no column 'token_ids'; the columns are: 'ids'; choose one with --column",
    '{"token_ids": 3}': "'token_ids' must be a list of token ids or null, got a number",
    '{"token_ids": [[1]]}': "'token_ids' must be one list of token ids, got a list of lists\n",
    '{"token_ids": [1], "a": NaN}': "not JSON that can be read: NaN is not a number of JSON; ",
    "[1, true]": "True",
    "[1, 2.0]": "2.0",
    '[1, "2"]': "'2'",
    "[1, null]": "None",
    "[[1]]": "this is one JSON array of rows, not JSONL; write each row as a separate line (jq",
    '[{"token_ids": [1]}]': "this is one JSON array of rows, not JSONL; write each row as a ",
    "[": "not JSON: Expecting value (character 2); expected JSONL, with a complete JSON value",
    "[1, -1]": "-1",
    f"[1, {2**32}]": str(2**32),
    f"[{'9' * 5000}]": "not JSON that can be read",
    "[" * 100_000: "not JSON that can be read",
}


@pytest.mark.parametrize(("line", "what"), BAD_LINES.items(), ids=range(len(BAD_LINES)))
def test_a_bad_line_is_named_and_the_others_are_done(
    decode: Decoding, line: str, what: str
) -> None:
    result = decode.rows(f"{json.dumps(ROWS[0])}\n\n{line}\n{json.dumps(ROWS[1])}\n")
    assert result.out == f"{TEXTS[0]}\n{TEXTS[1]}\n"
    assert result.err.startswith("<stdin>: line 3: ")
    assert what in result.err
    assert result.err.count("\n") == 1
    assert result.status == 1


def test_invalid_utf_8_is_a_bad_line(decode: Decoding, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'[1]\n{"token_ids": [1], "note": "\xff"}\n')
    result = decode("", path)
    assert result.err == f"{path}: line 2: not UTF-8: byte 0xff at position 29\n"
    assert result.status == 1


@pytest.mark.parametrize("kind", ["ids", "jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_of_utf_16_is_named(
    decode: Decoding, tmp_path: Path, kind: str, encoding: str
) -> None:
    path = tmp_path / "rows"
    path.write_bytes("\ufeff[1]\r\n".encode(encoding))
    result = decode("", f"--input-format={kind}", path)
    assert result == Run(
        2,
        "",
        f"Error: {path}: the file is UTF-16, which > of Windows PowerShell writes; save it as "
        "UTF-8 (Set-Content -Encoding utf8)\n",
    )


def test_every_bad_line_is_named(decode: Decoding) -> None:
    result = decode.rows("[x]\n[1]\n[true]\n")
    assert [line.split(": ")[1] for line in result.err.splitlines()] == ["line 1", "line 3"]


# --- one stream of ids ----------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [" ", "\n", ",", ", ", "\r\n", "\t", ",\n", "\n\n"])
def test_a_stream_of_ids_is_one_text_and_a_newline(decode: Decoding, separator: str) -> None:
    ids = LIBRARY.encode(DEMO_TEXT).ids
    given = separator.join(map(str, ids))
    assert decode(given) == Run(0, f"{DEMO_TEXT}\n", "")
    assert decode(f"\ufeff{given}{separator}") == Run(0, f"{DEMO_TEXT}\n", "")


def test_every_bad_id_is_named_and_left_out(decode: Decoding) -> None:
    first, *rest = map(str, ROWS[0])
    result = decode(f"{first}\n\nx {' '.join(rest)} y\n-1 1.5\n{2**32}\n")
    assert result.out == f"{TEXTS[0]}\n"
    named = [line.removeprefix("<stdin>: ").split(": ", 1) for line in result.err.splitlines()]
    assert [line for line, _ in named] == ["line 3", "line 3", "line 4", "line 4", "line 5"]
    for (_, complaint), bad in zip(named, ["'x'", "'y'", "-1", "'1.5'", str(2**32)], strict=True):
        assert bad in complaint
    assert result.status == 1


def test_a_stream_of_bad_ids_has_no_text(decode: Decoding) -> None:
    result = decode("hello world\n")
    assert result.out == ""
    assert result.status == 1


def test_jsonl_out_has_an_object_for_each_line_that_brought_out_text(decode: Decoding) -> None:
    first, *rest = OWL
    result = decode(
        f"{ROWS[0][0]}\n\n{first}\n{' '.join(map(str, rest))} {first}", "--output=jsonl"
    )
    assert objects(result) == [
        {"line": 1, "text": "H"},
        {"line": 4, "text": "🦉"},
        {"line": 4, "text": "\ufffd"},
    ]


def test_the_format_is_an_option_and_is_not_guessed(decode: Decoding) -> None:
    assert decode("[1]\n").err == (
        "<stdin>: line 1: '[1]' is not a token id; expected an integer such as 42; for JSON use "
        "--input-format jsonl\n"
    )
    assert decode("1 2\n", "--input-format=jsonl").err == (
        "<stdin>: line 1: not JSON: Extra data (character 3)\n"
    )


@pytest.mark.parametrize("kind", ["ids", "jsonl"])
def test_text_appears_while_more_input_is_awaited(kind: str) -> None:
    lines = [f"{i}\n" if kind == "ids" else f"[{i}]\n" for i in ROWS[0][:3]]
    process = subprocess.Popen(
        command("decode", "--tokenizer", TOKENIZER, "--input-format", kind),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdin
        for line, token_id in zip(lines, ROWS[0], strict=False):
            process.stdin.write(line.encode())
            process.stdin.flush()
            expected = LIBRARY.decode([token_id]) + ("\n" if kind == "jsonl" else "")
            assert next_output(process).decode() == expected
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.thorough
def test_a_long_stream_takes_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    """A line of 500,000 ids takes a chunk's memory; as lists it would take 30 MB."""
    path = tmp_path / "ids"
    path.write_bytes(b"123 " * 10)
    short = peak_kilobytes(path)
    path.write_bytes(b"123 " * 500_000)
    assert peak_kilobytes(path) < short + 10_000


def peak_kilobytes(path: Path) -> int:
    """The most memory that decoding ``path`` took."""
    decode = command("decode", "--tokenizer", TOKENIZER, path)
    process = subprocess.Popen(decode, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


# --- options --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["jsonl", "ids"])
def test_unknown_ids_are_counted(decode: Decoding, kind: str) -> None:
    given = f"[{ROWS[0][0]}, {UNKNOWN}]\n[{UNKNOWN}]\n"
    given = given if kind == "jsonl" else given.translate(str.maketrans("[,]", "   "))
    for policy, had in (("skip", "no text"), ("replace", "U+FFFD")):
        result = decode(given, f"--input-format={kind}", f"--unknown-ids={policy}")
        assert result.status == 0
        assert result.err.endswith(
            f"<stdin>: 2 unknown ids, with {had}; to name them, pass --unknown-ids error\n"
        )
    assert "unknown" not in decode(f"{ROWS[0][0]}", "--input-format=ids").err


@pytest.mark.parametrize(("kind", "shape"), [("jsonl", "[{}, {}]\n"), ("ids", "{} {}\n")])
def test_unknown_ids_are_skipped_replaced_or_named(decode: Decoding, kind: str, shape: str) -> None:
    given, said = shape.format(ROWS[0][0], UNKNOWN), f"--input-format={kind}"
    assert decode(given, said).status == 0
    assert decode(given, said).out == "H\n"
    assert decode(given, said, "--unknown-ids=replace").out == "H\ufffd\n"
    named = decode(given, said, "--unknown-ids=error")
    assert named.status == 1
    assert str(UNKNOWN) in named.err
    assert named.err.startswith("<stdin>: line 1: ")


def test_byte_runs_are_eager_or_exact(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ids = f"{0xE6} {0xB2} {0xB3} {0xFF} 256".encode()
    decode = ["decode", "--tokenizer", str(byte_fallback_tokenizer(tmp_path))]
    assert run(monkeypatch, *decode, stdin=ids).out == "河\ufffda\n"
    exact = run(monkeypatch, *decode, "--byte-fallback=exact", stdin=ids)
    assert exact.out == "\ufffd" * 4 + "a\n"


def byte_fallback_tokenizer(folder: Path) -> Path:
    """A tokenizer of the 256 bytes and the letter a."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)} | {"a": 256}
    tokenizer = Tokenizer(BPE(vocabulary, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    return path


# --- files ----------------------------------------------------------------------------------------


def test_input_is_a_file_or_stdin(decode: Decoding, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(jsonl(*ROWS))
    expected = decode.rows(jsonl(*ROWS))
    assert decode("", path) == expected
    assert decode.rows(jsonl(*ROWS), "-") == expected


def test_the_tokenizer_is_a_file_or_its_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    byte_fallback_tokenizer(tmp_path)
    result = run(monkeypatch, "decode", "--tokenizer", tmp_path, stdin=b"256 256")
    assert result == Run(0, "aa\n", "")


def test_a_missing_file_is_wrong_usage(decode: Decoding, tmp_path: Path) -> None:
    result = decode("", tmp_path / "nowhere.jsonl")
    assert result.status == 2
    assert "nowhere.jsonl" in result.err


@pytest.mark.parametrize("content", [None, b"", b"{}", b"no json", b'{"version": "1.0"}', b"\xff"])
def test_a_tokenizer_that_cannot_be_read_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_bytes(content)
    result = run(monkeypatch, "decode", "--tokenizer", path)
    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("Error: ")
    assert str(path) in result.err
    assert result.err.count("\n") == 1


def test_a_folder_without_a_tokenizer_is_one_clear_line(tmp_path: Path) -> None:
    """In its own process, so that no library writes more than the command."""
    result = run_process("decode", "--tokenizer", tmp_path)
    assert result.returncode == 2
    assert result.stderr.startswith(b"Error: ")
    assert str(tmp_path).encode() in result.stderr
    assert result.stderr.count(b"\n") == 1


def test_output_is_utf_8_in_any_environment(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(jsonl(*ROWS))
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    result = run_process("decode", "--tokenizer", TOKENIZER, path, environment=environment)
    assert result.stdout == "".join(f"{text}\n" for text in TEXTS).encode()
