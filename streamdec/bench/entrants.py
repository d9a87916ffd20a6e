"""The entrants of a benchmark: streamdec, and libraries of tokenizers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from tokenizers import decoders

from streamdec.backends.huggingface import library_tokenizer
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.protocols import Decoder
from streamdec.streams.text_iterator import iter_chunks

HF = "HF DecodeStream"
OURS = "streamdec"


class Entrant(Protocol):
    """A way to turn ids into text one by one."""

    name: str

    def open(self) -> Any:
        """Return a stream that is ready for its first token. This is not timed."""

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        """Step through ``token_ids`` and drop the text. Only this is timed."""

    def text(self, token_ids: Sequence[int]) -> str:
        """Return the text of ``token_ids``, with the text at the end."""


class _Stepping:
    """An entrant whose streams have a ``step`` that takes an id."""

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        step = stream.step
        for token_id in token_ids:
            step(token_id)


class Ours(_Stepping):
    """streamdec, on a tokenizer that all its streams share.

    With ``conditions``, it reads no id after the stop that ends a stream.
    """

    def __init__(self, tokenizer: Decoder, conditions: StopConditions | None = None) -> None:
        self.tokenizer = tokenizer
        self.conditions = conditions
        self.name = OURS if conditions is None else f"{OURS} with stops"

    def open(self) -> DecodeStream | StopSequenceDecoder:
        if self.conditions is None:
            return DecodeStream(self.tokenizer)
        return StopSequenceDecoder(self.tokenizer, self.conditions)

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(chunk.text for chunk in iter_chunks(token_ids, self.open()))


class Library:
    """``tokenizers.decoders.DecodeStream``, in Rust."""

    name = HF

    def __init__(self, library: Any) -> None:
        self.library = library

    def open(self) -> Any:
        return decoders.DecodeStream(skip_special_tokens=True)

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        step, library = stream.step, self.library
        for token_id in token_ids:
            step(library, token_id)

    def text(self, token_ids: Sequence[int]) -> str:
        # Its streams have no end, so text that is still withheld is lost.
        step = self.open().step
        return "".join(step(self.library, each) or "" for each in token_ids)


class _OffsetWindow:
    """The loop of text-generation-inference and vLLM over a library's ``decode``.

    The text of the ids from ``prefix`` to ``read`` was output. The text that later ids add to it is
    new, unless it ends in U+FFFD, which may be an unfinished character.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._prefix = self._read = 0

    def step(self, token_id: int) -> str:
        self._ids.append(token_id)
        new = self.end()
        if not new or new.endswith("\ufffd"):
            return ""
        self._prefix, self._read = self._read, len(self._ids)
        return new

    def end(self) -> str:
        before = self._decode(self._ids[self._prefix : self._read])
        return self._decode(self._ids[self._prefix :])[len(before) :]


class _Windowed(_Stepping):
    """The offset window over ``decode``, for libraries that have no stream."""

    def __init__(self, library: str, decode: Callable[[list[int]], str]) -> None:
        self.name = f"{library}, offset window"
        self._decode = decode

    def open(self) -> _OffsetWindow:
        return _OffsetWindow(self._decode)

    def text(self, token_ids: Sequence[int]) -> str:
        stream = self.open()
        return "".join(map(stream.step, token_ids)) + stream.end()


def rival_of(tokenizer: Decoder) -> Entrant:
    """Return the library's DecodeStream, or a loop over the library's ``decode``."""
    library = library_tokenizer(tokenizer)
    ask = getattr(tokenizer, "_library_decode", lambda: ("decode()", tokenizer.decode))
    return Library(library) if library is not None else _Windowed(*ask())


def first_stop(text: str, stops: Iterable[str]) -> int | None:
    """Return where the first complete stop begins, the longest of several; or None."""
    places = [(text.find(stop), len(stop)) for stop in stops if stop in text]
    return min(places, key=lambda found: (sum(found), found[0]), default=(None, 0))[0]
