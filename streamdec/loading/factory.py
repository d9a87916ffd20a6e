"""``load_tokenizer``: the one way from a path or a name to a tokenizer that is ready to stream.

In: a path, or the name of an encoding or of a model. Out: a backend's tokenizer, its compiled table
compared with its own ``decode``. Each backend is imported when a file of its format is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from streamdec.backends.encodings import ENCODINGS, EncodingSpec
from streamdec.core.programs import route_of
from streamdec.errors import TokenizerLoadError, UnsupportedFormatError
from streamdec.loading.content import content_of
from streamdec.loading.detect import Detected, Format, detect_format
from streamdec.loading.models import MODELS, look_up, read_models
from streamdec.protocols import Tokenizer

__all__ = ["load_tokenizer"]

SUPPORTED = (
    "a Hugging Face tokenizer.json (whatever its name), a Tekken file, a tiktoken rank file, a "
    "SentencePiece model, each also compressed by xz, a GGUF file, or a folder that has one"
)

_MAX_NAME = 100
"""Letters that the name of a model may have, for a message about it."""

Models = Mapping[str, str] | str | os.PathLike[str]
"""A table of names, or the path of a TOML or JSON file that has one."""


def load_tokenizer(
    path_or_name: str | os.PathLike[str],
    *,
    encoding: str | EncodingSpec | None = None,
    models: Models | None = None,
    allow_download: bool = False,
) -> Tokenizer:
    """The tokenizer in a file or a folder, or that of an encoding or a model with this name.

    What a file is is told by its content, never by its name; in a folder, names tell which files
    are looked into. A folder that has several formats gives the first of tokenizer.json, Tekken,
    rank file, SentencePiece, GGUF. ``encoding`` chooses where a rank file is that of several
    encodings, and says what an unknown one is.

    What is no path is a name: of an encoding (``"cl100k_base"``), or of a model (``"gpt-4o"``),
    whose encoding or path is looked for in ``models`` (a table, or a TOML or JSON file with one)
    and then among those that tiktoken knows. For a name the rank file is taken from tiktoken's
    cache; nothing is downloaded unless ``allow_download`` says so.

    A sample of the tokenizer's ids is compared with its own ``decode`` at once, so a difference is
    warned of here (:class:`StreamdecWarning`) and not in the middle of a stream. Costs what the
    library's loading costs, and ≤ 5 ms or 2 % more.

    Raises :class:`TokenizerLoadError`, which names the path, if nothing is there or it cannot be
    read, :class:`UnsupportedFormatError`, which says what was found and what is served, and
    :class:`MissingExtraError` if the library for a format is not installed.

    >>> load_tokenizer("/path/to/model")  # doctest: +SKIP
    HuggingFaceTokenizer('/path/to/model/tokenizer.json', ByteLevel)
    >>> load_tokenizer("gpt-4o", allow_download=True)  # doctest: +SKIP
    TiktokenTokenizer('https://….tiktoken', o200k_base)
    """
    name = os.fsdecode(path_or_name)
    table = read_models(models) if isinstance(models, (str, os.PathLike)) else models or {}
    named = None if name not in table and _is_there(name) else _encoding_or_path(name, table)
    if named is not None and (named in ENCODINGS or encoding is not None):
        tokenizer = _by_name(encoding or named, allow_download=allow_download)
    else:
        tokenizer = _from_path(Path(named or name), encoding, name)
    route_of(tokenizer)
    return tokenizer


def _is_there(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _encoding_or_path(name: str, models: Mapping[str, str]) -> str | None:
    """What ``models`` has for ``name``, or ENCODINGS, or MODELS; None if nothing."""
    found = look_up(name, models)
    if found is None:
        found = name if name in ENCODINGS else look_up(name, MODELS)
    return found


def _by_name(encoding: str | EncodingSpec, *, allow_download: bool) -> Tokenizer:
    from streamdec.backends.tiktoken import TiktokenTokenizer

    return TiktokenTokenizer.named(encoding, allow_download=allow_download)


def _from_path(path: Path, encoding: str | EncodingSpec | None, name: str) -> Tokenizer:
    try:
        found = detect_format(path)
    except TokenizerLoadError as error:
        if _is_there(str(path)) or str(path) != name or len(name) > _MAX_NAME:
            raise
        known = ", ".join(ENCODINGS)
        hint = f"nor is it the name of a model that is known, or of an encoding ({known})"
        raise TokenizerLoadError(f"{error}; {hint}") from error
    opener = _OPENERS.get(found.format)
    if opener is None:
        what = f"found {found.description}; supported: {SUPPORTED}"
        raise UnsupportedFormatError(f"{str(found.path)!r}: {what}")
    if encoding is not None and found.format != "tiktoken":
        raise TokenizerLoadError(
            f"{str(found.path)!r}: {found.description} says itself what it is; only a rank file "
            "needs an encoding"
        )
    return opener(found, encoding)


# --- one for each format --------------------------------------------------------------------------


def _huggingface(found: Detected, _: Any) -> Tokenizer:
    from streamdec.backends.huggingface import HuggingFaceTokenizer

    if not found.is_packed:
        return HuggingFaceTokenizer(found.path)
    text = content_of(found.path).decode("utf-8", "surrogateescape")
    try:
        return HuggingFaceTokenizer(text)
    except TokenizerLoadError as error:
        raise TokenizerLoadError(f"{str(found.path)!r}: {error}") from error


def _tekken(found: Detected, _: Any) -> Tokenizer:
    from streamdec.backends.tekken import TekkenTokenizer

    return TekkenTokenizer.from_tekken(content_of(found.path), str(found.path))


def _tiktoken(found: Detected, encoding: str | EncodingSpec | None) -> Tokenizer:
    from streamdec.backends.tiktoken import TiktokenTokenizer
    from streamdec.backends.tokenizer_config import read_declared

    declared = read_declared(found.path.parent)
    content = content_of(found.path)
    return TiktokenTokenizer.from_content(content, str(found.path), encoding, declared)


def _sentencepiece(found: Detected, _: Any) -> Tokenizer:
    from streamdec.backends.sentencepiece import SentencePieceTokenizer

    return SentencePieceTokenizer.from_content(content_of(found.path), str(found.path))


def _gguf(found: Detected, _: Any) -> Tokenizer:
    from streamdec.backends.gguf import GGUFTokenizer

    if found.is_packed:
        what = f"found {found.description}, which must be unpacked first"
        raise UnsupportedFormatError(f"{str(found.path)!r}: {what}")
    return GGUFTokenizer(found.path)


_OPENERS: dict[Format, Callable[[Detected, str | EncodingSpec | None], Tokenizer]] = {
    "huggingface": _huggingface,
    "tekken": _tekken,
    "tiktoken": _tiktoken,
    "sentencepiece": _sentencepiece,
    "gguf": _gguf,
}
