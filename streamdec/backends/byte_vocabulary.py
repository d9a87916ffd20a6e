"""Tokenizers that are a table of bytes: RWKV's text vocabulary, ByT5 and EvaByte.

In: RWKV's vocabulary file, or a folder whose class encodes each byte separately. Out: a
:class:`~streamdec.protocols.Tokenizer` that encodes and decodes in Python, without a library.
Encoding finds special tokens first, and then takes the longest token at each place.

The references are ``rwkv_tokenizer.py`` of BlinkDL/ChatRWKV, ``tokenization_byt5.py`` of
transformers 5.24, and ``tokenization_evabyte.py`` of EvaByte. In all of them a character of several
tokens is decoded from the bytes of these tokens. Bytes that are not UTF-8 are U+FFFD here, one for
each maximal part; ByT5 and EvaByte leave them out.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tokenizers import AddedToken

from streamdec.backends.longest_token import LongestToken
from streamdec.encoding import Special, SpecialTokens
from streamdec.errors import TokenizerLoadError
from streamdec.folders.folder_tokens import FolderTokens, read_folder
from streamdec.folders.tokenizer_config import CONFIG
from streamdec.locks import cached_property
from streamdec.protocols import RawBytes, TextRules
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers._common import (
    MAX_ID,
    any_of,
    checked_ids,
    fingerprint_of,
    readable,
    refuse_special,
    sample_of,
)
from streamdec.tokenizers._instrumented import instrumented_decode
from streamdec.tokenizers._reading import read_bounded


def _quoted(escapes: str) -> str:
    r"""Return a regex for a Python literal with these ``escapes`` after a backslash."""
    return "|".join(rf"{quote}(?:[^{quote}\\]|\\(?:{escapes}))*{quote}" for quote in "'\"")


_ESCAPES = r"[\\'\"abfnrtv0]|x[0-9A-Fa-f]{2}"
_TEXT_ESCAPES = rf"{_ESCAPES}|u[0-9A-Fa-f]{{4}}|U[0-9A-Fa-f]{{8}}"
_LINE = re.compile(
    rf"([0-9]{{1,8}}) (?:b({_quoted(_ESCAPES)})|({_quoted(_TEXT_ESCAPES)})) ([0-9]{{1,4}})\r?"
)
"""An id, a literal of Python for bytes or a string, and its length in bytes."""
_MAX_TOKEN = 255
"""The longest token of an RWKV vocabulary, in bytes; the longest known has 127."""
_MAX_LINE = 10 * _MAX_TOKEN + 32
"""The longest line: each byte as ``\\U0000007F``, and the numbers."""
_RULES = TextRules(RawBytes())
_END_OF_RWKV = "<|endoftext|>"
"""The name that RWKV gives to id 0, which is not in the file."""


@dataclass(frozen=True, slots=True)
class _ByteClass:
    """A class that encodes bytes: the 256 bytes between two lists of special tokens."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    roles: Mapping[str, str]
    begins: tuple[str, ...] = ()
    """The roles of the tokens that ``add_special_tokens`` puts before a text."""
    ends: tuple[str, ...] = ()
    """The roles of the tokens that it puts after a text, unless the text ends with them."""
    strips: bool = False
    """Whether tokens with a role include the white space around them."""

    def special(self, roles: Mapping[str, str], found: FolderTokens) -> dict[int, AddedToken]:
        """Return the added tokens of a folder by id; ``found`` is what its files declare."""
        named = {name: roles[role] for role, name in self.roles.items()}
        declared = found.by_id()
        texts = {token.content for token in declared.values()}
        listed = [t if isinstance(t, str) else t.content for t in found.beside.extra]
        after = [name for name in listed or self.after if self.after and name not in texts]
        # transformers gives a new token the id that is the number of tokens.
        end = len(self.before) + 256
        start = end + sum(token_id >= end for token_id in declared)
        names = [
            *enumerate(named.get(name, name) for name in self.before),
            *enumerate(after, start),
        ]
        given = {t.content: t for t in found.beside.named.values() if isinstance(t, AddedToken)}
        taking = set(named.values()) - given.keys() if self.strips else frozenset[str]()
        made = {
            i: given.get(name)
            or AddedToken(name, lstrip=name in taking, rstrip=name in taking, special=True)
            for i, name in names
        }
        return made | declared


def _extra(start: int, stop: int) -> tuple[str, ...]:
    return tuple(f"<extra_id_{n}>" for n in range(start, stop))


_BYTE_CLASSES = {
    "ByT5Tokenizer": _ByteClass(
        before=("<pad>", "</s>", "<unk>"),
        after=_extra(0, 125),
        roles={"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"},
        ends=("eos_token",),
        strips=True,
    ),
    "EvaByteTokenizer": _ByteClass(
        before=(
            *("<pad>", "<bos>", "<eos>", "<unk>", "<sep>", "<repo_name>", "<file_sep>"),
            *("<t2v_token>", "<v2t_token>", "<|start_header_id|>", "<|end_header_id|>"),
            *("<|eot_id|>", *_extra(12, 64)),
        ),
        after=(),
        roles={
            "pad_token": "<pad>",
            "bos_token": "<bos>",
            "eos_token": "<eos>",
            "unk_token": "<unk>",
            "sep_token": "<sep>",
        },
        begins=("bos_token",),
    ),
}


def byte_class_of(tokens: FolderTokens) -> str | None:
    """Return the class of a folder if it encodes bytes, else None."""
    declared = str(tokens.config.get("tokenizer_class", ""))
    names = (tokens.chosen.name, declared, tokens.code.rpartition(".")[2])
    return next((name for name in names if name in _BYTE_CLASSES), None)


class ByteTableTokenizer(BaseTokenizer):
    """A table of token bytes; encodes with the longest token at each place.

    Args:
        tokens: The bytes of each ordinary token by id. Every single byte must be one.
        special: The added tokens by id. Those that are special are skipped.
        roles: The tokens with a role, such as ``eos_token``.
        adds: The ids that ``add_special_tokens`` puts before and after a text.
        name: Its path, for messages.

    Raises :class:`~streamdec.TokenizerLoadError` if a byte has no token.

    >>> from streamdec.backends.byte_vocabulary import ByteTableTokenizer
    >>> tokenizer = ByteTableTokenizer({i: bytes([i]) for i in range(256)}, {})
    >>> tokenizer.encode("é").ids, tokenizer.decode([0xC3, 0xA9])
    ((195, 169), 'é')
    """

    tokenizer_type = "bytes"

    sha256: str | None = None
    """SHA-256 of the vocabulary file, in hexadecimal; None without a file."""

    def __init__(
        self,
        tokens: Mapping[int, bytes],
        special: Mapping[int, AddedToken],
        *,
        roles: Mapping[str, str] | None = None,
        adds: tuple[Sequence[int], Sequence[int]] = ((), ()),
        name: str = "table of bytes",
    ) -> None:
        self.name = name
        self._tokens = {**tokens, **{i: t.content.encode() for i, t in special.items()}}
        self._added_tokens = dict(special)
        self._roles = dict(roles or {})
        self._added = adds
        ordinary = set(tokens.values())
        missing = [byte for byte in range(256) if bytes([byte]) not in ordinary]
        if missing:
            raise TokenizerLoadError(
                f"{name!r}: {len(missing)} bytes without a token, such as {missing[0]:#04x}"
            )

    @classmethod
    def from_rwkv(cls, path: Path) -> Self:
        """Return the tokenizer of RWKV's vocabulary file in ``path``.

        The token of id 0 is ``"<|endoftext|>"``, unless the files beside ``path`` give another
        name. They may also declare roles, such as ``bos_token``. Raises
        :class:`~streamdec.TokenizerLoadError`, which names the path and the line.
        """
        content = read_bounded(path)
        folder = read_folder(path.parent)
        tokens = dict(_lines(content, repr(str(path))))
        by_id = folder.by_id()
        end = folder.roles.get("bos_token", _END_OF_RWKV)
        special = {0: AddedToken(end, special=True), **by_id} if 0 not in tokens else by_id
        roles = folder.roles or {"eos_token": _END_OF_RWKV}
        adds_bos = folder.config.get("add_bos_token") is True and 0 in special
        self = cls(
            {i: data for i, data in tokens.items() if i not in special},
            special,
            roles=roles,
            adds=((0,) if adds_bos else (), ()),
            name=str(path),
        )
        self.sha256 = hashlib.sha256(content).hexdigest()
        return self

    @classmethod
    def from_folder(cls, folder: Path) -> Self:
        """Return the tokenizer of a folder whose class encodes bytes.

        Raises :class:`~streamdec.TokenizerLoadError`, which names the path, for another class and
        for files that are malformed.
        """
        found = read_folder(folder)
        chosen = byte_class_of(found)
        if chosen is None:
            raise TokenizerLoadError(
                f"{str(folder)!r}: {CONFIG} names none of the classes {', '.join(_BYTE_CLASSES)}"
            )
        known = _BYTE_CLASSES[chosen]
        roles = {**known.roles, **found.roles}
        special = known.special(roles, found)
        first = len(known.before)
        ids = {token.content: i for i, token in special.items()}

        def ids_of(names: Sequence[str]) -> list[int]:
            """Return the ids of these roles. A declared token may replace the default one."""
            return [ids[roles[role]] for role in names if roles[role] in ids]

        return cls(
            {first + byte: bytes([byte]) for byte in range(256)},
            special,
            roles=roles,
            adds=(ids_of(known.begins), ids_of(known.ends)),
            name=str(folder / CONFIG),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self._tokens)} tokens)"

    # --- decoding ---------------------------------------------------------------------------------

    @instrumented_decode
    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        skipped = self._skipped if skip_special_tokens else frozenset[int]()
        kept = (i for i in checked_ids(token_ids) if i not in skipped)
        return b"".join(self._tokens.get(i, b"") for i in kept).decode("utf-8", "replace")

    @property
    def rules(self) -> TextRules:
        return _RULES

    def piece(self, token_id: int) -> bytes | None:
        return self._tokens.get(token_id)

    def token_bytes(self, token_id: int) -> bytes | None:
        return self._tokens.get(token_id)

    def _special_texts(self) -> Iterable[tuple[str, int]]:
        return ((self._added_tokens[i].content, i) for i in sorted(self._skipped))

    def is_skipped(self, token_id: int) -> bool:
        return token_id in self._skipped

    @cached_property
    def _skipped(self) -> frozenset[int]:
        return frozenset(i for i, token in self._added_tokens.items() if token.special)

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint_of(_RULES, dict(sorted(self._tokens.items())), sorted(self._skipped))

    def sample_ids(self) -> list[int]:
        single = [i for i, data in self._tokens.items() if len(data) == 1]
        sample = sample_of(sorted(self._added_tokens), single, self.vocab_size)
        return [i for i in sample if i in self._tokens]

    # --- encoding ---------------------------------------------------------------------------------

    def _ids(self, text: str, special: Special) -> list[int]:
        if special == "forbid":
            refuse_special(text, self._any_added)
        if special != "parse" or self._any_added is None:
            return [*self._by_length.ids(text.encode())]
        ids: list[int] = []
        start, is_stripped = 0, False
        for found in self._any_added.finditer(text):
            token_id = self._id_of_added[found[0]]
            token = self._added_tokens[token_id]
            part = text[start : found.start()]
            part = part.lstrip() if is_stripped else part
            part = part.rstrip() if token.lstrip else part
            ids += self._by_length.ids(part.encode())
            ids.append(token_id)
            start, is_stripped = found.end(), token.rstrip
        rest = text[start:]
        ids += self._by_length.ids((rest.lstrip() if is_stripped else rest).encode())
        return ids

    def _all_ids(
        self, texts: Sequence[str], special: Special, *, add_special_tokens: bool
    ) -> Sequence[Sequence[int] | bytes]:
        before, after = self._added if add_special_tokens else ((), ())
        found = (self._ids(text, special) for text in texts)
        # ByT5 does not end a text twice.
        return [
            [*before, *ids, *(() if [*after] == ids[len(ids) - len(after) :] else after)]
            for ids in found
        ]

    def _encoding_identity(self) -> bytes:
        flags = {i: repr(token) for i, token in sorted(self._added_tokens.items())}
        return repr((sorted(self._tokens.items()), flags, self._added)).encode()

    @cached_property
    def _by_length(self) -> LongestToken:
        ordinary = self._tokens.keys() - self._added_tokens.keys()
        return LongestToken((i, self._tokens[i]) for i in ordinary)

    @cached_property
    def _id_of_added(self) -> dict[str, int]:
        added = sorted(self._added_tokens.items(), reverse=True)
        return {token.content: i for i, token in added}

    @cached_property
    def _any_added(self) -> re.Pattern[str] | None:
        return any_of(self._id_of_added)

    # --- the vocabulary ---------------------------------------------------------------------------

    def id_to_token(self, token_id: int) -> str | None:
        """Return the text of ``token_id``, invalid bytes as ``<0xFF>``; None if unknown."""
        data = self._tokens.get(token_id)
        return None if data is None else readable(data)

    def token_to_id(self, token: str) -> int | None:
        return self._by_name.get(token)

    @cached_property
    def _by_name(self) -> dict[str, int]:
        names = {readable(data): i for i, data in sorted(self._tokens.items(), reverse=True)}
        return {**names, **self._id_of_added}

    @property
    def vocab_size(self) -> int:
        return max(self._tokens, default=-1) + 1

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens, with the roles that the class or the files beside it have."""
        known = {role: name for role, name in self._roles.items() if name in self._by_name}
        names = (self._added_tokens[i].content for i in sorted(self._skipped))
        others = tuple(name for name in names if name not in known.values())
        return SpecialTokens(**known, additional_special_tokens=others)


# --- RWKV's file ----------------------------------------------------------------------------------


def _lines(content: bytes, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the id and the bytes of each line.

    Raises TokenizerLoadError, which names the line.
    """
    seen: set[int] = set()
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line:
            continue
        token_id, data = _token(line) or (-1, b"")
        if token_id < 0 or token_id in seen:
            expected = "an id, a Python literal of a token, and its length in bytes"
            what = "has an id that occurred before" if token_id >= 0 else f"is not {expected}"
            raise TokenizerLoadError(f"{name}, line {number}: {line!r:.80} {what}")
        seen.add(token_id)
        yield token_id, data


def _token(line: bytes) -> tuple[int, bytes] | None:
    """Return the id and the bytes in ``line``; None if it is malformed."""
    if len(line) > _MAX_LINE:  # Python's parser and the regex take 200 times its size
        return None
    try:
        found = _LINE.fullmatch(line.decode())
        if found is None:
            return None
        token_id, as_bytes, as_text, size = found.groups()
        if as_bytes is None:
            data = _value(as_text).encode()
        else:
            as_bytes.encode("ascii")  # as Python requires
            data = _value(as_bytes).encode("latin-1")
    except (ValueError, SyntaxError):
        return None
    is_right = len(data) == int(size) and 0 < len(data) <= _MAX_TOKEN and int(token_id) <= MAX_ID
    return (int(token_id), data) if is_right else None


def _value(quoted: str) -> str:
    r"""Return the string of a literal; ``\xff`` of bytes is the character U+00FF."""
    if "\\" not in quoted:
        return quoted[1:-1]
    value: str = ast.literal_eval(quoted)
    return value
