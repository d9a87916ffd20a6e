"""``streamdec decode --stop`` and its companions: where a text ends, and which reason is shown."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import StopConditions, StopSequenceDecoder, load_tokenizer
from streamdec.cli.stop_options import parse_stop
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
)

TEXT = "One. 🦉\nUse it,\nUsers!\nUser: two?"
IDS = LIBRARY.encode(TEXT).ids
BEFORE = "One. 🦉\nUse it,\nUsers!"
QUESTION = LIBRARY.encode("?").ids[0]
END = LIBRARY.encode("<|im_end|>").ids[0]


def length_with(stop: str, ids: list[int]) -> int:
    """How many of ``ids`` it takes until ``stop`` is in their text."""
    return next(n for n in range(len(ids) + 1) if stop in LIBRARY.decode(ids[:n]))


def words(ids: list[int], separator: str = " ") -> str:
    return separator.join(map(str, ids)) + separator


# --- how a stop is spelled ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spelled", "stop"),
    [
        (r"\nUser:", "\nUser:"),
        ("\nUser:", "\nUser:"),
        (r"a\tb\\n", "a\tb\\n"),
        (r"\u6cB3!", "河!"),
        (r"\u000a0", "\n0"),
        (r"x\ud83e\udd89\u000a", "x🦉\n"),
        (r"\\u6cb3", r"\u6cb3"),
        ("🦉", "🦉"),
        ("'\"%{}", "'\"%{}"),
    ],
)
def test_escapes_are_read_and_other_text_is_unchanged(spelled: str, stop: str) -> None:
    assert parse_stop(spelled) == stop


@given(st.text(min_size=1))
def test_every_text_can_be_spelled(stop: str) -> None:
    assert parse_stop(stop.replace("\\", r"\\")) == stop
    units = stop.encode("utf-16-be").hex()
    assert parse_stop(re.sub("....", r"\\u\g<0>", units)) == stop


@pytest.mark.parametrize(
    ("spelled", "escape"),
    [
        (r"\end", r"\e"),
        (r"a\ b", r"\ "),
        ("\\\nUser:", "\\\n"),
        ("a\\", "\\"),
        (r"\u12", r"\u"),
        (r"\u12g4", r"\u"),
        (r"\n\ud83e\udd89\u1", r"\u"),
        (r"\r", r"\r"),
        (r"\x41", r"\x"),
    ],
)
def test_another_escape_is_rejected(spelled: str, escape: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_stop(spelled)
    assert str(caught.value).startswith(f"{escape} is not an escape; ")


@pytest.mark.parametrize("spelled", [r"\ud83e", r"\udd89\ud83e", r"\ud83ex\udd89", "\udcff"])
def test_a_lone_surrogate_is_rejected(spelled: str) -> None:
    with pytest.raises(ValueError, match=r"^not Unicode: lone surrogate U\+D"):
        parse_stop(spelled)


# --- rows -----------------------------------------------------------------------------------------


def test_jsonl_out_says_why_each_row_ended(decode: Decoding) -> None:
    row = {"token_ids": IDS, "id": 7}
    other = LIBRARY.encode("no stop\nUse").ids
    result = decode.rows(jsonl(row, other, []), r"--stop=\nUser:", "--output=jsonl")
    unread = len(IDS) - length_with("\nUser:", IDS)
    assert unread > 1
    ran_out = {"finish_reason": None, "stop_reason": None, "unread_tokens": 0}
    stopped = {"finish_reason": "stop", "stop_reason": "\nUser:", "unread_tokens": unread}
    assert objects(result) == [
        {"line": 1, "text": BEFORE, **stopped, "id": 7},
        {"line": 2, "text": "no stop\nUse", **ran_out},
        {"line": 3, "text": "", **ran_out},
    ]
    assert list(json.loads(result.out.splitlines()[0])) == ["line", "text", *stopped, "id"]
    assert result.err == ""


def test_a_row_s_own_finish_reason_is_kept_beside_ours(
    decode: Decoding,
) -> None:
    row = jsonl({"token_ids": IDS, "finish_reason": "theirs"})
    (kept,) = objects(decode.rows(row, "--output=jsonl"))
    assert kept == {"line": 1, "text": TEXT, "finish_reason": "theirs"}
    refused = decode.rows(row, "--output=jsonl", "--max-tokens=1")
    assert (refused.status, refused.out) == (1, "")
    assert "there is a column 'finish_reason' already; " in refused.err
    (both,) = objects(decode.rows(row, "--output=jsonl", "--max-tokens=1", "--prefix=cut_"))
    assert both == {
        "line": 1,
        "cut_text": "O",
        "cut_finish_reason": "length",
        "cut_stop_reason": None,
        "cut_unread_tokens": len(IDS) - 1,
        "finish_reason": "theirs",
    }


@pytest.mark.parametrize("stop", ["Users", "\nUse", "🦉", "e", "\n", "Use it,\nUsers!\nUser", "zz"])
def test_the_text_is_the_full_decode_s_before_the_stop(decode: Decoding, stop: str) -> None:
    rows = [IDS, IDS[3:], LIBRARY.encode(DEMO_TEXT).ids]
    result = decode.rows(jsonl(*rows), f"--stop={stop}", "--output=jsonl")
    for ids, got in zip(rows, objects(result), strict=True):
        assert isinstance(got, dict)
        before, found, _ = LIBRARY.decode(ids).partition(stop)
        assert got["text"] == before
        assert got["stop_reason"] == (found or None)
        assert got["finish_reason"] == ("stop" if found else None)
        assert got["unread_tokens"] == (len(ids) - length_with(stop, ids) if found else 0)


def test_ids_after_the_stop_are_not_looked_at(decode: Decoding) -> None:
    row = jsonl([*IDS, "x", -1, None])
    result = decode.rows(row, r"--stop=\nUser:")
    assert result == Run(0, f"{BEFORE}\n", "")
    assert decode(row).status == 1


def test_a_bad_id_before_the_stop_is_a_bad_line(decode: Decoding) -> None:
    result = decode.rows(jsonl(["x", *IDS], IDS), r"--stop=\nUser:")
    assert result.out == f"{BEFORE}\n"
    assert result.err.startswith("<stdin>: line 1: ")
    assert result.status == 1


# --- options --------------------------------------------------------------------------------------


def ends(decode: Decoding, ids: list[int], *options: str) -> tuple[object, ...]:
    """Text, finish reason, stop reason and the number of unread ids."""
    (row,) = objects(decode.rows(jsonl(ids), "--output=jsonl", *options))
    assert isinstance(row, dict)
    return row["text"], row["finish_reason"], row["stop_reason"], row["unread_tokens"]


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        ([r"--stop=\nUser:", "--stop=!", "--stop=zz"], {"stop": ["\nUser:", "!", "zz"]}),
        ([f"--stop-id={QUESTION}", f"--stop-id={END}"], {"stop_token_ids": [QUESTION, END]}),
        ([f"--stop-id={END}"], {"stop_token_ids": END}),
        ([f"--eos-id={END}", "--eos-id=77777"], {"eos_token_ids": [END, 77777]}),
        (["--stop=<|im_end|>"], {"stop": "<|im_end|>"}),
        ([r"--visible-stop=\nUser:"], {"visible_stop": "\nUser:"}),
        (["--stop=!", "--include-stop"], {"stop": "!", "include_stop_str_in_output": True}),
        (["--max-tokens=5"], {"max_tokens": 5}),
        (
            ["--min-tokens=4", "--max-tokens=4", "--stop=O"],
            {"min_tokens": 4, "max_tokens": 4, "stop": "O"},
        ),
    ],
)
@pytest.mark.parametrize("skip", [True, False])
def test_the_options_are_the_conditions_of_a_decoder(
    decode: Decoding, options: list[str], conditions: dict[str, Any], skip: bool
) -> None:
    ids = [*IDS, QUESTION, END, *IDS]
    decoder = StopSequenceDecoder(
        load_tokenizer(TOKENIZER, fast="off"),
        StopConditions(**conditions),
        skip_special_tokens=skip,
    )
    chunks = decoder.step_batch(ids)
    last = chunks[-1]
    assert last.finish_reason is not None
    kept = [] if skip else ["--keep-special-tokens"]
    assert ends(decode, ids, *options, *kept) == (
        "".join(chunk.text for chunk in chunks),
        last.finish_reason,
        last.stop_reason,
        len(ids) - len(chunks),
    )


def test_a_pattern_is_a_stop(decode: Decoding) -> None:
    expected = (BEFORE, "stop", r"\nU[a-z]+:")
    assert ends(decode, IDS, r"--stop-regex=\nU[a-z]+:", "--max-match-length=9")[:3] == expected


def test_stops_are_ignored_between_markers(decode: Decoding) -> None:
    between = ("--ignore-stops-between", "One", "it,")
    assert ends(decode, IDS, "--stop=Use", *between)[:2] == ("One. 🦉\nUse it,\n", "stop")
    inside = ("--ignore-stops-between", "*", "it,", "--starts-inside")
    assert ends(decode, IDS, "--stop=Use", *inside)[:2] == ("One. 🦉\nUse it,\n", "stop")
    assert ends(decode, IDS, "--stop=Use", *inside[:3])[:2] == ("One. 🦉\n", "stop")


def test_stops_within_min_tokens_are_text(decode: Decoding) -> None:
    first = length_with("\nUse", IDS)
    second = length_with("\nUsers", IDS) - 1
    assert first < second
    for least, shown in [(first - 1, "One. 🦉"), (first, "One. 🦉\nUse it,")]:
        got = ends(decode, IDS, r"--stop=\nUse", f"--min-tokens={least}")
        assert got[:3] == (shown, "stop", "\nUse")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--stop="], "Invalid value for '--stop': an empty stop would match everywhere"),
        (["--stop=fine", r"--stop=\end"], r"Invalid value for '--stop': \e is not an escape"),
        ([r"--stop=\ud800"], "Invalid value for '--stop': not Unicode: lone surrogate U+D800"),
        (["--stop-id=-1"], "Invalid value for '--stop-id': token is out of range: -1"),
        (["--stop-id=4294967296"], "Invalid value for '--stop-id': token is out of range"),
        (["--stop-id=</s>"], "Invalid value for '--stop-id': '</s>' is not a token id"),
        (["--stop-id=\udcff"], r"Invalid value for '--stop-id': '\\xff' is not a token id"),
        (["--stop-id="], "Invalid value for '--stop-id': '' is not a token id"),
        (
            [r"--stop-regex=a+"],
            "--stop-regex 'a+' can match text of any length: set --max-match-length",
        ),
        (
            [r"--stop-regex=\d\q"],
            r"--stop-regex '\d\q' is not a pattern of Python's re: bad escape \q",
        ),
        (["--max-match-length=5"], "--max-match-length needs --stop-regex"),
        (["--stop-regex=(max_tokens"], "--stop-regex '(max_tokens' is not a pattern"),
        (
            ["--ignore-stops-between", "", "x"],
            "Invalid value for '--ignore-stops-between': an empty stop would match",
        ),
        (["--eos-id=1,2"], "Invalid value for '--eos-id': '1,2' is not a token id"),
        (["--eos-id", "-5"], "Invalid value for '--eos-id': token is out of range: -5"),
        (["--min-tokens=-1"], "Invalid value for '--min-tokens': -1"),
        (["--max-tokens=0"], "Invalid value for '--max-tokens': 0"),
        (["--max-tokens=many"], "Invalid value for '--max-tokens': 'many'"),
        (
            ["--min-tokens=5", "--max-tokens=4"],
            "Invalid value for '--min-tokens': 5 is more than --max-tokens 4",
        ),
    ],
)
def test_bad_conditions_are_wrong_usage_and_name_the_option(
    decode: Decoding, options: list[str], complaint: str
) -> None:
    result = decode.rows(jsonl(IDS), *options)
    assert result.err.splitlines()[-1].startswith(f"Error: {complaint}")
    assert result.out == ""
    assert result.status == 2


# --- one stream of ids ----------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [" ", "\n", ","])
@pytest.mark.parametrize(
    ("option", "shown", "cause"),
    [
        (r"--stop=\nUser:", BEFORE, r"the stop '\nUser:'"),
        (r"--stop-regex=\nU\w\w\w:", BEFORE, r"the stop '\nU\w\w\w:'"),
        (f"--stop-id={QUESTION}", TEXT.removesuffix("?"), f"the id {QUESTION}"),
        (f"--eos-id={QUESTION}", TEXT.removesuffix("?"), "the end-of-sequence id"),
        ("--max-tokens=3", LIBRARY.decode(IDS[:3]), "--max-tokens"),
    ],
)
def test_a_stream_ends_at_the_stop_and_the_rest_is_not_read(
    decode: Decoding, separator: str, option: str, shown: str, cause: str
) -> None:
    told = f"<stdin>: ended by {cause}; later ids are not read\n"
    given = words([*IDS, *IDS], separator) + "nonsense"
    assert decode(given, option) == Run(0, f"{shown}\n", told)


def test_the_last_object_of_a_stream_says_why_it_ended(decode: Decoding) -> None:
    head, tail = IDS[:4], IDS[4:]
    given = f"{words(head)}\n{words(tail)}\n"
    result = decode(given, r"--stop=\nUser:", "--output=jsonl")
    *pieces, last = objects(result)
    assert pieces == [
        {"line": 1, "text": LIBRARY.decode(head)},
        {"line": 2, "text": BEFORE.removeprefix(LIBRARY.decode(head))},
    ]
    assert last == {"line": 2, "text": "", "finish_reason": "stop", "stop_reason": "\nUser:"}
    assert result.err == ""


def test_a_stream_without_a_stop_has_no_reason_and_outputs_the_withheld_text(
    decode: Decoding,
) -> None:
    given = words(LIBRARY.encode("Yes.\nUse").ids)
    assert decode(given, r"--stop=\nUser:") == Run(0, "Yes.\nUse\n", "")
    assert objects(decode(given, r"--stop=\nUser:", "--output=jsonl")) == [
        {"line": 1, "text": "Yes."},
        {"line": 1, "text": "\nUse", "finish_reason": None, "stop_reason": None},
    ]


def test_a_stream_of_bad_ids_has_no_text_with_stops_too(decode: Decoding) -> None:
    result = decode("hello\n", "--stop=x", "--output=jsonl")
    assert (result.out, result.status) == ("", 1)


def test_a_mistake_before_the_stop_still_makes_status_1(decode: Decoding) -> None:
    result = decode(f"x {words(IDS)}", r"--stop=\nUser:")
    assert result.out == f"{BEFORE}\n"
    assert "'x' is not a token id" in result.err
    assert result.status == 1


def test_the_file_is_named(decode: Decoding, tmp_path: Path) -> None:
    path = tmp_path / "ids"
    path.write_text(words(IDS))
    result = decode("", path, "--stop=!")
    assert result.err == f"{path}: ended by the stop '!'; later ids are not read\n"


@pytest.mark.thorough
@pytest.mark.parametrize("output", ["text", "jsonl"])
@pytest.mark.parametrize("option", [r"--stop=\nUser:", f"--stop-id={QUESTION}", "--max-tokens=7"])
def test_a_live_stream_ends_while_its_input_stays_open(option: str, output: str) -> None:
    process = subprocess.Popen(
        command("decode", "--tokenizer", TOKENIZER, option, "--output", output),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(words(IDS).encode())
        process.stdin.flush()
        assert process.wait(timeout=60) == 0
        assert LIBRARY.decode(IDS[:3]) in process.stdout.read().decode()
        with pytest.raises(BrokenPipeError):
            os.write(process.stdin.fileno(), b"1 ")


def test_a_live_stream_continues_until_the_stop_is_complete() -> None:
    count = length_with("\nUser:", IDS)
    process = subprocess.Popen(
        command("decode", "--tokenizer", TOKENIZER, r"--stop=\nUser:"),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    with process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(words(IDS[: count - 1]).encode())
        process.stdin.flush()
        seen = b""
        while len(seen) < len(BEFORE.encode()):
            seen += next_output(process)
        assert seen.decode() == BEFORE
        assert process.poll() is None
        process.stdin.write(words(IDS[count - 1 : count]).encode())
        process.stdin.flush()
        assert process.wait(timeout=60) == 0
        told = r"<stdin>: ended by the stop '\nUser:'; later ids are not read"
        assert process.stdout.read().decode() == f"\n{told}\n"
