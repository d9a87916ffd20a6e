"""The examples of docstrings run and print what they say.

An example is run as a reader runs it: it imports what it uses. It runs in a folder where
``path/to/model`` is a model's folder and ``path/to/model.tiktoken``, ``.gguf``, ``.model`` and
``tekken.json`` are files of those kinds. Examples and modules that need a library which is not
there are skipped. They are read from the sources, so those of modules that need such a library, and
those after constants and fields, are found as well.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from streamdec import hooks
from streamdec.errors import MissingExtraError
from tests.support import files
from tests.support.pages import ROOT, make_model_folder
from tests.support.public_api import DOORS


class Docstring(NamedTuple):
    """A text with examples in a source file."""

    path: Path
    line: int
    """Where it begins, from 1."""
    text: str

    def __str__(self) -> str:
        return f"{self.path.relative_to(ROOT)}:{self.line}"


PARSER = doctest.DocTestParser()
EXAMPLES = [
    Docstring(path, node.lineno, node.value.value)
    for path in sorted((ROOT / "streamdec").rglob("*.py"))
    for node in ast.walk(ast.parse(path.read_text("utf-8")))
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if isinstance(node.value.value, str) and ">>>" in node.value.value
]


@pytest.fixture(scope="session")
def folder_of_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    model = make_model_folder(folder / "path" / "to" / "model")
    model.with_suffix(".tiktoken").write_bytes(files.rank_file())
    model.with_suffix(".gguf").write_bytes(files.small_gguf())
    files.write_json(model.with_name("tekken.json"), files.tekken())
    with suppress(ModuleNotFoundError):  # an example that needs the file needs the library
        model.with_suffix(".model").write_bytes(files.sentencepiece())
    return folder


class _Runner(doctest.DocTestRunner):
    """Skip an example whose library is not installed; print how others fail."""

    def report_unexpected_exception(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, exc_info: Any
    ) -> None:
        error = exc_info[1]
        if isinstance(error, MissingExtraError):
            pytest.skip(f"{test.name}: {error}")
        if isinstance(error, ImportError) and not f"{error.name}".startswith("streamdec"):
            pytest.skip(f"{test.name} needs {error.name}, which is not installed")
        super().report_unexpected_exception(out, test, example, exc_info)


@pytest.mark.parametrize("docstring", EXAMPLES, ids=str)
def test_an_example_prints_what_it_says(
    docstring: Docstring, folder_of_examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_of_examples)
    before = {**os.environ}
    path = str(docstring.path.relative_to(ROOT))
    examples = PARSER.get_doctest(docstring.text, {}, str(docstring), path, docstring.line)
    result = _Runner(verbose=False, optionflags=doctest.FAIL_FAST).run(examples)
    assert result.failed == 0
    assert hooks.installed == (), "an example removes its hooks"
    assert {**os.environ} == before


def test_every_example_shows_its_output() -> None:
    found = {str(each): PARSER.get_examples(each.text) for each in EXAMPLES}
    assert [name for name, lines in found.items() if not any(line.want for line in lines)] == []
    assert [
        name for name, lines in found.items() if any(doctest.SKIP in line.options for line in lines)
    ] == []


def test_the_pages_import_only_public_names() -> None:
    pattern = re.compile(
        r"^\s*from (streamdec[\w.]*) import (?:\(([\w,\s]+)\)|([\w, ]+))", re.MULTILINE
    )
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    imported = {
        (module, name.split()[0])
        for page in pages
        for module, *names in pattern.findall(page.read_text("utf-8"))
        for name in "".join(names).split(",")
        if name.strip()
    }
    assert len(imported) > 20
    doors = [*DOORS, "streamdec.errors"]
    known = {door: set(DOORS.get(door) or importlib.import_module(door).__all__) for door in doors}
    assert {(m, name) for m, name in imported if name not in known.get(m, ())} <= EXCEPT


EXCEPT = {("streamdec.cli", "demo")}
"""The command line, which is documented as one."""
