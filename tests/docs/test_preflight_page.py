"""The job of the page on preflight in CI: its commands do what the page says that they do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import run
from tests.support.pages import Page, make_model_folder

PAGE = Page("docs/how-to/why-does-my-model-misbehave.md", "Run preflight in CI")
(WORKFLOW,) = PAGE.of_kind("yaml")
JOB: dict[str, Any] = yaml.safe_load(WORKFLOW)["jobs"]["preflight"]
RUNS: list[str] = [step["run"] for step in JOB["steps"] if "run" in step]
OURS = [command for command in RUNS if command.startswith("streamdec ")]
TO_UPLOAD, TO_FAIL = OURS


def test_the_steps_are_those_that_are_tried_here() -> None:
    rest = [command for command in RUNS if command not in OURS]
    assert [command.split()[0] for command in rest] == ["git", "pip"]
    assert all("uses" in step or "run" in step for step in JOB["steps"])
    (upload,) = [step for step in JOB["steps"] if "upload-sarif" in step.get("uses", "")]
    assert f"-o {upload['with']['sarif_file']} " in TO_UPLOAD
    assert yaml.safe_load(WORKFLOW)["permissions"]["security-events"] == "write"


@pytest.mark.parametrize(("is_mended", "status"), [(False, 1), (True, 0)])
def test_the_job_fails_by_its_last_step_and_has_uploaded_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_mended: bool, status: int
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = make_model_folder(tmp_path / "model")
    if is_mended:
        text = "{{ m.role }}{{ m.content if m.content is string }}<|im_end|>"
        template = "{% for m in messages %}" + text + "{% endfor %}"
        _edit(folder / "tokenizer_config.json", chat_template=template)
    assert run(monkeypatch, *TO_UPLOAD.split()[1:]).status == 0
    (log,) = json.loads((tmp_path / "preflight.sarif").read_text("utf-8"))["runs"]
    found = {result["level"] for result in log["results"]}
    assert ("warning" in found) is not is_mended
    places = [place for result in log["results"] for place in result["locations"]]
    assert {place["physicalLocation"]["artifactLocation"]["uriBaseId"] for place in places} == {
        "%SRCROOT%"
    }
    assert run(monkeypatch, *TO_FAIL.split()[1:]).status == status


def _edit(path: Path, **values: object) -> None:
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content | values), encoding="utf-8")
