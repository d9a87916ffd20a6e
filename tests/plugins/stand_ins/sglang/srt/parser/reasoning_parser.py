"""The parsers of reasoning: those of three names, and only their markers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

_MARKERS = {"qwen3": ("<think>", "</think>"), "kimi": ("◁think▷", "◁/think▷"), "nameless": ("", "")}


class ReasoningParser:
    """Has a detector, which knows the markers."""

    def __init__(
        self,
        model_type: str | None = None,
        stream_reasoning: bool = True,
        force_reasoning: bool | None = None,
        request: Any = None,
        tokenizer: Any = None,
        tool_call_parser_active: bool = False,
        prefix: str | None = None,
    ) -> None:
        if model_type not in _MARKERS:
            raise ValueError(f"Unsupported model type: {model_type}")
        opening, closing = _MARKERS[model_type]
        self.detector = SimpleNamespace(think_start_token=opening, think_end_token=closing)
