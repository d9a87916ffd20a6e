"""Rules for tokens whose text depends on their neighbours.

A token may be the first, the last or a repeated one, or lose characters at the beginning of the
text. :mod:`streamdec.core.rules.base` says what a TokenRule is and which decoder has which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os.path import commonprefix
from typing import Any, SupportsIndex

from streamdec.core.replacers import CLEANED_UP
from streamdec.core.rules.base import REPLACEMENT_BYTES, Element, State, TokenRule, expect
from streamdec.protocols import CTC, Joined, Metaspace, TableDecoder, WordPiece

# --- tokens whose text depends on being the first -------------------------------------------------


class FirstThenLater(TokenRule):
    """Each token has two forms: one as the first token, and one after another token.

    State: whether any token came.
    """

    start = False
    idle = True

    def __init__(
        self,
        decoder: TableDecoder,
        forms: Callable[[str], tuple[str, str]],
        *,
        skip_special_tokens: bool,
    ) -> None:
        self._forms = forms
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> tuple[bytes, bytes]:
        assert isinstance(piece, str)
        first, later = self._forms(piece)
        return first.encode(), later.encode()

    def replacement(self) -> tuple[bytes, bytes]:
        return REPLACEMENT_BYTES, REPLACEMENT_BYTES

    def advance(self, state: bool, element: tuple[bytes, bytes]) -> tuple[bytes, bool]:
        return element[state], True

    def load(self, data: Any) -> bool:
        expect(isinstance(data, bool), "true or false", data)
        return bool(data)


def joined_forms(rule: Joined, piece: str) -> tuple[str, str]:
    """A separator before each piece but the first."""
    return piece, rule.separator + piece


def metaspace_forms(rule: Metaspace, piece: str) -> tuple[str, str]:
    """Return the forms of ``piece`` as the first piece and as a later one.

    Each ``replacement`` becomes a space. With ``prepend``, the first piece loses all of them.
    """
    later = piece.replace(rule.replacement, " ")
    return (piece.replace(rule.replacement, "") if rule.prepend else later), later


WORDPIECE_CLEANUP = (*CLEANED_UP[:7], (" do not", " don't"), *CLEANED_UP[7:])
"""The ``tokenizers`` library's clean-up, applied to each token alone
(``decoders/wordpiece.rs``)."""


def cleaned(text: str) -> str:
    """One token's text after WORDPIECE_CLEANUP."""
    for pattern, content in WORDPIECE_CLEANUP:
        text = text.replace(pattern, content)
    return text


def wordpiece_forms(rule: WordPiece, piece: str) -> tuple[str, str]:
    """Return the forms of ``piece`` as the first piece and as a later one.

    The first piece is unchanged. A later one loses the prefix or gains a space. With ``cleanup``,
    both forms are cleaned up.
    """
    continues = piece.startswith(rule.prefix)
    later = piece[len(rule.prefix) :] if continues else " " + piece
    return (cleaned(piece), cleaned(later)) if rule.cleanup else (piece, later)


# --- tokens whose text depends on being the last --------------------------------------------------


class WordSuffix(TokenRule):
    """The suffix in a token is a space, but nothing if the token is the last.

    State: what of the last token is open, as (its end if another token follows, its end if none
    does).
    """

    start: State = ("", "")
    idle: State = (" ", "")

    def __init__(self, decoder: TableDecoder, suffix: str, *, skip_special_tokens: bool) -> None:
        self._suffix = suffix
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> tuple[bytes, tuple[str, str]]:
        assert isinstance(piece, str)
        followed, last = piece.replace(self._suffix, " "), piece.replace(self._suffix, "")
        common = commonprefix([followed, last])  # noqa: RUF071 (letters, not paths)
        return common.encode(), (followed[len(common) :], last[len(common) :])

    def replacement(self) -> tuple[bytes, tuple[str, str]]:
        return REPLACEMENT_BYTES, ("", "")

    def advance(
        self, state: tuple[str, str], element: tuple[bytes, tuple[str, str]]
    ) -> tuple[bytes, tuple[str, str]]:
        common, open_end = element
        return state[0].encode() + common, open_end

    def flush(self, state: tuple[str, str]) -> bytes:
        return state[1].encode()

    def waiting(self, state: tuple[str, str]) -> int:
        return int(state != ("", ""))

    def own(self, element: tuple[bytes, tuple[str, str]], data: bytes) -> int:
        return len(element[0])

    def load(self, data: Any) -> tuple[str, str]:
        expect(
            isinstance(data, list) and len(data) == 2 and all(isinstance(s, str) for s in data),
            "two strings",
            data,
        )
        followed, last = data
        # One is the other with a space for each suffix, from the first suffix on.
        ends = followed == last == "" or followed.startswith(" ")
        expect(ends and followed.replace(" ", "") == last.replace(" ", ""), "an open end", data)
        return followed, last


# --- tokens that depend on the one before ---------------------------------------------------------


class Collapse(TokenRule):
    """CTC: a token that is repeated in a row counts once.

    State: the last token, and whether any text came.
    """

    start: State = (None, False)
    idle: State = (None, True)

    def __init__(self, decoder: TableDecoder, rule: CTC, *, skip_special_tokens: bool) -> None:
        self._rule = rule
        super().__init__(decoder, skip_special_tokens=skip_special_tokens)

    def prepare(self, piece: str | bytes) -> tuple[str | None, bytes, bytes]:
        """The token itself, and its text as the first and as a later one."""
        assert isinstance(piece, str)
        rule = self._rule
        text = piece.replace(rule.pad, "")
        if rule.cleanup:
            text = cleaned(text).replace(rule.delimiter, " ")
        first, later = metaspace_forms(rule.metaspace, text) if rule.metaspace else (text, text)
        return piece, first.encode(), later.encode()

    def replacement(self) -> tuple[str | None, bytes, bytes]:
        return None, REPLACEMENT_BYTES, REPLACEMENT_BYTES

    def advance(
        self, state: tuple[str | None, bool], element: tuple[str | None, bytes, bytes]
    ) -> tuple[bytes, tuple[str | None, bool]]:
        before, came = state
        piece, first, later = element
        if piece is not None and piece == before:
            return b"", state
        # A token that is empty by now is not the first; one that only Metaspace empties is.
        return (later if came else first), (piece, came or bool(later))

    def synchronises(self, element: tuple[str | None, bytes, bytes]) -> bool:
        return bool(element[2])

    def load(self, data: Any) -> tuple[str | None, bool]:
        expect(
            isinstance(data, list)
            and len(data) == 2
            and (data[0] is None or isinstance(data[0], str))
            and isinstance(data[1], bool),
            "a token or null, and true or false",
            data,
        )
        return data[0], data[1]


# --- the beginning of the text --------------------------------------------------------------------

Stripping = tuple[State, int, bytes]
"""The state of a LeadingStrip."""


class LeadingStrip(TokenRule):
    """Removes up to ``count`` times ``char`` at the start of the output of ``inner``.

    State: inner's; how many may still be removed; the bytes that may begin one more of them.
    """

    def __init__(self, inner: TokenRule, char: bytes, count: int) -> None:
        self._inner = inner
        self._char = char
        self._count = count
        self.elements: dict[int, Element] = inner.elements
        self.errors = inner.errors
        self.start: State = (inner.start, count, b"")
        self.idle: State = (inner.idle, 0, b"")
        self.has_spans = inner.has_spans and len(char) == 1

    def prepare(self, piece: str | bytes) -> Element:
        return self._inner.prepare(piece)

    def replacement(self) -> Element:
        return self._inner.replacement()

    def advance(self, state: Stripping, element: Element) -> tuple[bytes, Stripping]:
        inner, left, begun = state
        data, inner = self._inner.advance(inner, element)
        if left:
            data, left, begun = self._strip(begun + data, left)
        return data, (inner, left, begun)

    def _strip(self, data: bytes, left: int) -> tuple[bytes, int, bytes]:
        while left and data.startswith(self._char):
            data, left = data[len(self._char) :], left - 1
        if left and self._char.startswith(data):
            return b"", left, data
        return data, 0, b""

    def flush(self, state: Stripping) -> bytes:
        inner, left, begun = state
        data, _, begun = self._strip(begun + self._inner.flush(inner), left)
        return data + begun

    def release(self, state: Stripping) -> tuple[bytes, Stripping]:
        inner, left, begun = state
        data, inner = self._inner.release(inner)
        data, left, begun = self._strip(begun + data, left)
        data += begun
        return data, (inner, 0 if data else left, b"")

    def settle(self, state: Stripping) -> tuple[bytes, Stripping]:
        inner, left, begun = state
        data, inner = self._inner.settle(inner)
        if data:
            data, left, begun = self._strip(begun + data, left)
        return data, (inner, left, begun)

    def held(self, state: Stripping) -> bytes:
        return state[2] + self._inner.held(state[0])

    def withholds(self, state: Stripping) -> bool:
        return state[2] != b"" or self._inner.withholds(state[0])

    def is_bounded(self, state: Stripping) -> bool:
        return self._inner.is_bounded(state[0])

    def waiting(self, state: Stripping) -> int:
        return self._inner.waiting(state[0])

    def own(self, element: Element, data: bytes) -> int:
        return min(len(data), self._inner.own(element, data))

    def prime(
        self, token_ids: Sequence[SupportsIndex], *, show_unknown: bool
    ) -> tuple[State, bytes]:
        """The front of the prompt says what may still be removed, its end the rest."""
        state = self.start
        for element in self.contributions(token_ids, show_unknown):
            _, state = self.advance(state, element)
            if state[1] == 0:
                break
        else:
            return self.settle(state)[1], b""
        inner, tail = self._inner.prime(token_ids, show_unknown=show_unknown)
        return (inner, 0, b""), tail

    def dump(self, state: Stripping) -> Any:
        return [self._inner.dump(state[0]), state[1], state[2].hex()]

    def load(self, data: Any) -> Stripping:
        expect(isinstance(data, list) and len(data) == 3, "a state, a count and hex", data)
        inner, left, begun = data[0], data[1], bytes.fromhex(data[2])
        expect(type(left) is int and 0 <= left <= self._count, f"0 to {self._count}", left)
        expect(
            begun == b"" or (left > 0 and begun != self._char and self._char.startswith(begun)),
            "the beginning of what is stripped",
            begun,
        )
        return self._inner.load(inner), left, begun
