"""The conversion of messages for a template, as in transformers and the engines.

In: a caller's messages. Out: the messages that the template sees; changed ones are copies. The end
of a message that the model continues is marked, and the rendering is cut there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal

from streamdec.chat.plain import plain
from streamdec.errors import ChatTemplateError, warn

ContentFormat = Literal["string", "parts", "parts only"]
"""The content of messages that a template accepts. ``"string"``: a string. ``"parts"``: a string or
a list of parts. ``"parts only"``: a list of parts."""

_TAG = "CONTINUE_FINAL_MESSAGE_TAG "
"""Marks the end of a message that the model continues. transformers uses the same word, so a
template that treats it specially works here too."""
_REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names for the reasoning of a message; templates read the first one."""


def prepared(messages: Any, profile: str) -> list[Any]:
    """Return ``messages`` as a template of ``profile`` sees them.

    Raises :class:`~streamdec.errors.ChatTemplateError` if they are not one conversation.
    """
    messages = getattr(messages, "messages", messages)
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Iterable):
        problem = f"messages must be a list of messages, not {type(messages).__name__}"
        raise ChatTemplateError(problem)
    found = list(messages)
    if found and isinstance(found[0], (list, tuple)):
        raise ChatTemplateError("messages must be one conversation, not a list of several")
    if profile == "classic":
        return found
    return [_with_reasoning(_without_nulls(one, index)) for index, one in enumerate(found)]


def _without_nulls(message: Any, index: int) -> dict[str, Any]:
    """Return ``message`` without null fields, as in the hardened profile."""
    found = plain(message)
    if not isinstance(found, dict):
        problem = f"message {index} must be a dict, a dataclass or a pydantic model"
        raise ChatTemplateError(f"{problem}, not {type(message).__name__}")
    return {key: value for key, value in found.items() if value is not None}


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Return ``message`` with its reasoning under both names that templates read.

    gpt-oss reads ``thinking``; most templates read ``reasoning_content``.
    """
    found = next((message[name] for name in _REASONING if message.get(name) is not None), None)
    if found is None:
        return message
    return {"thinking": found, **message, "reasoning_content": found}


# --- to continue the last message -----------------------------------------------------------------


def mark_end(messages: list[Any], field: str, source: str, profile: str) -> tuple[list[Any], str]:
    """Return the messages with a mark after ``field``, and the text before it.

    The field is that of the last message. Raises :class:`~streamdec.errors.ChatTemplateError` if
    there is no message, or if the message or the template lacks the field.
    """
    if not messages:
        raise ChatTemplateError("continue_final_message: the conversation is empty")
    last = messages[-1]
    value = last.get(field) if isinstance(last, Mapping) else getattr(last, field, None)
    if value is None:
        raise ChatTemplateError(f"continue_final_message: the last message has no {field!r}")
    fields = [field]
    if profile == "hardened" and field in _REASONING:
        fields = [name for name in _REASONING if last.get(name) == value]
    if not any(name in source for name in fields):
        raise ChatTemplateError(f"continue_final_message: the template does not mention {field!r}")
    text, marked = _marked(value, field)
    given = last if isinstance(last, Mapping) else plain(last)
    return [*messages[:-1], {**given, **dict.fromkeys(fields, marked)}], text


def cut_at_mark(rendered: str, text: str) -> str:
    """Return ``rendered`` up to the mark after ``text``; raises ChatTemplateError."""
    mark = _TAG.strip()
    if mark not in rendered or text.strip() not in rendered:
        problem = f"the template changes the text of the last message: {text.strip()!r:.200}"
        raise ChatTemplateError(f"continue_final_message: {problem}")
    end = rendered.rindex(mark)
    if rendered.startswith(_TAG, end):
        return rendered[:end]
    return rendered[:end].rstrip()  # the template trims, so the space of the mark was trimmed


def _marked(value: Any, field: str) -> tuple[str, Any]:
    """Return the text to continue, and ``value`` with the mark at its end."""
    if isinstance(value, str):
        return value, value + _TAG
    if type(value) not in (list, tuple):
        problem = f"{field!r} must be a string or a list of parts, not {type(value).__name__}"
        raise ChatTemplateError(f"continue_final_message: {problem}")
    for index in reversed(range(len(value))):
        part = value[index]
        if isinstance(part, Mapping) and "text" in part:
            if not isinstance(part["text"], str):
                break
            marked = {**part, "text": part["text"] + _TAG}
            return part["text"], type(value)([*value[:index], marked, *value[index + 1 :]])
    raise ChatTemplateError("continue_final_message: the last message has no text to continue")


# --- as OpenAI's clients write them ---------------------------------------------------------------

TEXT_PARTS = ("text", "input_text", "output_text", "refusal", "thinking")
"""Types of text parts."""
_MEDIA = ("image", "audio", "video")
"""The names of media parts in templates. Clients write ``image_url`` and ``input_image``, too."""


def openai_messages(
    messages: Iterable[Any],
    content_format: ContentFormat = "string",
    *,
    profile: str = "classic",
    separator: str = "\n",
) -> list[dict[str, Any]]:
    r"""Convert ``messages`` of OpenAI's API for a template, as vLLM and SGLang do.

    Args:
        messages: Dicts, or objects such as pydantic models. They are not changed.
        content_format: The content that the template accepts. With ``"string"``, the texts of a
            list are joined by ``separator``. Otherwise a list stays a list of parts, with the type
            names that templates use.
        profile: ``"classic"`` turns null content into an empty string; ``"hardened"`` drops it.
        separator: The string between joined texts. vLLM uses a line feed, SGLang a space.

    Returns new dicts. Tool arguments that are a JSON string are parsed, because templates iterate
    over them. If they are not a JSON object, they become ``{}``, with a StreamdecWarning. Texts in
    the result of a tool are joined. The reasoning of a message has both of its names, ``reasoning``
    and ``reasoning_content``. Other null fields and empty lists of tool calls are dropped.

    Raises :class:`~streamdec.errors.ChatTemplateError` if ``messages`` is not a list of messages;
    and, with the index of the message, for a missing role, for missing or malformed content (an
    assistant's message may have tool calls instead), and for a part other than text if
    ``content_format`` is ``"string"``.

    >>> from streamdec.chat import openai_messages
    >>> parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]
    >>> openai_messages([{"role": "user", "content": parts, "name": None}])
    [{'role': 'user', 'content': 'Hi\nthere'}]
    """
    found = []
    for index, message in enumerate(prepared(messages, "classic")):
        try:
            found.append(_openai_message(message, content_format, profile, separator))
        except RecursionError as error:
            raise ChatTemplateError(f"message {index}: it is nested too deeply") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ChatTemplateError(f"message {index}: {error}") from error
    return found


def unconverted(messages: Iterable[Any], content_format: ContentFormat) -> str | None:
    """Return what ``openai_messages`` would convert first; None without such a part."""
    for index, message in enumerate(messages):
        if not isinstance(message, Mapping):
            continue
        content, place = message.get("content", ""), f"the content of message {index}"
        if content is None:
            return f"{place} is null"
        if content_format == "string" and isinstance(content, (list, tuple)):
            return f"{place} is a list of parts, and the template takes only text"
        is_result = message.get("role") == "tool"
        if content_format == "parts only" and isinstance(content, str) and not is_result:
            return f"{place} is a string, and the template takes only a list of parts"
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, (list, tuple)) else ():
            function = call.get("function") if isinstance(call, Mapping) else None
            if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
                return f"message {index} has tool arguments that are a string"
    return None


def _openai_message(
    message: Any, content_format: ContentFormat, profile: str, separator: str
) -> dict[str, Any]:
    data = plain(message)
    if not isinstance(data, dict):
        raise TypeError(f"must be a dict, not {type(message).__name__}")
    content, calls = data.get("content"), data.get("tool_calls") or []
    if "role" not in data:
        raise ValueError("role is missing")
    if not isinstance(data["role"], str):
        raise TypeError(f"role must be a string, not {type(data['role']).__name__}")
    if not isinstance(calls, (list, tuple)) or not all(isinstance(each, dict) for each in calls):
        raise TypeError("tool_calls must be a list of dicts")
    # In place of content, an assistant's message may have calls, reasoning or a refusal.
    others = data.keys() - {"role", "name", "tool_calls"} if data["role"] == "assistant" else ()
    if "content" not in data and not calls and not others:
        raise ValueError("content is missing")
    if content is not None:
        is_result = data["role"] == "tool"
        data["content"] = _content(content, content_format, separator, is_result)
    elif profile == "classic" and ("content" in data or calls):
        data["content"] = ""
    if data["role"] == "assistant":
        # vLLM reads both names, and gives templates both.
        reasoning = data.get("reasoning") or data.get("reasoning_content")
        data |= {"reasoning": reasoning, "reasoning_content": reasoning}
    data["tool_calls"] = [*map(_tool_call, calls)] or None
    return {key: value for key, value in data.items() if value is not None}


def _content(content: Any, content_format: ContentFormat, separator: str, is_result: bool) -> Any:
    if isinstance(content, str):
        is_wrapped = content_format == "parts only" and not is_result
        return [{"type": "text", "text": content}] if is_wrapped else content
    if not isinstance(content, (list, tuple)):
        raise TypeError(f"content must be a string or a list, not {type(content).__name__}")
    parts = [_part(part, index) for index, part in enumerate(content)]
    other = next((part["type"] for part in parts if part["type"] != "text"), None)
    if content_format != "string" and (other is not None or not is_result):
        return parts
    if other is not None:
        raise ValueError(f"the template accepts only text, but the content has a part {other!r}")
    return separator.join(part["text"] for part in parts)


def _part(part: Any, index: int) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, dict):
        raise TypeError(f"part {index} of the content must be a dict, not {type(part).__name__}")
    kind = part.get("type", "text" if "text" in part else None)
    if kind in TEXT_PARTS:
        text = part.get("text" if kind.endswith("text") else kind)
        if not isinstance(text, str):
            raise ValueError(f"part {index} of the content has no text")
        return {"type": "text", "text": text}
    if not isinstance(kind, str):
        raise ValueError(f"part {index} of the content has no type")
    medium = kind.removeprefix("input_").removesuffix("_url")
    return {"type": medium} if medium in _MEDIA else part


def _tool_call(call: Any) -> Any:
    function = call.get("function")
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        with suppress(ValueError):
            arguments = json.loads(arguments) if arguments.strip() else {}
    if not isinstance(arguments, dict):
        # The same text for all requests, because Python keeps each text that it has shown.
        warn("the arguments of a tool call are not a JSON object; they become {}")
        arguments = {}
    return {**call, "function": {**function, "arguments": arguments}}
