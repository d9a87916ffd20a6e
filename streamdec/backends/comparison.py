"""Both encoders of one ``tokenizer.json``, side by side on a text.

In: texts. Out: for each whose ids differ, the smallest part of it whose ids still do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from streamdec.backends._base import check_text
from streamdec.backends._fastokens import FastEncoder, Mode, ids_of
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.errors import TokenizerLibraryError

__all__ = ["Comparison", "Difference", "smallest"]

Part = TypeVar("Part", bound=Sequence[Any])

_MODES: tuple[Mode, ...] = ((False, "parse"), (True, "parse"), (False, "text"))
_MAX_TRIALS = 2_000
"""Encodings that are spent on making a text smaller."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A text that the two encode differently."""

    text: str
    """As small as it was made."""
    position: int
    """Where it was found: its place in the text that was given."""
    add_special_tokens: bool
    """Whether special tokens were added around it."""
    special: Literal["parse", "text"]
    """What became of special tokens that it spells."""
    fastokens: tuple[int, ...]
    """Its ids by the one."""
    huggingface: tuple[int, ...] | None
    """Its ids by the other; None if it cannot encode the text."""


class Comparison:
    """Compares the ids of ``tokenizer`` by huggingface with those by ``encoder``.

    By ``encoder`` alone, whether it is trusted with this file or not.
    """

    def __init__(self, tokenizer: HybridTokenizer, encoder: FastEncoder) -> None:
        self._tokenizer = tokenizer
        self._encoder = encoder

    def difference(self, text: str) -> Difference | None:
        """The smallest difference found in ``text``, or None.

        With special tokens added and not, and with those that it spells as text.

        Raises :class:`~streamdec.EncodeError` for what no encoder takes, and
        :class:`~streamdec.TokenizerLibraryError` if the fast one fails; the other would then
        encode.
        """
        check_text("parse", text)
        for mode in _MODES:
            fast, slow = self._ids(text, mode)
            if fast != slow:
                return self._smallest(text, mode)
        return None

    def _smallest(self, text: str, mode: Mode) -> Difference:
        def differs(part: str) -> bool:
            fast, slow = self._ids(part, mode)
            return fast != slow

        place, size = smallest(text, differs, self._place(text, mode))
        found = text[place : place + size]
        fast, slow = self._ids(found, mode)
        ids = None if slow is None else tuple(ids_of(slow))
        return Difference(found, place, *mode, tuple(ids_of(fast)), ids)

    def _ids(self, text: str, mode: Mode) -> tuple[bytes, bytes | None]:
        add, special = mode
        fast = self._encoder.ids([text], add_special_tokens=add, special=special)[0]
        try:
            slow = self._tokenizer.slow_ids([text], add_special_tokens=add, special=special)[0]
            return fast, slow
        except TokenizerLibraryError:
            return fast, None

    def _place(self, text: str, mode: Mode) -> int:
        """About where in ``text`` the ids begin to differ."""
        fast, slow = self._ids(text, mode)
        if slow is None:
            return 0
        ids, others = ids_of(slow), ids_of(fast)
        pairs = enumerate(zip(ids, others, strict=False))
        same = min(len(ids), len(others))
        index = next((i for i, (id_, other) in pairs if id_ != other), same)
        return len(self._tokenizer.decode(ids[:index], skip_special_tokens=False))


def smallest(text: Part, differs: Callable[[Part], bool], place: int = 0) -> tuple[int, int]:
    """Start and length of a part of ``text`` that still ``differs``, as small as was found.

    ``text`` is a string, or a list of ids, of which each takes the place of a character.

    First by widening a window around ``place``, then by cutting from both ends: large pieces, then
    smaller ones, until no character can be taken from an end. After 2,000 trials it is given up,
    and what was found by then returned. A part is always in one piece, so it can be found again in
    the text.

    >>> from streamdec.backends.comparison import smallest
    >>> smallest("all is well but for this", lambda part: "but" in part, 3)
    (12, 3)
    """
    trials = 0

    def does(start: int, end: int) -> bool:
        nonlocal trials
        trials += 1
        return trials <= _MAX_TRIALS and differs(text[start:end])  # type: ignore[arg-type]

    start, end = 0, len(text)
    width = 32
    while width < len(text):
        left, right = max(place - width, 0), min(place + width, len(text))
        if does(left, right):
            start, end = left, right
            break
        width *= 2
    step = max((end - start) // 2, 1)
    while step:
        if step < end - start and does(start + step, end):
            start += step
        elif step < end - start and does(start, end - step):
            end -= step
        else:
            step //= 2
    return start, end - start
