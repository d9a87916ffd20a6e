"""The public API is what ``tests/public_api.txt`` says, and that file notices what users would."""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from tests.support.public_api import documented

ROOT = Path(__file__).resolve().parent.parent
SCRIPT: Mapping[str, Any] = runpy.run_path(str(ROOT / "scripts" / "make_api_snapshot.py"))
SNAPSHOT: Path = SCRIPT["TARGET"]


def test_the_public_api_is_that_of_the_snapshot() -> None:
    written, found = SNAPSHOT.read_text("utf-8").splitlines(), SCRIPT["page"]().splitlines()
    difference = list(unified_diff(written, found, str(SNAPSHOT.name), "the code", lineterm=""))
    advice = "if users are meant to see this, run: python scripts/make_api_snapshot.py"
    assert not difference, "\n".join([advice, *difference])


def test_the_snapshot_has_every_name_of_the_reference() -> None:
    """The pages and the snapshot have the same public names."""
    written = re.compile(r"^(?:\w+ )*(streamdec[\w.]*)", re.MULTILINE)
    known = set(written.findall(SNAPSHOT.read_text("utf-8")))
    assert {f"{module}.{name}" for module, name in documented()} - known == set()


# --- what it notices ------------------------------------------------------------------------------


EXAMPLE = """
from __future__ import annotations
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, Required, TypedDict, Unpack

__all__ = ["Colour", "Mode", "Paint", "Part", "Point", "Thing", "number"]
Mode = Literal["a", "b"]
Size = Literal["big", "small"]
Text = str | bytes
number = 1.5

class Options(TypedDict, total=False):
    size: Required[int]
    name: str

class Colour(Enum):
    RED = "red"

Paint = Colour

@dataclass(frozen=True)
class Part:
    mode: Mode
    size: Size = "big"

class Point(NamedTuple):
    x: int
    y: int = 0

class Thing:
    kind = "thing"
    limit: int

    def __init__(self, name: str, *, size: int = 3) -> None:
        self.name = name
        self._size = size

    def __len__(self) -> int:
        return self._size

    def _inner(self) -> None: ...

    @property
    def size(self) -> int:
        return self._size

    @classmethod
    def made(cls, *names: str, **options: Unpack[Options]) -> Thing:
        return cls(*names, **options)

    async def run(self, one: int, /, two: Text = "x") -> None: ...
"""
WRITTEN = """\
# streamdec_example

class streamdec_example.Colour(Enum):
    RED = 'red'
streamdec_example.Mode = Literal['a', 'b']
streamdec_example.Paint = streamdec_example.Colour
@dataclass(frozen=True)
class streamdec_example.Part:
    (mode: Mode, size: Size = 'big')
    mode: Mode
    size: Size
class streamdec_example.Point(NamedTuple):
    (x: int, y: int = 0)
    x: int
    y: int
class streamdec_example.Thing:
    (name: str, *, size: int = 3)
    def __len__(self) -> int
    kind = 'thing'
    limit: int
    @classmethod
    def made(cls, *names: str, **options: Unpack[Options]) -> Thing
    name: str
    async def run(self, one: int, /, two: Text = 'x') -> None
    size: int
streamdec_example.number = 1.5
# Options that signatures unpack

class streamdec_example.Options(TypedDict):
    name: str
    size: int (required)
# Types that signatures name

Size = Literal['big', 'small']
Text = str | bytes
"""


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module that has one of everything."""
    (tmp_path / "streamdec_example.py").write_text(EXAMPLE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "streamdec_example"
    sys.modules.pop("streamdec_example", None)


def test_every_reachable_public_name_is_in_the_snapshot(example: str) -> None:
    writer = SCRIPT["Writer"]()
    assert writer.module(example) + writer.options() + writer.aliases() == WRITTEN
