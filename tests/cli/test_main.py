"""The command itself: its version, its help, and how it ends."""

from __future__ import annotations

import builtins
import importlib.metadata
import os
import shlex
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import click
import pytest

from streamdec.cli import command_group, main
from streamdec.errors import StreamdecWarning
from tests.cli.running import DEMO_TEXT, ROOT, TOKENIZER, command, run, run_process


def test_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, "--version")
    assert result.out == f"streamdec {importlib.metadata.version('streamdec')}\n"
    assert result.status == 0


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("name", [None, *command_group.COMMANDS])
def test_every_help_text_has_an_example(
    monkeypatch: pytest.MonkeyPatch, name: str | None, option: str
) -> None:
    result = run(monkeypatch, *([name] if name else []), option)
    assert result.status == 0
    assert "Example" in result.out
    assert f"streamdec {name or 'demo'}" in result.out
    assert "\b" not in result.out


def test_help_lists_every_command(monkeypatch: pytest.MonkeyPatch) -> None:
    out = run(monkeypatch, "--help").out
    assert all(f"  {name}  " in out for name in command_group.COMMANDS)


def test_a_command_imports_no_other() -> None:
    program = (
        "import sys; from streamdec.cli import main; main(['info', '--help']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT
    )
    loaded = done.stdout.decode().split()
    assert "streamdec.cli.info" in loaded
    assert [name for name in command_group.COMMANDS if f"streamdec.cli.{name}" in loaded] == [
        "info"
    ]


def test_every_command_says_which_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    # Some load no tokenizer that encodes, and one is a group of commands.
    for name in {*command_group.COMMANDS} - {"demo", "preflight", "chat", "completion"}:
        out = run(monkeypatch, name, "--help").out
        assert "--fast [off|now|background]" in out
        result = run(monkeypatch, name, "--fast=rust")
        assert (result.status, "'rust' is not one of" in result.err) == (2, True)


@pytest.mark.parametrize("arguments", [["nonsense"], ["demo", "--nonsense"], ["decode"]])
def test_wrong_usage_is_status_2(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    result = run(monkeypatch, *arguments)
    assert result.status == 2
    assert "Error: " in result.err
    assert result.out == ""


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    for name in [name for name in sys.modules if name.startswith("streamdec.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    block(monkeypatch, missing)
    assert main(["demo"]) == 2
    expected = f"streamdec: the command line needs {missing}: pip install 'streamdec[cli]'\n"
    assert capsys.readouterr().err == expected


def test_another_missing_module_is_not_blamed_on_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("streamdec.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    block(monkeypatch, "streamdec.cli.rows")
    with pytest.raises(ModuleNotFoundError):
        main(["decode"])


def block(monkeypatch: pytest.MonkeyPatch, blocked: str) -> None:
    """Make importing ``blocked`` fail as if it were not installed."""
    usual = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name == blocked or name.startswith(f"{blocked}."):
            raise ModuleNotFoundError(f"No module named {blocked!r}", name=blocked)
        return usual(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)


def test_python_m_streamdec_is_the_command() -> None:
    result = run_process("--version")
    assert result.stdout.startswith(b"streamdec ")
    assert result.returncode == 0


def test_a_closed_pipe_ends_the_command_silently(tmp_path: Path) -> None:
    ids = tmp_path / "ids"
    ids.write_bytes(b"1 2 3\n" * 100_000)  # more text than a pipe holds
    decode = command("decode", "--tokenizer", TOKENIZER, ids)
    with subprocess.Popen(
        decode, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.close()
        assert process.stderr
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_ctrl_c_ends_the_command_without_a_traceback() -> None:
    # Shells may ignore it for background jobs, which the child processes would inherit.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        process = subprocess.Popen(
            command("demo", "--rate", "20"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stdout
    assert process.stdout.read(1) == DEMO_TEXT[:1].encode()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err.strip() == b""
    assert process.returncode == 130


def test_ctrl_c_during_the_start_is_quiet_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_group, "run", interrupted)
    assert main([]) == 130


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-"])
def test_closed_standard_streams_are_accepted(redirection: str) -> None:
    decode = command("decode", "--tokenizer", TOKENIZER)
    shell = f"{shlex.join(decode)} {redirection}"
    result = subprocess.run(
        shell, shell=True, cwd=ROOT, input=b"20 21", capture_output=True, check=True
    )
    assert result.stderr == b""


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "No space left on device"),
        (["a b.txt"], "a b.txt: No space left on device"),
        ([b"a"], "a: No space left on device"),
        ([3], "[Errno 28] No space left on device: 3"),
        (["a", None, "b"], "[Errno 28] No space left on device: 'a' -> 'b'"),
    ],
)
def test_an_error_of_the_system_is_one_line(
    monkeypatch: pytest.MonkeyPatch, names: list[Any], told: str
) -> None:
    @click.command("full")
    def full() -> None:
        raise OSError(28, os.strerror(28), *names)

    monkeypatch.setitem(command_group.commands.commands, "full", full)
    result = run(monkeypatch, "full")
    assert result.err == f"Error: {told}\n"
    assert result.status == 2


def test_our_warnings_are_one_line_and_others_stay_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @click.command("warn")
    def warn() -> None:
        warnings.simplefilter("always")
        warnings.warn("the window it is", StreamdecWarning, stacklevel=1)
        warnings.warn("not ours", UserWarning, stacklevel=1)

    monkeypatch.setitem(command_group.commands.commands, "warn", warn)
    with pytest.warns(UserWarning, match="not ours"):
        result = run(monkeypatch, "warn")
    assert result.err == "Warning: the window it is\n"
