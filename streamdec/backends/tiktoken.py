"""tiktoken: OpenAI's encodings, and rank files of Llama 3 and 4, Qwen and Kimi.

In: a rank file, which is recognised by its content; the name of an encoding whose rank file is in a
cache; or a ``tiktoken.Encoding``. Out: a :class:`~streamdec.protocols.Tokenizer` with the library's
tokens. Nothing is downloaded without ``allow_download=True``.

A rank file contains neither the regex that splits text nor the special tokens, which are in
:mod:`streamdec.tokenizers.encodings`. The special tokens of a ``tokenizer_config.json`` beside the
file have priority.
"""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self

from streamdec.backends.rank_files import (
    check_ranks,
    cut,
    named_spec,
    parse_ranks,
    ranks_at_hand,
    spec_of,
    with_declared,
)
from streamdec.encoding import Special
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.folders.folder_tokens import FolderTokens, read_folder
from streamdec.locks import cached_property
from streamdec.protocols import RawBytes, TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import checked_ids, fingerprint_of, guarded, readable
from streamdec.tokenizers._extras import library
from streamdec.tokenizers.encodings import EncodingSpec
from streamdec.tokenizers.folder_files import content_of

if TYPE_CHECKING:
    import tiktoken

__all__ = ["TiktokenTokenizer"]

_NAMED_BYTE = re.compile(rb"<0x([0-9A-F]{2})>")
_RULES = TextRules(RawBytes())


class TiktokenTokenizer(BaseTokenizer):
    r"""A tokenizer of the library tiktoken.

    ``source`` is the path or the content of a rank file, or a ``tiktoken.Encoding``. ``encoding``
    is a name in :data:`~streamdec.tokenizers.encodings.ENCODINGS`, or your own EncodingSpec. An
    unknown file needs it. A known file has a default: that of ``o200k_base`` can also be
    ``o200k_harmony``. With a wrong regex, ``encode`` returns other ids than the model's; decoding
    only needs the special tokens.

    ``decode`` ignores ids that the encoding does not have, while tiktoken raises. ``token_bytes``
    are exact. ``id_to_token`` returns the token's text, with ``<0xFF>`` for an invalid byte.

    Raises :class:`~streamdec.TokenizerLoadError`, which names the path and the reason, and
    :class:`~streamdec.errors.MissingExtraError` without tiktoken.

    >>> from streamdec.tokenizers import TiktokenTokenizer
    >>> from streamdec.tokenizers import EncodingSpec
    >>> spec = EncodingSpec("mine", pattern=r"\s?\w+|\s+|\W", special_tokens={"<|end|>": 300})
    >>> tokenizer = TiktokenTokenizer("path/to/model.tiktoken", encoding=spec)
    >>> tokenizer.encode("hello hello").ids, tokenizer.decode([261, 300])
    ((261, 262), 'hello')
    """

    tokenizer_type = "tiktoken"

    sha256: str | None
    """SHA-256 of the rank file, in hexadecimal; None without a file."""
    _declared: FolderTokens | None
    """The settings in the files beside the rank file; None if they were not read."""
    _ranks_hash: str
    """The fingerprint of all tokens and ranks, computed while loading."""

    def __init__(
        self,
        source: str | os.PathLike[str] | bytes | tiktoken.Encoding,
        *,
        encoding: str | EncodingSpec | None = None,
    ) -> None:
        if isinstance(source, (bytes, str, os.PathLike)):
            content, name = content_of(source, "rank file")
            is_file = not isinstance(source, bytes)
            declared = read_folder(Path(name).parent) if is_file else None
            self._take(content, name, encoding, declared)
        else:
            self._encoding, self._spec = source, EncodingSpec("", "")
            self.name: str = source.name
            self.sha256 = self._declared = None
            single = source.encode_single_token
            self._ranks_hash = _hash_of({t: single(t) for t in source.token_byte_values()})

    @classmethod
    def named(cls, encoding: str | EncodingSpec, *, allow_download: bool = False) -> Self:
        """Return the tokenizer of ``encoding``, a spec or a name like ``"cl100k_base"``.

        Its rank file is taken from tiktoken's own cache (``TIKTOKEN_CACHE_DIR``), or downloaded if
        ``allow_download`` is true. A known file is recognised by its SHA-256.

        Raises :class:`~streamdec.TokenizerLoadError`, which says how to supply the file.
        """
        spec = named_spec(encoding)
        content, name = ranks_at_hand(spec, allow_download=allow_download)
        self = cls.__new__(cls)
        self._take(content, name, spec, None)
        return self

    def _take(
        self,
        content: bytes,
        name: str,
        encoding: str | EncodingSpec | None,
        declared: FolderTokens | None,
    ) -> None:
        self.name, self.sha256, name = name, hashlib.sha256(content).hexdigest(), repr(name)
        content = content.replace(b"\r\n", b"\n")  # git can change how lines end
        spec = spec_of(hashlib.sha256(content).hexdigest(), name, encoding, declared)
        ranks = parse_ranks(content, name, is_numbered=spec.is_numbered)
        if spec.ranks_below is not None:
            ranks = {token: rank for token, rank in ranks.items() if rank < spec.ranks_below}
        self._take_ranks(ranks, with_declared(spec, ranks, declared, name), name)
        self._declared = declared

    def _take_ranks(self, ranks: dict[bytes, int], spec: EncodingSpec, name: str) -> None:
        check_ranks(ranks, spec, name)
        try:
            self._encoding = guarded(
                library("tiktoken", "tiktoken").Encoding,
                spec.name,
                pat_str=spec.pattern,
                mergeable_ranks=ranks,
                special_tokens=dict(spec.special_tokens),
            )
        except TokenizerLibraryError as error:
            raise TokenizerLoadError(f"{name}: {error.__cause__}") from error
        self._spec = spec
        self._declared = None
        self._ranks_hash = _hash_of(ranks)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.encoding_name})"

    @property
    def encoding_name(self) -> str:
        """The name of its encoding, such as ``cl100k_base``."""
        return self._encoding.name

    # --- decoding ---------------------------------------------------------------------------------

    def _decode(self, token_ids: Iterable[int], skip_special_tokens: bool) -> str:
        kept = checked_ids(token_ids).tolist()
        if skip_special_tokens and not self._skipped_ids.isdisjoint(kept):
            kept = [token_id for token_id in kept if token_id not in self._skipped_ids]
        try:
            return self._encoding.decode(kept)
        except KeyError:
            known = [token_id for token_id in kept if self.piece(token_id) is not None]
            return guarded(self._encoding.decode, known)

    @property
    def rules(self) -> TextRules:
        return _RULES

    def piece(self, token_id: int) -> bytes | None:
        try:
            return self._encoding.decode_single_token_bytes(token_id)
        except (KeyError, OverflowError):
            return None

    def _special_texts(self) -> Iterable[tuple[str, int]]:
        return self._special_ids.items()

    @cached_property
    def _special_ids(self) -> dict[str, int]:
        """Every special token by its name, ids ascending."""
        single, ids = self._encoding.encode_single_token, {}
        for name in self._encoding.special_tokens_set:
            # A single token is looked for among the ranks first, which may have it as a word.
            found = self._encoding.encode(name, allowed_special={name}, disallowed_special=())
            ids[name] = found[0] if len(found) == 1 else single(name)
        return dict(sorted(ids.items(), key=lambda item: (item[1], item[0])))

    @cached_property
    def _skipped_ids(self) -> frozenset[int]:
        tokens = {} if self._declared is None else self._declared.by_id()
        shown = {token.content for token in tokens.values() if not token.special}
        if self._spec.num_reserved:  # its code skips only tokens that are declared
            shown |= self._special_ids.keys() - {token.content for token in tokens.values()}
        return frozenset(i for name, i in self._special_ids.items() if name not in shown)

    @cached_property
    def fingerprint(self) -> str:
        special = {i: self.piece(i) for i in self._special_ids.values()}
        return fingerprint_of(_RULES, self._ranks_hash, special, sorted(self._skipped_ids))

    def _byte_ids(self) -> Iterator[int]:
        ids = (self._id_of(bytes([byte])) for byte in range(256))
        return (token_id for token_id in ids if token_id is not None)

    # --- encoding ---------------------------------------------------------------------------------

    def _ids(self, text: str, special: Special) -> list[int]:
        text = self._normalized(text)
        # To find special tokens, the library copies the set of their names for each text.
        has_special = special == "parse" and self._any_special and self._any_special.search(text)
        encode: Callable[[str], list[int]] = self._encoding.encode_ordinary
        if has_special:
            encode = partial(self._encoding.encode, allowed_special="all", disallowed_special=())
        parts = cut(text) if self._spec.is_cut else (text,)
        if len(parts) == 1:
            return guarded(encode, parts[0])
        return [token_id for part in parts for token_id in guarded(encode, part)]

    def _library_decode(self) -> tuple[str, Callable[[list[int]], str]]:
        return "tiktoken", self._encoding.decode

    def _library_encode(self) -> tuple[str, Callable[[str], Sequence[int]]]:
        encode = partial(self._encoding.encode, allowed_special="all")
        return "tiktoken", lambda text: encode(self._normalized(text))

    def _normalized(self, text: str) -> str:
        return unicodedata.normalize("NFC", text) if self._spec.is_nfc else text

    @property
    def _added(self) -> tuple[Sequence[int], Sequence[int]]:
        begin = map(self._special_ids.get, self._spec.begins_with)
        return ([token_id for token_id in begin if token_id is not None], [])

    # --- the vocabulary ---------------------------------------------------------------------------

    def id_to_token(self, token_id: int) -> str | None:
        """Return the text of ``token_id``, invalid bytes as ``<0xFF>``; None if unknown."""
        piece = self.piece(token_id)
        return None if piece is None else readable(piece)

    def token_to_id(self, token: str | bytes) -> int | None:
        """Return the id of ``token``, its name or its bytes; None if unknown."""
        if isinstance(token, bytes):
            return self._id_of(token)
        try:
            data = token.encode()
        except UnicodeEncodeError:
            return None
        found = self._id_of(data)
        if found is None and b"<0x" in data:
            found = self._id_of(_NAMED_BYTE.sub(lambda name: bytes.fromhex(name[1].decode()), data))
            return found if found is not None and self.id_to_token(found) == token else None
        return found

    def _id_of(self, data: bytes) -> int | None:
        try:
            return self._encoding.encode_single_token(data)
        except KeyError:
            return None

    @property
    def vocab_size(self) -> int:
        return self._encoding.max_token_value + 1

    @property
    def _role_texts(self) -> Mapping[str, str]:
        """The roles of the encoding; the file beside the ranks has priority."""
        spec, declared = self._spec, self._declared
        found = [
            ("bos_token", spec.bos_token),
            ("eos_token", spec.eos_token),
            ("pad_token", spec.pad_token),
            *(() if declared is None else declared.roles.items()),
        ]
        # Leave out a role whose token has no id.
        return {role: name for role, name in found if name in self._special_ids}


def _hash_of(ranks: dict[bytes, int]) -> str:
    """Return a hash of tokens and ranks, in 10 ms for 150,000 tokens."""
    return fingerprint_of(_RULES, dict(sorted(ranks.items(), key=itemgetter(1))))
