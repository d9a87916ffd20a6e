"""What the tests of several commands share."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _usual_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands run with the buffers that they usually have, and without a wish for fastokens."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    monkeypatch.setenv("STREAMDEC_FAST", "off")
