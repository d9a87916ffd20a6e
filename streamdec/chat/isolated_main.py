"""The child process that renders one template; the parent's end is ``isolated``.

In: marshalled requests, which ask for the text of a rendering, for the content format of the
template, or for the variables that it does not define. Out: for each request a head, followed by
the text (or the other answer) and the spans as bytes.
"""

from __future__ import annotations

import codecs
import marshal
import struct
import sys
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any

from jinja2 import TemplateError, meta

from streamdec.chat.content_format import content_format_of
from streamdec.chat.environment import make_environment
from streamdec.chat.rendering import (
    RESOURCE_LIMIT,
    compile_template,
    parse_template,
    render_compiled,
)
from streamdec.children.serving import requests, write_answer
from streamdec.errors import ChatTemplateError

_CODECS = """ascii latin-1 cp1252 idna punycode unicode-escape raw-unicode-escape utf-7 utf-8
utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be"""


def serve(setup: dict[str, Any]) -> None:
    """Answer the requests about one template until standard input ends."""
    clock = [datetime(1, 1, 1)]  # noqa: DTZ001 - templates show local time
    environment = make_environment(setup["profile"], now=lambda: clock[0])
    template = None
    _refuse_resources()
    for message in requests(setup["cpu_seconds"]):
        request = marshal.loads(message)
        answer: dict[str, Any]
        text: str
        spans: list[tuple[int, int]] = []
        body = b""
        try:
            if request["asks"] == "content format":
                text = content_format_of(parse_template(environment, setup["source"]))
            elif request["asks"] == "undeclared names":
                text = "\n".join(_undeclared(setup["source"], setup["profile"]))
            else:
                clock[0], name = datetime.fromisoformat(request["now"]), request["name"]
                if template is None:
                    template = compile_template(setup["source"], environment, name)
                text, spans = render_compiled(template, request["context"], name)
            body = text.encode("utf-8", "surrogatepass")
            body += struct.pack(f">{2 * len(spans)}Q", *(place for span in spans for place in span))
            answer = {"spans": len(spans)}
        except ChatTemplateError as error:
            answer = _told(error)
        except MemoryError:
            problem = "the template was stopped: it took too much memory"
            answer = {"error": problem, "code": RESOURCE_LIMIT}
        write_answer(sys.stdout.buffer, answer, body)


def _undeclared(source: str, profile: str) -> list[str]:
    """Return the variables that ``source`` does not define, as vLLM looks for them."""
    environment = make_environment(profile)
    # vLLM looks with an environment that lacks these two.
    for name in ("raise_exception", "strftime_now"):
        environment.globals.pop(name)
    tree = parse_template(environment, source)
    try:
        return sorted(meta.find_undeclared_variables(tree))
    except (TemplateError, RecursionError) as error:
        raise ChatTemplateError(f"the template cannot be compiled: {error}") from error


def _told(error: ChatTemplateError) -> dict[str, Any]:
    notes = getattr(error, "__notes__", [])
    return {
        "error": str(error)[:2000],
        "code": error.code,
        "line": error.line,
        "name": error.template,
        "note": notes[0][:2000] if notes else None,
    }


def _refuse_resources() -> None:
    """Refuse new descriptors and new processes, where the system can do so."""
    # jinja2, markupsafe and Python would import these later, when no file can be opened.
    for module in ("jinja2.constants", "jinja2.debug", "textwrap", "unicodedata", "pprint", "html"):
        import_module(module)
    for codec in _CODECS.split():
        codecs.lookup(codec)
    with suppress(ImportError, ValueError, OSError):
        import resource  # not on Windows

        resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
