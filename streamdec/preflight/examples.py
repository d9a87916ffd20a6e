"""The small models of the documentation, each with the mistake of a real model.

In: the name of a model. Out: its folder, with 256 bytes as its vocabulary and a few added tokens.
The files are in ``streamdec/preflight/examples``. There a ``tokenizer.json`` has only the added
tokens.
"""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from streamdec.core.rules.base import BYTE_ALPHABET

_FOLDER = files("streamdec.preflight").joinpath("examples")
EXAMPLES = tuple(sorted(entry.name for entry in _FOLDER.iterdir() if entry.is_dir()))
"""The names of the models."""


def write_example(name: str, parent: str | os.PathLike[str] = ".") -> Path:
    """Write the files of a model into a new folder of its name, and return that.

    The new folder is in ``parent``. Raises FileExistsError if it exists.
    """
    folder = Path(parent, name)
    if folder.exists():
        message = f"{folder} exists: remove it, or write the example into another folder"
        raise FileExistsError(message)
    folder.mkdir()
    for file in _FOLDER.joinpath(name).iterdir():
        text = file.read_text("utf-8")
        if file.name == "tokenizer.json":
            text = json.dumps(_tokenizer(json.loads(text)), ensure_ascii=False)
        (folder / file.name).write_text(text, "utf-8")
    return folder


def _tokenizer(added: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a byte-level ``tokenizer.json`` with added tokens from id 256 on."""
    vocabulary = {chr(letter): i for i, letter in enumerate(sorted(BYTE_ALPHABET))}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {
        "version": "1.0",
        "added_tokens": [{"id": 256 + i, **flags, **token} for i, token in enumerate(added)],
        "pre_tokenizer": {**byte_level, "use_regex": True},
        "decoder": {**byte_level, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []},
    }
