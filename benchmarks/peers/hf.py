"""transformers' streamer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.peers.kit import Kit
from benchmarks.peers.peer import Peer
from benchmarks.subjects import Subject


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

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
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

    def end(self, stream: Any) -> str:
        stream.end()
        return "".join(stream)

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        ids, put = _Ids(), stream.put
        for token_id in token_ids:
            ids.ids = [token_id]
            put(ids)
            next(stream)
