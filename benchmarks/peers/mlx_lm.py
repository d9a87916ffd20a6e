"""mlx-lm's streaming detokenizers: ``add_token`` and the ``last_segment`` for each token."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

from benchmarks.peers.kit import Kit, PeerMissingError
from benchmarks.peers.peer import Peer
from benchmarks.subjects import Subject

_FILE = "mlx_lm/tokenizer_utils.py"
_OWN = {"ByteLevel": "BPEStreamingDetokenizer", "ByteFallback": "SPMStreamingDetokenizer"}


class _Mlx(Peer):
    """All of mlx-lm's detokenizers. A stream shares the tables of the first."""

    def _begin(self, kit: Kit, subject: Subject, name: str) -> None:
        names = ("StreamingDetokenizer", "_byte_decoder", name)
        found = kit.definitions("mlx-lm", _FILE, names)
        self._first = found[name](kit.tokenizer(subject.path))

    def open(self) -> Any:
        # As the engine does it: the tables are made once.
        stream = copy(self._first)
        stream.reset()
        return stream

    def step(self, stream: Any, token_id: int) -> str:
        stream.add_token(token_id)
        text: str = stream.last_segment
        return text

    def end(self, stream: Any) -> str:
        stream.finalize()
        text: str = stream.last_segment
        return text

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        add_token = stream.add_token
        for token_id in token_ids:
            add_token(token_id)
            stream.last_segment  # noqa: B018


class MlxOwn(_Mlx):
    """The detokenizer with a table of the vocabulary: byte-level BPE, or SentencePiece."""

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        if subject.rule not in _OWN:
            raise PeerMissingError("mlx-lm has only the naive detokenizer for this tokenizer")
        self.name = "mlx-lm BPE" if subject.rule == "ByteLevel" else "mlx-lm SPM"
        self._begin(kit, subject, _OWN[subject.rule])


class MlxNaive(_Mlx):
    """The detokenizer for other tokenizers, which decodes the line again at each token."""

    name = "mlx-lm naive"

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        self._begin(kit, subject, "NaiveStreamingDetokenizer")
