"""The slow way: what the laws say, written down without a thought for speed.

Nothing here uses streamdec's machines: the oracle of whole text is the tokenizer's own ``decode``,
and bytes are decoded by trying out what could still become a character.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

REPLACEMENT = "\ufffd"


@lru_cache(maxsize=4096)
def may_become_a_character(data: bytes) -> bool:
    """Whether some bytes after ``data`` make it one character."""
    for missing in range(1, 5 - len(data)):
        for more in itertools.product((0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF), repeat=missing):
            try:
                if len((data + bytes(more)).decode()) == 1:
                    return True
            except UnicodeDecodeError:
                continue
    return False


def unfinished(data: bytes) -> bytes:
    """The longest end of ``data`` that may still become a character."""
    for size in range(min(3, len(data)), 0, -1):
        if may_become_a_character(data[-size:]):
            return data[-size:]
    return b""


def code_points(data: bytes, *, per_byte: bool = False) -> list[tuple[int, str]]:
    """The text of all of ``data``, each code point with the number of bytes it came from.

    Each maximal ill-formed part is one U+FFFD, or with ``per_byte`` each bad byte.
    """
    found: list[tuple[int, str]] = []
    start = 0
    while start < len(data):
        size, char = _next(data[start : start + 4])
        if char == "" and per_byte:
            found += [(1, REPLACEMENT)] * size
        else:
            found.append((size, char or REPLACEMENT))
        start += size
    return found


@lru_cache(maxsize=4096)
def _next(data: bytes) -> tuple[int, str]:
    """The size of the first character or ill-formed part of ``data``; and the character, or ""."""
    for size in range(1, len(data) + 1):
        try:
            return size, data[:size].decode()
        except UnicodeDecodeError:
            continue
    size = 1
    while size < len(data) and may_become_a_character(data[: size + 1]):
        size += 1
    return size, ""


def text_of(data: bytes, *, per_byte: bool = False) -> str:
    return "".join(char for _, char in code_points(data, per_byte=per_byte))


def common_prefix(texts: Iterable[str]) -> str:
    """The longest text that all of ``texts`` begin with."""
    first, *others = texts
    size = len(first)
    for text in others:
        size = min(size, len(text))
        while first[:size] != text[:size]:
            size -= 1
    return first[:size]


def window_offsets(
    decode: Callable[[Sequence[int]], str], prompt: Sequence[int], token_ids: Sequence[int]
) -> list[tuple[int, int]]:
    """The prefix and read offsets after the prompt and each token, as TGI and vLLM have them."""
    ids = list(prompt)
    prefix, read = max(len(ids) - 5, 0), len(ids)
    offsets = [(prefix, read)]
    for token_id in token_ids:
        ids.append(token_id)
        before, after = decode(ids[prefix:read]), decode(ids[prefix:])
        if len(after) > len(before) and not after.endswith(REPLACEMENT):
            prefix, read = read, len(ids)
        offsets.append((prefix, read))
    return offsets


def token_spans(contributions: Sequence[bytes], *, per_byte: bool = False) -> list[tuple[int, ...]]:
    """Law 17, from what each token contributes: (start, end, byte_start, byte_end) of each."""
    # Of each code point: where its bytes came in, its index, and where its bytes go out.
    places: list[tuple[int, int, int, int, int]] = []
    first = size = 0
    data = b"".join(contributions)
    for index, (width, char) in enumerate(code_points(data, per_byte=per_byte)):
        places.append((first, first + width, index, size, size + len(char.encode())))
        first, size = first + width, size + len(char.encode())
    spans: list[tuple[int, ...]] = []
    start = 0
    for piece in contributions:
        end = start + len(piece)
        mine = [place for place in places if place[0] < end and place[1] > start]
        if piece:
            spans.append((mine[0][2], mine[-1][2] + 1, mine[0][3], mine[-1][4]))
        else:
            # Empty, before the character it interrupts.
            inside = [place for place in places if place[1] > start]
            index, at = (inside[0][2], inside[0][3]) if inside else (len(places), size)
            spans.append((index, index, at, at))
        start = end
    return spans
