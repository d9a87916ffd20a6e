"""A route for chats: OpenAI's API for an engine and a tokenizer with a template."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from streamdec.chunks import same_items
from streamdec.core.conditions import StopConditions
from streamdec.integrations._json import json_bytes
from streamdec.integrations._starlette import ClientDisconnect, Request, Response
from streamdec.integrations.asgi import EventStreamResponse, listen
from streamdec.integrations.openai import FAILED, ChatCompletionEncoder, ChatResponse, error_body
from streamdec.integrations.requests import from_openai
from streamdec.streams.text_stream import stream

__all__ = ["chat_route"]

_KNOWN = dict.fromkeys(("stop", "max_tokens", "max_completion_tokens"), object)
_KNOWN |= dict.fromkeys(("user", "metadata", "store", "service_tier", "safety_identifier"), object)
_KNOWN |= {"prompt_cache_key": str, "prompt_cache_retention": str, "prompt_cache_options": dict}
_KNOWN |= {"model": str, "messages": list, "tools": list, "chat_template_kwargs": dict}
_KNOWN |= {"stream": bool, "stream_options": dict}
_NEUTRAL: dict[str, Any] = {
    "n": 1, "top_p": 1, "frequency_penalty": 0, "presence_penalty": 0, "logprobs": False,
    "tool_choice": "auto", "parallel_tool_calls": True, "response_format": {"type": "text"},
}  # fmt: skip
"""Values that change nothing. Clients send them unasked."""
_log = logging.getLogger("streamdec.integrations")


def chat_route(
    engine: Callable[[list[int], dict[str, Any]], Any],
    tokenizer: Any,
    *,
    supported: Iterable[str] = (),
    max_tokens: int = 1_000,
    max_body: int = 1 << 20,
    eos_token_ids: Iterable[int] = (),
    ignore_stops_between: Any = None,
    **options: Any,
) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint of Starlette or FastAPI for OpenAI's chat completions.

    The engine's iterator is closed as soon as a stop matches or the client disconnects. Parameters
    of requests that could change the answer are refused, unless they are ``supported``.

    Args:
        engine: called with the ids of the prompt and the body of the request. Returns an (async)
            iterator of ids, or of outputs as :func:`streamdec.stream` takes them.
        tokenizer: a tokenizer of :func:`streamdec.load_tokenizer` with a chat template.
        supported: further parameters of requests, which the engine reads from the body.
        max_tokens: the limit of a request that has none.
        max_body: how many bytes a request may have.
        eos_token_ids: the end-of-sequence ids of the model, if the engine does not end there.
        ignore_stops_between: as for StopConditions. The client gives the stops.
        options: other arguments of :func:`streamdec.stream`, such as ``sections``.

    Raises TypeError if ``load_tokenizer`` did not return the tokenizer or ``supported`` is a
    string, ChatTemplateError if there is no template, and the errors of ``stream`` and
    StopConditions.

    >>> from starlette.routing import Route
    >>> from streamdec import load_tokenizer
    >>> from streamdec.integrations.chat_route import chat_route
    >>> chat = chat_route(lambda prompt, body: prompt, load_tokenizer("demo"))
    >>> Route("/v1/chat/completions", chat, methods=["POST"]).path
    '/v1/chat/completions'
    """
    if not hasattr(tokenizer, "set_chat_template"):
        raise TypeError(f"tokenizer must come from load_tokenizer(path), not {tokenizer!r:.80}")
    if isinstance(supported, str):
        raise TypeError(f"supported must be a list of names, not {supported!r:.60}")
    tokenizer.get_chat_template()
    ours = StopConditions(
        eos_token_ids=eos_token_ids,
        ignore_stops_between=ignore_stops_between,
        starts_inside=options.get("starts_inside") if ignore_stops_between else None,
        max_tokens=max_tokens,
    )
    # Raises the errors of wrong options now, not at each request.
    stream((), tokenizer, conditions=ours, prompt_token_ids=(), **options)
    known = {**_KNOWN, **dict.fromkeys(supported, object)}
    has_markers = ignore_stops_between or options.get("sections")

    def prompts_of(body: dict[str, Any]) -> tuple[list[int], list[int]]:
        """Return the ids of the prompt, and those after the messages, where markers count."""
        given = {"tools": body.get("tools"), "template_kwargs": body.get("chat_template_kwargs")}
        given |= {"messages": body["messages"], "tokenize": True, "openai": True}
        ids: list[int] = tokenizer.apply_chat_template(add_generation_prompt=True, **given)
        if not has_markers:
            return ids, ids
        before: list[int] = tokenizer.apply_chat_template(add_generation_prompt=False, **given)
        return ids, ids[same_items(ids, before) :] or ids[-1:]

    async def chat(request: Request) -> Response:
        try:
            body = await _body(request, max_body, known)
            asked = from_openai(body, max_stop_length=256, max_total_length=4_096)
            conditions = replace(ours, stop=asked.stop, max_tokens=asked.max_tokens or max_tokens)
            prompt, added = await anyio.to_thread.run_sync(prompts_of, body)  # it may take long
        except (TypeError, ValueError, RecursionError) as error:  # such as an empty stop string
            return _answer(error_body(str(error), kind="invalid_request_error"), 400)
        except ClientDisconnect:
            return Response(status_code=499)  # nobody reads it
        about: dict[str, Any] = {
            "response_id": f"chatcmpl-{uuid.uuid4()}",
            "model": body["model"],
            "created": int(time.time()),
            "prompt_tokens": len(prompt),
            "include_usage": body.get("stream_options", {}).get("include_usage") is True,
        }
        whole = ChatResponse(**about)
        try:
            chunks = stream(
                engine(prompt, body),
                tokenizer,
                conditions=conditions,
                prompt_token_ids=added,  # markers in messages do not count
                **{"finish_reason": "stop", **options},  # if the engine ends by itself
            )
            if body.get("stream"):
                return EventStreamResponse(ChatCompletionEncoder(**about), chunks)
            async with anyio.create_task_group() as group, chunks:
                group.start_soon(listen, request.receive, group.cancel_scope)
                async for chunk in chunks:
                    whole.step(chunk, num_tokens=chunks.decoder.num_tokens)
                group.cancel_scope.cancel()
        except Exception:  # noqa: BLE001 (the client gets no details)
            _log.exception("the engine failed")
            if not whole.finished:
                return _answer(error_body(FAILED, code="error"), 500)
        if not whole.finished:
            return Response(status_code=499)  # the client has disconnected
        return _answer(whole.body(), 500 if whole.failed else 200)

    return chat


async def _body(request: Request, most: int, known: Mapping[str, type]) -> dict[str, Any]:
    """Return the body, without null values; raise ValueError or TypeError."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most:
            raise ValueError(f"the body has more than {most} bytes")
    try:
        body = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body must be JSON in UTF-8: {error}") from error
    if not isinstance(body, dict):
        raise TypeError("the body must be a JSON object")
    body = {name: value for name, value in body.items() if value is not None}
    if missing := {"model", "messages"} - body.keys():
        raise ValueError(f"{' and '.join(sorted(missing))} must be given")
    for name, value in body.items():
        if name not in known and (name not in _NEUTRAL or value != _NEUTRAL[name]):
            raise ValueError(f"{name:.80} is not supported")
        if not isinstance(value, known.get(name, object)):
            raise TypeError(f"{name} must be of the type {known[name].__name__}")
    return body


def _answer(body: dict[str, Any], status: int) -> Response:
    return Response(json_bytes(body), status, media_type="application/json")
