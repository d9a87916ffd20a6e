"""Limit the strings and the Unigram trie of a ``tokenizer.json`` before loading.

In: the file. Out: nothing, or an error. The library keeps the pieces of a Unigram model in a trie
with a node for each byte. It takes some 340 bytes for a node, and frees the nodes by recursion: a
piece of 200,000 bytes ends the process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from streamdec.errors import TokenizerLoadError

MAX_STRING = 2**14
"""Bytes of a token as a file spells it; the longest known has 2,048."""
MAX_NODES = 2**23
"""Nodes of a Unigram model; T5 has 90,000, and XLM-V's 900,000 pieces fit. They take 2.8 GB."""
_PIECE_SIZE = 9
"""The least bytes of a piece that are not its text: ``["",-1.0],``."""
_WINDOW = MAX_STRING // 2
_QUOTE = re.compile(rb'(?<!\\)(?:\\\\)*+"')
"""A quote that is not escaped."""
_CHARSMAP = re.compile(rb'"precompiled_charsmap"\s{0,99}:\s{0,99}"\Z')
_VOCABULARY = re.compile(rb'"vocab"\s*:\s*\[|\\u00')
"""A vocabulary that is a list, or a key that may be spelled with escapes."""


def check_strings(content: bytes, name: str) -> None:
    """Raise TokenizerLoadError for a string over MAX_STRING bytes, except a charsmap."""
    for start, end in _long_strings(content):
        if end - start > MAX_STRING and not _CHARSMAP.search(content[max(0, start - 250) : start]):
            text = content[start : start + 40].decode("utf-8", "replace")
            what = f"{end - start} bytes ({text!r}…), and at most {MAX_STRING} are allowed"
            raise TokenizerLoadError(f"{name}: it has a string of {what}")


def _long_strings(content: bytes) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each string that covers a window, without quotes.

    A string of twice the size of a window covers one. Known files have few strings like that.
    """
    place = counted = quotes = 0
    while place < len(content):
        if _QUOTE.search(content, place, place + _WINDOW):
            place += _WINDOW
            continue
        for found in _QUOTE.finditer(content, counted, place):
            quotes += 1
            counted = found.end()
        closing = _QUOTE.search(content, place)
        end = len(content) if closing is None else closing.end() - 1
        if quotes % 2:
            yield counted, end
        place = end


def check_trie(content: bytes, name: str) -> None:
    """Raise TokenizerLoadError if a Unigram model needs more than MAX_NODES nodes."""
    if len(content) - _PIECE_SIZE * content.count(b"[") <= MAX_NODES:
        return
    if not _VOCABULARY.search(content):
        return
    try:
        pieces = [piece for piece, _ in json.loads(content.decode("utf-8-sig"))["model"]["vocab"]]
        texts = sorted(piece.encode("utf-8", "surrogatepass") for piece in pieces)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return  # another model, or malformed, which the library rejects
    nodes, before = 0, b""
    for text in texts:
        nodes += len(text) - _shared(before, text)
        before = text
    if nodes > MAX_NODES:
        what = f"{nodes:,} nodes in a trie, and at most {MAX_NODES:,} are allowed"
        raise TokenizerLoadError(f"{name}: the pieces of the Unigram model need {what}")


def _shared(one: bytes, other: bytes) -> int:
    """Return how many bytes both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
