"""What the kit needs beside the core: hypothesis, or one clear error with the install line."""

from __future__ import annotations

from streamdec.tokenizers._extras import library

__all__: list[str] = []

library("hypothesis", "testing", "streamdec.testing needs")
