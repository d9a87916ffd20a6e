r"""Token ids in, bytes out: what each token contributes in its place.

A :class:`TokenRule` has each token's *element*, which is made of its piece on first use, and a
small state. Which state is needed depends on how the tokenizer's library joins tokens:

===========================  ==============  ===================================================
decoder of the library       class           what is remembered between two tokens
===========================  ==============  ===================================================
RawBytes, ByteLevel,         FixedBytes      nothing
Concatenation,
ByteFallback (eager)
Joined, Metaspace,           FirstThenLater  whether any token came
WordPiece
BPESuffix                    WordSuffix      what the last token gives if another one follows
CTC                          Collapse        the last token, and whether any text came
ByteFallback (exact)         ExactRuns       the open run of byte tokens
ByteFallback with Metaspace  RunsThenSpaces  the run, and whether any token came
strip_left                   LeadingStrip    how many characters may still be removed
===========================  ==============  ===================================================

An example, for Metaspace ("\u2581" spells a space, and the first piece loses its spaces):

=====  =============  ========  ==========
state  token          bytes     next state
=====  =============  ========  ==========
False  "\u2581Hi"     "Hi"      True
True   "\u2581there"  " there"  True
=====  =============  ========  ==========

The rules were read off the ``tokenizers`` library (0.22 and 0.23), whose ``decode`` is the oracle
of the tests. A state is an immutable, hashable value.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from codecs import charmap_encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex

from streamdec.core import utf8
from streamdec.core.decode_options import Options
from streamdec.core.token_ids import MAX_TOKEN_ID, check_token_id
from streamdec.protocols import TableDecoder

State = Any
"""What a rule remembers: None, a bool, an int, a str, bytes, or a tuple of these."""
Element = Any
"""What a rule makes of a piece; an int is a byte of a run."""
Prepare = Callable[[Any], Element]
"""Turns a piece into its element."""

REPLACEMENT_BYTES = utf8.REPLACEMENT.encode()


class Elements(dict[int, Element]):
    """The element of each token id, made on first use; None if it has none.

    That of unknown ids is not stored: there are four billion of them.
    """

    __slots__ = ("_decoder", "_prepare", "_skip", "_unknown")

    def __init__(self, decoder: TableDecoder, rule: TokenRule, options: Options) -> None:
        # Weak, because tables live as long as their tokenizer; a stream holds the tokenizer.
        try:
            self._decoder: Callable[[], TableDecoder | None] = weakref.ref(decoder)
        except TypeError:  # no weak references to it: then it lives as long as its table
            self._decoder = lambda: decoder
        self._prepare = rule.prepare
        self._skip = options.skip_special_tokens
        self._unknown = rule.replacement if options.unknown_ids == "replace" else None

    def __missing__(self, token_id: int) -> Element:
        decoder = self._decoder()
        assert decoder is not None, "a stream outlived its tokenizer"
        piece = decoder.piece(token_id)
        if piece is None:
            return self._unknown
        skipped = self._skip and decoder.is_skipped(token_id)
        element = self[token_id] = None if skipped else self._prepare(piece)
        return element


class TokenRule(ABC):
    """What each token contributes, given the state that the tokens before it left."""

    elements: Elements
    """What each token contributes; ``compile_rule`` sets it."""
    errors = utf8.PER_PART
    """How invalid bytes become U+FFFD: utf8.PER_PART or utf8.PER_BYTE."""
    start: State = None
    """Before any token."""
    idle: State = None
    """The state in which most streams are most of the time."""
    replacement: Element = REPLACEMENT_BYTES
    """An element that contributes one unchanged U+FFFD (``unknown_ids="replace"``)."""
    has_spans = True
    """Whether each byte of the output can be attributed to one token."""

    def __init__(self, prepare: Prepare) -> None:
        self.prepare: Prepare = prepare

    @abstractmethod
    def advance(self, state: State, element: Element) -> tuple[bytes, bytes, State]:
        """Return what a contributing token outputs, and the state after it.

        First the bytes of the tokens that wait, then its own bytes.
        """

    def release(self, state: State) -> tuple[bytes, State]:
        """Return the bytes that are output if nothing follows, and the state without them."""
        return b"", state

    def settle(self, state: State) -> tuple[bytes, State]:
        """Return the bytes that the end of a prompt decides, and the state without them."""
        return b"", state

    # --- what may be asked of a state

    def held(self, state: State) -> bytes:
        """Return the bytes received and not yet output, if they are known."""
        return b""

    def waiting(self, state: State) -> int:
        """Return how many of the last tokens with bytes still have bytes to output."""
        return len(self.held(state))

    def fits(self, state: State) -> bool:
        """Whether ``state``, which came from outside, can be a state of this rule."""
        return state is None

    # --- what may be asked of an element

    def inside(self, element: Element) -> bytes:
        """Return the bytes of a token that has other tokens before and after it."""
        return bytes([element]) if isinstance(element, int) else self.advance(self.idle, element)[1]

    def synchronises(self, element: Element) -> bool:
        """Whether nothing before ``element`` decides the state or the bytes after it."""
        return not isinstance(element, int)

    # --- a prompt

    def prime(self, token_ids: Sequence[SupportsIndex]) -> tuple[State, bytes]:
        """Return the state after a prompt and the unfinished character that it ends in.

        Looks back only to the last token that settles both.
        """
        elements: list[Element] = []
        for element in self.contributions(reversed(token_ids)):
            elements.append(element)
            if self.synchronises(element):
                break
        state, parts = self.start, []
        for element in reversed(elements):
            *data, state = self.advance(state, element)
            parts += data
        return self.settle(state)[1], utf8.decode(b"".join(parts), self.errors)[1]

    def contributions(self, token_ids: Iterable[SupportsIndex]) -> Iterator[Element]:
        """Yield the elements of those tokens that contribute one."""
        for token_id in token_ids:
            # Looked up as it is first: a long prompt of skipped tokens is read to its end.
            if type(token_id) is not int or token_id < 0 or token_id > MAX_TOKEN_ID:
                token_id = check_token_id(token_id, what="prompt token")
            element = self.elements[token_id]
            if element is not None:
                yield element


# --- tokens whose bytes do not depend on their neighbours -----------------------------------------


_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]
BYTE_ALPHABET = {byte: byte for byte in _PRINTABLE} | dict(enumerate(_OTHERS, 0x100))
"""The bytes by code point of the alphabet of byte-level BPE.

From OpenAI's GPT-2 (``encoder.py``, ``bytes_to_unicode``)."""


def byte_level(piece: str) -> bytes:
    """Return a piece of the byte alphabet as its bytes, and any other piece as UTF-8."""
    try:
        return charmap_encode(piece, "strict", BYTE_ALPHABET)[0]
    except UnicodeEncodeError:
        return piece.encode()


def text_bytes(piece: str | bytes) -> bytes:
    """Return a piece of text as UTF-8; bytes as they are."""
    return piece.encode() if isinstance(piece, str) else piece


class FixedBytes(TokenRule):
    """Each token is always the same bytes, its element."""

    def __init__(self, prepare: Prepare, errors: str = utf8.PER_PART) -> None:
        super().__init__(prepare)
        self.errors = errors

    def advance(self, state: State, element: bytes) -> tuple[bytes, bytes, State]:
        return b"", element, state

    def synchronises(self, element: bytes) -> bool:
        return any(byte & 0xC0 != 0x80 for byte in element)  # all others continue a character
