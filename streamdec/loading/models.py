"""Names of models, and which encoding or file serves each.

In: a name like ``gpt-4o-mini``. Out: the name of an encoding of
:data:`streamdec.backends.encodings.ENCODINGS`, or whatever a table of your own says: the name of an
encoding, or the path of a tokenizer.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

from streamdec.errors import TokenizerLoadError

__all__ = ["MODELS", "ModelTable", "checked", "look_up", "read_models"]

ModelTable = Mapping[str, str]
"""Name of a model, or a pattern with ``*``, to the name of an encoding or the path of a tokenizer.

An exact name comes before any pattern; of patterns the one with most letters counts.
"""

MODELS: ModelTable = MappingProxyType(
    {
        "gpt-oss-*": "o200k_harmony",
        "gpt-5*": "o200k_base",
        "gpt-4.5-*": "o200k_base",
        "gpt-4.1": "o200k_base",
        "gpt-4.1-*": "o200k_base",
        "gpt-4o": "o200k_base",
        "gpt-4o-*": "o200k_base",
        "chatgpt-4o-*": "o200k_base",
        "o1": "o200k_base",
        "o1-*": "o200k_base",
        "o3": "o200k_base",
        "o3-*": "o200k_base",
        "o4-mini": "o200k_base",
        "o4-mini-*": "o200k_base",
        "gpt-4": "cl100k_base",
        "gpt-4-*": "cl100k_base",
        "gpt-3.5": "cl100k_base",
        "gpt-3.5-turbo": "cl100k_base",
        "gpt-3.5-turbo-*": "cl100k_base",
        "gpt-35-turbo": "cl100k_base",
        "gpt-35-turbo-*": "cl100k_base",
        "davinci-002": "cl100k_base",
        "babbage-002": "cl100k_base",
        "ft:gpt-4o*": "o200k_base",
        "ft:gpt-4*": "cl100k_base",
        "ft:gpt-3.5-turbo*": "cl100k_base",
        "ft:davinci-002*": "cl100k_base",
        "ft:babbage-002*": "cl100k_base",
        "text-embedding-ada-002": "cl100k_base",
        "text-embedding-3-small": "cl100k_base",
        "text-embedding-3-large": "cl100k_base",
        "text-davinci-003": "p50k_base",
        "text-davinci-002": "p50k_base",
        "code-davinci-002": "p50k_base",
        "code-davinci-001": "p50k_base",
        "code-cushman-002": "p50k_base",
        "code-cushman-001": "p50k_base",
        "davinci-codex": "p50k_base",
        "cushman-codex": "p50k_base",
        "text-davinci-edit-001": "p50k_edit",
        "code-davinci-edit-001": "p50k_edit",
        "text-davinci-001": "r50k_base",
        "text-curie-001": "r50k_base",
        "text-babbage-001": "r50k_base",
        "text-ada-001": "r50k_base",
        "davinci": "r50k_base",
        "curie": "r50k_base",
        "babbage": "r50k_base",
        "ada": "r50k_base",
        "text-similarity-*-001": "r50k_base",
        "text-search-*-001": "r50k_base",
        "code-search-*-001": "r50k_base",
        "gpt-2": "gpt2",
    }
)
"""The names that tiktoken 0.14 knows (``tiktoken/model.py``); a test compares them."""

_MAX_TABLE = 2**20
"""Bytes of a table of names."""


def look_up(name: str, models: ModelTable = MODELS) -> str | None:
    """What ``models`` has for ``name``, also without an organisation before it; None if nothing.

    >>> from streamdec.loading.models import look_up
    >>> look_up("openai/gpt-oss-20b"), look_up("gpt-4.1-mini"), look_up("llama")
    ('o200k_harmony', 'o200k_base', None)
    """
    for known in (name, name.rpartition("/")[2]):
        if known in models:
            return models[known]
        patterns = [pattern for pattern in models if fnmatchcase(known, pattern)]
        if patterns:
            return models[max(patterns, key=len)]
    return None


def read_models(path: str | os.PathLike[str]) -> dict[str, str]:
    """The table in a TOML or JSON file: names and strings, under ``models`` or by themselves.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the file and what is wrong with it.
    """
    file = Path(os.fsdecode(path))
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_TABLE + 1)
        if len(content) > _MAX_TABLE:
            raise ValueError(f"more than {_MAX_TABLE} bytes")
        text = content.decode("utf-8-sig")
        data = json.loads(text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{str(file)!r}: no table of models: {reason}") from error
    try:
        return dict(checked(data.get("models", data)))
    except TypeError as error:
        raise TokenizerLoadError(f"{str(file)!r}: {error}") from error


def checked(table: Any) -> ModelTable:
    """``table``, if it is one. Raises TypeError, which says what it has instead."""
    if not isinstance(table, Mapping):
        raise TypeError(f"a table of models has names and strings, and is not {table!r:.80}")
    for name, target in table.items():
        if not isinstance(name, str) or not isinstance(target, str):
            pair = f"{name!r:.80} and {target!r:.80}"
            raise TypeError(f"a table of models has names and strings only, not {pair}")
    found: ModelTable = table
    return found
