"""OpenAI's wire formats: chat completions and completions, streamed and whole.

In: the chunks of one or several samples of a request. Out: the JSON objects of the API, or the
bytes of their Server-Sent Events. No I/O and no clock: the caller supplies ids and times.

Two fields are vLLM's, whose clients know them: ``stop_reason`` (the stop) and ``token_ids``. In
chats, text of the section "reasoning" is ``reasoning``, as in vLLM, and ``reasoning_content``, as
in SGLang and in DeepSeek's API. Tested with openai 3.57.0 (also ``.stream()``) and httpx 0.28.1.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from streamdec.chunks import Chunk
from streamdec.integrations._format import (
    FAILED,
    FAILURES,
    REASONING,
    Encoder,
    Format,
    Response,
    Sample,
    check_count,
    check_text,
)
from streamdec.integrations._json import Json
from streamdec.integrations.logprobs import Alternative, PlacedLogprob
from streamdec.integrations.sse import event
from streamdec.mistakes import check_flag

__all__ = [
    "DONE",
    "FAILED",
    "ChatCompletionEncoder",
    "ChatResponse",
    "CompletionEncoder",
    "CompletionResponse",
    "error_body",
]

DONE = event("[DONE]")
"""The end of a streamed response."""


def error_body(
    message: str, *, kind: str = "server_error", code: str | None = None, param: str | None = None
) -> Json:
    """Return an error of the API, as the body of a response or as a streamed event.

    ``message`` is for people, and ``code`` for programs. ``kind`` is OpenAI's ``type``. ``param``
    is the parameter of the request that was wrong.

    >>> from streamdec.integrations.openai import error_body
    >>> error_body("n must be at least 1", kind="invalid_request_error")["error"]["type"]
    'invalid_request_error'
    """
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def chat_logprobs(logprobs: Sequence[PlacedLogprob]) -> Json:
    """Return the ``logprobs`` of a chat: a list of tokens, with bytes as numbers."""
    return {
        "content": [
            {**_token(each), "top_logprobs": [_token(other) for other in each.top or ()]}
            for each in logprobs
        ],
        "refusal": None,
    }


def _token(each: PlacedLogprob | Alternative) -> Json:
    return {"token": each.token, "logprob": each.logprob, "bytes": list(each.data)}


def completion_logprobs(logprobs: Sequence[PlacedLogprob]) -> Json:
    """Return the ``logprobs`` of a completion: parallel lists."""
    return {
        "tokens": [_spelled(each) for each in logprobs],
        "token_logprobs": [each.logprob for each in logprobs],
        "top_logprobs": [_top(each) for each in logprobs],
        "text_offset": [each.text_offset for each in logprobs],
    }


def _top(placed: PlacedLogprob) -> dict[str, float] | None:
    """Return the likeliest tokens and, as in OpenAI's API, the one that was chosen."""
    if placed.top is None:
        return None
    top: dict[str, float] = {}
    for each in (*placed.top, Alternative(placed.token, placed.data, placed.logprob)):
        token = _spelled(each)
        top[token] = max(each.logprob, top.get(token, each.logprob))
    return top


def _spelled(each: PlacedLogprob | Alternative) -> str:
    r"""Return the name of a token in completions: ``bytes:\xf0\x9f`` if not UTF-8."""
    try:
        each.data.decode()
    except UnicodeDecodeError:
        return f"bytes:{each.token}"
    return each.token


class _Choices(Format):
    """What streamed and whole responses have in common."""

    _object: ClassVar[str]

    def __init__(
        self,
        *,
        response_id: str,
        model: str,
        created: int,
        n: int = 1,
        prompt_tokens: int | None = None,
        include_usage: bool = False,
        return_token_ids: bool = False,
    ) -> None:
        if check_flag("include_usage", include_usage) and prompt_tokens is None:
            raise ValueError("include_usage needs prompt_tokens=")
        has_usage = include_usage if isinstance(self, Encoder) else prompt_tokens is not None
        fields: Json = {
            "id": check_text("response_id", response_id),
            "object": self._object,
            "created": check_count("created", created),
            "model": check_text("model", model),
        }
        super().__init__(fields, check_count("n", n, 1), has_usage=has_usage)
        self._prompt_tokens = check_count("prompt_tokens", prompt_tokens or 0)
        self._returns_token_ids = check_flag("return_token_ids", return_token_ids)
        self._has_templates = not return_token_ids

    def _choice(
        self, index: int, sample: Sample, parts: Sequence[Chunk], placed: Sequence[PlacedLogprob]
    ) -> Json:
        word = None if sample.finish_reason in FAILURES else sample.finish_reason
        choice = {
            "index": index,
            **self._content(parts),
            "logprobs": self._logprobs(placed) if placed else None,
            "finish_reason": word,
        }
        if word is not None:
            choice["stop_reason"] = sample.stop_reason
        if self._returns_token_ids:
            choice["token_ids"] = [token_id for part in parts for token_id in part.token_ids]
        return choice

    def _error(self, message: str, code: str) -> Json:
        return error_body(message, code=code)

    def _usage(self) -> Json:
        completion_tokens = sum(sample.num_tokens for sample in self._samples)
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": self._prompt_tokens + completion_tokens,
        }

    def _content(self, parts: Sequence[Chunk]) -> Json:
        """Return the fields of a choice that have the text. Chats override it."""
        return {"text": "".join(each.text for each in parts)}

    @abstractmethod
    def _logprobs(self, logprobs: Sequence[PlacedLogprob]) -> Json: ...


# --- streamed -------------------------------------------------------------------------------------


class _Stream(_Choices, Encoder):
    """The base class of streamed responses."""

    keep_alive: ClassVar[bytes] = b": keep-alive\n\n"
    _done = DONE

    def _ending(self) -> list[Json]:
        if not self._has_usage:
            return []
        return [{**self._fields, "choices": [], "usage": self._usage()}]

    def _objects(
        self, index: int, sample: Sample, chunk: Chunk, logprobs: Sequence[PlacedLogprob] = ()
    ) -> list[Json]:
        *others, last = chunk.split()
        objects = [self._with_choice(index, Sample(), part) for part in others]
        if last.text and chunk.finish_reason not in {None, *FAILURES}:
            # As in OpenAI's API: some clients drop the text of an object with a finish_reason.
            objects.append(self._with_choice(index, Sample(), last, logprobs))
            last, logprobs = Chunk("", chunk.finish_reason), ()
        return [*objects, self._with_choice(index, sample, last, logprobs)]

    def _with_choice(
        self, index: int, sample: Sample, part: Chunk, logprobs: Sequence[PlacedLogprob] = ()
    ) -> Json:
        choice = self._choice(index, sample, [part], logprobs)
        usage = {"usage": None} if self._has_usage else {}
        return {**self._fields, "choices": [choice], **usage}


class ChatCompletionEncoder(_Stream):
    r"""Encodes a streamed chat completion: ``chat.completion.chunk`` objects.

    The first object of each sample has the role, and the last has the finish_reason and no text.
    The usage, if the client asked for it, and ``[DONE]`` follow.

    Args:
        response_id: its ``id``, which the caller makes: ``"chatcmpl-..."``.
        model: the name that the client asked for.
        created: whole seconds since 1970.
        n: how many samples there are.
        prompt_tokens: how many tokens the prompt has.
        include_usage: whether the last object has the usage: the client's
            ``stream_options.include_usage``. Needs ``prompt_tokens``.
        return_token_ids: whether choices have vLLM's ``token_ids``, which are those of the chunks.

    Raises TypeError for a ``response_id`` or ``model`` that is not a string, and a flag that is not
    a bool; ValueError for a wrong number, and for ``include_usage`` without ``prompt_tokens``.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import ChatCompletionEncoder
    >>> wire = ChatCompletionEncoder(response_id="chatcmpl-1", model="tiny", created=0)
    >>> [each["choices"][0]["delta"] for each in wire.step(Chunk("Hi"))]
    [{'role': 'assistant', 'content': ''}, {'content': 'Hi'}]
    >>> wire.step(Chunk("", "stop", "\nUser:"))[0]["choices"]  # doctest: +NORMALIZE_WHITESPACE
    [{'index': 0, 'delta': {}, 'logprobs': None, 'finish_reason': 'stop',
      'stop_reason': '\nUser:'}]
    >>> wire.flush_bytes()
    b'data: [DONE]\n\n'
    """

    _object = "chat.completion.chunk"
    _logprobs = staticmethod(chat_logprobs)

    def _beginning(self) -> list[Json]:
        delta = {"role": "assistant", "content": ""}
        objects = [self._with_choice(index, Sample(), Chunk()) for index in range(self.n)]
        for each in objects:
            each["choices"][0]["delta"] = delta
            each["choices"][0].pop("token_ids", None)
        return objects

    def _content(self, parts: Sequence[Chunk]) -> Json:
        [chunk] = parts
        if not chunk.text and chunk.finish_reason is not None:
            return {"delta": {}}
        if chunk.section == REASONING:
            return {"delta": {"reasoning": chunk.text, "reasoning_content": chunk.text}}
        return {"delta": {"content": chunk.text}}


class CompletionEncoder(_Stream):
    r"""Encodes a streamed completion: ``text_completion`` objects.

    Arguments and errors as for ChatCompletionEncoder.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionEncoder
    >>> wire = CompletionEncoder(response_id="cmpl-1", model="tiny", created=0)
    >>> [each["choices"][0]["text"] for each in wire.step(Chunk(" upon"))]
    [' upon']
    """

    _object = "text_completion"
    _logprobs = staticmethod(completion_logprobs)


# --- whole ----------------------------------------------------------------------------------------


class _Whole(_Choices, Response):
    """The base class of responses that are sent when they are complete."""

    def _whole(self) -> Json:
        choices = [
            self._choice(index, sample, sample.parts, sample.placed)
            for index, sample in enumerate(self._samples)
        ]
        usage = {"usage": self._usage()} if self._has_usage else {}
        return {**self._fields, "choices": choices, **usage}


class ChatResponse(_Whole):
    """Makes a ``chat.completion`` object of the chunks of a stream.

    Arguments and errors as for ChatCompletionEncoder. The object has the usage whenever
    ``prompt_tokens`` is given. It keeps the chunks of all samples.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import ChatResponse
    >>> answer = ChatResponse(response_id="chatcmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk("Hi"), num_tokens=1)
    >>> answer.step(Chunk("!", "length"), num_tokens=2)
    >>> answer.body()["choices"][0]["message"], answer.body()["usage"]["completion_tokens"]
    ({'role': 'assistant', 'content': 'Hi!', 'refusal': None}, 2)
    """

    _object = "chat.completion"
    _logprobs = staticmethod(chat_logprobs)

    def _content(self, parts: Sequence[Chunk]) -> Json:
        text = "".join(each.text for each in parts if each.section != REASONING)
        reasoning = "".join(each.text for each in parts if each.section == REASONING)
        message: Json = {"role": "assistant", "content": text, "refusal": None}
        if reasoning:
            message |= {"reasoning": reasoning, "reasoning_content": reasoning}
        return {"message": message}


class CompletionResponse(_Whole):
    """Makes a ``text_completion`` object of the chunks of a stream.

    Arguments and errors as for ChatResponse.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.openai import CompletionResponse
    >>> answer = CompletionResponse(response_id="cmpl-1", model="tiny", created=0, prompt_tokens=3)
    >>> answer.step(Chunk(" upon a time", "stop", 2), num_tokens=4)
    >>> answer.body()["choices"][0]["text"], answer.body()["choices"][0]["stop_reason"]
    (' upon a time', 2)
    """

    _object = "text_completion"
    _logprobs = staticmethod(completion_logprobs)
