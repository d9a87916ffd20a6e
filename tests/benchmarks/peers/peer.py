"""What every peer has in common: a stream is opened, stepped through, and ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

__all__ = ["Peer"]


class Peer(ABC):
    """An :class:`~streamdec.bench.entrants.Entrant` of someone else's."""

    name: str
    tokens: ClassVar[int] = 4_096
    """Most tokens of a stream that is timed; fewer for who would take too long."""
    streams: ClassVar[int] = 1
    """How many streams one stands for."""

    @abstractmethod
    def open(self) -> Any:
        """A stream that is ready for its first token; never timed."""

    @abstractmethod
    def step(self, stream: Any, token_id: int) -> str:
        """What goes out with a token."""

    @abstractmethod
    def last(self, stream: Any, token_id: int) -> str:
        """What goes out with the last token, and after it."""

    @abstractmethod
    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        """Steps through ``token_ids`` and drops the text: this, and nothing else, is timed."""

    def texts(self, token_ids: Sequence[int]) -> Iterator[str]:
        """What goes out with each token."""
        stream = self.open()
        *first, last = token_ids
        for token_id in first:
            yield self.step(stream, token_id)
        yield self.last(stream, last)
