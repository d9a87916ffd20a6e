"""Import hypothesis, or raise an error with the install command."""

from __future__ import annotations

from streamdec.tokenizers._extras import library

__all__: list[str] = []

library("hypothesis", "testing", "streamdec.testing needs")
