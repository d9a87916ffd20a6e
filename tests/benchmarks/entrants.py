"""The contestants that only the benchmark of the repository has: cold tokenizers and cold stops.

The other ones are those of ``streamdec bench`` (:mod:`streamdec.bench.entrants`), and the engines'
detokenizers in :mod:`tests.benchmarks.peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tokenizers import Tokenizer

from streamdec import DecodeStream, HuggingFaceTokenizer, StopConditions, StopSequenceDecoder
from streamdec.bench.entrants import HF, OURS, Ours, Stopping
from streamdec.protocols import Decoder

__all__ = ["NO_STOPS", "ColdStops", "ColdTokenizer", "stopping"]

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
