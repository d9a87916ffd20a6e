"""What transformers has as defaults, by name: read once from the data file beside this module.

In: the name of a tokenizer class or a model type. Out: what the library does where a snapshot is
silent. The file is written by ``scripts/make_transformers_facts.py``; it holds names and ids alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

__all__ = ["ABSENT", "EosDefault", "Facts", "TokenizerClass", "facts"]

ABSENT = "absent"
"""Instead of an id: the configuration has no attribute of that name."""
_MODEL_ALIASES: Mapping[str, str] = {"kimi_k2": "deepseek_v3"}
"""Model types that vLLM and SGLang load with another one's configuration class."""
ONLY_V5 = frozenset(
    ("TokenizersBackend", "PythonBackend", "SentencePieceBackend", "MistralCommonBackend")
)


@dataclass(frozen=True, slots=True)
class TokenizerClass:
    """A tokenizer class of transformers 5."""

    name: str
    how: Literal["reads", "builds", "builds-special", "python", "unknown"]
    """``reads`` tokenizer.json whole; ``builds`` a tokenizer from its vocabulary alone, with the
    added tokens that are declared (``-special``: and makes all that are named special); ``python``:
    has no tokenizers library under it."""
    roles: Mapping[str, str]
    """The role tokens that it has by itself."""

    @property
    def builds(self) -> bool:
        """Whether the added tokens of ``tokenizer.json`` may get lost."""
        return self.how in ("builds", "builds-special")


@dataclass(frozen=True, slots=True)
class EosDefault:
    """``eos_token_id`` of a configuration that is silent: ids, None, or :data:`ABSENT`."""

    top: Any
    text: Any
    """Of its text part; None also where it has no such part."""
    part: str = ""
    """The name of that part; empty if there is none."""


class Facts:
    """The data file."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.version: str = data["transformers"]
        self.class_of_model: Mapping[str, str] = data["class_of_model"]
        self.wrong_class = frozenset(data["wrong_class"])
        self.classes_of_v4 = frozenset(data["classes_of_v4"])

    def tokenizer_class(self, name: str) -> TokenizerClass | None:
        """The class of that name, with or without ``Fast`` at the end; None if there is none."""
        aliases = self._data["aliases"]  # names of transformers 4 for classes of 5
        for candidate in (aliases.get(name, name), name.removesuffix("Fast")):
            if candidate in self._data["classes"]:
                how, roles = self._data["classes"][candidate]
                return TokenizerClass(candidate, how, roles)
        return None

    def knows_model(self, model_type: str) -> bool:
        """Whether transformers has a configuration of this type."""
        return _MODEL_ALIASES.get(model_type, model_type) in self._data["eos_of_config"]

    def eos_default(self, model_type: str) -> EosDefault:
        """What a configuration of this type has by itself. Of an unknown one: nothing."""
        name = _MODEL_ALIASES.get(model_type, model_type)
        top, text, part = (*self._data["eos_of_config"].get(name, [ABSENT]), None, "")[:3]
        return EosDefault(top, text, part)


@cache
def facts() -> Facts:
    """The facts, read when first asked for (a millisecond)."""
    file = files("streamdec.folders").joinpath("transformers_facts.json")
    return Facts(json.loads(file.read_text("utf-8")))
