"""The jinja2 environments that render chat templates: one for each profile.

In: the name of a profile and a clock. Out: a sandboxed environment with the settings, filters and
globals that templates of models are written for. A profile is a span of versions of transformers
whose ``apply_chat_template`` gives the same text:

``classic``
    4.57 to 5.20, which vLLM and SGLang pin.
``hardened``
    5.22.2 and later. ``dict`` and ``namespace`` have fewer features than in jinja2. Templates see
    only plain JSON types. Message keys whose value is None are dropped (from 5.23 on).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

Profile = Literal["classic", "hardened"]
PROFILES: tuple[Profile, ...] = ("classic", "hardened")

Clock = datetime | Callable[[], datetime]
"""The time for a template: a fixed one, or a function that returns it."""


class RaisedByTemplateError(TemplateError):
    """The error of a template's ``raise_exception``, with the template's message."""


def make_environment(profile: str, *, now: Clock | None = None) -> ImmutableSandboxedEnvironment:
    """Return the environment of ``profile``; ``now`` replaces the local time.

    It has no loader, so ``include`` and ``import`` fail. Raises ValueError for another profile.
    """
    if profile not in PROFILES:
        raise ValueError(f"profile must be 'classic' or 'hardened', not {profile!r:.40}")
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        autoescape=False,
        extensions=["jinja2.ext.loopcontrols", GenerationTag],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime(now)
    if profile == "hardened":
        environment.globals["dict"] = _Dict()
        environment.globals["namespace"] = _Namespace
    return environment


def _tojson(
    x: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return ``x`` as JSON. The filter of jinja2 also escapes characters for HTML."""
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _raise_exception(message: object) -> NoReturn:
    raise RaisedByTemplateError(message)  # type: ignore[arg-type] # a template may give anything


def _strftime(now: Clock | None) -> Callable[[str], str]:
    def strftime_now(format: str) -> str:  # noqa: A002 - the name that templates may use
        # Templates write the date of the user, so the time is local and has no zone.
        time = datetime.now() if now is None else now() if callable(now) else now  # noqa: DTZ005
        return time.strftime(format)

    return strftime_now


class _Dict:
    """``dict`` with only a call and ``fromkeys``."""

    def __repr__(self) -> str:
        return "<dict>"

    def __call__(*args: Any, **kwargs: Any) -> dict[Any, Any]:  # a template may keep a key "self"
        return dict(*args[1:], **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """A namespace that rejects names with a leading underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # a template may keep a name "self"
        self, *given = args
        attributes = dict(*given, **kwargs)
        for name in attributes:
            _refuse_underscore(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_underscore(name)
        super().__setitem__(name, value)


def _refuse_underscore(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        problem = f"a namespace cannot have a name that begins with an underscore: {name!r}"
        raise SecurityError(problem)


# --- spans ----------------------------------------------------------------------------------------


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
