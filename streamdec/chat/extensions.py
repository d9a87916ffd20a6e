"""The ``generation`` tag, which marks the assistant's text.

In: a template with ``{% generation %}…{% endgeneration %}``. Out: the same text as without the tag.
A rendering can also ask for the span of characters between the tags.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro


@dataclass(slots=True)
class Spans:
    """The length of a rendering so far, and the spans found in it."""

    length: int = 0
    """Characters that have been written."""
    found: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of each span, in the order in which the tags ended."""


spans_of_rendering: ContextVar[Spans | None] = ContextVar("spans_of_rendering", default=None)
"""The spans of the rendering that runs here; a compiled template is shared by threads."""


class GenerationTag(Extension):
    """``{% generation %}…{% endgeneration %}``.

    As in transformers, the start of a span is the length of the output that was emitted before the
    tag. The output of an enclosing tag, macro or captured block is not emitted yet, so a tag inside
    one starts where the enclosing one starts.
    """

    tags = frozenset({"generation"})  # type: ignore[assignment] # jinja2 only reads it

    def parse(self, parser: Parser) -> nodes.Node:
        """Return the tag as a call of :meth:`_noted`, with the body as its caller."""
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
