"""``streamdec bench``: what it compares, what it says, and how it ends. No test asks for a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import SupportsIndex

import pytest

import streamdec
from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.bench import clock, entrants
from streamdec.bench.clock import Samples, Spread, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import HF, FixedWindow, Ours, first_stop, rival_of
from streamdec.bench.figures import duration, number, size, times
from streamdec.bench.measure import LONGEST_STREAM, measure, streams_of
from streamdec.chunks import Chunk
from tests.cli.running import LIBRARY, TOKENIZER, run
from tests.support.files import sentencepiece, small_gguf, tekken, write_json
from tests.support.wrappers import Wrapper

BENCH = ("bench", "--seconds=0.01", "--fast=off")
TEXT = "One line\nUsual\n" * 4 + "你好, नमस्ते 👨‍👩‍👧"
WINDOWED = f"{HF} + fixed window"


@pytest.fixture(autouse=True)
def _no_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among all that the tests have loaded each takes a tenth of a second."""
    monkeypatch.setattr(clock, "gc", SimpleNamespace(collect=lambda: 0))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf-8")
    return path


# --- the clock ------------------------------------------------------------------------------------


def test_rounds_end_when_the_time_is_over_but_there_is_one() -> None:
    moves = count()
    cases: dict[str, Callable[[], float]] = {"a": lambda: next(moves), "b": lambda: next(moves)}
    told: list[int] = []
    samples = in_turns(cases, 5, seconds=0, after_round=told.append)
    assert (samples.rounds, told) == (1, [1])
    assert in_turns(cases, 3).rounds == 3


def test_a_clock_can_be_given() -> None:
    ticks = count(step=60)
    tokenizer = MockTokenizer()
    assert nanoseconds(lambda: None, 3, clock=lambda: next(ticks)) == 20
    assert per_token(Ours(tokenizer), [[1, 2], [3]], clock=lambda: next(ticks)) == 20


def test_ratios_are_formed_within_a_round() -> None:
    """One slow round slows both and changes nothing."""
    samples = Samples({"a": [1, 100, 3], "b": [2, 200, 6]})
    assert samples.ratio("a", "b") == Spread(0.5, 0.5, 0.5)
    assert samples.time("a").median == 3


def test_cases_take_turns_in_both_directions() -> None:
    moves = count(1)
    samples = in_turns({"a": lambda: next(moves), "b": lambda: next(moves)}, 2)
    assert samples.time("a") == (2.5, 1, 4)
    assert samples.time("b") == (2.5, 2, 3)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(0.0041), "0.0041"),
        (number(24.63), "24.6"),
        (number(1824.4), "1,824"),
        (times(0.523), "0.52 ×"),
        (times(996.1), "996 ×"),
        (duration(91.6), "92 ns"),
        (duration(1_735_000_000), "1.7 s"),
        (size(13_190), "13 kB"),
    ],
)
def test_figures_are_short(shown: str, expected: str) -> None:
    assert shown == expected


# --- the entrants ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [["\nUsual"], ["l\n", "ual"], ["नम", "好,"], ["nowhere"]])
def test_every_entrant_gives_the_text_before_the_stop(stops: list[str]) -> None:
    tokenizer = streamdec.load_tokenizer(TOKENIZER, fast="off")
    ids = tokenizer.encode(TEXT).ids
    whole = TEXT[: first_stop(TEXT, stops)]
    rival = rival_of(tokenizer)
    offset = entrants.Windowed("decode()", tokenizer.decode)
    assert rival.name == HF
    for each in (rival, offset):
        assert "".join(each.texts(ids)) == TEXT
        assert "".join(FixedWindow(each, stops).texts(ids)) == whole
    stopping = entrants.Stopping(tokenizer, StopConditions(stops))
    assert "".join(stopping.texts(ids)) == whole


def test_streams_end_with_their_stop_or_when_they_are_long_enough() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", b"#", b"\xe4", b"\xbd\xa0"])
    ids = [0, 1, 0, 0, 1]
    assert [*streams_of(tokenizer, ids, StopConditions("#"))] == [[0, 1], [0, 0, 1]]
    long = [0] * (LONGEST_STREAM - 1) + [2, 3, 0]
    assert [len(each) for each in streams_of(tokenizer, long, StopConditions())] == [
        LONGEST_STREAM + 1,
        1,
    ]


# --- the command ----------------------------------------------------------------------------------


def test_machines_get_all_of_it(monkeypatch: pytest.MonkeyPatch, text: Path) -> None:
    result = run(
        monkeypatch, *BENCH, "--json", "--text", text, r"--stop=\nUsual", "--stop=x", TOKENIZER
    )
    assert (result.status, result.err) == (0, "")
    found = json.loads(result.out)
    assert found["stops"] == ["\nUsual", "x"]
    assert (found["equal"], found["differences"], found["streams"]) == (True, [], 5)
    assert found["text"] == {"name": str(text), "characters": len(TEXT), "is_cut": False}
    assert found["tokens"] == len(LIBRARY.encode(TEXT).ids)
    names = ["streamdec", HF, "streamdec with stops", WINDOWED]
    assert [*found["nanoseconds"]] == names
    for spread in (*found["nanoseconds"].values(), *found["ratios"].values()):
        assert 0 < spread["low"] <= spread["median"] <= spread["high"]
    compared = {name: ratio["to"] for name, ratio in found["ratios"].items()}
    assert compared == {names[1]: names[0], names[2]: names[0], names[3]: names[2]}
    assert found["environment"]["versions"]["tokenizers"]


def test_people_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, *BENCH, "--stop=</answer>", TOKENIZER)
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == f"{TOKENIZER}, streamed byte by byte"
    assert "  stops  '</answer>'" in lines
    assert any(line.startswith(f"{HF}  ") and line.endswith(" × streamdec") for line in lines)
    assert any(line.startswith(f"{WINDOWED}  ") for line in lines)
    assert "All texts of streamdec equal decode()." in lines
    assert all(len(line) < 80 for line in lines[1:])


def test_without_stops_there_are_usual_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, *BENCH, TOKENIZER)
    assert r"stops  '\nUser:', '\nHuman:', '\nSystem:', '<|im_end|>'" in result.out
    assert "1 stream\n" in result.out, "the built-in text has none of them"


OTHERS = {"tekken": "tiktoken", "sentencepiece": "sentencepiece", "gguf": "decode()"}
"""Formats whose libraries have no streams, and what decodes them."""


@pytest.mark.filterwarnings("ignore:.*encoding is best effort")
@pytest.mark.parametrize("kind", OTHERS)
def test_other_formats_are_compared_with_the_window(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tiktoken" if kind == "tekken" else "sentencepiece")
    if kind == "tekken":
        path = write_json(tmp_path / "tekken.json", tekken())
    else:
        path = tmp_path / {"sentencepiece": "tokenizer.model", "gguf": "x.gguf"}[kind]
        path.write_bytes(sentencepiece() if kind == "sentencepiece" else small_gguf())
    result = run(monkeypatch, "bench", "--seconds=0.01", "--text=-", path, stdin=b"a b c a b")
    assert result.status == 0, result.err
    assert f"{OTHERS[kind]}, offset window  " in result.out
    assert "All texts of streamdec equal decode()." in result.out


def test_a_long_text_is_cut_and_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("streamdec.cli.bench.MOST_CHARACTERS", 20)
    long = tmp_path / "long.txt"
    long.write_text("word " * 10)
    result = run(monkeypatch, *BENCH, "--text", long, TOKENIZER)
    assert f"text   the first 20 characters of {long}\n" in result.out


@pytest.mark.parametrize(
    ("arguments", "stdin", "told"),
    [
        (["--stop="], b"", "an empty stop would match everywhere"),
        (["--seconds=0"], b"", "0.0 is not in the range x>0"),
        (["--text=-"], b"", "the text is empty"),
        (["--text=-"], b"\xff", "'--text': not UTF-8: byte 0xff at position 1"),
        (["--text=missing"], b"", "'missing': No such file or directory"),
    ],
)
def test_wrong_input_is_named(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], stdin: bytes, told: str
) -> None:
    result = run(monkeypatch, "bench", *arguments, TOKENIZER, stdin=stdin)
    assert (result.status, result.out) == (2, "")
    assert told in result.err


def test_a_text_that_becomes_empty_is_rejected(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tokenizer = json.loads(TOKENIZER.read_text("utf-8"))
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}
    write_json(tmp_path / "tokenizer.json", tokenizer)
    result = run(monkeypatch, *BENCH, "--text=-", tmp_path, stdin=b"abc")
    assert result.status == 2
    assert (
        "becomes 0 tokens, which decode to no text; choose another text with --text" in result.err
    )


# --- what is wrong --------------------------------------------------------------------------------


class Deaf(Wrapper):
    """Loses its text after five tokens."""

    kind = DecodeStream

    def step(self, token_id: SupportsIndex) -> str:
        text: str = self.decoder.step(token_id)
        return text if self.num_tokens <= 5 else ""


class Careless(Wrapper):
    """Stops, but lets the stop out."""

    kind = StopSequenceDecoder

    def step(self, token_id: SupportsIndex) -> Chunk:
        chunk: Chunk = self.decoder.step(token_id)
        return replace(chunk, text=chunk.text + "!") if chunk.finish_reason else chunk


@pytest.mark.parametrize(
    ("name", "broken", "told"),
    [
        ("DecodeStream", Deaf, "WRONG: streamdec, stream 1, character "),
        ("StopSequenceDecoder", Careless, "WRONG: streamdec with stops, stream 1, character 8: "),
    ],
)
def test_a_wrong_text_is_shown_and_makes_status_1(
    monkeypatch: pytest.MonkeyPatch, text: Path, name: str, broken: type, told: str
) -> None:
    monkeypatch.setattr(entrants, name, broken)
    result = run(monkeypatch, *BENCH, "--text", text, r"--stop=\nUsual", TOKENIZER)
    assert result.status == 1
    assert told in result.out
    assert "Texts: all" not in result.out


def test_a_broken_backend_is_a_difference() -> None:
    """Its table and its decode are at odds, where the sample does not show it."""

    class Broken(MockTokenizer):
        def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
            text = super().decode(token_ids, skip_special_tokens=skip_special_tokens)
            return text.replace("test token test", "test")

    found = measure(Broken(), [1, 3, 4, 3, 2], ["nowhere"], seconds=0.01)
    places = {each.entrant: (each.stream, each.position) for each in found.differences}
    assert places["streamdec"] == places["streamdec with stops"] == (1, 11)


def test_the_library_is_marked_in_the_figures(monkeypatch: pytest.MonkeyPatch, text: Path) -> None:
    """A fault of another decoder is shown, and is not a failure of streamdec."""

    class Forgetful(entrants.Library):
        def texts(self, token_ids: Sequence[int]) -> list[str]:
            return ["" for _ in token_ids] + ["?"]

    monkeypatch.setattr(entrants, "Library", Forgetful)
    result = run(monkeypatch, *BENCH, "--text", text, TOKENIZER)
    assert result.status == 0
    assert f"Not the text of decode(): {HF}, stream 1, character 0: '?'" in result.out
    assert "All texts of streamdec equal decode()." in result.out
