"""The request that the front end gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class EngineCoreRequest:
    """The fields that the detokenizer reads."""

    request_id: str
    prompt_token_ids: list[int] | None
    sampling_params: Any
    resumable: bool = False
