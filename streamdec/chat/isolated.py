"""Isolated rendering: a template in a child process with operating-system limits.

In: a template, its variables and the time. Out: the text and the spans, as ``render_compiled``
returns them, or a :class:`ChatTemplateError`. No template can change the state of this process:
an isolated template is not even parsed here.

:mod:`streamdec.children.child` describes the child. It has no environment variables and opens no
files. It may use 512 MiB of memory, and 2 seconds of processor time for each rendering. The parent
kills it after 10 seconds by the clock. A child starts in about 90 ms and is kept for the next
rendering of the same template. No two templates share a child.

Requests are marshalled, because JSON has no tuples and only strings as keys. An answer is a JSON
object, followed by the text and the spans as bytes.
"""

from __future__ import annotations

import atexit
import marshal
import os
import struct
import sys
import threading
import time
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

from streamdec.chat.environment import Clock
from streamdec.chat.messages import ContentFormat
from streamdec.chat.rendering import RESOURCE_LIMIT
from streamdec.children.child import Child, ChildError, ChildLimits
from streamdec.errors import ChatTemplateError
from streamdec.locks import Lock, forked

BUSY = "CHAT_TEMPLATE_BUSY"
CHILD_DIED = "CHAT_TEMPLATE_CHILD_DIED"
Rendering = tuple[str, list[tuple[int, int]]]
CHILD_LIMITS = ChildLimits()


def render_isolated(
    source: str,
    context: Mapping[str, Any],
    *,
    profile: str,
    now: Clock | None = None,
    name: str | None = None,
    pool: ChildPool | None = None,
) -> Rendering:
    """Render ``source`` in a child process, and return the text and the spans.

    ``context`` are the variables, as :func:`streamdec.chat.plain.plain` returns them. ``now`` is
    the time for ``strftime_now``, by default the local time. A function is called in this process.
    ``name`` is that of the template in error messages. The default ``pool`` is that of this
    process, which has one child for each core, and at least two.

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
        problem = f"now must be a datetime or a function that returns one: {type(error).__name__}"
        raise ChatTemplateError(f"{problem}: {error}") from error
    try:
        message = marshal.dumps(request)
    except ValueError as error:
        problem = "they contain an object, or are nested too deeply"
        raise ChatTemplateError(f"the variables are not plain data: {problem}") from error
    return (pool or _own_pool()).render(source, profile, message)


def content_format_isolated(source: str, *, profile: str) -> ContentFormat:
    """Return the content format of ``source``; raises as ``render_isolated`` does."""
    message = marshal.dumps({"asks": "content format"})
    found, _ = _own_pool().render(source, profile, message)
    if found not in get_args(ContentFormat):
        raise _invalid(f"{found!r:.40} is not a content format")
    return cast(ContentFormat, found)


def undeclared_isolated(source: str, *, pool: ChildPool) -> frozenset[str]:
    """Return the variables that ``source`` does not define.

    A child process finds them, because jinja2 computes constants in its search, which may be very
    large. Raises :class:`ChatTemplateError`, also for a template that jinja2 cannot compile.
    """
    message = marshal.dumps({"asks": "undeclared names"})
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
        self.size: int = max(2, os.cpu_count() or 1) if size is None else size
        self.limits = limits
        self._idle: list[Child] = []
        self._reset()
        forked.add(self)

    def render(self, source: str, profile: str, message: bytes) -> Rendering:
        """Render the request ``message``. Raises :class:`ChatTemplateError`."""
        seconds = self.limits.waiting_seconds
        if not self._slots.acquire(timeout=seconds):
            problem = f"no process was free to render the template within {seconds:g} seconds"
            raise ChatTemplateError(problem, code=BUSY)
        try:
            deadline = time.monotonic() + self.limits.wall_seconds
            child = self._take(source, profile)
            keep = False
            try:
                rendering = read_answer(*child.ask(message, deadline))
                keep = True
                return rendering
            except ChildError as error:
                raise _failed(error) from None
            except ChatTemplateError as error:
                # After an error of the template itself the child can be used again.
                keep = error.code not in (RESOURCE_LIMIT, CHILD_DIED)
                raise
            finally:
                self._give_back(child, keep=keep)
        finally:
            self._slots.release()

    def close(self) -> None:
        """End the idle children. The pool can still be used: it then starts new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.kill()

    def _take(self, source: str, profile: str) -> Child:
        """Return an idle child that renders this template, or a new one."""
        setup = _setup(source, profile)
        with self._lock:
            self._busy += 1
            found = next((child for child in self._idle if child.setup == setup), None)
            if found is not None:
                self._idle.remove(found)
            others = len(self._idle) + self._busy - self.size
            old = [self._idle.pop(0) for _ in range(others) if self._idle]
        if found is not None and not found.is_alive():
            old.append(found)
            found = None
        try:
            for child in old:
                child.kill()
            return found or Child(setup, self.limits)
        except BaseException as error:
            with self._lock:
                self._busy -= 1
            if isinstance(error, ChildError | OSError):
                raise _failed(error) from None
            raise

    def _give_back(self, child: Child, *, keep: bool) -> None:
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

    def after_fork(self) -> None:
        """Drop the children in a fork of this process: they belong to the other process."""
        idle, self._idle = self._idle, []
        self._reset()
        for child in idle:
            child.abandon()


@cache
def _own_pool() -> ChildPool:
    """Return the pool of this process."""
    pool = ChildPool()
    atexit.register(pool.close)
    return pool


# --- setups and answers ---------------------------------------------------------------------------


def _setup(source: str, profile: str) -> dict[str, Any]:
    """Return the setup of a child: where its modules are, and its template."""
    folders = {str(Path(path).parent) for name in ("jinja2", "markupsafe") for path in _path(name)}
    return {
        "serves": "streamdec.chat.isolated_main",
        "path": sorted(folders),
        "packages": {name: _path(name) for name in ("streamdec", "streamdec.chat")},
        "source": source,
        "profile": profile,
    }


def _path(package: str) -> list[str]:
    """Return the absolute folders of an imported package.

    They are absolute because the child runs in another folder.
    """
    return [str(Path(path).resolve()) for path in sys.modules[package].__path__]


def read_answer(head: dict[str, Any], body: bytes) -> Rendering:
    """Return the rendering in an answer.

    Raises ChatTemplateError if the answer is an error or invalid.
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
    spans = head.get("spans", 0)
    if type(spans) is not int or not 0 <= spans <= len(body) // 16:
        raise _invalid(f"it has {spans!r:.40} spans")
    size = len(body) - 16 * spans
    try:
        text = body[:size].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise _invalid("it is not UTF-8") from None
    numbers = struct.unpack(f">{2 * spans}Q", body[size:])
    return text, list(zip(numbers[::2], numbers[1::2], strict=True))


def _invalid(what: str) -> ChatTemplateError:
    """Return the error for an invalid answer of a child."""
    return _failed(ChildError(f"the process sent an invalid answer: {what}"))


def _failed(error: ChildError | OSError) -> ChatTemplateError:
    code = RESOURCE_LIMIT if isinstance(error, ChildError) and error.is_limit else CHILD_DIED
    return ChatTemplateError(f"the template was stopped: {error}", code=code)
