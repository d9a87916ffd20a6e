"""Fakes: objects in the place of a decoder or a tokenizer, which have less or do something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Bare:
    """A tokenizer of which only ``decode`` is left: its streams take the windowed route."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text


class Decoding:
    """A tokenizer with only a ``decode``, which is a function of the ids."""

    def __init__(self, function: Callable[[Sequence[int]], str]) -> None:
        self._function = function

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return self._function(token_ids)


def taking_back(token_ids: Sequence[int]) -> str:
    """Return text that changes with later ids: with an 8 at once, and with a 9 in the end."""
    if 8 in token_ids:
        return "y"
    return "y\ufffd" if 9 in token_ids else "x" * len(token_ids)


class FrozenError(Exception):
    """An error that cannot be changed, like that of a frozen dataclass."""

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("__"):
            raise AttributeError(name)
        super().__setattr__(name, value)
