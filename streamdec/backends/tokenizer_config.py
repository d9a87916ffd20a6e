"""``tokenizer_config.json`` and its like, as far as a tokenizer's file leaves things unsaid.

In: the folder. Out: what one of these files holds; and, for a rank file: which tokens were added
under which ids, which of them are special, which have a role, and the Python code that the file
names. Nothing of that code is ever run.
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
    """What ``tokenizer_config.json`` says."""

    tokens: Mapping[int, str] = field(default_factory=dict)
    """Added tokens by their ids."""
    ordinary: frozenset[str] = frozenset()
    """Those of them that are not special, so that ``skip_special_tokens`` leaves them in."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """``bos_token`` and its like."""
    code: str = ""
    """The module and class that transformers would run, as in ``tokenization_kimi.TikTok…``."""
    is_there: bool = False
    """Whether there is such a file at all."""


def read_declared(folder: Path) -> Declared:
    """What the file in ``folder`` says; nothing if there is none.

    Raises :class:`TokenizerLoadError` if there is one and it cannot be understood.
    """
    data = read_object(folder, CONFIG)
    if data is None:
        return Declared()
    try:
        return _declared(data)
    except (ValueError, TypeError) as error:
        raise TokenizerLoadError(f"{str(folder / CONFIG)!r}: {error}") from error


def read_object(folder: Path, name: str) -> dict[str, Any] | None:
    """The JSON object in the file of that name in ``folder``; None if there is no such file.

    Raises :class:`TokenizerLoadError` if there is one and it is something else, or larger than
    64 MiB.
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
    """The id that the key of an object is. ValueError if it is none."""
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) <= MAX_ID):
        raise ValueError(f"{key!r:.40} is not a token id")
    return int(key)


def content_of(token: Any) -> str | None:
    """The text of a token, which is a string or an object with ``content``; None if neither."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _code(auto_map: Any) -> str:
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else None
    listed = names if isinstance(names, list) else [names]
    return " ".join(name for name in listed if isinstance(name, str))
