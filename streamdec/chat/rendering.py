"""One rendering by a chat template.

In: the text of a template and its variables. Out: the text of a prompt. An error in a template is a
:class:`ChatTemplateError` with the line where it happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Template
from jinja2.exceptions import TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from streamdec.chat.environment import RaisedByTemplateError
from streamdec.chat.extensions import Spans, spans_of_rendering
from streamdec.chat.static_check import error_code, parse_template, too_much
from streamdec.errors import ChatTemplateError

_FILE = "<template>"
"""The file name that jinja2 gives a template without a loader."""
_MAX_SAID = 1000
"""The most characters of an error's message that are kept."""
REFUSES = "CHAT_TEMPLATE_REFUSES"
"""The code of an error that a template raises with ``raise_exception``."""
MAX_OUTPUT = 64 << 20
"""The most characters that a template may output."""


def compile_template(
    source: str, environment: ImmutableSandboxedEnvironment, name: str | None = None
) -> Template:
    """Check ``source`` and compile it.

    jinja2 computes constants as it compiles, which may take much time and memory. Raises
    :class:`ChatTemplateError`.
    """
    try:
        return environment.from_string(parse_template(environment, source))
    except ChatTemplateError as error:
        error.template = error.template or name
        raise
    except Exception as error:
        raise _told(error, name) from error


def render_compiled(
    template: Template, context: Mapping[str, Any], name: str | None = None
) -> tuple[str, list[tuple[int, int]]]:
    """Return the text, and the spans of the assistant's text in it.

    Raises ChatTemplateError.
    """
    spans = Spans()
    token = spans_of_rendering.set(spans)
    blocks = []
    try:
        for block in template.generate(context):
            blocks.append(block)
            spans.length += len(block)
            if spans.length > MAX_OUTPUT:
                raise too_much(f"the template outputs more than {MAX_OUTPUT:,} characters")
        text = "".join(blocks)
    except ChatTemplateError as error:
        error.template = error.template or name
        raise
    except Exception as error:
        raise _told(error, name) from error
    finally:
        spans_of_rendering.reset(token)
    return text, spans.found


def _told(error: Exception, name: str | None) -> ChatTemplateError:
    """Return a ChatTemplateError for ``error``, which a template raised."""
    line = _line_of(error)
    said = str(error)
    said = said if len(said) <= _MAX_SAID else f"{said[:_MAX_SAID]}…"
    if isinstance(error, RaisedByTemplateError):
        told = ChatTemplateError(said, template=name, line=line, code=REFUSES)
        told.add_note(f"said by {_place(name, line)}")
        return told
    message = f"{_place(name, line)}: {type(error).__name__}: {said}"
    return ChatTemplateError(message, template=name, line=line, code=error_code(error))


def _place(name: str | None, line: int | None) -> str:
    what = f"the chat template {name}" if name else "the chat template"
    return what if line is None else f"{what}, line {line}"


def _line_of(error: BaseException) -> int | None:
    """Return the line of the template that raised ``error``; None if unknown.

    jinja2 puts the line in the traceback.
    """
    if isinstance(error, TemplateSyntaxError):
        return error.lineno
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == _FILE:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
