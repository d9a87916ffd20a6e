"""Untrusted folders: links, pipes, large files, corrupted ones. Nothing outside is read."""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.edits import json_edit
from streamdec.preflight import (
    cross_ref_files,
    discover_added_tokens,
    effective_template_kwargs,
    effective_tokenizer_class,
    find_nested_quantization_config,
    inspect,
    resolve_marker_to_id,
    stop_conditions,
    summarize_quant_config,
    version_gate_tokenizer_class,
)
from streamdec.preflight.examples import EXAMPLES, write_example
from streamdec.preflight.preflight_report import RULES
from streamdec.preflight.snapshot import Snapshot
from tests.preflight.changes import CASES
from tests.preflight.making import control, shared_snapshots

SECRET = '{"eos_token_id": 7, "chat_template": "secret"}'
links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "spiece.model", "special_tokens_map.json"]
)
def test_a_folder_with_one_file_of_a_model_has_findings_and_no_error(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text("{}")
    assert inspect(tmp_path).codes >= {"CHAT_TEMPLATE_MISSING", "TOKENIZER_JSON_MISSING"}


@links
@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "chat_template.jinja"])
def test_a_link_out_of_the_folder_is_not_followed(name: str, tmp_path: Path) -> None:
    folder = control().write(tmp_path / "snapshot")
    (tmp_path / "secret").write_text(SECRET)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to("../secret")
    report = inspect(folder, render=False)
    [finding] = [f for f in report.findings if f.code == "FILE_OUTSIDE_FOLDER"]
    assert [evidence.file for evidence in finding.evidence] == [name]
    assert "secret" not in str(report.to_dict()).replace(str(tmp_path), "")
    assert 7 not in report.stop_tokens["vllm@0.33.0"].ids


@links
def test_a_folder_of_templates_outside_is_not_entered(tmp_path: Path) -> None:
    folder = control().write(tmp_path / "snapshot")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "default.jinja").write_text("secret")
    (folder / "additional_chat_templates").symlink_to("../outside")
    assert Snapshot(folder).names_in("additional_chat_templates") == []
    assert inspect(folder, render=False).codes == set()


@links
def test_the_links_of_the_hubs_cache_are_followed(tmp_path: Path) -> None:
    """``snapshots/<commit>/config.json`` leads to ``blobs/<hash>`` there."""
    folder = control().write(tmp_path / "models--a--b" / "snapshots" / "main")
    blobs = tmp_path / "models--a--b" / "blobs"
    blobs.mkdir()
    for path in list(folder.iterdir()):
        path.rename(blobs / path.name)
        path.symlink_to(f"../../blobs/{path.name}")
    assert inspect(folder, render=False).codes == set()


@links
def test_links_within_the_folder_are_followed_and_circles_are_not(tmp_path: Path) -> None:
    folder = control().write(tmp_path)
    (folder / "config.json").rename(folder / "real.json")
    (folder / "config.json").symlink_to("real.json")
    (folder / "chat_template.json").symlink_to("chat_template.json")
    (folder / "special_tokens_map.json").symlink_to("nothing")
    report = inspect(folder, render=False)
    [finding] = [f for f in report.findings if f.code == "FILE_UNREADABLE"]
    assert {evidence.note for evidence in finding.evidence} == {"a link to nothing"}
    assert report.stop_tokens["sglang@0.5.23"].ids == {258}


@pytest.mark.parametrize(
    ("content", "note", "line"),
    [
        (b'{\n  "eos_token_id": 258\n  "x": 1}', "Expecting ',' delimiter", 3),
        (b"\xff\xfe{\x00}\x00", "not UTF-8: byte 0", None),
        (b"null", "not a JSON object", None),
    ],
)
def test_a_file_that_is_not_a_json_object_is_a_finding(
    content: bytes, note: str, line: int | None, tmp_path: Path
) -> None:
    folder = control().write(tmp_path)
    (folder / "config.json").write_bytes(content)
    report = inspect(folder, render=False)
    [finding] = [f for f in report.findings if f.code == "FILE_INVALID_JSON"]
    assert note in finding.evidence[0].note
    assert (finding.evidence[0].file, finding.evidence[0].line) == ("config.json", line)


def test_deeply_nested_json_is_shown_by_its_type(tmp_path: Path) -> None:
    deep = "[" * 300 + "]" * 300
    folder = control().write(tmp_path)
    text = f'{{"eos_token_id": {deep}, "stop_strings": {deep}, "bos_token_id": [{deep}]}}'
    (folder / "generation_config.json").write_text(text)
    report = inspect(folder, render=False)
    assert {"EOS_ID_UNKNOWN", "GENERATION_STOP_STRINGS_IGNORED"} <= report.codes
    values = [e.value for f in report.findings for e in f.evidence if e.file.startswith("gen")]
    assert "a list of 1" in values


NAMES = (
    *("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.jinja", "chat_template.json"),
    *("hf_quant_config.json", "additional_chat_templates/tool.jinja"),
)
ODD: tuple[Any, ...] = (  # beside those of every edit
    *(10**400, "<|im_end|>", "é" * 50, [0, "x", None, True, -5, 258], [1] * 300, "x" * 3000),
    *({"content": "<|im_end|>"}, {"content": None}, {"content": "x", "special": "yes"}),
    *([{"name": 1, "template": 2}], [{"name": "default", "template": "{{ x"}], {"a": {"a": []}}),
    *({"AutoTokenizer": [None, "x.Y"]}, ["x.Y", None], "{% for", "{{ 'a' * 10 ** 9 }}"),
)
DEEP = json.loads("[" * 700 + "]" * 700)
KEYS = (
    *("eos_token_id", "eos_token", "bos_token_id", "pad_token", "added_tokens_decoder"),
    *("chat_template", "extra_special_tokens", "additional_special_tokens", "auto_map"),
    *("text_config", "quantization_config", "architectures", "tokenizer_class", "added_tokens"),
    *("model", "vocab", "model_type", "stop_strings", "kv_cache_scheme", "add_bos_token"),
)
BYTES = (
    *(b"", b"\xef\xbb\xbf{}", b"\x00" * 64, b"\xff\xfe{", b"[" * 5000, b"null", b"[]"),
    b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
    b'{"eos_token_id": ' + b"9" * 6000 + b"}",
)

EDIT = json_edit([*ODD, DEEP, {"a": DEEP}, *KEYS])


def corrupt(folder: Path, draw: random.Random) -> None:
    """Change one file of a folder, or write one that is not there."""
    path = folder / draw.choice(NAMES)
    path.parent.mkdir(exist_ok=True)
    content = path.read_bytes() if path.exists() else b"{}"
    is_edited = draw.random() < 0.9
    path.write_bytes(EDIT(content, draw) if is_edited else draw.choice(BYTES))


ENGINES = ("vllm", "sglang@0.5.10", "transformers@4.57.6")


def _bases() -> list[str | Path]:
    """The codes of all findings, examples, and small real snapshots, if there are any."""
    real = [p for p in shared_snapshots() if (p / "tokenizer.json").exists()]
    return [*CASES, *EXAMPLES, *(p for p in real if (p / "tokenizer.json").stat().st_size < 50_000)]


def _write_corrupted(base: str | Path, draw: random.Random, folder: Path) -> Path:
    """Write a base with a few changes, and return its folder."""
    if base in EXAMPLES:
        folder = write_example(str(base), folder)
    elif isinstance(base, str):
        control(CASES[base]).write(folder)
    else:
        for path in base.rglob("*"):  # without the modes, which may forbid writing
            if path.is_file():
                target = folder / path.relative_to(base)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
    for _ in range(draw.randint(1, 4)):
        corrupt(folder, draw)
    return folder


@pytest.mark.filterwarnings("ignore:.*may stop on more ids than these")
@given(st.deferred(lambda: st.sampled_from(_bases())), st.integers(0, 2**32))
def test_every_corrupted_folder_has_a_report_and_every_question_an_answer(
    base: str | Path, seed: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = _write_corrupted(base, random.Random(seed), Path(name))
        report = inspect(folder, engines=ENGINES, render=False)
        json.dumps(report.to_dict(), allow_nan=False)
        assert inspect(folder, engines=ENGINES, render=False).to_dict() == report.to_dict()
        assert all(str(finding) for finding in report.findings)
        for engine in ENGINES:
            stop_conditions(folder, engine)
            kept, dropped, refused = effective_template_kwargs(folder, engine, {"a": 1})
            assert [*kept, *dropped, *refused] == ["a"]
        for token_id, token in discover_added_tokens(folder).items():
            assert token_id in resolve_marker_to_id(folder, token.content)
        assert all(RULES[finding.code].compares_files for finding in cross_ref_files(folder))
        for version in ("4.57.6", "5.24.0"):
            assert str(effective_tokenizer_class(folder, version))
        assert version_gate_tokenizer_class(folder) in (">=4.0", ">=5.0")
        summary = summarize_quant_config(folder)
        nested = find_nested_quantization_config(folder)
        assert all(summarize_quant_config(found.value) in summary for found in nested)
