"""The tokens of a snapshot as transformers 5 has them after loading: roles, added tokens, ids.

In: a :class:`Snapshot`. Out: :class:`Tokens`: which token has which role and which file said so,
the added tokens as each file declares them and as they are after loading, and texts turned to ids.

The rules, in the order in which they win (transformers 5.23.0, ``tokenization_utils_base.py`` and
``tokenization_utils_tokenizers.py``):

- Roles: ``special_tokens_map.json``, only where ``added_tokens_decoder`` is absent; then
  ``tokenizer_config.json``; then what the tokenizer class has by itself.
- Added tokens: those of ``tokenizer.json``; over them ``added_tokens_decoder``, whose flags win and
  whose unknown texts are appended; then the roles, made special; then the extra tokens.
  ``added_tokens.json`` counts only where ``added_tokens_decoder`` is absent.
- A class that builds its tokenizer from the vocabulary alone has the declared tokens only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from streamdec.backends.added_vocabulary import AddedVocabulary, Token
from streamdec.backends.tokenizer_config import ROLES, content_of
from streamdec.errors import TokenizerLoadError
from streamdec.preflight.loaded_tokens import LoadedTokens
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.tokenizer_class import Chosen, choose_class

__all__ = ["Entry", "Resolved", "Role", "Tokens", "is_id"]

MAX_ID = 2**32 - 1
MAX_ADDED = 100_000
"""Added tokens, beyond which a tokenizer is not built: the library takes 20 µs for each."""
_OTHERS = re.compile(
    r"(?:tokenizer|spiece|sentencepiece|sentencepiece\.bpe|source|target)\.(?:model|spm|bpe\.model)"
    r"|tokenizer\.model\.v.*|tekken\.json|vocab\.(?:json|txt|model)|.*\.tiktoken|tiktoken\.model"
    r"|bpe\.codes"
)
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass(frozen=True, slots=True)
class Role:
    """A token with a role, as ``eos_token``."""

    name: str
    text: str
    source: str
    """The file, or ``class`` and its name for a default."""
    pointer: str


@dataclass(frozen=True, slots=True)
class Entry:
    """An added token as a file declares it."""

    id: int
    token: Token
    pointer: str

    @property
    def content(self) -> str:
        """Its text."""
        return self.token.content

    @property
    def special(self) -> bool:
        """Whether ``skip_special_tokens`` leaves it out."""
        return self.token.special


@dataclass(frozen=True, slots=True)
class Resolved:
    """A text as an id. ``id`` is None and ``resolved`` False where the files cannot tell it."""

    id: int | None
    resolved: bool
    source: str
    """The file it was found in, or was looked for in."""


@dataclass
class Tokens:
    """All that the files say of tokens."""

    snapshot: Snapshot
    refused: str = field(default="", init=False)
    """Why the library does not read ``tokenizer.json``; empty if it does."""

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """``tokenizer_config.json``; empty without one."""
        return self.snapshot.object("tokenizer_config.json") or {}

    @cached_property
    def chosen(self) -> Chosen:
        """The tokenizer class."""
        content = self.snapshot.content("tokenizer.json") or b""
        config = self.snapshot.object("config.json") or {}
        return choose_class(self.config, config, is_byte_level=b'"ByteLevel"' in content)

    # --- as declared ------------------------------------------------------------------------------

    @cached_property
    def decoder(self) -> Any:
        """``added_tokens_decoder`` as it is; None without one."""
        return self.config.get("added_tokens_decoder")

    @property
    def has_decoder(self) -> bool:
        """Whether ``tokenizer_config.json`` has one: other files are not read then."""
        return "added_tokens_decoder" in self.config

    @cached_property
    def declared(self) -> list[Entry]:
        """The entries of ``added_tokens_decoder``, by id; what is malformed is left out."""
        if not isinstance(self.decoder, dict):
            return []
        found = (
            _entry(key, value, f"/added_tokens_decoder/{_escaped(key)}")
            for key, value in self.decoder.items()
        )
        return sorted((e for e in found if e is not None), key=lambda entry: entry.id)

    @cached_property
    def own(self) -> list[Entry]:
        """The added tokens that ``tokenizer.json`` lists, in its order."""
        listed = (self.json or {}).get("added_tokens")
        found = (
            _entry(value.get("id"), value, f"/added_tokens/{index}")
            for index, value in enumerate(listed if isinstance(listed, list) else ())
            if isinstance(value, dict)
        )
        return [entry for entry in found if entry is not None]

    @cached_property
    def legacy(self) -> dict[str, int]:
        """``added_tokens.json``: texts to ids. Read only where the decoder is absent."""
        found = self.snapshot.object("added_tokens.json") or {}
        return {text: i for text, i in found.items() if is_id(i) and text}

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """``tokenizer.json``, as JSON; None if it cannot be read."""
        return self.snapshot.object("tokenizer.json")

    @cached_property
    def special_map(self) -> Mapping[str, Any]:
        """``special_tokens_map.json``; empty without one."""
        return self.snapshot.object("special_tokens_map.json") or {}

    @cached_property
    def said(self) -> dict[str, tuple[Any, str]]:
        """What is said under each key, and by which file, once precedence is applied."""
        found = {key: (value, "tokenizer_config.json") for key, value in self.config.items()}
        if not self.has_decoder:
            for key, value in self.special_map.items():
                found[key] = (value, "special_tokens_map.json")
        return found

    @cached_property
    def roles(self) -> dict[str, Role]:
        """The seven roles, then those that a snapshot names itself, each with its token."""
        found: dict[str, Role] = {}
        defaults = self.chosen.cls.roles if self.chosen.cls is not None else {}
        for name in ROLES:
            value, source = self.said.get(name, (None, ""))
            if name in self.said:
                text = content_of(value)
            else:
                text, source = defaults.get(name), f"class {self.chosen.name}"
            if text:
                found[name] = Role(name, text, source, f"/{name}" if name in self.said else "")
        for name, (value, source) in self.said.items():
            if name.endswith("_token") and name not in ROLES and isinstance(value, str) and value:
                found[name] = Role(name, value, source, f"/{_escaped(name)}")
        extra, source = self.said.get("extra_special_tokens", (None, ""))
        for name, value in extra.items() if isinstance(extra, dict) else ():
            if text := content_of(value):
                found[name] = Role(name, text, source, f"/extra_special_tokens/{_escaped(name)}")
        return found

    @cached_property
    def extra(self) -> list[Token]:
        """The tokens that are named special and have no role."""
        listed = self.listed("extra_special_tokens") or self.listed("additional_special_tokens")
        return [_token(v, special=True) for v in listed if content_of(v)]

    def listed(self, key: str) -> list[Any]:
        """The list under a key; empty if there is none."""
        value, _ = self.said.get(key, (None, ""))
        return value if isinstance(value, list) else []

    # --- after loading ----------------------------------------------------------------------------

    @property
    def other_vocabularies(self) -> list[str]:
        """Files of which a tokenizer can be made where there is no ``tokenizer.json``."""
        return sorted(name for name in self.snapshot.names if _OTHERS.fullmatch(name))

    @property
    def is_remote(self) -> bool:
        """Whether code of the snapshot makes the tokenizer."""
        return self.chosen.cls is None

    @cached_property
    def bare(self) -> AddedVocabulary | None:
        """``tokenizer.json`` alone, as the library reads it; None without a readable one."""
        if self.json is None:
            return None
        if len(self.own) + len(self.declared) > MAX_ADDED:
            self.refused = f"more than {MAX_ADDED:,} added tokens"
            return None
        try:
            return AddedVocabulary(self.snapshot.content("tokenizer.json") or b"")
        except TokenizerLoadError as error:
            self.refused = str(error)[:300]
            return None

    @cached_property
    def loaded(self) -> LoadedTokens | None:
        """The same after transformers has laid the other files over it."""
        if self.bare is None:
            return None
        builds = self.chosen.cls is not None and self.chosen.cls.builds
        loaded = LoadedTokens(self.bare, self._model_ids(), {} if builds else self.bare.added())
        loaded.add(self.to_add())
        return loaded

    def _model_ids(self) -> Mapping[str, int]:
        """The vocabulary of the model in ``tokenizer.json``, without added tokens."""
        model = (self.json or {}).get("model")
        vocabulary = model.get("vocab") if isinstance(model, dict) else None
        if isinstance(vocabulary, dict):
            return vocabulary
        pieces = vocabulary if isinstance(vocabulary, list) else []
        return {piece[0]: i for i, piece in enumerate(pieces) if isinstance(piece, list) and piece}

    def to_add(self) -> Iterator[Token]:
        """What transformers adds, in its order."""
        named = {role.text for role in self.roles.values()}
        if self.chosen.cls is not None and self.chosen.cls.how == "builds-special":
            named |= {token.content for token in self.extra}
        seen = set()
        if self.has_decoder:
            declared = {entry.id: entry.token for entry in self.declared}
            if self.chosen.cls is None or not self.chosen.cls.builds:
                seen = {entry.content for entry in self.own}
        else:
            special = named | {token.content for token in self.extra}
            declared = {i: Token(t, special=t in special) for t, i in self.legacy.items()}
            declared |= {entry.id: entry.token for entry in self.own}
        for _, token in sorted(declared.items()):
            seen.add(token.content)
            yield _as_special(token) if token.content in named else token
        for role in self.roles.values():
            if role.text not in seen:
                seen.add(role.text)
                yield Token(role.text, special=True)
        for token in self.extra:
            if token.content not in seen:
                seen.add(token.content)
                yield token

    @cached_property
    def added(self) -> dict[int, tuple[str, bool]]:
        """Each added token after loading: its text, and whether it is special."""
        if self.loaded is not None and not self.is_remote:
            return dict(sorted(self.loaded.added.items()))
        if self.has_decoder:
            named = {role.text for role in self.roles.values()}
            return {e.id: (e.content, e.special or e.content in named) for e in self.declared}
        special = {role.text for role in self.roles.values()}
        special |= {token.content for token in self.extra}
        legacy = {i: (text, text in special) for text, i in self.legacy.items()}
        return dict(sorted((legacy | {e.id: (e.content, e.special) for e in self.own}).items()))

    def resolve(self, text: str) -> Resolved:
        """The id of a token's text, as transformers has it."""
        if self.loaded is not None and not self.is_remote:
            found = self.loaded.id_of(text)
            return Resolved(found, found is not None, "tokenizer.json")
        source = "tokenizer_config.json" if self.has_decoder else "added_tokens.json"
        if not self.has_decoder and not self.legacy and self.own:
            source = "tokenizer.json"
        ids = [i for i, (content, _) in self.added.items() if content == text]
        return Resolved(ids[0] if ids else None, bool(ids), source)

    def text_of(self, token_id: int) -> str | None:
        """The text of an id; None if the files do not tell it."""
        if token_id in self.added:
            return self.added[token_id][0]
        return self.loaded.text_of(token_id) if self.loaded is not None else None

    @property
    def knows_all_ids(self) -> bool:
        """Whether an id without a text is one that the tokenizer does not have."""
        return self.loaded is not None and not self.is_remote


def is_id(value: object) -> TypeGuard[int]:
    """Whether ``value`` is an integer that can be a token's id."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID


def _entry(key: object, value: object, pointer: str) -> Entry | None:
    """An added token; None if that is none."""
    if isinstance(key, str):
        is_number = key.isascii() and key.isdigit() and len(key) <= 10
        key = int(key) if is_number else None
    if not is_id(key) or not isinstance(value, dict) or not content_of(value):
        return None
    return Entry(key, _token(value), pointer)


def _token(value: Any, *, special: bool = False) -> Token:
    if isinstance(value, str):
        return Token(value, special=special)
    flags = {flag: bool(value[flag]) for flag in _FLAGS if value.get(flag) is not None}
    return Token(value["content"], **{"special": special, **flags})


def _as_special(token: Token) -> Token:
    return Token(
        token.content,
        special=True,
        single_word=token.single_word,
        lstrip=token.lstrip,
        rstrip=token.rstrip,
        normalized=not token.special if token.normalized is None else token.normalized,
    )


def _escaped(key: str) -> str:
    """A key as part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
