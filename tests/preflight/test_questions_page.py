"""The page of symptoms: its examples print what they say, its links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from streamdec.cli import main
from streamdec.preflight.rules import RULES
from tests.preflight.incidents import write
from tests.support.pages import ROOT, Page

PAGE = Page("docs/how-to/why-does-my-model-misbehave.md", until="Run preflight in CI")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("models"))


@pytest.mark.parametrize(
    ("example", "printed"), PAGE.examples, ids=map(str, range(len(PAGE.examples)))
)
def test_an_example_prints_what_the_page_says(
    example: str, printed: str, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jinja2")
    monkeypatch.chdir(folders)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(example, PAGE.path, "exec"), {"__name__": "__example__"})
    assert out.getvalue() == printed


def test_the_command_prints_the_table_of_the_page(
    folders: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(folders)
    (command,) = [line for line in PAGE.commands if "preflight" in line]
    assert main(command.split()[1:]) in (0, 1)
    (table,) = [body for kind, body in PAGE.blocks[:3] if kind == "text"]
    assert table in capfdbinary.readouterr().out.decode()


def test_there_are_fifteen_symptoms_and_each_names_a_finding() -> None:
    parts = re.split(r"^### ", PAGE.text, flags=re.MULTILINE)[1:]
    assert [part.split(".")[0] for part in parts] == [str(i) for i in range(1, 16)]
    for part in parts:
        assert re.search(r"\(\.\./reference/findings\.md#", part), part.splitlines()[0]


def test_the_links_lead_to_the_finding_that_they_name() -> None:
    links = re.findall(r"\[([A-Z0-9_]+)\]\(([^)]+)\)", PAGE.text)
    assert links
    for code, target in links:
        assert code in RULES, code
        assert target == f"../reference/findings.md#{code.lower()}"
    reference = (ROOT / "docs" / "reference" / "findings.md").read_text("utf-8")
    assert all(f"\n### {code}\n" in reference for code, _ in links)
