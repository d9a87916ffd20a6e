"""A tokenizer that has only ``decode``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Bare:
    """A tokenizer of which only ``decode`` is left: its streams take the windowed route."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text
