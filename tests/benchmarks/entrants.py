"""Who takes part: each opens a stream, drives ids through it, and says which text came out.

A further one (an engine's detokenizer, read out of its wheel) is a class here and a line in
:func:`entrants`; every case then runs it and gives streamdec's ratio to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream as LibraryDecodeStream

from streamdec import DecodeStream, HuggingFaceTokenizer, StopConditions, StopSequenceDecoder

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

OURS = "streamdec"
HF = "HF DecodeStream"


class Entrant(Protocol):
    """A way to turn ids into text one by one."""

    name: str

    def open(self) -> Any:
        """A stream that is ready for its first token; never timed."""
        ...

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        """Steps through ``token_ids`` and drops the text: this, and nothing else, is timed."""
        ...

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


class Ours:
    """streamdec, on a tokenizer that all its streams share."""

    name = OURS

    def __init__(self, tokenizer: HuggingFaceTokenizer) -> None:
        self.tokenizer = tokenizer

    def open(self) -> DecodeStream:
        return DecodeStream(self.tokenizer)

    def drive(self, stream: DecodeStream, token_ids: Sequence[int]) -> None:
        _walk(stream.step, token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        stream = self.open()
        texts = [stream.step(token_id) for token_id in token_ids]
        return "".join(texts) + stream.flush()


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


class Stopping:
    """streamdec with stop strings, on a tokenizer and conditions that all its streams share."""

    def __init__(
        self,
        name: str,
        tokenizer: HuggingFaceTokenizer,
        stops: Iterable[str],
        max_tokens: int | None = None,
    ) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.conditions = StopConditions(stops, max_tokens=max_tokens)

    def open(self) -> StopSequenceDecoder:
        return StopSequenceDecoder(self.tokenizer, self.conditions)

    def drive(self, stream: StopSequenceDecoder, token_ids: Sequence[int]) -> None:
        _walk(stream.step, token_ids)

    def text(self, token_ids: Sequence[int]) -> str:
        return _text(self.open(), token_ids)


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


class Library:
    """``tokenizers.decoders.DecodeStream``: the same job in Rust, from where ``decode`` is."""

    name = HF

    def __init__(self, library: Tokenizer) -> None:
        self.library = library

    def open(self) -> LibraryDecodeStream:
        return LibraryDecodeStream(skip_special_tokens=True)

    def drive(self, stream: LibraryDecodeStream, token_ids: Sequence[int]) -> None:
        step, tokenizer = stream.step, self.library
        for token_id in token_ids:
            step(tokenizer, token_id)

    def text(self, token_ids: Sequence[int]) -> str:
        stream = self.open()
        texts = (stream.step(self.library, token_id) for token_id in token_ids)
        return "".join(text for text in texts if text)
