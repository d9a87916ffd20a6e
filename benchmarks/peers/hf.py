"""transformers' streamer and its stop criterion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.peers.kit import Kit, PeerMissingError
from benchmarks.peers.peer import Peer
from benchmarks.subjects import Subject

__all__ = ["HfStops", "HfStreamer"]


class _Ids:
    """The part of a tensor with one id that ``put`` uses, without its cost."""

    shape = (1,)

    def __init__(self) -> None:
        self.ids = [0]

    def tolist(self) -> list[int]:
        return self.ids


class HfStreamer(Peer):
    """``TextIteratorStreamer``: ``put`` and the next text of each token. It outputs words."""

    name = "transformers TextIteratorStreamer"
    tokens = 512

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        if stops:
            raise PeerMissingError("transformers' streamers match no stop strings")
        self._class = kit.transformers.TextIteratorStreamer
        self._tokenizer = kit.tokenizer(subject.path)

    def open(self) -> Any:
        return self._class(self._tokenizer, skip_special_tokens=True)

    def step(self, stream: Any, token_id: int) -> str:
        ids = _Ids()
        ids.ids = [token_id]
        stream.put(ids)
        text: str = next(stream)
        return text

    def last(self, stream: Any, token_id: int) -> str:
        text = self.step(stream, token_id)
        stream.end()
        return text + "".join(stream)

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        ids, put = _Ids(), stream.put
        for token_id in token_ids:
            ids.ids = [token_id]
            put(ids)
            next(stream)


class HfStops:
    """``StopStringCriteria`` on a sequence of ids, called after each token as in ``generate``.

    It returns whether a stop is complete, and no text.
    """

    name = "transformers StopStringCriteria"

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str]) -> None:
        """Make its tables, which is most of the cost."""
        self._torch = kit.torch
        self._criteria = kit.transformers.StopStringCriteria(kit.tokenizer(subject.path), [*stops])

    def open(self) -> None:
        """Return None, because it stores no part of a sequence."""

    def drive(self, stream: None, token_ids: Sequence[int]) -> None:
        ids, criteria = self._torch.tensor([[*token_ids]]), self._criteria
        for end in range(1, len(token_ids) + 1):
            criteria(ids[:, :end], None)

    def text(self, token_ids: Sequence[int]) -> str:
        return ""
