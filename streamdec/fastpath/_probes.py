"""Decide whether fastokens may encode for one ``tokenizer.json``.

In: the file and the library's tokenizer. Out: a fast encoder that gave the same ids, or the reason
why there is none. A file is refused by a static rule, or because fastokens encodes one of some
strings (*probes*) differently. A prototype found the rules and the probes: it changed
configurations until fastokens 0.3.5 and tokenizers 0.23.3 gave different ids. What part of all
such differences they find is not known.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, product
from typing import Any

from tokenizers import AddedToken, Tokenizer

from streamdec.encoding import Encoding, Special
from streamdec.errors import TokenizerLibraryError, TokenizerLoadError
from streamdec.fastpath._fastokens import GUARDED, FastEncoder, Stopped
from streamdec.tokenizers._common import guarded, state_of
from streamdec.tokenizers.encodings import ENCODINGS

EncodeAll = Callable[..., Sequence[Sequence[int] | bytes]]
"""Returns the ids of each text."""
_CLASS = re.compile(r"\[(?:\\.|[^\]\\])*\]")
# Oniguruma and PCRE2 read these differently: words, word boundaries, lines, hexadecimal digits, and
# {n,m}+, which Oniguruma reads as a repeated group and PCRE2 as possessive.
_RISK = re.compile(r"\\[wWbBhHRXAzZG]|(?<!\\)[\^$]|\{\d*,?\d*\}\+")
# They also differ on \p{...} with names that are not general categories, in classes too: \p{Han}
# differs in 308 code points. POSIX classes other than [:space:] were not compared.
_PROPERTY = re.compile(r"\\[pP]\{\^?[^{}]{3,}\}|\[:\^?(?!space:)")
# With the vocabulary of Kimi no code point gives other ids.
_HARMLESS = frozenset({r"\s+$", ENCODINGS["kimi"].pattern})
_VOCABULARY = 1500
_ADDED = 200
_RISKY = 36
_LONG = 40_000
_PROBES_AT_ONCE = 256
_EVERY = 8
"""One probe in this many is also compared in the other modes of encoding."""

SAMPLE_TEXTS = (
    "",
    " ",
    "  \n\n \t\r\n  x",
    "foo\n bar\t\n\n",
    "Hello, world! It's 'RE we'll DON'T I'M you'Ve",
    "1 12 123 1234 12345678901234567890 1,000.5 ٣٤٥ 九千 ①② ⅷ",
    "11111111111111\u2460 222222222\u20e0x\t3\n",
    "\u2460 a\u20e0 \u24d0b",
    "<0x0A><0x11> <0xE4>",
    "\ufeffa\u200bb\u200d\u2060\x00\x01\x7f\x85\xa0\u2028\u2029\u3000",
    "Größe naïve café e\u0301 A\u030a \u1e9b\u0323 ﬁ ½ Ⅷ İı ſ ß ẞ",
    "Привет, мир. Γειά σου Κόσμε שלום עולם مرحبا بالعالم नमस्ते दुनिया สวัสดี",
    "こんにちは世界。你好，世界！안녕하세요 セカイ 각 ᄒ",
    "😀👍🏽👩‍👩‍👧‍👦🇪🇺❤️ 𝔘𝔫𝔦 \U0010ffff \ufffd",
    "def f(x):\n\treturn {'a': [x ** 2]}  # ok\n\n\nclass A_b: pass",
    "https://example.com/a?b=c&d=%20#e a_b-c.d@e.f $x^2$ !!!??? ---- ====",
    "\u2581a \u2581\u2581b Ġx Ċ",
    "aAaA camelCase HTTPServer X-Y ABCdef",
)
"""Texts of many scripts and kinds, with which encoders are compared."""
_AROUND = ("{}", "a{}b", " {} ", "\n{}\n", "\t{}\t x", "1{}2", "{}{}", "  {}  ", "foo\n{} \n")


def static_faults(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield the reasons not to use fastokens for this file."""
    added = list(tokenizer.get_added_tokens_decoder().values())
    spaced = [token for token in added if token.content[:1].isspace()]
    if spaced and any(token.lstrip or token.rstrip for token in added):
        yield "an added token begins with white space, and another strips the white space around it"
    if tokenizer.normalizer is None:
        yield from _faults_of_one_pass(added)
    parts = [state_of(tokenizer.normalizer), state_of(tokenizer.pre_tokenizer)]
    for pattern in _patterns(parts):
        is_risk = _RISK.search(_CLASS.sub("", pattern)) or _PROPERTY.search(pattern)
        if is_risk and pattern not in _HARMLESS:
            yield f"the two libraries read this regex in different ways: {pattern!r:.80}"


def _faults_of_one_pass(added: Sequence[AddedToken]) -> Iterator[str]:
    """Yield what one pass over the added tokens finds differently from two.

    Without a normalizer, fastokens takes one pass and huggingface two: normalized tokens after the
    others.
    """
    later = [token for token in added if token.normalized]
    first = [token.content for token in added if not token.normalized]
    if not later or not first:
        return
    if any(token.lstrip or token.rstrip or token.single_word for token in later):
        yield "only some added tokens are normalized, and one of them depends on the text around it"
    if _is_overlapping([token.content for token in later], first):
        yield "added tokens overlap, and only some of them are normalized"


def _is_overlapping(earlier: Sequence[str], later: Sequence[str]) -> bool:
    """Return whether in some text one of ``later`` begins inside one of ``earlier``."""
    known, ordered = set(later), sorted(later)
    for token in earlier:
        for start in range(len(token)):
            rest = token[start:]
            place = bisect_left(ordered, rest)
            begins = place < len(ordered) and ordered[place].startswith(rest)
            if begins or any(rest[:end] in known for end in range(1, len(rest))):
                return True
    return False


def _patterns(part: Any) -> Iterator[str]:
    """Yield every regex in ``part``."""
    if isinstance(part, dict):
        if isinstance(part.get("Regex"), str):
            yield part["Regex"]
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            yield from _patterns(inner)


def probes_of(tokenizer: Tokenizer) -> list[str]:
    """Return a few thousand strings, the same for the same tokenizer."""
    words = _vocabulary(tokenizer)
    added = list(tokenizer.get_added_tokens_decoder().values())
    contents = [token.content for token in added]
    fours = ["".join(words[start : start + 4]) for start in range(0, len(words), 4)]
    spread = contents[:: max(1, len(contents) // _ADDED)]
    among = [frame.format(content, content) for content in spread for frame in _AROUND]
    risky = [
        token.content
        for token in added
        if token.lstrip or token.rstrip or token.single_word or token.content.isspace()
    ][:_RISKY]
    pairs = [first + second for first, second in product(risky, risky)]
    spelled = [changed for content in spread for changed in (content[:-1], content.upper())]
    short = [*SAMPLE_TEXTS, *words, *fours, *among, *pairs, *spelled]
    probes = dict.fromkeys([*short, *_long(words)])
    return [probe for probe in probes if GUARDED not in probe]


def _vocabulary(tokenizer: Tokenizer) -> list[str]:
    """Return the texts of ids spread over the vocabulary."""
    size = tokenizer.get_vocab_size(with_added_tokens=False)
    ids = range(0, size, max(1, size // _VOCABULARY))
    return [text for text in tokenizer.decode_batch([[i] for i in ids]) if text]


def _long(words: Sequence[str]) -> list[str]:
    """Return texts longer than those at which an encoder divides its work."""
    mixed = " ".join(SAMPLE_TEXTS) + " ".join(words)
    return [(mixed * (_LONG // len(mixed) + 1))[:_LONG], "x " * (_LONG // 2), "ab" * (_LONG // 8)]


# --- the comparison -------------------------------------------------------------------------------


def build_and_compare(
    tokenizer: Tokenizer, slow_ids: EncodeAll, is_in_background: bool
) -> FastEncoder:
    """Return an encoder that gave the same ids as ``tokenizer`` for all probes.

    ``slow_ids`` encodes with ``tokenizer`` as ``FastEncoder.ids`` does.

    Raises MissingExtraError without fastokens, TokenizerLoadError with the reason if there is no
    such encoder, and :class:`Stopped` if the main thread ended and ``is_in_background``: then the
    program would wait only for this.
    """

    def go_on() -> None:
        if is_in_background and not threading.main_thread().is_alive():
            raise Stopped

    try:
        # A library may fail on a probe.
        fault = next(static_faults(tokenizer), None)
        if fault is not None:
            raise TokenizerLoadError(f"fastokens may give other ids: {fault}")
        text = guarded(tokenizer.to_str)
        go_on()
        encoder = FastEncoder(text)
        differing = next(_different(tokenizer, encoder.ids, slow_ids, go_on), None)
    except TokenizerLibraryError as error:
        raise TokenizerLoadError(f"fastokens could not be compared: {error}") from error
    if differing is not None:
        raise TokenizerLoadError(f"fastokens gives other ids for {differing!r:.200}")
    return encoder


def _different(
    tokenizer: Tokenizer, fast_ids: EncodeAll, slow_ids: EncodeAll, go_on: Callable[[], None]
) -> Iterator[str]:
    """Yield the probes that have other ids. ``go_on`` may raise to end that."""

    def pairs(
        probes: Sequence[str], special: Special, *, add: bool = False
    ) -> Iterator[tuple[str, bytes, bytes]]:
        for start in range(0, len(probes), _PROBES_AT_ONCE):
            go_on()
            part = probes[start : start + _PROBES_AT_ONCE]
            fast = fast_ids(part, special, add_special_tokens=add)
            slow = slow_ids(part, special, add_special_tokens=add)
            yield from zip(part, fast, map(bytes, map(Encoding, slow)), strict=True)

    probes = probes_of(tokenizer)
    added = tokenizer.get_added_tokens_decoder()
    special = {token_id for token_id, token in added.items() if token.special}
    spelling: list[str] = []
    for probe, fast, slow in pairs(probes, "parse"):
        if fast != slow:
            yield probe
        if not special.isdisjoint(Encoding(slow)):
            spelling.append(probe)
    # The tokens added around a text do not depend on the text, so a sample is enough. With
    # special="text", only texts with the name of a special token can have other ids. A special
    # token that the model has as a word may be the word of another text.
    some = probes[::_EVERY]
    names = [token.content for token in added.values() if token.special]
    others = chain(pairs(some, "parse", add=True), pairs([*spelling, *some, *names], "text"))
    yield from (probe for probe, fast, slow in others if fast != slow)
