r"""The token that gave each part of the withheld text.

With this, a match can say where it began.

**Theory.** A stop is found when its last code point is decided; by then its first one may lie many
tokens back. ``StopMatch.tokens_before`` must say which token gave the first byte of it. Two things
are known for that, and only where something is withheld:

* *Ages* (:class:`Held`): for each byte and letter that decided no output yet, how many tokens ago
  it came. They are a part of the table's states, so they are worked out once for each transition,
  and a stream does nothing for them.
* *Marks*: for each token that gave a part of the jailed text, its number and where its text ends. A
  mark is the stream's tally after the token, so that noting one costs nothing but a place in a
  tuple.

In a state an age counts from the next token: 1 is the last token's. Where a token is being taken, 0
is its own. The index of a token (its *origin*) is the index of the current one less the age. What
the prompt left unfinished has the origin -1; text that the prompt had decided but that is still
withheld is one older, and no stop begins in it.

**A worked example.** The stop ``"é!"``, and the tokens ``"caf\xc3"``, ``"\xa9"``, ``"!"``: the
first one leaves a byte behind, so the character that begins the stop began in token 0.

>>> from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
>>> tokenizer = MockTokenizer.from_tokens([b"caf\xc3", b"\xa9", b"!"])
>>> decoder = StopSequenceDecoder(tokenizer, StopConditions("é!"))
>>> [decoder.step(token_id).text for token_id in (0, 1)], decoder.jailed
(['caf', ''], 'é')
>>> decoder.step(2).finish_reason, decoder.match.start, decoder.match.tokens_before
('stop', 3, 0)

Where the bytes of tokens cannot be told apart (replaced text, two of the rules), the oldest token
that may have given a letter counts as its origin.
"""

from __future__ import annotations

from itertools import chain
from os.path import commonprefix
from typing import Any, NamedTuple, TypeAlias

from streamdec.tables import utf8
from streamdec.tables.replacers import Ages, Replacers
from streamdec.tables.token_rules.base import TokenRule

__all__ = [
    "BEFORE",
    "NOTHING_HELD",
    "Ages",
    "Contribution",
    "Held",
    "Parted",
    "State",
    "Waiting",
    "firsts_of",
    "held_after",
    "held_after_prompt",
    "last_waiting",
    "parted",
    "parted_by_text",
    "released",
]

PROMPT_AGE = 1
"""The age of bytes that the prompt left unfinished."""
BEFORE_AGE = 2
"""The age of text that the prompt had decided but that is still withheld."""
BEFORE = -2
"""The origin of text that the prompt had decided: no stop begins in it."""


Waiting = tuple[tuple[int, int], ...]
"""Tokens that wait, oldest first, as runs: the age of the newest token of a run, and how many
tokens in a row it has. An open run of byte tokens is one pair, however long it is."""


class Held(NamedTuple):
    """The ages of what is withheld in a state."""

    pending: Ages = ()
    """Of each byte of the unfinished character."""
    waiting: Waiting = ()
    """Of each token of which the rule withholds something, run by run."""
    tails: tuple[Ages, ...] = ()
    """Of each letter that each replacer withholds."""

    @property
    def oldest(self) -> int:
        """The greatest of them; 0 if nothing is withheld."""
        waiting = (newest + count - 1 for newest, count in self.waiting[:1])
        return max(
            (*self.pending, *waiting, *(each for tail in self.tails for each in tail)), default=0
        )

    def is_of(self, ages: range) -> bool:
        """Whether anything is withheld of tokens of these ages."""
        each = chain(self.pending, *self.tails)
        runs = (range(newest, newest + count) for newest, count in self.waiting)
        return any(age in ages for age in each) or any(
            max(run.start, ages.start) < min(run.stop, ages.stop) for run in runs
        )


NOTHING_HELD = Held()

State: TypeAlias = Any
"""The state of a table. On the bytes route a tuple: the rule's state, the unfinished character, the
replacers' tails, and their ages (Held). On the windowed route a WindowState."""


class Contribution(NamedTuple):
    """The bytes that one token outputs."""

    data: bytes
    own: int
    """How many bytes at the end of ``data`` are the token's own. Those before them belong to tokens
    that waited."""
    contributes: bool
    """Whether the token has a piece; False for a skipped or unknown token."""
    waiting: int
    """How many of the last contributing tokens still have bytes to come."""


def held_after_prompt(
    rule: TokenRule, rule_state: Any, pending: bytes, tails: tuple[str, ...]
) -> Held:
    """Return the ages of what is held after a prompt."""
    # Held bytes belong to an unfinished character; what only waits for its neighbour does not.
    waits = PROMPT_AGE if rule.withholds(rule_state) else BEFORE_AGE
    return Held(
        (PROMPT_AGE,) * len(pending),
        ((waits, 1),) * rule.waiting(rule_state),
        tuple((BEFORE_AGE,) * len(tail) for tail in tails),
    )


def held_after(
    rule: TokenRule, state: State, found: Contribution, pending: int, tails: tuple[Ages, ...] = ()
) -> Held:
    """Return what is held after a token that completed ``found`` in ``state``.

    Args:
        rule: of the table.
        state: before the token.
        found: the text that the token completed.
        pending: how many bytes it left pending.
        tails: the ages of what the replacers withhold after it, counted from the token.
    """
    waiting = _waiting_after(state[3].waiting, found)
    ages = _ages(rule, state, found)[-pending:] if pending else ()
    return Held(_older(ages), waiting, tuple(map(_older, tails)))


def firsts_of(
    rule: TokenRule, replacers: Replacers, state: State, found: Contribution
) -> tuple[Ages, tuple[Ages, ...]]:
    """Return the age of the first byte of each code point that a token decides.

    ``state`` is the state before the token. Also return the ages of what the replacers withhold
    after the token.
    """
    text, firsts, _ = _letters(rule, state[1] + found.data, _ages(rule, state, found))
    if not replacers.rules:
        return firsts, ()
    return replacers.trace(state[2], text, state[3].tails, firsts)


def _ages(rule: TokenRule, state: State, found: Contribution) -> Ages:
    """The age of each byte that is pending in ``state`` or that ``found`` outputs."""
    held = state[3]
    own = found.own
    if held.waiting and not rule.has_spans:
        own = 0  # whose bytes they are is not known
    carried = _shared_out(rule, held.waiting, len(found.data) - own)
    return (*held.pending, *carried, *(0,) * own)


def _letters(
    rule: TokenRule, data: bytes, ages: Ages, *, final: bool = False
) -> tuple[str, Ages, Ages]:
    """The text that ``data`` has decided, and the ages of its letters.

    The first ages are those of each letter's first byte, the second those of its last byte.
    """
    text, firsts, lasts, place = "", [], [], 0
    for width, letter in utf8.code_points(data, rule.errors, final=final):
        text += letter
        firsts.append(ages[place])
        place += width
        lasts.append(ages[place - 1])
    return text, tuple(firsts), tuple(lasts)


def released(rule: TokenRule, replacers: Replacers, state: State, data: bytes) -> Ages:
    """Return the ages of the code points that are output if nothing follows ``data``.

    ``data`` is the output of the rule at the end. The ages count from the next token.
    """
    held = state[3]
    known = (*held.pending, *_shared_out(rule, held.waiting, len(data)))
    text, firsts, _ = _letters(rule, state[1] + data, known, final=True)
    if not replacers.rules:
        return firsts
    return replacers.trace(state[2], text, held.tails, firsts, final=True)[0]


class Parted(NamedTuple):
    """The text at a last token, split where the token's own text begins.

    Its own text begins with the first code point that has a byte of the token.
    """

    before: str
    firsts: Ages
    """Of the first byte of each code point of ``before``."""
    own: str
    age: int
    """Of the first byte of ``own``."""


def parted(rule: TokenRule, state: State, found: Contribution, flushed: bytes, text: str) -> Parted:
    """Split ``text`` where the text of its last token begins.

    ``text`` is what a token and then a flush give in ``state``. ``found`` is the output of the
    token, and ``flushed`` that of the rule at the flush.
    """
    held = state[3]
    carried = _shared_out(rule, held.waiting, len(found.data) - found.own)
    ages = (*held.pending, *carried, *(0,) * found.own)
    flushed_ages = _shared_out(rule, _waiting_after(held.waiting, found), len(flushed))
    ages += tuple(age - 1 for age in flushed_ages)
    _, firsts, lasts = _letters(rule, state[1] + found.data + flushed, ages, final=True)
    size = lasts.index(0) if 0 in lasts else len(lasts)
    age = firsts[size] if 0 in lasts else 0
    return Parted(text[:size], firsts[:size], text[size:], age)


def parted_by_text(alone: str, ages: Ages, text: str) -> Parted:
    """Part ``text`` where bytes cannot be told apart.

    ``alone`` is what a flush would give without the token, and ``ages`` are those of its letters:
    text that would be output without the token is not the token's.
    """
    before = commonprefix([alone, text])  # noqa: RUF071 (letters, not paths)
    size = len(before)
    oldest = max(ages[size:], default=0)
    return Parted(before, ages[:size], text[size:], oldest)


def _waiting_after(waiting: Waiting, found: Contribution) -> Waiting:
    """The tokens that wait after one more, which brought ``found`` out."""
    after = tuple((newest + 1, count) for newest, count in waiting)
    if found.contributes:
        newest, count = after[-1] if after else (0, 0)
        after = (*after[:-1], (1, count + 1)) if newest == 2 else (*after, (1, 1))
    return last_waiting(after, found.waiting)


def last_waiting(waiting: Waiting, size: int) -> Waiting:
    """Return the last ``size`` tokens of ``waiting``."""
    if not size:
        return ()
    left_out = sum(count for _, count in waiting) - size
    while left_out > 0:
        (newest, count), *others = waiting
        kept = max(count - left_out, 0)
        left_out -= count - kept
        waiting = ((newest, kept), *others) if kept else tuple(others)
    return waiting


def _shared_out(rule: TokenRule, waiting: Waiting, size: int) -> Ages:
    """The ages of ``size`` bytes that the waiting tokens gave in equal parts.

    The first may have given less: bytes are only ever removed at the front. Where they cannot be
    told apart, all count as the oldest token's.
    """
    if not (size and waiting):
        return (1,) * size
    each = [newest + n for newest, count in waiting for n in range(count - 1, -1, -1)]
    if not rule.has_spans:
        return (each[0],) * size
    part = -(-size // len(each))
    return tuple(age for age in each for _ in range(part))[-size:]


def _older(ages: Ages) -> Ages:
    return tuple(age + 1 for age in ages)
