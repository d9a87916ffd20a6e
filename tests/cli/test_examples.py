"""Every example in the help of a command is a command line that is understood."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from streamdec.cli.commands import COMMANDS, commands
from tests.cli.running import root_context


def examples() -> Iterator[str]:
    for name in COMMANDS:
        command = commands.get_command(root_context(), name)
        assert command is not None
        yield from re.findall(
            r"^  +(streamdec .+)$", (command.help or "").partition("Examples:")[2], re.MULTILINE
        )


def test_every_command_has_an_example() -> None:
    assert {line.split()[1] for line in examples()} >= {*COMMANDS} - {"demo"}


@pytest.mark.parametrize("line", [*examples()])
def test_an_example_is_understood(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its options, and how many arguments there are; each file is there."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)[1:]
    for end in ("|", ">", ">>", "<"):
        words = words[: words.index(end)] if end in words else words
    for word in words:
        if "." in word and "/" not in word and not word.startswith("-"):
            Path(word).write_text("1\n", "utf-8")
    name, *arguments = words
    context = root_context()
    command = commands.get_command(context, name)
    assert isinstance(command, click.Command)
    command.make_context(name, arguments, parent=context).close()
