"""Now and then a text that was encoded fast is encoded slowly too, and the ids are compared.

In: texts and the ids that were given out for them. Out: counts, and a call for each difference. The
text is never logged: a hash of it, salted anew in each process, tells whether it is the same again.
"""

from __future__ import annotations

import hashlib
import random
import secrets
import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from streamdec.errors import TokenizerLibraryError
from streamdec.locks import Lock

__all__ = ["Mode", "OnMismatch", "Shadow", "ShadowCounts", "first_difference", "ids_of"]

OnMismatch = Literal["disable", "warn", "raise"]
"""What becomes of a difference: no fast encoding any more, a log line, or an error at once."""

Mode = tuple[bool, Literal["parse", "text"]]
"""Whether special tokens are added, and what becomes of those that a text spells."""

Pair = tuple[str, bytes]
"""A text and its ids, as they were given out."""

_salt = secrets.token_bytes(16)


class ShadowCounts(NamedTuple):
    """What came of the texts that were drawn."""

    checked: int
    """Encoded a second time."""
    skipped: int
    """Left out, as the check before them was not done."""
    different: int
    """Had other ids, or could not be encoded the second time."""


class Shadow:
    """Draws texts at a ``rate`` from 0 to 1 and compares them with what ``encode`` gives.

    At most one thread at a time does so, and what is drawn meanwhile is left out: a check costs
    tens of times what it checks. ``tell`` is called with a sentence for each difference, in that
    thread; or, if ``is_waited_for``, in the caller's, where it may raise.
    """

    def __init__(
        self,
        rate: float,
        encode: Callable[[str, Mode], bytes],
        tell: Callable[[str], None],
        *,
        is_waited_for: bool,
    ) -> None:
        self._rate = rate
        self._encode = encode
        self._tell = tell
        self._is_waited_for = is_waited_for
        # Its own: a program that seeds ``random`` must draw what it drew before.
        self._draw = random.Random().random
        self._thread: threading.Thread | None = None
        self._lock = Lock()
        self._counts = ShadowCounts(0, 0, 0)

    @property
    def counts(self) -> ShadowCounts:
        """What was checked so far."""
        return self._counts

    def sample(self, texts: Sequence[str], ids: Sequence[bytes], mode: Mode) -> None:
        """Draw among ``texts``, whose ``ids`` these are."""
        pairs = zip(texts, ids, strict=True)
        drawn = [pair for pair in pairs if self._draw() < self._rate]
        if not drawn:
            return
        if self._is_waited_for:
            self._check(drawn, mode)
            return
        # A thread of its own, not of a pool: after a fork it is known to be gone.
        if self._thread is not None and self._thread.is_alive():
            self._count(skipped=len(drawn))
            return
        thread = threading.Thread(target=self._check, args=(drawn, mode), name="streamdec-shadow")
        try:
            thread.start()
        except RuntimeError:  # too many, or the interpreter ends
            self._count(skipped=len(drawn))
            return
        self._thread = thread

    def wait(self) -> None:
        """Return when no check is running."""
        if self._thread is not None:
            self._thread.join()

    def _check(self, pairs: Sequence[Pair], mode: Mode) -> None:
        for text, given in pairs:
            try:
                expected = self._encode(text, mode)
                difference = None if expected == given else _described(given, expected)
            except TokenizerLibraryError as error:
                difference = f"huggingface cannot encode it: {error}"
            self._count(checked=1, different=difference is not None)
            if difference is not None:
                self._tell(f"a text of {len(text)} characters ({_name_of(text)}): {difference}")

    def _count(self, *, checked: int = 0, skipped: int = 0, different: int = 0) -> None:
        with self._lock:
            before = self._counts
            self._counts = ShadowCounts(
                before.checked + checked, before.skipped + skipped, before.different + different
            )


def ids_of(data: bytes) -> array[int]:
    """The ids in ``data``, four bytes each, little-endian."""
    ids = array("I", data)
    if sys.byteorder == "big":
        ids.byteswap()
    return ids


def first_difference(first: Sequence[int], second: Sequence[int]) -> int:
    """The index of the first id that differs, or that only one of the two has."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(first), len(second)))


def _described(given: bytes, expected: bytes) -> str:
    ours, theirs = ids_of(given), ids_of(expected)
    index = first_difference(ours, theirs)
    return f"{len(ours)} ids where huggingface has {len(theirs)}, other ones from index {index} on"


def _name_of(text: str) -> str:
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=_salt, digest_size=8)
    return f"salted hash {digest.hexdigest()}"
