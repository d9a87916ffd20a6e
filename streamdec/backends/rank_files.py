"""Rank files: their tokens, which encoding they have, and where they are.

In: the bytes of a file, with a line for each token: its bytes in base64, a space, its rank; or the
name of an encoding. Out: the rank of each token; the :class:`EncodingSpec` with all special tokens;
the content of a file in tiktoken's cache. Errors name the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError, warn
from streamdec.folders.folder_tokens import FolderTokens
from streamdec.tokenizers._common import MAX_ID, guarded
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.encodings import ENCODINGS, EncodingSpec, RankFile
from streamdec.tokenizers.folder_files import read_bounded

_CACHES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
_MAX_CHARS = 400_000
_MAX_RUN = 25_000
_RUN = re.compile(r"\s++|\S++")


def parse_ranks(
    content: bytes, name: str = "rank file", *, is_numbered: bool = False
) -> dict[bytes, int]:
    """Return the rank of each token, in the order of the file.

    With ``is_numbered`` the ranks in the file are ignored: a token has the number of distinct
    tokens before it.

    Raises :class:`TokenizerLoadError`, which gives ``name``, for a line that is not a token and a
    rank, and for a token or a rank that occurs twice.
    """
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line:
            continue
        token, rank = _parse_line(line, name, number)
        if is_numbered:
            rank = ranks.get(token, len(ranks))
        elif token in ranks:
            raise TokenizerLoadError(f"{name}, line {number}: the token {token!r:.80} occurs twice")
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
    except ValueError:
        rank = -1
    if not 0 <= rank <= MAX_ID:
        expected = "a token in base64, a space and a rank"
        raise TokenizerLoadError(f"{name}, line {number}: {line!r:.80} is not {expected}")
    return token, rank


# --- the encoding of a rank file ------------------------------------------------------------------


def spec_of(
    sha256: str,
    name: str,
    encoding: str | EncodingSpec | None = None,
    declared: FolderTokens | None = None,
) -> EncodingSpec:
    """Return the encoding of the rank file with this ``sha256``.

    ``name`` is for messages. Warns if code of the folder may add tokens or split texts in another
    way. Raises :class:`~streamdec.TokenizerLoadError` for an unknown file without ``encoding``, and
    for a file that does not belong to ``encoding``.
    """
    found = encodings_of(sha256)
    if encoding is not None:
        spec = named_spec(encoding)
        if spec.files and sha256 not in {file.sha256 for file in spec.files}:
            is_of = f"the file of {found[0].name}" if found else f"of SHA-256 {sha256[:16]}…"
            raise TokenizerLoadError(f"{name}: not the rank file of {spec.name}: it is {is_of}")
        return spec
    code = "" if declared is None else declared.code
    guessed = [spec for spec in ENCODINGS.values() if any(known in code for known in spec.code)]
    is_known_code = not code or (bool(found) and found[0] in guessed)
    if found := found or guessed:
        if not is_known_code:
            what = f"auto_map names code of the folder, which is not run: {code!r:.80}"
            how = f"It is taken for that of {found[0].name}, and may give other ids and text"
            warn(f"{name}: {what}. {how}")
        return found[0]
    known = ", ".join(ENCODINGS)
    beside = f" (the code in {code.split('.')[0]}.py beside it has them)" if code else ""
    raise TokenizerLoadError(
        f"{name}: an unknown rank file (SHA-256 {sha256[:16]}…), not one of {known}; such a file "
        "does not say how text is split: pass encoding=EncodingSpec(name, pattern, special_tokens)"
        f"{beside}"
    )


def encodings_of(sha256: str) -> list[EncodingSpec]:
    """Return the encodings whose rank file has this hash, the default one first."""
    return [spec for spec in ENCODINGS.values() if sha256 in {file.sha256 for file in spec.files}]


def named_spec(encoding: str | EncodingSpec) -> EncodingSpec:
    """Return a known encoding. Raises TokenizerLoadError for an unknown name."""
    if isinstance(encoding, EncodingSpec):
        return encoding
    if encoding not in ENCODINGS:
        raise TokenizerLoadError(f"no encoding {encoding!r:.80}; known: {', '.join(ENCODINGS)}")
    return ENCODINGS[encoding]


def with_declared(
    spec: EncodingSpec, ranks: Mapping[bytes, int], declared: FolderTokens | None, name: str
) -> EncodingSpec:
    """Return ``spec`` with the special tokens of ``declared``."""
    first = max(ranks.values()) + 1
    special = dict(spec.special_tokens)
    if spec.num_reserved and len(ranks) < first:
        what = f"the code of {spec.name} counts its tokens, so special tokens begin at {len(ranks)}"
        raise TokenizerLoadError(f"{name}: {what}, and its ranks go on to {first - 1}")
    if spec.code and special and min(special.values()) != first:
        what = f"its tokens end before {first}, and special tokens of {spec.name} begin at"
        raise TokenizerLoadError(f"{name}: {what} {min(special.values())}")
    special |= {f"<|reserved_token_{i}|>": i for i in range(first, first + spec.num_reserved)}
    tokens = {} if declared is None else declared.by_id()
    end = first + spec.num_reserved
    if spec.num_reserved and (beyond := [i for i in tokens if i >= end]):
        what = f"the code of {spec.name} may have no tokens with the declared ids {beyond[:3]}"
        warn(f"{name}: {what}. It has ids below {end}")
    if tokens:
        by_id = {token_id: text for text, token_id in special.items()}
        by_id |= {token_id: token.content for token_id, token in tokens.items()}
        special = {text: token_id for token_id, text in sorted(by_id.items())}
        if len(special) < len(by_id):
            what = "tokenizer_config.json has two tokens with the same name"
            raise TokenizerLoadError(f"{name}: {what}")
    return replace(spec, special_tokens=special)


def check_ranks(ranks: Mapping[bytes, int], spec: EncodingSpec, name: str) -> None:
    """Raise TokenizerLoadError for ranks that make a library panic."""
    if missing := [byte for byte in range(256) if bytes([byte]) not in ranks]:
        what = f"{len(missing)} bytes have no token, such as {missing[0]:#04x}"
        raise TokenizerLoadError(f"{name}: {what}")
    if clash := frozenset(spec.special_tokens.values()).intersection(ranks.values()):
        raise TokenizerLoadError(f"{name}: the id {min(clash)} is also the id of a special token")


def encoding_of_model(model: str) -> str | None:
    """Return tiktoken's encoding of ``model``; None if unknown or without tiktoken."""
    try:
        import tiktoken

        name = tiktoken.encoding_name_for_model(model)
    except (ImportError, KeyError):
        return None
    return name if name in ENCODINGS else None


# --- finding a rank file --------------------------------------------------------------------------


def ranks_at_hand(spec: EncodingSpec, *, allow_download: bool) -> tuple[bytes, str]:
    """Return the content of the rank file of ``spec``, and its path or URL.

    The file is taken from tiktoken's cache, or downloaded if ``allow_download`` is true. Raises
    TokenizerLoadError if that fails.
    """
    for known in spec.files:
        path = cached_file(known)
        content = b"" if path is None else read_bounded(path)
        if hashlib.sha256(content).hexdigest() == known.sha256:
            return content, str(path)
    file = next((file for file in spec.files if file.url), None)
    missing = f"the rank file of {spec.name} is not in the cache"
    if file is None:
        reason = "it cannot be downloaded, because no address of it is known"
        raise TokenizerLoadError(f"{missing}: {reason}. Give the path of the file")
    reason = "downloads are not allowed; allow_download=True (--allow-download) allows them"
    if allow_download:  # with tiktoken, which checks the SHA-256 and caches the file
        load = library("tiktoken.load", "tiktoken").read_file_cached
        try:
            return guarded(load, file.url, file.sha256), file.url
        except TokenizerLibraryError as error:
            reason = f"the download failed ({error.__cause__!r:.200})"
    raise TokenizerLoadError(
        f"{missing}: {reason}. Give the path of the file ({file.url}), or put it into the folder "
        "that TIKTOKEN_CACHE_DIR names, as tiktoken does"
    )


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


# --- splitting long texts -------------------------------------------------------------------------


def cut(text: str) -> list[str]:
    """Return the parts of ``text`` that are encoded separately.

    The references of Llama and Kimi split a text after 400,000 characters, and each run of white
    space, or of other characters, after 25,000.
    """
    if len(text) <= _MAX_RUN:
        return [text]
    parts = (text[start : start + _MAX_CHARS] for start in range(0, len(text), _MAX_CHARS))
    return [run for part in parts for run in _cut_runs(part)]


def _cut_runs(text: str) -> Iterator[str]:
    start = 0
    for run in _RUN.finditer(text):
        for place in range(run.start() + _MAX_RUN, run.end(), _MAX_RUN):
            yield text[start:place]
            start = place
    yield text[start:]
