"""What the tests of several commands share."""

from __future__ import annotations

import pytest

from tests.cli.running import Decoding


@pytest.fixture(autouse=True)
def _buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are tested with the buffers that they usually have, and must flush by themselves."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture
def decode(monkeypatch: pytest.MonkeyPatch) -> Decoding:
    return Decoding(monkeypatch)
