"""A table of model names: which encoding or tokenizer belongs to each.

In: a name, and a mapping or the path of a TOML or JSON file. Out: the name of an encoding, or the
path or Hub id of a tokenizer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from streamdec.errors import TokenizerLoadError

__all__ = ["ModelTable", "checked", "look_up", "read_models"]

ModelTable = Mapping[str, str]
"""Maps a model name, or a pattern with ``*``, to an encoding, a path or a Hub id.

An exact name comes before patterns, and a longer pattern before a shorter one.
"""

_MAX_TABLE = 2**20
"""Largest size of a file with a table, in bytes."""


def look_up(name: str, models: ModelTable) -> str | None:
    """Return what ``models`` has for ``name``, also without its organisation; None if nothing.

    >>> from streamdec.loading.models import look_up
    >>> table = {"my-*": "o200k_base", "my-coder": "path/to/model"}
    >>> look_up("org/my-chat", table), look_up("my-coder", table), look_up("llama", table)
    ('o200k_base', 'path/to/model', None)
    """
    for known in (name, name.rpartition("/")[2]):
        if known in models:
            return models[known]
        patterns = [pattern for pattern in models if fnmatchcase(known, pattern)]
        if patterns:
            return models[max(patterns, key=len)]
    return None


def read_models(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read the table in a TOML or JSON file: strings by name, at the top or under ``models``.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the file and the reason.
    """
    import tomllib  # takes longer than all else here, and most users have no table

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
    """Return ``table``. Raises TypeError if it is not a mapping of strings to strings."""
    if not isinstance(table, Mapping):
        raise TypeError(f"a table of models must map names to strings, not {table!r:.80}")
    for name, target in table.items():
        if not isinstance(name, str) or not isinstance(target, str):
            pair = f"{name!r:.80} and {target!r:.80}"
            raise TypeError(f"a table of models must map names to strings, not {pair}")
    found: ModelTable = table
    return found
