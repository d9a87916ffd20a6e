"""``docs/reference/cli.md`` is what the commands say of themselves."""

from __future__ import annotations

import runpy
import shlex
from pathlib import Path

import click
import pytest

from streamdec.cli.commands import COMMANDS, commands
from tests.cli.running import root_context
from tests.support.pages import ROOT, Page

PAGE = Page("docs/reference/cli.md")
EXAMPLES = [
    line for line in PAGE.commands if "streamdec" in line and "_STREAMDEC_COMPLETE" not in line
]


def test_the_page_is_written_from_the_commands() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "make_cli_reference.py"))
    assert PAGE.text == script["page"](), "run scripts/make_cli_reference.py"


def test_the_page_has_every_command_option_and_status() -> None:
    context = root_context()
    for name in COMMANDS:
        assert f"\n### streamdec {name}\n" in PAGE.text
        command = commands.get_command(context, name)
        assert command is not None
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert all(f"`{one}`" in PAGE.text for one in parameter.opts)
    assert all(f"| {status} | " in PAGE.text for status in (0, 1, 2))


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_is_a_command_line_that_is_understood(line: str, tmp_path: Path) -> None:
    """Options and how many arguments there are; files are not looked for."""
    words = shlex.split(line.replace('eval "$(', "").replace(')"', ""))
    starts = [place for place, word in enumerate(words) if word == "streamdec"]
    assert starts
    for start in starts:
        arguments = words[start + 1 :]
        for end in ("|", ">", ">>", "<"):
            arguments = arguments[: arguments.index(end)] if end in arguments else arguments
        group: click.Command = commands
        context = root_context()
        while isinstance(group, click.Group):
            found = group.get_command(context, arguments.pop(0))
            assert found is not None
            group = found
        for parameter in group.params:
            # Of the kinds of values only files and paths hang on where one is.
            if isinstance(parameter.type, click.File):
                arguments = [str(_there(tmp_path, one)) for one in arguments]
        group.make_context(group.name, arguments, parent=context).close()


def _there(folder: Path, word: str) -> Path | str:
    """A file for a word that names one."""
    if not word.endswith((".txt", ".json", ".jsonl", ".trace")) or word.startswith("-"):
        return word
    path = folder / Path(word).name
    path.write_text("stop\n", "utf-8")
    return path
