"""A tokenizer of ``tokenizers``, made from the pieces of a SentencePiece model.

In: a SentencePiece model and what the files beside it say, or the pieces of a GGUF file. Out: the
tokenizer, to which added tokens are then applied as to that of any ``tokenizer.json``. So fastokens
may encode for such a folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.folders.folder_tokens import FolderTokens, copy_of, read_folder
from streamdec.folders.sentencepiece_proto import (
    BPE,
    CONTROL,
    MAX_MODEL,
    NORMAL,
    UNIGRAM,
    USER_DEFINED,
    ModelProto,
)
from streamdec.folders.tokenizer_class import NotFollowedError
from streamdec.tokenizers._common import guarded
from streamdec.tokenizers.folder_files import read_bounded

_SPACE = "\u2581"
_LONGEST = 4096
"""Characters of a piece; the longest known has 256."""


def from_sentencepiece(path: Path) -> tuple[Tokenizer, FolderTokens, str]:
    """Return a tokenizer, the tokens to add to it, and the SHA-256 of the model.

    ``path`` is a SentencePiece model, whose settings the result follows. A declared token replaces
    the piece with its id; as in transformers, only in a model of kind BPE.

    Raises NotFollowedError if the class of the folder makes its tokenizer in its own way, and
    :class:`~streamdec.TokenizerLoadError`, which names the file, if one is malformed.
    """
    content = read_bounded(path, MAX_MODEL)
    try:
        return *_from_sentencepiece(content, path), hashlib.sha256(content).hexdigest()
    except TokenizerLoadError:
        raise
    except (ValueError, TokenizerLibraryError) as error:
        raise TokenizerLoadError(f"{str(path)!r}: not a SentencePiece model: {error}") from error


def _from_sentencepiece(content: bytes, path: Path) -> tuple[Tokenizer, FolderTokens]:
    proto = ModelProto.parse(content)
    tokens = read_folder(path.parent, model_roles=proto.roles)
    if proto.model_type not in (UNIGRAM, BPE):
        raise NotFollowedError("a SentencePiece model of whole words or of characters")
    if not tokens.is_remote and tokens.how != "reads":
        raise NotFollowedError(f"the class {tokens.chosen.name} makes its tokenizer in its own way")
    names, tokens = with_pieces(proto, tokens)
    is_legacy = bool(tokens.config.get("legacy", True))
    return tokenizer_of_pieces(proto, names, is_legacy=is_legacy), tokens


def with_pieces(proto: ModelProto, tokens: FolderTokens) -> tuple[list[str], FolderTokens]:
    """Return the texts of the pieces, and the tokens to add: those of the files and of the model.

    A class that builds its tokenizer also adds the user-defined pieces.
    """
    declared = tokens.declared
    names = [piece.text for piece in proto.pieces]
    kept = {text for i, text in enumerate(names) if i not in declared}
    for i, token in declared.items():
        is_replaced = proto.model_type == BPE and not tokens.is_built
        if is_replaced and i < len(names) and token.content not in kept:
            names[i] = token.content
    if proto.adds_prefix:
        # Added tokens are looked for in the text as it is, so each part between them has a prefix.
        plain = {i: copy_of(token, normalized=False) for i, token in declared.items()}
        tokens = replace(tokens, declared=plain)
    if not tokens.has_list:
        kinds = (CONTROL, USER_DEFINED) if tokens.is_built else (CONTROL,)
        listed = [(p.text, p.kind == CONTROL) for p in proto.pieces if p.kind in kinds]
        extra = (AddedToken(text, normalized=False, special=special) for text, special in listed)
        tokens = replace(tokens, extra=tuple(extra))
    return names, tokens


def tokenizer_of_pieces(proto: ModelProto, names: list[str], *, is_legacy: bool) -> Tokenizer:
    """Return a tokenizer like ``proto``, whose pieces have ``names``.

    With ``is_legacy``, each part between special tokens begins with a space, not only the first.
    """
    user_defined = [names[i] for i, p in enumerate(proto.pieces) if p.kind == USER_DEFINED]
    if proto.model_type == UNIGRAM:
        scored = [(name, piece.score) for name, piece in zip(names, proto.pieces, strict=True)]
        model: models.Model = guarded(models.Unigram, scored, proto.unk_id, proto.byte_fallback)
    else:
        model = guarded(
            models.BPE,
            {name: i for i, name in enumerate(names)},
            _merges_by_score(proto, names),
            unk_token=proto.unk_piece or None,
            fuse_unk=True,
            byte_fallback=proto.byte_fallback,
            ignore_merges=bool(user_defined),
        )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = _normalizer(proto, is_legacy=is_legacy)
    stages: list[pre_tokenizers.PreTokenizer] = []
    if proto.adds_prefix:
        scheme = "always" if is_legacy else "first"
        stages.append(pre_tokenizers.Metaspace(_SPACE, prepend_scheme=scheme, split=False))
    if user_defined:
        longest_first = sorted(user_defined, key=len, reverse=True)
        whole = guarded(Regex, "|".join(map(re.escape, longest_first)))
        stages.append(pre_tokenizers.Split(whole, "isolated"))
    if stages:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages)
    tokenizer.decoder = _decoder(proto)
    return tokenizer


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


def _normalizer(proto: ModelProto, *, is_legacy: bool) -> normalizers.Normalizer:
    stages: list[normalizers.Normalizer] = []
    if proto.charsmap:
        stages.append(guarded(normalizers.Precompiled, proto.charsmap))
    if proto.removes_spaces:
        stages.append(normalizers.Replace(Regex(r"\A +| +\z"), ""))
        stages.append(normalizers.Replace(Regex(" {2,}"), " "))
    if proto.escapes_spaces:
        stages.append(normalizers.Replace(" ", _SPACE))
    if proto.adds_prefix and is_legacy:
        # Metaspace adds no space before one that is there; SentencePiece does.
        stages.append(normalizers.Replace(Regex(rf"\A{_SPACE}"), 2 * _SPACE))
    return normalizers.Sequence(stages)


def _decoder(proto: ModelProto) -> decoders.Decoder:
    stages: list[decoders.Decoder] = [decoders.Replace(_SPACE, " ")]
    if proto.byte_fallback:
        stages.append(decoders.ByteFallback())
    if proto.adds_prefix or proto.byte_fallback:
        stages.append(decoders.Fuse())
    if proto.adds_prefix:
        stages.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(stages)
