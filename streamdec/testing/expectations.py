"""The expected text of a stream, by the tokenizer's own full decode alone."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from streamdec.chunks import same_items
from streamdec.testing.subjects import REPLACEMENT, Subject


def whole_text(subject: Subject, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """Return the tokenizer's own decode."""
    if not token_ids:  # some decoders panic on an empty list
        return ""
    return subject.tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)


# --- text that no later token changes -------------------------------------------------------------


class Certain(NamedTuple):
    """The beginning of a text that no later token can change, by two rules.

    They differ inside a run of byte-fallback tokens. If one byte is bad, ``tokenizers`` replaces
    the whole run (so ``at_least`` waits for its end), and SentencePiece only that byte.
    """

    at_least: str
    at_most: str


def certain_text(
    subject: Subject, token_ids: Sequence[int], *, skip_special_tokens: bool
) -> Certain:
    """Return the common beginning of the texts of several continuations.

    These are no token, tokens whose texts begin differently, and tokens that complete a character.
    """
    return _certain_text(subject, tuple(token_ids), skip_special_tokens)


@lru_cache(maxsize=20_000)  # examples share beginnings while hypothesis shrinks them
def _certain_text(
    subject: Subject, token_ids: tuple[int, ...], skip_special_tokens: bool
) -> Certain:

    def text(more: Sequence[int]) -> str:
        ids = [*token_ids, *more]
        return whole_text(subject, ids, skip_special_tokens=skip_special_tokens)

    others = {token_id: text([token_id]) for token_id in subject.apart}
    tail = _open_character(subject, token_ids, skip_special_tokens=skip_special_tokens)
    ids_of = subject.byte_ids
    several = (more for more in _completions(tail) if ids_of.keys() >= {*more}) if tail else ()
    completed = [text([ids_of[byte] for byte in more]) for more in several]
    usual = _beginning([text([]), *others.values(), *completed])
    if not subject.has_byte_fallback:
        # Where single bytes cannot complete the character, a longer token may.
        is_open = tail and not completed
        return Certain(usual.removesuffix(REPLACEMENT) if is_open else usual, usual)
    broken = [text([subject.byte_ids[0xFF]])] if 0xFF in subject.byte_ids else []
    # Leave out bytes that break a run: by the first rule they change all of it.
    bytes_of = set(subject.byte_ids.values())
    whole = [text([]), *(found for token_id, found in others.items() if token_id not in bytes_of)]
    return Certain(_beginning([usual, *broken]), _beginning(completed or whole))


def _beginning(texts: Sequence[str]) -> str:
    first, last = min(texts), max(texts)
    return first[: same_items(first, last)]


def _open_character(
    subject: Subject, token_ids: Sequence[int], *, skip_special_tokens: bool
) -> bytes:
    """Return the bytes at the end that may become a character."""
    data = b""
    for token_id in reversed(token_ids):
        skipped = skip_special_tokens and subject.tokenizer.is_skipped(token_id)
        data = (b"" if skipped else subject.tokenizer.token_bytes(token_id) or b"") + data
        if len(data) >= 3:
            break
    ends = (data[-size:] for size in (3, 2, 1) if size <= len(data))
    return next((end for end in ends if _completions(end)), b"")


@lru_cache(maxsize=4096)
def _completions(tail: bytes) -> tuple[bytes, ...]:
    """Return a few byte sequences that complete ``tail`` to one character; or none."""
    found = []
    for missing in range(1, 5 - len(tail)):
        for more in itertools.product((0x80, 0x8F, 0x90, 0xA0, 0xBF), repeat=missing):
            try:
                if len((tail + bytes(more)).decode()) == 1:
                    found.append(bytes(more))
            except UnicodeDecodeError:
                continue
    return tuple(found[:1] + found[-1:])


# --- text before a stop ---------------------------------------------------------------------------


class Cut(NamedTuple):
    """The position of the stop that ends a text."""

    start: int
    end: int
    stop: str


def cut_at_stop(text: str, stops: Sequence[str]) -> Cut | None:
    """Return the stop that is complete first, the longest of several; or None."""
    found = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not found:
        return None
    end, _, stop = min(found)
    return Cut(end - len(stop), end, stop)


def waiting_for(text: str, stops: Sequence[str]) -> int:
    """Return how many code points at the end of ``text`` may become a stop."""
    longest = max(map(len, stops), default=1) - 1
    sizes = range(min(longest, len(text)), 0, -1)
    ends = (
        size for size in sizes if any(s.startswith(text[-size:]) and len(s) > size for s in stops)
    )
    return next(ends, 0)
