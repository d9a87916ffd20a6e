"""The pages of the API have every public name, once. Whether they are sound Sphinx says."""

from __future__ import annotations

import importlib
import re
from types import FunctionType
from typing import Any

from tests.support.pages import Page
from tests.support.public_api import DOORS, documented, is_error, public_names


def _key(door: str, name: str, thing: Any) -> str:
    """What tells things apart: classes and functions are reached by more than one path."""
    if isinstance(thing, type | FunctionType):
        return f"{thing.__module__}.{thing.__qualname__}"
    return f"{door}.{name}"


PUBLIC = {
    _key(door, name, thing): thing for door in DOORS for name, thing in public_names(door).items()
}
DOCUMENTED = [
    _key(door, name, getattr(importlib.import_module(door), name)) for door, name in documented()
]


def test_every_public_name_has_its_place() -> None:
    assert sorted({*DOCUMENTED}) == sorted(DOCUMENTED)
    errors = Page("docs/reference/errors.md").text
    missing = {key: PUBLIC[key] for key in PUBLIC.keys() - {*DOCUMENTED}}
    assert {
        key
        for key, thing in missing.items()
        if not (is_error(thing) and re.search(rf"\b{thing.__name__}\b", errors))
    } == set()


def test_the_pages_have_nothing_that_is_not_public() -> None:
    assert len(DOCUMENTED) > 100
    assert {*DOCUMENTED} - PUBLIC.keys() == set()
