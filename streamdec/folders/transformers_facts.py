"""The defaults of transformers, by name, from the data file beside this module.

In: the name of a tokenizer class or a model type. Out: the library's defaults for settings that a
snapshot does not have. ``scripts/make_transformers_facts.py`` writes the file, which contains only
names and ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

ABSENT = "absent"
"""In place of an id: the configuration class has no such attribute."""
_MODEL_ALIASES: Mapping[str, str] = {"kimi_k2": "deepseek_v3"}
"""Model types that vLLM and SGLang load with the configuration class of another model type."""
ONLY_V5 = frozenset(
    ("TokenizersBackend", "PythonBackend", "SentencePieceBackend", "MistralCommonBackend")
)


@dataclass(frozen=True, slots=True)
class TokenizerClass:
    """A tokenizer class of transformers 5."""

    name: str
    how: Literal["reads", "inherits", "decodes", "builds", "builds-special", "python", "unknown"]
    """How it makes its tokenizer:

    - ``reads``: it uses all of ``tokenizer.json``.
    - ``inherits``: the same, with the post-processor of the class that it extends.
    - ``decodes``: the same, with a decode of its own.
    - ``builds``: it uses the vocabulary of ``tokenizer.json`` and the declared added tokens;
      ``builds-special`` marks all named tokens as special.
    - ``python``: it does not use the library tokenizers.
    - ``unknown``: it could not be imported.
    """
    roles: Mapping[str, str | None]
    """The default role tokens of the class.

    If ``pad_token`` is None, the class has none, and that of a ``tokenizer.json`` is ignored.
    """


@dataclass(frozen=True, slots=True)
class EosDefault:
    """The default ``eos_token_id`` of a configuration: ids, None or :data:`ABSENT`."""

    top: Any
    text: Any
    """The default of its text part; None also without a text part."""
    part: str = ""
    """The name of the text part; empty without one."""


class Facts:
    """The data file."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self.version: str = data["transformers"]
        self.classes: Mapping[str, tuple[Any, Mapping[str, str | None]]] = data["classes"]
        self.class_of_model: Mapping[str, str] = data["class_of_model"]
        self.wrong_class = frozenset(data["wrong_class"])
        self.wrong_ids: list[str] = data["wrong_ids"]
        self.classes_of_v4 = frozenset(data["classes_of_v4"])

    def tokenizer_class(self, name: str) -> TokenizerClass | None:
        """Return the class ``name``, with or without a final ``Fast``; None if unknown."""
        aliases = self._data["aliases"]  # names of transformers 4 for classes of 5
        for candidate in (aliases.get(name, name), name.removesuffix("Fast")):
            if candidate in self.classes:
                return TokenizerClass(candidate, *self.classes[candidate])
        return None

    def knows_model(self, model_type: str) -> bool:
        """Whether transformers has a configuration of this type."""
        return _MODEL_ALIASES.get(model_type, model_type) in self._data["eos_of_config"]

    def eos_default(self, model_type: str) -> EosDefault:
        """Return the end-of-sequence defaults of this type; unknown types have ABSENT."""
        name = _MODEL_ALIASES.get(model_type, model_type)
        top, text, part = (*self._data["eos_of_config"].get(name, [ABSENT]), None, "")[:3]
        return EosDefault(top, text, part)


@cache
def facts() -> Facts:
    """Return the facts, which are read at first use in a millisecond."""
    file = Path(__file__).with_name("transformers_facts.json")
    return Facts(json.loads(file.read_text("utf-8")))
