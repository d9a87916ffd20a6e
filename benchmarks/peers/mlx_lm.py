"""mlx-lm's streaming detokenizers: ``add_token`` and the ``last_segment`` for each token."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar

from benchmarks.peers.kit import Kit
from benchmarks.subjects import Subject

__all__ = ["MlxNaive", "MlxOwn"]

_FILE = "mlx_lm/tokenizer_utils.py"


class _Mlx:
    """All of mlx-lm's detokenizers. A stream shares the tables of the first."""

    made: ClassVar[str]
    """The name of the class."""

    def __init__(self, kit: Kit, subject: Subject, stops: Sequence[str] = ()) -> None:
        names = ("StreamingDetokenizer", "_byte_decoder", self.made)
        found = kit.definitions("mlx-lm", _FILE, names)
        self._first = found[self.made](kit.tokenizer(subject.path))

    def open(self) -> Any:
        # As the engine does it: the tables are made once.
        stream = copy(self._first)
        stream.reset()
        return stream

    def step(self, stream: Any, token_id: int) -> str:
        stream.add_token(token_id)
        text: str = stream.last_segment
        return text

    def last(self, stream: Any, token_id: int) -> str:
        text = self.step(stream, token_id)
        stream.finalize()
        rest: str = stream.last_segment
        return text + rest


class MlxOwn(_Mlx):
    """The detokenizer of byte-level BPE, which has a table of the vocabulary."""

    name = "mlx-lm BPE"
    made = "BPEStreamingDetokenizer"


class MlxNaive(_Mlx):
    """The detokenizer for other tokenizers, which decodes the line again at each token."""

    name = "mlx-lm naive"
    made = "NaiveStreamingDetokenizer"
