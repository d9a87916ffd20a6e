"""Read ``tokenizer_config.json`` and similar files beside a tokenizer's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers.folder_files import BOM, FileError, parse_json, read_file

CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
ROLES = (
    *("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"),
)
"""The roles that every version of transformers knows, in its order."""
_MAX_BYTES = 2**26


def read_object(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the JSON object in ``name`` in ``folder``; None without such a file.

    Raises :class:`TokenizerLoadError` if the file is not a JSON object, or larger than 64 MiB.
    """
    path = folder / name
    if not path.is_file():
        return None
    try:
        data = parse_json(read_file(path, _MAX_BYTES).removeprefix(BOM))
    except FileError as error:
        line = "" if error.line is None else f"line {error.line}: "
        raise TokenizerLoadError(f"{str(path)!r}: {line}{error}") from error
    if not isinstance(data, dict):
        raise TokenizerLoadError(f"{str(path)!r}: not a JSON object")
    return data


def object_or_empty(folder: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in ``name``; empty if it is missing or malformed."""
    try:
        return read_object(folder, name) or {}
    except TokenizerLoadError:
        return {}


def content_of(token: Any) -> str | None:
    """Return the text of a token: the string, or the object's ``content``; else None."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else None
