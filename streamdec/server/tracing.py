"""The server's own wire format, which streams a trace to the page that draws it.

The events are ``header``, ``token`` for each token, and ``end`` with the verdict. Their data are
the lines of a trace (:mod:`streamdec.trace.records`). An ``error`` event has OpenAI's error object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from streamdec.chunks import Chunk
from streamdec.integrations._json import json_bytes
from streamdec.integrations.logprobs import PlacedLogprob
from streamdec.integrations.openai import FAILED, error_body
from streamdec.integrations.sse import comment, event
from streamdec.trace.records import Trace
from streamdec.trace.tracer import Tracer


class TraceStream:
    """Encodes the records of ``tracer`` as a stream of events.

    It is a :class:`~streamdec.integrations.asgi.WireStream`. ``name`` replaces the tokenizer's
    name, which may be a path of the server.
    """

    keep_alive = comment("keep-alive")
    counts_each_chunk = False

    def __init__(self, tracer: Tracer[Any], name: str) -> None:
        self._tracer = tracer
        self._name = name
        self._num_sent = 0

    def start_bytes(self) -> bytes:
        """Return the header event."""
        header, *_ = self._told(self._tracer.trace()).lines()
        return event(header, name="header")

    def step_bytes(
        self,
        chunk: Chunk,
        index: int = 0,
        *,
        num_tokens: int | None = None,
        logprobs: Sequence[PlacedLogprob] = (),
    ) -> bytes:
        """Return an event for each new token."""
        trace = self._tracer.trace()
        new = replace(trace, tokens=trace.tokens[self._num_sent :])
        self._num_sent = len(trace.tokens)
        _, *tokens, _ = new.lines()
        return b"".join(event(line, name="token") for line in tokens)

    def flush_bytes(self) -> bytes:
        """Return the end event, with the verdict."""
        *_, last = self._told(replace(self._tracer.trace(), tokens=())).lines()
        return event(last, name="end")

    def fail_bytes(self) -> bytes:
        """Return a generic error event, without details."""
        return event(json_bytes(error_body(FAILED)), name="error")

    def _told(self, trace: Trace) -> Trace:
        header = replace(trace.header, tokenizer=self._name)
        return replace(trace, header=header, error=FAILED if trace.error else None)
