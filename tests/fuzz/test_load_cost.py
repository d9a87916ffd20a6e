"""The fuzz target of loading sees what a load costs. `test_targets.py` runs its seeds."""

from __future__ import annotations

import ctypes
import faulthandler

import pytest

from fuzz import load_cost
from fuzz.load_cost import BASE_MEMORY, SHAPES, TARGET, CostError, within


def _spin() -> None:
    while True:
        pass


def _fill() -> None:
    bytearray(2 * BASE_MEMORY).find(b"a")


def _break() -> None:
    faulthandler.disable()  # pytest's would write to the terminal
    ctypes.string_at(0)


def _fail() -> None:
    raise KeyError("inside")


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (_fill, r"MiB for a file of 100 bytes, expected 3\.0 s and 64 MiB at most"),
        (_break, "the child ended with status [1-9]"),
        (_fail, "inside"),
    ],
)
def test_excessive_costs_are_found(work: object, said: str) -> None:
    with pytest.raises(CostError, match=said):
        within(work, 100)  # type: ignore[arg-type]


@pytest.mark.thorough
def test_a_child_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_cost, "BASE_SECONDS", 0.0)
    with pytest.raises(CostError, match="the child ended with status 9 "):
        within(_spin, 0)


def test_small_costs_are_not_findings() -> None:
    within(lambda: None, 0)


def test_every_shape_is_a_seed() -> None:
    seeds = b"".join(TARGET.seeds().values())
    assert [shape for shape in SHAPES if f'"{shape}"'.encode() not in seeds] == []
