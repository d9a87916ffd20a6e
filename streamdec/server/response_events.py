"""Encode text responses of OpenAI's Responses API, as events or one object.

In: the chunks of one stream. Out: the events of the API as Server-Sent Events, or the object. Text
of the section "reasoning" is in items of the type ``reasoning``. Tested with the client openai
3.57.0 (``responses.create``, ``responses.stream``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from streamdec.chunks import Chunk, FinishReason, json_of
from streamdec.integrations._failures import FAILED, FAILURES, REASONING
from streamdec.integrations._json import Json, json_bytes, string_bytes
from streamdec.integrations._openai_logprobs import chat_logprobs
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.integrations.openai import error_body
from streamdec.integrations.sse import comment, event

_PARTS = {"message": "output_text", "reasoning": "reasoning_text"}
"""The type of the one part of an item, by the type of the item."""
_INCOMPLETE: Mapping[FinishReason | None, str] = MappingProxyType(
    {"length": "max_output_tokens", "content_filter": "content_filter"}
)
"""The ends of an incomplete response, and the API's words for them."""
_PREFIXES = {"message": "msg", "reasoning": "rs"}


class _Item:
    """One item of the output: a message or a reasoning, whose content is one text."""

    def __init__(self, kind: str, item_id: str, index: int) -> None:
        self.kind = kind
        self.place: Json = {"item_id": item_id, "output_index": index, "content_index": 0}
        self.texts: list[str] = []
        self.logprobs: list[Json] = []
        self.status = "in_progress"

    @property
    def text_event(self) -> str:
        """The name of the events with its text, without "delta" or "done"."""
        return f"response.{_PARTS[self.kind]}"

    def shown_logprobs(self, logprobs: list[Json]) -> Json:
        """Return the field with log probabilities, which a reasoning does not have."""
        return {"logprobs": logprobs} if self.kind == "message" else {}

    def part(self) -> Json:
        """Return the content."""
        part: Json = {"type": _PARTS[self.kind], "text": "".join(self.texts)}
        return part | ({"annotations": [], "logprobs": self.logprobs} if self._is_message else {})

    def body(self, *, has_part: bool = True) -> Json:
        """Return the object."""
        own: Json = {"role": "assistant"} if self._is_message else {"summary": []}
        named = {"id": self.place["item_id"], "type": self.kind, "status": self.status}
        return {**named, **own, "content": [self.part()] if has_part else []}

    @property
    def _is_message(self) -> bool:
        return self.kind == "message"


class ResponseEncoder:
    """Encodes the response to one request.

    A streamed response uses the methods of a :class:`~streamdec.integrations.asgi.WireStream`. A
    whole response uses ``step`` and ``body``.

    Args:
        response_id: the id, ``"resp_..."``.
        model: the name that the client gave.
        created: whole seconds since 1970.
        input_tokens: how many tokens the prompt has.
        asked: fields of the request that the response repeats.
    """

    keep_alive = comment("keep-alive")
    counts_each_chunk = False

    def __init__(
        self,
        *,
        response_id: str,
        model: str,
        created: int,
        input_tokens: int,
        asked: Mapping[str, Any],
    ) -> None:
        self._id = response_id
        named = {"id": response_id, "object": "response", "created_at": created, "model": model}
        self._fields: Json = {**named, **asked}
        self._input_tokens = input_tokens
        self._num_tokens = self._num_reasoning_tokens = 0
        self._items: list[_Item] = []
        self._last: Chunk | None = None
        self._has_started = False
        self._num_events = 0
        self._head = b""
        """The bytes before the text of a plain event of the open item."""

    @property
    def failed(self) -> bool:
        """Whether the stream was aborted or failed."""
        return self._last is not None and self._last.finish_reason in FAILURES

    # --- streamed

    def start_bytes(self) -> bytes:
        """Return the events before any text; b"" the second time."""
        if self._has_started:
            return b""
        self._has_started = True
        body = self._body("in_progress")
        created = self._event("response.created", response=body)
        return created + self._event("response.in_progress", response=body)

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return the events of ``chunk``. ``flush_bytes`` returns the events of the end.

        The tokens of the reasoning are counted by the ids of the chunks.
        """
        if num_tokens is not None:
            self._num_tokens = num_tokens
        if chunk.finish_reason is not None:
            self._last = chunk
        parts, found = chunk.split(), self.start_bytes()
        for part in parts:
            kind = _kind_of(part)
            if kind == "reasoning":
                self._num_reasoning_tokens += len(part.token_ids)
            content = chat_logprobs(logprobs)["content"] if logprobs and part is parts[-1] else []
            if part.text or content:
                if not self._items or self._items[-1].kind != kind:
                    found += self._stop_item("completed") + self._start_item(kind)
                found += self._delta(part, content)
        return found

    def flush_bytes(self) -> bytes:
        """Return the events of the end. Raises ValueError if the stream has not ended."""
        if self._last is None:
            raise ValueError("the response has no end yet")
        if self._last.finish_reason in FAILURES:
            return self.fail_bytes(FAILURES[self._last.finish_reason])
        start, (status, end) = self.start_bytes(), self._end()
        return start + end + self._event(f"response.{status}", response=self._body(status))

    def fail_bytes(self, message: str = FAILED) -> bytes:
        """Return the events after an error."""
        start = self.start_bytes()
        if self._items:
            self._items[-1].status = "incomplete"
        error = {"code": "server_error", "message": message}
        return start + self._event("response.failed", response=self._body("failed", error))

    # --- whole

    def step(self, chunk: Chunk, **options: Any) -> None:
        """Add ``chunk``. The options are those of ``step_bytes``."""
        self.step_bytes(chunk, **options)

    def body(self) -> Json:
        """Return the object of an ended response; the API's error if it failed."""
        assert self._last is not None
        reason = self._last.finish_reason
        if reason in FAILURES:
            return error_body(FAILURES[reason], code=reason)
        status, _ = self._end()
        return self._body(status)

    def _body(self, status: str, error: Json | None = None) -> Json:
        usage = None
        if status in ("completed", "incomplete"):
            usage = {
                "input_tokens": self._input_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": self._num_tokens,
                "output_tokens_details": {"reasoning_tokens": self._num_reasoning_tokens},
                "total_tokens": self._input_tokens + self._num_tokens,
            }
        reason = None if self._last is None else self._last.finish_reason
        details = {"reason": _INCOMPLETE[reason]} if status == "incomplete" else None
        end = {"status": status, "error": error, "incomplete_details": details, "usage": usage}
        return {**self._fields, **end, "output": [each.body() for each in self._items]}

    # --- items

    def _end(self) -> tuple[str, bytes]:
        """End the last item. Return the status of the response, and the events."""
        assert self._last is not None
        status = "incomplete" if self._last.finish_reason in _INCOMPLETE else "completed"
        start = b"" if self._items else self._start_item(_kind_of(self._last))
        return status, start + self._stop_item(status)

    def _start_item(self, kind: str) -> bytes:
        index = len(self._items)
        item = _Item(kind, f"{_PREFIXES[kind]}_{self._id.partition('_')[2]}_{index}", index)
        self._items.append(item)
        name = f"{item.text_event}.delta"
        plain: Json = {"type": name, **item.place, **item.shown_logprobs([]), "delta": ""}
        self._head = event(json_bytes(plain), name=name).removesuffix(b'""}\n\n')
        return self._event(
            "response.output_item.added", output_index=index, item=item.body(has_part=False)
        ) + self._event("response.content_part.added", **item.place, part=item.part())

    def _delta(self, part: Chunk, logprobs: list[Json]) -> bytes:
        item = self._items[-1]
        item.texts.append(part.text)
        item.logprobs += logprobs
        if logprobs:
            return self._event(
                f"{item.text_event}.delta", **item.place, logprobs=logprobs, delta=part.text
            )
        self._num_events += 1
        text, number = json_of(part, string_bytes), self._num_events - 1
        return b'%b%b,"sequence_number":%d}\n\n' % (self._head, text, number)

    def _stop_item(self, status: str) -> bytes:
        if not self._items or self._items[-1].status != "in_progress":
            return b""
        item = self._items[-1]
        item.status, part = status, item.part()
        logprobs = item.shown_logprobs(item.logprobs)
        return (
            self._event(f"{item.text_event}.done", **item.place, text=part["text"], **logprobs)
            + self._event("response.content_part.done", **item.place, part=part)
            + self._event(
                "response.output_item.done",
                output_index=item.place["output_index"],
                item=item.body(),
            )
        )

    def _event(self, name: str, **fields: Any) -> bytes:
        self._num_events += 1
        body = {"type": name, **fields, "sequence_number": self._num_events - 1}
        return event(json_bytes(body), name=name)


def _kind_of(part: Chunk) -> str:
    return "reasoning" if part.section == REASONING else "message"
