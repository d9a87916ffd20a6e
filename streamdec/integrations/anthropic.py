"""Anthropic's wire format: a message, streamed and whole.

In: the chunks of a request. Out: the events of the Messages API. Tried with the client anthropic
2.11.0 (``messages.stream``, ``messages.create(stream=True)``) and httpx 0.28.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar

from streamdec.chunks import Chunk, FinishReason
from streamdec.integrations._format import (
    FAILED,
    REASONING,
    Encoder,
    Format,
    Response,
    Sample,
    check_count,
    check_text,
)
from streamdec.integrations._json import Json, json_bytes
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.integrations.sse import event

__all__ = ["FAILED", "MessageEncoder", "MessageResponse", "error_body"]

_WORDS: dict[FinishReason | None, str] = {
    "stop": "end_turn",  # an end-of-sequence id, a stop id, or a stop of the server
    "length": "max_tokens",
    "content_filter": "refusal",
}
"""The API's words for why an answer ended."""


def error_body(message: str, *, kind: str = "api_error") -> Json:
    """Return an error of the API: the body of a response, or the data of an event.

    ``message`` is for people. ``kind`` is Anthropic's ``type``: ``"invalid_request_error"``,
    ``"overloaded_error"``.

    >>> from streamdec.integrations.anthropic import error_body
    >>> error_body("too many requests", kind="rate_limit_error")
    {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': 'too many requests'}}
    """
    return {"type": "error", "error": {"type": kind, "message": message}}


class _Message(Format):
    """What streamed and whole messages have in common. They have one sample."""

    def __init__(
        self,
        *,
        response_id: str,
        model: str,
        input_tokens: int,
        stop_sequences: Iterable[str] | None = None,
    ) -> None:
        if isinstance(stop_sequences, str):
            raise TypeError(f"stop_sequences must be a list of strings, not {stop_sequences!r:.80}")
        fields: Json = {
            "id": check_text("response_id", response_id),
            "type": "message",
            "role": "assistant",
            "model": check_text("model", model),
        }
        super().__init__(fields, 1, has_usage=True)
        self._input_tokens = check_count("input_tokens", input_tokens)
        self._stop_sequences = None if stop_sequences is None else frozenset(stop_sequences)

    def _end(self) -> Json:
        """Return the end of the message in Anthropic's words."""
        [sample] = self._samples
        stop, named = sample.stop_reason, self._stop_sequences
        if isinstance(stop, str) and (named is None or stop in named):
            return {"stop_reason": "stop_sequence", "stop_sequence": stop}
        return {"stop_reason": _WORDS.get(sample.finish_reason), "stop_sequence": None}

    def _error(self, message: str, code: str) -> Json:
        return error_body(message)

    def _usage(self) -> Json:
        return {"input_tokens": self._input_tokens, "output_tokens": self._samples[0].num_tokens}


class MessageEncoder(_Message, Encoder):
    r"""Encodes a streamed message: the events of the API.

    They are ``message_start`` and ``ping``; ``content_block_start``, a ``content_block_delta`` for
    each chunk and ``content_block_stop``; ``message_delta`` (why it ended, and the usage) and
    ``message_stop``. Text of the section "reasoning" is in ``thinking`` blocks. Their signature is
    the message's id. The methods are those of
    :class:`~streamdec.integrations.openai.ChatCompletionEncoder`.

    Args:
        response_id: its ``id``, which the caller makes: ``"msg_..."``.
        model: the name that the client asked for.
        input_tokens: how many tokens the prompt has.
        stop_sequences: the client's stop strings. The server's own stops are then reported as
            ``end_turn``. By default all stop strings are the client's.

    Raises TypeError for a ``response_id`` or ``model`` that is not a string and for a string as
    ``stop_sequences``; ValueError for a wrong ``input_tokens``.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.anthropic import MessageEncoder
    >>> wire = MessageEncoder(response_id="msg_1", model="tiny", input_tokens=3)
    >>> [each["type"] for each in wire.step(Chunk("Hi"))]
    ['message_start', 'ping', 'content_block_start', 'content_block_delta']
    >>> wire.step(Chunk("", "stop", "\nUser:"), num_tokens=4)
    []
    >>> [each["type"] for each in wire.flush()]
    ['content_block_stop', 'message_delta', 'message_stop']
    """

    keep_alive: ClassVar[bytes] = event('{"type":"ping"}', name="ping")
    _block: str | None = None
    """The type of the open block; None before the first one."""
    _block_index = -1

    def _beginning(self) -> list[Json]:
        message = {
            **self._fields,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self._input_tokens, "output_tokens": 0},
        }
        return [{"type": "message_start", "message": message}, {"type": "ping"}]

    def _ending(self) -> list[Json]:
        return [
            *([] if self._block else [self._start_block("text")]),
            *self._stop_block(),
            {"type": "message_delta", "delta": self._end(), "usage": self._usage()},
            {"type": "message_stop"},
        ]

    def _objects(
        self, index: int, sample: Sample, chunk: Chunk, logprobs: Sequence[PlacedLogprob] = ()
    ) -> list[Json]:
        events: list[Json] = []
        for part in chunk.split():
            kind = _kind_of(part)
            # A chunk without text begins no block, because the API refuses empty ones.
            if part.text or (part.finish_reason is None and kind == self._block):
                if kind != self._block:
                    events += [*self._stop_block(), self._start_block(kind)]
                events.append(self._delta({"type": f"{kind}_delta", kind: part.text}))
        return events

    def _start_block(self, kind: str) -> Json:
        self._block, self._block_index = kind, self._block_index + 1
        self._templates.clear()
        block = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        return {"type": "content_block_start", "index": self._block_index, "content_block": block}

    def _delta(self, delta: Json) -> Json:
        return {"type": "content_block_delta", "index": self._block_index, "delta": delta}

    def _stop_block(self) -> list[Json]:
        """Return the events that end the open block, if there is one."""
        if self._block is None:
            return []
        stop: Json = {"type": "content_block_stop", "index": self._block_index}
        if self._block != "thinking":
            return [stop]
        return [self._delta({"type": "signature_delta", "signature": self._fields["id"]}), stop]

    def _events(self, objects: Sequence[Json]) -> bytes:
        return b"".join(event(json_bytes(each), name=each["type"]) for each in objects)


class MessageResponse(_Message, Response):
    """A whole message, made of the chunks of a stream.

    Arguments and errors as for MessageEncoder. It keeps the chunks.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.anthropic import MessageResponse
    >>> answer = MessageResponse(response_id="msg_1", model="tiny", input_tokens=3)
    >>> answer.step(Chunk("Hi!", "length"), num_tokens=2)
    >>> answer.body()["stop_reason"], answer.body()["usage"]
    ('max_tokens', {'input_tokens': 3, 'output_tokens': 2})
    """

    def _whole(self) -> Json:
        parts = [part for part in self._samples[0].parts if part.text]
        content = []
        for kind, group in groupby(parts or [Chunk()], _kind_of):
            block = {"type": kind, kind: "".join(part.text for part in group)}
            signed = {"signature": self._fields["id"]} if kind == "thinking" else {}
            content.append(block | signed)
        return {**self._fields, "content": content, **self._end(), "usage": self._usage()}


def _kind_of(chunk: Chunk) -> str:
    """Return the type of the block of ``chunk``, which is also the key of its text."""
    return "thinking" if chunk.section == REASONING else "text"
