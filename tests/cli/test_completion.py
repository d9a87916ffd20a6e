"""``streamdec completion``: what a shell is given, and what the command then says to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from streamdec.cli import command_group
from streamdec.cli.completion import SHELLS, VARIABLE
from tests.cli.running import ROOT, run

OFFERED = [
    ("streamdec ", {f"plain,{name}" for name in command_group.COMMANDS}),
    ("streamdec ve", {"plain,verify"}),
    ("streamdec verify --input-f", {"plain,--input-format"}),
    *(
        ("streamdec verify --input-format " + begun, {f"plain,{kind}" for kind in kinds})
        for begun, kinds in (("", ["ids", "text", "jsonl"]), ("t", ["text"]))
    ),
    ("streamdec chat ", {"plain,render"}),
    ("streamdec completion ", {f"plain,{shell}" for shell in SHELLS}),
    ("streamdec info mod", {"file,mod"}),
    ("streamdec verify ./model answ", {"file,answ"}),
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
def test_what_is_offered(
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


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_is_given_its_script(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    result = run(monkeypatch, "completion", shell)
    assert (result.status, result.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in result.out
    assert "streamdec" in result.out.replace(VARIABLE, "")
    if program := shutil.which(shell):
        subprocess.run([program, "-n"], input=result.out.encode(), check=True, timeout=60)
    monkeypatch.setenv("SHELL", f"/bin/{shell}")
    assert run(monkeypatch, "completion") == result


@pytest.mark.parametrize("shell", ["", "/bin/tcsh"])
def test_another_shell_is_asked_about(monkeypatch: pytest.MonkeyPatch, shell: str) -> None:
    monkeypatch.setenv("SHELL", shell)
    result = run(monkeypatch, "completion")
    assert (result.status, result.out) == (2, "")
    assert "which shell?" in result.err
    assert "bash, zsh, fish" in result.err


BASH = r"""
eval "$("$1" -m streamdec completion bash)"
line=($2); COMP_WORDS=(streamdec "${line[@]}"); COMP_CWORD=${#line[@]}
compopt() { local IFS=" "; echo "compopt $*"; }
_streamdec_completion streamdec_bin
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_with_it(tmp_path: Path) -> None:
    """The function that is defined, called as readline calls it."""
    program = tmp_path / "streamdec_bin"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m streamdec\n', "utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    def completed(line: str) -> list[str]:
        done = subprocess.run(
            ["bash", "-c", BASH, "bash", sys.executable, line],
            capture_output=True,
            cwd=ROOT,
            env=environment,
            check=True,
            timeout=60,
        )
        assert done.stderr == b""
        return done.stdout.decode().split("\n")[:-1]

    assert completed("verify --input-format j") == ["jsonl"]
    assert completed("info mod") == ["compopt -o default", ""]
