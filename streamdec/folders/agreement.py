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
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from streamdec.errors import TokenizerLoadError, warn
from streamdec.folders.folder_tokens import DECLARED, FolderTokens, read_folder
from streamdec.folders.tokenizer_config import ADDED_TOKENS, CONFIG, content_of, object_or_empty
from streamdec.protocols import Tokenizer
from streamdec.tokenizers._common import MAX_ID
from streamdec.tokenizers.folder_files import read_bounded

_OF_MODEL = ("config.json", "generation_config.json")
_COMPARED = ("bos_token", "eos_token", "pad_token")
_MARKER = re.compile(r"[<\[].*[>\]]", re.DOTALL)
"""The spelling of tokens that are not text."""
_SHOWN = 3


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

    def differing(self, file: str, ids: Mapping[str, int]) -> Iterator[str]:
        """Yield how the ids of texts in ``file`` differ."""
        for text, token_id in ids.items():
            if self.text_of(token_id) != text and self.id_of(text) != token_id:
                yield self.contradiction(file, text, token_id)

    def contradiction(self, file: str, text: str, token_id: int) -> str:
        """Say what ``file`` has for ``text``, and what the table has instead."""
        other, there = self.id_of(text), self.text_of(token_id)
        has = f"{self.file} has {'no such token' if other is None else f'id {other} for it'}"
        if there is not None:
            has += f", and {there!r:.60} at {token_id}"
        return f"{file} has id {token_id} for {text!r:.60}, but {has}"


def check_agreement(folder: Path, tokens: FolderTokens, table: Table, *, refused: str = "") -> None:
    """Warn if files in ``folder`` contradict the ids of ``table``.

    Malformed files declare nothing: other readers report those that are used. If ``refused`` says
    why the declared ids would be used, raises :class:`~streamdec.TokenizerLoadError` instead.
    """
    vocab = _ids(object_or_empty(folder, "vocab.json"))
    whole = {"vocab.json": vocab, "vocab.txt": _by_line(folder / "vocab.txt", table)}
    merges = _lines(folder / "merges.txt")
    if not table.is_spelled_alike:
        # Only ASCII is spelled alike everywhere: in a byte-level vocab.json "é" is a byte.
        merges = []
        for file, ids in whole.items():
            shared = {t: i for t, i in ids.items() if t.isascii() and table.id_of(t) is not None}
            whole[file] = shared
    differences = chain(
        table.differing(CONFIG, _declared(tokens.config)),
        table.differing(ADDED_TOKENS, _ids(object_or_empty(folder, ADDED_TOKENS))),
        *(table.differing(file, ids) for file, ids in whole.items()),
        _of_merges(merges, vocab, table),
        *(_of_roles(folder, file, tokens.roles, table) for file in _OF_MODEL),
    )
    found = [*differences]
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    listed = "; ".join(found[:_SHOWN]) + more
    if found and refused:
        raise TokenizerLoadError(f"{str(folder)!r}: {refused} contradict each other: {listed}")
    if found:
        what = f"the ids here are those of {table.file}, and {len(found):,} in other files"
        warn(f"{str(folder)!r}: {what} contradict it: {listed}")


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
        tokens = read_folder(folder)
    except TokenizerLoadError as error:
        if is_error:
            raise
        warn(f"{error}; its tokens were not compared")
        return
    check_agreement(folder, tokens, table, refused="files" if is_error else "")


def _declared(config: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of ``added_tokens_decoder`` by text."""
    by_id = config.get(DECLARED) or {}
    return {text: int(i) for i, token in by_id.items() if (text := content_of(token)) is not None}


def _ids(data: Mapping[str, Any]) -> Mapping[str, int]:
    """Return a vocabulary; empty if the values are not ids.

    In some files each language has a vocabulary of its own.
    """
    return data if all(type(value) is int for value in data.values()) else {}


def _by_line(path: Path, table: Table) -> dict[str, int]:
    """Return the ids in a ``vocab.txt``; none if its lines are not tokens.

    A line may also be a word and its count, or a Python literal.
    """
    by_line = {line.rstrip(): i for i, line in enumerate(_lines(path))}  # as the library does
    known = sum(table.id_of(text) is not None for text in by_line)
    return by_line if 2 * known >= len(by_line) else {}


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        return []
    try:
        return read_bounded(path).decode().replace("\r\n", "\n").removesuffix("\n").split("\n")
    except (TokenizerLoadError, UnicodeDecodeError):
        return []


def _of_merges(lines: list[str], vocab: Mapping[str, int], table: Table) -> Iterator[str]:
    for line in lines:
        left, space, right = line.partition(" ")
        text = left + right.removeprefix("##")  # the sign of a later part, which merging removes
        if not space or " " in right or line.startswith("#version"):
            continue
        spelled = {text, left + right}
        if not any(each in vocab or table.id_of(each) is not None for each in spelled):
            yield f"merges.txt makes {text!r:.60}, but {table.file} has no such token"


def _of_roles(folder: Path, file: str, roles: Mapping[str, str], table: Table) -> Iterator[str]:
    """Yield the ids of roles in a model's configuration that cannot be meant.

    A configuration may name another special token than ``tokenizer_config.json``, and often does.
    An ordinary token, or an id that the table does not have, shows that it is of another table.
    """
    data = object_or_empty(folder, file)
    for role in _COMPARED:
        text, given = roles.get(role), data.get(f"{role}_id")
        ids = [i for i in (given if isinstance(given, list) else [given]) if type(i) is int]
        expected = None if text is None else table.id_of(text)
        if text is None or expected is None or not ids or expected in ids:
            continue
        if not any(i in table.added or _MARKER.fullmatch(table.text_of(i) or "") for i in ids):
            yield f"{table.contradiction(file, text, ids[0])} ({role} in {CONFIG})"
