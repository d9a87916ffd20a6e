"""Fakes: objects that hold a decoder or a tokenizer, and have less or do something else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self


class Wrapper:
    """An object with the methods of a decoder.

    All that a fake does not define itself is that of the decoder, which has the class ``kind``.
    """

    kind: ClassVar[Any]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.decoder: Any = self.kind(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "decoder":  # not set yet; looking it up again would not end
            raise AttributeError(name)
        return getattr(self.decoder, name)

    @classmethod
    def restore(cls, tokenizer: Any, snapshot: Mapping[str, Any]) -> Self:
        """Return a fake whose decoder continues from ``snapshot``."""
        fake = object.__new__(cls)
        fake.decoder = cls.kind.restore(tokenizer, snapshot)
        return fake


class Bare:
    """A tokenizer of which only ``decode`` is left: its streams take the windowed route."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text: str = self._tokenizer.decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text
