"""Compare the two encoders of one ``tokenizer.json`` on texts.

In: texts. Out: for each text whose ids differ, the smallest part whose ids still differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar

from streamdec.errors import TokenizerLibraryError
from streamdec.fastpath._fastokens import FastEncoder, Mode, ids_of
from streamdec.fastpath._fastokens_check import SlowIds
from streamdec.tokenizers._base import check_text

Part = TypeVar("Part", bound=Sequence[Any])

_MODES: tuple[Mode, ...] = ((False, "parse"), (True, "parse"), (False, "text"))
_MAX_TRIALS = 2_000
"""The most encodings spent on making a text smaller."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A text that the two libraries encode differently."""

    text: str
    """The smallest part found."""
    position: int
    """Its position in the given text."""
    add_special_tokens: bool
    """Whether special tokens were added."""
    special: Literal["parse", "text"]
    """How special tokens that it spells were encoded."""
    fastokens: tuple[int, ...]
    """Its ids by fastokens."""
    huggingface: tuple[int, ...] | None
    """Its ids by the tokenizer's own library; None if that cannot encode the text."""


class Compared(Protocol):
    """A tokenizer whose own library can be asked for ids."""

    @property
    def slow_ids(self) -> SlowIds:
        """Encodes with the library."""
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of ids."""
        ...


class Comparison:
    """Compare the ids of the tokenizer's own library with those of ``encoder``.

    ``encoder`` may be one that did not pass the trial for this tokenizer.
    """

    def __init__(self, tokenizer: Compared, encoder: FastEncoder) -> None:
        self._tokenizer = tokenizer
        self._encoder = encoder

    def difference(self, text: str) -> Difference | None:
        """Return the smallest difference found in ``text``, or None.

        The text is encoded three times: plainly, with special tokens added around it, and with
        names of special tokens as ordinary text.

        Raises :class:`~streamdec.errors.EncodeError` for a text that cannot be encoded, and
        :class:`~streamdec.errors.TokenizerLibraryError` if fastokens fails.
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
        """Return about where in ``text`` the ids begin to differ."""
        fast, slow = self._ids(text, mode)
        if slow is None:
            return 0
        ids, others = ids_of(slow), ids_of(fast)
        pairs = enumerate(zip(ids, others, strict=False))
        same = min(len(ids), len(others))
        index = next((i for i, (id_, other) in pairs if id_ != other), same)
        return len(self._tokenizer.decode(ids[:index], skip_special_tokens=False))


def smallest(text: Part, differs: Callable[[Part], bool], place: int = 0) -> tuple[int, int]:
    """Return the start and length of a small part of ``text`` that still ``differs``.

    ``text`` is a string or a list of ids. A window around ``place`` is widened until it differs,
    then shortened from both ends, in large steps and then smaller ones, until nothing can be
    removed. The search ends after 2,000 trials. The part is contiguous.

    >>> from streamdec.fastpath.comparison import smallest
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
