"""The added tokens that files beside a ``tokenizer.json`` declare.

In: the parsed files. Out: :class:`DeclaredTokens`: the tokens that are added when a folder is
loaded, in order and with their flags. The loader and preflight both use it, so they agree.

The rules are those of transformers 5 (``tokenization_utils_base.py`` and
``tokenization_utils_tokenizers.py``, the same from 5.0 to 5.24), found by reading it and by
comparing (``scripts/make_tokenizer_config_goldens.py``).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tokenizers import AddedToken

from streamdec.folders.tokenizer_config import ROLES, content_of

DECLARED = "added_tokens_decoder"
"""The key of added tokens by id in ``tokenizer_config.json``."""
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_EXTRA = "extra_special_tokens"
_ADDITIONAL = "additional_special_tokens"

Token = AddedToken
"""An added token with its flags, for modules that do not know the library."""
TextOrToken = str | AddedToken


@dataclass(frozen=True, slots=True)
class DeclaredTokens:
    """The tokens that the files declare."""

    declared: Mapping[int, AddedToken]
    """Tokens by their declared ids."""
    named: Mapping[str, TextOrToken]
    """Tokens that have a role (``eos_token``) or another name."""
    extra: tuple[TextOrToken, ...]
    """Special tokens without a name."""

    def names(self) -> dict[str, str]:
        """Return the text of each named token."""
        return {name: _text(token) for name, token in self.named.items()}

    def to_add(
        self,
        present: Container[str],
        *,
        flags: Mapping[str, Mapping[str, bool]] | None = None,
        again: Literal["", "given", "plain"] = "",
    ) -> list[AddedToken]:
        """Return the tokens to add, in order, to a tokenizer with the tokens ``present``.

        All declared tokens are added again, so the last one of a text decides its flags.

        Args:
            present: The texts of the added tokens that are there already.
            flags: The flags of role tokens that the files give as strings, by role.
            again: Whether the class adds all special tokens once more, with the flags that the
                files give or with plain ones.
        """
        found: list[TextOrToken] = [token for _, token in sorted(self.declared.items())]
        declared = {_text(token) for token in found}
        named = {
            name: AddedToken(token, **flags[name])
            if flags and name in flags and isinstance(token, str)
            else token
            for name, token in self.named.items()
        }
        # A string is not equal to an object with that text, so both may occur.
        others = [*dict.fromkeys((*named.values(), *self.extra))]
        found += [t for t in others if _text(t) not in declared and _text(t) not in present]
        special = set(self.names().values())
        added = [_as_added(token, special) for token in found]
        if again:
            special |= {_text(token) for token in self.extra}
            if again == "plain":
                others = [*dict.fromkeys(map(_text, others))]
            added += [_as_added(token, special) for token in others]
        return added


def declared_tokens(
    config: Mapping[str, Any],
    declared: Mapping[int, AddedToken] | None,
    special_map: Mapping[str, Any],
    legacy: Mapping[str, int],
    own: Mapping[int, AddedToken],
    *,
    defaults: Mapping[str, str] | None = None,
) -> DeclaredTokens:
    """Combine the files.

    Args:
        config: ``tokenizer_config.json``.
        declared: Its ``added_tokens_decoder``, or None if it has none. The next three arguments are
            used only if this one is None.
        special_map: ``special_tokens_map.json``.
        legacy: ``added_tokens.json``, ids by text.
        own: The added tokens of ``tokenizer.json`` by id.
        defaults: The tokens of the tokenizer class for roles that the files do not declare.
    """
    said = dict(config)
    if _ADDITIONAL in said and not said.get(_EXTRA):
        said[_EXTRA] = said.pop(_ADDITIONAL)
    if declared is None:
        said |= _of_map(special_map, said)
        declared = {**dict(_of_legacy(legacy, said)), **own}
    with_defaults = {**(defaults or {}), **said}
    roles = _tokens({role: with_defaults.get(role) for role in ROLES})
    by_text = {token.content: token for token in declared.values()}
    named = {role: by_text.get(_text(token), token) for role, token in roles.items()}
    return DeclaredTokens(declared, named | _other_names(said), _extra(said))


def added_token(value: Mapping[str, Any]) -> AddedToken:
    """Return an added token from JSON; missing flags have the library's defaults."""
    flags = {flag: bool(value[flag]) for flag in FLAGS if flag in value}
    return AddedToken(value["content"], **flags)


def _of_legacy(
    legacy: Mapping[str, int], said: Mapping[str, Any]
) -> Iterator[tuple[int, AddedToken]]:
    """Yield tokens and ids; tokens with a role and extra tokens are special.

    As in transformers, typed objects of the config do not count.
    """
    extra = said.get(_EXTRA)
    values = [*map(said.get, ROLES), *(extra if isinstance(extra, list) else ())]
    special = {
        content_of(value) for value in values if not (isinstance(value, dict) and "__type" in value)
    }
    for text, token_id in legacy.items():
        is_special = text in special
        yield token_id, AddedToken(text, normalized=not is_special, special=is_special)


def _of_map(special_map: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``special_tokens_map.json`` in the form of the config."""
    found: dict[str, Any] = {}
    for key, value in special_map.items():
        if key == _EXTRA and isinstance(value, list):
            before = said.get(key)
            value = [*(before if isinstance(before, list) else []), *value]
        elif isinstance(value, dict) and key != _EXTRA:
            value = {**value, "special": True}
        found[key] = value
    return found


def _tokens(values: Mapping[str, Any]) -> dict[str, TextOrToken]:
    found = {name: _token_or_none(value) for name, value in values.items()}
    return {name: token for name, token in found.items() if token is not None}


def _other_names(said: Mapping[str, Any]) -> dict[str, TextOrToken]:
    """Return other keys that end in ``_token``, and named extra tokens."""
    extra = said.get(_EXTRA)
    other = {key: said[key] for key in said if key.endswith("_token") and key not in ROLES}
    return _tokens(other | (extra if isinstance(extra, dict) else {}))


def _extra(said: Mapping[str, Any]) -> tuple[TextOrToken, ...]:
    """Return the extra tokens without a name; older files call them additional."""
    extra = said.get(_EXTRA)
    has_newer = _EXTRA in said and not isinstance(extra, dict)
    return tuple(_listed(extra if has_newer else said.get(_ADDITIONAL)))


def _listed(values: Any) -> Iterator[TextOrToken]:
    for value in values if isinstance(values, list) else ():
        # In old files the objects do not say that they are special; the list does.
        token = _token_or_none({"special": True, **value} if isinstance(value, dict) else value)
        if token is not None:
            yield token


def _token_or_none(value: Any) -> TextOrToken | None:
    if isinstance(value, str):
        return value or None
    return added_token(value) if isinstance(value, dict) and content_of(value) else None


def _as_added(token: TextOrToken, special: Container[str]) -> AddedToken:
    """``token`` as it is added: special if it has a name."""
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if token.special or token.content not in special:
        return token
    flags = {flag: getattr(token, flag) for flag in FLAGS}
    return AddedToken(token.content, **{**flags, "special": True})


def without_flag(token: AddedToken, flag: str) -> AddedToken:
    """Return a copy of ``token`` without ``flag``."""
    flags = {name: getattr(token, name) and name != flag for name in FLAGS}
    return AddedToken(token.content, **flags)


def _text(token: TextOrToken) -> str:
    return token if isinstance(token, str) else token.content
