"""The examples of docstrings run and print what they say.

An example is run as a reader runs it: it imports what it uses. It runs in a folder where
``path/to/model`` is a model's folder and ``path/to/model.tiktoken``, ``.gguf``, ``.model`` and
``tekken.json`` are files of those kinds. Examples and modules that need a library which is not
there are skipped, each by its name. The docstrings are read from the sources: those of modules that
need such a library, and those after constants and fields, are found as well.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamdec import hooks
from streamdec.errors import MissingExtraError
from tests.support import files
from tests.support.pages import ROOT, make_model_folder
from tests.support.public_api import DOORS


@dataclass(frozen=True)
class Docstring:
    """A docstring in a source file."""

    module: str
    name: str
    """What it is of, from the module on; "" for the module itself."""
    text: str
    path: Path
    line: int
    """Where it begins, from 1."""

    def __str__(self) -> str:
        return f"{self.module}.{self.name}".rstrip(".")


def _docstrings_of(path: Path) -> Iterator[Docstring]:
    parts = path.relative_to(ROOT).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    tree = ast.parse(path.read_text("utf-8"))
    for name, node in _strings_in(tree, ""):
        yield Docstring(module, name, node.value, path, node.lineno)


def _strings_in(node: ast.AST, name: str) -> Iterator[tuple[str, Any]]:
    """The docstrings, also of constants and fields, by the names of what they describe."""
    body: list[ast.stmt] = getattr(node, "body", [])
    last = name if isinstance(node, _DOCUMENTED) else None
    for statement in body:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            if isinstance(statement.value.value, str) and last is not None:
                yield last, statement.value
            last = None
            continue
        last = None
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            last = _dotted(name, _target(statement))
        elif isinstance(statement, _DOCUMENTED):
            yield from _strings_in(statement, _dotted(name, statement.name))
        elif isinstance(statement, (ast.If, ast.Try)):
            yield from _strings_in(statement, name)


_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def _target(statement: ast.Assign | ast.AnnAssign) -> str:
    target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    return target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)


def _dotted(*names: str) -> str:
    return ".".join(filter(None, names))


PARSER = doctest.DocTestParser()
DOCSTRINGS = [
    docstring
    for path in sorted((ROOT / "streamdec").rglob("*.py"))
    for docstring in _docstrings_of(path)
]
EXAMPLES = [docstring for docstring in DOCSTRINGS if ">>>" in docstring.text]


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
    """Stop at the first example that differs, or that raises an error that it does not show."""

    def __init__(self) -> None:
        super().__init__(verbose=False)
        self.told: list[str] = []

    def report_failure(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, got: str
    ) -> None:
        pytest.fail(_told(test, example, f"printed:\n{got}"), pytrace=False)

    def report_unexpected_exception(
        self, out: Any, test: doctest.DocTest, example: doctest.Example, exc_info: Any
    ) -> None:
        error = exc_info[1]
        if isinstance(error, MissingExtraError):
            pytest.skip(f"{test.name}: {error}")
        if isinstance(error, ImportError) and not f"{error.name}".startswith("streamdec"):
            pytest.skip(f"{test.name} needs {error.name}, which is not installed")
        raise error


def _told(test: doctest.DocTest, example: doctest.Example, what: str) -> str:
    line = (test.lineno or 0) + example.lineno
    said = f"said:\n{example.want}" if example.want else "said nothing\n"
    return f"{test.filename}:{line}: {test.name}\n{example.source}{said}{what}"


@pytest.mark.parametrize("docstring", EXAMPLES, ids=str)
def test_an_example_prints_what_it_says(
    docstring: Docstring, folder_of_examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_of_examples)
    before = {**os.environ}
    test = PARSER.get_doctest(
        docstring.text, {}, str(docstring), str(docstring.path.relative_to(ROOT)), docstring.line
    )
    _Runner().run(test)
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


def test_an_example_in_every_kind_of_docstring_is_found() -> None:
    names = {str(docstring) for docstring in DOCSTRINGS}
    assert {
        "streamdec",  # a module
        "streamdec.chunks.Chunk",  # a class
        "streamdec.chunks.Chunk.text",  # a field
        "streamdec.chunks.FinishReason",  # a constant
        "streamdec.streams.text_stream.TextStream.aclose",  # a coroutine
        "streamdec.streams.pool.DecoderPool.__init__.errors",  # an attribute
    } <= names
