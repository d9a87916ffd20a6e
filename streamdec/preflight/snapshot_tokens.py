"""The tokens of a snapshot after loading with transformers 5: roles and ids.

In: a :class:`Snapshot`. Out: :class:`Tokens`: the token of each role and the file that declares it,
the added tokens as each file declares them and after loading, and the ids of texts.

The files beside ``tokenizer.json`` are resolved by the same code as when a tokenizer is loaded
(``streamdec.folders.folder_tokens``). The tokenizer class may have tokens for roles that the files
do not declare. A class that builds its tokenizer from the vocabulary has only the declared tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from streamdec.errors import TokenizerLoadError
from streamdec.folders.assembled import with_pieces
from streamdec.folders.folder_tokens import FolderTokens, Token, added_token, resolve
from streamdec.folders.sentencepiece_proto import ModelProto
from streamdec.folders.tokenizer_class import GENERIC
from streamdec.folders.tokenizer_config import content_of
from streamdec.loading import untrusted
from streamdec.locks import cached_property
from streamdec.preflight.snapshot import Snapshot

MAX_ID = 2**32 - 1
_OF_ANY_CLASS = re.compile(r"tokenizer\.model(?:\.v.*)?|tiktoken\.model|tekken\.json")
_OF_ONE_CLASS = re.compile(
    r"vocab(?:-src)?\.json|vocab\.txt|bpe\.codes|byte_maps\.json|prophetnet\.tokenizer"
    r"|.*\.(?:model|spm|tiktoken)"
)
"""Files from which any class can make a tokenizer, and files that only some classes read."""
_OF_PIECES = frozenset((GENERIC, "LlamaTokenizer", "GemmaTokenizer"))
"""Classes whose tokens are the pieces of a SentencePiece model and those of the files."""
_OF_VOCAB_JSON = re.compile(
    "(Blenderbot|CLIP|CodeGen|Cohere|Deberta|GPT2|GPTNeoX|Herbert|LayoutLMv3|Luke|Nougat|OpenAIGPT"
    "|Qwen2|Roberta|Whisper)Tokenizer"
)
"""Classes that read a ``vocab.json``; those in Python do, too."""


class Role(NamedTuple):
    """A token with a role, such as ``eos_token``.

    ``source`` is the file that declares it, or ``class`` and the class whose default it is.
    """

    text: str
    source: str
    pointer: str


class Entry(NamedTuple):
    """An added token as a file declares it."""

    id: int
    token: Token
    pointer: str


class Vocabulary:
    """The texts and ids of a ``tokenizer.json``, with more tokens added to it.

    The rule is the library's (tokenizers 0.23, ``added_vocabulary.rs``), repeated here because
    loading a large file takes long. An existing text keeps its id and gets the new flags. A new one
    gets the id after the highest added token, or the first after the model's vocabulary.
    """

    def __init__(self, model: Mapping[str, int], tokens: Iterable[Token] = ()) -> None:
        """Begin with the texts and ids of the model, and add ``tokens`` in their order."""
        self.model = model
        self.added: dict[int, tuple[str, bool]] = {}
        """The text of each added token by id, and whether it is special."""
        self._ids: dict[str, int] = {}
        last = -1
        for token in tokens:
            if token.content:
                found = self.id_of(token.content)
                if found is None:
                    found = max(last + 1, len(model))
                last = max(last, found)
                self._ids[token.content] = found
                self.added[found] = (token.content, token.special)

    @cached_property
    def _texts(self) -> dict[int, str]:
        return {i: text for text, i in self.model.items()}

    def id_of(self, text: str) -> int | None:
        """Return the id of the token ``text``; None if there is no such token."""
        return self._ids.get(text, self.model.get(text))

    def text_of(self, token_id: int) -> str | None:
        """Return the text of a token; None if no token has that id."""
        if token_id in self.added:
            return self.added[token_id][0]
        return self._texts.get(token_id)


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
    def has_decoder(self) -> bool:
        """Whether ``tokenizer_config.json`` has one: other files are not read then."""
        return "added_tokens_decoder" in self.config

    @cached_property
    def declared(self) -> list[Entry]:
        """The entries of ``added_tokens_decoder`` by id, without malformed ones."""
        listed = self.config.get("added_tokens_decoder")
        found = (
            _entry(key, value, f"/added_tokens_decoder/{_escaped(key)}")
            for key, value in (listed.items() if isinstance(listed, dict) else ())
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
        """``added_tokens.json``: texts to ids; empty with ``added_tokens_decoder``."""
        found = {} if self.has_decoder else self.snapshot.object("added_tokens.json") or {}
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
    def folder(self) -> FolderTokens:
        """The files beside ``tokenizer.json``, resolved as when a tokenizer is loaded."""
        tokens = resolve(
            self.config,
            self.snapshot.object("config.json") or {},
            {entry.id: entry.token for entry in self.declared} if self.has_decoder else None,
            self.special_map,
            self.legacy,
            {entry.id: entry.token for entry in self.own},
            content=self.snapshot.content("tokenizer.json") or b"",
            model_roles=None if self.model is None else self.model.roles,
        )
        return tokens if self.model is None else with_pieces(self.model, tokens)[1]

    @cached_property
    def model(self) -> ModelProto | None:
        """The SentencePiece model from which a tokenizer is made; None without one."""
        names = [name for name in self.snapshot.names if _OF_ANY_CLASS.fullmatch(name)]
        others = {"tokenizer.json", "vocab.json"}.intersection(self.snapshot.names)
        content = self.snapshot.content("tokenizer.model") if names == ["tokenizer.model"] else None
        with suppress(ValueError):
            return None if content is None or others else ModelProto.parse(content)
        return None

    @cached_property
    def roles(self) -> dict[str, Role]:
        """The tokens of the seven roles, then those of other names in the files."""
        key = "extra_special_tokens"
        if not self.said.get(key, (None, ""))[0]:
            key = "additional_special_tokens"  # which is read as the other one then
        extra, source_of_extra = self.said.get(key, (None, ""))
        default = f"class {self.folder.chosen.name}"
        if self.model is not None and self.folder.how == "reads":
            default = "the SentencePiece model"
        found: dict[str, Role] = {}
        for name, text in self.folder.texts.items():
            _, source = self.said.get(name, (None, ""))
            pointer = f"/{_escaped(name)}" if source else ""
            if isinstance(extra, dict) and content_of(extra.get(name)) == text:
                source, pointer = source_of_extra, f"/{key}/{_escaped(name)}"
            found[name] = Role(text, source or default, pointer)
        return found

    @property
    def other_vocabularies(self) -> list[str]:
        """Other files from which a tokenizer can be made."""
        has_class = self.folder.chosen.name not in (GENERIC, "remote code")
        kinds = (_OF_ANY_CLASS, _OF_ONE_CLASS) if has_class else (_OF_ANY_CLASS,)
        return sorted(n for n in self.snapshot.names if any(kind.fullmatch(n) for kind in kinds))

    @cached_property
    def bare(self) -> Vocabulary | None:
        """``tokenizer.json`` alone; None without the file, or if the library rejects it."""
        if self.json is None:
            return None
        try:
            untrusted.try_content(self.snapshot.content("tokenizer.json") or b"")
        except TokenizerLoadError as error:
            self.refused = str(error)[:300]
            return None
        vocabulary = self.json["model"]["vocab"]
        if isinstance(vocabulary, list):
            vocabulary = {text: i for i, (text, _) in enumerate(vocabulary)}
        return Vocabulary(vocabulary, [entry.token for entry in self.own])

    @cached_property
    def loaded(self) -> Vocabulary | None:
        """The tokens with the other files applied; None if they are unknown."""
        if self.folder.how in ("", "python"):  # made by code of the folder, or by a class in Python
            return None
        if self.bare is not None:
            own = () if self.folder.is_built else (entry.token for entry in self.own)
            return Vocabulary(self.bare.model, [*own, *self.to_add()])
        if self.model is not None and self.folder.chosen.name in _OF_PIECES:
            names, _ = with_pieces(self.model, self.folder)
            return Vocabulary({text: i for i, text in enumerate(names)}, self.to_add())
        return None

    def to_add(self) -> list[Token]:
        """Return the tokens that transformers adds, in its order."""
        present = () if self.folder.is_built else {entry.token.content for entry in self.own}
        return self.folder.to_add(present)

    @cached_property
    def added(self) -> dict[int, tuple[str, bool]]:
        """Each added token after loading: its text, and whether it is special."""
        found = self.loaded or self._built
        if found is not None:
            return dict(sorted(found.added.items()))
        return {i: (token.content, token.special) for i, token in self.folder.by_id().items()}

    def id_of(self, text: str) -> int | None:
        """Return the id of a token's text after loading; None if it is unknown."""
        return (self.loaded or self._listed).id_of(text)

    @cached_property
    def _words(self) -> dict[str, int]:
        """The ids of ``vocab.json`` or ``vocab.txt``, if the class reads it."""
        is_python = self.folder.how == "python"
        if "tokenizer.json" in self.snapshot and not is_python:
            return {}
        pipelines = (self.folder.pipeline or {}).get("pipelines")
        is_pieces = pipelines and pipelines[0][1]["model"]["type"] == "WordPiece"
        if is_pieces and self.snapshot.text("vocab.txt"):
            content = self.snapshot.content("vocab.txt") or b""  # of which only LF ends a line
            lines = content.removesuffix(b"\n").decode().split("\n")
            return {line.rstrip(): i for i, line in enumerate(lines)}  # as the library does
        is_read = is_python or _OF_VOCAB_JSON.fullmatch(self.folder.chosen.name)
        found = (is_read and self.snapshot.object("vocab.json")) or {}
        return {text: i for text, i in found.items() if is_id(i)}

    @cached_property
    def _built(self) -> Vocabulary | None:
        """What the class makes of these ids; None if it is not known."""
        added = (self.folder.pipeline or {}).get("added", ())
        is_known = self._words and self.folder.is_made and self._words.keys() >= {*added}
        return Vocabulary(self._words, self.to_add()) if is_known else None

    @cached_property
    def _listed(self) -> Vocabulary:
        # Of several ids of an added token, the lowest one counts.
        added = {text: i for i, (text, _) in sorted(self.added.items(), reverse=True)}
        words = self._words if self.folder.how == "python" else {}
        return self._built or Vocabulary(words | added)

    def text_of(self, token_id: int) -> str | None:
        """Return the text of an id; None if it is unknown."""
        if token_id in self.added:
            return self.added[token_id][0]
        bare = self.bare if self.folder.is_remote else None
        return (self.loaded or bare or self._listed).text_of(token_id)


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
