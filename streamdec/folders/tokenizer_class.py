"""Find the tokenizer class that transformers 5 would choose for a snapshot.

In: ``tokenizer_config.json`` and ``config.json``. Out: the class and the reason. The rules have the
same order as in ``AutoTokenizer.from_pretrained`` (transformers 5.24.0,
``models/auto/tokenization_auto.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamdec.errors import TokenizerLoadError
from streamdec.folders.transformers_facts import TokenizerClass, facts

GENERIC = "TokenizersBackend"
_GENERIC_NAMES = frozenset((GENERIC, "PythonBackend"))
_NOT_OF_A_MODEL = frozenset((*_GENERIC_NAMES, "PreTrainedTokenizerFast", "MistralCommonBackend"))


class NotFollowedError(TokenizerLoadError):
    """Only transformers can make the tokenizer of ``folder``; ``why`` says why."""

    def __init__(self, why: str, folder: Path | None = None) -> None:
        super().__init__(why if folder is None else f"{str(folder)!r}: {why}")
        self.why = why


@dataclass(frozen=True, slots=True)
class Chosen:
    """A tokenizer class."""

    cls: TokenizerClass | None
    """None: code of the snapshot itself, which is never run here."""
    why: str
    """In words."""
    source: str
    """The file that decided."""
    unknown: str = ""
    """The declared name, if transformers has no class of that name and uses a generic one."""

    @property
    def name(self) -> str:
        """The name, or that it is remote code."""
        return self.cls.name if self.cls is not None else "remote code"


def auto_map_of(config: Mapping[str, Any]) -> list[str]:
    """Return the names of the code for the tokenizer in ``auto_map``.

    In old files ``auto_map`` is the list of names itself.
    """
    auto_map = config.get("auto_map")
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else auto_map
    listed = names if isinstance(names, list) else [names]
    return [name for name in listed if isinstance(name, str) and name]


def choose_class(
    tokenizer_config: Mapping[str, Any], config: Mapping[str, Any], *, is_byte_level: bool
) -> Chosen:
    """Return the class for these two files.

    A missing file is passed as an empty mapping.
    """
    known = facts()
    given = config.get("model_type"), config.get("model_name")
    model_type, model_name = (each if isinstance(each, str) else "" for each in given)
    is_wrong = model_type in known.wrong_class
    if auto_map_of(tokenizer_config) and not is_wrong:
        return Chosen(None, "auto_map names code of the snapshot", "tokenizer_config.json")
    is_wrong = is_wrong or model_name in known.wrong_class
    declared, source = _declared(tokenizer_config, config)
    bare = declared.removesuffix("Fast")
    own = known.class_of_model.get(model_type, "").removesuffix("Fast")
    is_llama = bare == "LlamaTokenizer" and own != "MistralCommonBackend"
    found = None
    if not declared and tokenizer_config.get("tokenizer_class") == "":
        why, source = "the declared class is empty", "tokenizer_config.json"
    elif is_llama and is_byte_level and not is_wrong:
        why, source = "LlamaTokenizer is declared, tokenizer.json is ByteLevel", "tokenizer.json"
    elif not declared:
        found = _named(own, f"model type {model_type}", "config.json")
        why, source = "no class is declared", "config.json"
    elif own in ("", bare):
        found = _named(bare, "declared", source)
        why = f"{declared} is {'not known' if known.tokenizer_class(bare) is None else 'generic'}"
    else:
        why = f"{declared} is not the class of model type {model_type}"
        if is_wrong and own not in _NOT_OF_A_MODEL:
            source = f"model type {model_type}, whose declared class is known to be wrong"
            found = _named(own, source, "config.json")
        elif own not in _NOT_OF_A_MODEL:
            found = _named(declared, "declared", source)
    is_unknown = declared and known.tokenizer_class(declared) is None
    generic = known.tokenizer_class(GENERIC)
    return found or Chosen(generic, why, source, declared if is_unknown else "")


def _declared(tokenizer_config: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[str, str]:
    for name, data in (("tokenizer_config.json", tokenizer_config), ("config.json", config)):
        declared = data.get("tokenizer_class")
        if declared:
            # No class has the name of another value, so loading warns of it.
            return declared if isinstance(declared, str) else f"{declared!r:.40}", name
    return "", ""


def _named(name: str, why: str, source: str) -> Chosen | None:
    """Return the class ``name``; None if it is unknown or generic."""
    cls = facts().tokenizer_class(name) if name else None
    return None if cls is None or cls.name in _GENERIC_NAMES else Chosen(cls, why, source)
