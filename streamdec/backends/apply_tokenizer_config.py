"""Apply the files beside a ``tokenizer.json`` to its added tokens, as transformers does.

In: a folder and the library's tokenizer, loaded from the ``tokenizer.json`` in it. Out: the same
tokenizer with more added tokens, or other flags on them, and a list of the changes.

An engine sees more than the ``tokenizer.json``: transformers adds the tokens of
``tokenizer_config.json`` whose flags differ or which are missing, and those that have a role. If
that file has no ``added_tokens_decoder``, transformers also reads ``special_tokens_map.json`` and
``added_tokens.json``. These are the rules of its ``TokenizersBackend``. The class that transformers
would choose is not considered here. Some classes (Qwen2, GPT-2, Gemma, Cohere) build the tokenizer
from the vocabulary: they keep only declared tokens and may add their own. None of the real folders
at hand is affected. :attr:`TokenizerConfigChanges.undeclared` lists the tokens that such a class
would lose, and ``streamdec.preflight`` explains the consequences.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from streamdec.backends._common import guarded
from streamdec.backends.declared_tokens import (
    DECLARED,
    DeclaredTokens,
    added_token,
    declared_tokens,
)
from streamdec.backends.tokenizer_config import (
    ADDED_TOKENS,
    CONFIG,
    ROLES,
    SPECIAL_TOKENS_MAP,
    content_of,
    id_of,
    read_object,
)
from streamdec.errors import StreamdecWarning, TokenizerLoadError

__all__ = ["TokenizerConfigChanges", "apply_config", "missing_beside", "roles_beside"]


@dataclass(frozen=True, slots=True)
class TokenizerConfigChanges:
    """The changes that the files beside a ``tokenizer.json`` made to its tokens."""

    files: tuple[str, ...] = ()
    """The names of the files that were read."""
    changed: Mapping[int, str] = field(default_factory=dict)
    """Added tokens with new flags, and added tokens that were words of the model before."""
    appended: Mapping[int, str] = field(default_factory=dict)
    """Tokens that the ``tokenizer.json`` does not have, by the ids that the library assigned."""
    undeclared: Mapping[int, str] = field(default_factory=dict)
    """Added tokens of the ``tokenizer.json`` that an ``added_tokens_decoder`` omits. They are kept
    here. Classes of transformers that build the tokenizer from the vocabulary lose them."""
    other_ids: Mapping[str, int] = field(default_factory=dict)
    """Tokens whose declared id, given here, is not the one that the library assigned."""

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return bool(self.changed or self.appended)


def apply_config(tokenizer: Tokenizer, folder: Path) -> TokenizerConfigChanges:
    """Apply the files in ``folder`` to ``tokenizer`` and return what changed.

    Warns (:class:`~streamdec.StreamdecWarning`) if tokens get other ids than the file declares.
    Raises :class:`~streamdec.TokenizerLoadError`, which names the file, if a file is malformed, and
    :class:`~streamdec.TokenizerLibraryError` if the library fails.
    """
    before = tokenizer.get_added_tokens_decoder()
    files, beside = _read(folder, before)
    declared = {token.content for token in beside.declared.values()}
    undeclared = {
        i: token.content for i, token in sorted(before.items()) if token.content not in declared
    }
    tokens = beside.to_add({token.content for token in before.values()})
    if {repr(token) for token in tokens} <= {repr(token) for token in before.values()}:
        return TokenizerConfigChanges(files, undeclared=undeclared)
    words = {token.content: tokenizer.token_to_id(token.content) for token in tokens}
    for group in _without_repetition(tokens):
        guarded(tokenizer.add_tokens, group)
    other_ids = _with_other_ids(beside, tokenizer, folder / files[0])
    after = tokenizer.get_added_tokens_decoder()
    new = {i: token.content for i, token in after.items() if repr(token) != repr(before.get(i))}
    changed = {i: text for i, text in new.items() if words.get(text) is not None}
    appended = {i: text for i, text in new.items() if i not in changed}
    ascending = dict(sorted(changed.items())), dict(sorted(appended.items()))
    return TokenizerConfigChanges(files, *ascending, undeclared, other_ids)


def _without_repetition(tokens: Sequence[AddedToken]) -> list[list[AddedToken]]:
    """Split ``tokens`` into two calls in which no text repeats.

    Of tokens with the same text in one call, tokenizers 0.22 takes the first. Two calls have the
    effect of adding the tokens one by one: the last one decides the flags, and a text that was
    special once stays skipped.
    """
    last = {token.content: token for token in tokens}
    first: dict[str, AddedToken] = {}
    for token in tokens:
        if token.content not in first or (token.special and not first[token.content].special):
            first[token.content] = token
    again = [token for text, token in last.items() if repr(token) != repr(first[text])]
    return [[*first.values()], again]


def roles_beside(folder: Path) -> dict[str, str]:
    """Return the token of each role (``"eos_token"``), as the files in ``folder`` say.

    Raises :class:`~streamdec.TokenizerLoadError`.
    """
    named = _read(folder, {})[1].names()
    return {role: text for role, text in named.items() if role in ROLES}


def missing_beside(folder: Path, tokenizer: Tokenizer) -> list[str]:
    """Return the tokens that the files in ``folder`` name and ``tokenizer`` does not have.

    Raises :class:`~streamdec.TokenizerLoadError`.
    """
    own = guarded(tokenizer.get_added_tokens_decoder)
    tokens = _read(folder, own)[1].to_add({token.content for token in own.values()})
    named = dict.fromkeys(token.content for token in tokens)
    return [text for text in named if tokenizer.token_to_id(text) is None]


def _with_other_ids(beside: DeclaredTokens, tokenizer: Tokenizer, file: Path) -> dict[str, int]:
    """Return the declared ids of tokens that have other ids, after warning about them."""
    others = {
        token.content: wanted
        for wanted, token in beside.declared.items()
        if tokenizer.token_to_id(token.content) != wanted
    }
    if others:
        listed = [
            f"{text!r:.60} is {tokenizer.token_to_id(text)}, not {wanted}"
            for text, wanted in others.items()
        ]
        shown = "; ".join(listed[:3]) + ("; …" if len(listed) > 3 else "")
        what = f"{len(others)} added tokens have other ids than the file says"
        warnings.warn(f"{str(file)!r}: {what}: {shown}", StreamdecWarning, stacklevel=6)
    return others


# --- what the files say ---------------------------------------------------------------------------


def _read(folder: Path, own: Mapping[int, AddedToken]) -> tuple[tuple[str, ...], DeclaredTokens]:
    """Return the files read and what they declare; ``own`` are the tokens of tokenizer.json."""
    config = read_object(folder, CONFIG)
    files = [] if config is None else [CONFIG]
    config = config or {}
    declared, special_map, legacy = None, None, None
    try:
        if DECLARED in config:
            where = folder / CONFIG
            declared = dict(_declared(config[DECLARED]))
        else:
            where = folder / ADDED_TOKENS
            special_map = read_object(folder, SPECIAL_TOKENS_MAP)
            legacy = read_object(folder, ADDED_TOKENS)
            _check_ids(legacy or {})
            found = {SPECIAL_TOKENS_MAP: special_map, ADDED_TOKENS: legacy}
            files += [name for name, said in found.items() if said is not None]
        beside = declared_tokens(config, declared, special_map or {}, legacy or {}, own)
        beside.to_add(())  # raises for text that cannot be a token
    except TokenizerLoadError:
        raise
    except UnicodeEncodeError as error:
        where = folder / (files[0] if len(files) == 1 else "")
        what = f"{error.object[:60]!r} is no Unicode text, as a token must be"
        raise TokenizerLoadError(f"{str(where)!r}: {what}") from error
    except ValueError as error:
        raise TokenizerLoadError(f"{str(where)!r}: {error}") from error
    return tuple(files), beside


def _declared(tokens: Any) -> Iterator[tuple[int, AddedToken]]:
    """Yield the tokens of an ``added_tokens_decoder``. Raises ValueError if it is malformed."""
    if not isinstance(tokens, dict):
        raise ValueError(f"{DECLARED} must be an object, not {type(tokens).__name__}")
    for key, token in tokens.items():
        try:
            token_id = id_of(key)
        except ValueError as error:
            raise ValueError(f"{DECLARED}: {error}") from error
        if not isinstance(token, dict) or not content_of(token):
            raise ValueError(f"{DECLARED}: id {key} has no content")
        yield token_id, added_token(token)


def _check_ids(legacy: Mapping[str, Any]) -> None:
    """Raise ValueError if a value of ``added_tokens.json`` is not an id."""
    for text, token_id in legacy.items():
        if not isinstance(token_id, int):
            raise ValueError(f"the id of {text!r:.60} must be an integer, not {token_id!r:.60}")
