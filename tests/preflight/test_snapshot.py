"""Untrusted folders: links, pipes, large files, bytes of all kinds. Nothing outside is read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamdec.preflight import inspect
from streamdec.preflight.snapshot import Snapshot
from tests.preflight.making import control

SECRET = '{"eos_token_id": 7, "chat_template": "secret"}'
links = pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")


def test_an_empty_folder_has_findings_and_no_error(tmp_path: Path) -> None:
    assert inspect(tmp_path).codes == {
        "CHAT_TEMPLATE_MISSING",
        "EOS_MISSING_EVERYWHERE",
        "GENERATION_CONFIG_MISSING",
        "TOKENIZER_JSON_MISSING",
    }


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


def test_nan_and_infinity_are_json_for_python(tmp_path: Path) -> None:
    folder = control().write(tmp_path)
    text = '{"model_type": "llama", "eos_token_id": 258, "x": NaN, "y": -Infinity}'
    (folder / "config.json").write_text(text)
    assert inspect(folder, render=False).codes == set()


def test_deeply_nested_json_is_shown_by_its_type(tmp_path: Path) -> None:
    deep = "[" * 300 + "]" * 300
    folder = control().write(tmp_path)
    text = f'{{"eos_token_id": {deep}, "stop_strings": {deep}, "bos_token_id": [{deep}]}}'
    (folder / "generation_config.json").write_text(text)
    report = inspect(folder, render=False)
    assert {"EOS_ID_UNKNOWN", "GENERATION_STOP_STRINGS_IGNORED"} <= report.codes
    values = [e.value for f in report.findings for e in f.evidence if e.file.startswith("gen")]
    assert "a list of 1" in values
