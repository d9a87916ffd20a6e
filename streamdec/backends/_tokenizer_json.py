"""Read a ``tokenizer.json``: the tokenizer, and the changed ids."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError, warn
from streamdec.folders.folder_tokens import FolderTokens
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers.folder_files import read_bounded

_BOM = "\ufeff"
_ADDED_TOKENS = re.compile(rb'"added_tokens"\s*:\s*(?=\[)')
"""It does not match inside a vocabulary, where the value of a token is a number."""
_MOST_LISTS = 4
"""The most lists of added tokens that are read: each costs as much as the rest of the file."""


@dataclass(frozen=True, slots=True)
class Source:
    """A tokenizer of the library, and the file that it was made from."""

    tokenizer: Tokenizer
    sha256: str
    """The SHA-256 of the file, in hexadecimal."""
    name: str
    """Its path, its folder, or a phrase."""
    path: Path | None = None
    """The file; None for JSON text."""
    applies: bool = False
    """Whether the other files in the folder are applied."""
    content: bytes = b""
    """The JSON; empty for a file of another format."""
    tokens: FolderTokens | None = None
    """The tokens to add, for a file of another format."""


def read_source(source: str | os.PathLike[str], applies: bool | None) -> Source:
    """Return the tokenizer of the JSON in ``source``: a path, a folder, or the text itself.

    ``applies`` is ``apply_tokenizer_config``. Raises :class:`TokenizerLoadError`, which names the
    path, and TypeError if ``applies`` is true for JSON text.
    """
    path, does_apply, name = None, False, "JSON text"
    if isinstance(source, str) and source.lstrip(_BOM + " \t\r\n").startswith("{"):
        if applies:
            raise TypeError("apply_tokenizer_config=True needs a path, got JSON text")
        content = source.encode("utf-8", "surrogatepass")
    else:
        name = os.fsdecode(source)
        path = Path(name)
        try:
            is_folder = path.is_dir()
        except OSError as error:
            raise TokenizerLoadError(f"{name!r}: {error.strerror}") from error
        if is_folder:
            path /= "tokenizer.json"
        does_apply = is_folder if applies is None else applies
        content = read_bounded(path)
    tokenizer = parse(content, name if path is None else repr(str(path)))
    digest = hashlib.sha256(content).hexdigest()
    return Source(tokenizer, digest, name, path, does_apply, content)


def parse(content: bytes, name: str, *, refuses: bool = False) -> Tokenizer:
    """Return a tokenizer without truncation, padding and dropout.

    Warns about added tokens whose ids differ from those in the file, and about dropout, which is
    for training: a text has other ids each time. Raises :class:`TokenizerLoadError` if it is
    malformed, and with ``refuses`` also for such tokens.
    """
    try:
        tokenizer = guarded(Tokenizer.from_buffer, content.removeprefix(_BOM.encode()))
    except TokenizerLibraryError as error:
        raise TokenizerLoadError(f"{name}: not a tokenizer.json: {error.__cause__}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if others := _other_ids(_declared(content), tokenizer):
        if refuses:
            raise TokenizerLoadError(f"{name}: {others}")
        warn(f"{name}: {others}")
    model = tokenizer.model
    if getattr(model, "dropout", None):
        model.dropout = None
        warn(f"{name}: its dropout, which makes the ids of a text random, is switched off")
    return tokenizer


def _other_ids(declared: Iterable[dict[str, Any]], tokenizer: Tokenizer) -> str:
    """Return a message about added tokens whose ids are not those of the file; "" without.

    The library silently assigns the next free id instead of the declared one.
    """
    wanted = {token["content"]: token.get("id") for token in declared}
    others = [text for text, i in wanted.items() if tokenizer.token_to_id(text) != i]
    changes = (f"{t!r:.60} is {tokenizer.token_to_id(t)}, not {wanted[t]}" for t in others[:3])
    shown = "; ".join(changes) + ("; …" if len(others) > 3 else "")
    what = f"{len(others)} added tokens have other ids than the file says"
    return f"{what}: {shown}" if others else ""


def _declared(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the added tokens of a tokenizer.json, without parsing the vocabulary."""
    decode = json.JSONDecoder().raw_decode
    for found in islice(_ADDED_TOKENS.finditer(content), _MOST_LISTS):
        try:
            tokens = decode(content[found.end() :].decode("utf-8", "replace"))[0]
        except (ValueError, RecursionError):  # the library rejects it
            return
        for token in tokens:
            # In other places a key of this name may have any value.
            if isinstance(token, dict) and isinstance(token.get("content"), str):
                yield token
