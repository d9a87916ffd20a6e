"""Literal replacements in a text that comes in pieces.

:class:`Replacers` replaces each pattern as ``str.replace`` does, leftmost first, and withholds the
longest tail that may still begin it. Several patterns are a cascade, as in the full decode: each
reads the text that the one before returns, because a replacement can make room for the next.
"""

from __future__ import annotations

from collections.abc import Sequence

from streamdec.core.decode_options import Options
from streamdec.protocols import LiteralReplace

CLEAN_UP_TOKENIZATION_SPACES = (
    *(LiteralReplace(f" {mark}", mark) for mark in ".?!,"),
    LiteralReplace(" ' ", "'"),
    *(LiteralReplace(f" {ending}", ending) for ending in ("n't", "'m", "'s", "'ve", "'re")),
)
"""What ``transformers`` does to the finished text under ``clean_up_tokenization_spaces=True``, in
this order."""

Tails = tuple[str, ...]
"""The text that each replacement withholds."""


def held_length(pattern: str, text: str) -> int:
    """Return the length of the longest end of ``text`` that begins ``pattern``."""
    for length in range(min(len(pattern) - 1, len(text)), 0, -1):
        if text.endswith(pattern[:length]):
            return length
    return 0


class Replacers:
    """Literal replacements, applied one after another."""

    __slots__ = ("_letters", "rules", "start")

    def __init__(self, rules: Sequence[LiteralReplace]) -> None:
        self.rules: tuple[LiteralReplace, ...] = tuple(rules)
        self.start: Tails = ("",) * len(self.rules)
        self._letters = {letter for rule in self.rules for letter in rule.pattern}

    def step(self, tails: Tails, text: str) -> tuple[str, Tails]:
        """Return the settled text and the new tails, after ``text``."""
        after = []
        for rule, tail in zip(self.rules, tails, strict=True):
            *before, last = (tail + text).split(rule.pattern)
            cut = len(last) - held_length(rule.pattern, last)
            text = rule.content.join([*before, last[:cut]])
            after.append(last[cut:])
        return text, tuple(after)

    def flush(self, tails: Tails, text: str) -> str:
        """Return the text at the end of the stream, after ``text``, its last piece."""
        for rule, tail in zip(self.rules, tails, strict=True):
            text = (tail + text).replace(rule.pattern, rule.content)
        return text

    def synchronises(self, text: str) -> bool:
        """Whether the tails after ``text`` do not depend on what came before it.

        That is so if one of its letters is in no pattern: it flushes every tail.
        """
        return not self._letters.issuperset(text)

    def is_tails(self, tails: Tails) -> bool:
        """Whether ``tails`` can be a state of these replacements."""
        return len(tails) == len(self.rules) and all(
            len(tail) < len(rule.pattern) and rule.pattern.startswith(tail)
            for rule, tail in zip(self.rules, tails, strict=True)
        )


def replacers_of(replaces: Sequence[LiteralReplace], options: Options) -> Replacers:
    """Return the tokenizer's ``replaces``, and the clean-up if it is asked for."""
    clean_up = CLEAN_UP_TOKENIZATION_SPACES if options.clean_up_tokenization_spaces else ()
    return Replacers((*replaces, *clean_up))
