"""``streamdec bench``: what it compares, what it says, and how it ends. No test asks for a time."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, SupportsIndex

import pytest

import streamdec
from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.backends.library_stream import library_decode
from streamdec.bench import clock, entrants, memory
from streamdec.bench.clock import Driver, Samples, Spread, fresh, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import HF, FixedWindow, OffsetWindow, Ours, first_stop, rival_of
from streamdec.bench.figures import duration, number, size, times
from streamdec.bench.measure import LONGEST_STREAM, measure, streams_of
from streamdec.bench.withheld import Count, first_text, withheld_by
from streamdec.chunks import Chunk
from tests.cli.running import LIBRARY, ROOT, TOKENIZER, Run, command, run
from tests.support.files import sentencepiece, small_gguf, tekken, write_json

BENCH = ("bench", "--seconds=0.01", "--fast=off")
TEXT = "One line\nUsual\n" * 4 + "你好, नमस्ते 👨‍👩‍👧"


def facts(result: Run) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.out)
    return found


@pytest.fixture(autouse=True)
def _no_collections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Among all that the tests have loaded each takes a tenth of a second."""
    for module in (clock, memory):
        monkeypatch.setattr(module, "gc", SimpleNamespace(collect=lambda: 0))


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


def test_a_spread_is_the_median_between_its_quartiles() -> None:
    assert Spread.of([5, 1, 2, 4, 3]) == (3, 2, 4)
    assert Spread.of([7]) == (7, 7, 7)
    assert Spread.of([1, 3]).times(10) == (20, 10, 30)


def test_fresh_ids_are_equal_and_not_the_same() -> None:
    ids = [1_000, 70_000]
    assert fresh(ids) == ids
    assert not any(one is another for one, another in zip(fresh(ids), ids, strict=True))


# --- how a figure looks ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (number(0.0041), "0.0041"),
        (number(0.12), "0.120"),
        (number(24.63), "24.6"),
        (number(1824.4), "1,824"),
        (times(0.523), "0.52 ×"),
        (times(7.7), "7.7 ×"),
        (times(996.1), "996 ×"),
        (duration(91.6), "92 ns"),
        (duration(2_000), "2.0 µs"),
        (duration(347_900), "348 µs"),
        (duration(1_735_000_000), "1.7 s"),
        (size(202), "202 B"),
        (size(13_190), "13 kB"),
    ],
)
def test_figures_are_short(shown: str, expected: str) -> None:
    assert shown == expected


# --- what is withheld -----------------------------------------------------------------------------


def test_characters_and_the_tokens_they_came_from_are_counted() -> None:
    decoded = ["ab", "", "cde", "f", ""]
    given = ["", "", "ab", "cd", "ef"]
    assert [*withheld_by(decoded, given)] == [(2, 1), (2, 1), (3, 1), (2, 2), (0, 0)]
    assert first_text(given) == 3
    assert first_text(["", ""]) == 3
    assert Count.of([0, 3, 3]) == (2, 3)
    assert Count.of([]) == (0, 0)


def test_a_fixed_window_withholds_its_size_and_streamdec_what_may_become_a_stop() -> None:
    tokenizer = MockTokenizer.from_tokens([b"abc", b"de", b"##", b"x", b"#!#"])
    found = measure(tokenizer, [0, 1, 2, 3, 0], ["##stop"], seconds=0.01)
    assert found.fixed_window == 5
    assert found.stopping.characters_withheld == ((0 + 0 + 2 + 0) / 4, 2)
    assert found.windowed.characters_withheld == ((3 + 5 + 5 + 5) / 4, 5)
    assert found.windowed.tokens_withheld == ((1 + 2 + 3 + 3) / 4, 3)
    assert (found.stopping.first_text.mean, found.windowed.first_text.mean) == (1, 3)


# --- the entrants ---------------------------------------------------------------------------------


def test_the_stop_that_is_complete_first_is_found() -> None:
    assert first_stop("abcde", ["de", "bcd", "cd"]) == 1
    assert first_stop("abcde", ["x"]) is None


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


def test_the_offset_window_waits_for_whole_characters() -> None:
    ids = LIBRARY.encode("a👋b").ids
    window = OffsetWindow(LIBRARY.decode)
    texts = [window.step(token_id) for token_id in ids]
    assert texts[0] == "a"
    assert "\ufffd" not in "".join(texts)
    assert "".join(texts) + window.end() == "a👋b"


LIBRARIES = {
    "tekken": "tiktoken",
    "sentencepiece": "sentencepiece",
    "gguf": "decode()",
}
"""What the formats without streams are decoded by."""


def needs(kind: str) -> None:
    pytest.importorskip("sentencepiece" if kind in ("sentencepiece", "gguf") else "tiktoken")


@pytest.mark.parametrize("kind", ["tekken", "sentencepiece"])
def test_a_library_without_streams_is_asked_for_its_own_decode(kind: str, tmp_path: Path) -> None:
    needs(kind)
    tokenizer = streamdec.load_tokenizer(written(kind, tmp_path))
    name, decode = library_decode(tokenizer)
    assert name == LIBRARIES[kind]
    assert decode.__self__ is not tokenizer  # type: ignore[attr-defined]
    ids = [*tokenizer.encode("a b").ids]
    assert decode(ids) == tokenizer.decode(ids)


def test_what_completes_a_stop_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[list[int]] = []

    def noted(driver: Driver, pieces: Sequence[Sequence[int]]) -> float:
        timed.extend([*piece] for piece in pieces)
        return per_token(driver, pieces)

    monkeypatch.setattr("streamdec.bench.measure.per_token", noted)
    tokenizer = MockTokenizer.from_tokens([b"a", b"#"])
    found = measure(tokenizer, [0, 0, 1, 1, 0], ["#"], seconds=0.01)
    assert (found.streams, found.stopped) == (3, 2)
    assert timed[-2:] == [[0, 0], [0]]
    found = measure(tokenizer, [1, 1], ["#"], seconds=0.01)
    assert (found.streams, found.stopped) == (2, 2)
    assert timed[-2:] == [[1], [1]], "there is nothing else"


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


def written(kind: str, folder: Path) -> Path:
    """A tokenizer of a format, in a file."""
    if kind == "tekken":
        return write_json(folder / "tekken.json", tekken())
    path = folder / {"sentencepiece": "tokenizer.model", "gguf": "x.gguf"}[kind]
    path.write_bytes(sentencepiece() if kind == "sentencepiece" else small_gguf())
    return path


def test_machines_get_all_of_it(monkeypatch: pytest.MonkeyPatch, text: Path) -> None:
    result = run(
        monkeypatch, *BENCH, "--json", "--text", text, r"--stop=\nUsual", "--stop=x", TOKENIZER
    )
    assert (result.status, result.err) == (0, "")
    found = facts(result)
    assert found["stops"] == ["\nUsual", "x"]
    assert found["equal"] is True
    assert found["text"] == {"name": str(text), "characters": len(TEXT), "is_cut": False}
    measured = found["measured"]
    assert (measured["streams"], measured["stopped"]) == (5, 4)
    assert measured["tokens"] == len(LIBRARY.encode(TEXT).ids)
    assert measured["differences"] == measured["rival_differences"] == []
    for name in ("rival_ratio", "windowed_ratio", "stops_ratio"):
        spread = measured[name]
        assert 0 < spread["low"] <= spread["median"] <= spread["high"]
    for name in ("ours", "stopping", "rival", "windowed"):
        figures = measured[name]
        assert figures["warm_ns"]["median"] > 0
        assert figures["cold_ns"]["median"] > 0
        assert figures["bytes_per_stream"] > 0
        assert figures["first_text"]["mean"] >= 1
    assert measured["rival"]["name"] == HF
    assert measured["fixed_window"] == 5
    assert measured["stopping"]["characters_withheld"]["most"] <= 5
    assert found["environment"]["versions"]["tokenizers"]


def test_people_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, *BENCH, "--stop=</answer>", TOKENIZER)
    assert (result.status, result.err) == (0, "")
    lines = result.out.splitlines()
    assert lines[0] == str(TOKENIZER)
    assert "  stops  '</answer>'" in lines
    assert "with 1 stop" in lines
    assert any(line.startswith(f"  {HF}  ") for line in lines)
    assert any(line.startswith("  fixed window of 8  ") for line in lines)
    assert "Texts: all of streamdec's are what decode() gives." in lines
    assert "\x1b" not in result.out
    assert all(len(line) < 80 for line in lines[1:])


def test_stops_in_the_text_end_streams(monkeypatch: pytest.MonkeyPatch, text: Path) -> None:
    out = run(monkeypatch, *BENCH, "--text", text, r"--stop=\nUsual", TOKENIZER).out
    assert "in 5 streams, 4 ended by a stop\n" in out
    assert "A token that completes a stop is not timed." in out


def test_without_stops_there_are_usual_ones_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, *BENCH, TOKENIZER)
    assert r"stops  '\nUser:', '\nHuman:', '\nSystem:', '<|im_end|>' (yours: --stop)" in result.out
    assert "1 stream\n" in result.out, "the built-in text has none of them"


@pytest.mark.filterwarnings("ignore:.*encoding is best effort")
@pytest.mark.parametrize("kind", [*LIBRARIES])
def test_other_formats_are_compared_with_the_window(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs(kind)
    path = written(kind, tmp_path)
    result = run(monkeypatch, "bench", "--seconds=0.01", "--text=-", path, stdin=b"a b c a b")
    assert result.status == 0, result.err
    assert f"  {LIBRARIES[kind]}, offset window  " in result.out
    assert "the usual loop over decode, as the library has no stream" in result.out
    assert "Texts: all of streamdec's are what decode() gives." in result.out


def test_a_long_text_is_cut_and_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("streamdec.cli.bench.MOST_CHARACTERS", 20)
    long = tmp_path / "long.txt"
    long.write_text("word " * 10)
    result = run(monkeypatch, *BENCH, "--text", long, TOKENIZER)
    assert f"text   the first 20 characters of {long}\n" in result.out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--stop="], "an empty stop would match everywhere"),
        ([r"--stop=\end"], r"\e is not an escape"),
        (["--seconds=0"], "0.0 is not in the range x>0"),
        (["--seconds=nan"], "nan is not in the range x>0"),
        (["--text=-"], "the text is empty"),
        (["--text=missing"], "'missing': No such file or directory"),
    ],
)
def test_wrong_input_is_named(
    monkeypatch: pytest.MonkeyPatch, arguments: Sequence[str], told: str
) -> None:
    result = run(monkeypatch, "bench", *arguments, TOKENIZER)
    assert (result.status, result.out) == (2, "")
    assert told in result.err


def test_a_text_that_is_not_utf_8_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, "bench", "--text=-", TOKENIZER, stdin=b"\xff")
    assert (result.status, result.out) == (2, "")
    assert "'--text': not UTF-8: byte 0xff at position 1" in result.err


def test_a_text_of_which_nothing_is_left_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tokenizer = json.loads(TOKENIZER.read_text("utf-8"))
    tokenizer["normalizer"] = {"type": "Replace", "pattern": {"Regex": "."}, "content": ""}
    write_json(tmp_path / "tokenizer.json", tokenizer)
    result = run(monkeypatch, *BENCH, "--text=-", tmp_path, stdin=b"abc")
    assert result.status == 2
    assert "becomes 0 tokens, which decode to nothing; --text names another" in result.err
    assert run(monkeypatch, *BENCH, tmp_path / "missing").status == 2


# --- what is wrong --------------------------------------------------------------------------------


class Deaf(DecodeStream):
    """Loses its text after five tokens."""

    __slots__ = ()

    def step(self, token_id: SupportsIndex) -> str:
        text = super().step(token_id)
        return text if self.num_tokens <= 5 else ""


class Careless(StopSequenceDecoder):
    """Stops, but lets the stop out."""

    __slots__ = ()

    def step(self, token_id: SupportsIndex) -> Chunk:
        chunk = super().step(token_id)
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
    assert [(each.entrant, each.stream, each.position) for each in found.differences] == [
        ("streamdec", 1, 11),
        ("streamdec with stops", 1, 11),
    ]


def test_the_library_is_told_apart(monkeypatch: pytest.MonkeyPatch, text: Path) -> None:
    """What is wrong with a rival is said, and is no failure of ours."""

    class Forgetful(entrants.Library):
        def texts(self, token_ids: Sequence[int]) -> list[str]:
            return ["" for _ in token_ids] + ["?"]

    monkeypatch.setattr(entrants, "Library", Forgetful)
    result = run(monkeypatch, *BENCH, "--text", text, TOKENIZER)
    assert result.status == 0
    assert f"Not the text that decode() gives: {HF}, stream 1, character 0: '?'" in result.out
    assert "Texts: all of streamdec's are what decode() gives." in result.out


# --- a terminal -----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo-terminals")
def test_progress_is_shown_on_a_terminal_and_wiped() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("bench", "--seconds=0.05", "--json", TOKENIZER),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=60)
    written = os.read(ours, 65536).decode()
    os.close(ours)
    assert process.returncode == 0
    assert json.loads(out)["equal"] is True
    assert "%  comparing the texts" in written
    assert written.endswith("\r\x1b[K")
