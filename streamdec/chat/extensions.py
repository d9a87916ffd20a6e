"""The ``generation`` tag: transparent in the text, and it tells where the assistant's text is.

In: a template with ``{% generation %}…{% endgeneration %}``. Out: the text within as if the tag
were not there, and, in a rendering that asks for it, the span of characters that it takes.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro

__all__ = ["GenerationTag", "Spans", "spans_of_rendering"]


@dataclass(slots=True)
class Spans:
    """What a rendering has written so far, and the spans that were met in it."""

    length: int = 0
    """Characters that have been written."""
    found: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of each, in the order in which their tags ended."""


spans_of_rendering: ContextVar[Spans | None] = ContextVar("spans_of_rendering", default=None)
"""The spans of the rendering that runs here; a compiled template is shared by threads."""


class GenerationTag(Extension):
    """``{% generation %}…{% endgeneration %}``.

    As in transformers, a span begins where the output stands when its tag ends: a tag within
    another one, or within a macro or a block that is kept in a variable, is counted from the
    beginning of what surrounds it.
    """

    tags = frozenset({"generation"})  # type: ignore[assignment] # jinja2 only reads it

    def parse(self, parser: Parser) -> nodes.Node:
        """The tag as a call of :meth:`_noted` with the body as its caller."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        call = self.call_method("_noted")
        return nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _noted(self, caller: Macro) -> str:
        text = str(caller())
        spans = spans_of_rendering.get()
        if spans is not None:
            spans.found.append((spans.length, spans.length + len(text)))
        return text
