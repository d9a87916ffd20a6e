"""The test that runs all checks, for those who need no test file of their own.

pytest -p streamdec.testing.plugin --pyargs streamdec.testing.suite --detokenizer module:callable
"""

from __future__ import annotations

from typing import Any

from streamdec.testing.plugin import ConformanceCheck

__all__ = ["test_detokenizer"]


def test_detokenizer(conformance_check: ConformanceCheck, detokenizer: Any) -> None:
    """Each bug case and each law."""
    conformance_check(detokenizer)
