"""Parsing, compiling and rendering a chat template.

In: the text of a template and its variables. Out: the text of a prompt. An error in a template is a
:class:`ChatTemplateError` with the line where it happened. Parsing runs nothing. Compiling runs
parts of a template, because jinja2's optimizer computes constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Environment, Template, nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from streamdec.chat.environment import RaisedByTemplateError, Spans, spans_of_rendering
from streamdec.errors import ChatTemplateError

RESOURCE_LIMIT = "CHAT_TEMPLATE_RESOURCE_LIMIT"
SANDBOX_VIOLATION = "CHAT_TEMPLATE_SANDBOX_VIOLATION"
SYNTAX_ERROR = "CHAT_TEMPLATE_SYNTAX_ERROR"
FAILS = "CHAT_TEMPLATE_FAILS"

MAX_SIZE = 256 * 1024
"""The most bytes of a template in UTF-8. The largest of twenty real templates has 17 kB."""
MAX_DEPTH = 100
"""The most levels of the syntax tree: the compiler recurses at each. Real templates: 19."""
_FILE = "<template>"
"""The file name that jinja2 gives a template without a loader."""
_MAX_SAID = 1000
"""The most characters of an error's message that are kept."""
REFUSES = "CHAT_TEMPLATE_REFUSES"
"""The code of an error that a template raises with ``raise_exception``."""
MAX_OUTPUT = 64 << 20
"""The most characters that a template may output."""


def parse_template(environment: Environment, source: str) -> nodes.Template:
    """Parse ``source`` and check it against the limits. Nothing is compiled or run.

    Raises :class:`ChatTemplateError`. Its ``code`` is ``CHAT_TEMPLATE_RESOURCE_LIMIT`` for a
    template over a limit, and ``CHAT_TEMPLATE_SYNTAX_ERROR`` for a text that jinja2 cannot parse.
    """
    size = len(source)
    if size <= MAX_SIZE:
        size = len(source.encode("utf-8", "surrogatepass"))
    if size > MAX_SIZE:
        raise too_much(f"the template has {size:,} bytes; {MAX_SIZE:,} are allowed")
    try:
        tree = environment.parse(source)
    except RecursionError:
        raise too_much("the template is nested too deeply for the parser") from None
    except TemplateSyntaxError as error:
        raise _syntax_error(error, error.lineno) from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise _syntax_error(error, None) from error
    depth, level = 0, list[nodes.Node]([tree])
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise too_much(f"the template is nested more than {MAX_DEPTH} levels deep")
        level = [child for node in level for child in node.iter_child_nodes()]
    return tree


def compile_template(
    source: str, environment: ImmutableSandboxedEnvironment, name: str | None = None
) -> Template:
    """Check ``source`` and compile it. Raises :class:`ChatTemplateError`."""
    try:
        return environment.from_string(parse_template(environment, source))
    except ChatTemplateError as error:
        error.template = error.template or name
        raise
    except Exception as error:
        raise _error_of(error, name) from error


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
        raise _error_of(error, name) from error
    finally:
        spans_of_rendering.reset(token)
    return text, spans.found


def _error_of(error: Exception, name: str | None) -> ChatTemplateError:
    """Return a ChatTemplateError for ``error``, which a template raised."""
    line = _line_of(error)
    said = str(error)
    said = said if len(said) <= _MAX_SAID else f"{said[:_MAX_SAID]}…"
    if isinstance(error, RaisedByTemplateError):
        refusal = ChatTemplateError(said, template=name, line=line, code=REFUSES)
        refusal.add_note(f"said by {_place(name, line)}")
        return refusal
    # A MemoryError says nothing.
    message = ": ".join(filter(None, (_place(name, line), type(error).__name__, said)))
    return ChatTemplateError(message, template=name, line=line, code=_code_of(error))


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


def _code_of(error: Exception) -> str:
    """Return the code of preflight's finding for an error that a template raised."""
    if isinstance(error, SecurityError):
        return SANDBOX_VIOLATION
    if isinstance(error, (RecursionError, MemoryError, OverflowError)):
        return RESOURCE_LIMIT
    if isinstance(error, (TemplateSyntaxError, SyntaxError)):
        return SYNTAX_ERROR
    return FAILS


def too_much(message: str) -> ChatTemplateError:
    """Return the error of a template over a limit."""
    return ChatTemplateError(message, code=RESOURCE_LIMIT)


def _syntax_error(error: Exception, line: int | None) -> ChatTemplateError:
    place = "" if line is None else f", line {line}"
    return ChatTemplateError(f"the template cannot be read{place}: {error}", code=SYNTAX_ERROR)
