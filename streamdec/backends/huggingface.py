"""Hugging Face ``tokenizers``: a ``tokenizer.json`` as a streamdec tokenizer.

In: a file, a folder, JSON text, or an existing tokenizer. Out: the library's ``decode``, and the
table behind it: how pieces are joined (``rules``), the piece of each id (``piece``), and whether it
is skipped (``is_skipped``). All of these come from the loaded library and not from the JSON,
because the library may assign other ids than the JSON declares.

:mod:`streamdec.backends._decoder_chain` reads the chain of decoders.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from tokenizers import Tokenizer

from streamdec import hooks
from streamdec.backends._decoder_chain import Stage, byte_names, compiled, rewriter, stages_of
from streamdec.backends._huggingface_encoder import UNFAITHFUL, HuggingFaceEncoder
from streamdec.backends._tokenizer_json import Source, parse, read_source
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.folders.apply_tokenizer_config import TokenizerConfigChanges, apply_config
from streamdec.folders.folder_tokens import keep_skipped, read_folder
from streamdec.folders.tokenizer_class import NotFollowedError
from streamdec.locks import cached_property
from streamdec.protocols import TextRules
from streamdec.tokenizers._common import fingerprint_of, guarded, listed_ids, sample_of, spread_of

__all__ = ["HuggingFaceTokenizer"]

_KEPT = (
    *("_tokenizer", "name", "_folder", "_file_hash"),
    *("tokenizer_config_changes", "_roles", "_chat"),
)
"""The pickled state."""
_MOST_ASKED = 1024
"""How many tokens a fingerprint reads from the library, 1 µs each; at least half are ordinary."""


class FastTokenizer(Protocol):
    """The part of a fast tokenizer of transformers that is used here."""

    @property
    def backend_tokenizer(self) -> Tokenizer:
        """The ``tokenizers.Tokenizer`` inside."""
        ...


class HuggingFaceTokenizer(HuggingFaceEncoder):
    """A tokenizer of the Hugging Face ``tokenizers`` library.

    ``source`` is one of

    * the path of a ``tokenizer.json`` of any name, or of a folder with one;
    * the JSON itself: a ``str`` that begins with ``{`` after white space and a BOM;
    * a ``tokenizers.Tokenizer``, or a tokenizer of ``fastokens`` that stands in for one;
    * a fast tokenizer of ``transformers``: an object with a ``backend_tokenizer``.

    An existing tokenizer is not changed. Other code must not change it afterwards, except for
    truncation and padding, which are ignored here. Threads may share it.

    ``apply_tokenizer_config`` says whether added tokens and their flags are also taken from the
    files beside a ``tokenizer.json``, as transformers does. By default None: True for a folder,
    False otherwise.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason. Raises
    TypeError for another ``source``, and for ``apply_tokenizer_config=True`` if ``source`` is not a
    path.

    >>> from streamdec import HuggingFaceTokenizer
    >>> tokenizer = HuggingFaceTokenizer("path/to/model")
    >>> tokenizer.decode(tokenizer.encode("naïve café").ids)
    'naïve café'
    >>> from tokenizers import Tokenizer, models
    >>> HuggingFaceTokenizer(Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))).decode([0, 1])
    'a b'
    """

    tokenizer_type = "huggingface"

    tokenizer_config_changes: TokenizerConfigChanges | None = None
    """What was applied to the tokenizer.json; None if the files beside it were not read."""
    _folder: Path | None
    """The folder of the tokenizer.json; None without a file."""
    _file_hash: str = ""
    """Hash of the file with the vocabulary; empty without a file, or if the vocabulary is small."""
    _roles: Mapping[str, str] | None = None
    """The role tokens; None if the files beside the tokenizer.json are read for them."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Tokenizer | FastTokenizer,
        *,
        apply_tokenizer_config: bool | None = None,
    ) -> None:
        if isinstance(source, (str, os.PathLike)):
            self._take(read_source(source, apply_tokenizer_config))
        elif apply_tokenizer_config:
            raise TypeError("apply_tokenizer_config=True needs a path, got a tokenizer object")
        else:
            self.name: str
            self._tokenizer, self.name = _given(source)
            self._folder = None

    def _take(self, source: Source) -> None:
        """Take the tokenizer of ``source``, and apply the files beside it."""
        self._tokenizer, self.name = source.tokenizer, source.name
        self._folder = None if source.path is None else source.path.parent
        if source.tokens is not None:
            self._roles = source.tokens.roles
        if self._model_size > _MOST_ASKED:
            self._file_hash = source.sha256[:16]
        if source.applies and self._folder is not None:
            try:
                self._tokenizer, self.tokenizer_config_changes = apply_config(
                    self._tokenizer, source.content, self._folder, source.tokens
                )
            except TokenizerLoadError as error:
                file = "tokenizer.json" if source.tokens is None else "SentencePiece model"
                hint = f"apply_tokenizer_config=False loads only the {file}"
                if isinstance(error, NotFollowedError):
                    raise NotFollowedError(f"{error.why} ({hint})", self._folder) from error
                raise TokenizerLoadError(f"{error} ({hint})") from error

    def __repr__(self) -> str:
        rule = type(self.rules.rule).__name__ if self.rules else "windowed"
        return f"{type(self).__name__}({self.name!r}, {rule})"

    def __getstate__(self) -> dict[str, Any]:
        """The library's tokenizer, which is pickled as JSON, and data to check it by."""
        return {name: getattr(self, name) for name in _KEPT} | {"added": self._decoded_added()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update((name, state[name]) for name in _KEPT)
        added: dict[int, tuple[str | None, bool]] = state["added"]
        found = self._added_tokens.items()
        again = [t for i, t in found if i in added and added[i][1] and not self.is_skipped(i)]
        keep_skipped(self._tokenizer, again)
        self._skipped.clear()
        # The library's JSON loses ids after holes.
        if self._decoded_added() != added:
            raise TokenizerLibraryError(f"{self.name}: {UNFAITHFUL}")

    def _decoded_added(self) -> dict[int, tuple[str | None, bool]]:
        return {i: (self.id_to_token(i), self.is_skipped(i)) for i in self._added_tokens}

    # --- decoding ---------------------------------------------------------------------------------

    def _decode(self, token_ids: Sequence[int], skip_special_tokens: bool) -> str:
        decode = self._tokenizer.decode
        try:
            text: str = guarded(decode, token_ids, skip_special_tokens=skip_special_tokens)
        except TokenizerLibraryError:
            ids = listed_ids(token_ids)  # raises if an id is bad
            if isinstance(token_ids, list):
                raise
            text = guarded(decode, ids, skip_special_tokens=skip_special_tokens)
        end = self._word_end
        return text.replace(end, " ").strip() if end else text

    def decode_batch(
        self, batch: Sequence[Sequence[int]], *, skip_special_tokens: bool = True
    ) -> list[str]:
        """Decode each list of ids in ``batch``, in the threads of the library.

        ``skip_special_tokens`` and errors are as for ``decode``.
        """
        if not self._word_end and not hooks.installed:
            with suppress(TokenizerLibraryError):
                decode: Callable[..., list[str]] = self._tokenizer.decode_batch
                return guarded(decode, batch, skip_special_tokens=skip_special_tokens)
        return super().decode_batch(batch, skip_special_tokens=skip_special_tokens)

    @property
    def _word_end(self) -> str:
        """What CLIP's class replaces by a space in decoded text; empty for other classes."""
        changes = self.tokenizer_config_changes
        return "</w>" if changes is not None and changes.built_by == "CLIPTokenizer" else ""

    @cached_property
    def rules(self) -> TextRules | None:
        return self._compiled[1]

    def piece(self, token_id: int) -> str | None:
        text = self.id_to_token(token_id)
        return text if text is None else self._rewrite(text)

    @cached_property
    def fingerprint(self) -> str:
        size = self._model_size
        if size <= _MOST_ASKED:
            texts = self._all_texts()
        else:
            added = sorted(self._added_tokens)
            count = max(_MOST_ASKED - len(added), _MOST_ASKED // 2)
            texts = self._texts((*spread_of(range(size), count), *added))
        each, rules = self._compiled
        decoder = (each, rules or self._stages, *filter(None, [self._word_end]))
        digits = fingerprint_of(decoder, size, texts, self._skipped_ids)
        return f"{digits}-{self._file_hash}" if self._file_hash else digits

    def sample_ids(self) -> list[int]:
        """Return added tokens, byte tokens, and a spread over the vocabulary.

        They are at most 450 ids, the same each time, in ≤ 1 ms (2 ms with 1,000 added tokens).
        """
        return sample_of(sorted(self._added_tokens), self._byte_ids(), self._model_size)

    # --- encoding ---------------------------------------------------------------------------------

    def _library_encode(self) -> tuple[str, Callable[[str], Sequence[int]]]:
        encode = partial(self._tokenizer.encode, add_special_tokens=False)
        return "tokenizers", lambda text: encode(text).ids

    def id_to_token(self, token_id: int) -> str | None:
        try:
            return self._tokenizer.id_to_token(token_id)
        except OverflowError:
            return None

    def token_to_id(self, token: str) -> int | None:
        try:
            return self._tokenizer.token_to_id(token)
        except UnicodeEncodeError:
            return None

    @property
    def _role_texts(self) -> Mapping[str, str]:
        """The roles in a ``tokenizer_config.json`` beside the file that have ids.

        Raises :class:`~streamdec.TokenizerLoadError` if that file is malformed.
        """
        roles = self._roles
        if roles is None:
            roles = {} if self._folder is None else read_folder(self._folder).roles
        return {role: name for role, name in roles.items() if self.token_to_id(name) is not None}

    @cached_property
    def vocab_size(self) -> int:
        return max(self._all_texts(), default=-1) + 1

    @property
    def _model_size(self) -> int:
        """The number of tokens without the added ones."""
        size: int = guarded(self._tokenizer.get_vocab_size, with_added_tokens=False)
        return size

    def _all_texts(self) -> dict[int, str]:
        """Return the text of every id that has one, ids ascending."""
        # A vocabulary with two equal tokens lacks one of their ids, and one with holes has others.
        known = guarded(self._tokenizer.get_vocab).values()
        return self._texts(sorted({*range(self._model_size), *known, *self._added_tokens}))

    def _texts(self, ids: Collection[int]) -> dict[int, str]:
        found = zip(ids, map(self._tokenizer.id_to_token, ids), strict=True)
        return {i: text for i, text in found if text is not None}

    # --- private: the table -----------------------------------------------------------------------

    @cached_property
    def _stages(self) -> list[Stage] | None:
        """The decoder's stages, Sequences flattened; None without a decoder."""
        return stages_of(self._tokenizer.decoder)

    @cached_property
    def _compiled(self) -> tuple[list[Stage], TextRules | None]:
        return ([], None) if self._word_end else compiled(self._stages)

    @cached_property
    def _rewrite(self) -> Callable[[str], str]:
        return rewriter(self._compiled[0])

    def _byte_ids(self) -> Iterator[int]:
        """Return the ids of tokens of one byte, spelled as the rule spells them."""
        ids = map(self.token_to_id, byte_names(self.rules))
        return (token_id for token_id in ids if token_id is not None)


def library_tokenizer(tokenizer: object) -> Tokenizer | None:
    """Return the ``tokenizers.Tokenizer`` of ``tokenizer``; None for another library."""
    return tokenizer._tokenizer if isinstance(tokenizer, HuggingFaceTokenizer) else None


def _given(source: object) -> tuple[Tokenizer, str]:
    """Return the library's tokenizer in ``source``, and a name for it."""
    inner = getattr(source, "backend_tokenizer", source)
    name = "tokenizers.Tokenizer"
    if inner is not source:
        name = str(getattr(source, "name_or_path", "") or type(source).__name__)
    if isinstance(inner, Tokenizer):
        return inner, name
    # The tokenizer of fastokens, which replaces the library's: its JSON is read.
    if callable(to_str := getattr(inner, "to_str", None)):
        return parse(to_str().encode(), name, refuses=True), name
    raise TypeError(
        "source must be a path, JSON text, a tokenizers.Tokenizer or a fast tokenizer of "
        f"transformers, not {type(source).__name__}"
    )
