"""The configuration of the process."""

from __future__ import annotations

from types import SimpleNamespace

_serving = SimpleNamespace(reasoning_parser=None)


def get_serving() -> SimpleNamespace:
    return _serving
