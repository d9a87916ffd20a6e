r"""Run a stop pattern over text that arrives letter by letter.

**Theory.** Thompson (1968) makes a graph of a pattern and walks all of its paths at once. For a
letter, each node is then visited at most four times, for any text. A search that tries one path
after the other, as in Python's ``re``, may take exponential time.

Here a path also knows its *age*: how many letters it has read. The ages of the paths at a node are
one integer, in which bit *n* stands for the age *n*. A letter shifts it by one. A path that can no
longer become a match of the allowed length is dropped, so these integers are bounded.

Besides the paths, a state has three facts about the text before: whether it ends at the place that
``^`` stands for, with a line break, or with a letter of a word. A look-behind has its own graph, in
which a path begins at every letter. It holds where one of these paths is complete. Nodes are
visited in order, and a look-behind, which has no loops, comes before the nodes that ask for it. In
front of ``\b`` a path waits for the next letter.

What a pattern asks about a letter is its *kind*: which sets of the pattern it is in, and whether it
ends a line or is part of a word. States are made on first use and kept, as in RE2: a kind that was
met in a state is looked up.

- Thompson, K. (1968). Regular expression search algorithm. Communications of the ACM 11 (6).
- Cox, R. (2010). Regular expression matching in the wild. https://swtch.com/~rsc/regexp/

**A worked example.** ``a[ab]c``, and the text ``"xaab"``. Node 0 reads ``a``, node 1 reads ``[ab]``
and node 2 reads ``c``; at node 3 a match is complete. After each letter, the ages of the paths that
wait at a node, and how much text is withheld:

>>> from streamdec.stops.patterns import read_pattern
>>> automaton = read_pattern("a[ab]c", None).automaton
>>> state = automaton.start
>>> for letter in "xaab":
...     state, size = automaton.step(state, letter)
...     print(letter, {node: bin(ages) for node, ages in state.paths}, state.oldest)
x {} 0
a {1: '0b10'} 1
a {1: '0b10', 2: '0b100'} 2
b {2: '0b100'} 2
>>> automaton.step(state, "c")[1]                   # the path of age 2 reads a third letter
3
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any, NamedTuple

# The kinds of nodes.
READ, FORK, PLACE, LINE, BOUNDARY, LOOK, SEEN, MATCH = range(8)

AT_PLACE, AFTER_LINE, AFTER_WORD, AFTER_ASCII_WORD = 1, 2, 4, 8
"""Facts about the text before a letter; a state has their sum."""
FIRST_TEST = 16
"""The bit of the first test in the kind of a letter. The lower bits are facts."""

MAX_KNOWN = 16_384
"""The greatest weight of the states that an automaton keeps, and of what they know."""
WEIGHT_SIZE = 128
"""Bytes of a weight of 1."""
MAX_LETTERS = 2_048
"""The most letters whose kind an automaton keeps."""
LETTER_SIZE = 256
"""Bytes of a letter with its kind."""
NODE_SIZE = 256
"""Bytes of a node, without its ``room``."""
TEST_SIZE = 1_024
"""Bytes of a test."""

Paths = tuple[tuple[int, int], ...]
Test = Callable[[str], object]
"""Returns something true for the letters that match."""

ASCII_LETTERS = tuple(map(chr, range(128)))


class Node(NamedTuple):
    r"""A node of a graph.

    =========  ===================================================  ============================
    kind       passed by a path                                     value
    =========  ===================================================  ============================
    READ       when it reads a letter that passes a test            the bit of the test
    FORK       always, to all of ``nexts``                          None
    PLACE      where ``^`` holds                                    None
    LINE       there, and after a line break                        None
    BOUNDARY   at ``\b`` (wanted) or ``\B`` (not wanted)            AFTER_WORD or
                                                                    AFTER_ASCII_WORD; wanted
    LOOK       where a look-behind holds (or, not wanted, fails)    its number; wanted
    SEEN       never: here a look-behind is complete                its number
    MATCH      never: here the pattern is complete                  None
    =========  ===================================================  ============================
    """

    kind: int
    value: Any
    nexts: tuple[int, ...]
    room: int
    """The ages that a path may have here, as bits."""


class State(dict[int, "tuple[State, int]"]):
    """What was seen of a pattern, and what each kind of letter does.

    As a dict it has the state after each kind that was met, and the size of the longest match that
    ends with it. All other attributes are immutable, and decide whether two states are equal.
    """

    __slots__ = ("_hash", "before", "oldest", "paths")

    def __init__(self, paths: Paths, before: int, oldest: int = 0) -> None:
        super().__init__()
        self.paths: Paths = paths
        """For each node with paths, in order: its number, and the ages of the paths."""
        self.before: int = before
        """The facts about the text before that the pattern may ask for."""
        self.oldest: int = oldest
        """The greatest age of a path that may become a match, which is the size of the withheld
        text."""
        # ``oldest`` tells states apart whose ages differ by 61: 2**n and 2**(n + 61) hash equally.
        self._hash = hash((paths, before, oldest))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self is other or (self.paths == other.paths and self.before == other.before)

    def __ne__(self, other: object) -> bool:  # that of a dict compares what it knows
        return not self == other

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash

    @property
    def weight(self) -> int:
        """Its size, in units of WEIGHT_SIZE."""
        return 4 + sum(1 + ages.bit_length() // 512 for _, ages in self.paths)


class _Kinds(dict[str, int]):
    """The kinds of the letters that were met, as bits: facts and tests.

    Letters of one kind do the same in every state.
    """

    def __init__(self, asks: int, tests: Sequence[Test]) -> None:
        super().__init__()
        self._asks = asks
        self._tests = tests

    def __missing__(self, letter: str) -> int:
        if len(self) >= MAX_LETTERS:
            self.clear()
        kind = 0
        if letter == "\n":
            kind = AFTER_LINE & self._asks
        elif letter == "_" or letter.isalnum():  # as ``re`` has it
            kind = (AFTER_WORD | (AFTER_ASCII_WORD if letter.isascii() else 0)) & self._asks
        bit = FIRST_TEST
        for test in self._tests:
            if test(letter):
                kind |= bit
            bit <<= 1
        self[letter] = kind
        return kind


class Automaton:
    """The graph of one pattern.

    Args:
        nodes: in order: only the end of a loop leads back, to the beginning of the loop.
        tests: each tells whether a letter matches a set; the READ nodes name them.
        starts: the nodes at which the look-behinds begin, inner ones first, and then the pattern.
        first: the number of the first node that is not part of a look-behind.
    """

    def __init__(
        self, nodes: Sequence[Node], tests: Sequence[Test], starts: Sequence[int], first: int
    ) -> None:
        self.nodes: Sequence[Node] = nodes
        *self._looks, self._start = starts
        self._first = first
        self.asks: int = 0
        """The facts that the pattern asks for."""
        for node in nodes:
            if node.kind in (PLACE, LINE):
                self.asks |= AT_PLACE | (AFTER_LINE if node.kind == LINE else 0)
            elif node.kind == BOUNDARY:
                self.asks |= node.value[0]
        self.looks_back: bool = bool(self.asks or self._looks)
        """Whether it matters what text came before."""
        self.start: State = State((), self.asks & AT_PLACE)
        """The state in which the generated text begins."""
        rooms = sum(node.room.bit_length() for node in nodes) // 8
        self._own_size = NODE_SIZE * len(nodes) + rooms + TEST_SIZE * len(tests)
        self._states: dict[State, State] = {}
        self._weight = 0
        self._kinds = _Kinds(self.asks, tests)
        self._letters: dict[int, frozenset[str]] = {}

    @property
    def num_bytes(self) -> int:
        """How many bytes it takes, estimated."""
        return self._own_size + LETTER_SIZE * len(self._kinds) + WEIGHT_SIZE * self._weight

    # --- text

    def step(self, state: State, letter: str) -> tuple[State, int]:
        """Return the state after ``letter``, and the size of the match that ends there.

        The size is in letters: of the longest match, or 0 if none ends there.
        """
        kind = self._kinds[letter]
        known = state.get(kind)
        return self._learn(state, kind) if known is None else known

    def _learn(self, state: State, kind: int) -> tuple[State, int]:
        """Return what a letter of this kind does in ``state``, and keep it."""
        if self._weight > MAX_KNOWN:
            states, self._states, self._weight = self._states, {}, 0
            for each in [*states]:
                each.clear()
        state = self._kept(state)
        known = state.get(kind)
        if known is None:
            after, size = self._step(state, kind, [*self._looks, self._start])
            known = state[kind] = self._kept(after), size
            self._weight += 1
        return known

    def _kept(self, state: State) -> State:
        """Return the one state that equals ``state``."""
        known = self._states.get(state)
        if known is None:
            known = self._states.setdefault(state, state)
            self._weight += state.weight
        return known

    def skip(self, state: State, text: str) -> State:
        """Return the state after ``text``, no part of which can be in a match.

        ``^`` holds at its end.
        """
        before = state.before & ~AT_PLACE
        state = State(self._of_looks(state), before)
        if self._looks:
            for letter in text:
                state, _ = self._step(state, self._kinds[letter], self._looks)
        elif text:
            state = State((), self._kinds[text[-1]] & self.asks)
        return State(state.paths, state.before | self.asks & AT_PLACE)

    def restart(self, state: State) -> State:
        """Return the state in which a match can begin only after the text so far."""
        return State(self._of_looks(state), state.before)

    def _of_looks(self, state: State) -> Paths:
        return tuple(path for path in state.paths if path[0] < self._first)

    def _step(self, state: State, kind: int, starts: Sequence[int]) -> tuple[State, int]:
        """Read a letter of this kind. A path begins at each of ``starts``."""
        facts = kind & self.asks
        reads, _, _ = self._visit(_begun(dict(state.paths), starts), state.before, facts)
        read = self._read(reads, kind)
        return self._arrived(read, facts) if read else (State((), facts), 0)

    def _read(self, reads: Iterable[tuple[int, int]], kind: int) -> dict[int, int]:
        """Return the paths of ``reads`` after a letter of this kind."""
        nodes = self.nodes
        paths: dict[int, int] = {}
        for number, ages in reads:
            _, test, nexts, _ = nodes[number]
            if kind & test:
                [after] = nexts
                older = ages << 1 & nodes[after].room
                if older:
                    paths[after] = paths.get(after, 0) | older
        return paths

    def _arrived(self, paths: dict[int, int], facts: int) -> tuple[State, int]:
        """Return the state that ``paths`` lead to, and the size of the longest match.

        ``facts`` are about the text before, with the letter that the paths have just read. Paths
        that cannot go on are left out.
        """
        reads, matched, waiting = self._visit(_begun(dict(paths), self._looks), facts, None)
        first, alive = self._first, waiting
        for number, ages in reads:
            if number >= first:
                alive |= ages
        kept = ((each, ages if each < first else ages & alive) for each, ages in paths.items())
        left = tuple(sorted(path for path in kept if path[1]))
        return State(left, facts, _oldest(alive)), _oldest(matched)

    def _visit(
        self, paths: dict[int, int], before: int, after: int | None, *, doubts: bool = False
    ) -> tuple[Iterable[tuple[int, int]], int, int]:
        """Follow ``paths`` until each of them needs a letter.

        Paths that go back to the beginning of a loop are followed last, in a second round. The
        beginning of a loop is its only entrance, and the end its only exit. So what the second
        round brings to an end has passed the beginning, and no path goes back once more: no node is
        visited more than twice, also if loops are nested.

        Args:
            paths: the ages of the paths at each node. The dict is changed.
            before: the facts about the text before.
            after: those about the text and the next letter; None if that is not known yet.
            doubts: whether to pass all that depends on the text before.

        Returns the ages at each node that reads a letter, those of complete matches, and those
        that wait in front of a boundary.
        """
        nodes = self.nodes
        now, later = sorted(paths), list[int]()
        reads: dict[int, int] = {}
        matched = waiting = seen = 0
        while now or later:
            if not now:
                now, later = sorted(later), []
            number = heappop(now)
            if now and now[0] == number:
                continue  # several paths meet here
            ages = paths[number]
            kind, value, nexts, _ = nodes[number]
            if kind == READ:
                reads[number] = ages
                continue
            if kind == MATCH:
                matched |= ages
                continue
            if kind == SEEN:
                seen |= 1 << value
                continue
            if kind != FORK and not doubts:
                if kind == PLACE:
                    passes = bool(before & AT_PLACE)
                elif kind == LINE:
                    passes = bool(before & (AT_PLACE | AFTER_LINE))
                elif kind == LOOK:
                    passes = bool(seen >> value[0] & 1) == value[1]
                elif after is None:
                    waiting |= ages if number >= self._first else 0
                    continue
                else:
                    passes = bool((before ^ after) & value[0]) == value[1]
                if not passes:
                    continue
            for each in nexts:
                known = paths.get(each, 0)
                more = known | ages & nodes[each].room
                if more != known:
                    paths[each] = more
                    if each > number:
                        heappush(now, each)
                    else:
                        later.append(each)
        return reads.items(), matched, waiting

    # --- which letters matter

    def letters(self, state: State) -> frozenset[str] | None:
        """Return letters, such that text without any of them leaves ``state`` as it is.

        None: any letter may change it.
        """
        if self._looks or state.paths:
            return None
        known = self._letters.get(state.before)
        if known is None:
            reads, _, _ = self._visit({self._start: 1}, 0, 0, doubts=True)
            tests = 0
            for number, _ in reads:
                tests |= self.nodes[number].value
            kinds = ((letter, self._kinds[letter]) for letter in ASCII_LETTERS)
            found = {
                letter for letter, kind in kinds if kind & tests or kind & self.asks != state.before
            }
            # U+0080 stands for all letters that are not ASCII.
            known = self._letters[state.before] = frozenset((*found, "\x80"))
        return known

    # --- snapshots

    def dump(self, state: State) -> list[Any]:
        """Return ``state`` as JSON: the facts before, and each node with the ages there."""
        return [state.before, *([number, f"{ages:x}"] for number, ages in state.paths)]

    def load(self, data: Any, text: str) -> State:
        """Return the state from which ``dump`` made ``data``.

        ``text`` is the end of the text, at least as long as the oldest path. Raises ValueError for
        other data.
        """
        before, *listed = data if isinstance(data, list) and data else [None]
        if type(before) is not int or before & ~self.asks:
            raise ValueError("expected a number of facts, and paths")
        paths: dict[int, int] = {}
        for each in listed:
            number: Any
            digits: Any
            number, digits = each if isinstance(each, list) and len(each) == 2 else (None, None)
            is_node = type(number) is int and 0 <= number < len(self.nodes)
            if not is_node or not isinstance(digits, str):
                raise ValueError("expected the number of a node, and the ages of paths there")
            ages = int(digits, 16)
            if ages & 1 or ages & ~self.nodes[number].room:
                raise ValueError("expected the ages of paths that may become a match")
            paths[number] = ages
        state, _ = self._arrived(paths, before)
        if self.dump(state) != data or state.oldest > len(text):
            raise ValueError("expected paths that this pattern may have")
        if text and state.oldest and before != self._kinds[text[-1]] & self.asks:
            raise ValueError("expected the facts about this text")
        possible: dict[int, int] = {}  # after any text before this one
        for letter in text[-state.oldest :] if state.oldest else "":
            reads, _, _ = self._visit(_begun(possible, [self._start]), 0, 0, doubts=True)
            possible = self._read(reads, self._kinds[letter])
        for node, bits in state.paths:
            if node >= self._first and bits & ~possible.get(node, 0):
                raise ValueError("expected paths through this text")
        return state


def _begun(paths: dict[int, int], starts: Iterable[int]) -> dict[int, int]:
    """Add a path of age 0 at each of ``starts``; return ``paths``."""
    for start in starts:
        paths[start] = paths.get(start, 0) | 1
    return paths


def _oldest(ages: int) -> int:
    """The greatest of ``ages``; 0 if there is none."""
    return max(ages.bit_length() - 1, 0)
