"""Bounds of the page on security that no other test exceeds: each just within it, and beyond."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from streamdec import StopConditions, TokenizerLoadError, load_tokenizer
from streamdec.backends.tekken import MAX_SPECIAL, TekkenTokenizer
from streamdec.core.patterns.compile import (
    MAX_AGES,
    MAX_PARTS,
    MAX_RANGES,
    MAX_SOURCE,
    read_patterns,
)
from streamdec.folders.sentencepiece_proto import MAX_MODEL
from streamdec.preflight import snapshot
from streamdec.preflight.snapshot import MAX_TEMPLATES, Snapshot, Templates, open_snapshot
from streamdec.tokenizers import detect_format
from tests.cli.running import TOKENIZER
from tests.support import files


def model_in(folder: Path) -> Path:
    (folder / "tokenizer.json").write_bytes(TOKENIZER.read_bytes())
    return folder


@pytest.mark.parametrize(
    ("within", "beyond"),
    [
        ("x" * (MAX_PARTS - 1), "x" * MAX_PARTS),
        (f"(?:ab){{{MAX_PARTS // 2 - 1}}}", f"(?:ab){{{MAX_PARTS // 2}}}"),
        ("(?:x{100}){9}", "(?:x{100}){10}"),
        ("x" + "[ab]?" * 400, "x" + "[ab]?" * MAX_PARTS),
        ("x{0,499}y", "x{0,500}y"),
        ("x(?:x{0,20}){20}", "x(?:x{0,20}){4294967000}"),
    ],
)
def test_the_parts_of_a_pattern(within: str, beyond: str) -> None:
    StopConditions(stop_regex=within, max_match_length=3_000)
    with pytest.raises(ValueError, match=f"more than {MAX_PARTS:,} parts"):
        StopConditions(stop_regex=beyond, max_match_length=3_000)


@pytest.mark.parametrize(
    "pattern",
    [
        "x" + "(?:){4000}" * 48,
        "x(?:(?:){60}){60}",
        "x(?:){429496}",
        r"x(?:\B){0,99}",
        "x(?:(?<=x)|^)*",
        "x(?:|()|(?:))",
    ],
)
def test_an_empty_part_that_is_repeated_costs_nothing(pattern: str) -> None:
    [found] = read_patterns([pattern], None)
    assert len(found.automaton.nodes) == 2


def test_the_parts_of_all_patterns_together() -> None:
    patterns = [f"{letter}{{{MAX_PARTS // 4}}}" for letter in "abcd"]
    StopConditions(stop_regex=patterns[:3])
    with pytest.raises(ValueError, match=f"repetitions counted together; at most {MAX_PARTS:,}"):
        StopConditions(stop_regex=["z", *patterns, "(the next ones are not read"])


def test_the_source_of_all_patterns_together() -> None:
    patterns = [f"(?#{letter * (MAX_SOURCE // 2 - 5)}){letter}" for letter in "ab"]
    StopConditions(stop_regex=patterns)
    with pytest.raises(ValueError, match=f"8,193 code points together; at most {MAX_SOURCE:,}"):
        StopConditions(stop_regex=[*patterns, "c"])


@pytest.mark.parametrize("wide", ["[а-я]", r"[a-\u0444]", r"[\0-\é]", r"[-\N{BULLET}]"])
@pytest.mark.parametrize("flags", ["", "(?i)"])
def test_ranges_beyond_ascii(wide: str, flags: str) -> None:
    StopConditions(stop_regex=[flags + wide * (MAX_RANGES - 1), f"{wide}[a-z]"])
    for patterns in ([flags + wide * (MAX_RANGES + 1)], [flags + wide * MAX_RANGES, wide]):
        message = f"have {MAX_RANGES + 1} ranges.*most {MAX_RANGES} are"
        with pytest.raises(ValueError, match=message):
            StopConditions(stop_regex=patterns)


def test_the_parts_times_the_longest_match() -> None:
    StopConditions(stop_regex=["a.*b", "b.*c"], max_match_length=MAX_AGES // 12)
    for longest in (MAX_AGES // 12 + 1, 10**18):  # the last has more bits than any memory
        with pytest.raises(ValueError, match="or a smaller max_match_length"):
            StopConditions(stop_regex=["a.*b", "b.*c"], max_match_length=longest)


def test_the_size_of_a_sentencepiece_model(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.model"
    path.write_bytes(files.sentencepiece())
    load_tokenizer(path)
    os.truncate(path, MAX_MODEL + 1)
    with pytest.raises(TokenizerLoadError, match=f"more than {MAX_MODEL}"):
        load_tokenizer(path)


def test_the_special_tokens_of_a_tekken_file() -> None:
    data = files.tekken(num_special=MAX_SPECIAL)
    TekkenTokenizer(json.dumps(data).encode())
    data = files.tekken(num_special=MAX_SPECIAL + 1)
    with pytest.raises(TokenizerLoadError, match=f"at most {MAX_SPECIAL} are allowed"):
        TekkenTokenizer(json.dumps(data).encode())


def test_the_size_of_a_tokenizer_config(tmp_path: Path) -> None:
    config = model_in(tmp_path) / "tokenizer_config.json"
    config.write_text("{}" + " " * 1_000)
    load_tokenizer(tmp_path, fast="off")
    os.truncate(config, 2**26 + 1)
    with pytest.raises(TokenizerLoadError, match="more than 67108864"):
        load_tokenizer(tmp_path, fast="off")


def test_the_files_of_a_folder_that_are_looked_into(tmp_path: Path) -> None:
    (tmp_path / "z.model").write_bytes(files.sentencepiece())
    for number in range(199):
        (tmp_path / f"a{number:03}.model").write_text("no model")
    assert detect_format(tmp_path).format == "sentencepiece"
    (tmp_path / "a199.model").write_text("no model")
    assert detect_format(tmp_path).format == "unsupported"


def test_the_names_of_a_folder_that_preflight_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 20
    assert most < snapshot.MAX_ENTRIES <= 10_000
    monkeypatch.setattr(snapshot, "MAX_ENTRIES", most)
    inner = tmp_path / "inner"
    inner.mkdir()
    for number in range(most + 5):
        (inner / str(number)).touch()
    assert len(Snapshot(inner).names) == most
    assert len(Snapshot(tmp_path).names_in("inner")) == most


def test_the_named_templates_that_preflight_reads(tmp_path: Path) -> None:
    named = [{"name": str(number), "template": "x"} for number in range(MAX_TEMPLATES + 5)]
    config = json.dumps({"chat_template": named})
    (tmp_path / "tokenizer_config.json").write_text(config)
    (tmp_path / "additional_chat_templates").mkdir()
    for each in named:
        (tmp_path / "additional_chat_templates" / f"{each['name']}.jinja").write_text("x")
    templates = Templates(open_snapshot(tmp_path))
    assert len(templates.inline) == MAX_TEMPLATES
    assert len(templates.files) == MAX_TEMPLATES
