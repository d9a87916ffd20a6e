r"""The table of a tokenizer whose rules are known: its states and transitions.

A token goes through three parts, each in its own module. Its rule defines which bytes it
contributes (:mod:`streamdec.tables.token_rules`), :mod:`streamdec.tables.utf8` makes characters of
them, and the :mod:`~streamdec.tables.replacers` replace parts of the text. So a state has four
parts: the state of the rule, the bytes of the unfinished character, what each replacer withholds,
and how old all of that is (:mod:`streamdec.tables.provenance`).

>>> from streamdec import MockTokenizer
>>> from streamdec.tables.shared_tables import table_for
>>> tokenizer = MockTokenizer.from_tokens([b"caf\xc3", b"\xa9"])
>>> table = table_for(tokenizer)
>>> text, state = table.step(table.idle, 0)
>>> text, state
('caf', (None, b'\xc3', (), Held(pending=(1,), waiting=(), tails=())))
>>> table.step(state, 1) == ("é", table.idle)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, SupportsIndex

from streamdec.tables import provenance, utf8
from streamdec.tables.decode_options import Options
from streamdec.tables.provenance import Ages, Contribution, Held, Parted, State, Waiting
from streamdec.tables.replacers import Replacers
from streamdec.tables.table import Table
from streamdec.tables.token_ids import UnknownTokenError
from streamdec.tables.token_rules.base import Element, TokenRule

MAX_AGE = 8
"""Rows are stored for states that withhold nothing older than this number of tokens."""


class ByteTable(Table):
    """A table over a TokenRule.

    Args:
        rule: what each token contributes.
        options: the options of decoding.
        replacers: the replacements of the finished text.
    """

    route = "bytes"

    __slots__ = ("_is_plain", "has_spans", "rule")

    def __init__(self, rule: TokenRule, options: Options, replacers: Replacers) -> None:
        waiting: Waiting = ((1, 1),) * rule.waiting(rule.idle)
        tails: tuple[Ages, ...] = ((),) * len(replacers.start)
        held = Held((), waiting, tails)
        idle = (rule.idle, b"", replacers.start, held)
        super().__init__(options, replacers, idle, idle_waits=any(held))
        self.rule: TokenRule = rule
        self.has_spans: bool = rule.has_spans and not replacers.rules
        self._is_plain = not (replacers.rules or waiting or rule.withholds(rule.idle))

    # --- one token

    def step(self, state: State, token_id: int) -> tuple[str, State]:
        """Return the text that ``token_id`` gives in ``state``, and the state after it.

        Raises UnknownTokenError for an unknown id.
        """
        element = self.rule.element(token_id)
        if state is self.idle and self._is_plain and element is not None:
            data, after = self.rule.advance(state[0], element)
            if data and after == state[0]:
                # Most tokens are whole characters: nothing is left behind.
                try:
                    return data.decode(), state
                except UnicodeDecodeError:
                    pass
        return self._step(state, element)

    def step_unknown(self, state: State) -> tuple[str, State]:
        """Return the same for an id that the tokenizer does not have."""
        return self._step(state, self._unknown)

    @property
    def _unknown(self) -> Element:
        """What an id that the tokenizer does not have contributes; None for nothing."""
        return self.rule.replacement() if self.options.unknown_ids == "replace" else None

    def _step(self, state: State, element: Element) -> tuple[str, State]:
        """The text that a token outputs, and the state after it.

        ``element`` is None for a token that contributes nothing: a skipped or unknown one.
        """
        _, pending, tails, _ = state
        found, rule_state = self._contributed(state, element)
        text = ""
        tail_ages: tuple[provenance.Ages, ...] = ()
        if found.data:
            text, pending = utf8.decode(pending + found.data, self.rule.errors)
        if tails:
            text, tails = self.replacers.step(tails, text)
            _, tail_ages = provenance.firsts_of(self.rule, self.replacers, state, found)
        held = provenance.held_after(self.rule, state, found, len(pending), tail_ages)
        return text, (rule_state, pending, tails, held)

    def _contributed(self, state: State, element: Element) -> tuple[Contribution, Any]:
        """The bytes that a token outputs, and the state of the rule after it."""
        rule, rule_state = self.rule, state[0]
        if element is None:
            waiting = rule.waiting(rule_state)
            return Contribution(b"", 0, contributes=False, waiting=waiting), rule_state
        data, after = rule.advance(rule_state, element)
        own, waiting = rule.own(element, data), rule.waiting(after)
        return Contribution(data, own, contributes=True, waiting=waiting), after

    def knows(self, token_id: int) -> bool:
        """Whether the tokenizer has ``token_id``."""
        try:
            self.rule.element(token_id)
        except UnknownTokenError:
            return False
        return True

    def is_bounded(self, state: State) -> bool:
        """Whether a row is kept for ``state``.

        Open runs and what has waited for long have too many states. A run is also a deep chain of
        tuples: hashing or comparing it would recurse as deep.
        """
        return self.rule.is_bounded(state[0]) and state[3].oldest <= MAX_AGE

    # --- the end of the text, and its beginning

    def flush(self, state: State) -> str:
        """Return the text that the end of a stream in ``state`` outputs."""
        rule_state, pending, tails, _ = state
        data = pending + self.rule.flush(rule_state)
        return self.replacers.flush(tails, self._final(data))

    def release(self, state: State) -> tuple[str, State]:
        """Return the text of what is held, and the state in which the stream continues."""
        rule_state, pending, tails, held = state
        data, rule_state = self.rule.release(rule_state)
        text = self.replacers.flush(tails, self._final(pending + data))
        waiting = provenance.last_waiting(held.waiting, self.rule.waiting(rule_state))
        after = Held((), waiting, ((),) * len(tails))
        return text, (rule_state, b"", self.replacers.start, after)

    def _final(self, data: bytes) -> str:
        text, rest = utf8.decode(data, self.rule.errors)
        return text + utf8.flush(rest, self.rule.errors)

    def prime(self, prompt_token_ids: Sequence[SupportsIndex]) -> State:
        """Return the state after a prompt, and read only the necessary end of it."""
        show_unknown = self.options.unknown_ids == "replace"
        rule_state, pending = self.rule.prime(prompt_token_ids, show_unknown=show_unknown)
        tails = self.replacers.start
        if tails:
            tails = self._prime_tails(prompt_token_ids, show_unknown)
        held = provenance.held_after_prompt(self.rule, rule_state, pending, tails)
        state = (rule_state, pending, tails, held)
        return self.idle if state == self.idle else state

    def _prime_tails(
        self, token_ids: Sequence[SupportsIndex], show_unknown: bool
    ) -> tuple[str, ...]:
        size = 8
        while True:
            start = max(len(token_ids) - size, 0)
            text, is_settled = self._text(token_ids, start, show_unknown)
            if is_settled:
                return self.replacers.start  # the text before the run is decided, too
            if start == 0:
                return self.replacers.step(self.replacers.start, text)[1]
            tails = self.replacers.resynchronise(text)
            if tails is not None:
                return tails
            size *= 4

    def _text(
        self, token_ids: Sequence[SupportsIndex], start: int, show_unknown: bool
    ) -> tuple[str, bool]:
        """Return the text of the tokens from ``start`` on, before any replacement.

        Also return whether they end in an open run with complete characters: the prompt has decided
        those, and the text leaves them out.
        """
        rule = self.rule
        state, data = rule.prime(token_ids[:start], show_unknown=show_unknown)
        for element in rule.contributions(token_ids[start:], show_unknown):
            more, state = rule.advance(state, element)
            data += more
        return utf8.decode(data, rule.errors)[0], bool(rule.settle(state)[0])

    # --- what is withheld

    def holds(self, state: State) -> bool:
        """Whether anything is withheld in ``state``."""
        rule_state, pending, tails, _ = state
        return bool(pending) or any(tails) or self.rule.withholds(rule_state)

    def held(self, state: State) -> bytes:
        """Return the bytes that are withheld in ``state``."""
        rule_state, pending, tails, _ = state
        held: bytes = "".join(reversed(tails)).encode() + pending + self.rule.held(rule_state)
        return held

    # --- whose bytes they are

    def oldest(self, state: State) -> int:
        """Return the age of the oldest token with withheld bytes or text; 0 without one."""
        held: Held = state[3]
        return held.oldest

    def holds_of(self, state: State, ages: range) -> bool:
        """Whether something is withheld in ``state`` of tokens of these ages."""
        held: Held = state[3]
        return held.is_of(ages)

    def waits(self, state: State) -> bool:
        """Whether what ``state`` withholds may become another text once a token follows."""
        return bool(state[3].waiting)

    def contribution(self, state: State, token_id: int) -> Contribution:
        """Return the bytes that ``token_id`` outputs in ``state``, and their tokens."""
        try:
            element = self.rule.element(token_id)
        except UnknownTokenError:
            element = self._unknown
        return self._contributed(state, element)[0]

    def firsts(self, state: State, token_id: int, text: str) -> Ages:
        """Return the age of the first byte of each letter that ``token_id`` decides."""
        if not any(state[3]):
            return (0,) * len(text)
        found = self.contribution(state, token_id)
        return provenance.firsts_of(self.rule, self.replacers, state, found)[0]

    def released(self, state: State, text: str, *, goes_on: bool = False) -> Ages:
        """Return the ages of ``text``, which a flush gives, or a release (``goes_on``)."""
        rule = self.rule
        data = rule.release(state[0])[0] if goes_on else rule.flush(state[0])
        return provenance.released(rule, self.replacers, state, data)

    def parted(self, state: State, token_id: int) -> Parted:
        """Return what ``token_id`` and then a flush give in ``state``, parted."""
        if not self.has_spans:
            return super().parted(state, token_id)
        chunk, _, _, row = self.transition_or_unknown(self.row(state), token_id)
        after = self.idle if row is None else row.state
        text = chunk.text + self.flush(after)
        found, flushed = self.contribution(state, token_id), self.rule.flush(after[0])
        return provenance.parted(self.rule, state, found, flushed, text)

    # --- JSON

    def dump(self, state: State) -> dict[str, Any]:
        """Return ``state`` as JSON, without what is as in idle."""
        idle = self._as_json(self.idle)
        return {key: value for key, value in self._as_json(state).items() if value != idle[key]}

    def _as_json(self, state: State) -> dict[str, Any]:
        rule_state, pending, tails, held = state
        ages = {name: _lists(each) for name, each in held._asdict().items() if any(each)}
        return {
            "rule": _lists(self.rule.dump(rule_state)),
            "pending": pending.hex(),
            "tails": list(tails),
            "ages": {} if held.oldest <= 1 else ages,  # most often all is of the last token
        }

    def load(self, data: Any) -> State:
        """Return the state that ``dump`` gave ``data`` for.

        Raises ValueError, TypeError or KeyError if no state of this table has that form.
        """
        known = self._as_json(self.idle)
        full = known | data
        if len(full) != len(known):
            raise ValueError(f"unexpected {sorted(map(str, full.keys() - known.keys()))}")
        rule_state = self.rule.load(full["rule"])
        pending = bytes.fromhex(full["pending"])
        tails = tuple(full["tails"])
        if utf8.decode(pending, self.rule.errors) != ("", pending):
            raise ValueError(f"pending must be an unfinished character, not {pending!r:.40}")
        if not self.replacers.is_tails(tails):
            raise ValueError("tails must be prefixes of the replaced patterns")
        held = self._load_held(rule_state, pending, tails, full["ages"])
        state = (rule_state, pending, tails, held)
        return self.idle if state == self.idle else state

    def _load_held(
        self, rule_state: Any, pending: bytes, tails: tuple[str, ...], ages: Any
    ) -> Held:
        sizes = len(pending), self.rule.waiting(rule_state), [*map(len, tails)]
        if not ages:
            tail_ages = tuple((1,) * size for size in sizes[2])
            return Held((1,) * sizes[0], ((1, 1),) * sizes[1], tail_ages)
        if ages.keys() - {*Held._fields}:
            raise ValueError(f"unexpected {sorted(map(str, ages))}")
        held = Held(
            tuple(ages.get("pending", ())),
            tuple((newest, count) for newest, count in ages.get("waiting", ())),
            tuple(map(tuple, ages.get("tails", [[]] * len(tails)))),
        )
        numbers = (*held.pending, *chain(*held.waiting), *chain(*held.tails))
        if not all(type(number) is int and 0 < number < 2**40 for number in numbers):
            raise ValueError("ages must be integers of at least 1")
        num_waiting = sum(count for _, count in held.waiting)
        if (len(held.pending), num_waiting, [*map(len, held.tails)]) != sizes:
            raise ValueError("the ages do not fit what the state withholds")
        return held


def _lists(value: Any) -> Any:
    """Tuples as lists, as they are after a way through JSON."""
    return [_lists(item) for item in value] if isinstance(value, (list, tuple)) else value
