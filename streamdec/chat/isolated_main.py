"""The child process that renders one template; the parent's end is ``isolated``.

In: marshalled requests on standard input. Out: on standard output, for each request, a head in
JSON, followed by the text and the spans as bytes.
"""

from __future__ import annotations

import codecs
import json
import marshal
import struct
import sys
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any

from streamdec.chat.environment import make_environment
from streamdec.chat.rendering import compile_template, render_compiled
from streamdec.chat.static_check import RESOURCE_LIMIT
from streamdec.errors import ChatTemplateError

__all__ = ["serve"]

HEAD = struct.Struct(">I")
"""The length of the data that follow."""


def serve(setup: dict[str, Any]) -> None:
    """Answer requests to render one template until standard input ends."""
    clock = [datetime(1, 1, 1)]  # noqa: DTZ001 - templates show local time
    environment = make_environment(setup["profile"], now=lambda: clock[0])
    template = None
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    _refuse_resources()
    while head := source.read(HEAD.size):
        request = marshal.loads(source.read(HEAD.unpack(head)[0]))
        _allow_processor_time(setup["cpu_seconds"])
        clock[0] = datetime.fromisoformat(request["now"])
        name = request["name"]
        answer: dict[str, Any]
        try:
            if template is None:
                template = compile_template(setup["source"], environment, name)
            text, spans = render_compiled(template, request["context"], name)
            body = text.encode("utf-8", "surrogatepass")
            body += struct.pack(f">{2 * len(spans)}Q", *(place for span in spans for place in span))
            answer = {"text": len(body) - 16 * len(spans), "spans": len(spans)}
        except ChatTemplateError as error:
            answer, body = _told(error), b""
        except MemoryError:
            answer = {
                "error": "the template was stopped: it took too much memory",
                "code": RESOURCE_LIMIT,
            }
            body = b""
        told = json.dumps(answer).encode("ascii")
        sink.write(HEAD.pack(len(told)) + told + body)
        sink.flush()


def _told(error: ChatTemplateError) -> dict[str, Any]:
    notes = getattr(error, "__notes__", [])
    return {
        "error": str(error)[:2000],
        "code": error.code,
        "line": error.line,
        "name": error.template,
        "note": notes[0][:2000] if notes else None,
    }


def _allow_processor_time(seconds: int) -> None:
    """Allow ``seconds`` more; then SIGXCPU ends the process, even within a loop in C."""
    try:
        import resource  # not on Windows
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + seconds
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (until, most))


def _refuse_resources() -> None:
    """Refuse new descriptors and new processes, where the system can do so."""
    # jinja2 and Python would import these later, when no file can be opened.
    for module in ("jinja2.debug", "textwrap", "unicodedata", "pprint"):
        import_module(module)
    for codec in ("ascii", "latin-1", "unicode-escape", "utf-8", "utf-16", "utf-32"):
        codecs.lookup(codec)
    with suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
