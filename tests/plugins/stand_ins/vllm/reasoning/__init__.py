"""The parsers of reasoning: those of three names."""

from __future__ import annotations

from typing import Any


class ReasoningParser:
    """A parser that names no markers, as that of gpt-oss."""

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        thinks = (kwargs.get("chat_template_kwargs") or {}).get("thinking", False)
        self.has_markers = self.has_markers_for(thinks)

    def has_markers_for(self, thinks: bool) -> bool:
        return False

    @property
    def reasoning_start_str(self) -> str | None:
        return "<think>" if self.has_markers else None

    @property
    def reasoning_end_str(self) -> str | None:
        return "</think>" if self.has_markers else None


class _Qwen3(ReasoningParser):
    def has_markers_for(self, thinks: bool) -> bool:
        return True


class _DeepSeekV3(ReasoningParser):
    """Has markers only if the chat template was told to think."""

    def has_markers_for(self, thinks: bool) -> bool:
        return thinks


class ReasoningParserManager:
    @classmethod
    def get_reasoning_parser(cls, name: str) -> type[ReasoningParser]:
        found = {"qwen3": _Qwen3, "deepseek_v3": _DeepSeekV3, "openai_gptoss": ReasoningParser}
        return found[name]
