"""The house: which module stands on which floor, read from the imports themselves.

Imports point down: a module may import modules with a smaller number. From floor 4 on, modules of
one folder may also import each other, without cycles. Numbers between two floors are landings.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

MODULES: Mapping[str, float] = {
    "streamdec.errors": 0,
    "streamdec.chunks": 0,
    "streamdec.encoding": 0,
    "streamdec.locks": 0,
    "streamdec.hooks": 0.5,
    "streamdec.protocols": 0.5,
    "streamdec.core": 0,
    "streamdec.core.stops": 0,
    "streamdec.core.token_rules": 0,
    # Pieces that stand alone, and the rules and conditions made of them.
    "streamdec.core.counting": 1,
    "streamdec.core.replacers": 1,
    "streamdec.core.stops.patterns": 1,
    "streamdec.core.stops.requests": 1,
    "streamdec.core.token_ids": 1,
    "streamdec.core.utf8": 1,
    "streamdec.core.warn_once": 1,
    "streamdec.core.stops.matcher": 1.1,
    "streamdec.core.unknown_ids": 1.1,
    "streamdec.core.window": 1.1,
    "streamdec.core.stops.conditions": 1.2,
    "streamdec.core.token_rules.base": 1.2,
    "streamdec.core.token_rules.contextual": 1.3,
    "streamdec.core.token_rules.byte_fallback": 1.4,
    "streamdec.core.token_rules.compile": 1.5,
    # From ids to text, and from text to text that may be output.
    "streamdec.core.provenance": 2,
    "streamdec.core.table": 2.1,
    "streamdec.core.window_table": 2.2,
    "streamdec.core.tables": 2.3,
    "streamdec.core.spans": 2.4,
    "streamdec.core.stops.stop_set": 2.4,
    "streamdec.core.stops.endings": 2.5,
    "streamdec.core.snapshots": 2.6,
    # The machine and the three classes that callers use.
    "streamdec.core.walk": 2.7,
    "streamdec.core.machine": 3,
    "streamdec.core.decode_stream": 3.1,
    "streamdec.core.stop_sequence_decoder": 3.1,
    "streamdec.core.sequence": 3.2,
    "streamdec.regex_stops": 4,
    "streamdec.sources": 4,
    "streamdec.waits": 4,
    "streamdec.machines": 4,
    "streamdec.watch": 4.25,
    "streamdec.flow": 4.5,
    "streamdec.feed": 4.5,
    "streamdec.iteration": 5,
    "streamdec.aio": 5,
    "streamdec.pool": 5,
    "streamdec.tokenizers": 5,
    "streamdec.compat": 6,
    "streamdec.__main__": 9,
    "streamdec": 10,
}
"""Each module and its floor."""

FOLDERS: Mapping[str, float] = {
    "streamdec.backends": 4,
    "streamdec.loading": 5,
    "streamdec.chat": 4.5,
    "streamdec.metrics": 5,
    "streamdec.trace": 5,
    "streamdec.preflight": 6,
    "streamdec.bulk": 6,
    "streamdec.integrations": 6,
    "streamdec.testing": 6,
    "streamdec.bench": 6,
    "streamdec.server": 7,
    "streamdec.cli": 8,
}
"""Folders whose modules all stand on one floor."""

FIRST_SHARED_FLOOR = 4
"""From here on, modules of one folder may use each other."""

HOMES: Mapping[str, str | tuple[str, ...]] = {
    "click": "streamdec.cli",
    "fastokens": "streamdec.backends",
    "huggingface_hub": "streamdec.loading",
    "hypothesis": "streamdec.testing",
    "pytest": "streamdec.testing",
    "jinja2": "streamdec.chat",
    "opentelemetry": "streamdec.metrics",
    "prometheus_client": "streamdec.metrics",
    "pyarrow": "streamdec.bulk",
    "regex": "streamdec.regex_stops",
    "rich": "streamdec.cli",
    "sentencepiece": "streamdec.backends",
    "starlette": "streamdec.server",
    "tiktoken": "streamdec.backends",
    # The last makes tokenizers, of which the first makes backends; the other stands in for a class.
    "tokenizers": ("streamdec.backends", "streamdec.compat", "streamdec.testing"),
    "uvicorn": "streamdec.server",
}
"""Other people's packages, and the only folders of ours that know them."""


class Import(NamedTuple):
    """One import: who, what, and whether only for the type checker."""

    importer: str
    imported: str
    typing_only: bool


# --- reading --------------------------------------------------------------------------------------


def read_sources() -> dict[str, str]:
    """Module name to source text, for every module of streamdec."""
    paths = sorted((ROOT / "streamdec").rglob("*.py"))
    return {module_name(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(module: str, source: str, modules: set[str]) -> Iterator[Import]:
    """Every import anywhere in ``source``; ``from package import module`` names the module."""
    tree = ast.parse(source)
    typing_only = {id(inner) for node in ast.walk(tree) for inner in guarded_nodes(node)}
    for node in ast.walk(tree):
        for imported in names_of(node, modules):
            yield Import(module, imported, id(node) in typing_only)


def guarded_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes under ``if TYPE_CHECKING:``."""
    if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
        for statement in node.body:
            yield from ast.walk(statement)


def names_of(node: ast.AST, modules: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide where they go"
        assert node.module is not None
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in modules else node.module


# --- judging --------------------------------------------------------------------------------------


def faults_of(sources: Mapping[str, str]) -> list[str]:
    """A sentence for everything that is not as the house wants it."""
    modules = set(sources)
    imports = [found for name in sources for found in imports_of(name, sources[name], modules)]
    undeclared = [name for name in sources if floor_of(name) is None]
    return (
        [f"{name} has no floor" for name in undeclared]
        + [fault for found in imports for fault in faults_of_import(found)]
        + [f"a cycle: {' -> '.join(cycle)}" for cycle in cycles(imports)]
    )


def floor_of(module: str) -> float | None:
    if module in MODULES:
        return MODULES[module]
    return next((FOLDERS[folder] for folder in FOLDERS if is_within(module, folder)), None)


def folder_of(module: str) -> str | None:
    return next((folder for folder in FOLDERS if is_within(module, folder)), None)


def is_within(module: str, folder: str) -> bool:
    return module == folder or module.startswith(f"{folder}.")


def faults_of_import(found: Import) -> Iterator[str]:
    importer, imported, _ = found
    if not points_down(found):
        yield f"{importer} imports {imported}, which does not stand below it"
    if is_within(importer, "streamdec.core") and not is_for_core(imported):
        yield f"{importer} imports {imported}: core knows the standard library and the nouns only"
    if is_within(importer, "streamdec.backends") and is_within(imported, "streamdec.core"):
        yield f"{importer} imports {imported}: backends and core never meet"
    homes = HOMES.get(imported.partition(".")[0], importer)
    homes = (homes,) if isinstance(homes, str) else homes
    if not any(is_within(importer, home) for home in homes):
        yield f"{importer} imports {imported}, which belongs to {' and '.join(homes)}"


def points_down(found: Import) -> bool:
    above, below = floor_of(found.importer), floor_of(found.imported)
    if above is None or below is None:  # an undeclared module is a fault of its own
        return True
    if above == below == 0 and found.typing_only:
        return True
    return above > below or is_shared(found, above)


def is_shared(found: Import, floor: float) -> bool:
    folder = folder_of(found.importer)
    return floor >= FIRST_SHARED_FLOOR and folder is not None and is_within(found.imported, folder)


def is_for_core(imported: str) -> bool:
    if is_within(imported, "streamdec.core") or MODULES.get(imported, 1) < 1:
        return True
    return imported.partition(".")[0] in sys.stdlib_module_names


def cycles(imports: list[Import]) -> list[list[str]]:
    """The first cycle among our own modules, if there is one; typing does not make one."""
    graph: dict[str, set[str]] = {}
    for importer, imported, typing_only in imports:
        if is_within(imported, "streamdec") and not typing_only:
            graph.setdefault(importer, set()).add(imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [error.args[1]]
    return []


# --- the tests ------------------------------------------------------------------------------------


def test_every_module_stands_on_its_floor_and_imports_point_down() -> None:
    assert faults_of(read_sources()) == []


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        (
            {
                "streamdec.core.utf8": "from streamdec.core import window",
                "streamdec.core.window": "",
            },
            "streamdec.core.utf8 imports streamdec.core.window, which does not stand below it",
        ),
        (
            {"streamdec.errors": "import streamdec.chunks"},
            "streamdec.errors imports streamdec.chunks, which does not stand below it",
        ),
        (
            {"streamdec.core.stops.matcher": "def late():\n    import regex"},
            "core knows the standard library and the nouns only",
        ),
        (
            {"streamdec.backends.hybrid": "from streamdec.core.utf8 import decode"},
            "backends and core never meet",
        ),
        ({"streamdec.aio": "import rich.live"}, "which belongs to streamdec.cli"),
        ({"streamdec.novelty": ""}, "streamdec.novelty has no floor"),
        (
            {
                "streamdec.cli.a": "import streamdec.cli.b",
                "streamdec.cli.b": "import streamdec.cli.a",
            },
            "a cycle",
        ),
    ],
)
def test_a_crooked_house_is_noticed(sources: dict[str, str], fault: str) -> None:
    assert any(fault in found for found in faults_of(sources))


@pytest.mark.parametrize(
    "sources",
    [
        {"streamdec.core.table": "import json\nfrom streamdec.core.utf8 import decode"},
        {"streamdec.cli.app": "import click\nfrom streamdec.cli.demo import demo"},
        {"streamdec.errors": "if TYPE_CHECKING:\n    from streamdec.chunks import Chunk"},
    ],
)
def test_a_straight_house_is_not_blamed(sources: dict[str, str]) -> None:
    assert faults_of(sources) == []


def test_every_module_begins_with_what_it_is() -> None:
    silent = [
        name for name, source in read_sources().items() if not ast.get_docstring(ast.parse(source))
    ]
    assert silent == []
