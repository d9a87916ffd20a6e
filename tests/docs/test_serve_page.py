"""The tutorial's section on serving runs: a server, OpenAI's client, a trace."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import run
from tests.server.test_command import serving
from tests.support.pages import Page

PAGE = Page("docs/tutorial.md", "Serve it")
ENGINE, CLIENT, ASKING_FOR_IDS = PAGE.of_kind("python")
INSTALL, RENDER, SERVE, TRACE = PAGE.of_kind("sh")
RENDERED, SERVING, READ, TRACED = PAGE.of_kind("text")
ADDRESS = "http://127.0.0.1:8000"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a reader has who comes from the first page, and did what this one says of files."""
    (tmp_path / "engine.py").write_text(ENGINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_template_renders_the_question_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    question, render = RENDER.splitlines()
    subprocess.run(["bash", "-c", question], check=True)
    assert run(monkeypatch, *shlex.split(render)[1:]).out == RENDERED


@pytest.mark.thorough  # tests/server/test_docs.py reads another engine in the same way
def test_the_client_reads_the_engine_and_the_trace_shows_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert INSTALL == "pip install openai\n"
    assert f"running on {ADDRESS} " in SERVING
    command = shlex.split(SERVE)
    assert command[:2] == ["streamdec", "serve"]
    out = io.StringIO()
    with serving(folder, *command[2:]) as (_, url):
        names: dict[str, Any] = {}
        with contextlib.redirect_stdout(out):
            exec(CLIENT.replace(ADDRESS, url), names)
            exec(ASKING_FOR_IDS, names)
        page = urllib.request.urlopen(url).read().decode()
        names["client"].close()
    assert out.getvalue() == READ
    assert "<html" in page
    assert run(monkeypatch, *shlex.split(TRACE)[1:]).out == TRACED
