"""What the laws are tried on: token ids of every temperament, running text, cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from streamdec.errors import TokenizerLibraryError
from streamdec.protocols import ByteFallback, ByteLevel, Decoder, Tokenizer

__all__ = ["Subject", "cuts", "running_text", "token_ids"]

SCAN = 2_000
REPLACEMENT = "\ufffd"


@dataclass(repr=False)
class Subject:
    """A tokenizer to try a law on, and which of its ids are of what kind."""

    name: str
    tokenizer: Tokenizer
    """Knows its ids, and is the oracle: its ``decode`` is the library's own."""
    decoder: Decoder | None = None
    """What is streamed, if not ``tokenizer``: for the windowed route, an object that knows less."""
    usual: list[int] = field(default_factory=list)
    """Ids spread over the vocabulary."""
    partial: list[int] = field(default_factory=list)
    """Ids of single bytes and of parts of characters."""
    ordinary: list[int] = field(default_factory=list)
    """Those of ``usual`` that are text of their own: neither partial nor ever skipped."""
    words: list[int] = field(default_factory=list)
    """Those of ``ordinary`` that are letters, and the same letters whatever follows."""
    special: list[int] = field(default_factory=list)
    """Ids that are skipped, and other added ones."""
    unknown: list[int] = field(default_factory=list)
    byte_ids: dict[int, int] = field(default_factory=dict)
    """Byte → an id that is this byte."""
    apart: list[int] = field(default_factory=list)
    """Ids whose texts begin differently and end a word, a run, a repetition."""

    def __repr__(self) -> str:
        return self.name

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Hypothesis would print every field."""
        printer.text(self.name)

    def __post_init__(self) -> None:
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
        """What is given to a stream."""
        return self.decoder or self.tokenizer

    @property
    def skipped(self) -> list[int]:
        """Ids that are left out with ``skip_special_tokens``; other than ``special``, maybe none.

        The first of them: one of each kind is among them.
        """
        return [i for i in self.tokenizer.sample_ids() if self.tokenizer.is_skipped(i)]

    @property
    def is_foreseeable(self) -> bool:
        """Whether the futures that can be tried out tell exactly what is certain.

        Not if a vocabulary has some bytes and lacks others, so that it cannot finish or break what
        it began; nor if the whole text is searched for patterns, which nobody tries to complete
        here (``tests/core/test_rewrite.py`` does). Then a stream may rightly withhold more.
        """
        rules = self.tokenizer.rules
        return len(self.byte_ids) in (0, 256) and not (rules and rules.replaces)

    def _text(self, *token_ids: int) -> str:
        try:
            return self.tokenizer.decode(token_ids, skip_special_tokens=False)
        except TokenizerLibraryError:  # some decoders panic on an empty text
            return ""

    def _byte(self, token_id: int) -> int | None:
        """The one byte that a token is, if its piece says so in the spelling of its rule."""
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


_LETTERS = [
    chr(b) for b in range(256) if b in range(0x21, 0x7F) or b in range(0xA1, 0xAD) or b > 0xAD
]
_SPELLED: dict[str | bytes, tuple[type, int]] = {
    **{f"<0x{byte:02X}>": (ByteFallback, byte) for byte in range(256)},
    **{letter: (ByteLevel, ord(letter)) for letter in _LETTERS},
    **{
        chr(0x100 + n): (ByteLevel, byte)
        for n, byte in enumerate(b for b in range(256) if chr(b) not in _LETTERS)
    },
}


def token_ids(
    subject: Subject, *, known: bool = False, max_size: int = 40
) -> st.SearchStrategy[list[int]]:
    """Ids as models, attackers and accidents give them; ``known``: only those of the tokenizer."""
    kinds = [subject.usual, subject.usual, subject.partial, subject.special]
    if not known:
        kinds.append(subject.unknown or subject.usual)
    one = st.sampled_from(kinds).flatmap(st.sampled_from)
    few = st.lists(one, min_size=1, max_size=4).flatmap(st.sampled_from)
    runs = st.tuples(one, st.integers(2, 12)).map(lambda run: [run[0]] * run[1])
    mixed = st.lists(st.one_of(one, few), max_size=max_size)
    return st.one_of(
        mixed,
        st.lists(st.sampled_from(subject.partial), max_size=max_size),
        _joined(st.one_of(one.map(lambda i: [i]), runs), max_size // 4),
    )


def running_text(
    subject: Subject, *, skip_special_tokens: bool, max_size: int = 20
) -> st.SearchStrategy[list[int]]:
    """Ids as a model writes: words, characters in bytes, and runs of ids that are not shown."""
    word = st.sampled_from(subject.ordinary).map(lambda i: [i])
    skipped = set(subject.skipped if skip_special_tokens else ())
    silent = [*subject.unknown, *sorted(skipped)]
    byte_ids = {byte: i for byte, i in subject.byte_ids.items() if i not in skipped}
    unseen = st.tuples(st.sampled_from(silent), st.integers(1, 80)).map(
        lambda run: [run[0]] * run[1]
    )
    spelled = [
        [byte_ids[byte] for byte in char.encode()]
        for char in "aé你😀\u0301"
        if byte_ids.keys() >= set(char.encode())
    ]
    parts = [word, word, word, unseen, *([st.sampled_from(spelled)] * 2 if spelled else ())]
    return _joined(st.sampled_from(parts).flatmap(lambda part: part), max_size)


def _joined(parts: st.SearchStrategy[list[int]], max_size: int) -> st.SearchStrategy[list[int]]:
    """At most so many parts, in one list."""
    return st.lists(parts, max_size=max_size).map(lambda found: [i for part in found for i in part])


def cuts(token_ids: Sequence[int]) -> st.SearchStrategy[list[int]]:
    """Places at which a list of ids is divided into calls, ascending."""
    return st.lists(st.integers(0, len(token_ids)), max_size=8).map(sorted)
