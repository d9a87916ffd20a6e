"""The renderings of small conversations by a template, and its turns.

In: the text of a template and the special tokens that it sees. Out: :class:`Probes`. From them come
the markers that close and open turns (:func:`find_turns`, :func:`openers`, :func:`after_call`) and
the conversations whose earlier turns change (:func:`rewritten`). A template is an untrusted
program: it is parsed here, and run only in a child process. Its source is not searched for
patterns: only renderings count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from time import monotonic
from typing import Any, NamedTuple

from streamdec.chat import require_jinja2
from streamdec.errors import ChatTemplateError, MissingExtraError

ANSWER = "qzanswerzq"
QUESTION = "qzquestionzq"
FIRST = "qzfirstzq"
SYSTEM = "qzsystemzq"
THOUGHT = "qzthoughtzq"
CALLED = "qzcalledzq"
PLACE = "qzplacezq"
RESULT = "qzresultzq"
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

# --- the conversations ----------------------------------------------------------------------------

_PARAMETERS = {"type": "object", "properties": {"at": {"type": "string"}}, "required": []}
_FUNCTION = {"name": "look", "description": "Looks.", "parameters": _PARAMETERS}
_TOOLS = [{"type": "function", "function": _FUNCTION}]


def _message(role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def _call(arguments: Any, content: str | None = CALLED) -> dict[str, Any]:
    function = {"name": "look", "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return _message("assistant", content, tool_calls=[call])


_USER = _message("user", FIRST)
_ASSISTANT = _message("assistant", ANSWER)
_NEXT = _message("user", QUESTION)
_SYSTEM = _message("system", SYSTEM)
_REASONED = _message("assistant", ANSWER, reasoning_content=THOUGHT)
_CALL = _call({"at": PLACE})
_RETURNED = _message("tool", RESULT, name="look", tool_call_id="call00001")
_LIST = _message("user", [{"type": "text", "text": FIRST}])
_STRING = _call(f'{{"at": "{PLACE}"}}')

_CONVERSATIONS: Mapping[str, tuple[str, list[dict[str, Any]]]] = {
    "prompt": ("a question", [_USER]),
    "generation": ("a question with add_generation_prompt", [_USER]),
    "answered": ("an answer", [_USER, _ASSISTANT]),
    "followed": ("an answer and a question", [_USER, _ASSISTANT, _NEXT]),
    "empty": ("an empty answer", [_USER, _message("assistant", "")]),
    "none": ("an answer of null", [_USER, _message("assistant", None)]),
    "list": ("a question that is a list of parts", [_LIST]),
    "call": ("a call of a tool", [_USER, _CALL]),
    "call_none": ("a call of a tool with null content", [_USER, _call({"at": PLACE}, None)]),
    "call_string": ("a call of a tool, its arguments as a string", [_USER, _STRING]),
    "returned": ("the result of a tool", [_USER, _CALL, _RETURNED, _ASSISTANT]),
    "system": ("a system message", [_SYSTEM, _USER, _ASSISTANT]),
    "system_followed": ("a system message", [_SYSTEM, _USER, _ASSISTANT, _NEXT]),
    "reasoned": ("an answer with reasoning", [_USER, _REASONED]),
    "reasoned_followed": ("an answer with reasoning", [_USER, _REASONED, _NEXT]),
    "tools": ("an answer, with tools", [_USER, _ASSISTANT]),
    "tools_followed": ("an answer, with tools", [_USER, _ASSISTANT, _NEXT]),
}
"""The conversations to render, by name: each in words, and its messages."""
_WITH_TOOLS = ("call", "call_none", "call_string", "returned", "tools", "tools_followed")
ALL = tuple(_CONVERSATIONS)
WHAT: Mapping[str, str] = {name: what for name, (what, _) in _CONVERSATIONS.items()}
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


class Marker(NamedTuple):
    """A token at the beginning or end of a turn."""

    text: str
    id: int


class Turns(NamedTuple):
    """The markers around a turn of the assistant; None if not found."""

    terminator: Marker | None = None
    primer: Marker | None = None


def probe(
    source: str | None, special_tokens: Mapping[str, str], *, conversations: Iterable[str] = ALL
) -> Probes:
    """Parse ``source``, and render the named conversations in a child process.

    This takes at most half a minute: after a limit nothing else is rendered. Without jinja2 (extra
    ``chat``) nothing is, and ``unavailable`` says so.
    """
    if source is None:
        return Probes(unavailable="there is no chat template")
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


# --- markers --------------------------------------------------------------------------------------


def find_turns(probes: Probes, markers: Mapping[str, int]) -> Turns:
    """Return the terminator and the primer among ``markers`` (texts to ids).

    The terminator is the marker directly after the answer, if the answer is the last message of the
    conversation. Otherwise it is the first of at least two markers between the answer and the next
    question. The primer is the last marker before that question, unless it is the terminator. (An
    old ChatML template that writes nothing after a last answer has its terminator only before the
    next turn.)
    """
    between = _between(probes.rendered.get("followed", ""), ANSWER, QUESTION)
    if len(between) > _MOST_BETWEEN:
        between = between[: _MOST_BETWEEN // 2] + between[-_MOST_BETWEEN // 2 :]
    inner = found_in(between, markers)
    _, answer, last = probes.rendered.get("answered", "").rpartition(ANSWER)
    last = last.lstrip()[:_MOST_BETWEEN] if answer else ""
    after = found_in(last, markers)
    if after and last.startswith(after[0]):
        terminator = after[0]
    else:
        terminator = inner[0] if len(inner) > 1 else ""
    primer = inner[-1] if inner and inner[-1] != terminator else ""
    return Turns(
        Marker(terminator, markers[terminator]) if terminator else None,
        Marker(primer, markers[primer]) if primer else None,
    )


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


# --- parsing --------------------------------------------------------------------------------------


def _static(source: str, special_tokens: Mapping[str, str]) -> StaticFacts:
    """Return the facts found by parsing a template.

    Raises :class:`ChatTemplateError` for a template over a limit, or with a syntax error.
    """
    environment = import_module("streamdec.chat.environment").make_environment(PROFILE)
    find = import_module("streamdec.chat.rendering").parse_template(environment, source).find_all
    nodes = import_module("jinja2.nodes")
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
    lacking = [node for node in find(nodes.Filter) if node.name not in environment.filters]
    lacking += [node for node in find(nodes.Test) if node.name not in environment.tests]
    called = [node.node for node in find(nodes.Call)]
    functions = [node for node in called if isinstance(node, nodes.Name)]
    methods = [node for node in called if isinstance(node, nodes.Getattr)]
    lacking += [node for node in functions if node.name in undeclared - asked]
    unknown: dict[str, int] = {}
    for node in lacking:
        unknown.setdefault(node.name, node.lineno)
    return StaticFacts(
        frozenset([*(node.name for node in functions), *(node.attr for node in methods)]),
        dict(sorted(unknown.items())[:_MOST_SHOWN]),
        frozenset(sorted(undeclared - set(unknown))[:_MOST_SHOWN]),
    )


# --- rendering ------------------------------------------------------------------------------------


def _rendered(
    source: str, special_tokens: Mapping[str, str], names: Iterable[str], static: StaticFacts
) -> Probes:
    """Render conversations in a child process.

    After an error such as an exceeded limit nothing else is rendered.
    """
    child = import_module("streamdec.chat.isolated")
    # One child for all conversations, with less processor time and a smaller answer than requests.
    pool = child.ChildPool(1, child.ChildLimits(cpu_seconds=1, answer=4 << 20))
    rendered: dict[str, str] = {}
    failed: dict[str, ChatTemplateError] = {}
    end = monotonic() + MOST_SECONDS
    hopeless: ChatTemplateError | None = None
    try:
        for name in names:
            if monotonic() > end:
                late = f"its conversations took more than {MOST_SECONDS} seconds together"
                hopeless = ChatTemplateError(late, code="CHAT_TEMPLATE_RESOURCE_LIMIT")
                break
            context: dict[str, Any] = {
                "tools": _TOOLS if name in _WITH_TOOLS else None,
                "documents": None,
                "add_generation_prompt": name == "generation",
                **special_tokens,
                "messages": _CONVERSATIONS[name][1],
            }
            try:
                rendered[name], _ = child.render_isolated(
                    source, context, profile=PROFILE, now=NOW, pool=pool
                )
            except ChatTemplateError as error:
                failed[name] = error
                if error.code in _HOPELESS:
                    hopeless = error
                    break
            except OSError as error:
                hopeless = ChatTemplateError(f"no process to render in: {error}", code=CHILD_DIED)
                break
    finally:
        pool.close()
    return Probes(static=static, error=hopeless, rendered=rendered, failed=failed)
