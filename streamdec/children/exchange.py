"""One message to a child process and its answer, by a deadline.

In: the two pipes and a message. Out: the head of the answer, which is a JSON object, and its body.
The child may send anything, so the sizes and the form are checked.
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

HEAD = struct.Struct(">I")
"""The length of the data that follow."""
LARGEST_HEAD = 1 << 16
LARGEST_MESSAGE = (1 << 32) - 1


class TooLargeError(Exception):
    """A message or an answer that is larger than allowed."""


def framed(message: bytes) -> bytes:
    """Return ``message`` after its length.

    Raises TooLargeError if it has 4 GiB or more.
    """
    if len(message) > LARGEST_MESSAGE:
        raise TooLargeError("the message has more than 4 GiB")
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
        """Return the head and the body of the answer.

        Raises TimeoutError at the deadline, EOFError or OSError if the child ended, ValueError if
        the answer is invalid, and TooLargeError if the body has more than ``largest`` bytes.
        """
        self._send(memoryview(sent))
        length = HEAD.unpack(self._receive(HEAD.size))[0]
        if length > LARGEST_HEAD:
            raise ValueError(f"the head has {length:,} bytes")
        try:
            head = json.loads(self._receive(length))
        except RecursionError:
            raise ValueError("the head is nested too deeply") from None
        if not isinstance(head, dict):
            raise ValueError("the head is not an object")
        size = head.get("size", 0)
        if type(size) is not int or size < 0:
            raise ValueError("the size is not an integer from 0 up")
        if size > largest:
            raise TooLargeError(f"the answer has more than {largest:,} bytes")
        body = self._receive(size)
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
