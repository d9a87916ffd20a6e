"""The messages between SGLang's processes."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Any


@dataclass(kw_only=True, slots=True)
class BatchTokenIDOutput:
    """New ids of some requests: lists with an entry for each."""

    rids: list[str] | None = None
    finished_reasons: list[dict[str, Any] | None]
    decoded_texts: list[str]
    decode_ids: list[array[int]]
    read_offsets: list[int]
    skip_special_tokens: list[bool]
    spaces_between_special_tokens: list[bool]
    no_stop_trim: list[bool]
