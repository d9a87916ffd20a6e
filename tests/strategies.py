"""The cases of the laws: those of the public conformance kit."""

from __future__ import annotations

from streamdec.testing.strategies import cuts, running_text, token_ids
from streamdec.testing.subjects import Subject

__all__ = ["Subject", "cuts", "running_text", "token_ids"]
