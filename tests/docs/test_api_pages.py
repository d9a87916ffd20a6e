"""The pages of the API have every public name, once. Whether they are sound Sphinx says."""

from __future__ import annotations

import importlib
import re
from types import FunctionType
from typing import Any

from tests.support.docstrings import DOORS, public_names
from tests.support.pages import ROOT, Page

PAGES = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. (currentmodule|auto[a-z]+):: (\S+)$", re.MULTILINE)


def _documented() -> list[tuple[str, Any]]:
    """What the pages have: the public path of each name, and the thing."""
    found: list[tuple[str, Any]] = []
    for page in PAGES:
        module = ""
        for directive, name in DIRECTIVE.findall(page.read_text("utf-8")):
            if directive == "currentmodule":
                module = name
            else:
                found.append((f"{module}.{name}", getattr(importlib.import_module(module), name)))
    return found


def _key(thing: Any, path: str) -> str:
    """What tells things apart: classes and functions are reached by more than one path."""
    if isinstance(thing, type | FunctionType):
        return f"{thing.__module__}.{thing.__qualname__}"
    return path


PUBLIC = {
    f"{door}.{name}": _key(thing, f"{door}.{name}")
    for door in DOORS
    for name, thing in public_names(door).items()
}
"""Each public path, and what tells it from others."""


def test_every_public_name_has_its_place() -> None:
    keys = [_key(thing, path) for path, thing in _documented()]
    assert sorted({*keys}) == sorted(keys)
    errors = Page("docs/reference/errors.md").text
    missing = {path for path, key in PUBLIC.items() if key not in keys}
    assert {path for path in missing if f"`{path.rpartition('.')[2]}`" not in errors} == set()


def test_the_pages_have_nothing_that_is_not_public() -> None:
    documented = {path: _key(thing, path) for path, thing in _documented()}
    assert {path for path, key in documented.items() if key not in PUBLIC.values()} == set()
