"""How a stream reads its source, as options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from streamdec.chunks import FinishReason

ChunkBy = Literal["output", "token"]


class ReadingOptions(TypedDict, total=False):
    """How a stream reads its source; see :func:`~streamdec.wrap`."""

    ids: Callable[[Any], Any] | None
    cumulative: bool
    index: int | None
    chunk_by: ChunkBy
    return_token_ids: bool
    finish_reason: FinishReason
