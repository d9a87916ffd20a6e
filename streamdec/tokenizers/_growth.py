"""Bound what the parts of a ``tokenizer.json`` may do to a text, before they run.

In: the file. Out: nothing, or an error. For example, twenty decoders that each replace ``a`` with
``aa`` turn one letter into a million. The library runs a normalizer on the added tokens while it
loads a file, and a decoder runs on a sample of the tokens.

The weight of a character is the largest number of characters that the remaining stages can turn it
into. The stages are read backwards: after the last one each character has the weight 1. If the
content of a replacement weighs more than its pattern, the difference is added to the weight of the
characters in the pattern.
"""

from __future__ import annotations

import base64
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from streamdec.errors import TokenizerLoadError
from streamdec.tokenizers._regex_cost import MAX_REGEX, regex_cost

MAX_STAGES = 256
"""The most stages of one part. The largest known chain has 40."""
MAX_DEPTH = 128
"""The deepest nesting of Sequences. The library's JSON parser (serde_json) rejects deeper JSON."""
MAX_TEXTS = 2**14
"""The most characters in all patterns and contents of one part."""
MAX_DECODED, MAX_ENCODED = 16, 128
"""The most characters that one may become. Known decoders reach 3, and known normalizers 18."""
MAX_NAMED = 16
"""The most objects in a file under a key that names a part, such as "decoder". A file has one of
each; a few more may be in Sequences."""
MAX_WORK = 2**26
"""Steps of a backtracking search while a file is loaded; about a second."""
MAX_TOKENS = 2**22
"""The most characters of a normalizer's output for the added tokens of a file."""
MAX_REPEATED = 4
"""How often a post-processor may repeat a text; known ones have it once."""
MAX_ADDED = 2**12
"""Pieces and ids of all templates of a post-processor."""
MAX_PROBED = 32
"""The growth up to which long probes are encoded."""

_PARTS = {
    "decoder": ("decoders", MAX_DECODED),
    "normalizer": ("normalizers", MAX_ENCODED),
    "pre_tokenizer": ("pretokenizers", MAX_ENCODED),
    "post_processor": ("processors", MAX_REPEATED),
}
_CHANGES: dict[object, Callable[[str], str]] = {
    "NFC": partial(unicodedata.normalize, "NFC"),
    "NFD": partial(unicodedata.normalize, "NFD"),
    "NFKC": partial(unicodedata.normalize, "NFKC"),
    "NFKD": partial(unicodedata.normalize, "NFKD"),
    "Lowercase": str.lower,
}
_SLICES = 2**12, 2**16, 2**20
"""How many bytes are parsed first: most parts are short."""
# No writer of JSON escapes a letter. In a file that does, keys cannot be found by their bytes.
_ESCAPED_LETTER = re.compile(rb"\\u00(?:[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])")
_SOMETHING = re.compile(
    r"(?:\\[sSdDwWnrt]|\[(?:[^\[\]\\]|\\.)+\]|[^\\\[\](){}*?+.^$|])"
    r"(?:\+|\{[1-9][0-9]*(?:,[0-9]*)?\})?(?![*?+{])"
)
"""The start of a regex that only matches at least one character, if it has no alternatives."""
_BYTE_LEVEL = 6
"""Four bytes of a character, and a space before it, which is two letters in the second stage."""


Parts = Sequence[tuple[str, Any]]
"""What a file calls a normalizer, a decoder and so on, as JSON data, wherever it is in the file."""


def parts_of(content: bytes, name: str) -> Parts:
    """Return the parts in a file.

    Raises TokenizerLoadError, which names ``name``, if there are too many.
    """
    parts = [*islice(_parts(content), MAX_NAMED + 1)]
    if len(parts) > MAX_NAMED:
        what = f"more than {MAX_NAMED} objects named {', '.join(_PARTS)}, expected one of each"
        raise TokenizerLoadError(f"{name}: it has {what}")
    return parts


def check_growth(parts: Parts, name: str) -> None:
    """Raise TokenizerLoadError, which names ``name``, if a part makes texts too long."""
    for part, data in parts:
        key, limit = _PARTS[part]
        stages = list(_stages(data, key))
        if len(stages) > MAX_STAGES:
            what = f"{len(stages)} stages, and at most {MAX_STAGES} are allowed"
            raise TokenizerLoadError(f"{name}: the {part} has {what}")
        if part == "post_processor":
            _check_templates(stages, name)
            continue
        if part == "decoder":
            stages = [stage for stage in stages if stage.get("type") != "ByteLevel"]
        size = sum(len(text) for text in _texts(stages))
        if size > MAX_TEXTS:
            what = (
                f"patterns and contents of {size} characters, and at most {MAX_TEXTS} are allowed"
            )
            raise TokenizerLoadError(f"{name}: the {part} has {what}")
        regexes = sum(regex_cost(regex, 1).size for regex in _regexes(stages))
        if regexes > MAX_REGEX:
            what = (
                f"regexes of size {regexes:.0f} (repetitions written out), and at most {MAX_REGEX}"
            )
            raise TokenizerLoadError(f"{name}: the {part} has {what} is allowed")
        if _growth(stages) > limit:
            what = f"turn one character into more than {limit}; no known tokenizer does"
            raise TokenizerLoadError(f"{name}: the {part} may {what}")


def growth_of(normalizer: Any, pre_tokenizer: Any) -> float:
    """Return the most characters that these parts, JSON data or None, turn one into."""
    stages = [*_stages(normalizer, "normalizers"), *_stages(pre_tokenizer, "pretokenizers")]
    return _growth(stages)


def _check_templates(stages: list[dict[str, Any]], name: str) -> None:
    """Raise TokenizerLoadError if templates repeat a text or add many tokens to it."""
    times = 1
    added = 0
    for stage in stages:
        templates = [stage.get(key) for key in ("single", "pair")]
        lists = [template if isinstance(template, list) else [] for template in templates]
        pieces = [[piece for piece in each if isinstance(piece, dict)] for each in lists]
        texts = [
            [p["Sequence"] for p in each if isinstance(p.get("Sequence"), dict)] for each in pieces
        ]
        counts = [Counter(str(text.get("id")) for text in each) for each in texts]
        times *= max([1, *(count for each in counts for count in each.values())])
        named = stage.get("special_tokens")
        tokens = named.values() if isinstance(named, dict) else ()
        ids = [token.get("ids") for token in tokens if isinstance(token, dict)]
        added += sum(len(each) for each in (*pieces, *ids) if isinstance(each, list))
        if times > MAX_REPEATED or added > MAX_ADDED:
            what = f"{times} copies of a text, with {added} pieces and ids"
            expected = f"at most {MAX_REPEATED} and {MAX_ADDED} are allowed"
            raise TokenizerLoadError(f"{name}: the post_processor may make {what}, and {expected}")


def check_work(part: str, data: Any, texts: Iterable[str], name: str, *, joined: bool) -> None:
    """Raise TokenizerLoadError if a part might take long with ``texts``.

    Args:
        part: ``"normalizer"`` or ``"decoder"``.
        data: The part as JSON data, or None.
        texts: What it is run on: added tokens, or the sample of a decoder.
        name: The file, for the message.
        joined: Whether the part may see all texts as one.
    """
    stages = list(_stages(data, _PARTS[part][0]))
    growth = _growth(stages)
    sizes = [len(text) * growth for text in texts]
    if (total := sum(sizes)) > MAX_TOKENS:
        what = f"{total:.0f} characters of the tokens, and at most {MAX_TOKENS} are allowed"
        raise TokenizerLoadError(f"{name}: the {part} may make {what}")
    if regexes := _regexes(stages):
        counted = Counter([total] if joined else sizes)
        work = sum(
            count * size * sum(regex_cost(regex, int(size)).ways for regex in regexes)
            for size, count in counted.items()
        )
        if work > MAX_WORK:
            what = f"{work:.3g} steps for the tokens, and at most {MAX_WORK:,} are allowed"
            raise TokenizerLoadError(f"{name}: a regex of the {part} may take {what}")


def check_normalizer(parts: Parts, texts: Iterable[str], name: str) -> None:
    """Raise TokenizerLoadError if a normalizer might take long with ``texts``."""
    tokens = list(texts)
    for part, data in parts:
        if part == "normalizer":
            check_work(part, data, tokens, name, joined=False)


# --- reading --------------------------------------------------------------------------------------


def _parts(content: bytes) -> Iterator[tuple[str, Any]]:
    """Yield the parts that change texts, without parsing the vocabulary if possible."""
    if _ESCAPED_LETTER.search(content):
        try:
            data = json.loads(content.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return
        yield from ((part, data.get(part)) for part in _PARTS if isinstance(data, dict))
        return
    for part in _PARTS:
        key = f'"{part}"'.encode()
        end = content.find(key) + len(key)
        while end >= len(key):
            # If a token has this name, its value is an id and not a part.
            if content[end : end + 64].lstrip(b" \t\r\n:")[:1] in (b"{", b""):
                yield part, _value(content, end)
            end = content.find(key, end) + len(key)


def _value(content: bytes, place: int) -> Any:
    """Return the JSON value at ``place``, after a colon; None if it is malformed."""
    for end in (*(place + size for size in _SLICES), len(content)):
        text = content[place:end].decode("utf-8", "replace").lstrip(" \t\r\n:")
        try:
            return json.JSONDecoder().raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
    return None


def _stages(part: Any, key: str, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the stages of a part, with Sequences flattened.

    Malformed stages are left out, because the library rejects them.
    """
    if isinstance(part, dict) and isinstance(part.get("type"), str) and depth <= MAX_DEPTH:
        inner = part.get(key)
        if part["type"] == "Sequence" and isinstance(inner, list):
            for stage in inner:
                yield from _stages(stage, key, depth + 1)
        else:
            yield part


# --- weighing -------------------------------------------------------------------------------------


class _Weights:
    """The weights of characters before a stage."""

    def __init__(self, named: str) -> None:
        self.other: float = 1
        """The weight of each character that no stage names."""
        self.named: dict[str, float] = dict.fromkeys(named, 1)

    def of(self, text: str) -> float:
        return sum(self.named.get(letter, self.other) for letter in text)

    @property
    def most(self) -> float:
        return max(self.other, *self.named.values(), 1)

    def insert(self, weight: float) -> None:
        """Count a change that adds a text of this weight to each character."""
        self.other += weight
        self.named = {letter: known + weight for letter, known in self.named.items()}

    def raise_to(self, weight: float) -> None:
        """Count a change that gives each character at least this weight."""
        self.other = max(self.other, weight)
        self.named = {letter: max(known, weight) for letter, known in self.named.items()}

    def replace(self, pattern: str, content: str) -> None:
        """Count the replacement of a literal pattern."""
        more = (self.of(content) - self.of(pattern)) / len(pattern)
        if more > 0:
            for letter in set(pattern):
                self.named[letter] += more

    def change(self, how: Callable[[str], str]) -> None:
        """Count a change that replaces each character separately."""
        changed = {letter: self.of(how(letter)) for letter in self.named}
        self.named = {letter: max(self.named[letter], changed[letter]) for letter in changed}


def _growth(stages: list[dict[str, Any]]) -> float:
    """Return the most characters that ``stages`` turn one into.

    If the number is above MAX_ENCODED, the result is any number above MAX_ENCODED.
    """
    texts = "".join(_texts(stages))
    weights = _Weights(texts + unicodedata.normalize("NFKD", texts))
    for stage in reversed(stages):
        _count(weights, stage)
        if weights.most > MAX_ENCODED:
            break
    return weights.most


def _texts(stages: list[dict[str, Any]]) -> list[str]:
    return [text for stage in stages for text in _rule(stage) or () if text]


def _regexes(stages: list[dict[str, Any]]) -> list[str]:
    patterns = (stage.get("pattern") for stage in stages)
    return [str(each["Regex"]) for each in patterns if isinstance(each, dict) and "Regex" in each]


def _count(weights: _Weights, stage: dict[str, Any]) -> None:
    kind, rule = stage.get("type"), _rule(stage)
    if rule is not None:
        pattern, content = rule
        if pattern:
            weights.replace(pattern, content)
        elif pattern is None:
            weights.raise_to(weights.of(content))
        else:
            weights.insert(weights.of(content))
    elif kind in _CHANGES:
        # A character of the text is expanded once; a character from a stage, each time.
        weights.change(_CHANGES[kind])
    elif kind == "ByteLevel":
        weights.raise_to(_BYTE_LEVEL * weights.most)
    elif kind == "Precompiled":
        weights.raise_to(_longest_entry(stage.get("precompiled_charsmap")) * weights.most)


def _rule(stage: dict[str, Any]) -> tuple[str | None, str] | None:
    """Return the pattern and the content of a replacing stage; None for other stages.

    The pattern is ``""`` if it may match between all characters, and None for a regex that matches
    at least one character.
    """
    kind, pattern = stage.get("type"), stage.get("pattern")
    if kind == "Replace" and isinstance(pattern, dict):
        content = str(stage.get("content", ""))
        if "String" in pattern:
            return str(pattern["String"]), content
        regex = str(pattern.get("Regex", ""))
        least = None if _SOMETHING.match(regex) and "|" not in regex else ""
        return least, content
    if kind == "BPEDecoder":
        return str(stage.get("suffix", "")), " "
    if kind == "CTC":
        return str(stage.get("word_delimiter_token", "")), " "
    if kind == "BertNormalizer":
        return "", "  "  # spaces around a Chinese character
    if kind == "Prepend":
        return "", str(stage.get("prepend", ""))
    return None


def _longest_entry(charsmap: object) -> int:
    """Return the most characters with which a SentencePiece normalizer replaces one."""
    try:
        data = base64.b64decode(str(charsmap))
    except ValueError:  # the library rejects it
        return 1
    size = int.from_bytes(data[:4], "little")
    entries = data[4 + size :].split(b"\0")
    return max(len(entry.decode("utf-8", "replace")) for entry in entries)
