"""What every backend does alike: call its library safely, and name what it decodes.

In: a library's callables; a table of pieces. Out: results or a
:class:`~streamdec.errors.TokenizerLibraryError`; a fingerprint.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass

from streamdec.backends._guard import guarded

__all__ = ["canonical", "fingerprint_of", "guarded"]


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
