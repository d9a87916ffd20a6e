"""The special and added tokens of a folder: the one resolver for every format.

In: the files beside a tokenizer (``tokenizer_config.json`` and its like). Out: the tokenizer class
that transformers 5 would choose, the tokens that the files declare, and the token of each role.
Loading, chat templates and ``streamdec.preflight`` all use :func:`resolve`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from streamdec.errors import TokenizerLoadError
from streamdec.folders.class_pipelines import Pipeline, pipeline_of
from streamdec.folders.declared_tokens import (
    DECLARED,
    DeclaredTokens,
    added_token,
    declared_tokens,
)
from streamdec.folders.tokenizer_class import Chosen, auto_map_of, choose_class
from streamdec.folders.tokenizer_config import (
    ADDED_TOKENS,
    CONFIG,
    ROLES,
    SPECIAL_TOKENS_MAP,
    content_of,
    id_of,
    read_object,
)
from streamdec.tokenizers._common import MAX_ID
from streamdec.tokenizers.folder_files import read_bounded

_MODEL_CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class FolderTokens:
    """The tokenizer class and the tokens that the files of a folder declare."""

    chosen: Chosen
    """The tokenizer class."""
    beside: DeclaredTokens
    """The declared tokens, and the tokens with a name."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """``tokenizer_config.json``; empty without one."""
    files: tuple[str, ...] = ()
    """The names of the files that declare tokens."""

    @property
    def is_remote(self) -> bool:
        """Whether code of the folder makes the tokenizer."""
        return self.chosen.cls is None

    @property
    def is_built(self) -> bool:
        """Whether the class builds the tokenizer from vocabulary and declared tokens."""
        return self.chosen.cls is not None and self.chosen.cls.builds

    @property
    def code(self) -> str:
        """The module and class that ``auto_map`` names."""
        return " ".join(auto_map_of(self.config))

    @property
    def roles(self) -> dict[str, str]:
        """The token of each role, such as ``eos_token``."""
        return {name: text for name, text in self.beside.names().items() if name in ROLES}

    def to_add(self, present: Container[str]) -> list[AddedToken]:
        """Return the tokens to add to a tokenizer with the added tokens ``present``."""
        if self.pipeline is not None:
            data = self.pipeline.data
            return self.beside.to_add(present, flags=data["flags"], again=data["adds_again"])
        is_special = self.chosen.cls is not None and self.chosen.cls.how == "builds-special"
        return self.beside.to_add(present, again="given" if is_special else "")

    @property
    def pipeline(self) -> Pipeline | None:
        """What the class builds; None if it builds nothing or cannot be followed.

        A class that inherits only gives a ``tokenizer.json`` another post-processor.
        """
        return pipeline_of(self.chosen.name) if self.is_made else None

    @property
    def is_made(self) -> bool:
        """Whether the class builds the tokenizer or a part of it."""
        return self.is_built or (self.chosen.cls is not None and self.chosen.cls.how == "inherits")

    def by_id(self) -> dict[int, AddedToken]:
        """Return the tokens with a declared id, special if they have a name."""
        by_text = {token.content: token for token in self.beside.to_add(())}
        declared = sorted(self.beside.declared.items())
        return {i: by_text[token.content] for i, token in declared}


def resolve(
    config: Mapping[str, Any],
    model_config: Mapping[str, Any],
    declared: Mapping[int, AddedToken] | None,
    special_map: Mapping[str, Any],
    legacy: Mapping[str, int],
    own: Mapping[int, AddedToken],
    *,
    is_byte_level: bool,
    files: tuple[str, ...] = (),
    model_roles: Mapping[str, str] | None = None,
) -> FolderTokens:
    """Combine the parsed files.

    Args:
        config: ``tokenizer_config.json``.
        model_config: ``config.json``.
        declared: The ``added_tokens_decoder`` of ``config``; None without one.
        special_map: ``special_tokens_map.json``.
        legacy: ``added_tokens.json``, ids by text.
        own: The added tokens of ``tokenizer.json`` by id.
        is_byte_level: Whether a ``tokenizer.json`` is of the kind ByteLevel.
        files: The names of the files, for messages.
        model_roles: Role tokens that the model's own file names.
    """
    chosen = choose_class(config, model_config, is_byte_level=is_byte_level)
    defaults = (chosen.cls is not None and chosen.cls.roles) or model_roles or {}
    beside = declared_tokens(config, declared, special_map, legacy, own, defaults=defaults)
    return FolderTokens(chosen, beside, config, files)


def has_config(folder: Path) -> bool:
    """Return whether ``folder`` has a file that says something about tokens."""
    return any((folder / name).is_file() for name in (CONFIG, SPECIAL_TOKENS_MAP, ADDED_TOKENS))


def read_folder(
    folder: Path,
    own: Mapping[int, AddedToken] | None = None,
    *,
    is_byte_level: bool | None = None,
    model_roles: Mapping[str, str] | None = None,
) -> FolderTokens:
    """Read the files in ``folder`` and resolve them.

    The other arguments are as for :func:`resolve`. If ``is_byte_level`` is None, the
    ``tokenizer.json`` in the folder is searched for ``"ByteLevel"``.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the file, if a file is malformed.
    """
    if is_byte_level is None:
        is_byte_level = _is_byte_level(folder / "tokenizer.json")
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
            _model_config(folder),
            dict(_declared(config[DECLARED])) if has_declared else None,
            beside.get(SPECIAL_TOKENS_MAP) or {},
            legacy,
            own or {},
            is_byte_level=is_byte_level,
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


def _model_config(folder: Path) -> dict[str, Any]:
    """Return ``config.json``. It belongs to the model, so a malformed one is ignored."""
    try:
        return read_object(folder, _MODEL_CONFIG) or {}
    except TokenizerLoadError:
        return {}


def _is_byte_level(path: Path) -> bool:
    try:
        return path.is_file() and b'"ByteLevel"' in read_bounded(path)
    except TokenizerLoadError:
        return False


def _declared(tokens: Any) -> Iterator[tuple[int, AddedToken]]:
    """Yield the tokens of an ``added_tokens_decoder``.

    Raises ValueError if it is malformed.
    """
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
        if type(token_id) is not int or not 0 <= token_id <= MAX_ID:
            expected = f"an integer from 0 to {MAX_ID}"
            raise ValueError(f"the id of {text!r:.60} must be {expected}, not {token_id!r:.60}")
