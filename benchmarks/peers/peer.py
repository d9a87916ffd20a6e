"""The base class of the peers: a stream is opened, stepped through, and ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar


class Peer(ABC):
    """An :class:`~streamdec.bench.entrants.Entrant` of another project."""

    name: str
    streams: ClassVar[int] = 1
    """The number of requests that one stream decodes."""

    @abstractmethod
    def open(self) -> Any:
        """Return a stream that is ready for its first token. This is not timed."""

    @abstractmethod
    def step(self, stream: Any, token_id: int) -> str:
        """Return the text that is output after a token."""

    @abstractmethod
    def end(self, stream: Any) -> str:
        """Return the text that is output at the end."""

    def last(self, stream: Any, token_id: int) -> str:
        """Return the text that is output after the last token, and at the end."""
        return self.step(stream, token_id) + self.end(stream)

    @abstractmethod
    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        """Step through ``token_ids`` and drop the text. Only this is timed."""

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of ``token_ids``, with the text at the end."""
        stream = self.open()
        *first, last = token_ids
        return "".join(self.step(stream, each) for each in first) + self.last(stream, last)
