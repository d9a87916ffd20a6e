"""The exported names are the union of the modules' ``__all__``."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

import streamdec

ROOT = Path(__file__).resolve().parent.parent

LENT = {
    "streamdec.streams.sinks": {"Sink"},
    "streamdec.backends.hybrid": {"HybridTokenizer"},
    "streamdec.tokenizers.tokenizer_report": {"LoadedTokenizer"},
    "streamdec.loading.factory": {"load_tokenizer"},
    "streamdec.loading.detect": {"detect_format"},
    # The decoding rules are for those who write a backend; they import them from their module.
    "streamdec.protocols": {"Decoder", "Encoder", "Tokenizer"},
    "streamdec.encoding": {"Encoding", "SpecialTokens"},
    # The events of hooks are for their authors.
    "streamdec.hooks": {"Hook", "add_hook"},
}
"""Inner modules that lend ``streamdec`` some of their names, not all."""


def public_modules() -> list[str]:
    """The modules that ``streamdec/__init__.py`` imports names from, in its order."""
    tree = ast.parse((ROOT / "streamdec" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return [node.module for node in imports if node.module and node.module.startswith("streamdec.")]


def exported_by(module: str) -> set[str]:
    """What ``module`` gives to ``streamdec``: its whole ``__all__``, or what it lends."""
    return LENT.get(module) or set(names_of(module))


def names_of(module: str) -> list[str]:
    """The ``__all__`` of ``module``."""
    names: list[str] = importlib.import_module(module).__all__
    return names


def test_exported_names_are_the_union_of_the_modules_all() -> None:
    union = set().union(*map(exported_by, public_modules()))
    assert set(streamdec.__all__) == union


def test_names_are_imported_from_where_type_checkers_see_them() -> None:
    """Names are imported when they are used; type checkers read other lines than the program."""
    tree = ast.parse((ROOT / "streamdec" / "__init__.py").read_text(encoding="utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    homes = streamdec._HOMES
    assert {name: seen[name] for name in streamdec.__all__} == homes


def test_modules_are_imported_on_first_use() -> None:
    """A process that imports streamdec has not imported the libraries that it may use."""
    code = "import sys, streamdec; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {*run.stdout.split()}
    assert loaded & {"asyncio", "anyio", "tokenizers", "regex", "jinja2", "fastokens"} == set()
    assert [name for name in loaded if name.startswith("streamdec.")] == []


def test_a_name_that_is_not_exported() -> None:
    with pytest.raises(AttributeError, match="module 'streamdec' has no attribute 'Nothing'"):
        streamdec.Nothing  # type: ignore[attr-defined]  # noqa: B018
    assert set(streamdec.__all__) <= set(dir(streamdec))


def test_no_name_is_exported_twice() -> None:
    assert [name for name, count in Counter(streamdec.__all__).items() if count > 1] == []
    names = Counter(name for module in set(public_modules()) for name in exported_by(module))
    assert [name for name, count in names.items() if count > 1] == []


def test_lent_names_are_in_the_all_of_their_module() -> None:
    for module, names in LENT.items():
        assert names <= set(names_of(module))


def test_every_exported_name_exists() -> None:
    assert [name for name in streamdec.__all__ if not hasattr(streamdec, name)] == []


@pytest.mark.parametrize("module", sorted(set(public_modules())))
def test_a_module_has_the_names_that_it_exports(module: str) -> None:
    loaded = importlib.import_module(module)
    assert [name for name in names_of(module) if not hasattr(loaded, name)] == []


def test_the_version_is_that_of_the_distribution() -> None:
    assert streamdec.__version__ == version("streamdec")
