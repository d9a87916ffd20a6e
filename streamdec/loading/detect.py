"""Recognise the format of a tokenizer file by its content.

In: a path. Out: a :class:`Detected`, which has the format and a description. In a folder, names of
files are used to find candidates. The first kilobytes are read; JSON is read whole.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from streamdec.errors import TokenizerLoadError
from streamdec.folders.folder_tokens import read_folder
from streamdec.folders.tokenizer_class import GENERIC
from streamdec.folders.tokenizer_config import CONFIG
from streamdec.tokenizers.folder_files import BOM, MAX_FILE

__all__ = ["Detected", "Format", "detect_format"]

Format = Literal[
    "huggingface", "tekken", "tiktoken", "sentencepiece", "transformers", "gguf", "unsupported"
]

_HEAD = 4096
_NAMES: dict[Format, str] = {
    "huggingface": "a tokenizer.json",
    "tekken": "a Tekken file",
    "tiktoken": "a tiktoken rank file",
    "sentencepiece": "a SentencePiece model",
    "gguf": "a GGUF file",
}
"""Formats by priority: if a folder has several, the first of them is loaded."""
_ABOUT_RWKV = (
    "an RWKV vocabulary, which streamdec does not read. The package rwkv does (pip install rwkv; "
    "rwkv.rwkv_tokenizer.TRIE_TOKENIZER(path), which runs the file's literals as Python code). "
    "The page 'Write a backend' has a class for this format that streams accept"
)
_ABOUT_PARTS = "if it is one file of a tokenizer, give the folder"
_IN_PLACE_OF_IT = {
    rb"version https://git-lfs": "a Git LFS pointer, not the file it stands for (run git lfs pull)",
    rb"#version:": "a list of BPE merges (give the path of its folder, which must have vocab.json)",
    rb"\s*<(?i:!doctype|html)": "HTML (download the file itself, not its page)",
    rb"\x1f\x8b|PK\x03\x04|BZh|\xfd7zXZ|\x28\xb5\x2f\xfd": "a compressed file (unpack it)",
    # A line has an id, the token as a Python literal, and its length in bytes.
    rb"[0-9]{1,8} b?['\"][^\n]*['\"] [0-9]{1,4}\r?(\n|\Z)": _ABOUT_RWKV,
}
"""What explains best why a folder has no tokenizer."""
_BEGINNINGS: dict[bytes, Format | str] = {
    rb"GGUF": "gguf",
    # A ModelProto begins with its pieces: field 1, a message whose own field 1 is the piece's text.
    rb"(?s:\x0a[\x02-\x7f]\x0a.)": "sentencepiece",
    # A rank file has a line for each token: its bytes in base64, a space, its rank.
    rb"(\xef\xbb\xbf)?\s*[A-Za-z0-9+/]+={0,2} \d+\r?(\n|\Z)": "tiktoken",
    **_IN_PLACE_OF_IT,
    rb"\Z": "an empty file",
}
"""Regexes for the beginning of a file, and its format, or a description of another one."""
_IN_JSON: dict[bytes, Format | str] = {
    rb'"model"\s*:\s*\{': "huggingface",
    rb'"default_num_special_tokens"\s*:\s*[0-9]': "tekken",
    b"": f'JSON without a "model" ({_ABOUT_PARTS})',
}
"""The same for JSON: what is anywhere in it."""
_VOCABULARY = re.compile(r".*vocab.*|.*\.spm")
"""Files whose meaning depends on the tokenizer class."""
_WORTH_LOOKING = re.compile(
    r"(vocab\.json|.*vocab.*\.txt|(tokenizer|.*tekken).*\.json(\..+)?|.*\.tiktoken(\..+)?"
    r"|.*\.model(\..+)?|.*\.gguf)"
)
_LATER_PART = re.compile(r"-(?!00001-)[0-9]{5}-of-[0-9]{5}\.gguf")
_MAX_FILES = 200
"""The most files of a folder whose content is looked at."""


@dataclass(frozen=True, slots=True)
class Detected:
    """What :func:`~streamdec.tokenizers.detect_format` found."""

    path: Path
    """The file that holds the tokenizer; the given path if there is none."""
    format: Format
    """The format, which determines the backend."""
    description: str
    """A noun phrase. If the file cannot be loaded, it may end with advice."""


def detect_format(path: str | os.PathLike[str]) -> Detected:
    """Return the format of the tokenizer file or folder ``path``, by its content.

    The result has a ``path`` (in a folder, the file of the tokenizer), the ``format``, and a
    ``description`` in words. The format is ``"huggingface"``, ``"tekken"``, ``"tiktoken"``,
    ``"sentencepiece"``, ``"gguf"``, ``"transformers"`` for a folder that only transformers can
    load, or ``"unsupported"``. Only the first 4 KiB are read; JSON is read whole, up to 256 MiB.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` does not exist or cannot be read.

    >>> from streamdec.tokenizers import detect_format
    >>> found = detect_format("path/to/model")
    >>> found.format, found.description, found.path.name
    ('huggingface', 'a tokenizer.json', 'tokenizer.json')
    """
    given = Path(os.fsdecode(path))
    try:
        return _detect(given)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TokenizerLoadError(f"{str(given)!r:.400}: {reason}") from error


def _detect(path: Path) -> Detected:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        return _detect_folder(path)
    # Opening a pipe or a device might never return.
    if not stat.S_ISREG(mode):
        return Detected(path, "unsupported", "neither a file nor a folder")
    return _detect_file(path)


def _detect_file(path: Path) -> Detected:
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head.removeprefix(BOM).lstrip()[:1] == b"{":
            head += file.read(MAX_FILE)
            signs = (said for sign, said in _IN_JSON.items() if re.search(sign, head))
        else:
            signs = (said for sign, said in _BEGINNINGS.items() if re.match(sign, head))
    unknown = f"a file of an unknown format that begins with {head[:16]!r} ({_ABOUT_PARTS})"
    said = next(signs, unknown)
    if said in _NAMES:
        return Detected(path, said, _NAMES[said])
    if path.name == "tokenizer.json":  # never only a part
        said = said.replace(_ABOUT_PARTS, "download it again, or save it with save_pretrained")
    return Detected(path, "unsupported", said)


# --- folders --------------------------------------------------------------------------------------


def _detect_folder(folder: Path) -> Detected:
    if (folder / "tokenizer.json").exists():
        return _detect(folder / "tokenizer.json")
    if (folder / "tokenizer.json").is_symlink():
        to = str((folder / "tokenizer.json").readlink())
        what = f"a tokenizer.json that is a link to nothing (to {to!r:.400})"
        return Detected(folder, "unsupported", what)
    names = sorted(entry.name for entry in folder.iterdir())
    worth = [n for n in names if _WORTH_LOOKING.fullmatch(n) and not _LATER_PART.search(n)]
    files = (folder / name for name in worth[:_MAX_FILES])
    looked_into = [_detect_file(path) for path in files if path.is_file()]
    for kind in _NAMES:
        found = [one for one in looked_into if one.format == kind]
        if len(found) == 1:
            return found[0]
        if found:
            several = _listed([one.path.name for one in found])
            description = f"a folder with several tokenizer files: {several}; give the path of one"
            return Detected(folder, "unsupported", description)
    for one in looked_into:
        if one.description in _IN_PLACE_OF_IT.values():
            return one
    if (made_by := _class_in(folder, names)) is not None:
        return Detected(folder, "transformers", f"a folder of the class {made_by}")
    return Detected(folder, "unsupported", _without_tokenizer(names))


def _class_in(folder: Path, names: list[str]) -> str | None:
    """Return the class of transformers that makes the tokenizer of a folder.

    None if the files do not say it, if code of the folder makes it, or if its vocabulary is not
    there. A generic class reads no vocabulary.
    """
    tokens = read_folder(folder)
    cls = tokens.chosen.cls
    has_vocabulary = any(map(_VOCABULARY.fullmatch, names))
    if cls is None or cls.name == GENERIC or not (cls.how == "python" or has_vocabulary):
        return None
    return str(tokens.config.get("tokenizer_class") or cls.name)


def _without_tokenizer(names: list[str]) -> str:
    """Describe a folder of these files without a tokenizer, and say what to do."""
    how = "download the tokenizer files"
    if any(map(_VOCABULARY.fullmatch, names)):
        how = (
            f'add the class that reads the vocabulary to {CONFIG}, such as "tokenizer_class": '
            '"BertTokenizer", or download the tokenizer.json'
        )
    code = next((n for n in names if n.startswith("tokenization") and n.endswith(".py")), None)
    if code is not None:
        how = (
            f"the tokenizer is made by the code in {code}, which streamdec does not run; use "
            "DecodeStream(AutoTokenizer.from_pretrained(folder, trust_remote_code=True))"
        )
    held = f"with {_listed(names)} but" if names else "with"
    return f"a folder {held} no tokenizer.json ({how})"


def _listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(ascii(name) if not name.isprintable() else name for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
