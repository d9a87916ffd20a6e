"""The public API is what ``tests/public_api.txt`` says, and that file notices what users would."""

from __future__ import annotations

import re
import runpy
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

from tests.support.public_api import documented

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
