"""``tokenizer_config.json``, as far as a rank file or a model beside it leaves things unsaid.

In: the folder. Out: which tokens were added under which ids, which of them are special, which have
a role, and the Python code that the file names. Nothing of that code is ever run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamdec.backends._common import MAX_ID
from streamdec.errors import TokenizerLoadError

__all__ = ["Declared", "read_declared"]

_NAME = "tokenizer_config.json"
_MAX_BYTES = 2**26
_ROLES = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)


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
    path = folder / _NAME
    if not path.is_file():
        return Declared()
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES} bytes")
        return _declared(json.loads(content.decode("utf-8-sig")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{str(path)!r}: {reason}") from error


def _declared(data: Any) -> Declared:
    if not isinstance(data, dict):
        raise TypeError("not a JSON object")
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
    named = {role: _content(data.get(role)) for role in _ROLES}
    roles = {role: content for role, content in named.items() if content is not None}
    return Declared(tokens, frozenset(ordinary), roles, _code(data.get("auto_map")), is_there=True)


def _token(key: str, token: Any) -> tuple[int, str, bool]:
    content = _content(token)
    if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) <= MAX_ID):
        raise ValueError(f"added_tokens_decoder: {key!r:.40} is not a token id")
    if not content:
        raise ValueError(f"added_tokens_decoder: id {key} has no content")
    return int(key), content, isinstance(token, str) or token.get("special", True) is not False


def _content(token: Any) -> str | None:
    """The text of a token: a string, or an object with ``content``."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None


def _code(auto_map: Any) -> str:
    names = auto_map.get("AutoTokenizer") if isinstance(auto_map, dict) else None
    listed = names if isinstance(names, list) else [names]
    return " ".join(name for name in listed if isinstance(name, str))
