"""The nouns that come out of a stream: chunks of text and anchors of tokens in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["Anchor", "Chunk", "FinishReason"]

FinishReason = Literal["stop", "length", "abort", "error"]
"""Why a stream ended, in the words of OpenAI and vLLM."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of the stream. Immutable, so one object may be handed to many streams."""

    text: str = ""
    """The text that may be shown now."""
    finish_reason: FinishReason | None = None
    """Why the stream ended with this chunk, or None."""

    @property
    def held(self) -> bool:
        """True when there is nothing to show yet: neither text nor an end."""
        return not self.text and self.finish_reason is None


class Anchor(NamedTuple):
    """Where one generated token stands in the generated text.

    A token covers every code point that it gave a byte to, so the spans of tokens that share a
    character overlap. A token that gave nothing (a skipped special) has an empty span.
    """

    token_index: int
    """The token's place among the generated tokens, from 0."""
    start: int
    """First code point."""
    end: int
    """One past the last code point."""
    byte_start: int
    """First byte of ``start`` in the text as UTF-8."""
    byte_end: int
    """One past the last byte."""
