"""The layers of streamdec, read from the imports themselves.

A module may import modules of lower layers, and modules of its own package, without cycles.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent

NOUNS = tuple(
    f"streamdec.{name}"
    for name in (
        *("chunks", "encoding", "errors", "hooks", "jsonl"),
        *("lazy", "locks", "mistakes", "protocols"),
    )
)
LAYERS: tuple[tuple[str, ...], ...] = (
    NOUNS,
    ("streamdec.children", "streamdec.core"),
    ("streamdec.streams", "streamdec.tokenizers"),
    ("streamdec.folders", "streamdec.fastpath"),
    ("streamdec.backends",),
    ("streamdec.chat", "streamdec.metrics", "streamdec.trace"),
    ("streamdec.loading",),
    (
        *("streamdec.preflight", "streamdec.bulk", "streamdec.integrations", "streamdec.testing"),
        *("streamdec.bench", "streamdec.compat"),
    ),
    ("streamdec.server",),
    ("streamdec.cli",),
    ("streamdec.__main__",),
)
"""Packages and single modules, the lowest layer first. ``streamdec`` itself imports all of them."""

LISTS = ("streamdec.streams", "streamdec.tokenizers", "streamdec.tokenizers._chat")
"""Packages that also list names of higher layers, for type checkers. These are imported when they
are used."""

HOMES: Mapping[str, tuple[str, ...]] = {
    "click": ("streamdec.cli",),
    "fastokens": ("streamdec.fastpath",),
    "huggingface_hub": ("streamdec.loading",),
    "hypothesis": ("streamdec.testing",),
    "jinja2": ("streamdec.chat",),
    "opentelemetry": ("streamdec.metrics",),
    "prometheus_client": ("streamdec.metrics",),
    "pyarrow": ("streamdec.bulk",),
    "rich": ("streamdec.cli",),
    "sentencepiece": ("streamdec.backends",),
    # FastAPI accepts only responses of its class.
    "starlette": ("streamdec.server", "streamdec.integrations._starlette"),
    "tiktoken": ("streamdec.backends",),
    # bench compares with its stream; compat stands in for a class of the library; testing makes
    # tokenizers for backends.
    "tokenizers": (
        *("streamdec.backends", "streamdec.folders", "streamdec.fastpath"),
        *("streamdec.bench", "streamdec.compat", "streamdec.testing"),
    ),
}
"""Third-party packages, and the only packages of streamdec that import them."""


class Import(NamedTuple):
    """One import: who, what, and whether only for the type checker."""

    importer: str
    imported: str
    typing_only: bool


GUARD = "TYPE_CHECKING"
tree_of = cache(ast.parse)


@cache
def read_sources() -> dict[str, str]:
    """Module name to source text, for every module of streamdec."""
    paths = sorted((ROOT / "streamdec").rglob("*.py"))
    return {module_name(path.relative_to(ROOT)): path.read_text("utf-8") for path in paths}


def module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(module: str, source: str, modules: set[str]) -> Iterator[Import]:
    """Every import anywhere in ``source``; ``from package import module`` names the module."""
    nodes = [*ast.walk(tree_of(source))]
    guards = [node for node in nodes if getattr(getattr(node, "test", 0), "id", "") == GUARD]
    bodies = [each for guard in guards for each in getattr(guard, "body", [])]
    typing_only = {node for each in bodies for node in ast.walk(each)}
    for node in nodes:
        for imported in names_of(node, modules):
            yield Import(module, imported, node in typing_only)


def names_of(node: ast.AST, modules: set[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.module is not None
        assert node.level == 0, "relative imports hide where they go"
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if inner in modules else node.module


def faults_of(sources: Mapping[str, str]) -> list[str]:
    """A sentence for each import, and each module, that breaks a rule."""
    modules = set(sources)
    imports = [found for name in sources for found in imports_of(name, sources[name], modules)]
    return (
        [f"{name} is in no layer" for name in sources if layer_of(name) is None]
        + [fault for found in imports for fault in faults_of_import(found)]
        + [f"a cycle: {' -> '.join(cycle)}" for cycle in cycles(imports)]
    )


@cache
def home_of(module: str) -> str | None:
    """The package or module of LAYERS that ``module`` belongs to."""
    homes = (home for layer in LAYERS for home in layer)
    return next((home for home in homes if is_within(module, home)), None)


@cache
def layer_of(module: str) -> int | None:
    if module == "streamdec":
        return len(LAYERS)
    home = home_of(module)
    return next((place for place, layer in enumerate(LAYERS) if home in layer), None)


def is_within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def faults_of_import(found: Import) -> Iterator[str]:
    importer, imported, typing_only = found
    if typing_only and importer in LISTS:
        return
    above, below = layer_of(importer), layer_of(imported)
    if above is not None and below is not None:
        is_near = home_of(importer) == home_of(imported) or (above == below == 0)
        if not (above > below or is_near):
            yield f"{importer} imports {imported}, which is in no lower layer"
    if is_of_core(importer) and not is_for_core(imported):
        yield f"{importer} imports {imported}: the core imports the standard library and nouns"
    if is_within(importer, "streamdec.backends") and is_of_core(imported):
        yield f"{importer} imports {imported}: backends and core do not import each other"
    homes = HOMES.get(imported.partition(".")[0])
    if homes is not None and not any(is_within(importer, home) for home in homes):
        yield f"{importer} imports {imported}, which belongs to {' and '.join(homes)}"


def is_of_core(module: str) -> bool:
    return is_within(module, "streamdec.core")


def is_for_core(imported: str) -> bool:
    top = imported.partition(".")[0]
    return is_of_core(imported) or imported in NOUNS or top in sys.stdlib_module_names


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


def test_imports_go_to_lower_layers() -> None:
    assert faults_of(read_sources()) == []


def test_the_page_on_the_design_shows_the_layers() -> None:
    page = (ROOT / "docs/explanation/design.md").read_text("utf-8")
    block = page.partition("## The layers\n\n```text\n")[2].partition("\n```")[0]
    shown = [{f"streamdec.{name}" for name in line.split(", ")} for line in block.split("\n")]
    assert shown[::-1] == [{*layer} for layer in LAYERS if layer != ("streamdec.__main__",)]


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        (
            {"streamdec.errors": "import streamdec.core.utf8", "streamdec.core.utf8": ""},
            "streamdec.errors imports streamdec.core.utf8, which is in no lower layer",
        ),
        (
            {"streamdec.core.strings": "def late():\n    import anyio"},
            "the core imports the standard library and nouns",
        ),
        (
            {"streamdec.backends.hybrid": "from streamdec.core.utf8 import decode"},
            "backends and core do not import each other",
        ),
        ({"streamdec.streams.text_stream": "import rich.live"}, "which belongs to streamdec.cli"),
        ({"streamdec.novelty": ""}, "streamdec.novelty is in no layer"),
        ({f"streamdec.cli.{a}": f"import streamdec.cli.{b}" for a, b in ("ab", "ba")}, "a cycle"),
    ],
)
def test_an_import_that_breaks_a_rule_is_found(sources: dict[str, str], fault: str) -> None:
    assert any(fault in found for found in faults_of(sources))
