"""The renderings of small conversations by a template, and their turn markers.

In: the text of a template and the special tokens that it sees. Out: :class:`Probes`, from which
:func:`find_turns` reads the marker that closes a turn of the assistant and the one that opens the
next. A template is an untrusted program: it is parsed here, and run only in a child process.

The source of the template is not searched for patterns: only renderings count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from time import monotonic
from typing import Any

from streamdec.errors import ChatTemplateError, MissingExtraError

ANSWER = "qzanswerzq"
QUESTION = "qzquestionzq"
FIRST = "qzfirstzq"
"""Texts that occur in no template; only letters, so that no template escapes or trims them."""

PROFILE = "classic"
"""transformers 4.57 to 5.20, which vLLM and SGLang pin."""
NOW = datetime(2024, 7, 26, 12)  # noqa: DTZ001 - templates get a time without a zone
STANDARD_NAMES = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message")
)
"""The variables that transformers passes to each template, special tokens aside."""
_IMPLICIT = frozenset(("loop", "caller", "varargs", "kwargs", "self", "super"))
_MOST_SHOWN = 40
_MOST_BETWEEN = 10_000
"""The most characters searched between two turns, at both ends, where markers are."""
MOST_SECONDS = 20
"""The most seconds for all conversations of a template; real ones take less than 0.1."""
FAILS = "CHAT_TEMPLATE_FAILS"
"""The code of an error that a template raises with some conversations."""
CHILD_DIED = "CHAT_TEMPLATE_CHILD_DIED"
"""The code of an error that is not about the template."""
_HOPELESS = (CHILD_DIED, "CHAT_TEMPLATE_RESOURCE_LIMIT", "CHAT_TEMPLATE_SYNTAX_ERROR")
"""The codes of errors after which no other conversation is rendered."""

_USER = {"role": "user", "content": FIRST}
_ASSISTANT = {"role": "assistant", "content": ANSWER}
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Looks.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": []},
    },
}


def called(arguments: Any, content: str | None = "") -> list[dict[str, Any]]:
    """Return a conversation in which the assistant calls :data:`TOOL`."""
    call = {"id": "call00001", "type": "function"}
    function = {"name": "look", "arguments": arguments}
    calls = [{**call, "function": function}]
    return [_USER, {"role": "assistant", "content": content, "tool_calls": calls}]


_CONVERSATIONS: Mapping[str, Mapping[str, Any]] = {
    "prompt": {"messages": [_USER]},
    "generation": {"messages": [_USER], "add_generation_prompt": True},
    "answered": {"messages": [_USER, _ASSISTANT]},
    "followed": {"messages": [_USER, _ASSISTANT, {"role": "user", "content": QUESTION}]},
    "empty": {"messages": [_USER, {"role": "assistant", "content": ""}]},
    "none": {"messages": [_USER, {"role": "assistant", "content": None}]},
    "list": {"messages": [{"role": "user", "content": [{"type": "text", "text": FIRST}]}]},
    "call": {"messages": called({"at": "it"}), "tools": [TOOL]},
    "call_none": {"messages": called({"at": "it"}, None), "tools": [TOOL]},
    "call_string": {"messages": called('{"at": "it"}'), "tools": [TOOL]},
}
"""The conversations to render, by name."""
ALL = tuple(_CONVERSATIONS)
WHAT: Mapping[str, str] = {
    "prompt": "a question",
    "generation": "a question with add_generation_prompt",
    "answered": "an answer",
    "followed": "an answer and a question",
    "empty": "an empty answer",
    "none": "an answer of null",
    "list": "a question that is a list of parts",
    "call": "a call of a tool",
    "call_none": "a call of a tool with null content",
    "call_string": "a call of a tool, its arguments as a string",
}
"""The conversations in words."""


@dataclass(frozen=True, slots=True)
class StaticFacts:
    """The facts found by parsing."""

    called: frozenset[str]
    """Names of functions and methods in calls."""
    unknown: Mapping[str, int]
    """Filters, tests and functions that the environment lacks, with the line of the first use."""
    undeclared: frozenset[str]
    """Variables that the template does not define and that are not always passed."""


@dataclass(frozen=True, slots=True)
class Probes:
    """The results of parsing and rendering a template."""

    unavailable: str = ""
    """Why it was not inspected; empty if it was."""
    static: StaticFacts | None = None
    error: ChatTemplateError | None = None
    """Why it cannot be parsed or rendered at all, with a ``code``."""
    rendered: Mapping[str, str] = field(default_factory=dict)
    """The texts of the conversations that were rendered."""
    failed: Mapping[str, ChatTemplateError] = field(default_factory=dict)
    """The errors of the others."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A token at the beginning or end of a turn."""

    text: str
    id: int


@dataclass(frozen=True, slots=True)
class Turns:
    """The markers around a turn of the assistant; None if not found."""

    terminator: Marker | None = None
    primer: Marker | None = None


def probe(
    source: str | None,
    special_tokens: Mapping[str, str],
    *,
    conversations: Iterable[str] = ALL,
) -> Probes:
    """Parse ``source``, and render the named conversations in a child process.

    This takes at most half a minute: after a limit nothing else is rendered. Without jinja2 (extra
    ``chat``) nothing is, and ``unavailable`` says so.
    """
    if source is None:
        return Probes(unavailable="there is no template")
    try:
        import_module("streamdec.chat._jinja").require_jinja2()
    except MissingExtraError as error:
        return Probes(unavailable=str(error))
    try:
        static = _static(source, special_tokens)
    except ChatTemplateError as error:
        return Probes(error=error)
    asked = {name: _CONVERSATIONS[name] for name in conversations}
    if not asked:
        return Probes(static=static)
    return rendered(source, special_tokens, asked, static=static)


def find_turns(probes: Probes, markers: Mapping[str, int]) -> Turns:
    """Return the terminator and the primer among ``markers`` (texts to ids).

    The terminator is the marker directly after the answer, if the answer is the last message of the
    conversation. Otherwise it is the first of at least two markers between the answer and the next
    question. The primer is the last marker before that question, unless it is the terminator. (An
    old ChatML template that writes nothing after a last answer has its terminator only before the
    next turn.)
    """
    after = _between(probes.rendered.get("answered", ""), ANSWER, None)
    between = _between(probes.rendered.get("followed", ""), ANSWER, QUESTION)
    if not markers or (after is None and between is None):
        return Turns()
    after = after and after[:_MOST_BETWEEN]
    if between is not None and len(between) > _MOST_BETWEEN:
        between = between[: _MOST_BETWEEN // 2] + between[-_MOST_BETWEEN // 2 :]
    text = f"{after}{between}"
    pattern = pattern_of([marker for marker in markers if marker in text])
    inner = [found.group() for found in pattern.finditer(between or "")]
    first = pattern.match((after or "").lstrip())
    terminator = first.group() if first else inner[0] if len(inner) > 1 else None
    primer = inner[-1] if inner and inner[-1] != terminator else None
    return Turns(_marker(terminator, markers), _marker(primer, markers))


def _marker(text: str | None, markers: Mapping[str, int]) -> Marker | None:
    return None if text is None else Marker(text, markers[text])


def pattern_of(markers: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern of any of the markers, the longest first."""
    by_length = sorted((text for text in markers if text), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, by_length)) or r"(?!)")


def _between(text: str, start: str, end: str | None) -> str | None:
    """Return the text between the two; None if one of them is missing."""
    _, found, rest = text.rpartition(start) if end is None else text.partition(start)
    if not found or (end is not None and end not in rest):
        return None
    return rest if end is None else rest.partition(end)[0]


# --- parsing --------------------------------------------------------------------------------------


def _static(source: str, special_tokens: Mapping[str, str]) -> StaticFacts:
    """Return the facts found by parsing a template.

    Raises :class:`ChatTemplateError` for a template over a limit, or with a syntax error.
    """
    environment = import_module("streamdec.chat.environment").make_environment(PROFILE)
    report = import_module("streamdec.chat.static_check").check_template(environment, source)
    loaded: dict[str, int] = {}
    called: dict[str, int] = {}
    stored: set[str] = set()
    asked: set[str] = set()
    unknown: dict[str, int] = {}
    for node in _nodes(report.tree):
        kind = type(node).__name__
        if kind == "Name":
            if node.ctx == "load":
                loaded.setdefault(node.name, node.lineno)
            else:
                stored.add(node.name)
        elif kind == "Macro":
            stored.add(node.name)
        elif kind == "Call" and type(node.node).__name__ == "Name":
            called.setdefault(node.node.name, node.lineno)
        elif kind == "Filter" and node.name not in environment.filters:
            unknown.setdefault(node.name, node.lineno)
        elif kind == "Test":
            if node.name not in environment.tests:
                unknown.setdefault(node.name, node.lineno)
            elif node.name in ("defined", "undefined") and type(node.node).__name__ == "Name":
                asked.add(node.node.name)
    given = STANDARD_NAMES | set(special_tokens) | set(environment.globals) | _IMPLICIT
    undeclared = {name for name in loaded if name not in stored | given}
    for name, line in called.items():
        if name in undeclared and name not in asked:
            unknown.setdefault(name, line)
    undeclared -= set(unknown)
    return StaticFacts(
        report.called_names,
        dict(sorted(unknown.items())[:_MOST_SHOWN]),
        frozenset(sorted(undeclared)[:_MOST_SHOWN]),
    )


def _nodes(tree: Any) -> Iterator[Any]:
    """Yield all nodes of a syntax tree, parents before children."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(list(node.iter_child_nodes())))


# --- rendering ------------------------------------------------------------------------------------


def rendered(
    source: str,
    special_tokens: Mapping[str, str],
    conversations: Mapping[str, Mapping[str, Any]],
    *,
    static: StaticFacts | None = None,
) -> Probes:
    """Render ``conversations`` (contexts by their names) in a child process.

    After an error such as an exceeded limit nothing else is rendered.
    """
    child = import_module("streamdec.chat.isolated")
    # One child for all conversations, with less processor time and a smaller answer than requests.
    pool = child.ChildPool(1, child.ChildLimits(cpu_seconds=1, answer=4 << 20))
    rendered: dict[str, str] = {}
    failed: dict[str, ChatTemplateError] = {}
    end = monotonic() + MOST_SECONDS
    try:
        for name, conversation in conversations.items():
            if monotonic() > end:
                late = f"its conversations took more than {MOST_SECONDS} seconds together"
                error = ChatTemplateError(late, code="CHAT_TEMPLATE_RESOURCE_LIMIT")
                return Probes(static=static, error=error, rendered=rendered, failed=failed)
            context: dict[str, Any] = {"tools": None, "documents": None}
            context |= {"add_generation_prompt": False, **special_tokens, **conversation}
            try:
                rendered[name], _ = child.render_isolated(
                    source, context, profile=PROFILE, now=NOW, pool=pool
                )
            except ChatTemplateError as error:
                failed[name] = error
                if error.code in _HOPELESS:
                    return Probes(static=static, error=error, rendered=rendered, failed=failed)
            except OSError as error:
                died = ChatTemplateError(f"no process to render in: {error}", code=CHILD_DIED)
                return Probes(static=static, error=died, rendered=rendered, failed=failed)
    finally:
        pool.close()
    return Probes(static=static, rendered=rendered, failed=failed)
