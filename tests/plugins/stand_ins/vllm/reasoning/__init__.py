"""The parsers of reasoning: those of three names."""

from __future__ import annotations

from typing import Any


class ReasoningParser:
    """A parser that names no markers, like that of gpt-oss."""

    def __init__(self, tokenizer: Any, *args: Any, **kwargs: Any) -> None:
        self.options = kwargs.get("chat_template_kwargs") or {}

    @property
    def reasoning_start_str(self) -> str | None:
        return None

    @property
    def reasoning_end_str(self) -> str | None:
        return None


class _Qwen3(ReasoningParser):
    @property
    def reasoning_start_str(self) -> str | None:
        return "<think>"

    @property
    def reasoning_end_str(self) -> str | None:
        return "</think>"


class _DeepSeekV3(_Qwen3):
    """Has markers only if the chat template is to open the reasoning."""

    @property
    def reasoning_start_str(self) -> str | None:
        return "<think>" if self.options.get("thinking") else None


class ReasoningParserManager:
    @classmethod
    def get_reasoning_parser(cls, name: str) -> type[ReasoningParser]:
        found = {"qwen3": _Qwen3, "deepseek_v3": _DeepSeekV3, "nameless": ReasoningParser}
        return found[name]
