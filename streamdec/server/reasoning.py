"""Answers without the model's reasoning (``include_reasoning: false``).

In: chunks in sections. Out: the same chunks for an encoder, without the text of the reasoning. The
engine still generates its tokens, and they count in the usage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from streamdec.chunks import Chunk, joined
from streamdec.integrations._failures import REASONING
from streamdec.server.generation_requests import Generation
from streamdec.server.problems import RequestError


def without_reasoning(asked: Generation) -> Generation:
    """Return ``asked`` with ``hides_reasoning``.

    Raises RequestError for parameters that would show the tokens of the reasoning.
    """
    shown = {"logprobs": asked.logprobs is not None, "return_token_ids": asked.return_token_ids}
    for param, is_shown in shown.items():
        if is_shown:
            message = f"{param} would show the reasoning that include_reasoning leaves out"
            raise RequestError(message, param=param)
    return replace(asked, hides_reasoning=True)


class WithoutReasoning:
    """Wraps an encoder or a whole answer, and leaves out the reasoning.

    Args:
        inner: the encoder or the whole answer. Only its steps are changed.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def step_bytes(self, chunk: Chunk, index: int = 0, **options: Any) -> bytes:
        """Return the events of ``chunk``; b"" if it has only reasoning."""
        kept = _without_reasoning(chunk)
        return b"" if kept is None else self._inner.step_bytes(kept, index, **options)

    def step(self, chunk: Chunk, index: int = 0, **options: Any) -> None:
        """Add ``chunk`` to a whole answer."""
        kept = _without_reasoning(chunk)
        if kept is not None:
            self._inner.step(kept, index, **options)


def _without_reasoning(chunk: Chunk) -> Chunk | None:
    """Return ``chunk`` without its reasoning; None if nothing is left."""
    *firsts, last = chunk.split()
    parts = [each for each in firsts if each.section != REASONING]
    if last.section != REASONING:
        parts.append(last)
    elif last.finish_reason is not None:
        parts.append(Chunk("", last.finish_reason, last.stop_reason))
    return joined(*parts) if parts else None
