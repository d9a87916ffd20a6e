r"""Replay: which token gave each code point, found when it is asked for.

**Theory.** A stream is *clean* when nothing is held, and no later stop or marker can begin in the
text so far. All that a stream knows is a function of its options, its last *clean point*, and the
ids *since*. So a stream records no history. To find out which token gave what, :func:`replay` sends
the ids since the clean point through the token rule and UTF-8 once more, and notes the tokens of
each byte. The place of a stop, spans, the ids of a chunk, sections are read off its result.

An entry of ``since`` is an id; or a negative number ``-n``, for ``n`` tokens without bytes after
which the state was as before; or RELEASE, where a release was asked for.

**What is whose.** A byte that a rule outputs late belongs to a token that *waits* (an open run of
byte tokens, the space that a BPE suffix owes); the waiting tokens share such bytes in equal parts.
A code point that a replacer keeps has the tokens of its bytes. One that it inserts has the tokens
of the text that it replaced. What was held at the clean point belongs to the token before it; what
a prompt had decided and a replacer still holds, to the one before that.

Where tokens cannot be told apart (in two of the rules, and on the windowed route), text counts
as that of the oldest token that may have given it. For sections, text that the earlier tokens alone
would have given begins in them, and other text in the token that decided it.

**A worked example.** Token 1 is the beginning of a character, token 2 is special and skipped, and
token 3 completes the character:

>>> from streamdec import MockTokenizer
>>> from streamdec.core.replay import replay
>>> from streamdec.core.shared_tables import table_for
>>> tokens = [b"caf", b"\xc3", b"<s>", b"\xa9!"]
>>> tokenizer = MockTokenizer.from_tokens(tokens, special_ids=[2])
>>> table = table_for(tokenizer)
>>> found = replay(table, table.idle, [1, -1], 1)              # since a clean point after token 0
>>> found.cells, found.held                                    # nothing is decided, token 1 is held
([], 1)
>>> for cell in replay(table, table.idle, [1, -1, 3], 1).cells:
...     print(cell)
Cell(text='é', tokens=(1, 3), decided=3, late=None)
Cell(text='!', tokens=(3,), decided=3, late=None)
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, takewhile
from typing import Final, NamedTuple

from streamdec.chunks import TokenSpan, same_items
from streamdec.core import utf8
from streamdec.core.byte_table import ByteTable
from streamdec.core.counting import sizes_in
from streamdec.core.replacers import held_length
from streamdec.core.table import State, Table
from streamdec.core.window import WindowState
from streamdec.errors import RewriteError

RELEASE: Final = None
"""The entry of ``since`` for a release."""
Since = Sequence[int | None]


class Cell(NamedTuple):
    """A code point of the text."""

    text: str
    tokens: tuple[int, ...]
    """The indices of the tokens that gave its bytes, in order; -1 and -2 are of the prompt."""
    decided: int
    """The index of the token after which it could no longer change."""
    late: int | None = None
    """The token in which it counts as begun for sections, if that is not the first."""

    @property
    def first(self) -> int:
        """The token in which it begins."""
        return self.tokens[0]


class Replay(NamedTuple):
    """What some ids gave after a clean point."""

    cells: list[Cell]
    """The code points that they decided."""
    held: int
    """The oldest token of the unfinished character or run; without one, the number of tokens."""
    waits: int
    """The oldest token that may still give text, also because a replacer holds it, or it owes it
    to the next token."""
    state: State
    """The state of the table after them."""


def num_tokens(since: Since) -> int:
    """Return how many tokens the entries of ``since`` stand for."""
    return sum(1 if entry >= 0 else -entry for entry in since if entry is not None)


def replay(
    table: Table, state: State, since: Since, base: int, decided_by: int | None = None
) -> Replay:
    """Return what the ids ``since`` a clean point gave.

    ``state`` is that of the table there, and ``base`` tokens came before it. With ``decided_by``,
    the text ends after these ids; what the end decides counts as decided by the token of this
    index.
    """
    if isinstance(table, ByteTable):
        return _Replaying(table, state, base).run(since, decided_by)
    return _replay_window(table, state, since, base, decided_by)


class _Replaying:
    """The way of some ids through a ByteTable."""

    def __init__(self, table: ByteTable, state: State, base: int) -> None:
        self._table, self._rule = table, table.rule
        self._state, pending, tails = state
        self._index = base
        self._tail = [(byte, base - 1) for byte in pending]
        """Bytes of an unfinished character, with their tokens."""
        self._waiting = deque([base - 1] * self._rule.waiting(self._state))
        """The tokens that the rule has not output completely."""
        owner = base - 1 if base else -2
        self._tails = [[Cell(letter, (owner,), owner) for letter in tail] for tail in tails]
        """The code points that each replacer holds."""
        self._cells: list[Cell] = []

    def run(self, since: Since, decided_by: int | None) -> Replay:
        """Take the entries of ``since``."""
        rule, index = self._rule, self._index
        for entry in since:
            if entry is RELEASE:
                data, self._state = rule.release(self._state)
                self._give(data, b"", index, index - 1, final=True)
                self._wait()
            elif entry < 0:
                index -= entry
            else:
                element = rule.elements[entry]
                if element is not None:
                    alone = self._alone()
                    late, own, self._state = rule.advance(self._state, element)
                    self._give(late, own, index, index, alone=alone)
                    self._waiting.append(index)
                    self._wait()
                index += 1
        if decided_by is not None:
            self._give(rule.release(self._state)[0], b"", index, decided_by, final=True)
        return self._result(index)

    def _alone(self) -> str | None:
        """The text if nothing followed; None if bytes can be told apart."""
        if self._rule.has_spans:
            return None
        held = bytes(byte for byte, _ in self._tail)
        return utf8.flush(held + self._rule.release(self._state)[0], self._rule.errors)

    def _wait(self) -> None:
        while len(self._waiting) > self._rule.waiting(self._state):
            self._waiting.popleft()

    def _give(
        self,
        late: bytes,
        own: bytes,
        index: int,
        decided: int,
        *,
        alone: str | None = None,
        final: bool = False,
    ) -> None:
        """Read ``late``, which is of the waiting tokens, and ``own``, of token ``index``.

        ``alone`` is the text that would have come without this token, if it matters.
        """
        waiting, carried, data = self._waiting, len(late), late + own
        is_known = self._rule.has_spans or not waiting
        is_own = is_known and not (carried or self._tail or self._table.replacers.rules)
        if is_own and data.isascii():
            own_token = (index,)  # as for most tokens
            cells = [Cell(letter, own_token, decided) for letter in data.decode()]
            self._cells += cells if alone is None else _late(alone, cells)
            return
        if not is_known:
            owners = [waiting[0]] * len(data)
        else:
            part = -(-carried // max(len(waiting), 1))
            before = waiting or (index,)
            owners = [each for each in before for _ in range(part)][-carried:] if carried else []
            owners += [index] * len(own)
        tail = self._tail
        tail += zip(data, owners, strict=True)
        data = bytes(byte for byte, _ in tail)
        cells = []
        place = 0
        for width, letter in utf8.code_points(data, self._rule.errors, final=final):
            tokens = tuple(dict.fromkeys(token for _, token in tail[place : place + width]))
            cells.append(Cell(letter, tokens, decided))
            place += width
        del tail[:place]
        if alone is not None:
            cells = _late(alone, cells)
        self._cells += self._replaced(cells, decided, final=final)

    def _replaced(self, cells: list[Cell], decided: int, *, final: bool) -> list[Cell]:
        """Send ``cells`` through the replacers, one after another."""
        for number, rule in enumerate(self._table.replacers.rules):
            cells = self._tails[number] + cells
            text = "".join(cell.text for cell in cells)
            kept: list[Cell] = []
            place = 0
            while (found := text.find(rule.pattern, place)) >= 0:
                kept += cells[place:found]
                place = found + len(rule.pattern)
                tokens = dict.fromkeys(each for cell in cells[found:place] for each in cell.tokens)
                kept += [Cell(letter, tuple(tokens), decided) for letter in rule.content]
            held = 0 if final else held_length(rule.pattern, text[place:])
            kept += cells[place : len(cells) - held]
            self._tails[number] = cells[len(cells) - held :]
            cells = [cell._replace(decided=decided) for cell in kept]
        return cells

    def _result(self, index: int) -> Replay:
        rule, waiting = self._rule, [*self._waiting]
        owners = [token for _, token in self._tail]
        held = min([index, *owners, *(waiting if rule.held(self._state) else ())])
        firsts = (cell.first for tail in self._tails for cell in tail)
        tails = tuple("".join(cell.text for cell in tail) for tail in self._tails)
        state = self._state, bytes(byte for byte, _ in self._tail), tails
        return Replay(self._cells, held, min([held, *firsts, *waiting]), state)


def _replay_window(
    table: Table, state: WindowState, since: Since, base: int, decided_by: int | None
) -> Replay:
    cells: list[Cell] = []
    index = base

    def give(text: str, age: int, decided: int) -> None:
        cells.extend(Cell(letter, (index - age,), decided) for letter in text)

    for entry in since:
        age = state.age
        if entry is RELEASE:
            text, state = table.release(state)
            give(text, age, index - 1)
        elif entry < 0:
            index, state = index - entry, table.later(state, -entry)
        else:
            place, alone = len(cells), ""
            with suppress(RewriteError):
                alone = table.flush(state)
            text, state = table.step(state, entry)
            give(text, age, index)
            cells[place:] = _late(alone, cells[place:])
            index += 1
    if decided_by is not None:
        give(table.flush(state), state.age, decided_by)
    held = index - state.age if table.row(state).holds else index
    return Replay(cells, held, held, state)


def _late(alone: str, cells: list[Cell]) -> list[Cell]:
    """Note which of ``cells`` the earlier tokens would not have given ``alone``."""
    size = same_items(alone, text_of(cells))
    return [*cells[:size], *(cell._replace(late=cell.decided) for cell in cells[size:])]


def text_of(cells: Iterable[Cell]) -> str:
    """Return the text of ``cells``."""
    return "".join(cell.text for cell in cells)


# --- spans ----------------------------------------------------------------------------------------
# A token covers every code point that it gave a byte to, so the spans of tokens that share a
# character overlap. A token that gave nothing has an empty span before the character that it
# interrupts.


def spans_of(
    cells: Sequence[Cell], tokens: range, count: int, cut: int | None = None
) -> Iterator[TokenSpan]:
    """Yield the span of each of ``tokens``, with ``cells`` since a clean point.

    ``count`` is of the text before the clean point. Spans are cut after ``cut`` code points.
    """
    code_points, num_bytes = sizes_in(count)
    sizes = [*accumulate((len(cell.text.encode()) for cell in cells), initial=num_bytes)]
    most = len(cells) if cut is None else min(max(cut - code_points, 0), len(cells))
    places: dict[int, tuple[int, int]] = {}
    for place, cell in enumerate(cells):
        for token in cell.tokens:
            places[token] = places.get(token, (place,))[0], place + 1
    last = sorted(cell.tokens[-1] for cell in cells)
    for token in tokens:
        start = end = bisect_left(last, token)  # if it gave nothing
        start, end = places.get(token, (start, end))
        start, end = min(start, most), min(end, most)
        yield TokenSpan(token, code_points + start, code_points + end, sizes[start], sizes[end])


def final_spans(found: Replay, tokens: range, count: int, output: int) -> list[TokenSpan]:
    """Return the spans of the first of ``tokens`` that can no longer change.

    ``found`` is what all tokens since a clean point gave, ``count`` is of the text before it, and
    ``output`` code points were output.
    """
    tokens = range(tokens.start, min(tokens.stop, found.waits))
    spans = spans_of(found.cells, tokens, count)
    return [*takewhile(lambda span: span.end <= output, spans)]


class SpanLog:
    """The final spans of one stream that were not taken yet."""

    __slots__ = ("spans", "taken")

    def __init__(self, spans: Sequence[TokenSpan] = (), taken: int = 0) -> None:
        self.spans: list[TokenSpan] = [*spans]
        """The final spans, in order."""
        self.taken: int = taken
        """How many tokens' spans were taken."""

    def note(
        self, cells: Sequence[Cell], tokens: range, count: int, cut: int | None = None
    ) -> None:
        """Note the spans of ``tokens``, which are final. See ``spans_of``."""
        left = range(max(tokens.start, self.taken), max(tokens.stop, self.taken))
        self.spans += spans_of(cells, left, count, cut)

    def note_whole(self, index: int, before: int, after: int) -> None:
        """Note the span of a token whose text is all of the text between two counts."""
        if index >= self.taken:
            (start, byte_start), (end, byte_end) = sizes_in(before), sizes_in(after)
            self.spans.append(TokenSpan(index, start, end, byte_start, byte_end))

    def take(self, more: Sequence[TokenSpan]) -> list[TokenSpan]:
        """Return the final spans and ``more``, which follow them, and drop them."""
        found = [*self.spans, *(span for span in more if span.token_index >= self.taken)]
        self.taken += len(found)
        self.spans.clear()
        return found
