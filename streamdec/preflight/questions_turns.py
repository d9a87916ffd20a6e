"""Which markers begin a message, asked of the chat template by rendering.

In: the text of a template, its special tokens, and markers. Out: for each marker that a message
begins with, the roles of such messages. A conversation is rendered message by message: what is new
before the text of a message, and does not close the one before, is how it begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from itertools import takewhile
from typing import Any

from streamdec.errors import ChatTemplateError
from streamdec.preflight.turns import ANSWER, FIRST, NOW, PROFILE, QUESTION, Probes, find_turns

__all__ = ["openers"]

_CALLED = "qzcalledzq"
_RESULT = "qzresultzq"
_SYSTEM = "qzsystemzq"
_USER = {"role": "user", "content": FIRST}
_ANSWER = {"role": "assistant", "content": ANSWER}
_QUESTION = {"role": "user", "content": QUESTION}
# Nine characters, as Mistral's templates want them.
_CALL = {
    "id": "call00001",
    "type": "function",
    "function": {"name": "look", "arguments": {"at": "it"}},
}
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look",
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {"at": {"type": "string"}}},
        },
    }
]
_CONVERSATIONS: tuple[tuple[list[dict[str, Any]], list[dict[str, Any]] | None], ...] = (
    ([_USER, _ANSWER, _QUESTION], None),
    ([{"role": "system", "content": _SYSTEM}, _USER, _ANSWER], None),
    (
        [
            _USER,
            {"role": "assistant", "content": _CALLED, "tool_calls": [_CALL]},
            {"role": "tool", "name": "look", "tool_call_id": "call00001", "content": _RESULT},
            _ANSWER,
        ],
        _TOOLS,
    ),
)
"""Conversations and the tools that go with them; a template may refuse any of them."""
_LIMITS = {"cpu_seconds": 1, "wall_seconds": 5.0, "answer": 4 << 20}


def openers(
    template: str, special_tokens: Mapping[str, str], markers: Mapping[str, int]
) -> dict[str, tuple[str, ...]]:
    """The markers (texts to ids) with which messages begin, each with the roles of those messages.

    Empty for a template that renders nothing. Raises :class:`MissingExtraError` without jinja2.
    """
    import_module("streamdec.chat._jinja").require_jinja2()
    texts = _rendered(template, special_tokens)
    answered, followed = texts.get((0, 2), ""), texts.get((0, 3), "")
    probes = Probes(rendered={"answered": answered, "followed": followed})
    terminator = find_turns(probes, markers).terminator
    closing = {terminator.text} if terminator is not None else set()
    found: dict[str, list[str]] = {}
    for index, (messages, _) in enumerate(_CONVERSATIONS):
        for position, message in enumerate(messages):
            before = texts.get((index, position), "")
            after = texts.get((index, position + 1))
            if after is None:
                continue
            previous = messages[position - 1]["content"] if position else ""
            for marker in _begins(before, after, previous, message["content"], markers):
                roles = found.setdefault(marker, [])
                if marker not in closing and message["role"] not in roles:
                    roles.append(message["role"])
    return {marker: tuple(roles) for marker, roles in found.items() if roles}


def _begins(
    before: str, after: str, previous: str, content: str, markers: Mapping[str, int]
) -> list[str]:
    """The markers in what is new before ``content``, but for the one that closes ``previous``."""
    end = after.rfind(content)
    if end < 0:
        return []
    start = after.rfind(previous, 0, end) + len(previous) if previous else 0
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
    common = sum(1 for _ in same)
    by_length = sorted((m for m in markers if m), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, by_length)) or r"(?!)")
    found = list(pattern.finditer(after, start, end))
    new = [each.group() for each in found if each.end() > common]
    # All that is between is new: a last message is not closed, this one is.
    closes = previous and len(new) == len(found) > 1
    return new[1:] if closes else new


def _rendered(template: str, special_tokens: Mapping[str, str]) -> dict[tuple[int, int], str]:
    """The texts of each conversation's first messages: its number, and how many they are."""
    child = import_module("streamdec.chat.isolated")
    pool = child.ChildPool(1, child.ChildLimits(**_LIMITS))
    found: dict[tuple[int, int], str] = {}
    try:
        for index, (messages, tools) in enumerate(_CONVERSATIONS):
            for count in range(1, len(messages) + 1):
                context: dict[str, Any] = {"tools": tools, "documents": None}
                context |= {"add_generation_prompt": False, **special_tokens}
                context["messages"] = messages[:count]
                try:
                    found[index, count], _ = child.render_isolated(
                        template, context, profile=PROFILE, now=NOW, pool=pool
                    )
                except ChatTemplateError as error:
                    if error.code in ("CHAT_TEMPLATE_RESOURCE_LIMIT", "CHAT_TEMPLATE_CHILD_DIED"):
                        return found
    finally:
        pool.close()
    return found
