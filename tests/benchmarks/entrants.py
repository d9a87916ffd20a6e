"""The contestants that only the benchmark of the repository has.

Cold tokenizers, cold stops, sections, and the least code that a step could be.
The other ones are those of ``streamdec bench`` (:mod:`streamdec.bench.entrants`), and the engines'
detokenizers in :mod:`tests.benchmarks.peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer

from streamdec import (
    DecodeStream,
    HuggingFaceTokenizer,
    StopConditions,
    StopSequenceDecoder,
)
from streamdec.bench.entrants import HF, OURS, Ours, Stopping
from streamdec.core.masks import MOVES
from streamdec.protocols import Decoder

__all__ = [
    "NO_STOPS",
    "ColdStops",
    "ColdTokenizer",
    "Counting",
    "LookUp",
    "Sectioned",
    "stopping",
]

NO_STOPS = f"{HF} (matches no stops)"


def stopping(
    name: str, tokenizer: Decoder, stops: Iterable[str], max_tokens: int | None = None
) -> Stopping:
    """Return streamdec with ``stops``, which all its streams share."""
    return Stopping(tokenizer, StopConditions(stops, max_tokens=max_tokens), name)


class ColdTokenizer(Ours):
    """streamdec with a cold cache: each stream has a new tokenizer object."""

    name = f"{OURS}, cold tokenizer"

    def __init__(self, library: Tokenizer) -> None:
        self._library = library

    def open(self) -> DecodeStream:
        return DecodeStream(HuggingFaceTokenizer(self._library))


class ColdStops:
    """streamdec with new stops for each stream. The time includes making the conditions."""

    def __init__(
        self, name: str, tokenizer: HuggingFaceTokenizer, draw: Callable[[], list[str]]
    ) -> None:
        """``draw``: returns other stops each time."""
        self.name = name
        self.tokenizer = tokenizer
        self._draw = draw

    def open(self) -> list[str]:
        return self._draw()

    def begin(self, stops: list[str]) -> StopSequenceDecoder:
        """Return the stream."""
        return StopSequenceDecoder(self.tokenizer, StopConditions(stops))

    def drive(self, stream: list[str], token_ids: Sequence[int]) -> None:
        step = self.begin(stream).step
        for token_id in token_ids:
            step(token_id)

    def texts(self, token_ids: Sequence[int]) -> list[str]:
        return Stopping(self.tokenizer, StopConditions(self._draw())).texts(token_ids)


class Sectioned(Stopping):
    """streamdec with a section of reasoning, outside of it or inside. The text has no marker."""

    def __init__(self, tokenizer: Decoder, *, is_inside: bool) -> None:
        super().__init__(tokenizer, StopConditions(), f"{'in' if is_inside else 'out'}side")
        self._is_inside = is_inside

    def open(self) -> StopSequenceDecoder:
        sections = {"reasoning": ("<think>", "</think>")}
        return StopSequenceDecoder(self.tokenizer, sections=sections, starts_inside=self._is_inside)


# --- bounds of the step ---------------------------------------------------------------------------


class _BareStream:
    """The state that a step reads, of a stream with a warm table."""

    __slots__ = ("_count", "_row", "_stream")

    def __init__(self, tokenizer: Decoder) -> None:
        self._stream = DecodeStream(tokenizer)
        self._row, self._count = self._stream._row, self._stream._count

    def flush(self) -> str:
        self._stream._row = self._row
        return self._stream.flush()


class _LookUpStream(_BareStream):
    __slots__ = ()

    def step(self, token_id: int) -> str:
        chunk, mask, _, row = self._row[token_id]
        if mask >= MOVES:
            self._row = row
        text: str = chunk.text
        return text


class _CountingStream(_BareStream):
    __slots__ = ()

    def step(self, token_id: int) -> str:
        chunk, mask, tally, row = self._row[token_id]
        if mask >= MOVES:
            self._row = row
        self._count += tally
        text: str = chunk.text
        return text


class LookUp(Ours):
    """A step that only looks up, in a warm table. It counts nothing and checks nothing."""

    name = "a look-up"

    def open(self) -> Any:
        return _LookUpStream(self.tokenizer)


class Counting(Ours):
    """A step that looks up and counts. It checks nothing."""

    name = "a look-up and a count"

    def open(self) -> Any:
        return _CountingStream(self.tokenizer)
