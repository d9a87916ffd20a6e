"""What knows the configuration of an engine, and its tokenizer."""

from __future__ import annotations

from typing import Any


class InputProcessor:
    def __init__(self, vllm_config: Any, renderer: Any = None) -> None:
        self.vllm_config = vllm_config
        self.renderer = renderer
