"""Who takes part: each opens a stream, drives ids through it, and says which text came out.

streamdec and the library are those of ``streamdec bench``; engines' detokenizers, read out of their
wheels, are in :mod:`tests.benchmarks.peers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from tokenizers import Tokenizer

from streamdec import DecodeStream, HuggingFaceTokenizer, StopConditions, StopSequenceDecoder
from streamdec.bench import entrants
from streamdec.bench.clock import Driver
from streamdec.bench.entrants import HF
from streamdec.protocols import Decoder

__all__ = [
    "HF",
    "OURS",
    "ColdProgram",
    "ColdStops",
    "ColdTokenizer",
    "Entrant",
    "Floor",
    "Library",
    "Ours",
    "Stopping",
]

OURS = entrants.Ours.name


class Entrant(Driver, Protocol):
    """A way to turn ids into text one by one."""

    name: str

    def text(self, token_ids: Sequence[int]) -> str:
        """The whole text of a stream of ``token_ids``, its end included."""
        ...


def _walk(step: Callable[[int], object], token_ids: Iterable[int]) -> None:
    for token_id in token_ids:
        step(token_id)


class Floor:
    """A loop that calls an empty bound method: what the calls alone cost."""

    name = "floor"

    def open(self) -> Floor:
        return self

    def step(self, token_id: int) -> None:
        """Nothing."""

    def drive(self, stream: Floor, token_ids: Sequence[int]) -> None:
        _walk(stream.step, token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        return ""


class Ours(entrants.Ours):
    """streamdec, on a tokenizer that all its streams share."""

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(self.texts(token_ids))


class ColdTokenizer(Ours):
    """streamdec where no token was ever seen: each stream has a tokenizer object of its own."""

    name = "streamdec, cold tokenizer"

    def __init__(self, library: Tokenizer) -> None:
        self._library = library

    def open(self) -> DecodeStream:
        return DecodeStream(HuggingFaceTokenizer(self._library))


class ColdProgram(ColdTokenizer):
    """streamdec where all the tokens were seen, but never with these options."""

    name = "streamdec, cold program"

    def __init__(self, library: Tokenizer, seen: Sequence[int]) -> None:
        super().__init__(library)
        self._seen = seen

    def open(self) -> DecodeStream:
        tokenizer = HuggingFaceTokenizer(self._library)
        Ours(tokenizer).text(self._seen)
        return DecodeStream(tokenizer, unknown_ids="error")


class Stopping(entrants.Stopping):
    """streamdec with stop strings, on a tokenizer and conditions that all its streams share."""

    def __init__(
        self,
        name: str,
        tokenizer: Decoder,
        stops: Iterable[str],
        max_tokens: int | None = None,
    ) -> None:
        super().__init__(tokenizer, StopConditions(stops, max_tokens=max_tokens))
        self.name = name

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(self.texts(token_ids))


class ColdStops:
    """streamdec with stops that nobody had before: conditions and all are timed."""

    def __init__(
        self, name: str, tokenizer: HuggingFaceTokenizer, draw: Callable[[], list[str]]
    ) -> None:
        """``draw``: gives other stops each time."""
        self.name = name
        self.tokenizer = tokenizer
        self._draw = draw

    def open(self) -> list[str]:
        return self._draw()

    def begin(self, stops: list[str]) -> StopSequenceDecoder:
        """The stream itself."""
        return StopSequenceDecoder(self.tokenizer, StopConditions(stops))

    def drive(self, stream: list[str], token_ids: Sequence[int]) -> None:
        _walk(self.begin(stream).step, token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        return _text(self.begin(self.open()), token_ids)


def _text(stream: StopSequenceDecoder, token_ids: Iterable[int]) -> str:
    """What comes out until a stop, of which there should be none, or the end."""
    texts: list[str] = []
    for token_id in token_ids:
        texts.append(stream.step(token_id).text)
        if stream.finished:
            break
    return "".join(texts) + stream.flush().text


class Library(entrants.Library):
    """``tokenizers.decoders.DecodeStream``: the same job in Rust, from where ``decode`` is."""

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(self.texts(token_ids))
