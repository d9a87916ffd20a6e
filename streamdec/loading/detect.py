"""What a tokenizer file is, by its content.

In: a path. Out: a :class:`Detected`, which says in words what was found and whether we serve it.
File names count only within a folder. Reads the first kilobytes, of JSON as far as its ``"model"``,
and parses only JSON that has none, to say what it is instead.
"""

from __future__ import annotations

import json
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streamdec.errors import TokenizerLoadError

__all__ = ["Detected", "detect_format"]

Format = Literal["huggingface", "unsupported"]

_HEAD = 4096
_BLOCK = 2**18
_OVERLAP = 64
"""Longer than ``"model": {`` with all the white space that anyone writes."""
_BOM = b"\xef\xbb\xbf"
_MAX_JSON = 64 * 2**20
"""Bytes of JSON that is none of ours, beyond which it is not parsed only to be named."""

_MAGIC = {
    b"GGUF": "a GGUF file",
    b"\xfd7zXZ\x00": "an xz-compressed file",
    b"\x1f\x8b": "a gzip-compressed file",
    b"\x28\xb5\x2f\xfd": "a zstd-compressed file",
    b"BZh": "a bzip2-compressed file",
    b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "a text in UTF-16",
    b"\xfe\xff": "a text in UTF-16",
    b"version https://git-lfs": "a Git LFS pointer, not the file it stands for",
    b"#version:": "a list of BPE merges",
    b"<": "HTML or XML",
}
_MODEL_KEY = re.compile(rb'"model"\s*:\s*\{')
# A rank file has a line for each token: its bytes in base64, a space, its rank.
_RANKS = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(\n|\Z)")
# A ModelProto begins with its pieces: field 1, a message whose own field 1 is the piece's text.
_SENTENCEPIECE = re.compile(rb"\x0a[\x02-\x7f]\x0a.", re.DOTALL)
_IN_FOLDERS = ("*.json", "*.model", "*.model.*", "*.tiktoken", "*.gguf", "vocab.*", "merges.txt")


@dataclass(frozen=True, slots=True)
class Detected:
    """What was found."""

    path: Path
    """The file that holds the tokenizer; the given path if there is none."""
    format: Format
    """The backend that serves it."""
    description: str
    """What it is, as in "found …"."""


def detect_format(path: Path) -> Detected:
    """What ``path``, a file or a folder, holds. Raises TokenizerLoadError if it cannot be read."""
    try:
        return _detect(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{_shown(path)}: {reason}") from error


def _detect(path: Path) -> Detected:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _detect_folder(path)
    # Opening a pipe or a device might wait for ever.
    if not stat.S_ISREG(mode):
        return Detected(path, "unsupported", "something that is neither a file nor a folder")
    return _detect_file(path)


def _detect_folder(folder: Path) -> Detected:
    if (folder / "tokenizer.json").exists():
        return _detect(folder / "tokenizer.json")
    names = sorted({file.name for pattern in _IN_FOLDERS for file in folder.glob(pattern)})
    held = f"with {_listed(names)} but" if names else "with"
    return Detected(folder, "unsupported", f"a folder {held} no tokenizer.json")


def _detect_file(path: Path) -> Detected:
    with path.open("rb") as file:
        head = file.read(_HEAD)
    content = head.removeprefix(_BOM).lstrip()
    if content[:1] in (b"{", b"["):
        return _detect_json(path)
    return Detected(path, "unsupported", _describe(head, content))


def _describe(head: bytes, content: bytes) -> str:
    if not content:
        return "an empty file" if not head else "a file with nothing but white space"
    for magic, description in _MAGIC.items():
        if content.startswith(magic):
            return description
    # White space counts here: the first byte of a ModelProto is a line feed.
    if _SENTENCEPIECE.match(head):
        return "a SentencePiece model"
    if _RANKS.match(content):
        return "a tiktoken rank file"
    return f"a file of an unknown format that begins with {head[:16]!r}"


# --- JSON -----------------------------------------------------------------------------------------


def _detect_json(path: Path) -> Detected:
    if _has_model(path):
        return Detected(path, "huggingface", "a tokenizer.json")
    if path.stat().st_size > _MAX_JSON:
        return Detected(path, "unsupported", 'JSON without a "model"')
    return Detected(path, "unsupported", _describe_json(path.read_bytes()))


def _has_model(path: Path) -> bool:
    """Whether a ``"model": {`` is somewhere: it comes before the vocabulary, so early."""
    before = b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if _MODEL_KEY.search(before + block):
                return True
            before = block[-_OVERLAP:]
    return False


def _describe_json(content: bytes) -> str:
    try:
        data = json.loads(content.removeprefix(_BOM))
    except (ValueError, RecursionError) as error:
        return f"broken JSON ({error})"
    if not isinstance(data, dict):
        return "JSON that is not an object"
    if "config" in data and "vocab" in data:
        return "a Tekken file"
    if data.keys() & {"tokenizer_class", "added_tokens_decoder", "model_max_length"}:
        return "a tokenizer_config.json, which names a tokenizer but does not hold it"
    if data and all(type(value) is int for value in data.values()):
        return "a vocabulary (token to id) without its merges"
    return f'JSON without a "model", with {_listed(list(data))}' if data else "an empty JSON object"


def _listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(ascii(name) if not name.isprintable() else name for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _shown(path: Path) -> str:
    """``path`` for a message: quoted, whatever its bytes are, and not without end."""
    text = repr(str(path))
    return text if len(text) <= 400 else f"{text[:400]}…'"
