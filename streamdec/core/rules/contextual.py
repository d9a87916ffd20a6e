"""Rules for tokens whose text depends on their neighbours.

A token may be the first, the last or a repeated one, or lose characters at the beginning of the
text. :mod:`streamdec.core.rules.base` says what a TokenRule is and which decoder has which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from streamdec.chunks import same_items
from streamdec.core.replacers import CLEAN_UP_TOKENIZATION_SPACES as CLEAN_UP
from streamdec.core.rules.base import REPLACEMENT_BYTES, Element, State, TokenRule
from streamdec.protocols import CTC, Joined, LiteralReplace, Metaspace, WordPiece

# --- tokens whose text depends on being the first -------------------------------------------------

Forms = tuple[bytes, bytes]
"""The bytes of a token as the first one, and after another token."""


class FirstThenLater(TokenRule):
    """Each token has two forms. State: whether any token came."""

    start = False
    idle = True
    replacement: Forms = (REPLACEMENT_BYTES, REPLACEMENT_BYTES)

    def advance(self, state: bool, element: Forms) -> tuple[bytes, bytes, bool]:
        return b"", element[state], True

    def fits(self, state: State) -> bool:
        return isinstance(state, bool)


def joined_forms(rule: Joined, piece: str) -> Forms:
    """Return the forms of ``piece``: the later one has the separator before it."""
    return piece.encode(), (rule.separator + piece).encode()


def metaspace_forms(rule: Metaspace, piece: str) -> tuple[str, str]:
    """Return the text of ``piece`` as the first one (``prepend``) and as a later one."""
    later = piece.replace(rule.replacement, " ")
    return (piece.replace(rule.replacement, "") if rule.prepend else later), later


def encoded_metaspace(rule: Metaspace, piece: str) -> Forms:
    """Return ``metaspace_forms`` as UTF-8."""
    first, later = metaspace_forms(rule, piece)
    return first.encode(), later.encode()


WORDPIECE_CLEANUP = (*CLEAN_UP[:7], LiteralReplace(" do not", " don't"), *CLEAN_UP[7:])
"""The clean-up of the ``tokenizers`` library, applied to each token alone
(``decoders/wordpiece.rs``)."""


def cleaned(text: str) -> str:
    """Return the text of one token after WORDPIECE_CLEANUP."""
    for rule in WORDPIECE_CLEANUP:
        text = text.replace(rule.pattern, rule.content)
    return text


def wordpiece_forms(rule: WordPiece, piece: str) -> Forms:
    """Return the forms of ``piece``. The later one loses the prefix or gains a space."""
    prefix = rule.prefix
    later = piece.removeprefix(prefix) if piece.startswith(prefix) else " " + piece
    if rule.cleanup:
        piece, later = cleaned(piece), cleaned(later)
    return piece.encode(), later.encode()


# --- tokens whose text depends on being the last --------------------------------------------------

OpenEnd = tuple[str, str]
"""The end of a token if another token follows, and if none does."""
Suffixed = tuple[bytes, OpenEnd]
"""A token's bytes before its open end, and the open end."""


class WordSuffix(TokenRule):
    """A suffix is a space, but nothing in the last token. State: the open end."""

    start: State = ("", "")
    idle: State = (" ", "")
    replacement: Suffixed = (REPLACEMENT_BYTES, ("", ""))

    def advance(self, state: OpenEnd, element: Suffixed) -> tuple[bytes, bytes, OpenEnd]:
        return state[0].encode(), *element

    def release(self, state: OpenEnd) -> tuple[bytes, OpenEnd]:
        # A space that is owed is not output: it comes with the next token, if one follows.
        followed, last = (len(text) - len(text.rstrip(" ")) for text in state)
        return state[1].encode(), (" " * (followed - last), "")

    def waiting(self, state: OpenEnd) -> int:
        return int(state != ("", ""))

    def inside(self, element: Suffixed) -> bytes:
        return element[0] + element[1][0].encode()

    def fits(self, state: State) -> bool:
        match state:
            case (str(followed), str(last)):
                # One is the other with a space for each suffix, from the first suffix on.
                is_open = followed == last == "" or followed.startswith(" ")
                return is_open and followed.replace(" ", "") == last.replace(" ", "")
        return False


def suffixed(suffix: str, piece: str) -> Suffixed:
    """Return the element of ``piece``, in which ``suffix`` ends a word."""
    followed, last = piece.replace(suffix, " "), piece.replace(suffix, "")
    size = same_items(followed, last)
    return last[:size].encode(), (followed[size:], last[size:])


# --- tokens that depend on the one before ---------------------------------------------------------

Repeatable = tuple[str | None, bytes, bytes]
"""A token, None for one that always counts, and its bytes as the first and as a later one."""


class Collapse(TokenRule):
    """CTC: repeated tokens count once. State: the last token, whether any text came."""

    start: State = (None, False)
    idle: State = (None, True)
    replacement: Repeatable = (None, REPLACEMENT_BYTES, REPLACEMENT_BYTES)

    def advance(
        self, state: tuple[str | None, bool], element: Repeatable
    ) -> tuple[bytes, bytes, tuple[str | None, bool]]:
        before, came = state
        piece, first, later = element
        if piece is not None and piece == before:
            return b"", b"", state
        # A token that is empty by now is not the first; one that only Metaspace empties is.
        return b"", (later if came else first), (piece, came or bool(later))

    def synchronises(self, element: Repeatable) -> bool:
        return bool(element[2])

    def fits(self, state: State) -> bool:
        match state:
            case (str() | None, bool()):
                return True
        return False


def repeatable(rule: CTC, piece: str) -> Repeatable:
    """Return the element of ``piece``."""
    text = piece.replace(rule.pad, "")
    if rule.cleanup:
        text = cleaned(text).replace(rule.delimiter, " ")
    first, later = metaspace_forms(rule.metaspace, text) if rule.metaspace else (text, text)
    return piece, first.encode(), later.encode()


# --- the beginning of the text --------------------------------------------------------------------

Stripping = tuple[State, int, bytes]
"""The state of the inner rule; how many characters may still be removed; the bytes that may begin
one more of them."""


class LeadingStrip(TokenRule):
    """Removes up to ``count`` times ``char`` at the start of the output of ``inner``."""

    def __init__(self, inner: TokenRule, char: bytes, count: int) -> None:
        super().__init__(inner.prepare)
        self._inner = inner
        self._char = char
        self._count = count
        self.elements = inner.elements
        self.errors = inner.errors
        self.start: State = (inner.start, count, b"")
        self.idle: State = (inner.idle, 0, b"")
        self.replacement: Element = inner.replacement
        self.has_spans = inner.has_spans and len(char) == 1

    def _stripped(self, state: Stripping, data: bytes, inner: State) -> tuple[bytes, Stripping]:
        """Return what is output of ``data`` from the inner rule, and the next state."""
        _, left, begun = state
        data = begun + data
        while left and data.startswith(self._char):
            data, left = data.removeprefix(self._char), left - 1
        if left and self._char.startswith(data):
            return b"", (inner, left, data)
        return data, (inner, 0, b"")

    def advance(self, state: Stripping, element: Element) -> tuple[bytes, bytes, Stripping]:
        late, own, inner = self._inner.advance(state[0], element)
        data, after = self._stripped(state, late + own, inner)
        start = max(len(data) - len(own), 0)
        return data[:start], data[start:], after

    def settle(self, state: Stripping) -> tuple[bytes, Stripping]:
        return self._stripped(state, *self._inner.settle(state[0]))

    def release(self, state: Stripping) -> tuple[bytes, Stripping]:
        data, (inner, left, begun) = self._stripped(state, *self._inner.release(state[0]))
        data += begun
        return data, (inner, 0 if data else left, b"")

    def held(self, state: Stripping) -> bytes:
        return state[2] + self._inner.held(state[0])

    def waiting(self, state: Stripping) -> int:
        return self._inner.waiting(state[0])

    def fits(self, state: State) -> bool:
        match state:
            case (inner, int(left), bytes(begun)):
                is_begun = left > 0 and begun != self._char and self._char.startswith(begun)
                is_count = 0 <= left <= self._count
                return is_count and (begun == b"" or is_begun) and self._inner.fits(inner)
        return False

    def prime(self, token_ids: Sequence[SupportsIndex]) -> tuple[State, bytes]:
        """Read the front of a prompt for what may still be removed, and its end."""
        state = self.start
        for element in self.contributions(token_ids):
            *_, state = self.advance(state, element)
            if state[1] == 0:
                inner, tail = self._inner.prime(token_ids)
                return (inner, 0, b""), tail
        return self.settle(state)[1], b""
