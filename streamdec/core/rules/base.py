"""Token ids in, bytes out: what each token contributes in its place.

A :class:`TokenRule` is a lazily filled table of the tokenizer's pieces plus a small state. Which
state is needed depends on how the tokenizer's library joins tokens:

    decoder of the library       class           what is remembered between two tokens
    RawBytes, ByteLevel,         FixedBytes      nothing
      Concatenation,
      ByteFallback (eager)
    Joined, Metaspace, WordPiece FirstThenLater  whether any token came
    BPESuffix                    WordSuffix      what the last token gives if another one follows
    CTC                          Collapse        the last token, and whether any text came
    ByteFallback (exact)         ExactRuns       the open run of byte tokens
    ByteFallback with Metaspace  RunsThenSpaces  the run, and whether any token came
    strip_left                   LeadingStrip    how many characters may still be removed

An example, for Metaspace ("\u2581" spells a space, and the first piece loses its spaces):

    state    token           bytes    next state
    False    "\u2581Hi"       "Hi"     True
    True     "\u2581there"    " there" True

The rules were read off the ``tokenizers`` library (0.22 and 0.23), whose ``decode`` is the oracle
of the tests. A state is an immutable, hashable value; ``dump`` and ``load`` turn it into JSON and
back. FixedBytes is in this module, the others are in ``contextual`` and ``byte_fallback``;
``compile`` chooses.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from codecs import charmap_encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from streamdec.core import utf8
from streamdec.core.token_ids import MAX_TOKEN_ID, UnknownTokenError, check_token_id
from streamdec.protocols import TableDecoder

State = Any
"""What a rule remembers: None, a bool, an int, a str, bytes, or a tuple of these."""
Element = Any
"""A token prepared for its rule: what ``prepare`` made of its piece."""

REPLACEMENT_BYTES = utf8.REPLACEMENT.encode()


class _Elements(dict[int, Element]):
    """The element of each token id; None for a skipped token.

    The tokenizer is asked for a piece on first use. An unknown id is an UnknownTokenError and
    leaves nothing behind: there are four billion of them.
    """

    __slots__ = ("_decoder", "_prepare", "_skip")

    def __init__(
        self, decoder: TableDecoder, prepare: Callable[[str | bytes], Element], skip: bool
    ) -> None:
        # Weak, because tables live as long as their tokenizer; a stream holds the tokenizer.
        try:
            self._decoder: Callable[[], TableDecoder | None] = weakref.ref(decoder)
        except TypeError:  # no weak references to it: then it lives as long as its table
            self._decoder = lambda: decoder
        self._prepare = prepare
        self._skip = skip

    def __missing__(self, token_id: int) -> Element:
        decoder = self._decoder()
        assert decoder is not None, "a stream outlived its tokenizer"
        piece = decoder.piece(token_id)
        if piece is None:
            raise UnknownTokenError(token_id)
        skipped = self._skip and decoder.is_skipped(token_id)
        element = self[token_id] = None if skipped else self._prepare(piece)
        return element


class TokenRule(ABC):
    """What each token contributes, given the state that the tokens before it left."""

    errors = utf8.PER_PART
    """How invalid bytes become U+FFFD: utf8.PER_PART or utf8.PER_BYTE."""
    start: State = None
    """Before any token."""
    idle: State = None
    """The state in which most streams are most of the time."""
    has_spans = True
    """Whether each byte of the output can be attributed to one token."""

    def __init__(self, decoder: TableDecoder, *, skip_special_tokens: bool) -> None:
        self.elements: dict[int, Element] = _Elements(decoder, self.prepare, skip_special_tokens)
        """Each token prepared, or None if it is skipped. UnknownTokenError for an unknown id."""

    # --- the two verbs

    def step(self, state: State, token_id: int) -> tuple[bytes, State]:
        """The bytes that ``token_id`` outputs, and the state after it.

        Raises UnknownTokenError for an unknown id.
        """
        element = self.elements[token_id]
        return (b"", state) if element is None else self.advance(state, element)

    def flush(self, state: State) -> bytes:
        """The bytes that are output because nothing follows."""
        return b""

    def release(self, state: State) -> tuple[bytes, State]:
        """The bytes that a release outputs, and the state after it.

        They are the bytes of ``held``, output although more tokens will follow.
        """
        return b"", state

    def settle(self, state: State) -> tuple[bytes, State]:
        """The bytes that are decided at the end of a prompt, and the state without them.

        ``state`` is the state in which the prompt ends.
        """
        return b"", state

    # --- what a rule defines

    @abstractmethod
    def prepare(self, piece: str | bytes) -> Element:
        """A token's piece, made ready for ``advance`` once and for all."""

    @abstractmethod
    def advance(self, state: State, element: Element) -> tuple[bytes, State]:
        """The bytes that a contributing token outputs, and the state after it."""

    def replacement(self) -> Element:
        """An element that contributes one unchanged U+FFFD (``unknown_ids="replace"``)."""
        return self.prepare(utf8.REPLACEMENT)

    # --- what may be asked of a state

    def held(self, state: State) -> bytes:
        """Bytes received and not yet output, if they are known."""
        return b""

    def withholds(self, state: State) -> bool:
        """Whether ``held`` would give anything, without the cost of giving it."""
        return False

    def is_bounded(self, state: State) -> bool:
        """Whether such states are few enough to keep a cached row for each."""
        return True

    def waiting(self, state: State) -> int:
        """How many of the last tokens with bytes still have bytes to output."""
        return 0

    def own(self, element: Element, data: bytes) -> int:
        """How many of the bytes that ``advance`` gave are the token's own, at their end.

        Those before are of the tokens that waited, in equal parts.
        """
        return len(data)

    # --- a prompt

    def synchronises(self, element: Element) -> bool:
        """Whether the state after ``element`` does not depend on what came before it."""
        return True

    def prime(
        self, token_ids: Sequence[SupportsIndex], *, show_unknown: bool
    ) -> tuple[State, bytes]:
        """The state after ``token_ids`` and the unfinished character they end in.

        Looks back only to the last token that settles the state. Unknown ids count as U+FFFD if
        ``show_unknown``, else as nothing.
        """
        elements: list[Element] = []
        for element in self.contributions(reversed(token_ids), show_unknown):
            elements.append(element)
            if self.synchronises(element):
                break
        state = self.start
        for element in reversed(elements):
            _, state = self.advance(state, element)
        return state, b""

    def contributions(
        self, token_ids: Iterable[SupportsIndex], show_unknown: bool
    ) -> Iterator[Element]:
        """The elements of those tokens that contribute one."""
        elements = self.elements
        for token_id in token_ids:
            # Looked up as it is first: a long prompt of skipped tokens is read to its end.
            if type(token_id) is not int or token_id < 0 or token_id > MAX_TOKEN_ID:
                token_id = check_token_id(token_id, what="prompt token")
            try:
                element = elements[token_id]
            except UnknownTokenError:
                element = self.replacement() if show_unknown else None
            if element is not None:
                yield element

    # --- JSON

    def dump(self, state: State) -> Any:
        """``state`` as JSON."""
        return state

    def load(self, data: Any) -> State:
        """The state that ``dump`` gave ``data`` for. Raises ValueError for any other."""
        if data is None:
            return None
        raise ValueError(f"expected null, got {data!r}")


def expect(condition: bool, expected: str, data: object) -> None:
    """Raises ValueError unless ``condition`` holds of ``data``, a state from outside."""
    if not condition:
        raise ValueError(f"expected {expected}, got {data!r:.80}")


# --- tokens whose bytes do not depend on their neighbours -----------------------------------------


def byte_alphabet() -> dict[int, int]:
    """Code point → byte of the alphabet in which byte-level BPE writes its tokens.

    From OpenAI's GPT-2 (``encoder.py``, ``bytes_to_unicode``): printable Latin-1 stands for
    itself, the other 68 bytes for U+0100 onwards, in order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: byte for byte in printable} | {0x100 + n: byte for n, byte in enumerate(others)}


_BYTE_ALPHABET = byte_alphabet()


def byte_level(piece: str | bytes) -> bytes:
    """Return a piece of the byte alphabet as its bytes, and any other piece as UTF-8."""
    assert isinstance(piece, str)
    try:
        return charmap_encode(piece, "strict", _BYTE_ALPHABET)[0]
    except UnicodeEncodeError:
        return piece.encode()


def text_bytes(piece: str | bytes) -> bytes:
    """A piece of text as UTF-8; bytes as they are."""
    return piece.encode() if isinstance(piece, str) else piece


class FixedBytes(TokenRule):
    """Each token is always the same bytes."""

    def __init__(
        self,
        decoder: TableDecoder,
        to_bytes: Callable[[str | bytes], bytes],
        *,
        skip_special_tokens: bool,
        errors: str = utf8.PER_PART,
    ) -> None:
        self._to_bytes = to_bytes
        self.errors = errors
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> bytes:
        return self._to_bytes(piece)

    def replacement(self) -> bytes:
        return REPLACEMENT_BYTES

    def advance(self, state: State, element: bytes) -> tuple[bytes, State]:
        return element, state

    def prime(
        self, token_ids: Sequence[SupportsIndex], *, show_unknown: bool
    ) -> tuple[State, bytes]:
        """An unfinished character is decided by the last three bytes."""
        tail = b""
        for element in self.contributions(reversed(token_ids), show_unknown):
            tail = element + tail
            if len(tail) >= 3:
                break
        return None, utf8.decode(tail, self.errors)[1]
