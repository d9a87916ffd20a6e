"""The examples of the page on chat templates print what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import click
import pytest

from streamdec.cli.app import commands

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "render-chat-templates.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [
    (code, text)
    for (kind, code), (other, text) in pairwise(BLOCKS)
    if (kind, other) == ("python", "text")
]


def test_every_example_says_what_it_prints() -> None:
    assert len(EXAMPLES) == sum(kind == "python" for kind, _ in BLOCKS) == 5


@pytest.mark.parametrize(
    ("code", "text"), EXAMPLES, ids=["template", "request", "model", "spans", "openai"]
)
def test_an_example_prints_what_the_page_says(code: str, text: str) -> None:
    command = [sys.executable, "-X", "utf8", "-W", "error", "-c", code]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, encoding="utf-8")
    assert run.stderr == ""
    assert run.stdout.splitlines() == text.splitlines()


def test_the_commands_of_the_page_have_the_options_that_there_are() -> None:
    context = click.Context(commands)
    chat = commands.get_command(context, "chat")
    assert isinstance(chat, click.Group)
    render = chat.commands["render"]
    known = {option for parameter in render.params for option in parameter.opts}
    lines = [line for kind, body in BLOCKS if kind == "sh" for line in body.splitlines()]
    assert len(lines) == 2
    assert {word for line in lines for word in line.split() if word.startswith("--")} <= known
