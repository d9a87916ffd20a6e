"""A ``tokenizer.json`` made in memory from the pieces of a SentencePiece model.

In: a SentencePiece model and what the files beside it say, or the pieces of a GGUF file. Out: the
JSON, to which added tokens are then applied as to any other ``tokenizer.json``. So fastokens may
encode for such a folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from streamdec.errors import TokenizerLoadError
from streamdec.folders.declared_tokens import without_flag
from streamdec.folders.folder_tokens import FolderTokens, read_folder
from streamdec.folders.sentencepiece_proto import (
    CONTROL,
    MAX_MODEL,
    NORMAL,
    USER_DEFINED,
    ModelProto,
)
from streamdec.folders.tokenizer_class import NotFollowedError
from streamdec.tokenizers.folder_files import read_bounded

_SPACE = "\u2581"
_LONGEST = 4096
"""Characters of a piece; the longest known has 256."""


@dataclass(frozen=True, slots=True)
class Assembled:
    """A ``tokenizer.json`` in memory."""

    content: bytes
    """The JSON."""
    tokens: FolderTokens
    """What the files beside the vocabulary say."""
    sha256: str
    """SHA-256 of the file with the vocabulary."""
    added: tuple[AddedToken, ...] = ()
    """Added tokens that the vocabulary itself declares."""


def from_sentencepiece(path: Path) -> Assembled:
    """Return the ``tokenizer.json`` of a SentencePiece model and the files beside it.

    ``path`` is the model, whose settings the result follows. A declared token replaces the piece
    with its id.

    Raises NotFollowedError if the class of the folder makes its tokenizer in its own way, and
    :class:`~streamdec.TokenizerLoadError`, which names the file, if one is malformed.
    """
    content = read_bounded(path, MAX_MODEL)
    try:
        return _from_sentencepiece(content, path)
    except TokenizerLoadError:
        raise
    except ValueError as error:
        raise TokenizerLoadError(f"{str(path)!r}: not a SentencePiece model: {error}") from error


def _from_sentencepiece(content: bytes, path: Path) -> Assembled:
    proto = ModelProto.parse(content)
    tokens = read_folder(path.parent, model_roles=proto.roles)
    cls = tokens.chosen.cls
    if not (proto.is_unigram or proto.is_bpe):
        raise NotFollowedError("a SentencePiece model of whole words or of characters")
    if cls is not None and cls.how != "reads":
        raise NotFollowedError(f"the class {cls.name} makes its tokenizer in its own way")
    declared = tokens.beside.declared
    names = [piece.text for piece in proto.pieces]
    kept = {text for i, text in enumerate(names) if i not in declared}
    for i, token in declared.items():
        if i < len(names) and token.content not in kept:
            names[i] = token.content
    if proto.adds_prefix:
        # Added tokens are looked for in the text as it is, so each part between them has a prefix.
        plain = {i: without_flag(token, "normalized") for i, token in declared.items()}
        tokens = replace(tokens, beside=replace(tokens.beside, declared=plain))
    # Extra tokens in the files replace these.
    added = tuple(
        AddedToken(piece.text, normalized=False, special=True)
        for piece in proto.pieces
        if piece.kind == CONTROL and not tokens.beside.extra
    )
    is_legacy = bool(tokens.config.get("legacy", True))
    made = json_of_pieces(proto, names, is_legacy=is_legacy)
    return Assembled(made, tokens, hashlib.sha256(content).hexdigest(), added)


def json_of_pieces(proto: ModelProto, names: list[str], *, is_legacy: bool) -> bytes:
    """Return a ``tokenizer.json`` like ``proto``, whose pieces have ``names``.

    With ``is_legacy``, each part between special tokens begins with a space, not only the first.
    """
    user_defined = [names[i] for i, p in enumerate(proto.pieces) if p.kind == USER_DEFINED]
    if proto.is_unigram:
        pieces = [[name, piece.score] for name, piece in zip(names, proto.pieces, strict=True)]
        model: Any = {
            "type": "Unigram",
            "unk_id": proto.unk_id,
            "vocab": pieces,
            "byte_fallback": proto.byte_fallback,
        }
    else:
        model = {
            "type": "BPE",
            "dropout": None,
            "unk_token": proto.unk_piece or None,
            "fuse_unk": True,
            "byte_fallback": proto.byte_fallback,
            "ignore_merges": bool(user_defined),
            "vocab": {name: i for i, name in enumerate(names)},
            "merges": [list(pair) for pair in _merges_by_score(proto, names)],
        }
    data = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [],
        "normalizer": _normalizer(proto, is_legacy=is_legacy),
        "pre_tokenizer": _pre_tokenizer(proto, user_defined, is_legacy=is_legacy),
        "post_processor": None,
        "decoder": _decoder(proto),
        "model": model,
    }
    return json.dumps(data, ensure_ascii=False).encode()


def _merges_by_score(proto: ModelProto, names: list[str]) -> list[tuple[str, str]]:
    """Return the merges of normal pieces, those with the highest scores first."""
    normal = {
        names[i]: (piece.score, i) for i, piece in enumerate(proto.pieces) if piece.kind == NORMAL
    }
    found = [
        (-score, token_id, left, right)
        for token, (score, token_id) in normal.items()
        for left, right in _halves(token, normal)
    ]
    return [(left, right) for *_, left, right in sorted(found)]


def _halves(token: str, vocab: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the ways to make ``token`` of two tokens of ``vocab``.

    Raises ValueError for a token of more than 4,096 characters: the work is quadratic.
    """
    if len(token) > _LONGEST:
        raise ValueError(f"a piece of {len(token)} characters; the most is {_LONGEST}")
    for place in range(1, len(token)):
        left, right = token[:place], token[place:]
        if left in vocab and right in vocab:
            yield left, right


def _normalizer(proto: ModelProto, *, is_legacy: bool) -> Any:
    stages: list[Any] = []
    if proto.charsmap:
        charsmap = base64.b64encode(proto.charsmap).decode()
        stages.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    if proto.removes_spaces:
        stages.append(_replace(r"\A +| +\z", ""))
        stages.append(_replace(" {2,}", " "))
    if proto.escapes_spaces:
        stages.append({"type": "Replace", "pattern": {"String": " "}, "content": _SPACE})
    if proto.adds_prefix and is_legacy:
        # Metaspace adds no space before one that is there; SentencePiece does.
        stages.append(_replace(rf"\A{_SPACE}", 2 * _SPACE))
    return {"type": "Sequence", "normalizers": stages}


def _replace(regex: str, content: str) -> Any:
    return {"type": "Replace", "pattern": {"Regex": regex}, "content": content}


def _pre_tokenizer(proto: ModelProto, whole: list[str], *, is_legacy: bool) -> Any:
    stages: list[Any] = []
    if proto.adds_prefix:
        scheme = "always" if is_legacy else "first"
        stages.append(
            {"type": "Metaspace", "replacement": _SPACE, "prepend_scheme": scheme, "split": False}
        )
    if whole:
        regex = "|".join(re.escape(piece) for piece in sorted(whole, key=len, reverse=True))
        stages.append(
            {
                "type": "Split",
                "pattern": {"Regex": regex},
                "behavior": "Isolated",
                "invert": False,
            }
        )
    return {"type": "Sequence", "pretokenizers": stages} if stages else None


def _decoder(proto: ModelProto) -> Any:
    stages: list[Any] = [{"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}]
    if proto.byte_fallback:
        stages.append({"type": "ByteFallback"})
    if proto.adds_prefix or proto.byte_fallback:
        stages.append({"type": "Fuse"})
    if proto.adds_prefix:
        stages.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    return {"type": "Sequence", "decoders": stages}
