"""Compare the ids that a folder's files declare with the loaded tokenizer.

In: a folder, what its files say about tokens, and the loaded table. Out: a phrase for each id that
differs. Files declare ids in four ways:

- by text: ``vocab.json``, ``added_tokens.json``, ``added_tokens_decoder`` of
  ``tokenizer_config.json``;
- by line: ``vocab.txt``;
- by role: ``config.json`` and ``generation_config.json``, which are compared with the token that
  ``tokenizer_config.json`` names;
- by merging: each line of ``merges.txt`` makes a token, which must be in the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from streamdec.errors import TokenizerLoadError, warn
from streamdec.folders.declared_tokens import DECLARED
from streamdec.folders.folder_tokens import FolderTokens, read_folder
from streamdec.folders.tokenizer_config import ADDED_TOKENS, CONFIG, content_of, read_object
from streamdec.protocols import Tokenizer
from streamdec.tokenizers._common import MAX_ID
from streamdec.tokenizers.folder_files import read_bounded

_OF_MODEL = ("config.json", "generation_config.json")
_COMPARED = ("bos_token", "eos_token", "pad_token")
_MARKER = re.compile(r"[<\[].*[>\]]", re.DOTALL)
"""The spelling of tokens that are not text."""
_SHOWN = 3
_MOST = 1_000


class Table(NamedTuple):
    """The loaded tokenizer, as far as it is compared."""

    file: str
    """The name of its file, for messages."""
    ids: Callable[[str], int | None]
    texts: Callable[[int], str | None]
    added: Collection[int]
    """The ids of added or special tokens."""
    is_spelled_alike: bool = True
    """Whether it spells its tokens as a ``vocab.json`` does."""

    def id_of(self, text: str) -> int | None:
        """Return the id of ``text``; None if there is no such token."""
        try:
            return self.ids(text)
        except UnicodeEncodeError:  # a lone surrogate, which JSON can write and no token can have
            return None

    def text_of(self, token_id: int) -> str | None:
        """Return the text of ``token_id``; None if there is no such token."""
        return self.texts(token_id) if 0 <= token_id <= MAX_ID else None

    def instead(self, text: str, token_id: int) -> str:
        """Return what the table has for ``text`` and for ``token_id``, in words."""
        other, there = self.id_of(text), self.text_of(token_id)
        has = f"{self.file} has {'no such token' if other is None else f'id {other} for it'}"
        return has if there is None else f"{has}, and {there!r:.60} at {token_id}"


def contradictions(folder: Path, tokens: FolderTokens, table: Table) -> list[str]:
    """Return a phrase for each id that ``table`` contradicts, at most 1,000.

    Malformed files declare nothing: other readers report those that are used.
    """
    found = chain(
        _of_texts(CONFIG, _declared(tokens.config), table),
        _of_texts(ADDED_TOKENS, _ids(_object(folder, ADDED_TOKENS)), table),
        _of_vocabulary(folder, table),
        *(_of_roles(file, _object(folder, file), tokens.roles, table) for file in _OF_MODEL),
    )
    return [*islice(found, _MOST)]


def listed(found: list[str]) -> str:
    """Return the first of ``found`` in words, for a message."""
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    return "; ".join(found[:_SHOWN]) + more


def warn_of(found: list[str], folder: Path, file: str) -> None:
    """Warn of what :func:`contradictions` found; ``file`` has the ids that are used."""
    if found:
        what = f"the ids here are those of {file}, and {len(found):,} in other files contradict it"
        warn(f"{str(folder)!r}: {what}: {listed(found)}")


def compare(tokenizer: Tokenizer, path: Path, *, is_error: bool) -> None:
    """Warn if other files in the folder contradict the ids of ``tokenizer``.

    ``path`` is its file or folder, which has no ``tokenizer.json``. With ``is_error``, which is for
    rank files, raise :class:`~streamdec.TokenizerLoadError`: the code that belongs to such a file
    would use the declared ids.
    """
    folder, file = (path, "transformers") if path.is_dir() else (path.parent, path.name)
    ids = map(tokenizer.token_to_id, tokenizer.special_tokens.all)
    special = {i for i in ids if i is not None}
    table = Table(file, tokenizer.token_to_id, tokenizer.id_to_token, special, False)
    try:
        found = contradictions(folder, read_folder(folder), table)
    except TokenizerLoadError as error:
        if is_error:
            raise
        warn(f"{error}; its tokens were not compared")
        return
    if found and is_error:
        raise TokenizerLoadError(f"{str(folder)!r}: files contradict each other: {listed(found)}")
    warn_of(found, folder, file)


def _declared(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of ``added_tokens_decoder`` by text."""
    by_id = config.get(DECLARED) or {}
    return {text: int(i) for i, token in by_id.items() if (text := content_of(token)) is not None}


def _differing(ids: Mapping[str, int], table: Table) -> Iterator[tuple[str, int]]:
    for text, token_id in ids.items():
        if table.text_of(token_id) != text and table.id_of(text) != token_id:
            yield text, token_id


def _of_texts(file: str, ids: Mapping[str, int], table: Table) -> Iterator[str]:
    for text, token_id in _differing(ids, table):
        yield _told(file, text, token_id, table)


def _told(file: str, text: str, token_id: int, table: Table) -> str:
    """Say how an id in ``file`` differs."""
    return f"{file} has id {token_id} for {text!r:.60}, but {table.instead(text, token_id)}"


def _of_vocabulary(folder: Path, table: Table) -> Iterator[str]:
    """Yield what the files of a whole vocabulary contradict.

    Where tokens are spelled in another way, only texts that the table has are compared.
    """
    vocab = _ids(_object(folder, "vocab.json"))
    by_line = {line: i for i, line in enumerate(_lines(folder / "vocab.txt"))}
    known = sum(table.id_of(text) is not None for text in by_line)
    if 2 * known < len(by_line):  # a line is not a token: a word and its count, or a Python literal
        by_line = {}
    for file, ids in (("vocab.json", vocab), ("vocab.txt", by_line)):
        for text, token_id in _differing(ids, table):
            # Only ASCII is spelled alike everywhere: in a byte-level vocab.json "é" is a byte.
            is_known = text.isascii() and table.id_of(text) is not None
            if table.is_spelled_alike or is_known:
                yield _told(file, text, token_id, table)
    if table.is_spelled_alike:
        yield from _of_merges(_lines(folder / "merges.txt"), vocab, table)


def _of_merges(lines: Iterable[str], vocab: Mapping[str, int], table: Table) -> Iterator[str]:
    for line in lines:
        left, space, right = line.partition(" ")
        text = left + right.removeprefix("##")  # the sign of a later part, which merging removes
        if not space or " " in right or line.startswith("#version"):
            continue
        spelled = {text, left + right}
        if not any(each in vocab or table.id_of(each) is not None for each in spelled):
            yield f"merges.txt makes {text!r:.60}, but {table.file} has no such token"


def _of_roles(
    file: str, data: Mapping[str, Any], roles: Mapping[str, str], table: Table
) -> Iterator[str]:
    """Yield the ids of roles in a model's configuration that cannot be meant.

    A configuration may name another special token than ``tokenizer_config.json``, and often does.
    An ordinary token, or an id that the table does not have, shows that it is of another table.
    """
    for role in _COMPARED:
        text, given = roles.get(role), data.get(f"{role}_id")
        ids = [i for i in (given if isinstance(given, list) else [given]) if type(i) is int]
        expected = None if text is None else table.id_of(text)
        if text is None or expected is None or not ids or expected in ids:
            continue
        if not any(i in table.added or _MARKER.fullmatch(table.text_of(i) or "") for i in ids):
            yield f"{_told(file, text, ids[0], table)} ({role} in {CONFIG})"


def _ids(data: Mapping[str, Any]) -> Mapping[str, int]:
    """Return a vocabulary; empty if the values are not ids.

    In some files each language has a vocabulary of its own.
    """
    return data if all(type(value) is int for value in data.values()) else {}


def _object(folder: Path, name: str) -> Mapping[str, Any]:
    try:
        return read_object(folder, name) or {}
    except TokenizerLoadError:
        return {}


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    try:
        return read_bounded(path).decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except (TokenizerLoadError, UnicodeDecodeError):
        return []
