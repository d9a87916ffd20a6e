"""Rules for byte fallback: byte tokens such as ``<0xE4>``, and runs of them.

There are two modes. *Eager*: bytes are output as they arrive, and each bad byte is one U+FFFD (the
rule of the SentencePiece library); FixedBytes does that. *Exact*: a run is withheld until it
closes, because one bad byte turns every byte of the run into U+FFFD (the rule of the ``tokenizers``
library). Once a run is certainly bad, each of its bytes becomes a U+FFFD at once. An example of the
exact mode:

    token     "a"   <0xE4>  <0xBD>  <0xA0>  "b"      <0xE4>  "c"
    output    "a"   ""      ""      ""      "\u4f60b"     ""      "\ufffdc"

A run that was opened by the prompt: its complete characters are the prompt's text and are not
output again, so after the prompt only the bytes of its unfinished character remain in the run.
"""

from __future__ import annotations

import re
from typing import Any

from streamdec.core import utf8
from streamdec.core.rules.base import REPLACEMENT_BYTES, TokenRule, expect
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


# --- runs of byte tokens, as the full decode renders them ----------------------------------------

Run = Any
"""An open run: None (no run), BROKEN, or (links, length, unfinished character). The links are
(links before, byte): appending is O(1), and older states stay what they were."""
BROKEN = "broken"


def run_bytes(run: Run) -> bytes:
    """Return the bytes of an unbroken open run."""
    if not isinstance(run, tuple):
        return b""
    links, length, _ = run
    data = bytearray(length)
    while links is not None:
        length -= 1
        links, data[length] = links
    return bytes(data)


def run_step(run: Run, byte: int) -> tuple[bytes, Run]:
    """Return the output of one more byte, and the run after it.

    Once the run is broken, each of its bytes gives one U+FFFD.
    """
    if run == BROKEN:
        return REPLACEMENT_BYTES, BROKEN
    links, length, unfinished = run or (None, 0, b"")
    data = unfinished + bytes([byte])
    text, rest = utf8.decode(data, utf8.PER_BYTE)
    # A good character encodes to the bytes it came from; so does U+FFFD if it was spelled out.
    if text and text.encode() != data:
        return REPLACEMENT_BYTES * (length + 1), BROKEN
    return b"", ((links, byte), length + 1, rest)


def run_close(run: Run) -> bytes:
    """Return what a run becomes when something else, or nothing, follows."""
    is_bad = isinstance(run, tuple) and run[2]
    return REPLACEMENT_BYTES * run[1] if is_bad else run_bytes(run)


def run_settle(run: Run) -> tuple[bytes, Run]:
    """Return the complete characters of a run that ends a prompt, and the run without them."""
    if not isinstance(run, tuple):
        return b"", run
    unfinished = run[2]
    return run_bytes(run).removesuffix(unfinished), _run_of(unfinished)


def _run_of(data: bytes) -> Run:
    run: Run = None
    for byte in data:
        _, run = run_step(run, byte)
    return run


def dump_run(run: Run) -> str | None:
    """Return a run as JSON: null, "broken", or its bytes in hex."""
    return run if run is None or run == BROKEN else run_bytes(run).hex()


def load_run(data: Any) -> Run:
    """Return the run that ``dump_run`` gave ``data`` for."""
    if data is None or data == BROKEN:
        return data
    expect(isinstance(data, str) and data != "", "null, 'broken' or hex", data)
    run = _run_of(bytes.fromhex(data))
    expect(isinstance(run, tuple), "the bytes of an unbroken run", data)
    return run


class ExactRuns(TokenRule):
    """Byte fallback, a run withheld until it closes. State: the open run."""

    def advance(self, state: Run, element: int | bytes) -> tuple[bytes, Run]:
        if isinstance(element, int):
            return run_step(state, element)
        return run_close(state) + element, None

    def flush(self, state: Run) -> bytes:
        return run_close(state)

    def release(self, state: Run) -> tuple[bytes, Run]:
        return run_close(state), None

    def settle(self, state: Run) -> tuple[bytes, Run]:
        return run_settle(state)

    def held(self, state: Run) -> bytes:
        return run_bytes(state)

    def withholds(self, state: Run) -> bool:
        return isinstance(state, tuple)

    def is_bounded(self, state: Run) -> bool:
        return not isinstance(state, tuple)

    def waiting(self, state: Run) -> int:
        return int(state[1]) if isinstance(state, tuple) else 0

    def own(self, element: int | bytes, data: bytes) -> int:
        return min(len(data), 3) if isinstance(element, int) else len(element)

    def inside(self, element: int | bytes) -> bytes:
        return bytes([element]) if isinstance(element, int) else element

    def synchronises(self, element: int | bytes) -> bool:
        return not isinstance(element, int)

    def dump(self, state: Run) -> Any:
        return dump_run(state)

    def load(self, data: Any) -> Run:
        return load_run(data)


def byte_or_bytes(piece: str) -> int | bytes:
    """Return the element of ``piece`` for ExactRuns: a byte of a run, or UTF-8."""
    byte = fallback_byte(piece)
    return piece.encode() if byte is None else byte


class RunsThenSpaces(TokenRule):
    """Byte fallback whose runs and texts go through Metaspace one by one (ChatGLM3).

    State: what came, and the open run. What came: nothing, a first run of bytes that is still open
    (all of it counts as the first element), or more. In the eager mode, the run is the bytes of the
    unfinished character, or None.
    """

    NOTHING, FIRST_RUN, MORE = range(3)
    start = (NOTHING, None)
    idle = (MORE, None)
    replacement: str = utf8.REPLACEMENT
    has_spans = False

    def __init__(self, rule: Metaspace, *, eager: bool) -> None:
        super().__init__(byte_or_text)
        self._rule = rule
        self._eager = eager

    def _spaced(self, text: str, came: int) -> bytes:
        return metaspace_forms(self._rule, text)[came == self.MORE].encode()

    def advance(self, state: tuple[int, Run], element: int | str) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        if isinstance(element, int):
            came = came or self.FIRST_RUN
            text, run = self._run_step(run, element)
            return self._spaced(text, came), (came, run)
        closed = self._spaced(self._run_close(run), came)
        came = self.MORE if came else self.NOTHING
        return closed + self._spaced(element, came), (self.MORE, None)

    def _run_step(self, run: Run, byte: int) -> tuple[str, Run]:
        if self._eager:
            text, rest = utf8.decode((run or b"") + bytes([byte]), utf8.PER_BYTE)
            return text, rest or None
        data, run = run_step(run, byte)
        return data.decode(), run

    def _run_close(self, run: Run) -> str:
        return utf8.flush(run or b"", utf8.PER_BYTE) if self._eager else run_close(run).decode()

    def flush(self, state: tuple[int, Run]) -> bytes:
        return self._spaced(self._run_close(state[1]), state[0])

    def release(self, state: tuple[int, Run]) -> tuple[bytes, tuple[int, Run]]:
        return self.flush(state), (self.MORE if state[0] else self.NOTHING, None)

    def settle(self, state: tuple[int, Run]) -> tuple[bytes, tuple[int, Run]]:
        came, run = state
        data, run = run_settle(run)
        return self._spaced(data.decode(), came), (came, run)

    def held(self, state: tuple[int, Run]) -> bytes:
        return (state[1] or b"") if self._eager else run_bytes(state[1])

    def withholds(self, state: tuple[int, Run]) -> bool:
        return isinstance(state[1], tuple | bytes)

    def is_bounded(self, state: tuple[int, Run]) -> bool:
        return not isinstance(state[1], tuple)

    def waiting(self, state: tuple[int, Run]) -> int:
        run = state[1]
        return int(run[1]) if isinstance(run, tuple) else len(self.held(state))

    def inside(self, element: int | str) -> bytes:
        if isinstance(element, int):
            return bytes([element])
        return self._spaced(element, self.MORE)

    def synchronises(self, element: int | str) -> bool:
        return not isinstance(element, int)

    def dump(self, state: tuple[int, Run]) -> Any:
        run = (state[1] or b"").hex() or None if self._eager else dump_run(state[1])
        return [state[0], run]

    def load(self, data: Any) -> tuple[int, Run]:
        expect(isinstance(data, list) and len(data) == 2, "a stage and a run", data)
        came, run = data
        expect(type(came) is int and 0 <= came <= 2, "0, 1 or 2", came)
        expect(came != self.NOTHING or run is None, "no run before any token", run)
        if not self._eager:
            return came, load_run(run)
        expect(run is None or isinstance(run, str), "null or hex", run)
        unfinished = bytes.fromhex(run or "")
        is_begun = utf8.decode(unfinished, utf8.PER_BYTE) == ("", unfinished)
        expect(is_begun, "a character's start", run)
        return came, unfinished or None


def byte_or_text(piece: str) -> int | str:
    """Return the element of ``piece`` for RunsThenSpaces: a byte of a run, or its text."""
    byte = fallback_byte(piece)
    return piece if byte is None else byte
