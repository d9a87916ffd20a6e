"""``streamdec verify``: rows streamed and decoded whole; with ``--encode`` both encoders."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

from streamdec.cli import verify as verify_module
from streamdec.cli import verify_streams
from streamdec.cli.progress import counted
from streamdec.core.decode_stream import DecodeStream
from streamdec.fastpath.options import VARIABLE
from tests.cli.running import LIBRARY, ROOT, TOKENIZER, Run, command, jsonl, run
from tests.support.files import rank_file
from tests.support.wrappers import Wrapper
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


# --- streams --------------------------------------------------------------------------------------

TEXTS = ["Hello 👋 你好, नमस्ते", "byte by byte", "<|im_start|>Größe<|im_end|>"]
ROWS = [LIBRARY.encode(text).ids for text in TEXTS]


@pytest.fixture
def window(tmp_path: Path) -> Path:
    """A decoder that no stream can follow: what was text is another one 70 letters later."""
    data = json.loads(TOKENIZER.read_text("utf-8"))
    pattern = {"Regex": "b(y)te"}
    replace = {"type": "Replace", "pattern": pattern, "content": "BIT"}
    data["decoder"] = {"type": "Sequence", "decoders": [data["decoder"], replace]}
    (tmp_path / "window.json").write_text(json.dumps(data), "utf-8")
    return tmp_path / "window.json"


@pytest.mark.filterwarnings("ignore:.*streaming over a window")
@pytest.mark.parametrize(
    "arguments", [["decode"], ["trace"], ["bulk", "rows.jsonl", "texts.jsonl"]], ids=lambda a: a[0]
)
def test_an_option_that_a_tokenizer_does_not_allow_is_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, window: Path, arguments: list[str]
) -> None:
    monkeypatch.chdir(window.parent)
    Path("rows.jsonl").write_text("[1]", "utf-8")
    result = run(monkeypatch, *arguments, "--tokenizer", window, "--unknown-ids=replace")
    assert (result.status, result.out) == (2, "")
    told = "Error: --unknown-ids replace is not possible on the windowed route"
    assert any(line.startswith(told) for line in result.err.splitlines())


class LosesInBatches(Wrapper):
    """Loses the text of a token that comes fifth in a batch."""

    kind = DecodeStream

    def feed(self, token_ids: Iterable[SupportsIndex]) -> str:
        texts: list[str] = self.decoder.step_batch(token_ids)
        return "".join(text for place, text in enumerate(texts) if place != 4)


def verified(
    monkeypatch: pytest.MonkeyPatch,
    tokenizer: str | Path,
    *arguments: str | Path,
    stdin: str | bytes = b"",
    kind: str = "jsonl",
) -> Run:
    given = stdin.encode() if isinstance(stdin, str) else stdin
    options = ("--tokenizer", tokenizer, f"--input-format={kind}")
    return run(monkeypatch, "verify", *options, *arguments, stdin=given)


@pytest.mark.parametrize(
    ("kind", "rows", "count", "ids"),
    [
        ("jsonl", jsonl(*ROWS), 3, sum(map(len, ROWS))),
        ("jsonl", jsonl(*({"token_ids": row} for row in ROWS)), 3, sum(map(len, ROWS))),
        ("ids", " ".join(map(str, ROWS[0])), 1, len(ROWS[0])),
    ],
)
def test_ids_are_streamed(
    monkeypatch: pytest.MonkeyPatch, kind: str, rows: str, count: int, ids: int
) -> None:
    result = verified(monkeypatch, TOKENIZER, stdin=rows, kind=kind)
    told = "row" if count == 1 else "rows"
    assert result.out == (
        f"{count} {told} of {ids} ids, streamed in 10 ways (seed 0): "
        "0 with other text than the full decode\n"
    )
    assert result.status == 0
    assert result.err == ""


def test_plain_ids_are_verified_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_module, "IDS_AT_ONCE", 3)
    stdin = "1 2\n3 4\nx 5\n[6]\n"
    result = verified(monkeypatch, TOKENIZER, stdin=stdin, kind="ids")
    assert result.out.startswith("2 rows of 5 ids, ")
    first, second = result.err.splitlines()
    assert first.startswith("<stdin>: line 3: 'x' is not a token id")
    assert second.startswith("<stdin>: line 4: '[6]' is not a token id")
    nothing = verified(monkeypatch, TOKENIZER, stdin="x", kind="ids")
    assert (nothing.status, nothing.err.count("is not a token id")) == (1, 1)


def test_the_output_of_encode_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = jsonl(*TEXTS).encode()
    for kind, rows in (("ids", 1), ("jsonl", 3)):
        encode = ("encode", "--tokenizer", TOKENIZER, "--input-format=jsonl", "--output", kind)
        encoded = run(monkeypatch, *encode, stdin=texts)
        result = verified(monkeypatch, TOKENIZER, stdin=encoded.out, kind=kind)
        assert result.status == 0
        assert result.out.startswith(f"{counted(rows, 'row')} of {sum(map(len, ROWS))} ids, ")


def test_a_difference_is_shown_with_the_ids_that_show_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "my rows.jsonl").write_text(jsonl(ROWS[0][:4], ROWS[0]), "utf-8")
    monkeypatch.setattr(verify_streams, "DecodeStream", LosesInBatches)
    found = run(
        monkeypatch, "verify", "--fast=off", "--tokenizer", TOKENIZER, tmp_path / "my rows.jsonl"
    )
    assert found.status == 1
    heading, *lines, summary = found.out.splitlines()
    assert heading == (
        "line 2: DecodeStream in random batches (skip_special_tokens=True, byte_fallback=eager)"
    )
    told = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert list(told) == ["where", "streamed", "decode()", "ids"]
    assert told["where"].startswith("character ")
    assert summary.endswith(": 1 with other text than the full decode")
    alone = verified(monkeypatch, TOKENIZER, "--seed=0", stdin=jsonl(ROWS[0]))
    assert alone.out.splitlines()[1:4] == lines[:3], "wherever the row is"
    # The ids are fewer, and differ still.
    ids = [int(word) for word in told["ids"].split()]
    assert 5 <= len(ids) <= len(ROWS[0])
    smaller = verified(monkeypatch, TOKENIZER, stdin=jsonl(*[ids] * 9))
    assert " 0 with other text" not in smaller.out.splitlines()[-1]
    traced = run(
        monkeypatch, "trace", "--fast", "off", "--tokenizer", TOKENIZER, stdin=told["ids"].encode()
    )
    assert "# verdict" in traced.out


def test_the_first_of_many_differences_are_shown_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_streams, "DecodeStream", LosesInBatches)
    monkeypatch.setattr(verify_module, "MOST_SHOWN", 2)
    result = verified(monkeypatch, TOKENIZER, stdin=jsonl(*[ROWS[0] * 3] * 5))
    lines = result.out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("line ")] == [
        f"line {number}" for number in range(1, 6)
    ]
    assert sum(line.startswith("  ids") for line in lines) == 2
    assert lines[-1].endswith(": 5 with other text than the full decode")


def test_another_seed_cuts_elsewhere_and_the_same_one_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_streams, "DecodeStream", LosesInBatches)
    rows = jsonl(*[ROWS[0]] * 4)

    def told(seed: int) -> str:
        return verified(monkeypatch, TOKENIZER, f"--seed={seed}", stdin=rows).out

    assert told(1) == told(1)
    assert len({told(seed).partition("(seed")[0] for seed in range(4)}) > 1


def test_a_tokenizer_that_no_stream_can_follow(
    monkeypatch: pytest.MonkeyPatch, window: Path
) -> None:
    row = [i for letter in "byte byte" for i in LIBRARY.encode(letter).ids]
    result = verified(monkeypatch, window, stdin=jsonl(row))
    assert result.status == 1
    assert "  decode()  'BIT BIT'" in result.out
    assert "streams over a window of its decode" in result.out
    (ids,) = [line[6:] for line in result.out.splitlines() if line.startswith("  ids ")]
    traced = run(monkeypatch, "trace", "--tokenizer", window, stdin=ids.encode())
    assert traced.status == 1


def test_bad_rows_are_named_and_the_others_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    result = verified(monkeypatch, TOKENIZER, stdin=b'[1]\n{"x": 1}\n[1, -2]\nnope\n[2, 3]\n')
    assert result.status == 1
    object_, negative, text = result.err.splitlines()
    assert object_.endswith(
        "line 2: no column 'token_ids'; the columns are: 'x'; choose one with --column"
    )
    assert "line 3: token 1 is out of range: -2; a token id is an integer from 0" in negative
    assert text == "<stdin>: line 4: not JSON: Expecting value (character 1)"
    assert result.out.startswith("2 rows of 3 ids, ")


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        ((), b"", "<stdin>: no row to verify"),
        (("--input-format=ids",), b"\n \n", "<stdin>: no row to verify"),
        (("--input-format=ids", "--encode"), b"1", "only --encode reads texts"),
        (("--input-format=text",), b"1", "without it FILE has token ids"),
        (("--seed=-1",), b"[1]", "-1 is not in the range x>=0"),
    ],
)
def test_nothing_to_begin_with_is_status_2(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], stdin: bytes, told: str
) -> None:
    result = verified(monkeypatch, TOKENIZER, *arguments, stdin=stdin)
    assert (result.status, result.out) == (2, "")
    assert told in result.err


# --- encoders -------------------------------------------------------------------------------------


@needs_fastokens
def test_texts_with_the_same_ids_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = jsonl("Hello 👋 <|im_end|>", {"text": "नमस्ते, 世界"}, "")
    result = run(
        monkeypatch,
        *("verify", "--encode", "--tokenizer", TOKENIZER, "--input-format=jsonl"),
        stdin=texts.encode(),
    )
    assert (result.status, result.out) == (0, "3 texts compared, 0 with other ids\n")
    assert result.err.startswith("fastokens encodes: the same ids for ")


@needs_fastokens
def test_the_smallest_difference_is_shown(crooked: Path) -> None:
    """In its own process, as a user would run it."""
    text = "Größe " * 2_000 + "quick" + " sl\np" * 3_000
    prompts = ["jump ! Größe", text]
    result = subprocess.run(
        command("verify", "--encode", "--tokenizer", crooked, "--input-format=jsonl"),
        cwd=ROOT,
        input=jsonl(*prompts).encode(),
        capture_output=True,
        check=False,
    )
    out = result.stdout.decode().splitlines()
    assert result.returncode == 1
    assert b"huggingface encodes: fastokens may give other ids: the two libraries" in result.stderr
    place = text.index("ck")
    assert out[0] == f"line 2: 'ck', from character {place} on, without special tokens added"
    assert [line.split()[0] for line in out[1:3]] == ["fastokens", "huggingface"]
    assert out[1].split()[1:] != out[2].split()[1:]
    assert out[3] == "2 texts compared, 1 with other ids"


@needs_fastokens
def test_bad_rows_are_named_and_make_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("verify", "--encode", "--tokenizer", TOKENIZER, "--input-format=jsonl")
    result = run(monkeypatch, *arguments, stdin=b'"\\ud800"\n3\n"x"\n')
    assert result.status == 1
    assert "line 1: a lone surrogate" in result.err
    assert "line 2: expected a string" in result.err
    assert result.out == "1 text compared, 0 with other ids\n"


def test_one_encoder_has_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("tiktoken")
    from tests.support.files import tekken, write_json

    write_json(tmp_path / "tekken.json", tekken())
    result = run(monkeypatch, "verify", "--encode", "--tokenizer", tmp_path, stdin=b"x")
    assert result.status == 2
    assert "compares the two encoders of a tokenizer.json" in result.err
    (tmp_path / "ranks").write_bytes(rank_file())
    ranks = run(monkeypatch, "verify", "--encode", "--tokenizer", tmp_path / "ranks", stdin=b"x")
    assert ranks.status == 2


def test_without_fastokens_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    result = run(monkeypatch, "verify", "--encode", "--tokenizer", TOKENIZER, stdin=b"x")
    assert result.status == 2
    assert "pip install 'streamdec[fast]'" in result.err
