"""The names that ``streamdec`` and its packages export, and errors, as users see them."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
import runpy
import subprocess
import sys
from collections.abc import Mapping
from difflib import unified_diff
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import streamdec
import streamdec.metrics
import streamdec.streams
import streamdec.tokenizers
from streamdec import errors
from streamdec.chunks import Chunk
from tests.support.pages import Page
from tests.support.public_api import documented

PACKAGES: list[Any] = [streamdec, streamdec.metrics, streamdec.streams, streamdec.tokenizers]


def imported_by(package: Any) -> dict[str, str | None]:
    """The names that type checkers see in a package, and the module of each."""
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_a_package_exports_what_type_checkers_see(package: Any) -> None:
    """Names are imported when they are used; type checkers read other lines than the program."""
    seen = imported_by(package)
    assert sorted(package.__all__) == sorted(set(package.__all__))
    for name in package.__all__:
        module = seen[name]
        assert module is not None
        assert getattr(package, name) is getattr(importlib.import_module(module), name)


def loaded_by(code: str) -> set[str]:
    """The modules of a process that has run ``code``."""
    code = f"import sys; {code}; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return {*run.stdout.split()}


def test_modules_are_imported_on_first_use() -> None:
    """A process that imports streamdec has not imported the libraries that it may use."""
    loaded = loaded_by("import streamdec")
    assert loaded & {"asyncio", "anyio", "tokenizers", "regex", "jinja2", "fastokens"} == set()
    assert [name for name in loaded if name.startswith("streamdec.")] == ["streamdec.lazy"]


def test_streams_without_an_event_loop_import_none() -> None:
    loaded = loaded_by("from streamdec import DecoderPool, iter_chunks, load_tokenizer")
    assert loaded & {"asyncio", "anyio.lowlevel", "trio"} == set()


def test_the_top_has_few_names_and_the_version_of_the_distribution() -> None:
    with pytest.raises(AttributeError, match="module 'streamdec' has no attribute 'Nothing'"):
        streamdec.Nothing  # type: ignore[attr-defined]  # noqa: B018
    assert set(streamdec.__all__) <= set(dir(streamdec))
    assert len(streamdec.__all__) <= 26
    assert streamdec.__version__ == version("streamdec")


MADE = {errors.TokenIdError: ("m", -1, 4)}
"""The arguments of classes that do not take a message alone."""


def test_the_page_has_every_class() -> None:
    text = Page("docs/reference/errors.md").text
    own = {
        name
        for name, value in vars(errors).items()
        if getattr(value, "__module__", "") == errors.__name__ and isinstance(value, type)
    }
    assert {*errors.__all__} == own
    assert {*re.findall(r"^\.\. autoclass:: (\w+)$", text, re.MULTILINE)} == own


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_survives_pickling(name: str) -> None:
    kind = getattr(errors, name)
    error = kind(*MADE.get(kind, ("m",)))
    error.chunk, error.num_taken = Chunk("text"), 3
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), vars(other)) == (kind, str(error), vars(error))


ROOT = Path(__file__).resolve().parent.parent
SCRIPT: Mapping[str, Any] = runpy.run_path(str(ROOT / "scripts" / "make_api_snapshot.py"))
SNAPSHOT: Path = SCRIPT["TARGET"]


def test_the_public_api_is_that_of_the_snapshot() -> None:
    written = SNAPSHOT.read_text("utf-8").splitlines()
    found = SCRIPT["Writer"]().page().splitlines()
    difference = list(unified_diff(written, found, str(SNAPSHOT.name), "the code", lineterm=""))
    advice = "if users are meant to see this, run: python scripts/make_api_snapshot.py"
    assert not difference, "\n".join([advice, *difference])


def test_the_snapshot_has_every_name_of_the_reference() -> None:
    """The pages and the snapshot have the same public names."""
    written = re.compile(r"^(?:\w+ )*(streamdec[\w.]*)", re.MULTILINE)
    known = set(written.findall(SNAPSHOT.read_text("utf-8")))
    assert {f"{module}.{name}" for module, name in documented()} - known == set()
