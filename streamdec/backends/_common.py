"""What every backend does alike: call its library safely, and name what it decodes.

In: a library's callables; token ids; a table of pieces. Out: results or a
:class:`~streamdec.errors.TokenizerLibraryError`; ids to try; a fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import islice

from streamdec.backends._guard import guarded
from streamdec.errors import TokenizerLibraryError

__all__ = ["MAX_ID", "canonical", "checked_ids", "fingerprint_of", "guarded", "sample_of"]

MAX_ID = 2**24 - 1
"""The highest id that a rank file or what stands beside it may have. Every id up to the highest is
asked for its bytes once; no vocabulary has so many."""
_SPREAD_IN_SAMPLE = 128
_SPECIAL_IN_SAMPLE = 64


def checked_ids(token_ids: Iterable[int]) -> array[int]:
    """``token_ids``, if all of them are ints from 0 to 2**32 - 1.

    Raises :class:`TokenizerLibraryError` for others, as ``tokenizers`` and tiktoken refuse them.
    """
    try:
        return array("I", list(token_ids))
    except (TypeError, ValueError, OverflowError) as error:
        told = f"decode: {type(error).__name__}: ids are ints from 0 to 2**32 - 1: {error}"
        raise TokenizerLibraryError(told) from error


def sample_of(special: Iterable[int], single_bytes: Iterable[int], size: int) -> list[int]:
    """Ids to verify a table with: some special ones, all bytes, some of all below ``size``."""
    spread = range(0, size, max(size // _SPREAD_IN_SAMPLE, 1))
    return sorted({*islice(special, _SPECIAL_IN_SAMPLE), *single_bytes, *spread})


def fingerprint_of(
    rules: object,
    ids: Sequence[int],
    pieces: Iterable[str] | Iterable[bytes],
    skipped: Iterable[int],
) -> str:
    """16 hexadecimal digits of SHA-256 over ``rules``, the table ``ids`` → ``pieces``, ``skipped``.

    ``ids`` ascend and ``pieces`` are in their order. Lengths and contents are hashed apart, which
    tells every table from every other and needs no loop in Python.
    """
    data = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
    digest = hashlib.sha256()
    for part in (canonical(rules), list(ids), list(map(len, data)), sorted(skipped)):
        digest.update(json.dumps(part, sort_keys=True).encode() + b"\n")
    digest.update(b"".join(data))
    return digest.hexdigest()[:16]


def canonical(value: object) -> object:
    """``value`` as JSON data; dataclasses by name and by the fields that are not at their default.

    A field added later, with a default, leaves old fingerprints, and so old snapshots, as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        told = {f.name: canonical(getattr(value, f.name)) for f in _told_fields(value)}
        return [type(value).__name__, told]
    if isinstance(value, tuple):
        return [canonical(item) for item in value]
    return value


def _told_fields(value: object) -> list[Field[object]]:
    assert is_dataclass(value)
    return [f for f in fields(value) if f.default is MISSING or getattr(value, f.name) != f.default]
