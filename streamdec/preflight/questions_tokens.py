"""Questions about tokens: added tokens, ids of a marker, tokenizer class."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamdec.folders.tokenizer_class import auto_map_of
from streamdec.folders.tokenizer_config import ADDED_TOKENS, CONFIG
from streamdec.folders.transformers_facts import facts
from streamdec.preflight.engine_versions import ENGINES, parse_engine
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.snapshot_tokens import Entry, Tokens


@dataclass(frozen=True, slots=True)
class DiscoveredToken:
    """An added token, as it is after loading.

    >>> from streamdec.preflight import discover_added_tokens
    >>> token = discover_added_tokens("path/to/model")[2]
    >>> token.content, token.sources, token.is_disputed
    ('<|im_end|>', ('tokenizer.json', 'eos_token'), False)
    """

    id: int
    """Its token id."""
    content: str
    """Its text."""
    special: bool
    """Its flag. A token that is special only in ``tokenizer.json`` is also skipped in texts."""
    sources: tuple[str, ...]
    """The files that declare it, and the roles that name it, as ``eos_token``."""
    flags: Mapping[str, bool]
    """The value of ``special`` in each file. Where they differ, loaders differ."""

    @property
    def is_disputed(self) -> bool:
        """Whether the files disagree on ``special``."""
        return len(set(self.flags.values())) > 1


def discover_added_tokens(path: str | os.PathLike[str]) -> dict[int, DiscoveredToken]:
    """Return every added token of the snapshot in the folder ``path``, by its id.

    The result is what transformers, vLLM and SGLang load: ``tokenizer.json``, with the flags and
    further tokens of ``tokenizer_config.json``. If the first file is missing or the tokenizer is
    remote code, the result is what the other files declare.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder.

    >>> from streamdec.preflight import discover_added_tokens
    >>> added = discover_added_tokens("path/to/model")
    >>> {i: (token.content, token.special) for i, token in added.items()}
    {0: ('<|endoftext|>', True), 1: ('<|im_start|>', True), 2: ('<|im_end|>', True)}
    """
    tokens = Tokens(open_snapshot(path))
    found = tokens.added
    flags: dict[int, dict[str, bool]] = {}
    for file, entry in _declared(tokens):
        if entry.id in found and found[entry.id][0] == entry.token.content:
            flags.setdefault(entry.id, {})[file] = entry.token.special
    roles: dict[str, list[str]] = {}
    for name, role in tokens.roles.items():
        roles.setdefault(role.text, []).append(name)
    legacy = dict.fromkeys(tokens.legacy.items(), (ADDED_TOKENS,))
    return {
        i: DiscoveredToken(
            id=i,
            content=text,
            special=special,
            sources=(*flags.get(i, ()), *legacy.get((text, i), ()), *roles.get(text, ())),
            flags=flags.get(i, {}),
        )
        for i, (text, special) in sorted(found.items())
    }


def resolve_marker_to_id(path: str | os.PathLike[str], marker: str) -> list[int]:
    """Return the ids of the token ``marker`` in a snapshot, in ascending order.

    ``path`` is the folder of the snapshot. An empty list means that ``marker`` is not a single
    token. Several ids mean that the files disagree, or that one lists it twice.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder, TypeError if
    ``marker`` is not a string.

    >>> from streamdec.preflight import resolve_marker_to_id
    >>> resolve_marker_to_id("path/to/model", "<|im_end|>")
    [2]
    >>> resolve_marker_to_id("path/to/model", "<|eot_id|>")
    []
    """
    if not isinstance(marker, str):
        raise TypeError(f"marker must be a string, got {type(marker).__name__}")
    tokens = Tokens(open_snapshot(path))
    found = [entry.id for _, entry in _declared(tokens) if entry.token.content == marker]
    others = (tokens.legacy.get(marker), tokens.id_of(marker))
    return sorted({*found, *(i for i in others if i is not None)})


def _declared(tokens: Tokens) -> Iterator[tuple[str, Entry]]:
    yield from (("tokenizer.json", entry) for entry in tokens.own)
    yield from ((CONFIG, entry) for entry in tokens.declared)


@dataclass(frozen=True, slots=True)
class EffectiveTokenizerClass:
    """The class with which a version of transformers loads a tokenizer.

    >>> from streamdec.preflight import effective_tokenizer_class
    >>> found = effective_tokenizer_class("path/to/model", "5.24.0")
    >>> found.name, found.source, found.resolved
    ('Qwen2Tokenizer', 'config.json', True)
    """

    name: str | None
    """None if loading raises, if code of the snapshot decides, or if the files do not tell."""
    why: str
    """The reason, in words."""
    source: str
    """The file that decided."""
    remote_code: bool = False
    """Whether ``auto_map`` names code of the snapshot, which needs ``trust_remote_code``."""
    error: str | None = None
    """The error that transformers raises instead."""

    @property
    def resolved(self) -> bool:
        """Whether the answer is known: a class, remote code, or an error."""
        return self.name is not None or self.remote_code or self.error is not None

    def __str__(self) -> str:
        name = self.name or ("remote code" if self.remote_code else self.error or "unknown")
        return f"{name} ({self.why})"


def effective_tokenizer_class(
    path: str | os.PathLike[str], version: str = ENGINES["transformers"][-1]
) -> EffectiveTokenizerClass:
    """Return the class that ``AutoTokenizer`` uses for the snapshot in ``path``.

    ``version`` is a version of transformers. All versions from 5.0 on are treated like 5.24.0, and
    all earlier ones like 4.57.

    Version 5 uses the generic ``TokenizersBackend`` if the declared name is unknown or does not
    match the model type. Version 4 raises for an unknown name.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder, ValueError if
    ``version`` is not a version.

    >>> from streamdec.preflight import effective_tokenizer_class
    >>> effective_tokenizer_class("path/to/model", "4.57.6").name
    'PreTrainedTokenizerFast'
    >>> print(effective_tokenizer_class("path/to/model", "5.0.0"))
    Qwen2Tokenizer (model type qwen2, whose declared class is known to be wrong)
    """
    known = parse_engine(f"transformers@{str(version).removeprefix('transformers@')}")
    tokens = Tokens(open_snapshot(path))
    if known.before("5"):
        return _version_4(tokens.config, tokens.snapshot.object("config.json") or {})
    chosen = tokens.folder.chosen
    name = None if chosen.cls is None else chosen.cls.name
    return EffectiveTokenizerClass(name, chosen.why, chosen.source, remote_code=name is None)


def version_gate_tokenizer_class(tokenizer: str | os.PathLike[str] | Mapping[str, Any]) -> str:
    """Return the transformers version that a tokenizer class needs.

    The result is ``">=4.0"`` or ``">=5.0"``. ``tokenizer`` is the folder of a snapshot, the parsed
    ``tokenizer_config.json`` (a dict), or the name of a class. A name that no version knows needs
    5.0, which uses another class.

    Raises :class:`~streamdec.TokenizerLoadError` for a path that is not a folder.

    >>> from streamdec.preflight import version_gate_tokenizer_class
    >>> version_gate_tokenizer_class("TokenizersBackend")
    '>=5.0'
    >>> version_gate_tokenizer_class("path/to/model")
    '>=4.0'
    """
    if isinstance(tokenizer, str) and tokenizer.isidentifier() and not Path(tokenizer).is_dir():
        tokenizer = {"tokenizer_class": tokenizer}
    if isinstance(tokenizer, Mapping):
        found = _version_4(tokenizer, {})
    else:
        found = effective_tokenizer_class(tokenizer, "4.57.6")
    return ">=4.0" if found.error is None else ">=5.0"


def _class_of_4(name: str) -> str | None:
    """Return the class of version 4 for a name; None if it has none."""
    known = facts().classes_of_v4
    fast = name if name.endswith("Fast") else f"{name}Fast"
    return next((each for each in (fast, name) if each in known), None)


def _version_4(
    tokenizer_config: Mapping[str, Any], config: Mapping[str, Any]
) -> EffectiveTokenizerClass:
    for file, data in ((CONFIG, tokenizer_config), ("config.json", config)):
        if auto_map_of(data):
            why = "auto_map names code of the snapshot"
            return EffectiveTokenizerClass(None, why, file, remote_code=True)
        name = data.get("tokenizer_class")
        if isinstance(name, str) and name:
            found = _class_of_4(name)
            said = f"Tokenizer class {name} does not exist or is not currently imported."
            error = None if found else f"ValueError: {said}"
            return EffectiveTokenizerClass(found, f"{name} is declared", file, error=error)
    # The classes of version 4 for each model type are unknown here. Where version 5 has a class,
    # version 4 had one of the same name.
    model_type = config.get("model_type")
    registered = facts().class_of_model.get(model_type, "") if isinstance(model_type, str) else ""
    why = f"no class is declared; model type {model_type}"
    return EffectiveTokenizerClass(_class_of_4(registered), why, "config.json")
