"""The docstrings: their examples run and print what they say, and nothing public goes unsaid.

An example is run as a reader runs it: it imports what it uses. It runs in a folder where
``path/to/model`` is a model's folder and ``path/to/model.tiktoken``, ``.gguf``, ``.model`` and
``tekken.json`` are files of those kinds. Examples and modules that need a library which is not
there are skipped, each by its name.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamdec import hooks
from streamdec.errors import MissingExtraError
from tests.support import files
from tests.support.docstrings import (
    Docstring,
    Member,
    attribute_docstrings,
    docstrings,
    public_members,
    raised_by,
    says,
    says_parameter,
)
from tests.support.pages import ROOT, make_model_folder
from tests.support.public_api import DOORS, is_error, public_names

# --- the examples ---------------------------------------------------------------------------------

PARSER = doctest.DocTestParser()
EXAMPLES = [docstring for docstring in docstrings() if ">>>" in docstring.text]


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


# --- the docstrings of public names ---------------------------------------------------------------


@cache
def _members() -> tuple[Member, ...]:
    """The public functions, classes, methods and properties of modules that can be imported."""
    found: list[Member] = []
    for door in DOORS:
        with suppress(MissingExtraError):  # the tests of its package are skipped then
            found += public_members(door)
    return tuple(found)


def _listed(missing: list[str]) -> str:
    return "\n".join(["", *missing])


def test_every_public_function_class_method_and_property_has_a_docstring() -> None:
    missing = [each.path for each in _members() if not each.doc]
    assert not missing, _listed(missing)


def test_every_public_constant_and_field_has_a_docstring() -> None:
    missing = []
    for member in _members():
        if inspect.isclass(member.value):
            known = attribute_docstrings(member.value)
            missing += [
                f"{member.path}.{field}"
                for field in _fields_of(member.value)
                if field not in known and not says(member, field)
            ]
    said = {each.name.rpartition(".")[2] for each in docstrings()}
    for door in DOORS:
        with suppress(MissingExtraError):
            missing += [
                f"{door}.{name}"
                for name, value in public_names(door).items()
                if not inspect.isclass(value) and not inspect.isroutine(value) and name not in said
            ]
    assert not missing, _listed(missing)


def _fields_of(kind: type) -> Iterator[str]:
    """The fields of a dataclass, a NamedTuple or a TypedDict."""
    fields = getattr(kind, "__dataclass_fields__", getattr(kind, "_fields", ()))
    yield from (name for name in fields if not name.startswith("_"))
    if hasattr(kind, "__total__"):
        yield from kind.__annotations__


def test_every_public_name_has_an_example() -> None:
    """Its own, or the module's. Errors have a page."""
    modules = [each for each in EXAMPLES if not each.name]
    shown = {(each.module, word) for each in modules for word in re.findall(r"\w+", each.text)}
    missing = [
        each.path
        for each in _members()
        if each.owner is None and ">>>" not in each.doc and not is_error(each.value)
        if (each.value.__module__, each.value.__name__) not in shown
    ]
    assert not missing, _listed(missing)


def test_first_lines_are_short() -> None:
    """Below 80 characters, in all modules: a summary is read in lists and in editors."""
    opening = [each for each in docstrings() if each.opens]
    assert [f"{each}" for each in opening if len(each.text.lstrip().split("\n")[0]) >= 80] == []


def test_every_parameter_is_in_the_docstring() -> None:
    missing = []
    for member in _members():
        known: dict[str, str] = {}
        if inspect.isclass(member.value):
            known = attribute_docstrings(member.value)
        missing += [
            f"{member.path}({name})"
            for name in _parameters_of(member)
            if name not in known and not says_parameter(member, name)
        ]
    assert not missing, _listed(missing)


def _parameters_of(member: Member) -> list[str]:
    if member.is_property:
        return []
    value = getattr(member.value, "__func__", member.value)
    if inspect.isclass(value) and getattr(value, "_is_protocol", False):
        return []
    try:
        names = list(inspect.signature(value).parameters)
    except ValueError:  # built in, as of an exception that adds nothing to its base
        return []
    is_static = isinstance(member.value, staticmethod)
    if member.owner is not None and not is_static:
        names = names[1:]
    return [name for name in names if not name.startswith("_") and name not in ("args", "kwargs")]


def test_every_raised_error_is_in_the_docstring() -> None:
    missing = [
        f"{member.path}: {error}"
        for member in _members()
        for error in sorted(raised_by(member))
        if not says(member, error)
    ]
    assert not missing, _listed(missing)


# --- the list itself ------------------------------------------------------------------------------


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
    names = {str(docstring) for docstring in docstrings()}
    assert {
        "streamdec",  # a module
        "streamdec.chunks.Chunk",  # a class
        "streamdec.chunks.Chunk.text",  # a field
        "streamdec.chunks.FinishReason",  # a constant
        "streamdec.streams.text_stream.TextStream.aclose",  # a coroutine
        "streamdec.streams.pool.DecoderPool.__init__.errors",  # an attribute
    } <= names
