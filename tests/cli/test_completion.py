"""Completion by click: what the command says to a shell."""

from __future__ import annotations

import os
import subprocess
import sys

import click
import pytest

from streamdec.cli import command_group
from tests.cli.running import ROOT

VARIABLE = "_STREAMDEC_COMPLETE"
OFFERED = [
    ("streamdec ", {f"plain,{name}" for name in command_group.COMMANDS}),
    ("streamdec ve", {"plain,verify"}),
    ("streamdec verify --input-f", {"plain,--input-format"}),
    *(
        ("streamdec verify --input-format " + begun, {f"plain,{kind}" for kind in kinds})
        for begun, kinds in (("", ["ids", "text", "jsonl"]), ("t", ["text"]))
    ),
    ("streamdec chat ", {"plain,render"}),
    ("streamdec info mod", {"file,mod"}),
    ("streamdec verify --tokenizer ./model answ", {"file,answ"}),
    ("streamdec bench mod", {"file,mod"}),
    ("streamdec decode --tokenizer mod", {"file,mod"}),
    ("streamdec chat render mod", {"file,mod"}),
    ("streamdec preflight mod", {"file,mod"}),
]


def offered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str) -> str:
    """What the command says of ``line`` when bash asks it."""
    words = line.split(" ")
    monkeypatch.setenv(VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit) as ended:
        command_group.run([])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(("line", "expected"), OFFERED, ids=[line for line, _ in OFFERED])
def test_completion_offers_commands_options_and_values(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    expected: set[str],
) -> None:
    assert set(offered(monkeypatch, capsys, line).split()) == expected


def test_every_option_of_every_command_is_offered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    context = click.Context(command_group.commands)
    for name in command_group.COMMANDS:
        command = command_group.commands.get_command(context, name)
        assert command is not None
        long = {o for p in command.params if isinstance(p, click.Option) for o in p.opts}
        found = {
            line.removeprefix("plain,")
            for line in offered(monkeypatch, capsys, f"streamdec {name} --").split()
        }
        assert found >= {option for option in long if option.startswith("--")}


def test_no_command_is_imported_to_name_them() -> None:
    program = (
        "import sys; from streamdec.cli.command_group import run\n"
        "try: run([])\n"
        "except SystemExit: print('imported', *sys.modules)"
    )
    environment = {VARIABLE: "bash_complete", "COMP_WORDS": "streamdec\n", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    *names, imported = done.stdout.decode().splitlines()
    assert names == [f"plain,{name}" for name in command_group.COMMANDS]
    assert not {f"streamdec.cli.{name}" for name in command_group.COMMANDS} & set(imported.split())
