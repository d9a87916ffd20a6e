"""The tokens of a snapshot after loading with transformers 5: roles and ids.

In: a :class:`Snapshot`. Out: :class:`Tokens`: the token of each role and the file that declares it,
the added tokens as each file declares them and after loading, and the ids of texts.

The files beside ``tokenizer.json`` are resolved by the same code as when a tokenizer is loaded
(``streamdec.folders.folder_tokens``). The tokenizer class matters too (transformers 5.24.0,
``tokenization_utils_base.py``, ``tokenization_utils_tokenizers.py``):

- The class may have tokens for roles that the files do not declare.
- A class that builds its tokenizer from the vocabulary has only the declared tokens. It may make
  all tokens special that the files call special.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeGuard

from streamdec.errors import TokenizerLoadError
from streamdec.folders.added_vocabulary import AddedVocabulary, Token, takes_long
from streamdec.folders.declared_tokens import DeclaredTokens, added_token
from streamdec.folders.folder_tokens import FolderTokens, resolve
from streamdec.folders.tokenizer_class import Chosen
from streamdec.folders.tokenizer_config import content_of
from streamdec.locks import cached_property
from streamdec.preflight.loaded_tokens import LoadedTokens
from streamdec.preflight.snapshot import Snapshot
from streamdec.tokenizers import trial

MAX_ID = 2**32 - 1
MAX_ADDED = 100_000
MAX_ADDED_TEXT = 2**21
"""The most added tokens, and characters of them, for which a tokenizer is built. The library takes
20 µs for each token, and 80 bytes for each character. Known tokenizers have up to 6,500."""
MAX_NAMED = 1_000
"""The most tokens with a name in a report; Gemma 4 has more than 20."""
_OTHERS = re.compile(
    r"(?:tokenizer|spiece|sentencepiece|sentencepiece\.bpe|source|target)\.(?:model|spm|bpe\.model)"
    r"|tokenizer\.model\.v.*|tekken\.json|vocab\.(?:json|txt|model)|.*\.tiktoken|tiktoken\.model"
    r"|bpe\.codes"
)


@dataclass(frozen=True, slots=True)
class Role:
    """A token with a role, such as ``eos_token``."""

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
    """The id of a text. ``id`` is None and ``resolved`` is False if it is unknown."""

    id: int | None
    resolved: bool
    source: str
    """The file that was searched."""


@dataclass
class Tokens:
    """The tokens that the files declare."""

    snapshot: Snapshot
    refused: str = field(default="", init=False)
    """Why the library cannot read ``tokenizer.json``; empty if it can."""

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """``tokenizer_config.json``; empty without one."""
        return self.snapshot.object("tokenizer_config.json") or {}

    @property
    def chosen(self) -> Chosen:
        """The tokenizer class."""
        return self.resolved.chosen

    # --- as declared ------------------------------------------------------------------------------

    @cached_property
    def decoder(self) -> Any:
        """The value of ``added_tokens_decoder``; None without one."""
        return self.config.get("added_tokens_decoder")

    @property
    def has_decoder(self) -> bool:
        """Whether ``tokenizer_config.json`` has one: other files are not read then."""
        return "added_tokens_decoder" in self.config

    @cached_property
    def declared(self) -> list[Entry]:
        """The entries of ``added_tokens_decoder`` by id, without malformed ones."""
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
        """``added_tokens.json``: texts to ids.

        It counts only without ``added_tokens_decoder``.
        """
        found = self.snapshot.object("added_tokens.json") or {}
        return {text: i for text, i in found.items() if is_id(i) and text}

    @cached_property
    def json(self) -> dict[str, Any] | None:
        """``tokenizer.json`` as JSON, without its merges; None if it cannot be read."""
        found = self.snapshot.object("tokenizer.json")
        model = (found or {}).get("model")
        if isinstance(model, dict) and "merges" in model:
            model["merges"] = []  # half of its memory, given back before the library takes as much
        return found

    @cached_property
    def special_map(self) -> Mapping[str, Any]:
        """``special_tokens_map.json``; empty without one."""
        return self.snapshot.object("special_tokens_map.json") or {}

    @cached_property
    def said(self) -> dict[str, tuple[Any, str]]:
        """The effective value of each key, and the file that declares it."""
        found = {key: (value, "tokenizer_config.json") for key, value in self.config.items()}
        if not self.has_decoder:
            for key, value in self.special_map.items():
                found[key] = (value, "special_tokens_map.json")
        return found

    @cached_property
    def resolved(self) -> FolderTokens:
        """The files beside ``tokenizer.json``, resolved as when a tokenizer is loaded."""
        return resolve(
            self.config,
            self.snapshot.object("config.json") or {},
            {entry.id: entry.token for entry in self.declared} if self.has_decoder else None,
            self.special_map,
            self.legacy,
            {entry.id: entry.token for entry in self.own},
            is_byte_level=b'"ByteLevel"' in (self.snapshot.content("tokenizer.json") or b""),
        )

    @property
    def beside(self) -> DeclaredTokens:
        """The declared tokens, and those with a name."""
        return self.resolved.beside

    @cached_property
    def roles(self) -> dict[str, Role]:
        """The tokens of the seven roles, then those of other names in the files."""
        key = "extra_special_tokens"
        if not self.said.get(key, (None, ""))[0]:
            key = "additional_special_tokens"  # which is read as the other one then
        extra, source_of_extra = self.said.get(key, (None, ""))
        found: dict[str, Role] = {}
        for name, text in islice(self.beside.names().items(), MAX_NAMED):
            _, source = self.said.get(name, (None, ""))
            pointer = f"/{_escaped(name)}" if source else ""
            if isinstance(extra, dict) and content_of(extra.get(name)) == text:
                source, pointer = source_of_extra, f"/{key}/{_escaped(name)}"
            found[name] = Role(name, text, source or f"class {self.chosen.name}", pointer)
        return found

    # --- after loading ----------------------------------------------------------------------------

    @property
    def other_vocabularies(self) -> list[str]:
        """Other files from which a tokenizer can be made."""
        return sorted(name for name in self.snapshot.names if _OTHERS.fullmatch(name))

    @property
    def is_remote(self) -> bool:
        """Whether code of the snapshot makes the tokenizer."""
        return self.resolved.is_remote

    @property
    def is_built(self) -> bool:
        """Whether the tokenizer is built from the vocabulary and declared tokens alone."""
        return self.resolved.is_built

    @cached_property
    def bare(self) -> AddedVocabulary | None:
        """``tokenizer.json`` alone, as the library reads it; None without a readable one."""
        if self.json is None:
            return None
        texts = [entry.content for entry in self.own]
        texts += [token.content for token in self.to_add()]
        if len(texts) > MAX_ADDED:
            self.refused = f"more than {MAX_ADDED:,} added tokens"
            return None
        if sum(map(len, texts)) > MAX_ADDED_TEXT:
            self.refused = f"added tokens of more than {MAX_ADDED_TEXT:,} characters"
            return None
        if takes_long(texts):
            self.refused = "added tokens so long that tokenizers before 0.23 needs minutes for them"
            return None
        content = self.snapshot.content("tokenizer.json") or b""
        try:
            trial.try_content(content)
            return AddedVocabulary(content)
        except TokenizerLoadError as error:
            self.refused = str(error)[:300]
            return None

    @cached_property
    def loaded(self) -> LoadedTokens | None:
        """The same after transformers applied the other files."""
        if self.bare is None:
            return None
        loaded = LoadedTokens(
            self.bare, self._model_ids(), {} if self.is_built else self.bare.added()
        )
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

    def to_add(self) -> list[Token]:
        """Return the tokens that transformers adds, in its order."""
        present = () if self.is_built else {entry.content for entry in self.own}
        return self.resolved.to_add(present)

    @cached_property
    def added(self) -> dict[int, tuple[str, bool]]:
        """Each added token after loading: its text, and whether it is special."""
        if self.loaded is not None and not self.is_remote:
            return dict(sorted(self.loaded.added.items()))
        special = {role.text for role in self.roles.values()}
        declared = self.beside.declared.items()
        return {
            i: (token.content, token.special or token.content in special)
            for i, token in sorted(declared)
        }

    def resolve(self, text: str) -> Resolved:
        """Return the id of a token's text after loading."""
        if self.loaded is not None and not self.is_remote:
            found = self.loaded.id_of(text)
            return Resolved(found, found is not None, "tokenizer.json")
        source = "tokenizer_config.json" if self.has_decoder else "added_tokens.json"
        if not self.has_decoder and not self.legacy and self.own:
            source = "tokenizer.json"
        token_id = self._first_ids.get(text)
        return Resolved(token_id, token_id is not None, source)

    @cached_property
    def _first_ids(self) -> dict[str, int]:
        """Added tokens to the lowest id of each."""
        return {text: i for i, (text, _) in sorted(self.added.items(), reverse=True)}

    def text_of(self, token_id: int) -> str | None:
        """Return the text of an id; None if it is unknown."""
        if token_id in self.added:
            return self.added[token_id][0]
        return self.loaded.text_of(token_id) if self.loaded is not None else None

    @property
    def knows_all_ids(self) -> bool:
        """Whether the text of every id of the tokenizer is known."""
        return self.loaded is not None and not self.is_remote


def is_id(value: object) -> TypeGuard[int]:
    """Return whether ``value`` is an integer that can be a token id."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID


def _entry(key: object, value: object, pointer: str) -> Entry | None:
    """Return an added token; None if the entry is malformed."""
    if isinstance(key, str):
        is_number = key.isascii() and key.isdigit() and len(key) <= 10
        key = int(key) if is_number else None
    if not is_id(key) or not isinstance(value, dict) or not content_of(value):
        return None
    return Entry(key, added_token(value), pointer)


def _escaped(key: str) -> str:
    """Return a key as part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
