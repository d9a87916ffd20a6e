"""What the laws are tried on: what the conformance kit gives to everyone."""

from __future__ import annotations

from streamdec.testing.strategies import cuts, running_text, token_ids
from streamdec.testing.subjects import Subject

__all__ = ["Subject", "cuts", "running_text", "token_ids"]
