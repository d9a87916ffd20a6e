"""The declarations of ends of sequences in the files of a snapshot.

In: a snapshot and its tokens. Out: :class:`EosSources`: ids, each with its :class:`Source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamdec.folders.transformers_facts import ABSENT, facts
from streamdec.locks import cached_property
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.snapshot_tokens import Tokens, is_id

GENERATION = "generation_config.json"
CONFIG = "config.json"
_SGLANG_PARTS = ("thinker_config", "llm_config", "language_config", "text_config")
"""The keys of the text part of a configuration in SGLang, in its order."""
_LOADED_PARTS = ("decoder", "generator", "text_config", "llm_config")
"""The same in a loaded configuration of transformers and in vLLM, except for models with a
``thinker_config``."""
_WRITTEN_PARTS = ("decoder", "generator", "text_config")
"""The same in ``config.json`` as written in transformers, in its order."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a stop token.

    >>> from streamdec.preflight import effective_stop_tokens
    >>> [source] = effective_stop_tokens("path/to/model", "vllm").sources[0]
    >>> source.kind, source.file, source.pointer
    ('generation_config', 'generation_config.json', '/eos_token_id/1')
    """

    kind: str
    """``tokenizer``, ``generation_config``, ``config``, ``text_config``, ``class_default``,
    ``text_class_default`` or ``built_in``."""
    file: str
    """The file, or for a default the model type of transformers."""
    pointer: str = ""
    """The place in the file."""
    text: str | None = None
    """The text whose id it is, if the source is a text."""
    resolved: bool = True
    """Whether the id is known. If not, ``text`` ends a sequence without a known id, or the text is
    unknown too."""


Found = tuple[tuple[int, Source], ...]
"""Ids, each with its source."""


class EosSources:
    """T, G and C of a snapshot."""

    def __init__(self, snapshot: Snapshot, tokens: Tokens) -> None:
        """Read both configurations; an invalid file counts as missing."""
        self.tokens = tokens
        self.generation_config = snapshot.object(GENERATION)
        self.config = snapshot.object(CONFIG) or {}
        model_type = self.config.get("model_type")
        self.model_type: str = model_type if isinstance(model_type, str) else ""
        self._default = facts().eos_default(self.model_type)
        self.values = (
            (self.generation_config or {}).get("eos_token_id"),
            self.config.get("eos_token_id"),
        )
        """The ``eos_token_id`` of both files."""
        self.generation = _found(self.values[0], "generation_config", GENERATION, "/eos_token_id")
        """G."""
        self.written = _found(self.values[1], "config", CONFIG, "/eos_token_id")
        """The top level of ``config.json`` as written."""
        self.loaded = self.written or self.class_default
        """C: the attribute of the loaded configuration."""
        self.generation_is_zero = is_id(self.values[0]) and self.values[0] == 0
        """Whether G is the integer 0, which a truth test drops."""

    @property
    def written_text(self) -> Found:
        """The text part of ``config.json`` as written, by the keys of transformers."""
        for name in _WRITTEN_PARTS:
            part = self.config.get(name)
            if isinstance(part, dict) and part:
                value = part.get("eos_token_id")
                return _found(value, "text_config", CONFIG, f"/{name}/eos_token_id")
        return ()

    @property
    def class_default(self) -> Found:
        """The default of the configuration's class, if it is in effect."""
        if "eos_token_id" in self.config or not self.model_type:
            return ()
        return _found(self._default.top, "class_default", f"transformers: {self.model_type}", "")

    @property
    def has_attribute(self) -> bool:
        """Whether the loaded configuration has the attribute, even if it is None."""
        return "eos_token_id" in self.config or bool(self._default.top != ABSENT)

    @cached_property
    def lifted(self) -> Found:
        """The attribute of the text part in SGLang."""
        return self._text_of(_SGLANG_PARTS)

    @property
    def loaded_text(self) -> Found:
        """The attribute of the text part in a loaded configuration of transformers."""
        own = self._default.part
        return self._text_of((own,) if own == "thinker_config" else _LOADED_PARTS)

    def _text_of(self, names: tuple[str, ...]) -> Found:
        own = self._default.part
        for name in names:
            part, pointer = self.config.get(name), f"/{name}"
            if isinstance(part, dict):
                if name == "thinker_config" and isinstance(part.get("text_config"), dict):
                    part, pointer = part["text_config"], f"{pointer}/text_config"
                if "eos_token_id" in part:
                    value, pointer = part["eos_token_id"], f"{pointer}/eos_token_id"
                    return _found(value, "text_config", CONFIG, pointer)
                is_known = facts().knows_model(self.model_type)
                # A part that the class does not know is loaded without any default.
                return self._text_default(part) if name == own or not is_known else ()
            if name == own:
                return self._text_default({})
        return ()

    def _text_default(self, part: Mapping[str, Any]) -> Found:
        """Return the class default of the text part's own type, else of the outer type."""
        default, name = self._default.text, self.model_type
        text_type = part.get("model_type")
        if isinstance(text_type, str) and facts().knows_model(text_type):
            default, name = facts().eos_default(text_type).top, text_type
        return _found(default, "text_class_default", f"transformers: {name}", "")

    def or_text(self, value: Found, text: Found) -> Found:
        """Return ``value``; ``text`` if the top level has not even an empty list."""
        return value if self.values[1] is not None or value else text

    @cached_property
    def tokenizer(self) -> tuple[Found, tuple[Source, ...]]:
        """T, and its source if the id is unknown."""
        tokens = self.tokens
        role = tokens.roles.get("eos_token")
        if role is None:
            others = tokens.folder.is_remote or (tokens.json is None and tokens.other_vocabularies)
            is_unknown = others and "eos_token" not in tokens.said
            return (), (Source("tokenizer", "", resolved=False),) if is_unknown else ()
        found = tokens.id_of(role.text)
        source = Source("tokenizer", role.source, role.pointer, role.text, found is not None)
        return ((), (source,)) if found is None else (((found, source),), ())


def listed(value: object, pointer: str) -> list[tuple[Any, str]]:
    """Return the items of a list, or else the value, each with its pointer; none for null."""
    if isinstance(value, list):
        return [(each, f"{pointer}/{index}") for index, each in enumerate(value)]
    return [] if value is None else [(value, pointer)]


def _found(value: object, kind: str, file: str, pointer: str) -> Found:
    """Return the ids in a value, which is an id or a list; other values are left out."""
    found = listed(value, pointer)
    return tuple((each, Source(kind, file, place)) for each, place in found if is_id(each))
