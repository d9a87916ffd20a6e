"""Literal replacements in a text that comes in pieces.

:class:`Replacers` replaces each pattern as ``str.replace`` does, leftmost first, and withholds the
longest tail that may still begin it. Several patterns are a cascade: each reads the text that the
one before returns, as the full decode applies them one after another to the finished text. (One
matcher for all patterns at once would be simpler and wrong: a replacement can make room for the
next pattern.)
"""

from __future__ import annotations

from collections.abc import Sequence

from streamdec.core.decode_options import Options
from streamdec.protocols import LiteralReplace

CLEANED_UP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)
"""What a clean-up replaces, in this order."""

CLEAN_UP_TOKENIZATION_SPACES = tuple(LiteralReplace(*pair) for pair in CLEANED_UP)
"""What ``transformers`` does to the finished text under ``clean_up_tokenization_spaces=True``."""


def held_length(pattern: str, text: str) -> int:
    """The length of the end of ``text`` that must be withheld for ``pattern``.

    This end is the longest suffix of ``text`` that is a proper prefix of ``pattern``.
    """
    for length in range(min(len(pattern) - 1, len(text)), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0


def _replace(rule: LiteralReplace, text: str) -> tuple[str, str]:
    """The settled text, and the tail that may still begin the pattern."""
    *before, last = text.split(rule.pattern)
    cut = len(last) - held_length(rule.pattern, last)
    return rule.content.join([*before, last[:cut]]), last[cut:]


class Replacers:
    """Literal replacements, applied one after another.

    The state is one withheld tail for each replacement.
    """

    __slots__ = ("_letters", "rules", "start")

    def __init__(self, rules: Sequence[LiteralReplace]) -> None:
        self.rules: tuple[LiteralReplace, ...] = tuple(rules)
        self.start: tuple[str, ...] = ("",) * len(self.rules)
        self._letters = {letter for rule in self.rules for letter in rule.pattern}

    def step(self, tails: tuple[str, ...], text: str) -> tuple[str, tuple[str, ...]]:
        """The settled text and the new tails, after ``text``."""
        after = []
        for rule, tail in zip(self.rules, tails, strict=True):
            text, tail = _replace(rule, tail + text)
            after.append(tail)
        return text, tuple(after)

    def flush(self, tails: tuple[str, ...], text: str) -> str:
        """Return the text at the end of the stream, made from the tails and ``text``.

        ``text`` is the last piece.
        """
        for rule, tail in zip(self.rules, tails, strict=True):
            text = (tail + text).replace(rule.pattern, rule.content)
        return text

    def resynchronise(self, text: str) -> tuple[str, ...] | None:
        """The tails after any text that ends in ``text``; None if they are not certain.

        They are certain if a letter of ``text`` is in no pattern. Such a letter flushes every tail,
        so the tails depend only on the text after it.
        """
        for position in range(len(text) - 1, -1, -1):
            if text[position] not in self._letters:
                return self.step(self.start, text[position + 1 :])[1]
        return None

    def is_tails(self, tails: tuple[str, ...]) -> bool:
        """Whether ``tails`` can be a state of this cascade."""
        return len(tails) == len(self.rules) and all(
            len(tail) < len(rule.pattern) and rule.pattern.startswith(tail)
            for rule, tail in zip(self.rules, tails, strict=True)
        )


def replacers_of(replaces: Sequence[LiteralReplace], options: Options) -> Replacers:
    """The replacements of the finished text.

    They are the tokenizer's own, and the clean-up if ``options`` ask for it.
    """
    clean_up = CLEAN_UP_TOKENIZATION_SPACES if options.clean_up_tokenization_spaces else ()
    return Replacers((*replaces, *clean_up))
