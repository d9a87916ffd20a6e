"""Every test that is marked ``anyio`` runs on both event loops."""

from __future__ import annotations

import pytest
import trio  # noqa: F401  (a feed finds trio among the modules that are there, and must not mistake it)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)
