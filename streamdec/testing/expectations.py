"""What the text of a stream must be, by the tokenizer's own full decode and nothing else.

In: a subject and token ids. Out: the text of them; what of it is certain for any later text; and
what stop strings leave of a text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from streamdec.testing.subjects import Subject

__all__ = ["Certain", "Cut", "certain_text", "cut_at_stop", "waiting_for", "whole_text"]


def whole_text(subject: Subject, token_ids: Sequence[int], *, skip_special_tokens: bool) -> str:
    """The tokenizer's own decode."""
    if not token_ids:  # some decoders panic
        return ""
    return subject.tokenizer.decode(list(token_ids), skip_special_tokens=skip_special_tokens)


# --- what is certain ------------------------------------------------------------------------------


class Certain(NamedTuple):
    """What of a text no later token can change.

    The two differ only within a run of byte-fallback tokens, which libraries render in two ways:
    ``tokenizers`` replaces all of it for one bad byte, SentencePiece only that byte.
    """

    at_least: str
    """By the rule that waits for the end of a run."""
    at_most: str
    """By the rule that gives each character of it once it is complete."""


def certain_text(
    subject: Subject, token_ids: Sequence[int], *, skip_special_tokens: bool
) -> Certain:
    """What the texts of all continuations begin with, as far as those tell that are tried here.

    Tried are the end, tokens whose texts begin differently, and what completes an open character.
    """
    return _certain_text(subject, tuple(token_ids), skip_special_tokens)


@lru_cache(maxsize=20_000)  # examples have beginnings in common while they are made small
def _certain_text(
    subject: Subject, token_ids: tuple[int, ...], skip_special_tokens: bool
) -> Certain:

    def text(more: Sequence[int]) -> str:
        ids = [*token_ids, *more]
        return whole_text(subject, ids, skip_special_tokens=skip_special_tokens)

    others = {token_id: text([token_id]) for token_id in subject.apart}
    tail = _open_character(subject, token_ids, skip_special_tokens=skip_special_tokens)
    completed = [text(more) for more in _completed(subject, tail)]
    usual = _beginning([text([]), *others.values(), *completed])
    if not subject.has_byte_fallback:
        return Certain(usual, usual)
    broken = [text([subject.byte_ids[0xFF]])] if 0xFF in subject.byte_ids else []
    # What breaks a run is left out, by which the first rule would take back all of it.
    bytes_of = set(subject.byte_ids.values())
    whole = [text([]), *(found for token_id, found in others.items() if token_id not in bytes_of)]
    return Certain(_beginning([usual, *broken]), _beginning(completed or whole))


def _beginning(texts: Sequence[str]) -> str:
    """What all of ``texts`` begin with: of all pairs the first and last in order differ soonest."""
    pairs = zip(min(texts), max(texts), strict=False)
    return "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))


def _open_character(
    subject: Subject, token_ids: Sequence[int], *, skip_special_tokens: bool
) -> bytes:
    """The bytes at the end that may become a character."""
    data = b""
    for token_id in reversed(token_ids):
        skipped = skip_special_tokens and subject.tokenizer.is_skipped(token_id)
        data = (b"" if skipped else subject.tokenizer.token_bytes(token_id) or b"") + data
        if len(data) >= 3:
            break
    ends = (data[-size:] for size in (3, 2, 1) if size <= len(data))
    return next((end for end in ends if _completions(end)), b"")


def _completed(subject: Subject, tail: bytes) -> Iterator[list[int]]:
    for more in _completions(tail) if tail else ():
        if subject.byte_ids.keys() >= set(more):
            yield [subject.byte_ids[byte] for byte in more]


@lru_cache(maxsize=4096)
def _completions(tail: bytes) -> tuple[bytes, ...]:
    """Some bytes that make ``tail`` one character; none if nothing does."""
    found = []
    for missing in range(1, 5 - len(tail)):
        for more in itertools.product((0x80, 0x8F, 0x90, 0xA0, 0xBF), repeat=missing):
            try:
                if len((tail + bytes(more)).decode()) == 1:
                    found.append(bytes(more))
            except UnicodeDecodeError:
                continue
    return tuple(found[:1] + found[-1:])


# --- what stops leave -----------------------------------------------------------------------------


class Cut(NamedTuple):
    """Where a stop ends a text."""

    start: int
    end: int
    stop: str


def cut_at_stop(text: str, stops: Sequence[str]) -> Cut | None:
    """The stop that is complete first, of those complete at one code point the longest."""
    found = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not found:
        return None
    end, _, stop = min(found)
    return Cut(end - len(stop), end, stop)


def waiting_for(text: str, stops: Sequence[str]) -> int:
    """The length of the longest end of ``text`` that is a proper beginning of a stop."""
    longest = max(map(len, stops), default=1) - 1
    sizes = range(min(longest, len(text)), 0, -1)
    ends = (
        size for size in sizes if any(s.startswith(text[-size:]) and len(s) > size for s in stops)
    )
    return next(ends, 0)
