"""The renderings of small conversations by a template, and its turns.

In: the text of a template and the special tokens that it sees. Out: :class:`Probes`. From them come
the markers that close and open turns (:func:`find_turns`, :func:`openers`, :func:`after_call`) and
the conversations whose earlier turns change (:func:`rewritten`). A template is parsed here, and run
only in a child process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Mapping
from contextlib import closing
from datetime import datetime
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

from streamdec.chat import require_jinja2
from streamdec.children.child import ChildLimits
from streamdec.errors import ChatTemplateError, MissingExtraError

ANSWER = "qzanswerzq"
QUESTION = "qzquestionzq"
FIRST = "qzfirstzq"
SYSTEM = "qzsystemzq"
CALLED = "qzcalledzq"
PLACE = "qzplacezq"
RESULT = "qzresultzq"
"""The texts of messages; only letters, so that no template has, escapes or trims them."""

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
CHILD_DIED = "CHAT_TEMPLATE_CHILD_DIED"
"""The code of an error that is not about the template."""
LIMITS = ChildLimits(cpu_seconds=1, answer=4 << 20)
"""The limits of each conversation. One child renders all of them."""
_HOPELESS = (CHILD_DIED, "CHAT_TEMPLATE_RESOURCE_LIMIT", "CHAT_TEMPLATE_SYNTAX_ERROR")
"""The codes of errors after which no other conversation is rendered."""

_DATA = json.loads(files("streamdec.preflight").joinpath("conversations.json").read_text("utf-8"))
_CONVERSATIONS: Mapping[str, dict[str, Any]] = _DATA["conversations"]
"""The conversations to render, by name: ``messages``, and in words (``what``)."""
ALL = tuple(_CONVERSATIONS)
WHAT: Mapping[str, str] = {name: each["what"] for name, each in _CONVERSATIONS.items()}
_CONTINUED = (
    ("answered", "followed", ANSWER),
    ("system", "system_followed", ANSWER),
    ("reasoned", "reasoned_followed", ANSWER),
    ("tools", "tools_followed", ANSWER),
    ("call", "returned", PLACE),
)
"""A conversation, the same with more messages, and the last text of the shorter one."""
_OPENED = (
    ("followed", (("user", FIRST), ("assistant", ANSWER), ("user", QUESTION))),
    ("system", (("system", SYSTEM), ("user", FIRST), ("assistant", ANSWER))),
    ("returned", (("user", FIRST), ("assistant", CALLED), ("", PLACE), ("tool", RESULT))),
)
"""Conversations with the role and the text of each message; the call of a tool has two texts."""


class StaticFacts(NamedTuple):
    """The facts found by parsing."""

    reads_clock: bool
    """Whether the template calls ``strftime_now``."""
    unknown: Mapping[str, int]
    """Filters, tests and functions that the environment lacks, with the line of the first use."""
    undeclared: frozenset[str]
    """Variables that the template does not define and that are not always passed."""
    only_parts: bool
    """Whether the template takes only lists of parts as content."""


class Probes(NamedTuple):
    """The results of parsing and rendering a template."""

    unavailable: str = ""
    """Why it was not inspected; empty if it was."""
    static: StaticFacts | None = None
    error: ChatTemplateError | None = None
    """Why it cannot be parsed or rendered at all, with a ``code``."""
    rendered: Mapping[str, str] = {}
    """The texts of the conversations that were rendered."""
    failed: Mapping[str, ChatTemplateError] = {}
    """The errors of the others."""


class Marker(NamedTuple):
    """A token at the beginning or end of a turn."""

    text: str
    id: int


class Turns(NamedTuple):
    """The markers around a turn of the assistant; None if not found."""

    terminator: Marker | None = None
    primer: Marker | None = None


def probe(
    source: str, special_tokens: Mapping[str, str], *, conversations: Iterable[str] = ALL
) -> Probes:
    """Parse ``source``, and render the named conversations in a child process.

    Without jinja2 (extra ``chat``) nothing is rendered, and ``unavailable`` says so.
    """
    try:
        require_jinja2()
    except MissingExtraError as error:
        return Probes(unavailable=str(error))
    try:
        static = _static(source, special_tokens)
    except ChatTemplateError as error:
        return Probes(error=error)
    names = tuple(conversations)
    return _rendered(source, special_tokens, names, static) if names else Probes(static=static)


def find_turns(probes: Probes, markers: Mapping[str, int], stops: Container[int] = ()) -> Turns:
    """Return the terminator and the primer among ``markers`` (texts to ids).

    The terminator is the marker directly after an answer that ends the conversation. If more
    markers follow each answer, it is the first of them in ``stops``, or else the first of all.
    Otherwise it is the first of at least two markers between the answer and the next question: an
    old ChatML template writes nothing after a last answer. The primer is the last marker before
    that question, unless it is the terminator.
    """
    between = _between(probes.rendered.get("followed", ""), ANSWER, QUESTION)
    if len(between) > _MOST_BETWEEN:
        between = between[: _MOST_BETWEEN // 2] + between[-_MOST_BETWEEN // 2 :]
    inner = found_in(between, markers)
    _, answer, last = probes.rendered.get("answered", "").rpartition(ANSWER)
    last = last.lstrip()[:_MOST_BETWEEN] if answer else ""
    after = found_in(last, markers)
    if after and last.startswith(after[0]):
        both = (one for one, other in zip(after, inner, strict=False) if one == other)
        terminator = next((one for one in both if markers[one] in stops), after[0])
    else:
        terminator = inner[0] if len(inner) > 1 else ""
    primer = inner[-1] if inner and inner[-1] != terminator else ""
    found = (Marker(text, markers[text]) if text else None for text in (terminator, primer))
    return Turns(*found)


def after_call(probes: Probes, markers: Mapping[str, int]) -> dict[int, str]:
    """Return the markers between a tool call and its result: ids and texts."""
    text = _between(probes.rendered.get("returned", ""), PLACE, RESULT)
    return {markers[found]: found for found in found_in(text[:_MOST_BETWEEN], markers)}


def openers(probes: Probes, markers: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Return the markers with which messages begin, and the messages' roles.

    ``markers`` maps texts to ids. Those returned are between the text of a message and that of the
    one before. The marker that closes the earlier message is left out: the first of several, and
    the terminator.
    """
    terminator = find_turns(probes, markers).terminator
    opened: dict[str, list[str]] = {}
    for name, messages in _OPENED:
        rest, is_first = probes.rendered.get(name, ""), True
        for role, content in messages:
            before, found, after = rest.partition(content)
            if not found:
                continue  # the template leaves it out
            inner = found_in(before[-_MOST_BETWEEN:], markers) if role else []
            for text in inner if is_first or len(inner) == 1 else inner[1:]:
                roles = opened.setdefault(text, [])
                if role not in roles and (terminator is None or text != terminator.text):
                    roles.append(role)
            rest, is_first = after, False
    return {text: tuple(roles) for text, roles in opened.items() if roles}


def rewritten(probes: Probes) -> dict[str, tuple[str, str]]:
    """Return the conversations whose earlier turns change when a message follows.

    The values are two ends of the text from the first difference on: before and after.
    """
    found = {}
    for name, continued, last in _CONTINUED:
        before, content, _ = probes.rendered.get(name, "").rpartition(last)
        before += content
        after = probes.rendered.get(continued)
        if content and after is not None and not after.startswith(before):
            pairs = zip(before, after, strict=False)
            same = next((i for i, (a, b) in enumerate(pairs) if a != b), len(after))
            start = max(0, same - _MOST_SHOWN)
            found[name] = (before[start:][: 4 * _MOST_SHOWN], after[start:][: 4 * _MOST_SHOWN])
    return found


def found_in(text: str, markers: Iterable[str]) -> list[str]:
    """Return the occurrences of markers in ``text``, the longest at each place."""
    present = sorted((m for m in markers if m and m in text), key=len, reverse=True)
    return re.findall("|".join(map(re.escape, present)), text) if present else []


def _between(text: str, start: str, end: str) -> str:
    """Return the text between the two; empty if one of them is missing."""
    rest = text.partition(start)[2]
    return rest.partition(end)[0] if end in rest else ""


def _static(source: str, special_tokens: Mapping[str, str]) -> StaticFacts:
    """Return the facts found by parsing a template.

    Raises :class:`ChatTemplateError` for a template over a limit, or with a syntax error.
    """
    from streamdec.chat.content_format import content_format_of
    from streamdec.chat.environment import make_environment
    from streamdec.chat.rendering import parse_template

    nodes = import_module("jinja2.nodes")
    environment = make_environment(PROFILE)
    tree = parse_template(environment, source)
    find = tree.find_all
    names = [*find(nodes.Name)]
    stored = {node.name for node in names if node.ctx != "load"}
    stored |= {node.name for node in find(nodes.Macro)}
    given = STANDARD_NAMES | set(special_tokens) | set(environment.globals) | _IMPLICIT
    undeclared = {node.name for node in names if node.name not in stored | given}
    asked = {
        node.node.name
        for node in find(nodes.Test)
        if node.name in ("defined", "undefined") and isinstance(node.node, nodes.Name)
    }
    called = [call.node for call in find(nodes.Call) if isinstance(call.node, nodes.Name)]
    lacking = [node for node in find(nodes.Filter) if node.name not in environment.filters]
    lacking += [node for node in find(nodes.Test) if node.name not in environment.tests]
    lacking += [node for node in called if node.name in undeclared - asked]
    unknown: dict[str, int] = {}
    for node in lacking:
        unknown.setdefault(node.name, node.lineno)
    return StaticFacts(
        any(node.name == "strftime_now" for node in called),
        dict(sorted(unknown.items())[:_MOST_SHOWN]),
        frozenset(sorted(undeclared - set(unknown))[:_MOST_SHOWN]),
        content_format_of(tree) == "parts only",
    )


def _rendered(
    source: str, special_tokens: Mapping[str, str], names: Iterable[str], static: StaticFacts
) -> Probes:
    """Render conversations in a child process.

    After an error such as an exceeded limit nothing else is rendered.
    """
    from streamdec.chat.isolated import ChildPool, render_isolated

    rendered: dict[str, str] = {}
    failed: dict[str, ChatTemplateError] = {}
    with closing(ChildPool(1, LIMITS)) as pool:
        for name in names:
            asked = _CONVERSATIONS[name]
            messages = asked["messages"]
            if static.only_parts:
                messages = [_in_parts(each) for each in messages]
            context = {
                "tools": _DATA["tools"] if asked.get("tools") else None,
                "documents": None,
                "add_generation_prompt": asked.get("add_generation_prompt", False),
                **special_tokens,
                "messages": messages,
            }
            try:
                rendered[name], _ = render_isolated(
                    source, context, profile=PROFILE, now=NOW, pool=pool
                )
            except ChatTemplateError as error:
                failed[name] = error
                if error.code in _HOPELESS:
                    return Probes(static=static, error=error, rendered=rendered, failed=failed)
    return Probes(static=static, rendered=rendered, failed=failed)


def _in_parts(message: dict[str, Any]) -> dict[str, Any]:
    """Return ``message`` with its text as a list of parts, as vLLM passes it."""
    text = message["content"]
    is_kept = not isinstance(text, str) or message["role"] == "tool"
    return message if is_kept else {**message, "content": [{"type": "text", "text": text}]}
