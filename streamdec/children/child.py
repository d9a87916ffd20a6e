"""A child process with the operating system's limits: the parent's end.

In: the module that serves in the child, its setup, and requests. Out: answers, or a
:class:`ChildError` that says why the child gave none. Nothing that runs in the child can change the
state of this process. The child may send anything, so the sizes and the form of an answer are
checked, and nothing is unpickled.

The child has the environment variables that are passed to it (on Windows also ``SYSTEMROOT``), and
no open files other than its two pipes and the null device. Before it reads anything it sets its own
limits of memory and processor time, and forbids itself to write files. The parent kills it at a
deadline. It ends when its standard input ends, so it does not outlive its parent.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, cast

from streamdec.children.serving import LENGTH

CAUSES = {
    "SIGXCPU": "too much processor time",
    "SIGKILL": "killed",
    "SIGSEGV": "it crashed",
    "SIGABRT": "it aborted, as libraries do that fail or get no memory",
}
"""The causes of a child's end, in words."""

BOOT = """
import sys
try:
    import resource
except ImportError:
    resource = None
else:
    for kind, most in (("RLIMIT_AS", int(sys.argv[1])), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", 0)):
        try:
            resource.setrlimit(getattr(resource, kind), (most, most))
        except (AttributeError, ValueError, OSError):
            pass
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]) + 1, most))
import importlib, json, types
size = int.from_bytes(sys.stdin.buffer.read(8), "big")
setup = json.loads(sys.stdin.buffer.read(size))
sys.path += setup["path"]
for name, path in setup["packages"].items():
    package = types.ModuleType(name)
    package.__path__ = path
    sys.modules[name] = package
importlib.import_module(setup["serves"]).serve(setup)
"""
"""The program of a child. It replaces each of ``packages`` by an empty module that only has a path,
because importing their ``__init__`` would take time."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """The limits of one request to a child."""

    memory: int = 512 << 20
    """Bytes of address space (RLIMIT_AS), Python and libraries included. Not on Windows or
    macOS."""
    cpu_seconds: int = 2
    """Processor time. RLIMIT_CPU counts whole seconds, so it may be one more. Not on Windows."""
    wall_seconds: float = 10.0
    """Seconds by the parent's clock, including the start of the child."""
    answer: int = 64 << 20
    """Bytes of the answer."""
    waiting_seconds: float = 10.0
    """How long a request waits for a free child of a pool before it fails."""


class ChildError(Exception):
    """A child that gave no answer.

    ``is_limit``: whether it exceeded a limit, or was ended by the system.
    """

    def __init__(self, what: str, *, is_limit: bool = False) -> None:
        super().__init__(what)
        self.is_limit = is_limit


class Child:
    """A child process and the pipes to it.

    Args:
        setup: JSON data for the child. ``serves`` is the module whose ``serve(setup)`` it calls,
            ``path`` are folders to import from, and ``packages`` are described at ``BOOT``.
        limits: The limits of a request.
        environment: Its environment variables.

    Raises ChildError if there is no Python interpreter, and OSError if no process can be started.
    """

    def __init__(
        self,
        setup: Mapping[str, Any],
        limits: ChildLimits,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.setup = setup
        self._limits = limits
        first = {**setup, "cpu_seconds": limits.cpu_seconds}
        self._first = framed(json.dumps(first).encode("ascii"))
        self.process = started(limits, environment or {})
        self._in = cast(IO[bytes], self.process.stdin)
        self._out = cast(IO[bytes], self.process.stdout)

    def ask(self, message: bytes, deadline: float) -> tuple[dict[str, Any], bytes]:
        """Send a request, and return the head and the body of the answer.

        ``deadline`` is a time of ``time.monotonic``. Raises ChildError.
        """
        with self._watched(deadline):
            sent, self._first = self._first + framed(message), b""
            self._send(memoryview(sent), deadline)
            return self._answer(deadline)

    def is_alive(self) -> bool:
        """Return whether the child runs and has sent no more than its answers."""
        return self.process.poll() is None and not _has_more(self._out)

    def kill(self) -> None:
        """End the child, close its pipes and collect its exit status."""
        self.process.kill()
        self.abandon(returncode=None)
        self.process.wait()

    def abandon(self, returncode: int | None = 0) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()
        if returncode is not None:
            self.process.returncode = returncode

    @contextmanager
    def _watched(self, deadline: float) -> Iterator[None]:
        """Kill the child at ``deadline`` and after a failure, which becomes a ChildError."""
        timer = None
        if os.name == "nt":  # poll() takes no pipes there, and the clock has steps of 16 ms
            timer = threading.Timer(max(deadline - time.monotonic(), 0) + 0.02, self.process.kill)
            timer.daemon = True
            timer.start()
        try:
            yield
        except (ChildError, EOFError, OSError, ValueError) as error:
            self.process.kill()
            was_late = timer is not None and time.monotonic() >= deadline
            raise self._failure(TimeoutError() if was_late else error) from None
        finally:
            if timer is not None:
                timer.cancel()

    def _failure(self, error: Exception) -> ChildError:
        """Return the error to raise for an ``error`` of sending or receiving."""
        if isinstance(error, TimeoutError):
            what = f"more than {self._limits.wall_seconds:g} seconds by the clock"
            return ChildError(what, is_limit=True)
        if isinstance(error, (EOFError, OSError)):
            return self._cause_of_end()
        if isinstance(error, ChildError):
            return error
        return ChildError(f"the process sent an invalid answer: {error}")

    def _cause_of_end(self) -> ChildError:
        """Return the error for a child that ended by itself."""
        status = self.process.wait()
        what = f"it ended with status {status}"
        if status < 0:
            name = signal.Signals(-status).name
            what = f"{CAUSES.get(name, 'it ended')} ({name})"
        limits = f"{self._limits.memory >> 20} MiB, {self._limits.cpu_seconds} s"
        message = f"the process ended early (its limits are {limits}): {what}"
        return ChildError(message, is_limit=status < 0)

    # --- one message and its answer

    def _send(self, message: memoryview, deadline: float) -> None:
        if os.name != "nt":
            os.set_blocking(self._in.fileno(), False)
        while message:
            _wait(self._in, deadline, for_reading=False)
            with suppress(BlockingIOError):
                message = message[os.write(self._in.fileno(), message[: 1 << 20]) :]

    def _answer(self, deadline: float) -> tuple[dict[str, Any], bytes]:
        """Return the head, which is a JSON object, and the body, whose size the head has."""
        length = LENGTH.unpack(self._receive(LENGTH.size, deadline))[0]
        if length > LARGEST_HEAD:
            raise ValueError(f"the head has {length:,} bytes")
        try:
            head = json.loads(self._receive(length, deadline))
        except RecursionError:
            raise ValueError("the head is nested too deeply") from None
        if not isinstance(head, dict):
            raise ValueError("the head is not an object")
        size = head.get("size", 0)
        if type(size) is not int or size < 0:
            raise ValueError("the size is not an integer from 0 up")
        if size > self._limits.answer:
            message = f"the answer has more than {self._limits.answer:,} bytes"
            raise ChildError(message, is_limit=True)
        body = self._receive(size, deadline)
        if _has_more(self._out):
            raise ValueError("more data than one answer")
        return head, body

    def _receive(self, size: int, deadline: float) -> bytes:
        parts, missing = [], size
        while missing:
            _wait(self._out, deadline)
            part = os.read(self._out.fileno(), min(missing, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


LARGEST_HEAD = 1 << 16


def framed(message: bytes) -> bytes:
    """Return ``message`` after its length."""
    return LENGTH.pack(len(message)) + message


def _wait(pipe: IO[bytes], deadline: float, *, for_reading: bool = True) -> None:
    """Wait until the pipe is ready, which it also is if the child closed its end."""
    if os.name != "nt" and not _is_ready(pipe, deadline - time.monotonic(), for_reading):
        raise TimeoutError


def _is_ready(pipe: IO[bytes], seconds: float, for_reading: bool = True) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLIN if for_reading else select.POLLOUT)
    return bool(poll.poll(max(seconds, 0) * 1000))


def _has_more(pipe: IO[bytes]) -> bool:
    """Return whether the pipe has data or its other end is closed; False on Windows."""
    return os.name != "nt" and _is_ready(pipe, seconds=0)


def started(limits: ChildLimits, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a child, which then waits for its setup."""
    if not sys.executable or getattr(sys, "frozen", False):
        raise ChildError("a child process needs a Python interpreter, and this program has none")
    kept = ("SYSTEMROOT",) if os.name == "nt" else ()  # Windows does not start Python without it
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", BOOT, str(limits.memory), str(limits.cpu_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**environment, **{name: os.environ[name] for name in kept if name in os.environ}},
        cwd=os.sep,
        close_fds=True,
        start_new_session=os.name != "nt",  # a Ctrl-C at the terminal is for the parent
        bufsize=0,
    )
