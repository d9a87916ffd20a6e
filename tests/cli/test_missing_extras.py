"""Without an optional library, one line says what to install, and that installs it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import requires
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from streamdec.cli.commands import COMMANDS
from tests.cli.running import ROOT

PROGRAM = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in sys.argv[1].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from streamdec.cli import main
main(sys.argv[2:])
"""

CASES = [
    ("click", "demo"),
    ("rich", "demo"),
    ("pyarrow", "bulk demo rows.parquet texts.parquet"),
    ("jinja2", "chat demo messages.json"),
    ("jinja2", "serve demo"),
    ("starlette", "serve demo"),
    ("uvicorn", "serve demo"),
    ("huggingface_hub", "info some-name/model --allow-download"),
]


def required(extra: str) -> set[str]:
    """Return the modules that ``extra`` installs, those of its extras too."""
    found = set()
    for line in requires("streamdec") or ():
        requirement, _, marker = line.partition(";")
        if f"extra == '{extra}'" in marker.replace('"', "'"):
            name, *extras = re.findall(r"[\w-]+", requirement.split("=")[0].split(">")[0])
            found |= (
                {name.replace("-", "_")}
                if name != "streamdec"
                else set().union(*map(required, extras))
            )
    return found


def run_without(missing: Iterable[str], line: str, folder: Path) -> CompletedProcess[str]:
    """Run a command in ``folder``, where these modules cannot be imported."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, ",".join(missing), *line.split()],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "PATH": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(("missing", "line"), CASES)
def test_one_line_says_what_to_install(missing: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "messages.json").write_text("[]", "utf-8")
    (tmp_path / "rows.parquet").touch()
    done = run_without([missing], line, tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    found = re.search(
        r"needs? (?:the library )?(\w+): pip install 'streamdec\[(\w+)\]'$", done.stderr
    )
    assert found, done.stderr
    assert found[1] == missing
    assert missing in required(found[2]), "the install line installs it"


def test_the_list_of_commands_needs_only_the_libraries_of_the_command_line(tmp_path: Path) -> None:
    extras = {
        re.split(r"[^\w-]", each)[0].replace("-", "_") for each in requires("streamdec") or ()
    }
    missing = extras - required("cli") - {"streamdec", "tokenizers", "anyio"}
    assert {"pyarrow", "starlette", "huggingface_hub"} <= missing
    done = run_without(missing, "--help", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.findall(r"^  (\w+)  +[A-Z]", done.stdout, re.MULTILINE) == [*COMMANDS]
