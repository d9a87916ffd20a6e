"""Anthropic's wire format: a message, streamed and whole.

In: the chunks of a request. Out: the events of the Messages API, or their bytes as Server-Sent
Events. No I/O and no clock. Tried with the client anthropic 2.11.0 (``messages.stream``,
``messages.create(stream=True)``) and httpx 0.28.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import ClassVar, assert_never

from streamdec.chunks import Chunk, json_of
from streamdec.errors import FinishedError
from streamdec.integrations._failures import (
    FAILED,
    REASONING,
    check_count,
    check_text,
    failure_of,
    not_a_chunk,
)
from streamdec.integrations._json import Json, json_bytes, string_bytes
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.integrations.sse import event

__all__ = ["FAILED", "MessageEncoder", "MessageResponse", "error_body"]


def error_body(message: str, *, kind: str = "api_error") -> Json:
    """Return an error of the API: the body of a response, or the data of an event.

    ``message`` is for people. ``kind`` is Anthropic's ``type``: ``"invalid_request_error"``,
    ``"overloaded_error"``.

    >>> from streamdec.integrations.anthropic import error_body
    >>> error_body("too many requests", kind="rate_limit_error")
    {'type': 'error', 'error': {'type': 'rate_limit_error', 'message': 'too many requests'}}
    """
    return {"type": "error", "error": {"type": kind, "message": message}}


class _Format:
    """The base class of streamed and whole messages."""

    n: ClassVar[int] = 1
    """How many samples the response has."""

    def __init__(
        self,
        *,
        response_id: str,
        model: str,
        input_tokens: int,
        stop_sequences: Iterable[str] | None = None,
    ) -> None:
        if isinstance(stop_sequences, str):
            raise TypeError(
                f"stop_sequences must be a list of strings, not the string {stop_sequences!r:.80}"
            )
        self._fields: Json = {
            "id": check_text("response_id", response_id),
            "type": "message",
            "role": "assistant",
            "model": check_text("model", model),
        }
        self._input_tokens = check_count("input_tokens", input_tokens)
        self._stop_sequences = None if stop_sequences is None else frozenset(stop_sequences)
        self._parts: list[Chunk] = []
        """The chunks with text of a whole message."""
        self._last: Chunk | None = None
        self._has_text = False
        self.output_tokens: int = 0
        """How many tokens were read."""

    @property
    def failed(self) -> bool:
        """Whether the message was aborted or failed, so that the response is an error."""
        return self._last is not None and failure_of(self._last.finish_reason) is not None

    @property
    def finished(self) -> bool:
        """Whether the message has ended."""
        return self._last is not None

    def _take(self, chunk: Chunk, index: int, num_tokens: int | None) -> None:
        if not isinstance(chunk, Chunk):
            raise not_a_chunk(chunk)
        if index != 0:
            raise ValueError(f"a message has one sample, so index must be 0, not {index!r:.40}")
        if self._last is not None:
            raise FinishedError(f"the message has ended ({self._last.finish_reason})")
        if num_tokens is not None:
            self.output_tokens = num_tokens
        else:
            self.output_tokens += len(chunk.token_ids)
            self._has_text = self._has_text or bool(chunk.text)
            if chunk.finish_reason is not None and self._has_text and not self.output_tokens:
                raise ValueError("a message with usage needs num_tokens=, or chunks with token_ids")
        if chunk.finish_reason is not None:
            self._last = chunk

    def _end(self) -> Json | None:
        """Return the end of the message in Anthropic's words; None for a failure.

        Raises ValueError if the message has not ended.
        """
        if self._last is None or (reason := self._last.finish_reason) is None:
            raise ValueError("the message has not ended; call fail() to end it with an error")
        stop = self._last.stop_reason
        match reason:
            case "length":
                return {"stop_reason": "max_tokens", "stop_sequence": None}
            case "content_filter":
                return {"stop_reason": "refusal", "stop_sequence": None}
            case "stop":
                is_named = self._stop_sequences is None or stop in self._stop_sequences
                if isinstance(stop, str) and is_named:
                    return {"stop_reason": "stop_sequence", "stop_sequence": stop}
                # An end-of-sequence id, a stop id, a stop of the server.
                return {"stop_reason": "end_turn", "stop_sequence": None}
            case "abort" | "error":
                return None
            case _:
                assert_never(reason)

    def _failure(self) -> Json:
        assert self._last is not None
        return error_body(failure_of(self._last.finish_reason) or FAILED)

    def _usage(self) -> Json:
        return {"input_tokens": self._input_tokens, "output_tokens": self.output_tokens}


class MessageEncoder(_Format):
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
    """An event that clients ignore, for the time in which there is no text."""
    _has_started = False
    _block: str | None = None
    """The type of the open block; None before the first one."""
    _index = -1
    _head = _tail = b""
    """The bytes before and after the text of a plain event in the open block."""

    def start(self) -> list[Json]:
        """Return the events before any text; [] the second time.

        If you do not call it, the first ``step`` returns them before its own events.
        """
        if self._has_started:
            return []
        self._has_started = True
        message = {
            **self._fields,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": self._input_tokens, "output_tokens": 0},
        }
        return [{"type": "message_start", "message": message}, {"type": "ping"}]

    def step(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> list[Json]:
        """Return the events of a chunk. Those of its end are returned by ``flush``.

        Args:
            chunk: a chunk of the stream.
            index: always 0, because a message is one sample.
            num_tokens: how many tokens were read so far (``stream.decoder.num_tokens``). Without
                it, the ``token_ids`` of the chunks are counted.
            logprobs: always (), because the API has none.

        Raises ValueError for another index, for logprobs, and if the usage cannot be known;
        :class:`~streamdec.FinishedError` after the end. An error changes nothing.
        """
        if logprobs:
            raise ValueError("a message has no log probabilities")
        self._take(chunk, index, num_tokens)
        events = self.start()
        for part in chunk.split():
            if part.text or part.finish_reason is None:
                kind = _kind_of(part)
                if kind != self._block:
                    events += [*self._stop_block(), self._start_block(kind)]
                events.append(self._delta(part.text))
        return events

    def flush(self) -> list[Json]:
        """Return the events of the end: its reason and the usage, or an error.

        Raises ValueError if the message has not ended.
        """
        end = self._end()
        if end is None:
            return [*self.start(), self._failure()]
        events = self.start()
        if self._block is None:
            events.append(self._start_block("text"))
        return [
            *events,
            *self._stop_block(),
            {"type": "message_delta", "delta": end, "usage": self._usage()},
            {"type": "message_stop"},
        ]

    def fail(self, message: str = FAILED) -> Json:
        """Return an error that ends the message. Send nothing after it.

        ``message`` is for the client.
        """
        return error_body(message)

    # --- blocks

    def _start_block(self, kind: str) -> Json:
        self._block, self._index = kind, self._index + 1
        self._head, self._tail = _events([self._delta("\0")]).split(b'"\\u0000"')
        block = {"type": kind, kind: ""} | ({"signature": ""} if kind == "thinking" else {})
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _delta(self, text: str) -> Json:
        kind = self._block
        delta = {"type": f"{kind}_delta", kind: text}
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stop_block(self) -> list[Json]:
        """Return the events that end the open block, if there is one."""
        if self._block is None:
            return []
        events: list[Json] = [{"type": "content_block_stop", "index": self._index}]
        if self._block == "thinking":
            delta = {"type": "signature_delta", "signature": self._fields["id"]}
            signed = {"type": "content_block_delta", "index": self._index, "delta": delta}
            events.insert(0, signed)
        return events

    # --- as bytes

    def start_bytes(self) -> bytes:
        """Return ``start`` as Server-Sent Events in UTF-8; b"" the second time."""
        return _events(self.start())

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return ``step`` as Server-Sent Events.

        ``chunk``, ``index``, ``num_tokens``, ``logprobs`` and the errors are those of ``step``.
        """
        try:
            is_plain = type(chunk) is Chunk or len(chunk.split()) == 1
            is_last = chunk.finish_reason is not None
        except AttributeError:
            raise not_a_chunk(chunk) from None
        if is_last or not is_plain or _kind_of(chunk) != self._block or logprobs or index:
            return _events(self.step(chunk, index, num_tokens=num_tokens, logprobs=logprobs))
        self._take(chunk, index, num_tokens)
        return self._head + json_of(chunk, string_bytes) + self._tail

    def flush_bytes(self) -> bytes:
        """Return ``flush`` as Server-Sent Events. Raises what ``flush`` raises."""
        return _events(self.flush())

    def fail_bytes(self, message: str = FAILED) -> bytes:
        """Return ``fail`` as a Server-Sent Event; ``message`` is that of ``fail``."""
        return _events([self.fail(message)])


class MessageResponse(_Format):
    """A whole message, made of the chunks of a stream.

    The arguments ``response_id``, ``model``, ``input_tokens`` and ``stop_sequences``, and the
    errors (TypeError, ValueError), are those of MessageEncoder. It keeps the chunks.

    >>> from streamdec import Chunk
    >>> from streamdec.integrations.anthropic import MessageResponse
    >>> answer = MessageResponse(response_id="msg_1", model="tiny", input_tokens=3)
    >>> answer.step(Chunk("Hi!", "length"), num_tokens=2)
    >>> answer.body()["stop_reason"], answer.body()["usage"]
    ('max_tokens', {'input_tokens': 3, 'output_tokens': 2})
    """

    def step(self, chunk: Chunk, *, num_tokens: int | None = None) -> None:
        """Take ``chunk``; ``num_tokens`` and errors are as for ``MessageEncoder.step``."""
        self._take(chunk, 0, num_tokens)
        self._parts += [part for part in chunk.split() if part.text]

    def body(self) -> Json:
        """Return the object; if the message was aborted or failed, the error.

        Then ``failed`` is true, for a response with status 500. Raises ValueError if the message
        has not ended.
        """
        end = self._end()
        if end is None:
            return self._failure()
        content = []
        for kind, parts in groupby(self._parts or [Chunk()], _kind_of):
            block = {"type": kind, kind: "".join(part.text for part in parts)}
            signed = {"signature": self._fields["id"]} if kind == "thinking" else {}
            content.append(block | signed)
        return {**self._fields, "content": content, **end, "usage": self._usage()}

    def body_bytes(self) -> bytes:
        """Return ``body`` as JSON in UTF-8. Raises what ``body`` raises."""
        return json_bytes(self.body())


# --- parts ----------------------------------------------------------------------------------------


def _events(events: list[Json]) -> bytes:
    return b"".join(event(json_bytes(each), name=each["type"]) for each in events)


def _kind_of(chunk: Chunk) -> str:
    """Return the type of the block of ``chunk``, which is also the key of its text."""
    return "thinking" if chunk.section == REASONING else "text"
