"""One message to a child process of ``isolated``, and its answer by a deadline.

In: the two pipes and a message. Out: a text and spans, or a :class:`ChatTemplateError`. The child
may send anything, so each size and type of its answer is checked.
"""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import time
from contextlib import suppress
from typing import IO, Any

from streamdec.chat.static_check import RESOURCE_LIMIT
from streamdec.errors import ChatTemplateError

CHILD_DIED = "CHAT_TEMPLATE_CHILD_DIED"
Rendering = tuple[str, list[tuple[int, int]]]
HEAD = struct.Struct(">I")
LARGEST_HEAD = 1 << 16
LARGEST_MESSAGE = (1 << 32) - 1
MOST_SPANS = 100_000


def framed(message: bytes) -> bytes:
    """Return ``message`` after its length.

    Raises ChatTemplateError if it has 4 GiB or more.
    """
    if len(message) > LARGEST_MESSAGE:
        raise ChatTemplateError("the template's variables take more than 4 GiB")
    return HEAD.pack(len(message)) + message


def pipe_of(pipe: IO[bytes] | None) -> IO[bytes]:
    """Return a pipe of a child that was started with pipes."""
    assert pipe is not None
    return pipe


class Exchange:
    """One message to a child, and its answer, within a deadline."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        self._in, self._out = pipe_of(process.stdin), pipe_of(process.stdout)
        self._deadline = deadline

    def run(self, sent: bytes, largest: int) -> tuple[dict[str, Any], bytes]:
        """Return the head and the rest of the answer.

        Raises TimeoutError at the deadline, EOFError or OSError if the child ended, ValueError if
        the answer is invalid, and ChatTemplateError if the text has more than ``largest`` bytes.
        """
        self._send(memoryview(sent))
        size = HEAD.unpack(self._receive(HEAD.size))[0]
        if size > LARGEST_HEAD:
            raise ValueError(f"the head has {size:,} bytes")
        try:
            head = json.loads(self._receive(size))
        except RecursionError:
            raise ValueError("the head is nested too deeply") from None
        if not isinstance(head, dict):
            raise ValueError("the head is not an object")
        lengths = [head.get(name, 0) for name in ("text", "spans")]
        if not all(type(length) is int and length >= 0 for length in lengths):
            raise ValueError("the sizes are not integers from 0 up")
        if lengths[0] > largest:
            raise ChatTemplateError(
                f"the template was stopped: more than {largest:,} bytes of output",
                code=RESOURCE_LIMIT,
            )
        if lengths[1] > MOST_SPANS:
            raise ValueError(f"it has {lengths[1]:,} spans")
        body = self._receive(lengths[0] + 16 * lengths[1])
        if has_more(self._out):
            raise ValueError("more data than one answer")
        return head, body

    def _send(self, message: memoryview) -> None:
        os.set_blocking(self._in.fileno(), os.name == "nt")
        while message:
            self._wait(self._in, for_reading=False)
            with suppress(BlockingIOError):
                message = message[os.write(self._in.fileno(), message[: 1 << 20]) :]

    def _receive(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            self._wait(self._out, for_reading=True)
            part = os.read(self._out.fileno(), min(missing, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _wait(self, pipe: IO[bytes], *, for_reading: bool) -> None:
        """Wait until the pipe is ready, which it also is if the child closed its end."""
        if os.name != "nt" and not _ready(pipe, for_reading, self._deadline - time.monotonic()):
            raise TimeoutError


def _ready(pipe: IO[bytes], for_reading: bool, seconds: float) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLIN if for_reading else select.POLLOUT)
    return bool(poll.poll(max(seconds, 0) * 1000))


def has_more(pipe: IO[bytes]) -> bool:
    """Return whether the pipe has data or its other end is closed.

    On Windows it always returns False.
    """
    return os.name != "nt" and _ready(pipe, for_reading=True, seconds=0)


def read_answer(head: dict[str, Any], body: bytes) -> Rendering:
    """Return the rendering in an answer.

    Raises ChatTemplateError if the answer is an error or not UTF-8.
    """
    if "error" in head:
        message, code, line, note = (head.get(key) for key in ("error", "code", "line", "note"))
        error = ChatTemplateError(
            str(message)[:2000],
            template=head["name"] if isinstance(head.get("name"), str) else None,
            line=line if type(line) is int else None,
            code=code if isinstance(code, str) and len(code) < 64 else None,
        )
        if isinstance(note, str):
            error.add_note(note[:2000])
        raise error
    size = head.get("text", 0)
    try:
        text = body[:size].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise ChatTemplateError(
            "the process that renders the template sent an invalid answer: it is not UTF-8",
            code=CHILD_DIED,
        ) from None
    numbers = struct.unpack(f">{2 * head.get('spans', 0)}Q", body[size:])
    return text, list(zip(numbers[::2], numbers[1::2], strict=True))
