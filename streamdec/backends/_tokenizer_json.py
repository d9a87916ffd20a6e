"""Read a ``tokenizer.json``: its content, the tokenizer, and the changed ids.

``tokenizers`` makes the tokenizer, and may assign other ids than the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError, warn
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers._reading import read_bounded

_BOM = "\ufeff"
_LIST = re.compile(rb"\s*:\s*(\[)")
# None of these matches inside a vocabulary: a quote in a string follows a backslash, and the value
# of a token is a number.
_ADDED_TOKENS = b'"added_tokens"'
_VOCABULARY = re.compile(rb'"vocab"\s*:\s*[{\[]')
_MERGES = re.compile(rb'"merges"\s*:\s*\[')
_LAST_FIELD = re.compile(rb'"(?:byte_fallback|unk_token)"\s*:\s*["tfn]')
_LAST_FIELD_SIZE = 200
_MOST_LISTS = 4
"""The most lists of added tokens that are read. A file has one; objects in it may have others."""


def read_json(source: str | os.PathLike[str]) -> tuple[bytes, str, Path | None]:
    """Return the JSON in ``source``, its name, and its path (None for JSON text).

    Raises :class:`TokenizerLoadError`, which names the path.
    """
    if isinstance(source, str) and source.lstrip(_BOM + " \t\r\n").startswith("{"):
        return source.encode("utf-8", "surrogatepass"), "JSON text", None
    name = os.fsdecode(source)
    path = Path(name)
    try:
        path = path / "tokenizer.json" if path.is_dir() else path
    except OSError as error:
        raise TokenizerLoadError(f"{name!r}: {error.strerror}") from error
    return read_bounded(path), name, path


def parse(content: bytes, name: str) -> tuple[Tokenizer, list[str]]:
    """Return a tokenizer without truncation and padding, and its renumbered tokens.

    Warns about added tokens whose ids differ from those in the file, and returns them. Raises
    :class:`TokenizerLoadError` if it is malformed.
    """
    declared = list(_declared(content))
    try:
        tokenizer = guarded(Tokenizer.from_buffer, content.removeprefix(_BOM.encode()))
    except TokenizerLibraryError as error:
        raise TokenizerLoadError(f"{name}: not a tokenizer.json: {error.__cause__}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer, _with_other_ids(declared, tokenizer, name)


def switch_off_dropout(tokenizer: Tokenizer, name: str) -> bool:
    """Switch off the dropout of the model, with a warning; return whether it has one.

    Dropout is for training: a text has other ids each time.
    """
    model = tokenizer.model
    if not getattr(model, "dropout", None):
        return False
    model.dropout = None
    warn(f"{name}: its dropout, which makes the ids of a text random, is switched off")
    return True


def _with_other_ids(
    declared: Iterable[dict[str, Any]], tokenizer: Tokenizer, name: str
) -> list[str]:
    """Warn about added tokens whose ids differ from those in the file; return them.

    The library silently assigns the next free id instead of the declared one.
    """
    others = {
        text: f"{text!r:.60} is {tokenizer.token_to_id(text)}, not {wanted}"
        for text, wanted in ((token["content"], token.get("id")) for token in declared)
        if tokenizer.token_to_id(text) != wanted
    }
    if others:
        shown = "; ".join(list(others.values())[:3]) + ("; …" if len(others) > 3 else "")
        message = f"{name}: {len(others)} added tokens have other ids than the file says: {shown}"
        warn(message)
    return list(others)


def _declared(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the added tokens of a tokenizer.json, without parsing the vocabulary."""
    decode = json.JSONDecoder().raw_decode
    for start in islice(_lists_of_added(content), _MOST_LISTS):
        end = content.find(b'"model"', start)
        text = content[start : end if end > 0 else None].decode("utf-8", "replace")
        try:
            tokens = decode(text)[0]
        except (ValueError, RecursionError):  # a "model" among its tokens
            try:
                tokens = decode(content[start:].decode("utf-8", "replace"))[0]
            except (ValueError, RecursionError):  # the library rejects it
                return
        for token in tokens:
            # In other places a key of this name may have any value.
            if isinstance(token, dict) and isinstance(token.get("content"), str):
                yield token


def _lists_of_added(content: bytes) -> Iterator[int]:
    """Yield where each list named added_tokens begins."""
    end = 0
    # Takes half the time of a regex that finds both the name and the list.
    while (found := content.find(_ADDED_TOKENS, end)) >= 0:
        end = found + len(_ADDED_TOKENS)
        if value := _LIST.match(content, end):
            yield value.start(1)


def vocabulary_hash(content: bytes, size: int) -> str:
    """Return 16 hexadecimal digits over the vocabulary as a tokenizer.json spells it.

    Args:
        content: The file.
        size: The number of tokens of its model.

    The compact and the indented form of a file have the same digits. Another order of the tokens,
    or another way to escape characters, gives other digits. This takes 1 to 2 % of the time of
    loading; parsing the vocabulary would take 15 %.
    """
    found = _VOCABULARY.search(content)
    start = found.end() if found else 0
    tail = max(start, len(content) - _LAST_FIELD_SIZE)
    after = _MERGES.search(content, start) or _LAST_FIELD.search(content, tail)
    vocabulary = content[start : after.start() if after else None].rstrip(b"}], \n")
    if b"\n" in vocabulary:
        compact = vocabulary.translate(None, b" \n")
        indent = len(vocabulary) - len(vocabulary.lstrip(b" \n"))
        # The exact amount of white space that indents an object or, as the library writes it, an
        # array of pairs. Further white space may belong to tokens and is kept.
        if len(vocabulary) - len(compact) in ((indent + 1) * size, 32 * size - 7):
            vocabulary = compact
    return hashlib.sha256(vocabulary).hexdigest()[:16]
