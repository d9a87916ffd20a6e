"""Tokenizers to test laws with, and their ids by kind."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models

from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.core.rules.base import BYTE_ALPHABET
from streamdec.core.shared_tables import tokenizer_for
from streamdec.errors import TokenizerLibraryError
from streamdec.protocols import ByteFallback, ByteLevel, Decoder
from streamdec.protocols import Tokenizer as KnownTokenizer

SCAN = 2_000
REPLACEMENT = "\ufffd"

_SPELLED: dict[str | bytes, tuple[type, int]] = {
    **{f"<0x{byte:02X}>": (ByteFallback, byte) for byte in range(256)},
    **{chr(letter): (ByteLevel, byte) for letter, byte in BYTE_ALPHABET.items()},
}


@dataclass(repr=False, eq=False)
class Subject:
    """A tokenizer to test laws with, and its ids by kind.

    The constructor computes all fields but the first three. It raises TypeError if ``tokenizer`` is
    not a tokenizer of streamdec.

    >>> from streamdec import MockTokenizer
    >>> from streamdec.testing import Subject
    >>> subject = Subject("words", MockTokenizer())
    >>> subject.streamed is subject.tokenizer, subject.byte_ids
    (True, {})
    """

    name: str
    """The name in reports, in brackets."""
    tokenizer: KnownTokenizer
    """The tokenizer, which is the oracle: its ``decode`` is the library's own."""
    decoder: Decoder | None = None
    """The object to stream with, if not ``tokenizer``, such as the library's own object."""
    usual: list[int] = field(default_factory=list)
    """Ids spread over the vocabulary."""
    partial: list[int] = field(default_factory=list)
    """Ids of single bytes and of parts of characters."""
    ordinary: list[int] = field(default_factory=list)
    """The ids of ``usual`` with complete text: neither partial nor ever skipped."""
    words: list[int] = field(default_factory=list)
    """The ids of ``ordinary`` whose text is letters, and the same letters before other text."""
    special: list[int] = field(default_factory=list)
    """Ids that are skipped, or any id if none is skipped."""
    unknown: list[int] = field(default_factory=list)
    """Ids without a token: holes, and ids beyond the vocabulary."""
    byte_ids: dict[int, int] = field(default_factory=dict)
    """An id for each byte that has a token."""
    apart: list[int] = field(default_factory=list)
    """Ids whose texts begin differently. Each may end a word, a run or a repetition."""

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Print only the name; hypothesis would print every field."""
        printer.text(self.name)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(
                f"name must be a string, not {self.name!r:.80}; write Subject(name, tokenizer)"
            )
        if not hasattr(self.tokenizer, "sample_ids"):
            raise TypeError(
                "tokenizer must be a tokenizer that load_tokenizer returns, or an object with the "
                f"same methods, not {self.tokenizer!r:.80}"
            )
        sample = list(self.tokenizer.sample_ids())
        known = [i for i in range(SCAN) if self.tokenizer.piece(i) is not None]
        self.usual = list(dict.fromkeys(known[:: max(len(known) // 200, 1)] + sample))
        self.special = self.skipped or self.usual[:1]
        self.partial = [i for i in known + sample if self._is_partial(i)] or self.usual
        shown = [i for i in self.usual if not self.tokenizer.is_skipped(i)]
        self.ordinary = [i for i in shown if not self._is_partial(i)]
        self.words = [i for i in self.ordinary if self._is_word(i)]
        top = max(self.usual, default=0)
        self.unknown = [i for i in (top + 77_777, 2**32 - 1) if self.tokenizer.piece(i) is None]
        self.unknown += [i for i in range(top) if i < SCAN and self.tokenizer.piece(i) is None][:5]
        self.byte_ids = {b: i for i in known + sample if (b := self._byte(i)) is not None}
        texts = {self._text(i)[:1]: i for i in shown}
        self.apart = list(texts.values())[:40]

    @property
    def streamed(self) -> Decoder:
        """The object that streams decode with."""
        return self.decoder or self.tokenizer

    @property
    def skipped(self) -> list[int]:
        """The ids of the sample that ``skip_special_tokens`` leaves out; may be empty."""
        return [i for i in self.tokenizer.sample_ids() if self.tokenizer.is_skipped(i)]

    @property
    def is_foreseeable(self) -> bool:
        """Whether ``certain_text`` finds exactly the text that no later token can change.

        A stream may withhold more text if only some bytes have single-byte tokens, so that no token
        completes some characters, or if the decoder replaces patterns in the whole text.
        """
        rules = self.tokenizer.rules
        return len(self.byte_ids) in (0, 256) and not (rules and rules.replaces)

    @property
    def has_byte_fallback(self) -> bool:
        """Whether bytes are pieces like ``<0xE4>``: runs are rendered in two ways."""
        rules = self.tokenizer.rules
        return rules is not None and isinstance(rules.rule, ByteFallback)

    def _text(self, *token_ids: int) -> str:
        try:
            return self.tokenizer.decode(token_ids, skip_special_tokens=False)
        except TokenizerLibraryError:  # some decoders panic on an empty text
            return ""

    def _byte(self, token_id: int) -> int | None:
        """Return the byte of a token of one byte; None for other tokens."""
        piece = self.tokenizer.piece(token_id)
        if isinstance(piece, bytes):
            return piece[0] if len(piece) == 1 else None
        if piece in _SPELLED and self.tokenizer.rules is not None:
            spelled, byte = _SPELLED[piece]
            return byte if isinstance(self.tokenizer.rules.rule, spelled) else None
        return None

    def _is_word(self, token_id: int) -> bool:
        text = self._text(token_id)
        return text.isalpha() and self._text(token_id, token_id).startswith(text)

    def _is_partial(self, token_id: int) -> bool:
        piece = self.tokenizer.piece(token_id)
        if isinstance(piece, str) and piece.startswith("<0x"):
            return True
        return REPLACEMENT in self._text(token_id)


def subject_of(name: str, tokenizer: Any) -> Subject:
    """Return ``tokenizer`` as a subject; TypeError if ``checks`` does not accept it."""
    if isinstance(tokenizer, Subject):
        return tokenizer
    if isinstance(tokenizer, (str, os.PathLike)):
        path = Path(tokenizer)
        file = path / "tokenizer.json" if path.is_dir() else path
        HuggingFaceTokenizer(file)  # raises an error that names the problem of the file
        tokenizer = Tokenizer.from_file(str(file))
    known = tokenizer_for(tokenizer)
    if isinstance(known, KnownTokenizer):
        return Subject(name, known, None if known is tokenizer else tokenizer)
    raise TypeError(
        f"tokenizers[{name!r}] must be a path, a tokenizers.Tokenizer, a fast tokenizer of "
        f"transformers, a tokenizer of streamdec or a Subject, not {type(tokenizer).__name__}"
    )


# --- tokenizers that are made here ----------------------------------------------------------------


def byte_level_tokenizer(
    tokens: Iterable[bytes], special: Iterable[bytes] = ()
) -> tuple[Tokenizer, dict[bytes, int]]:
    """Return a byte-level ``tokenizers.Tokenizer`` of these tokens, and their ids.

    Tokens may be any bytes. ``special`` tokens, in UTF-8, must differ from all ``tokens``.
    """
    distinct = list(dict.fromkeys(tokens))
    tokenizer = Tokenizer(models.BPE({_spelled(token): i for i, token in enumerate(distinct)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    names = dict.fromkeys(special)
    tokenizer.add_special_tokens([_special(name.decode()) for name in names])
    ids = {token: i for i, token in enumerate(distinct)}
    return tokenizer, ids | {name: tokenizer.token_to_id(name.decode()) or 0 for name in names}


def small_tokenizers() -> dict[str, Tokenizer]:
    """Return a new ``tokenizers.Tokenizer`` for each of three families, by name.

    ``byte_level`` joins bytes (GPT-2, Llama 3, Qwen). ``byte_fallback`` joins pieces, and has bytes
    for characters without a piece (Llama 2, Mistral, Gemma). ``wordpiece`` joins words and their
    ends (BERT). Each has a few hundred tokens of the kinds in real vocabularies: parts of
    characters, bytes that are not characters, beginnings of stops, line ends, special tokens.

    >>> from streamdec.testing import small_tokenizers
    >>> [*small_tokenizers()]
    ['byte_level', 'byte_fallback', 'wordpiece']
    """
    return {
        "byte_level": _byte_level(),
        "byte_fallback": _byte_fallback(),
        "wordpiece": _wordpiece(),
    }


_LETTER_OF = {byte: chr(letter) for letter, byte in BYTE_ALPHABET.items()}
_CHARACTERS = "é你好😀🙂\u0301".encode()
_CUT = [_CHARACTERS[i:j] for i in range(len(_CHARACTERS)) for j in range(i + 2, i + 5)]
_BROKEN = [b"\xe0\x80", b"\xed\xa0\x80", b"\xf4\x90", b"a\xe4", b"\xbd\xa0b"]
_BROKEN += [b" \xf0\x9f", b"\xff\xfe"]
_BEGINNINGS = ["a", "b", "ab", "ba", "aa", "x", "1", "<", "</", "s>", "|>", "im_", "user"]
_COMMON = """the of and to in is that it was for on are as with they at be this from have or by one
not but what all were when we there can an your which their said if do will each about how up out
them then she many some so these would other into has more her two like him see time could no make
than first been its who now people my made over did down only way find use may water long little"""
_WORDS = [*_BEGINNINGS, *_COMMON.split()]
_SIGNS = ["\n", "\n\n", ".", "!", "?\n", ":", "é", "你", "你好", "😀", "\ufffd", "\u0301"]


def _spelled(token: bytes) -> str:
    return "".join(_LETTER_OF[byte] for byte in token)


def _byte_level() -> Tokenizer:
    texts = [*_WORDS, *_SIGNS, *(f" {word}" for word in _WORDS)]
    tokens = [*(bytes([byte]) for byte in range(256)), *(text.encode() for text in texts)]
    special = [b"<|endoftext|>", b"<|im_end|>"]
    return byte_level_tokenizer([*tokens, *_CUT, *_BROKEN], special)[0]


def _byte_fallback() -> Tokenizer:
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [*_WORDS, *_SIGNS, "\u2581", "\u2581\u2581", *(f"\u2581{word}" for word in _WORDS)]
    tokenizer = Tokenizer(models.BPE(_numbered(pieces), [], unk_token="<unk>", byte_fallback=True))
    space, strip = decoders.Replace("\u2581", " "), decoders.Strip(" ", 1, 0)
    chain = [space, decoders.ByteFallback(), decoders.Fuse(), strip]
    tokenizer.decoder = decoders.Sequence(chain)
    tokenizer.add_special_tokens([_special(name) for name in pieces[:3]])
    return tokenizer


def _wordpiece() -> Tokenizer:
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]"]
    pieces = [*special, *_WORDS, *(f"##{word}" for word in _WORDS), *".!?:,'éß你"]
    pieces += ["##s", "##é", "n't"]
    tokenizer = Tokenizer(models.WordPiece(_numbered(pieces), unk_token="[UNK]"))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([_special(name) for name in special])
    return tokenizer


def _numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}


def _special(name: str) -> AddedToken:
    return AddedToken(name, special=True, normalized=False)
