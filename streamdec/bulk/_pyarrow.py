"""pyarrow, imported where it is used: it is an extra."""

from __future__ import annotations

from typing import Any

from streamdec.tokenizers._extras import library

WHAT = "decoding of datasets needs"


def pyarrow() -> Any:
    """The library. MissingExtraError if it is not installed."""
    return library("pyarrow", "bulk", WHAT)


def compute() -> Any:
    """Its functions on arrays."""
    return library("pyarrow.compute", "bulk", WHAT)
