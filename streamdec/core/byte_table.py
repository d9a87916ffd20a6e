"""The table of a tokenizer whose rules are known: its states and transitions.

A token goes through three parts. Its rule defines which bytes it contributes
(:mod:`streamdec.core.rules`), :mod:`streamdec.core.utf8` makes characters of them, and the
:mod:`~streamdec.core.replacers` replace parts of the text. So a state has three parts: the state
of the rule, the bytes of the unfinished character, and the text that each replacer holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsIndex

from streamdec.core import utf8
from streamdec.core.decode_options import Options
from streamdec.core.replacers import Replacers
from streamdec.core.rules.base import TokenRule
from streamdec.core.table import State, Table


class ByteTable(Table):
    """A table over a TokenRule, and the replacements of the finished text."""

    route = "bytes"

    def __init__(self, rule: TokenRule, options: Options, replacers: Replacers) -> None:
        self.rule: TokenRule = rule
        self.replacers: Replacers = replacers
        self.has_spans: bool = rule.has_spans and not replacers.rules
        super().__init__(options, (rule.idle, b"", replacers.start))

    # --- one token

    def step(self, state: State, token_id: int) -> tuple[str, State]:
        element = self.rule.elements[token_id]
        if element is None:  # a skipped token
            return "", state
        rule_state, pending, tails = state
        late, own, rule_state = self.rule.advance(rule_state, element)
        data = late + own
        if not pending and data.isascii():
            text, rest = data.decode(), b""
        else:
            text, rest = utf8.decode(pending + data, self.rule.errors)
        if tails:
            text, tails = self.replacers.step(tails, text)
        after = rule_state, rest, tails
        return text, state if after == state else after

    def knows(self, token_id: int) -> bool:
        elements = self.rule.elements
        elements[token_id]  # is then stored, if the tokenizer has it
        return token_id in elements

    def is_bounded(self, state: State) -> bool:
        return not self.rule.held(state[0])  # there are too many open runs

    # --- the end of the text, and its beginning

    def release(self, state: State) -> tuple[str, State]:
        rule_state, pending, tails = state
        data, rule_state = self.rule.release(rule_state)
        text = self.replacers.flush(tails, utf8.flush(pending + data, self.rule.errors))
        return text, (rule_state, b"", self.replacers.start)

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> State:
        rule_state, pending = self.rule.prime(prompt_token_ids)
        tails = self.replacers.start
        return rule_state, pending, self._prime_tails(prompt_token_ids) if tails else tails

    def _prime_tails(self, token_ids: Sequence[SupportsIndex]) -> tuple[str, ...]:
        """Return the tails after a prompt, and look back as far as they need."""
        rule, size = self.rule, 8
        while True:
            start = max(len(token_ids) - size, 0)
            state, data = rule.prime(token_ids[:start])
            parts = [data]
            for element in rule.contributions(token_ids[start:]):
                *more, state = rule.advance(state, element)
                parts += more
            if rule.settle(state)[0]:  # an open run of complete characters: all text is decided
                return self.replacers.start
            text, _ = utf8.decode(b"".join(parts), rule.errors)
            if start == 0 or self.replacers.synchronises(text):
                return self.replacers.step(self.replacers.start, text)[1]
            size *= 4

    # --- what may be asked of a state

    def traits(self, state: State) -> tuple[bool, bool, bool]:
        rule_state, pending, tails = state
        holds = bool(pending) or any(tails) or self.rule.held(rule_state) != b""
        waits = holds or self.rule.waiting(rule_state) > 0
        # Where the token of each byte is known, a token with text leaves no open run behind it.
        return holds, waits, self.has_spans or not holds

    def held(self, state: State) -> bytes:
        rule_state, pending, tails = state
        held: bytes = "".join(reversed(tails)).encode() + pending + self.rule.held(rule_state)
        return held

    def checked(self, state: Any) -> State:
        rule_state, pending, tails = state
        is_begun = utf8.decode(pending, self.rule.errors) == ("", pending)
        if not (self.rule.fits(rule_state) and is_begun and self.replacers.is_tails(tails)):
            raise ValueError(f"this tokenizer has no state {state!r:.80}")
        return state
