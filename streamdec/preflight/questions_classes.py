"""Questions about the tokenizer class: which one loads a snapshot, and since which version.

In: a folder, its ``tokenizer_config.json`` as JSON, or the name of a class. Out: what
``AutoTokenizer.from_pretrained`` makes of it, without making it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamdec.preflight.engines import ENGINES, parse_engine
from streamdec.preflight.facts import facts
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.tokenizer_class import auto_map_of
from streamdec.preflight.tokens import Tokens

__all__ = ["EffectiveTokenizerClass", "effective_tokenizer_class", "version_gate_tokenizer_class"]

_CONFIG = "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class EffectiveTokenizerClass:
    """The class with which a version of transformers loads a tokenizer.

    >>> from streamdec.preflight import effective_tokenizer_class
    >>> found = effective_tokenizer_class("path/to/model", "5.23.0")
    >>> found.name, found.source, found.resolved
    ('Qwen2Tokenizer', 'config.json', True)
    """

    name: str | None
    """None where it raises, where code of the snapshot decides, or where the files do not tell."""
    version: str
    """Of transformers."""
    why: str
    """What decided, in words."""
    source: str
    """The file that decided."""
    remote_code: bool = False
    """Whether ``auto_map`` names code of the snapshot, which needs ``trust_remote_code``."""
    error: str | None = None
    """What is raised instead, as transformers says it."""

    @property
    def resolved(self) -> bool:
        """Whether the answer is known: a class, remote code, or an error."""
        return self.name is not None or self.remote_code or self.error is not None

    def __str__(self) -> str:
        told = self.name or ("remote code" if self.remote_code else self.error or "unknown")
        return f"{told} ({self.why})"


def effective_tokenizer_class(
    path: str | os.PathLike[str], version: str = ENGINES["transformers"][-1]
) -> EffectiveTokenizerClass:
    """The class that ``AutoTokenizer`` of transformers ``version`` makes of the folder ``path``.

    Version 5 often takes another class than the declared one: the generic
    ``TokenizersBackend`` where the declared name is unknown or is not the one of the model type.
    Version 4 raises for an unknown name, and prefers the class whose name ends in ``Fast``.

    Raises :class:`~streamdec.PreflightError` for what is no folder, ValueError for what is no
    version.

    >>> from streamdec.preflight import effective_tokenizer_class
    >>> effective_tokenizer_class("path/to/model", "4.57.6").name
    'PreTrainedTokenizerFast'
    >>> print(effective_tokenizer_class("path/to/model", "5.0.0"))
    Qwen2Tokenizer (model type qwen2, whose declared class is known to be wrong)
    """
    known = parse_engine(f"transformers@{str(version).removeprefix('transformers@')}")
    tokens = Tokens(Snapshot(Path(path)))
    if known.before("5"):
        return _version_4(tokens, known.version)
    chosen = tokens.chosen
    return EffectiveTokenizerClass(
        name=None if chosen.cls is None else chosen.cls.name,
        version=known.version,
        why=chosen.why,
        source=chosen.source,
        remote_code=chosen.cls is None,
    )


def version_gate_tokenizer_class(
    tokenizer: str | os.PathLike[str] | Mapping[str, Any],
) -> str:
    """Which transformers a tokenizer class needs at least: ``">=4.0"`` or ``">=5.0"``.

    ``tokenizer`` is the folder of a snapshot, the JSON of its ``tokenizer_config.json``, or the
    name of a class; a string is a folder if there is one of that name. Classes that a snapshot
    brings along (``auto_map``) load with both. A name that no version has needs 5, which takes
    another class instead and does not say so; 4 raises.

    Raises :class:`~streamdec.PreflightError` for a path that is no folder.

    >>> from streamdec.preflight import version_gate_tokenizer_class
    >>> version_gate_tokenizer_class("TokenizersBackend")
    '>=5.0'
    >>> version_gate_tokenizer_class("path/to/model")
    '>=4.0'
    """
    if isinstance(tokenizer, Mapping):
        return _gate(_declared(tokenizer), bool(auto_map_of(tokenizer)))
    is_name = isinstance(tokenizer, str) and tokenizer.isidentifier()
    if is_name and not Path(tokenizer).is_dir():
        return _gate(str(tokenizer), has_code=False)
    found = effective_tokenizer_class(tokenizer, "4.57.6")
    return ">=5.0" if found.error else ">=4.0"


def _gate(name: str, has_code: bool) -> str:
    return ">=4.0" if has_code or not name or _class_of_4(name) else ">=5.0"


def _declared(config: Mapping[str, Any]) -> str:
    name = config.get("tokenizer_class")
    return name if isinstance(name, str) else ""


def _class_of_4(name: str) -> str | None:
    """The class that version 4 takes for a name; None if it has none."""
    known = facts().classes_of_v4
    fast = name if name.endswith("Fast") else f"{name}Fast"
    return fast if fast in known else name if name in known else None


def _version_4(tokens: Tokens, version: str) -> EffectiveTokenizerClass:
    config = tokens.snapshot.object("config.json") or {}
    for file, data in ((_CONFIG, tokens.config), ("config.json", config)):
        code = auto_map_of(data)
        if code:
            why = "auto_map names code of the snapshot"
            return EffectiveTokenizerClass(None, version, why, file, remote_code=True)
        name = _declared(data)
        if name:
            found = _class_of_4(name)
            said = f"Tokenizer class {name} does not exist or is not currently imported."
            error = None if found else f"ValueError: {said}"
            why = f"{name} is declared"
            return EffectiveTokenizerClass(found, version, why, file, error=error)
    # What version 4 has for each model type is not known here; where 5 has a class, 4 had its name.
    model_type = config.get("model_type")
    registered = facts().class_of_model.get(model_type, "") if isinstance(model_type, str) else ""
    why = f"no class is declared; model type {model_type}"
    return EffectiveTokenizerClass(
        _class_of_4(registered) if registered else None, version, why, "config.json"
    )
