"""The environment variables of SGLang that the plugin reads."""

from __future__ import annotations

import os


class _Flag:
    def __init__(self, name: str) -> None:
        self.name = name

    def get(self) -> bool:
        return os.environ.get(self.name) == "1"


class Envs:
    SGLANG_RUST_SERVER = _Flag("SGLANG_RUST_SERVER")


envs = Envs()
