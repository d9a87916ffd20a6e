"""Token ids out of a file: bytes in, numbered rows or words out, as they arrive.

Two formats: JSONL, where each line is a list of ids or an object with ``token_ids``; and one stream
of ids, integers with white space or commas between. Memory: one line of JSONL, or one chunk of a
stream of ids.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any, Literal

__all__ = [
    "BadInputError",
    "InputFormat",
    "detect_format",
    "keys_of",
    "kind_of",
    "numbered_lines",
    "numbered_words",
    "parse_id",
    "parse_json",
    "parse_row",
    "without_bom",
]

InputFormat = Literal["jsonl", "ids"]
"""What a file of token ids holds."""

LONGEST_WORD = 64
"""Bytes kept of a word that goes on; an id has ten digits, so the rest would not make it one."""

MOST_KEYS = 12
"""Keys of an object that a complaint names."""


class BadInputError(ValueError):
    """A line or word that is not what it should be; the message says what is wrong with it."""


def without_bom(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield ``chunks`` without a UTF-8 byte order mark in front, even if it comes in parts."""
    rest = iter(chunks)
    head = b""
    for chunk in rest:
        head += chunk
        if len(head) >= len(codecs.BOM_UTF8) or not codecs.BOM_UTF8.startswith(head):
            break
    yield head.removeprefix(codecs.BOM_UTF8)
    yield from rest


def detect_format(chunks: Iterable[bytes]) -> tuple[InputFormat, Iterator[bytes]]:
    """The format that the first byte of the first line that is not blank shows, and all chunks."""
    rest = iter(chunks)
    seen = []
    for chunk in rest:
        seen.append(chunk)
        if first := chunk.lstrip()[:1]:
            return "jsonl" if first in b"[{" else "ids", chain(seen, rest)
    return "ids", iter(seen)


def numbered_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number from 1, without its newline; blank lines only count."""
    number, parts = 1, []
    for chunk in chunks:
        *ended, tail = chunk.split(b"\n")
        for end in ended:
            parts.append(end)
            yield from _unless_blank(number, b"".join(parts))
            number, parts = number + 1, []
        parts.append(tail)
    yield from _unless_blank(number, b"".join(parts))


def _unless_blank(number: int, line: bytes) -> Iterator[tuple[int, bytes]]:
    if line.strip():
        yield number, line


def numbered_words(chunks: Iterable[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the words of a line, or of as much of it as has arrived, with the line's number.

    A word is whole when a separator or the end follows. Of a word longer than ``LONGEST_WORD`` the
    end may be missing.
    """
    number, unfinished = 1, b""
    for chunk in chunks:
        *lines, tail = (unfinished + chunk).split(b"\n")
        for line in lines:
            yield from _unless_empty(number, _words(line))
            number += 1
        *words, unfinished = re.split(rb"[\s,]", tail)
        yield from _unless_empty(number, [word for word in words if word])
        unfinished = unfinished[:LONGEST_WORD]
    yield from _unless_empty(number, _words(unfinished))


def _words(line: bytes) -> list[bytes]:
    return line.replace(b",", b" ").split()


def _unless_empty(number: int, words: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    if words:
        yield number, words


def parse_id(word: bytes) -> int:
    """The integer, of any size, that ``word`` spells; BadInputError if it spells none."""
    if not re.fullmatch(rb"-?[0-9]{1,%d}" % LONGEST_WORD, word):
        raise BadInputError(f"{_excerpt(word)} is not a token id; expected an integer such as 42")
    return int(word)


def parse_row(line: bytes) -> tuple[list[Any], dict[str, Any]]:
    """The ids of a line of JSONL, whatever they are, and the other fields beside them.

    BadInputError if the line is not UTF-8, not JSON, or has no list of ids.
    """
    row = parse_json(line)
    if isinstance(row, list):
        return row, {}
    if not isinstance(row, dict):
        raise BadInputError(f"expected a list of token ids or an object, got {kind_of(row)}")
    if "token_ids" not in row:
        raise BadInputError(f"the object has no 'token_ids'; its keys: {keys_of(row)}")
    token_ids = row.pop("token_ids")
    if not isinstance(token_ids, list):
        raise BadInputError(f"'token_ids' must be a list of integers, got {kind_of(token_ids)}")
    return token_ids, row


def parse_json(line: bytes) -> Any:
    """The value of a line of JSON. BadInputError if it is not UTF-8 or not JSON."""
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        byte = line[error.start]
        raise BadInputError(
            f"not UTF-8: byte 0x{byte:02x} at position {error.start + 1}"
        ) from error
    except json.JSONDecodeError as error:
        raise BadInputError(f"not JSON: {error.msg} (column {error.colno})") from error
    except (ValueError, RecursionError) as error:  # an integer of 4,301 digits; 1,000 brackets
        raise BadInputError(f"not JSON that can be read: {error}") from error


def kind_of(value: object) -> str:
    """The JSON name of the type of ``value``."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def keys_of(row: dict[str, Any]) -> str:
    """The keys of ``row``, to be told on a terminal: not all of many, and no control characters."""
    named = [_named(key) for key in islice(row, MOST_KEYS)]
    more = len(row) - len(named)
    return ", ".join([*named, *([f"and {more:,} more"] if more else [])]) or "none"


def _named(key: str) -> str:
    if len(key) > LONGEST_WORD // 2:
        return repr(key[: LONGEST_WORD // 2]) + "…"
    return key if key.isprintable() else repr(key)


def _excerpt(word: bytes) -> str:
    text = word[: LONGEST_WORD // 2].decode(errors="backslashreplace")
    return repr(text) + ("…" if len(word) > LONGEST_WORD // 2 else "")
