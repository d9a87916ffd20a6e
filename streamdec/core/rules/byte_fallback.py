r"""Rules for byte fallback: byte tokens such as ``<0xE4>``, and runs of them.

*Eager*: bytes are output as they arrive, and each bad byte is one U+FFFD (the rule of the
SentencePiece library); FixedBytes does that, and EagerRuns if Metaspace follows. *Exact*: a run is
withheld until it closes, because one bad byte turns every byte of the run into U+FFFD (the rule of
the ``tokenizers`` library). Once a run is certainly bad, each of its bytes becomes a U+FFFD at
once. An example of the exact mode:

    token     "a"   <0xE4>  <0xBD>  <0xA0>  "b"          <0xE4>  "c"
    output    "a"   ""      ""      ""      "\u4f60b"    ""      "\ufffdc"

The complete characters of a run that the prompt opened are the prompt's text. After the prompt
only the bytes of its unfinished character remain in the run.
"""

from __future__ import annotations

import re
from typing import Any

from streamdec.core import utf8
from streamdec.core.rules.base import REPLACEMENT_BYTES, Prepare, TokenRule, expect
from streamdec.core.rules.contextual import metaspace_forms
from streamdec.protocols import Metaspace

_BYTE_PIECE = re.compile("<0x([0-9A-Fa-f]{2}|[+][0-9A-Fa-f])>")
"""As the library parses the digits, with Rust's ``u8::from_str_radix``: ``<0x+5>`` is a byte."""


def fallback_byte(piece: str) -> int | None:
    """Return the byte that a piece like ``<0xE4>`` stands for, or None."""
    found = _BYTE_PIECE.fullmatch(piece)
    return None if found is None else int(found[1], 16)


def fallback_bytes(piece: str) -> bytes:
    """Return a byte piece as its byte, any other piece as UTF-8."""
    byte = fallback_byte(piece)
    return piece.encode() if byte is None else bytes([byte])


def byte_or_bytes(piece: str) -> int | bytes:
    """Return a byte piece as an int, any other piece as UTF-8."""
    byte = fallback_byte(piece)
    return piece.encode() if byte is None else byte


# --- runs of byte tokens, as the full decode renders them ----------------------------------------

Run = Any
"""An open run: None (no run), BROKEN, or (links, length, unfinished character). The links are
(links before, byte): appending is O(1), and older states stay what they were."""
BROKEN = "broken"


class ExactRuns(TokenRule):
    """A run is withheld until it closes; each byte of a broken one gives one U+FFFD."""

    def advance(self, state: Run, element: int | bytes) -> tuple[bytes, Run]:
        if not isinstance(element, int):
            return self.flush(state) + element, None
        if state == BROKEN:
            return REPLACEMENT_BYTES, BROKEN
        links, length, unfinished = state or (None, 0, b"")
        data = unfinished + bytes([element])
        text, rest = utf8.decode(data, utf8.PER_BYTE)
        # A good character encodes to the bytes it came from; so does U+FFFD if it was spelled out.
        if text and text.encode() != data:
            return REPLACEMENT_BYTES * (length + 1), BROKEN
        return b"", ((links, element), length + 1, rest)

    def flush(self, state: Run) -> bytes:
        is_bad = isinstance(state, tuple) and state[2]
        return REPLACEMENT_BYTES * state[1] if is_bad else self.held(state)

    def release(self, state: Run) -> tuple[bytes, Run]:
        return self.flush(state), None

    def settle(self, state: Run) -> tuple[bytes, Run]:
        if not isinstance(state, tuple):
            return b"", state
        unfinished = state[2]
        return self.held(state).removesuffix(unfinished), self._run_of(unfinished)

    def _run_of(self, data: bytes) -> Run:
        run: Run = None
        for byte in data:
            _, run = self.advance(run, byte)
        return run

    def held(self, state: Run) -> bytes:
        if not isinstance(state, tuple):
            return b""
        links, length, _ = state
        data = bytearray(length)
        while links is not None:
            length -= 1
            links, data[length] = links
        return bytes(data)

    def withholds(self, state: Run) -> bool:
        return isinstance(state, tuple)

    def waiting(self, state: Run) -> int:
        return int(state[1]) if isinstance(state, tuple) else 0

    def own(self, element: int | bytes, data: bytes) -> int:
        return min(len(data), 3) if isinstance(element, int) else len(element)

    def inside(self, element: int | bytes) -> bytes:
        return bytes([element]) if isinstance(element, int) else element

    def synchronises(self, element: int | bytes) -> bool:
        return not isinstance(element, int)

    def dump(self, state: Run) -> Any:
        return self.held(state).hex() if isinstance(state, tuple) else state

    def load(self, data: Any) -> Run:
        if data is None or data == BROKEN:
            return data
        expect(isinstance(data, str) and data != "", "null, 'broken' or hex", data)
        run = self._run_of(bytes.fromhex(data))
        expect(isinstance(run, tuple), "the bytes of an unbroken run", data)
        return run


class EagerRuns(TokenRule):
    """Byte fallback, decoded byte by byte. State: the unfinished character, or None."""

    def advance(self, state: bytes | None, element: int) -> tuple[bytes, bytes | None]:
        text, rest = utf8.decode((state or b"") + bytes([element]), utf8.PER_BYTE)
        return text.encode(), rest or None

    def flush(self, state: bytes | None) -> bytes:
        return utf8.flush(state or b"", utf8.PER_BYTE).encode()

    def held(self, state: bytes | None) -> bytes:
        return state or b""

    def withholds(self, state: bytes | None) -> bool:
        return state is not None

    def waiting(self, state: bytes | None) -> int:
        return len(state or b"")

    def inside(self, element: int) -> bytes:
        return bytes([element])

    def dump(self, state: bytes | None) -> Any:
        return state and state.hex()

    def load(self, data: Any) -> bytes | None:
        expect(data is None or isinstance(data, str), "null or hex", data)
        unfinished = bytes.fromhex(data or "")
        is_begun = utf8.decode(unfinished, utf8.PER_BYTE) == ("", unfinished)
        expect(is_begun, "a character's start", data)
        return unfinished or None


class RunsThenSpaces(TokenRule):
    """Byte fallback whose runs and texts go through Metaspace one by one (ChatGLM3).

    State: what came (nothing, a first run that is still open, or more), and the state of ``runs``.
    """

    NOTHING, FIRST_RUN, MORE = range(3)
    start = (NOTHING, None)
    idle = (MORE, None)
    has_spans = False

    def __init__(self, prepare: Prepare, rule: Metaspace, runs: TokenRule) -> None:
        super().__init__(prepare)
        self._rule = rule
        self._runs = runs

    def _spaced(self, data: bytes, came: int) -> bytes:
        return metaspace_forms(self._rule, data.decode())[came == self.MORE].encode()

    def advance(
        self, state: tuple[int, Run], element: int | bytes
    ) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        if isinstance(element, int):
            came = came or self.FIRST_RUN
            data, run = self._runs.advance(run, element)
            return self._spaced(data, came), (came, run)
        closed = self.flush(state)
        came = self.MORE if came else self.NOTHING
        return closed + self._spaced(element, came), (self.MORE, None)

    def flush(self, state: tuple[int, Run]) -> bytes:
        came, run = state
        return self._spaced(self._runs.flush(run), came)

    def release(self, state: tuple[int, Run]) -> tuple[bytes, tuple[int, Run]]:
        return self.flush(state), (self.MORE if state[0] else self.NOTHING, None)

    def settle(self, state: tuple[int, Run]) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        data, run = self._runs.settle(run)
        return self._spaced(data, came), (came, run)

    def held(self, state: tuple[int, Run]) -> bytes:
        return self._runs.held(state[1])

    def withholds(self, state: tuple[int, Run]) -> bool:
        return self._runs.withholds(state[1])

    def waiting(self, state: tuple[int, Run]) -> int:
        return self._runs.waiting(state[1])

    def inside(self, element: int | bytes) -> bytes:
        if isinstance(element, int):
            return self._runs.inside(element)
        return self._spaced(element, self.MORE)

    def synchronises(self, element: int | bytes) -> bool:
        return not isinstance(element, int)

    def dump(self, state: tuple[int, Run]) -> Any:
        return [state[0], self._runs.dump(state[1])]

    def load(self, data: Any) -> tuple[int, Run]:
        expect(isinstance(data, list) and len(data) == 2, "a stage and a run", data)
        came, run = data
        expect(type(came) is int and 0 <= came <= 2, "0, 1 or 2", came)
        expect(came != self.NOTHING or run is None, "no run before any token", run)
        return came, self._runs.load(run)
