"""The files beside a ``tokenizer.json`` that change its added tokens, applied as transformers does.

In: a folder and the library's tokenizer, loaded from the ``tokenizer.json`` in it. Out: the same
tokenizer with more added tokens, or other flags on them, and what was changed.

A ``tokenizer.json`` alone is not what an engine sees: on top of it transformers adds the tokens of
``tokenizer_config.json`` whose flags differ or which are missing, and those that have a role. Where
that file has no ``added_tokens_decoder``, ``special_tokens_map.json`` and ``added_tokens.json`` are
read as well. The rules are those of transformers 5 (``TokenizersBackend``, the same from 5.0 to
5.23), found by reading it and by comparing (``scripts/make_overlay_goldens.py``). What its single
classes add of their own is not known here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from streamdec.backends._guard import guarded
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

__all__ = ["Overlay", "apply_overlay", "roles_beside"]

_DECLARED = "added_tokens_decoder"
_EXTRA = "extra_special_tokens"
_ADDITIONAL = "additional_special_tokens"
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")

Token = str | AddedToken


@dataclass(frozen=True, slots=True)
class Overlay:
    """What files beside a ``tokenizer.json`` changed of its tokens."""

    files: tuple[str, ...] = ()
    """The names of those that were read."""
    changed: Mapping[int, str] = field(default_factory=dict)
    """Added tokens that have other flags now; and those that were words of the model before."""
    appended: Mapping[int, str] = field(default_factory=dict)
    """Tokens that the ``tokenizer.json`` does not have, under the ids that the library gave."""

    def __bool__(self) -> bool:
        """Whether anything was changed."""
        return bool(self.changed or self.appended)


@dataclass(frozen=True, slots=True)
class _Beside:
    """What the files say."""

    files: tuple[str, ...]
    declared: Mapping[int, AddedToken]
    named: Mapping[str, Token]
    extra: tuple[Token, ...]

    def tokens(self, present: Mapping[int, AddedToken]) -> list[AddedToken]:
        """Those to be added, in order, to a tokenizer that has ``present``.

        All that are declared are added once more, so the last one of a text gives its flags.
        """
        found: list[Token] = [token for _, token in sorted(self.declared.items())]
        contents = {_text(token) for token in (*present.values(), *found)}
        for token in (*self.named.values(), *self.extra):
            if _text(token) not in contents and token not in found:
                found.append(token)
        named = {_text(token) for token in self.named.values()}
        return [_special(token, named) for token in found]


def apply_overlay(tokenizer: Tokenizer, folder: Path) -> Overlay:
    """Adds to ``tokenizer`` what the files in ``folder`` say, and tells what that changed.

    Warns (:class:`StreamdecWarning`) of tokens that get other ids than the file declares. Raises
    :class:`TokenizerLoadError`, which names the file, if one cannot be understood, and
    :class:`TokenizerLibraryError` if the library fails.
    """
    before = tokenizer.get_added_tokens_decoder()
    beside = _read(folder, before)
    tokens = beside.tokens(before)
    if {repr(token) for token in tokens} <= {repr(token) for token in before.values()}:
        return Overlay(beside.files)
    words = {token.content: tokenizer.token_to_id(token.content) for token in tokens}
    guarded(tokenizer.add_tokens, tokens)
    _warn_of_other_ids(beside, tokenizer, folder)
    after = tokenizer.get_added_tokens_decoder()
    new = {i: token.content for i, token in after.items() if repr(token) != repr(before.get(i))}
    changed = {i: text for i, text in new.items() if words.get(text) is not None}
    appended = {i: text for i, text in new.items() if i not in changed}
    return Overlay(beside.files, dict(sorted(changed.items())), dict(sorted(appended.items())))


def roles_beside(folder: Path) -> dict[str, str]:
    """Which token has which role (``"eos_token"``), as the files in ``folder`` say.

    Raises :class:`TokenizerLoadError`.
    """
    named = _read(folder, {}).named
    return {role: _text(token) for role, token in named.items() if role in ROLES}


def _warn_of_other_ids(beside: _Beside, tokenizer: Tokenizer, folder: Path) -> None:
    others = [
        f"{token.content!r:.60} is {tokenizer.token_to_id(token.content)}, not {wanted}"
        for wanted, token in beside.declared.items()
        if tokenizer.token_to_id(token.content) != wanted
    ]
    if others:
        shown = "; ".join(others[:3]) + ("; …" if len(others) > 3 else "")
        what = f"{len(others)} added tokens have other ids than the file says"
        message = f"{str(folder / beside.files[0])!r}: {what}: {shown}"
        warnings.warn(message, StreamdecWarning, stacklevel=6)


# --- what the files say ---------------------------------------------------------------------------


def _read(folder: Path, own: Mapping[int, AddedToken]) -> _Beside:
    """``own``: the added tokens of the tokenizer.json."""
    config = read_object(folder, CONFIG)
    files = [] if config is None else [CONFIG]
    said = dict(config or {})
    if _ADDITIONAL in said and not said.get(_EXTRA):
        said[_EXTRA] = said.pop(_ADDITIONAL)
    if _DECLARED in said:
        declared = dict(_declared(said[_DECLARED], folder / CONFIG))
    else:
        special = read_object(folder, SPECIAL_TOKENS_MAP)
        if special is not None:
            files.append(SPECIAL_TOKENS_MAP)
            said |= _as_special(special, said)
        declared = {}
        added = read_object(folder, ADDED_TOKENS)
        if added is not None:
            files.append(ADDED_TOKENS)
            declared = dict(_legacy(added, said, folder / ADDED_TOKENS))
        declared |= own
    by_text = {token.content: token for token in declared.values()}
    named = {role: by_text.get(_text(token), token) for role, token in _roles(said).items()}
    return _Beside(tuple(files), declared, named | _named(said), _extra(said))


def _declared(tokens: Any, path: Path) -> Iterator[tuple[int, AddedToken]]:
    """The ``added_tokens_decoder``."""
    if not isinstance(tokens, dict):
        what = f"{_DECLARED} must be an object, not {type(tokens).__name__}"
        raise TokenizerLoadError(f"{str(path)!r}: {what}")
    for key, token in tokens.items():
        try:
            token_id = id_of(key)
        except ValueError as error:
            raise TokenizerLoadError(f"{str(path)!r}: {_DECLARED}: {error}") from error
        if not isinstance(token, dict) or not content_of(token):
            raise TokenizerLoadError(f"{str(path)!r}: {_DECLARED}: id {key} has no content")
        yield token_id, _token(token)


def _legacy(added: Mapping[str, Any], said: Mapping[str, Any], path: Path) -> Iterator[Any]:
    """The tokens of ``added_tokens.json``; special are those with a role, and the extra ones.

    Not if they are typed objects of the config: so it is there.
    """
    extra = said.get(_EXTRA)
    values = [*map(said.get, ROLES), *(extra if isinstance(extra, list) else ())]
    special = {
        content_of(value) for value in values if not (isinstance(value, dict) and "__type" in value)
    }
    for text, token_id in added.items():
        if not isinstance(token_id, int):
            what = f"the id of {text!r:.60} must be an integer, not {token_id!r:.60}"
            raise TokenizerLoadError(f"{str(path)!r}: {what}")
        is_special = text in special
        yield token_id, AddedToken(text, normalized=not is_special, special=is_special)


def _as_special(special: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """What ``special_tokens_map.json`` says, as if the config had said it."""
    found: dict[str, Any] = {}
    for key, value in special.items():
        if key == _EXTRA and isinstance(value, list):
            before = said.get(key)
            value = [*(before if isinstance(before, list) else []), *value]
        elif isinstance(value, dict) and key != _EXTRA:
            value = {**value, "special": True}
        found[key] = value
    return found


def _roles(said: Mapping[str, Any]) -> dict[str, Token]:
    found = {role: _token_or_none(said.get(role)) for role in ROLES}
    return {role: token for role, token in found.items() if token is not None}


def _named(said: Mapping[str, Any]) -> dict[str, Token]:
    """What else is called ``…_token``, and the extra tokens if they have names."""
    extra = said.get(_EXTRA)
    other = {key: said[key] for key in said if key.endswith("_token") and key not in ROLES}
    other |= extra if isinstance(extra, dict) else {}
    found = {name: _token_or_none(value) for name, value in other.items()}
    return {name: token for name, token in found.items() if token is not None}


def _extra(said: Mapping[str, Any]) -> tuple[Token, ...]:
    """The extra tokens without a name; of older files what they call additional."""
    extra = said.get(_EXTRA)
    has_newer = _EXTRA in said and not isinstance(extra, dict)
    return tuple(_listed(extra if has_newer else said.get(_ADDITIONAL)))


def _listed(values: Any) -> Iterator[Token]:
    for value in values if isinstance(values, list) else ():
        # Old files have objects that do not say that they are special, as the list does.
        token = _token_or_none({"special": True, **value} if isinstance(value, dict) else value)
        if token is not None:
            yield token


def _token_or_none(value: Any) -> Token | None:
    if isinstance(value, str):
        return value or None
    return _token(value) if isinstance(value, dict) and content_of(value) else None


def _token(value: Mapping[str, Any]) -> AddedToken:
    """An added token as JSON has it; what is left out is as in the library."""
    flags = {flag: bool(value[flag]) for flag in _FLAGS if flag in value}
    return AddedToken(value["content"], **flags)


def _special(token: Token, named: set[str]) -> AddedToken:
    """``token`` as it is added: special if it has a name."""
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if token.special or token.content not in named:
        return token
    flags = {flag: getattr(token, flag) for flag in _FLAGS}
    return AddedToken(token.content, **{**flags, "special": True})


def _text(token: Token) -> str:
    return token if isinstance(token, str) else token.content
