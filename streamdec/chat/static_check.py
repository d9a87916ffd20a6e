"""The check of a template before compiling: its size and depth.

In: an environment and a template's text. Out: the tree that jinja2 parses. Compiling a template
runs parts of it, because jinja2's optimizer computes constants. Parsing runs nothing.
"""

from __future__ import annotations

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError

from streamdec.errors import ChatTemplateError

RESOURCE_LIMIT = "CHAT_TEMPLATE_RESOURCE_LIMIT"
SANDBOX_VIOLATION = "CHAT_TEMPLATE_SANDBOX_VIOLATION"
SYNTAX_ERROR = "CHAT_TEMPLATE_SYNTAX_ERROR"
FAILS = "CHAT_TEMPLATE_FAILS"

MAX_SIZE = 256 * 1024
"""The most bytes of a template in UTF-8. The largest of twenty real templates has 17 kB."""
MAX_DEPTH = 100
"""The most levels of the syntax tree: the compiler recurses at each. Real templates: 19."""


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


def error_code(error: BaseException) -> str | None:
    """Return the code of preflight's finding for an error that a template raised."""
    if isinstance(error, ChatTemplateError):
        return error.code
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
