"""Counting of tokens, code points and bytes in the time of one float addition.

*Counts* hold tokens, code points and bytes in one integer, so that one addition counts all three.

*Tallies* hold the same in one float, for at most 1,024 tokens: a float is added in half the time of
an integer. The tokens are in the highest field. A stream starts its tally 1,024 tokens below zero.
When the tally reaches zero, the stream takes its slow path, which moves the tally into a count. If
fewer than 1,024 tokens may still come (``max_tokens``), the tally starts that many below zero, so
the limit costs nothing at each token.

>>> from streamdec.tables.counting import counted, first_tally, tally_of, text_in, tokens_in
>>> tally = first_tally(2)
>>> tally += tally_of("Hi")
>>> tally < 0
True
>>> tally += tally_of(" é")
>>> tally < 0
False
>>> count = counted(tally - first_tally(2))
>>> tokens_in(count), text_in(count)                # 2 tokens, 4 code points, 5 bytes
(2, (4, 5))
"""

from __future__ import annotations

TOKEN = 1
"""The count of one token. At ten million tokens a second the next field is safe for a day."""
_CODE_POINTS, _FURTHER_BYTES = 40, 84
"""The lowest bits of these fields. A further byte is one that UTF-8 needs beyond one for each code
point. Bits are shifted, because a division takes twice as long."""
_TOKENS = (1 << _CODE_POINTS) - 1

MOST_COUNTED = 2**40
"""A stream must have fewer tokens, code points and bytes than this."""


def size_of(text: str) -> int:
    """Return the count of ``text``, without its tokens."""
    size = len(text) << _CODE_POINTS
    return size if text.isascii() else size + ((len(text.encode()) - len(text)) << _FURTHER_BYTES)


def tokens_in(count: int) -> int:
    """Return how many tokens ``count`` has."""
    return count & _TOKENS


def text_in(count: int) -> tuple[int, int]:
    """Return how many code points and bytes ``count`` has.

    If ``count`` is a difference, both may be negative.
    """
    further = ((count >> _FURTHER_BYTES - 1) + 1) >> 1  # rounded: the code points may be negative
    code_points = (count - (further << _FURTHER_BYTES)) >> _CODE_POINTS
    return code_points, code_points + further


def code_points_in(count: int) -> int:
    """Return how many code points ``count`` has."""
    return text_in(count)[0]


def count_of(tokens: int, code_points: int, size: int) -> int:
    """Return the count of that many tokens, code points and bytes."""
    return tokens + (code_points << _CODE_POINTS) + ((size - code_points) << _FURTHER_BYTES)


MOST_TALLIED = 1_024
"""Tokens in one tally."""
_MOST_TEXT = 1_023
"""Code points, and further bytes, of one token in a tally."""
_FURTHER_TALLIED = 2.0**20
_TALLIED = (1 << 20) - 1
"""The bits of the code points of a tally. The further bytes have as many."""
_TALLIED_TOKENS = 40
"""The lowest bit of its tokens."""
TOKEN_TALLY = 2.0**_TALLIED_TOKENS
"""The tally of one token without text."""
INFINITE = float("inf")
"""The tally of a token whose text is too long for a tally."""
# Nothing is carried from field to field, and nothing is rounded: a float has 53 bits.
assert MOST_TALLIED * _MOST_TEXT < _FURTHER_TALLIED
assert MOST_TALLIED * TOKEN_TALLY <= 2.0**53


# A few numbers occur in nearly all rows; one object for each keeps them in the processor's cache.
_OF_ASCII = tuple(TOKEN_TALLY + size for size in range(_MOST_TEXT + 1))
_of_others: dict[float, float] = {}


def tally_of(text: str) -> float:
    """Return the tally of a token with ``text``, or INFINITE if the text is too long."""
    size = len(text)
    if size > _MOST_TEXT:
        return INFINITE
    if text.isascii():
        return _OF_ASCII[size]
    further = len(text.encode()) - size
    if further > _MOST_TEXT:
        return INFINITE
    tally = TOKEN_TALLY + further * _FURTHER_TALLIED + size
    return _of_others.setdefault(tally, tally) if size < 64 else tally


def first_tally(tokens: int) -> float:
    """Return the tally that reaches 0 after ``tokens`` tokens, at most MOST_TALLIED."""
    return -min(tokens, MOST_TALLIED) * TOKEN_TALLY


def counted(tally: float) -> int:
    """Return the count of ``tally``."""
    bits = int(tally)
    code_points, further = bits & _TALLIED, (bits >> 20) & _TALLIED
    return (bits >> _TALLIED_TOKENS) + (code_points << _CODE_POINTS) + (further << _FURTHER_BYTES)


class Counters:
    """The counters of a stream, and its offsets.

    Offsets are stored only after a token that leaves or completes something unfinished. After any
    other token they are not needed: all text is output, and the last of it began with that token.
    """

    __slots__ = ("_counted", "_limit", "_moved", "_prefix", "_read", "_tally", "_tally_start")

    _counted: int
    _limit: int | None
    """How many tokens may come; None for any number."""
    _tally: float
    """What was counted since ``_counted``, from ``_tally_start`` on. At 0 it is full."""
    _tally_start: float
    _moved: float
    """The tally at which the offsets were noted."""
    _prefix: float
    """The tally at the prefix offset, of which only the tokens count."""
    _read: float
    """The tally at the read offset."""

    @property
    def _count(self) -> int:
        """The count of the tokens so far, and of the text that they decided."""
        return self._counted + counted(self._tally - self._tally_start)

    @_count.setter
    def _count(self, count: int) -> None:
        self._counted = count
        left = MOST_TALLIED if self._limit is None else self._limit - tokens_in(count)
        self._tally = self._tally_start = first_tally(left)

    # --- offsets

    def _since(self, tokens: int) -> int:
        """Return the index of the oldest token whose text may be withheld.

        If there is none, return ``tokens``, the number of tokens so far.
        """
        return self._offsets()[1] if self._moved == self._tally else tokens

    def _offsets(self) -> tuple[int, int]:
        """The prefix and the read offset, in generated tokens."""
        if self._moved == self._tally:
            return self._token_at(self._prefix), self._token_at(self._read)
        tokens = self.num_tokens
        return tokens - 1, tokens

    def _token_at(self, tally: float) -> int:
        return tokens_in(self._counted) + (int(tally - self._tally_start) >> _TALLIED_TOKENS)

    def _set_offsets(self, prefix: int, read: int) -> None:
        """Note the offsets of the stream as it is."""
        start, begun = self._tally_start, tokens_in(self._counted)
        self._prefix = start + (prefix - begun) * TOKEN_TALLY
        self._read = start + (read - begun) * TOKEN_TALLY
        self._moved = self._tally

    def _note(self, tally: float, *, is_out: bool) -> None:
        """Note the offsets of a token of this tally, after which all text is out or not."""
        before = self._tally
        if self._moved != before:  # the token before had its text wholly out
            self._prefix, self._read = before - TOKEN_TALLY, before
        self._moved = before + (TOKEN_TALLY if tally == INFINITE else tally)
        if is_out:
            self._prefix, self._read = self._read, self._moved

    @property
    def num_tokens(self) -> int:
        """The number of tokens taken, including skipped and unknown ones and the last."""
        return tokens_in(self._counted) + (int(self._tally - self._tally_start) >> _TALLIED_TOKENS)
