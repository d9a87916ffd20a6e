"""Read ``tokenizer_config.json`` and similar files beside a tokenizer's file.

In: the folder. Out: the JSON object in a file; for a rank file also the added tokens and their ids,
which of them are special, their roles, and the Python code that the file names. That code is never
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamdec.backends._common import MAX_ID
from streamdec.backends._reading import read_bounded
from streamdec.errors import TokenizerLoadError

__all__ = [
    "ADDED_TOKENS",
    "CONFIG",
    "ROLES",
    "SPECIAL_TOKENS_MAP",
    "Declared",
    "content_of",
    "id_of",
    "read_declared",
    "read_object",
]

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
ROLES = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)
"""The roles that every version of transformers knows, in its order."""
_MAX_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class Declared:
    """The tokens that ``tokenizer_config.json`` declares."""

    tokens: Mapping[int, str] = field(default_factory=dict)
    """Added tokens by their ids."""
    ordinary: frozenset[str] = frozenset()
    """Added tokens that are not special; ``skip_special_tokens`` does not skip them."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """The tokens of the roles, such as ``bos_token``."""
    code: str = ""
    """The module and class that transformers would run, as in ``tokenization_kimi.TikTok…``."""
    is_there: bool = False
    """Whether the file exists."""


def read_declared(folder: Path) -> Declared:
    """Return what the file in ``folder`` declares; nothing without such a file.

    Raises :class:`TokenizerLoadError` if the file is malformed.
    """
    data = read_object(folder, CONFIG)
    if data is None:
        return Declared()
    try:
        return _declared(data)
    except (ValueError, TypeError) as error:
        raise TokenizerLoadError(f"{str(folder / CONFIG)!r}: {error}") from error


def read_object(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the JSON object in the file ``name`` in ``folder``; None without such a file.

    Raises :class:`TokenizerLoadError` if the file is not a JSON object, or larger than 64 MiB.
    """
    path = folder / name
    if not path.is_file():
        return None
    try:
        data = json.loads(read_bounded(path, _MAX_BYTES).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise TokenizerLoadError(f"{str(path)!r}: {error}") from error
    if not isinstance(data, dict):
        raise TokenizerLoadError(f"{str(path)!r}: not a JSON object")
    return data


def _declared(data: dict[str, Any]) -> Declared:
    tokens: dict[int, str] = {}
    ordinary = set()
    added = data.get("added_tokens_decoder") or {}
    if not isinstance(added, dict):
        raise TypeError("added_tokens_decoder is not an object")
    for key, token in added.items():
        token_id, content, special = _token(key, token)
        tokens[token_id] = content
        if not special:
            ordinary.add(content)
    named = {role: content_of(data.get(role)) for role in ROLES}
    roles = {role: content for role, content in named.items() if content is not None}
    return Declared(tokens, frozenset(ordinary), roles, _code(data.get("auto_map")), is_there=True)


def _token(key: str, token: Any) -> tuple[int, str, bool]:
    content = content_of(token)
    try:
        token_id = id_of(key)
    except ValueError as error:
        raise ValueError(f"added_tokens_decoder: {error}") from error
    if not content:
        raise ValueError(f"added_tokens_decoder: id {key} has no content")
    return token_id, content, isinstance(token, str) or token.get("special", True) is not False


def id_of(key: str) -> int:
    """Return the id that the key of an object spells. Raises ValueError if it is not an id."""
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) <= MAX_ID):
        raise ValueError(f"{key!r:.40} is not a token id")
    return int(key)


def content_of(token: Any) -> str | None:
    """Return the text of a token: a string, or an object with ``content``; None for others."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _code(auto_map: Any) -> str:
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else None
    listed = names if isinstance(names, list) else [names]
    return " ".join(name for name in listed if isinstance(name, str))
