"""The special and added tokens of a folder: the one resolver for every format.

In: the files beside a tokenizer (``tokenizer_config.json`` and its like). Out: the tokenizer class
that transformers 5 would choose, the tokens that the files declare, and the token of each role.
Loading, chat templates and ``streamdec.preflight`` all use :func:`resolve`, so they agree.

The rules are those of transformers 5 (``tokenization_utils_base.py`` and
``tokenization_utils_tokenizers.py``, the same from 5.0 to 5.24), found by reading it and by
comparing (``scripts/make_tokenizer_config_goldens.py``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from streamdec.errors import TokenizerLoadError
from streamdec.folders.class_pipelines import Pipeline, pipeline_of
from streamdec.folders.tokenizer_class import GENERIC, Chosen, auto_map_of, choose_class
from streamdec.folders.tokenizer_config import (
    ADDED_TOKENS,
    CONFIG,
    ROLES,
    SPECIAL_TOKENS_MAP,
    content_of,
    object_or_empty,
    read_object,
)
from streamdec.tokenizers._common import MAX_ID, guarded
from streamdec.tokenizers.folder_files import read_bounded

DECLARED = "added_tokens_decoder"
"""The key of added tokens by id in ``tokenizer_config.json``."""
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
_EXTRA = "extra_special_tokens"
_ADDITIONAL = "additional_special_tokens"
_PADDING = re.compile(
    rb'"padding"\s*:\s*\{(?:[^{}]|\{[^{}]*\})*?"pad_token"\s*:\s*("(?:[^"\\]|\\.)*")'
)

Token = AddedToken
"""An added token with its flags, for modules that do not know the library."""
TextOrToken = str | AddedToken


@dataclass(frozen=True, slots=True)
class FolderTokens:
    """The tokenizer class and the tokens that the files of a folder declare."""

    chosen: Chosen
    """The tokenizer class."""
    declared: Mapping[int, AddedToken]
    """Tokens by their declared ids."""
    named: Mapping[str, TextOrToken]
    """Tokens that have a role (``eos_token``) or another name."""
    extra: tuple[TextOrToken, ...]
    """Special tokens without a name."""
    has_list: bool = False
    """Whether the configuration lists them, maybe as an empty list."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """``tokenizer_config.json``; empty without one."""
    files: tuple[str, ...] = ()
    """The names of the files that declare tokens."""

    @property
    def is_remote(self) -> bool:
        """Whether code of the folder makes the tokenizer."""
        return self.chosen.cls is None

    @property
    def how(self) -> str:
        """How the class makes its tokenizer; empty if code of the folder does."""
        return "" if self.chosen.cls is None else self.chosen.cls.how

    @property
    def is_built(self) -> bool:
        """Whether the class builds the tokenizer from vocabulary and declared tokens."""
        return self.how in ("builds", "builds-special")

    @property
    def is_made(self) -> bool:
        """Whether the class builds the tokenizer or a part of it."""
        return self.is_built or self.how == "inherits"

    @property
    def pipeline(self) -> Pipeline | None:
        """What the class builds; None if it builds nothing or cannot be followed.

        A class that inherits only gives a ``tokenizer.json`` another post-processor.
        """
        return pipeline_of(self.chosen.name) if self.is_made else None

    @property
    def code(self) -> str:
        """The module and class that ``auto_map`` names."""
        return " ".join(auto_map_of(self.config))

    @property
    def texts(self) -> dict[str, str]:
        """The text of each named token."""
        return {name: _text(token) for name, token in self.named.items()}

    @property
    def roles(self) -> dict[str, str]:
        """The token of each role, such as ``eos_token``."""
        return {name: text for name, text in self.texts.items() if name in ROLES}

    def to_add(self, present: Container[str]) -> list[AddedToken]:
        """Return the tokens to add to a tokenizer with the added tokens ``present``.

        All declared tokens are added again, so the last one of a text decides its flags.
        """
        data = self.pipeline or {}
        flags = data.get("flags", {})  # of the role tokens that the files give as strings
        found: list[TextOrToken] = [token for _, token in sorted(self.declared.items())]
        declared = set(map(_text, found))
        named = [
            AddedToken(token, **flags[name]) if name in flags and isinstance(token, str) else token
            for name, token in self.named.items()
        ]
        # A string is not equal to an object with that text, so both may occur.
        others = [*dict.fromkeys((*named, *self.extra))]
        found += [t for t in others if _text(t) not in declared and _text(t) not in present]
        special = set(self.texts.values())
        added = [_as_added(token, special) for token in found]
        # Some classes add all special tokens once more, with the flags of the files or plain ones.
        again = data.get("adds_again", "given" if self.how == "builds-special" else "")
        if again:
            special |= set(map(_text, self.extra))
            if again == "plain":
                others = [*dict.fromkeys(map(_text, others))]
            added += [_as_added(token, special) for token in others]
        return added

    def by_id(self) -> dict[int, AddedToken]:
        """Return the tokens with a declared id, special if they have a name."""
        special = set(self.texts.values())
        declared = sorted(self.declared.items())
        by_text = {token.content: _as_added(token, special) for _, token in declared}
        return {i: by_text[token.content] for i, token in declared}


def resolve(
    config: Mapping[str, Any],
    model_config: Mapping[str, Any],
    declared: Mapping[int, AddedToken] | None,
    special_map: Mapping[str, Any],
    legacy: Mapping[str, int],
    own: Mapping[int, AddedToken],
    *,
    content: bytes,
    files: tuple[str, ...] = (),
    model_roles: Mapping[str, str] | None = None,
) -> FolderTokens:
    """Combine the parsed files.

    Args:
        config: ``tokenizer_config.json``.
        model_config: ``config.json``.
        declared: The ``added_tokens_decoder`` of ``config``, or None if it has none. The next three
            arguments are used only if this one is None.
        special_map: ``special_tokens_map.json``.
        legacy: ``added_tokens.json``, ids by text.
        own: The added tokens of ``tokenizer.json`` by id.
        content: ``tokenizer.json``; empty without one.
        files: The names of the files, for messages.
        model_roles: Role tokens that the model's own file names.
    """
    chosen = choose_class(config, model_config, is_byte_level=b'"ByteLevel"' in content)
    said = {key: value for key, value in config.items() if not _is_ignored(key, value)}
    if _ADDITIONAL in said and not said.get(_EXTRA):
        said[_EXTRA] = said.pop(_ADDITIONAL)
    if declared is None:
        said |= _of_map(special_map, said)
        copies = {i: copy_of(token) for i, token in own.items()}  # the caller's keep their flags
        declared = {**dict(_of_legacy(legacy, said)), **copies}
    defaults = (chosen.cls is not None and chosen.cls.roles) or model_roles or {}
    defaults = {**_of_padding(content), **defaults}
    by_text = {token.content: token for token in declared.values()}
    roles = _tokens((role, said.get(role, defaults.get(role))) for role in ROLES)
    named: dict[str, TextOrToken] = {
        role: by_text.get(_text(token), token) for role, token in roles.items()
    }
    other = {key: said[key] for key in said if key.endswith("_token") and key not in ROLES}
    if isinstance(said.get(_EXTRA), dict):  # they have names
        other |= said[_EXTRA]
    named |= _tokens(other.items())
    has_list = _EXTRA in said and not isinstance(said[_EXTRA], dict)
    extra = _extra(said[_EXTRA] if has_list else said.get(_ADDITIONAL))
    return FolderTokens(chosen, declared, named, extra, has_list, config, files)


def _is_ignored(key: str, value: Any) -> bool:
    """Whether transformers ignores the token ``key`` of a configuration."""
    is_object = isinstance(value, dict) and "__type" not in value
    return is_object and key.endswith("_token") and key not in ROLES


def added_token(value: Mapping[str, Any]) -> AddedToken:
    """Return an added token from JSON; missing flags have the library's defaults."""
    flags = {flag: bool(value[flag]) for flag in _FLAGS if flag in value}
    return AddedToken(value["content"], **flags)


def copy_of(token: AddedToken, **changes: bool) -> AddedToken:
    """Return a copy of ``token`` with other flags."""
    flags = {name: getattr(token, name) for name in _FLAGS}
    return AddedToken(token.content, **{**flags, **changes})


def keep_skipped(tokenizer: Tokenizer, tokens: list[AddedToken]) -> None:
    """Make ``tokenizer`` skip ``tokens``, which it has, and leave their flags as they are.

    The library skips an ordinary token that was added as special before, but its copies do not.
    """
    if tokens:
        guarded(tokenizer.add_tokens, [AddedToken(t.content, special=True) for t in tokens])
        guarded(tokenizer.add_tokens, tokens)


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
            special = ({**t, "special": True} if isinstance(t, dict) else t for t in value)
            value = [*(before if isinstance(before, list) else []), *special]
        elif isinstance(value, dict) and key != _EXTRA:
            value = {**value, "special": True}
        found[key] = value
    return found


def _of_padding(content: bytes) -> dict[str, str]:
    """Return the token with which ``tokenizer.json`` pads: the default of ``pad_token``."""
    found = _PADDING.search(content)
    if found:
        with suppress(ValueError):
            return {"pad_token": json.loads(found[1], strict=False)}
    return {}


def _extra(listed: Any) -> tuple[TextOrToken, ...]:
    """Return the extra tokens without a name; older files call them additional."""
    # In old files the objects have no type and do not say that they are special; the list does.
    tokens = (
        _token_or_none(
            {"special": "__type" not in value, **value} if isinstance(value, dict) else value
        )
        for value in (listed if isinstance(listed, list) else ())
    )
    return tuple(token for token in tokens if token is not None)


def _tokens(values: Iterable[tuple[str, Any]]) -> dict[str, TextOrToken]:
    found = ((name, _token_or_none(value)) for name, value in values)
    return {name: token for name, token in found if token is not None}


def _token_or_none(value: Any) -> TextOrToken | None:
    if isinstance(value, str):
        return value or None
    return added_token(value) if isinstance(value, dict) and content_of(value) else None


def _as_added(token: TextOrToken, special: Container[str]) -> AddedToken:
    """``token`` as it is added: special if it has a name."""
    if isinstance(token, str):
        return AddedToken(token, special=True)
    if token.content in special:
        token.special = True  # it is then not normalized, unless the file says so
    return token


def _text(token: TextOrToken) -> str:
    return token if isinstance(token, str) else token.content


# --- reading --------------------------------------------------------------------------------------


def has_config(folder: Path) -> bool:
    """Return whether files in ``folder`` say something about tokens, or name their class."""
    tokens = read_folder(folder)
    return bool(tokens.files or tokens.chosen.unknown) or tokens.chosen.name != GENERIC


def read_folder(
    folder: Path,
    own: Mapping[int, AddedToken] | None = None,
    *,
    content: bytes | None = None,
    model_roles: Mapping[str, str] | None = None,
) -> FolderTokens:
    """Read the files in ``folder`` and resolve them.

    The other arguments are as for :func:`resolve`. If ``content`` is None, it is read here.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the file, if a file is malformed.
    """
    if content is None:
        content = _content(folder / "tokenizer.json")
    config = read_object(folder, CONFIG)
    has_declared = config is not None and DECLARED in config
    names = () if has_declared else (SPECIAL_TOKENS_MAP, ADDED_TOKENS)
    beside = {name: read_object(folder, name) for name in names}
    files = [name for name, said in {CONFIG: config, **beside}.items() if said is not None]
    where = folder / (CONFIG if has_declared else ADDED_TOKENS)
    config, legacy = config or {}, beside.get(ADDED_TOKENS) or {}
    try:
        _check_ids(legacy)
        tokens = resolve(
            config,
            object_or_empty(folder, "config.json"),  # the model's, so it may be malformed
            dict(_declared(config[DECLARED])) if has_declared else None,
            beside.get(SPECIAL_TOKENS_MAP) or {},
            legacy,
            own or {},
            content=content,
            files=tuple(files),
            model_roles=model_roles,
        )
        tokens.to_add(())  # raises for text that cannot be a token
    except UnicodeEncodeError as error:
        where = folder / (files[0] if len(files) == 1 else "")
        what = f"{error.object[:60]!r} is not valid Unicode; a token must be"
        raise TokenizerLoadError(f"{str(where)!r}: {what}") from error
    except ValueError as error:
        raise TokenizerLoadError(f"{str(where)!r}: {error}") from error
    return tokens


def _content(path: Path) -> bytes:
    with suppress(TokenizerLoadError):
        return read_bounded(path) if path.is_file() else b""
    return b""


def _declared(tokens: Any) -> Iterator[tuple[int, AddedToken]]:
    """Yield the tokens of an ``added_tokens_decoder``.

    Raises ValueError if it is malformed.
    """
    if not isinstance(tokens, dict):
        raise ValueError(f"{DECLARED} must be an object, not {type(tokens).__name__}")
    for key, token in tokens.items():
        if not (key.isascii() and key.isdigit() and len(key) <= 10 and int(key) <= MAX_ID):
            raise ValueError(f"{DECLARED}: {key!r:.40} is not a token id")
        if not isinstance(token, dict) or not content_of(token):
            raise ValueError(f"{DECLARED}: id {key} has no content")
        yield int(key), added_token(token)


def _check_ids(legacy: Mapping[str, Any]) -> None:
    """Raise ValueError if a value of ``added_tokens.json`` is not an id."""
    for text, token_id in legacy.items():
        if type(token_id) is not int or not 0 <= token_id <= MAX_ID:
            expected = f"an integer from 0 to {MAX_ID}"
            raise ValueError(f"the id of {text!r:.60} must be {expected}, not {token_id!r:.60}")
