"""The OpenAPI document of a server: its paths, parameters and errors.

In: the limits and the routes of a server. Out: a JSON object (OpenAPI 3.1.0). It has the parameters
that the server reads. Parameters that :mod:`streamdec.server.parameters` rejects are not listed.
Responses are those of the APIs of OpenAI and Anthropic, and are not described again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streamdec.integrations._json import Json
from streamdec.server.guard import OPEN
from streamdec.server.limits import ServerLimits
from streamdec.server.parameters import ANTHROPIC, CHAT, COMPLETION, RESPONSES
from streamdec.tokenizers.tokenizer_report import versions_of

_TEXT: Json = {"type": "string"}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}
_OBJECTS: Json = {"type": "array", "items": _OBJECT}
_ID: Json = {"type": "integer", "minimum": 0}
_IDS: Json = {"type": "array", "items": _ID}


def _number(least: float, most: float) -> Json:
    return {"type": "number", "minimum": least, "maximum": most}


def _integer(least: int, most: int | None = None) -> Json:
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def _list(each: Json, most: int) -> Json:
    return {"type": "array", "items": each, "maxItems": most}


def _any(*kinds: Json) -> Json:
    return {"anyOf": list(kinds)}


def _parameters(limits: ServerLimits) -> dict[str, Json]:
    """Return the schema of each parameter."""
    stop = {**_TEXT, "minLength": 1, "maxLength": limits.stop_characters}
    marker = _any(_TEXT, _ID)
    pair = _list(marker, 2)
    ids = {**_IDS, "maxItems": limits.prompt_tokens}
    prompts = [_list(_TEXT, limits.samples), _list(ids, limits.samples)]
    messages = {**_list(_OBJECT, limits.messages), "minItems": 1}
    tokens = _integer(1, limits.max_tokens)
    return {
        "model": _TEXT,
        "prompt": _any(_TEXT, ids, *prompts),
        "messages": messages,
        "input": _any(_TEXT, messages),
        "instructions": _TEXT,
        "system": _any(_TEXT, _OBJECTS),
        "n": _integer(1, limits.samples),
        "best_of": _integer(1),
        "stream": _FLAG,
        "stream_options": _OBJECT,
        "temperature": _number(0, 2),
        "top_p": _number(0, 1),
        "top_k": _integer(-1, 1 << 31),
        "min_p": _number(0, 1),
        "frequency_penalty": _number(-2, 2),
        "presence_penalty": _number(-2, 2),
        "repetition_penalty": _number(0, 10),
        "seed": _integer(-(1 << 63), (1 << 63) - 1),
        "logit_bias": {**_OBJECT, "additionalProperties": _number(-100, 100)},
        "logprobs": _integer(0, limits.top_logprobs),
        "top_logprobs": _integer(0, limits.top_logprobs),
        "stop": _any(stop, _list(stop, limits.stops)),
        "stop_sequences": _list(stop, limits.stops),
        "stop_token_ids": _any(_ID, _list(_ID, limits.stops)),
        "include_stop_str_in_output": _FLAG,
        "ignore_eos": _FLAG,
        "min_tokens": _integer(0, limits.max_tokens),
        "max_tokens": tokens,
        "max_completion_tokens": tokens,
        "max_output_tokens": tokens,
        "skip_special_tokens": _FLAG,
        "return_token_ids": _FLAG,
        "ignore_stops_between": _any(pair, {"type": "array", "items": pair}),
        "starts_inside": _FLAG,
        "echo": _FLAG,
        "add_special_tokens": _FLAG,
        "tools": _OBJECTS,
        "tool_choice": {"enum": ["none", "auto"]},
        "reasoning": _OBJECT,
        "reasoning_effort": _TEXT,
        "separate_reasoning": _FLAG,
        "include_reasoning": _FLAG,
        "thinking": _OBJECT,
        "add_generation_prompt": _FLAG,
        "continue_final_message": _FLAG,
        "chat_template": _TEXT,
        "chat_template_kwargs": _OBJECT,
        "text": _OBJECT,
        "include": {"type": "array", "items": _TEXT},
        "metadata": _OBJECT,
        "tokens": ids,
        "return_token_strs": _FLAG,
    }


class _Post(NamedTuple):
    """An endpoint that reads a JSON object."""

    summary: str
    parameters: frozenset[str]
    required: tuple[str, ...] = ()
    others: Mapping[str, Json] = {}
    """Parameters that have another schema at this endpoint."""


_INPUT = frozenset(("model", "input", "instructions", "tools", "tool_choice", "reasoning"))
_CONVERSATION = frozenset(("messages", "tools", "chat_template", "chat_template_kwargs"))
_POSTS = {
    "/v1/completions": _Post("OpenAI's completions", COMPLETION.read, ("prompt",)),
    "/v1/chat/completions": _Post(
        "OpenAI's chat completions",
        CHAT.read | {"tool_choice"},
        ("messages",),
        {"logprobs": _FLAG},
    ),
    "/v1/responses": _Post(
        "OpenAI's responses, for text", RESPONSES.read | {"tool_choice"}, ("input",)
    ),
    "/v1/responses/input_tokens": _Post("How many tokens an input has", _INPUT, ("input",)),
    "/v1/messages": _Post(
        "Anthropic's messages",
        ANTHROPIC.read,
        ("messages", "max_tokens"),
        {"tool_choice": _OBJECT},
    ),
    "/v1/messages/count_tokens": _Post(
        "How many tokens a message has",
        frozenset(("model", "messages", "system", "tools", "tool_choice")),
        ("messages",),
        {"tool_choice": _OBJECT},
    ),
    "/tokenize": _Post(
        "The ids of a prompt, or of messages",
        _CONVERSATION | {"model", "prompt", "add_special_tokens", "return_token_strs"},
        (),
        {"prompt": _TEXT},
    ),
    "/detokenize": _Post("The text of ids", frozenset(("model", "tokens")), ("tokens",)),
}
_GETS = {
    "/v1/models": "The names of the model",
    "/v1/models/{name}": "One name of the model",
    "/health": "200, or 503 while the server shuts down",
    "/ready": "As /health",
    "/ping": "As /health",
    "/live": "200 as long as the process answers",
    "/version": "The version of the server",
    "/metrics": "Metrics for Prometheus",
    "/openapi.json": "This document",
}
_SSE: Json = {"text/event-stream": {"schema": _TEXT}}
_PLAIN: Json = {"text/plain": {"schema": _TEXT}}


def openapi_document(limits: ServerLimits, *, needs_key: bool) -> Json:
    """Return the document of a server with these limits.

    ``needs_key`` says whether requests need a key.
    """
    parameters = _parameters(limits)
    paths: dict[str, Json] = {}
    for path, post in _POSTS.items():
        paths[path] = {"post": _post(post, parameters)}
    name: Json = {"name": "name", "in": "path", "required": True, "schema": _TEXT}
    for path, summary in _GETS.items():
        found: Json = {
            "summary": summary,
            "responses": _responses(_PLAIN if path == "/metrics" else {}),
        }
        paths[path] = {"get": found | ({"parameters": [name]} if "{name}" in path else {})}
    paths["/ping"]["post"] = paths["/ping"]["get"]
    schemes: Json = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    if needs_key:
        for path, methods in paths.items():
            for each in methods.values():
                each["security"] = [] if path in OPEN else [{name: []} for name in schemes]
    error: Json = {"type": "object", "required": ["error"], "properties": {"error": _OBJECT}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "streamdec serve",
            "version": versions_of(()).get("streamdec", "not installed"),
            "description": "A null parameter counts as missing. Parameters that are not "
            "listed and would change the answer are rejected by name.",
        },
        "paths": paths,
        "components": {
            "schemas": {"Error": error},
            **({"securitySchemes": schemes} if needs_key else {}),
        },
    }


def _post(post: _Post, parameters: Mapping[str, Json]) -> Json:
    schema: Json = {
        "type": "object",
        "properties": {
            name: post.others.get(name, parameters[name]) for name in sorted(post.parameters)
        },
    }
    if post.required:
        schema["required"] = list(post.required)
    content = {"application/json": {"schema": schema}}
    return {
        "summary": post.summary,
        "requestBody": {"required": True, "content": content},
        "responses": _responses(_SSE if "stream" in post.parameters else {}),
    }


def _responses(more: Json) -> Json:
    whole: Json = {"application/json": {"schema": _OBJECT}}
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "200": {"description": "The answer", "content": whole | more},
        "default": {"description": "An error of the API", "content": error},
    }
