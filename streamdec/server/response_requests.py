"""Requests of OpenAI's Responses API, read as conversations.

In: the object of a request, and the limits. Out: a
:class:`~streamdec.server.generation_requests.Chat`, and the other fields with the names of chats;
or a :class:`RequestError` that names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamdec.server.fields import Fields
from streamdec.server.generation_requests import Chat, Generation, read_chat
from streamdec.server.limits import ServerLimits
from streamdec.server.parameters import RESPONSES
from streamdec.server.problems import RequestError, shown

LOGPROBS = "message.output_text.logprobs"
"""The value in ``include`` that asks for log probabilities."""
_TEXTS = ("input_text", "output_text", "text")
MOST_METADATA, LONGEST_KEY, LONGEST_VALUE = 16, 64, 512


def read_response(body: Mapping[str, Any], limits: ServerLimits) -> tuple[Chat, dict[str, Any]]:
    """Return the conversation of a request, and its other fields.

    The other fields have the names of the Chat Completions API.
    """
    fields = Fields(body)
    rest = {name: value for name, value in body.items() if name in RESPONSES.read}
    rest["max_tokens"] = fields.integer("max_output_tokens", 1, limits.max_tokens)
    fields.mapping("stream_options")  # only its type matters: responses always have the usage
    rest.pop("stream_options", None)
    _check_forms(fields)
    instructions = fields.text("instructions")
    messages = [{"role": "system", "content": instructions}] if instructions else []
    messages += _messages(fields)
    chat = {
        "messages": messages,
        "tools": _tools(fields),
        "tool_choice": fields.get("tool_choice"),
        "chat_template_kwargs": fields.get("chat_template_kwargs"),
        "reasoning_effort": fields.within("reasoning").text("effort"),
    }
    return read_chat(chat, limits), rest


def _check_forms(fields: Fields) -> None:
    """Raise RequestError for an unsupported form of text or reasoning."""
    text, reasoning = fields.within("text"), fields.within("reasoning")
    for within, name, kept in (
        (text.within("format"), "type", "text"),
        (text, "verbosity", "medium"),
        (reasoning, "summary", "auto"),
        (reasoning, "generate_summary", "auto"),
    ):
        if within.text(name) not in (None, kept):
            raise within.wrong(name, kept, "unsupported_parameter")


def _tools(fields: Fields) -> list[dict[str, Any]]:
    """Return functions in the form of chats, which templates use."""
    found = []
    for index, tool in enumerate(fields.objects("tools") or ()):
        if tool.get("type") != "function":
            raise _wrong_type(f"tools.{index}", tool, "function")
        function = {name: value for name, value in tool.items() if name != "type"}
        found.append({"type": "function", "function": function})
    return found


def _messages(fields: Fields) -> list[dict[str, Any]]:
    given = fields.get("input")
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    items = fields.objects("input") if isinstance(given, list) else None
    if not items:
        raise fields.wrong("input", "a string or a list of at least one item")
    found: list[dict[str, Any]] = []
    thought = ""
    for index, item in enumerate(items):
        where = f"input.{index}"
        if item.get("type") == "reasoning":
            thought += _text(item.get("content") or "", f"{where}.content", ("reasoning_text",))
            continue
        if item.get("type") not in (None, "message"):
            raise _wrong_type(where, item, "message or reasoning")
        if not isinstance(item.get("role"), str):
            raise RequestError(f"{where}.role must be a string", param="input")
        content = _text(item.get("content"), f"{where}.content", _TEXTS)
        message = {"role": item["role"], "content": content}
        if thought and message["role"] == "assistant":
            message["reasoning_content"], thought = thought, ""
        found.append(message)
    return found


def _text(content: Any, where: str, kinds: tuple[str, ...]) -> str:
    """Return the text of a content: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(each, dict) for each in content):
        raise RequestError(f"{where} must be a string or a list of parts", param="input")
    for index, part in enumerate(content):
        if part.get("type") not in kinds:
            raise _wrong_type(f"{where}.{index}", part, " or ".join(kinds))
        if not isinstance(part.get("text"), str):
            raise RequestError(f"{where}.{index}.text must be a string", param="input")
    return "".join(part["text"] for part in content)


def _wrong_type(where: str, item: Mapping[str, Any], wanted: str) -> RequestError:
    message = f"{where}.type must be {wanted}, not {shown(item.get('type'))}"
    return RequestError(message, param=where.partition(".")[0], code="unsupported_parameter")


def _metadata(fields: Fields) -> dict[str, Any]:
    """Return the metadata, which the response repeats.

    It has the limits of OpenAI's API.
    """
    found = fields.mapping("metadata") or {}
    if len(found) > MOST_METADATA or not all(
        len(key) <= LONGEST_KEY and isinstance(value, str) and len(value) <= LONGEST_VALUE
        for key, value in found.items()
    ):
        wanted = f"up to {MOST_METADATA} strings of up to {LONGEST_VALUE} characters"
        raise fields.wrong("metadata", f"{wanted}, with keys of up to {LONGEST_KEY}")
    return found


def repeated(fields: Fields, asked: Generation) -> dict[str, Any]:
    """Return the fields of the request that the response repeats, all small."""
    return {
        "background": False,
        "max_output_tokens": asked.conditions.max_tokens,
        "metadata": _metadata(fields),
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": asked.sampling.temperature,
        "text": {"format": {"type": "text"}},
        "tool_choice": fields.get("tool_choice") or "auto",
        "tools": [],  # it has no tool calls
        "top_logprobs": asked.logprobs or 0,
        "top_p": asked.sampling.top_p,
        "truncation": "disabled",
    }
