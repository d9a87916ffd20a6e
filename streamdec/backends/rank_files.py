"""Read rank files: the tokens of a byte-level BPE in the order of their merges.

In: the bytes of a file, with a line for each token: its bytes in base64, a space, its rank. Out:
the rank of each token. Errors name the file, and the line if one is wrong.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping
from pathlib import Path

from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers._common import MAX_ID
from streamdec.tokenizers.encodings import ENCODINGS, EncodingSpec, RankFile

_CACHES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")


def parse_ranks(
    content: bytes, name: str = "rank file", *, is_numbered: bool = False
) -> dict[bytes, int]:
    """Return the rank of each token, in the order of the file.

    With ``is_numbered`` the ranks in the file are ignored: a token has the number of distinct
    tokens before it.

    Raises :class:`TokenizerLoadError`, which gives ``name`` and the line, for a line that is not a
    token and a rank, and for a token or a rank that occurs twice.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if line:
            token, rank = _parse_line(line, name, number)
            if is_numbered:
                ranks.setdefault(token, len(ranks))
                continue
            if token in ranks:
                raise TokenizerLoadError(
                    f"{name}, line {number}: the token {token!r:.80} occurs twice"
                )
            ranks[token] = rank
    if len(set(ranks.values())) < len(ranks):
        raise TokenizerLoadError(f"{name}: two tokens have the same rank")
    if not ranks:
        raise TokenizerLoadError(f"{name}: the file has no ranks")
    return ranks


def _parse_line(line: bytes, name: str, number: int) -> tuple[bytes, int]:
    try:
        encoded, digits = line.split()
        token = a2b_base64(encoded, strict_mode=True)
        rank = int(digits) if digits.isdigit() and len(digits) <= 10 else -1
    except (Base64Error, ValueError):
        rank = -1
    if not 0 <= rank <= MAX_ID:
        expected = "a token in base64, a space and a rank"
        raise TokenizerLoadError(f"{name}, line {number}: {line!r:.80} is not {expected}")
    return token, rank


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def encodings_of(
    sha256: str, encodings: Mapping[str, EncodingSpec] = ENCODINGS
) -> list[EncodingSpec]:
    """Return the ``encodings`` whose rank file has this hash, the default one first."""
    return [spec for spec in encodings.values() if sha256 in {file.sha256 for file in spec.files}]


def cached_file(file: RankFile) -> Path | None:
    """Return the path of ``file`` in tiktoken's own cache; None if it is not there.

    The cache is the folder that ``TIKTOKEN_CACHE_DIR`` or ``DATA_GYM_CACHE_DIR`` names, else
    ``data-gym-cache`` among the temporary files. The name of a file in it is the SHA-1 of its
    address. Compare the SHA-256 of the content before using it.
    """
    default = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    folder = next((os.environ[name] for name in _CACHES if name in os.environ), default)
    if not folder or not file.url:
        return None
    path = Path(folder) / hashlib.sha1(file.url.encode(), usedforsecurity=False).hexdigest()
    return path if path.is_file() else None
