"""Helpers of all tokenizers: library calls, ids, bytes, samples, fingerprints."""

from __future__ import annotations

import hashlib
import json
import marshal
import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from streamdec.core.rules.compile import rule_for
from streamdec.core.token_ids import AT_INDEX, as_sequence, check_token_id
from streamdec.errors import EncodeError, TokenizerLibraryError
from streamdec.protocols import ByteLevel, TextRules

MAX_ID = 2**24 - 1
"""The highest id that a rank file or a file beside it may have. The bytes of each id up to the
highest are read once; no vocabulary is larger."""
_SPREAD_IN_SAMPLE = 128
_SPECIAL_IN_SAMPLE = 64
NO_TEXT = re.compile("[\udc80-\udcff]")
"""Invalid UTF-8 as ``surrogateescape`` decodes it."""

P = ParamSpec("P")
T = TypeVar("T")


def guarded(call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Return ``call(*args, **kwargs)``. Costs 0.1 µs.

    Raises :class:`TokenizerLibraryError` for any error inside, with the original as ``__cause__``.
    """
    try:
        return call(*args, **kwargs)
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    # A Rust panic is a PanicException, which derives from BaseException.
    except BaseException as error:
        name = getattr(call, "__qualname__", type(call).__name__)
        raise TokenizerLibraryError(f"{name}: {type(error).__name__}: {error}") from error


def state_of(part: Any) -> Any:
    """Return a part of a tokenizer of ``tokenizers`` as JSON data; None for no part.

    Raises TokenizerLibraryError for a part that is written in Python.
    """
    # Not to_str, which some decoders of the library do not have.
    return None if part is None else json.loads(guarded(part.__getstate__))


def checked_ids(token_ids: Iterable[int]) -> array[int]:
    """Return ``token_ids`` as an array of unsigned 32-bit integers.

    Raises :class:`TokenIdError` or TypeError for values that ``tokenizers`` and tiktoken also
    reject.
    """
    if hasattr(token_ids, "__next__"):  # an iterator can be read only once
        token_ids = list(token_ids)
    with suppress(TypeError, ValueError, OverflowError):
        return array("I", list(token_ids))
    return array("I", listed_ids(token_ids))


def listed_ids(token_ids: Iterable[int]) -> list[int]:
    """Return ``token_ids`` as a list; call it after a library has rejected them.

    Raises :class:`TokenIdError` for the first bad id, and TypeError if they are not a list of ids.
    """
    try:
        ids = enumerate(as_sequence(token_ids))
        return [check_token_id(token_id, place, what=AT_INDEX) for place, token_id in ids]
    except TypeError as error:
        raise error from None  # hides the error of the library


def bytes_of(rules: TextRules, piece: str | bytes) -> bytes:
    """Return the bytes of ``piece`` in a text, with other tokens before and after it."""
    if isinstance(piece, bytes):
        return piece
    rule = rule_for(rules.rule, "exact")
    element = rule.prepare(piece)
    data = rule.inside(element)
    if not rules.replaces or isinstance(element, int) or isinstance(rules.rule, ByteLevel):
        return data
    text = data.decode()
    for replace in rules.replaces:
        text = text.replace(replace.pattern, replace.content)
    return text.encode()


def sample_of(special: Sequence[int], single_bytes: Iterable[int], size: int) -> list[int]:
    """Return ids to verify a table with.

    These are special ids, the ids of all bytes, and ids below ``size``: a spread of each.
    """
    spread = spread_of(range(size), _SPREAD_IN_SAMPLE)
    return sorted({*spread_of(special, _SPECIAL_IN_SAMPLE), *single_bytes, *spread})


def spread_of(ids: Sequence[int], count: int) -> list[int]:
    """Return up to ``count`` of ``ids``, evenly spread, with the first and the last."""
    if len(ids) <= count:
        return list(ids)
    return [ids[i * (len(ids) - 1) // (count - 1)] for i in range(count)]


def any_of(names: Iterable[str]) -> re.Pattern[str] | None:
    """Return a regex with one group that matches any of ``names``, the longest first.

    Empty names are left out. None without names.
    """
    found = sorted(filter(None, names), key=len, reverse=True)
    return re.compile(f"({'|'.join(map(re.escape, found))})") if found else None


def refuse_special(text: str, special: re.Pattern[str] | None) -> None:
    """Raise EncodeError if ``text`` spells a token that ``special`` matches."""
    if special is not None and (found := special.search(text)):
        raise EncodeError(
            f"the text has the special token {found[0]!r} at index {found.start()}, which is "
            "forbidden; encode it with special='text' or special='parse'"
        )


def readable(data: bytes) -> str:
    """Return the text of ``data``, with ``<0xFF>`` for an invalid byte."""
    text = data.decode("utf-8", "surrogateescape")
    return NO_TEXT.sub(lambda escaped: f"<0x{ord(escaped[0]) - 0xDC00:02X}>", text)


def fingerprint_of(rules: object, *table: object) -> str:
    """Return 16 hexadecimal digits of SHA-256 over the rules and the token table.

    Args:
        rules: Dataclasses or JSON data, which are identified by their ``repr``.
        table: Ints, strings, bytes, and lists, tuples and dicts of them. The order counts.

    Different arguments have different digits. Hashing 30,000 tokens takes 2 ms.
    """
    # Version 2 writes the length of each string and no references, so equal tables have equal
    # bytes in every process.
    data = marshal.dumps([repr(rules), *table], 2)
    return hashlib.sha256(data).hexdigest()[:16]
