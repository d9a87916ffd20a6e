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
from streamdec.core.rules.base import REPLACEMENT_BYTES, Prepare, TokenRule
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

Run = bytes | str | None
"""An open run: its bytes; BROKEN; or None, no run."""
BROKEN = "broken"


def _unfinished(run: bytes) -> bytes:
    """Return the unfinished character at the end of ``run``."""
    return utf8.decode(run[-3:], utf8.PER_BYTE)[1]


class ExactRuns(TokenRule):
    """A run is withheld until it closes; each byte of a broken one gives one U+FFFD."""

    def advance(self, state: Run, element: int | bytes) -> tuple[bytes, bytes, Run]:
        if not isinstance(element, int):
            return self.release(state)[0], element, None
        if state == BROKEN:
            return b"", REPLACEMENT_BYTES, BROKEN
        run = self.held(state)
        data = _unfinished(run) + bytes([element])
        text, _ = utf8.decode(data, utf8.PER_BYTE)
        # A good character encodes to the bytes it came from; so does U+FFFD if it was spelled out.
        if text and text.encode() != data:
            return REPLACEMENT_BYTES * len(run), REPLACEMENT_BYTES, BROKEN
        return b"", b"", run + bytes([element])

    def release(self, state: Run) -> tuple[bytes, Run]:
        run = self.held(state)
        return REPLACEMENT_BYTES * len(run) if _unfinished(run) else run, None

    def settle(self, state: Run) -> tuple[bytes, Run]:
        run = self.held(state)
        unfinished = _unfinished(run)
        return run.removesuffix(unfinished), unfinished or (BROKEN if state == BROKEN else None)

    def held(self, state: Run) -> bytes:
        return state if isinstance(state, bytes) else b""

    def fits(self, state: Any) -> bool:
        if not isinstance(state, bytes):
            return state is None or state == BROKEN
        text, rest = utf8.decode(state, utf8.PER_BYTE)
        return state != b"" and text.encode() + rest == state


class EagerRuns(TokenRule):
    """Byte fallback, decoded byte by byte. State: the unfinished character, or None."""

    def advance(self, state: bytes | None, element: int) -> tuple[bytes, bytes, bytes | None]:
        text, rest = utf8.decode((state or b"") + bytes([element]), utf8.PER_BYTE)
        return b"", text.encode(), rest or None

    def release(self, state: bytes | None) -> tuple[bytes, None]:
        return utf8.flush(state or b"", utf8.PER_BYTE).encode(), None

    def held(self, state: bytes | None) -> bytes:
        return state or b""

    def fits(self, state: Any) -> bool:
        if isinstance(state, bytes):
            return state != b"" and utf8.decode(state, utf8.PER_BYTE) == ("", state)
        return state is None


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
    ) -> tuple[bytes, bytes, tuple[int, Run]]:
        came, run = state
        if isinstance(element, int):
            came = came or self.FIRST_RUN
            late, own, run = self._runs.advance(run, element)
            return b"", self._spaced(late + own, came), (came, run)
        closed, (came, _) = self.release(state)
        return closed, self._spaced(element, came), (self.MORE, None)

    def release(self, state: tuple[int, Run]) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        data, run = self._runs.release(run)
        return self._spaced(data, came), (self.MORE if came else self.NOTHING, run)

    def settle(self, state: tuple[int, Run]) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        data, run = self._runs.settle(run)
        return self._spaced(data, came), (came, run)

    def held(self, state: tuple[int, Run]) -> bytes:
        return self._runs.held(state[1])

    def fits(self, state: Any) -> bool:
        match state:
            case (int(came), run):
                is_stage = came in range(3) and (came != self.NOTHING or run is None)
                return is_stage and self._runs.fits(run)
        return False
