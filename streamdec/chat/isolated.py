"""Isolated rendering: a template in a child process with operating-system limits.

In: a template, its variables and the time. Out: the text and the spans, as ``render_compiled``
returns them, or a :class:`ChatTemplateError`. No template can change the state of this process:
an isolated template is not even parsed here.

The child has no environment variables (on Windows only ``SYSTEMROOT``) and no open files other than
its two pipes and the null device. Before it reads anything it sets its own limits: 512 MiB of
memory, and 2 seconds of processor time for each rendering. The parent kills it after 10 seconds by
the clock. A child starts in about 90 ms and is kept for the next rendering of the same template. No
two templates share a child. It ends when its standard input ends, so it does not outlive its
parent.

A message is a length in four bytes, followed by the data. Requests are marshalled, because JSON
has no tuples and only strings as keys. An answer is a JSON object, followed by the text and the
spans as bytes. The object has the sizes of both, and an answer of another size is an error. Nothing
from a child is unpickled or unmarshalled.
"""

from __future__ import annotations

import atexit
import json
import marshal
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, cast, get_args

from streamdec.chat.exchange import (
    CHILD_DIED,
    Exchange,
    Rendering,
    framed,
    has_more,
    pipe_of,
    read_answer,
)
from streamdec.chat.messages import ContentFormat
from streamdec.chat.static_check import RESOURCE_LIMIT
from streamdec.errors import ChatTemplateError
from streamdec.locks import Lock

BUSY = "CHAT_TEMPLATE_BUSY"
Now = datetime | Callable[[], datetime] | None
MARSHAL_VERSION = 4
"""A version that every supported Python reads."""
SIGNALS = {"SIGXCPU": "too much processor time", "SIGKILL": "killed", "SIGSEGV": "it crashed"}
"""The causes of a child's end, in words."""


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """The limits of one rendering."""

    memory: int = 512 << 20
    """Bytes of address space (RLIMIT_AS), Python and jinja2 included. Not on Windows or macOS."""
    cpu_seconds: int = 2
    """Processor time. RLIMIT_CPU counts whole seconds, so it may be one more. Not on Windows."""
    wall_seconds: float = 10.0
    """Seconds by the parent's clock, including the start of the child."""
    answer: int = 64 << 20
    """Bytes of the text in UTF-8."""
    waiting_seconds: float = 10.0
    """How long a rendering waits for a free child before it fails."""


CHILD_LIMITS = ChildLimits()
"""The default limits."""

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
import json, types
size = int.from_bytes(sys.stdin.buffer.read(4), "big")
setup = json.loads(sys.stdin.buffer.read(size))
sys.path += setup["path"]
for name, path in setup["packages"].items():
    package = types.ModuleType(name)
    package.__path__ = path
    sys.modules[name] = package
from streamdec.chat.isolated_main import serve
serve(setup)
"""
"""The program of a child. It replaces each package by an empty module that only has a path, because
importing their ``__init__`` would double the time of a start."""


def render_isolated(
    source: str,
    context: Mapping[str, Any],
    *,
    profile: str,
    now: Now = None,
    name: str | None = None,
    pool: ChildPool | None = None,
    is_of_request: bool = True,
) -> Rendering:
    """Render ``source`` in a child process, and return the text and the spans.

    Args:
        source: The template's text.
        context: The variables, as :func:`streamdec.chat.plain.plain` returns them.
        profile: The profile of the environment.
        now: The time for ``strftime_now``; by default the local time. A function is called in this
            process.
        name: The template's name in error messages.
        pool: The pool of the child. By default one of the two pools of this process, which have one
            child for each core, and at least two.
        is_of_request: Whether the template came with a request. These templates have their own
            pool, so they do not delay the templates of models.

    Blocks until the child has answered, after a wait of at most ten seconds for a free child.

    Raises :class:`ChatTemplateError` if the template raises or exceeds a limit, if the child dies
    or sends an invalid answer, or if ``context`` contains objects.
    """
    try:
        time_told = datetime.now() if now is None else now() if callable(now) else now  # noqa: DTZ005
        request = {
            "asks": "text",
            "context": dict(context),
            "now": time_told.isoformat(),
            "name": name,
        }
    except Exception as error:
        raise ChatTemplateError(
            "now must be a datetime or a function that returns one: "
            f"{type(error).__name__}: {error}"
        ) from error
    try:
        message = marshal.dumps(request, MARSHAL_VERSION)
    except ValueError as error:
        told = "they contain an object, or are nested too deeply"
        raise ChatTemplateError(f"the variables are not plain data: {told}") from error
    return (pool or _pool(is_of_request)).render(source, profile, message)


def content_format_isolated(
    source: str, *, profile: str, is_of_request: bool = True
) -> ContentFormat:
    """Return what ``source`` takes as the content of a message.

    A child process reads ``source``. ``profile`` and ``is_of_request`` are those of
    ``render_isolated``. Blocks as it does, and raises :class:`ChatTemplateError` as it does.
    """
    message = marshal.dumps({"asks": "content format"}, MARSHAL_VERSION)
    found, _ = _pool(is_of_request).render(source, profile, message)
    if found not in get_args(ContentFormat):
        raise _invalid(f"{found!r:.40} is not a content format")
    return cast(ContentFormat, found)


def undeclared_isolated(source: str, *, pool: ChildPool) -> frozenset[str]:
    """Return the variables that ``source`` does not define.

    A child process of ``pool`` finds them, because jinja2 computes constants in its search and a
    template may make them very large. Raises :class:`ChatTemplateError` as ``render_isolated``
    does, and for a template that jinja2 cannot compile.
    """
    message = marshal.dumps({"asks": "undeclared names"}, MARSHAL_VERSION)
    found, _ = pool.render(source, "classic", message)
    return frozenset(found.split())


# --- the pool -------------------------------------------------------------------------------------


class ChildPool:
    """At most ``size`` children, each with one rendering at a time.

    Threads may share a pool. Each child renders one template only: a template that escapes its
    sandbox then finds only its own messages. A child stays idle after a rendering. If another
    template needs a child, the one that was idle longest is killed.
    """

    def __init__(self, size: int | None = None, limits: ChildLimits = CHILD_LIMITS) -> None:
        self.size = max(2, os.cpu_count() or 1) if size is None else size
        self.limits = limits
        self._idle: list[_Child] = []
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)

    def render(self, source: str, profile: str, message: bytes) -> Rendering:
        """Render the request ``message``. Raises :class:`ChatTemplateError`."""
        with self._slot():
            deadline = time.monotonic() + self.limits.wall_seconds
            child = self._take(source, profile)
            keep = False
            try:
                rendering = child.render(message, deadline)
                keep = True
                return rendering
            except ChatTemplateError as error:
                # After an error of the template itself the child can be used again.
                keep = child.is_ready and error.code not in (RESOURCE_LIMIT, CHILD_DIED)
                raise
            finally:
                self._give_back(child, keep=keep)

    @contextmanager
    def _slot(self) -> Iterator[None]:
        """Hold one of ``size`` slots.

        Raises :class:`ChatTemplateError` if none is free in time.
        """
        seconds = self.limits.waiting_seconds
        if not self._slots.acquire(timeout=seconds):
            raise ChatTemplateError(
                f"no process was free to render the template within {seconds:g} seconds",
                code=BUSY,
            )
        try:
            yield
        finally:
            self._slots.release()

    def close(self) -> None:
        """End the idle children. The pool can still be used: it then starts new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()

    @property
    def idle(self) -> list[int]:
        """The process ids of the idle children."""
        with self._lock:
            return [child.process.pid for child in self._idle]

    def _take(self, source: str, profile: str) -> _Child:
        """Return an idle child that renders this template, or a new one."""
        with self._lock:
            self._busy += 1
            known = [child for child in self._idle if child.renders == (source, profile)]
            for child in known:
                self._idle.remove(child)
            others = len(self._idle) + self._busy - self.size
            old = [self._idle.pop(0) for _ in range(others) if self._idle]
        fit = [child for child in known if child.is_alive()]
        try:
            for child in (*old, *(child for child in known if child not in fit[:1])):
                child.kill()
            return fit[0] if fit else _Child(source, profile, self.limits)
        except BaseException:
            with self._lock:
                self._busy -= 1
            raise

    def _give_back(self, child: _Child, *, keep: bool) -> None:
        if not keep:
            child.kill()
        with self._lock:
            self._busy -= 1
            if keep:
                self._idle.append(child)

    def _reset(self) -> None:
        self._busy = 0
        self._lock = Lock()
        self._slots = threading.BoundedSemaphore(self.size)

    def _abandon(self) -> None:
        """Drop the children in a fork of this process: they belong to the other process."""
        idle, self._idle = self._idle, []
        self._reset()
        for child in idle:
            child.abandon()


_own: dict[bool, ChildPool] = {}
_own_lock = Lock()


def _pool(is_of_request: bool) -> ChildPool:
    """Return this process's pool for templates of requests, or for those of models."""
    with _own_lock:
        if is_of_request not in _own:
            pool = _own[is_of_request] = ChildPool()
            atexit.register(pool.close)
        return _own[is_of_request]


# --- the parent's end -----------------------------------------------------------------------------


class _Child:
    """A child process and the pipes to it."""

    def __init__(self, source: str, profile: str, limits: ChildLimits) -> None:
        self.renders = (source, profile)
        self.is_ready = False
        """Whether the child has answered its last request."""
        self._limits = limits
        self._first: bytes = framed(json.dumps(_setup(source, profile, limits)).encode("ascii"))
        self.process = _started(limits)

    def render(self, message: bytes, deadline: float) -> Rendering:
        """Send a request and return the rendering. Raises :class:`ChatTemplateError`."""
        self.is_ready = False
        sent, self._first = self._first + framed(message), b""
        with self._watched(deadline):
            head, body = Exchange(self.process, deadline).run(sent, self._limits.answer)
        self.is_ready = True
        return read_answer(head, body)

    def is_alive(self) -> bool:
        """Return whether the child runs and has sent no more than its answers."""
        return self.process.poll() is None and not has_more(pipe_of(self.process.stdout))

    def kill(self) -> None:
        """End the child, close its pipes and collect its exit status."""
        self.process.kill()
        self.abandon(returncode=None)
        self.process.wait()

    def abandon(self, returncode: int | None = 0) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                pipe_of(pipe).close()
        if returncode is not None:
            self.process.returncode = returncode

    @contextmanager
    def _watched(self, deadline: float) -> Iterator[None]:
        """Kill the child at ``deadline``, and turn its failures into ChatTemplateError."""
        timer = None
        if os.name == "nt":  # pragma: no cover - poll() takes no pipes there
            timer = threading.Timer(max(deadline - time.monotonic(), 0), self.process.kill)
            timer.daemon = True
            timer.start()
        try:
            yield
        except ChatTemplateError:
            raise
        except TimeoutError:
            self.process.kill()
            raise ChatTemplateError(
                "the template was stopped: more than "
                f"{self._limits.wall_seconds:g} seconds by the clock",
                code=RESOURCE_LIMIT,
            ) from None
        except (EOFError, OSError):
            self.process.kill()
            raise self._cause_of_end() from None
        except ValueError as error:
            self.process.kill()
            raise _invalid(str(error)) from None
        finally:
            if timer is not None:  # pragma: no cover
                timer.cancel()

    def _cause_of_end(self) -> ChatTemplateError:
        """Return the error for a child that ended by itself."""
        status = self.process.wait()
        if status < 0:
            name = signal.Signals(-status).name
            what = f"{SIGNALS.get(name, 'it ended')} ({name})"
        else:
            what = f"it ended with status {status}"
        limits = f"{self._limits.memory >> 20} MiB, {self._limits.cpu_seconds} s"
        code = RESOURCE_LIMIT if status < 0 else CHILD_DIED
        return ChatTemplateError(
            f"the process that rendered the template ended early (its limits are {limits}): {what}",
            code=code,
        )


def _invalid(what: str) -> ChatTemplateError:
    """Return the error for an invalid answer of a child."""
    return ChatTemplateError(
        f"the process that renders the template sent an invalid answer: {what}", code=CHILD_DIED
    )


def _setup(source: str, profile: str, limits: ChildLimits) -> dict[str, Any]:
    """Return the first message to a child: where its modules are, and its template."""
    folders = {str(Path(path).parent) for name in ("jinja2", "markupsafe") for path in _path(name)}
    return {
        "path": sorted(folders),
        "packages": {name: _path(name) for name in ("streamdec", "streamdec.chat")},
        "source": source,
        "profile": profile,
        "cpu_seconds": limits.cpu_seconds,
    }


def _path(package: str) -> list[str]:
    """Return the absolute folders of an imported package.

    They are absolute because the child runs in another folder.
    """
    return [str(Path(path).resolve()) for path in sys.modules[package].__path__]


def _started(limits: ChildLimits) -> subprocess.Popen[bytes]:
    if not sys.executable or getattr(sys, "frozen", False):
        raise ChatTemplateError(
            "an isolated template needs a Python interpreter, and this program has none"
        )
    kept = ("SYSTEMROOT",) if os.name == "nt" else ()  # Windows does not start Python without it
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", BOOT, str(limits.memory), str(limits.cpu_seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in kept if name in os.environ},
        cwd=os.sep,
        close_fds=True,
        start_new_session=os.name != "nt",  # a Ctrl-C at the terminal is for the parent
        bufsize=0,
    )
