"""``python -m fuzz.encode``: check that the fast encoder gives the slow one's ids or is not used.

There are two kinds of targets. *Files* are the tokenizers of ``../shared/tokenizers`` for which the
fast encoder is used. *Alterations* are a small tokenizer with random changes to its regexes, added
tokens and normalizers. Most changes make the two libraries differ, which tests the checks at load.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import random
import sys
import unicodedata
import warnings
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any, Final, Literal, NamedTuple

from tokenizers import Tokenizer

from streamdec.backends.gguf_cutting import CUTTING
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.errors import EncodeError
from streamdec.tokenizers.encodings import ENCODINGS
from tests.support.zoo import ZOO, shared_tokenizers

BATCH = 500
"""The number of strings that are encoded together."""
LONG = 50
"""One of this many texts is so long that an encoder splits it."""

WHITE = [
    *"\t\n\v\f\r \x85\xa0\u1680\u2000\u2003\u2009\u200a\u2028\u2029\u202f\u205f\u3000",
    *("\u180e", "\u200b", "\ufeff", "\r\n", "  ", "   ", "\n\n", "\t\t", " \n", "\n "),
]
WORDS = [
    *("the", " quick", "Hello", "WORLD", "camelCase", "HTTPServer", "naïve", "Größe", "straße"),
    *("İstanbul", "ﬁne", "½", "Ⅷ", "ſ", "Привет", "мир", "Γειά", "σου", "שלום", "مرحبا", "नमस्ते"),
    *(
        "สวัสดี",
        "こんにちは",
        "世界",
        "你好",
        "안녕하세요",
        "セカイ",
        "𝔘𝔫𝔦",
        "def",
        "return",
        "class",
    ),
    *("http://a.b/c?d=%20#e", "a_b-c.d@e.f", "====", "----", "...", "!!!", "???", "$x^2$"),
    *("{'a': [1]}", "<0x0A>", "<0x11>", "<0xE4>", "<0xZZ>", "▁a", "▁▁", "Ġx", "Ċ", "ĠĠ", "</w>"),
    *("##", "<unk>", "<s>", "</s>", "<pad>", "[CLS]", "<|im_end|>", "<|endoftext|>"),
]
CONTRACTIONS = ["'s", "'RE", "'ll", "'T", "'m", "'Ve", "’s", "'", "n't", "'\u017f"]
DIGITS = [*"0123456789", "12", "123", "1234", "99999", "٣٤", "९", "①", "ⅷ", "²", "\u20e0", "𝟎"]
MARKS = [*"\u0301\u030a\u0323\u200d\ufe0f\u200c\u093f\u3099\U0001f3fd"]
ODD = [*"\x00\x01\x7f\ufffd\ufffe\U0010ffff\ue000\u2060\xad\u061c"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🇪🇺", "❤️", "1️⃣", "🏴\U000e0067\U000e007f"]
FORMS: Final = ("NFC", "NFD", "NFKC", "NFKD")

Draw = Callable[[], str]


# --- strings --------------------------------------------------------------------------------------


class Strings:
    """Return hostile strings for one tokenizer, the same ones for the same seed."""

    def __init__(self, tokenizer: Tokenizer, seed: int) -> None:
        self._random = random.Random(seed)
        added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._added: list[str] = added or ["<s>"]
        self._tokenizer = tokenizer
        self._size = max(tokenizer.get_vocab_size(), 1)
        fixed: list[Sequence[str]] = [WHITE, WORDS, CONTRACTIONS, DIGITS, MARKS, ODD, EMOJI]
        self._draws: list[Draw] = [partial(self._random.choice, pieces) for pieces in fixed]
        self._draws += [self._of_vocabulary] * 3 + [self._special] * 2
        self._draws += [self._character, self._run, self._normal_form]

    def __iter__(self) -> Iterator[str]:
        for number in itertools.count(1):
            yield self._long() if number % LONG == 0 else self._short()

    def _short(self) -> str:
        pieces = self._random.choices(self._draws, k=self._random.randint(1, 24))
        glue = self._random.choice(["", "", " ", "\n"])
        return glue.join(draw() for draw in pieces)

    def _long(self) -> str:
        size = self._random.choice([2_000, 8_191, 32_767, 32_768, 33_000])
        if self._random.random() < 0.2:
            return (self._short()[:3] or "a") * (size // 3)
        text = "".join(self._short() for _ in range(12)) or "a"
        return (text * (size // len(text) + 1))[:size]

    def _of_vocabulary(self) -> str:
        text: str = self._tokenizer.decode([self._random.randrange(self._size)])
        return text

    def _special(self) -> str:
        token = self._random.choice(self._added)
        place = self._random.randint(0, len(token))
        changes = [token, token, token * 2, token.upper(), token[:place], token[place:]]
        changes += [f" {token}", f"{token} ", f"\n{token}\t", f"a{token}b"]
        return self._random.choice(changes)

    def _character(self) -> str:
        code = self._random.randrange(self._random.choice([0x3000, 0x110000]))
        return "" if 0xD800 <= code < 0xE000 else chr(code)

    def _run(self) -> str:
        pieces: list[str] = [*WHITE, *DIGITS, "a", "A", "!", "-", "你", "\u0301", "😀"]
        return self._random.choice(pieces) * self._random.randint(2, 40)

    def _normal_form(self) -> str:
        text = self._random.choice([*WORDS, *EMOJI]) + self._random.choice(MARKS)
        return unicodedata.normalize(self._random.choice(FORMS), text)


# --- targets --------------------------------------------------------------------------------------


class Target(NamedTuple):
    """A name, and the content of a tokenizer.json."""

    name: str
    content: str


def files() -> list[Target]:
    """Return the tokenizers beside the repository."""
    return [Target(p.parent.name, p.read_text("utf-8-sig")) for p in shared_tokenizers()]


REGEXES = [
    *(pattern for cutting in CUTTING.values() for pattern in cutting.patterns),
    *(spec.pattern for spec in ENCODINGS.values()),
    *(r"\w+|[^\w\s]+|\s+", r"\b", r"^\s+|\S+", r"\s+$", r"\h+", r"\d{2}", r"[[:alpha:]]+", r"\R+"),
    *(
        r"[[:space:]]+",
        r"\p{Lu}\p{Ll}*",
        r"(?m:.)",
        r".",
        r".+",
        r"[^\n]+",
        r"\S",
        r"\x20+",
        r"\p{M}+",
    ),
    *(r"(?<=a)b", r"(a)(?!b)", r"\p{Han}+", r"[\p{L}&&[^a-z]]+", r"(?m:^.)", r"[\d]+", r"[\s]"),
    *(r"[\w']+", r"[\r\n]", r"\s?\p{L}+", r"a{,2}", r"(?i)ß|k", r"\u00e9+", r"(?:(?i)'s)|\p{L}+"),
]
CONTENTS = ["<X>", "<X>A", "<x>", "ab", " ab", "\n", "  ", "é", "É", "e\u0301", "1", "11", "the"]
CONTENTS += ["<|a|>", "<|a|>b", "\u180e", "ﬁ", "ſ", "s", "'re", "\t", "<0x11>", "İ", "你", "a b"]
NORMALIZERS: list[Any] = [
    {"type": "NFC"},
    {"type": "NFKC"},
    {"type": "NFD"},
    {"type": "Lowercase"},
    {"type": "Sequence", "normalizers": []},
    {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
    {"type": "Prepend", "prepend": "\u2581"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
    {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "},
    {"type": "Replace", "pattern": {"Regex": r"^ "}, "content": ""},
    {"type": "Strip", "strip_left": True, "strip_right": True},
]


def alteration(number: int) -> Target:
    """Return the small tokenizer with changes, the same ones for the same number."""
    choose = random.Random(number)
    data: dict[str, Any] = json.loads(_small())
    if choose.random() < 0.7:  # without the one that begins with white space
        known = _vocabulary(data)
        data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in known]
    changes = choose.sample([_regex, _tokens, _normalizer, _model], k=choose.randint(1, 2))
    for change in changes:
        change(data, choose)
    return Target(f"alteration {number}", json.dumps(data))


@cache
def _small() -> str:
    return ZOO["byte_level_trained"]().to_str()


def _vocabulary(data: dict[str, Any]) -> dict[str, int]:
    vocabulary: dict[str, int] = data["model"]["vocab"]
    return vocabulary


BEHAVIORS = [
    "Isolated",
    "Isolated",
    "Removed",
    "MergedWithPrevious",
    "MergedWithNext",
    "Contiguous",
]
CUTTERS: list[Any] = [
    {"type": "Digits", "individual_digits": True},
    {"type": "Digits", "individual_digits": False},
    {"type": "Punctuation", "behavior": "Isolated"},
    {"type": "Whitespace"},
    {"type": "WhitespaceSplit"},
    {"type": "BertPreTokenizer"},
    {"type": "UnicodeScripts"},
    {"type": "CharDelimiterSplit", "delimiter": "-"},
]


def _regex(data: dict[str, Any], choose: random.Random) -> None:
    """Return one to three splits, which may be equal, and sometimes another pre-tokenizer."""
    splits: list[Any] = [
        {
            "type": "Split",
            "pattern": {"Regex": choose.choice(REGEXES)},
            "behavior": choose.choice(BEHAVIORS),
            "invert": choose.random() < 0.1,
        }
        for _ in range(choose.choice([1, 1, 2, 3]))
    ]
    if choose.random() < 0.3:
        splits.insert(choose.randint(0, len(splits)), choose.choice(splits))
    if choose.random() < 0.2:
        splits.insert(choose.randint(0, len(splits)), choose.choice(CUTTERS))
    byte_level = {**data["pre_tokenizer"], "use_regex": choose.random() < 0.2}
    data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, byte_level]}


def _tokens(data: dict[str, Any], choose: random.Random) -> None:
    flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
    used = {token["content"] for token in data["added_tokens"]}
    vocabulary = _vocabulary(data)
    first = max(len(vocabulary), *(token["id"] + 1 for token in data["added_tokens"]))
    first += choose.random() < 0.1
    for content in choose.sample(CONTENTS, k=choose.randint(1, 6)):
        if content not in used:
            token_id = vocabulary.get(content, first)
            first += token_id == first
            drawn = {flag: choose.random() < 0.35 for flag in flags}
            data["added_tokens"].append({"id": token_id, "content": content, **drawn})


def _normalizer(data: dict[str, Any], choose: random.Random) -> None:
    data["normalizer"] = choose.choice(NORMALIZERS)


def _model(data: dict[str, Any], choose: random.Random) -> None:
    changes = [{"ignore_merges": True}, {"byte_fallback": True}, {"unk_token": "<eos>"}]
    changes += [{"dropout": 0.1}, {"dropout": 0.0}, {"fuse_unk": True}]
    data["model"] |= choose.choice(changes)


# --- comparing ------------------------------------------------------------------------------------


class Options(NamedTuple):
    """The options of encoding a string."""

    special: Literal["parse", "text"]
    add_special_tokens: bool


ALL_OPTIONS = (Options("parse", False), Options("parse", True), Options("text", False))


class Finding(NamedTuple):
    """A text for which the fast encoder returns other ids, although it is used."""

    target: Target
    text: str
    options: Options
    expected: list[int]
    found: list[int]


class Pair:
    """The two encoders of one target: streamdec's, and the library alone."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.library = {
            special: Tokenizer.from_str(target.content) for special in ("parse", "text")
        }
        for tokenizer in self.library.values():
            tokenizer.no_truncation()
            tokenizer.no_padding()
        self.library["text"].encode_special_tokens = True
        self.hybrid = HybridTokenizer(target.content, fast="now")

    def first_difference(self, texts: Sequence[str], options: Options) -> Finding | None:
        """Return the first finding among ``texts``, encoded together and then shrunk."""
        add = options.add_special_tokens
        texts = [text for text in texts if not self._refuses(text, options)]
        ours = self.hybrid.encode_batch(texts, add_special_tokens=add, special=options.special)
        library = self.library[options.special]
        theirs = library.encode_batch_fast(list(texts), add_special_tokens=add)
        for text, found, result in zip(texts, ours, theirs, strict=True):
            if bytes(found) != array("I", result.ids).tobytes():
                # A text that only differs together with others is shown complete.
                in_batch = Finding(self.target, text, options, result.ids, [*found])
                return _smallest(partial(self.difference, options), text) or in_batch
        return None

    def _refuses(self, text: str, options: Options) -> bool:
        """Whether ``text`` spells a special token that is a word of the model, as plain text."""
        try:
            self.hybrid.encode(text, special=options.special)
        except EncodeError:
            return options.special == "text"
        return False

    def difference(self, options: Options, text: str) -> Finding | None:
        """Whether ``text`` alone has two lists of ids."""
        special, add = options
        if self._refuses(text, options):
            return None
        library = self.library[special]
        expected = library.encode_batch_fast([text], add_special_tokens=add)[0].ids
        found = [*self.hybrid.encode(text, add_special_tokens=add, special=special)]
        return None if found == expected else Finding(self.target, text, options, expected, found)


def fuzz(target: Target, count: int, seed: int) -> Finding | str:
    """Compare the ids of ``count`` strings. Return a finding, or a summary."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pair = Pair(target)
        except Exception as error:  # noqa: BLE001 (an altered file may be none)
            return f"not loaded: {error!s:.80}"
    told = pair.hybrid.report
    if told.active != "fastokens":
        return f"not trusted: {told.reason:.80}"
    strings = iter(Strings(pair.library["parse"], seed))
    for done in range(0, count, BATCH):
        texts = list(itertools.islice(strings, min(BATCH, count - done)))
        for options in ALL_OPTIONS:
            if finding := pair.first_difference(texts, options):
                return finding
    return f"{count:,} strings, 0 differ"


def _smallest(differs: Callable[[str], Finding | None], text: str) -> Finding | None:
    """Return ``text`` without the parts that are not needed, halves first, then smaller ones."""
    smallest, size = differs(text), max(len(text) // 2, 1)
    while smallest and size:
        for start in range(0, len(text), size):
            shorter = text[:start] + text[start + size :]
            if finding := differs(shorter):
                text, smallest = shorter, finding
                break
        else:
            size //= 2
    return smallest


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz.encode", description=__doc__)
    parser.add_argument("--strings", type=int, default=10_000, help="for each file")
    parser.add_argument("--alterations", type=int, default=50, help="how many (default: 50)")
    parser.add_argument("--alteration", type=int, help="only this one, to replay a finding")
    parser.add_argument("--only", action="append", default=[], help="a part of the file's name")
    parser.add_argument("--seed", type=int, help="to replay a finding")
    options = parser.parse_args(arguments)
    seed = random.SystemRandom().getrandbits(31) if options.seed is None else options.seed
    numbers = range(seed, seed + options.alterations)
    chosen = [file for file in files() if all(part in file.name for part in options.only)]
    if options.only and not chosen:
        parser.error(f"no file of ../shared/tokenizers has {options.only} in its name")
    if options.alteration is not None:
        chosen, numbers = [], range(options.alteration, options.alteration + 1)
    elif options.only:
        numbers = range(0)
    counts = [options.strings] * len(chosen) + [max(options.strings // 10, BATCH)] * len(numbers)
    targets = itertools.chain(chosen, map(alteration, numbers))
    failed = 0
    for target, count in zip(targets, counts, strict=True):
        failed += report(target, fuzz(target, count, seed), seed)
    return 1 if failed else 0


def report(target: Target, outcome: Finding | str, seed: int) -> int:
    """Print the outcome. Return 1 for a finding."""
    if isinstance(outcome, str):
        print(f"{target.name:28}  {outcome}", flush=True)
        return 0
    _, text, options, expected, found = outcome
    name = target.name.removeprefix("alteration ")
    chosen = f"--alteration {name}" if name != target.name else f"--only {target.name}"
    print(f"{target.name:28}  {text!a:.400} has other ids: {options}")
    print(f"    tokenizers {expected[:20]}\n    fastokens  {found[:20]}")
    print(f"    replay with: python -m fuzz.encode --seed {seed} {chosen}", flush=True)
    return 1


if __name__ == "__main__":
    logging.getLogger("streamdec").setLevel(logging.ERROR)
    sys.exit(main())
