"""The entrants of the benchmark: streamdec and the baselines for comparison.

A baseline is the stream of the tokenizer's own library, or the usual code around its ``decode``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from streamdec.backends.library_stream import library_decode, library_stream, library_tokenizer
from streamdec.bench.clock import Driver
from streamdec.core.conditions import StopConditions
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.protocols import Decoder

HF = "HF DecodeStream"
OURS = "streamdec"

REPLACEMENT = "\ufffd"


class Entrant(Driver, Protocol):
    """A way to turn ids into text one by one."""

    name: str

    def texts(self, token_ids: Sequence[int]) -> Iterable[str]:
        """Return the text that each of ``token_ids`` completes, and the text at the end."""
        ...


class Rival(Entrant, Protocol):
    """A stream of another library, behind which a matcher of stops can be put."""

    def stepper(self, stream: Any) -> Callable[[int], str | None]:
        """Return the step of ``stream`` as a function of the id only."""
        ...


def text_of(entrant: Entrant, token_ids: Sequence[int]) -> str:
    """Return the whole text of a stream of ``token_ids``, including its end."""
    return "".join(entrant.texts(token_ids))


class _Stepping:
    """A contestant whose streams have a ``step`` that takes an id."""

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        step = stream.step
        for token_id in token_ids:
            step(token_id)


# --- streamdec ------------------------------------------------------------------------------------


class Ours(_Stepping):
    """streamdec without stops, on a tokenizer that all its streams share."""

    name = OURS

    def __init__(self, tokenizer: Decoder) -> None:
        self.tokenizer = tokenizer

    def open(self) -> DecodeStream:
        return DecodeStream(self.tokenizer)

    def texts(self, token_ids: Sequence[int]) -> list[str]:
        stream = self.open()
        return [*map(stream.step, token_ids), stream.flush()]


class Stopping(_Stepping):
    """streamdec with stops. It reads no id after the stop that ends a stream."""

    def __init__(
        self, tokenizer: Decoder, conditions: StopConditions, name: str = f"{OURS} with stops"
    ) -> None:
        self.tokenizer = tokenizer
        self.conditions = conditions
        self.name = name

    def open(self) -> StopSequenceDecoder:
        return StopSequenceDecoder(self.tokenizer, self.conditions)

    def texts(self, token_ids: Sequence[int]) -> list[str]:
        stream = self.open()
        texts = ["" if stream.finished else stream.step(i).text for i in token_ids]
        return [*texts, stream.flush().text]


# --- the others -----------------------------------------------------------------------------------


class Library:
    """``tokenizers.decoders.DecodeStream``, in Rust."""

    name = HF

    def __init__(self, library: Any) -> None:
        """``library``: a ``tokenizers.Tokenizer``."""
        self.library = library

    def open(self) -> Any:
        return library_stream()

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        step, library = stream.step, self.library
        for token_id in token_ids:
            step(library, token_id)

    def stepper(self, stream: Any) -> Callable[[int], str | None]:
        step, library = stream.step, self.library

        def one(token_id: int) -> str | None:
            text: str | None = step(library, token_id)
            return text

        return one

    def texts(self, token_ids: Sequence[int]) -> list[str]:
        # Its streams have no end, so text that is still withheld is lost.
        return [*(text or "" for text in map(self.stepper(self.open()), token_ids)), ""]


class OffsetWindow:
    """The loop of text-generation-inference and vLLM over a library's ``decode``.

    The text of the ids from ``prefix`` to ``read`` was output. The text that later ids add to it is
    new, unless it ends in U+FFFD, which may be an unfinished character.
    """

    __slots__ = ("_decode", "_ids", "_prefix", "_read")

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._ids: list[int] = []
        self._prefix = self._read = 0

    def step(self, token_id: int) -> str:
        """Return the text that ``token_id`` completes."""
        self._ids.append(token_id)
        before, after = self._texts()
        if len(after) <= len(before) or after.endswith(REPLACEMENT):
            return ""
        self._prefix, self._read = self._read, len(self._ids)
        return after[len(before) :]

    def end(self) -> str:
        """Return the remaining text."""
        before, after = self._texts()
        return after[len(before) :]

    def _texts(self) -> tuple[str, str]:
        before = self._decode(self._ids[self._prefix : self._read])
        return before, self._decode(self._ids[self._prefix :])


class Windowed(_Stepping):
    """The offset window over ``decode``, for libraries that have no stream."""

    def __init__(self, library: str, decode: Callable[[list[int]], str]) -> None:
        self.name = f"{library}, offset window"
        self._decode = decode

    def open(self) -> OffsetWindow:
        return OffsetWindow(self._decode)

    def stepper(self, stream: OffsetWindow) -> Callable[[int], str]:
        return stream.step

    def texts(self, token_ids: Sequence[int]) -> list[str]:
        stream = self.open()
        return [*map(stream.step, token_ids), stream.end()]


def rival_of(tokenizer: Decoder) -> Rival:
    """Return the alternative to streamdec.

    It is DecodeStream, or a loop over the library's decode.
    """
    library = library_tokenizer(tokenizer)
    return Library(library) if library is not None else Windowed(*library_decode(tokenizer))


# --- stops, the usual way -------------------------------------------------------------------------


def fixed_window(stops: Iterable[str]) -> int:
    """Return how many characters a fixed window withholds.

    That is one less than the length of the longest stop.
    """
    return max(map(len, stops), default=1) - 1


def first_stop(text: str, stops: Iterable[str]) -> int | None:
    """Return the index of the stop that is complete first; None without a stop.

    If several are complete at the same character, it is the longest one.
    """
    places = [(text.find(stop), len(stop)) for stop in stops if stop in text]
    if not places:
        return None
    return min(places, key=lambda found: (found[0] + found[1], found[0]))[0]


class StopWindow:
    """Withholds one character less than the longest stop has.

    All stops are searched at each step.
    """

    __slots__ = ("_held", "_hold", "_stops", "stopped")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = stops
        self._hold = fixed_window(stops)
        self._held = ""
        self.stopped = False

    def add(self, text: str) -> str:
        """Return the text pushed out of the window by ``text``, or that before a stop."""
        held = self._held + text
        for stop in self._stops:
            if stop in held:
                self.stopped, self._held = True, ""
                return held[: first_stop(held, self._stops)]
        out = max(len(held) - self._hold, 0)
        self._held = held[out:]
        return held[:out]

    def end(self) -> str:
        """Return the remaining text."""
        return self._held


class FixedWindow:
    """A rival's stream with a fixed window behind it."""

    def __init__(self, rival: Rival, stops: Sequence[str]) -> None:
        self.name = f"{rival.name} + fixed window"
        self._rival = rival
        self._stops = stops

    def open(self) -> tuple[Callable[[int], str | None], StopWindow]:
        return self._rival.stepper(self._rival.open()), StopWindow(self._stops)

    def drive(self, stream: Any, token_ids: Sequence[int]) -> None:
        step, window = stream
        add = window.add
        for token_id in token_ids:
            text = step(token_id)
            if text:
                add(text)

    def texts(self, token_ids: Sequence[int]) -> list[str]:
        # The rival's own end may give more text, which goes through the window as well.
        window = StopWindow(self._stops)
        given = [
            window.add(text) if text and not window.stopped else ""
            for text in self._rival.texts(token_ids)
        ]
        return [*given[:-1], given[-1] + window.end()]
