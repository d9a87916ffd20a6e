r"""Run a stop pattern over text that arrives letter by letter.

**Theory.** Thompson (1968) makes a graph of a pattern and walks all of its paths at once. For a
letter, each node is then visited at most four times, for any text. A search that tries one path
after the other, as in Python's ``re``, may take exponential time.

Here a path also knows its *age*: how many letters it has read. The ages of the paths at a node are
one integer, in which bit *n* stands for the age *n*. A letter shifts it by one. A path that can no
longer become a match of the allowed length is dropped, so these integers are bounded.

Besides the paths, a state has three facts about the text before: whether it ends at the place that
``^`` stands for, with a line break, or with a letter of a word. A look-behind has its own graph, in
which a path begins at every letter; it holds where one of these paths is complete. Its nodes come
before those that ask for it. In front of ``\b`` a path waits for the next letter.

What a pattern asks about a letter is its *kind*: which sets of the pattern it is in, and whether it
ends a line or is part of a word. As in RE2, states are made on first use and kept, with the state
after each kind that was met.

- Thompson, K. (1968). Regular expression search algorithm. Communications of the ACM 11 (6).
- Cox, R. (2010). Regular expression matching in the wild. https://swtch.com/~rsc/regexp/

**A worked example.** ``a[ab]c``, and the text ``"xaab"``: after each letter, the ages of the paths
that wait at a node, and the greatest age, which is how much text is jailed:

>>> from streamdec.core.patterns.compile import read_pattern
>>> automaton = read_pattern("a[ab]c", None).automaton
>>> state = automaton.blank
>>> for letter in "xaab":
...     state, size = automaton.step(state, letter)
...     print(letter, {node: bin(ages) for node, ages in state.paths}, state.oldest)
x {} 0
a {1: '0b10'} 1
a {1: '0b10', 2: '0b100'} 2
b {2: '0b100'} 2
>>> automaton.step(state, "c")[1]                   # the path of age 2 reads a third letter
3

**What is ugly.** Ages are bits of integers, and facts, tests and kinds share one integer, because
this loop runs for each node and letter that was not met yet. A state is the dict of its own
transitions, because any other dict would have to hash the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
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
MAX_LETTERS = 2_048
"""The most letters whose kind an automaton keeps."""
WEIGHT_SIZE, LETTER_SIZE, NODE_SIZE, TEST_SIZE = 128, 256, 256, 1_024
"""Bytes of a weight of 1, a letter with its kind, a node without its ``room``, and a test."""

Paths = Iterable[tuple[int, int]]
"""Numbers of nodes, with the ages of the paths there."""
Test = Callable[[str], object]
"""Returns something true for the letters that match."""


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
    ends with it. The keys are the kinds for ``step`` and ``~kind`` for ``look``.
    """

    __slots__ = ("_hash", "before", "oldest", "paths")

    def __init__(self, paths: tuple[tuple[int, int], ...], before: int, oldest: int = 0) -> None:
        super().__init__()
        self.paths: tuple[tuple[int, int], ...] = paths
        """For each node with paths, in order: its number, and the ages of the paths."""
        self.before: int = before
        """The facts about the text before that the pattern may ask for."""
        self.oldest: int = oldest
        """The greatest age of a path that may become a match: the size of the jailed text."""
        # ``oldest`` tells states apart whose ages differ by 61: 2**n and 2**(n + 61) hash equally.
        self._hash = hash((paths, before, oldest))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, State):
            return NotImplemented
        return self is other or (self.paths == other.paths and self.before == other.before)

    def __repr__(self) -> str:  # that of a dict shows all later states
        return f"State({self.paths}, {self.before}, {self.oldest})"

    __ne__ = object.__ne__  # that of a dict compares what it knows

    def __hash__(self) -> int:  # type: ignore[override]
        return self._hash


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
        self._starts = starts
        *self._looks, self._start = starts
        self._first = first
        self.asks: int = 0
        """The facts that the pattern asks for."""
        for node in nodes:
            if node.kind in (PLACE, LINE):
                self.asks |= AT_PLACE | (AFTER_LINE if node.kind == LINE else 0)
            elif node.kind == BOUNDARY:
                self.asks |= node.value[0]
        self.reach: int = _reach(nodes)
        """How many letters before a match decide what look-behinds, ``\b`` and ``^`` see."""
        self._seen_kinds = self.asks
        for node in nodes[:first]:
            self._seen_kinds |= node.value if node.kind == READ else 0
        self.blank: State = State((), 0)
        """The state before any text. ``^`` does not hold."""
        rooms = sum(node.room.bit_length() for node in nodes) // 8
        self._own_size = NODE_SIZE * len(nodes) + rooms + TEST_SIZE * len(tests)
        self._states: dict[State, State] = {}
        self._weight = 0
        self._tests = tests
        self._kind = lru_cache(MAX_LETTERS)(self._kind_of)

    @property
    def num_bytes(self) -> int:
        """How many bytes it takes, estimated."""
        letters = self._kind.cache_info().currsize
        return self._own_size + LETTER_SIZE * letters + WEIGHT_SIZE * self._weight

    def step(self, state: State, letter: str) -> tuple[State, int]:
        """Return the state after ``letter``, and the size of the longest match there."""
        kind = self._kind(letter)
        return state.get(kind) or self._learn(state, kind)

    def look(self, state: State, entry: str) -> State:
        """Return the state of the look-behinds after ``entry``; "" is a place of ``^``."""
        key = ~self._kind(entry)
        return (state.get(key) or self._learn(state, key))[0]

    def seen_kind(self, letter: str) -> int:
        """Return what ``look`` asks about ``letter``."""
        return self._kind(letter) & self._seen_kinds

    def _kind_of(self, letter: str) -> int:
        """Return the kind of ``letter``, as bits; AT_PLACE for a place of ``^``, ""."""
        kind = 0 if letter else AT_PLACE
        if letter == "\n":
            kind = AFTER_LINE & self.asks
        elif letter == "_" or letter.isalnum():  # as ``re`` has it
            kind = (AFTER_WORD | (AFTER_ASCII_WORD if letter.isascii() else 0)) & self.asks
        for bit, test in enumerate(self._tests):
            if test(letter):
                kind |= FIRST_TEST << bit
        return kind

    def _learn(self, state: State, key: int) -> tuple[State, int]:
        """Return what a key of ``state`` stands for, and keep it there."""
        if self._weight > MAX_KNOWN:
            states, self._states, self._weight = self._states, {}, 0
            for each in [*states]:
                each.clear()
        state = self._kept(state)
        known = state.get(key)
        if known is None:
            if key >= 0:
                after, size = self._step(state, key, self._starts)
            elif key == ~AT_PLACE:
                after, size = State(state.paths, state.before | AT_PLACE & self.asks), 0
            else:
                after, size = self._step(state, ~key, self._looks)
            known = state[key] = self._kept(after), size
            self._weight += 1
        return known

    def _kept(self, state: State) -> State:
        """Return the one state that equals ``state``."""
        known = self._states.get(state)
        if known is None:
            known = self._states.setdefault(state, state)
            self._weight += 4 + sum(1 + ages.bit_length() // 512 for _, ages in state.paths)
        return known

    def _step(self, state: State, kind: int, starts: Sequence[int]) -> tuple[State, int]:
        """Read a letter of this kind; a path begins at each of ``starts``."""
        facts, nodes, first = kind & self.asks, self.nodes, self._first
        reads, _, _ = self._visit(state.paths, starts, state.before, facts)
        paths: dict[int, int] = {}
        for number, ages in reads:
            _, test, nexts, _ = nodes[number]
            if kind & test:
                [after] = nexts
                older = ages << 1 & nodes[after].room
                if older:
                    paths[after] = paths.get(after, 0) | older
        if not paths:
            return State((), facts), 0
        reads, matched, alive = self._visit(paths.items(), self._looks, facts, None)
        for number, ages in reads:
            if number >= first:
                alive |= ages
        kept = ((each, ages if each < first else ages & alive) for each, ages in paths.items())
        left = tuple(sorted(path for path in kept if path[1]))
        return State(left, facts, max(alive.bit_length() - 1, 0)), max(matched.bit_length() - 1, 0)

    def _visit(
        self, arrived: Paths, starts: Sequence[int], before: int | None, after: int | None
    ) -> tuple[Paths, int, int]:
        """Follow paths until each of them needs a letter.

        Paths back to the beginning of a loop are followed last, in a second round. The beginning
        is the only entrance of a loop, and the end its only exit. So what the second round brings
        to an end does not go back once more: no node is visited more than twice, also if loops are
        nested.

        ``before`` has the facts about the text before; None to pass all that depends on it.
        ``after`` has those about the next letter; None if it is not known yet. Returns the ages at
        each node that reads a letter, of complete matches, and of paths that wait in front of a
        boundary.
        """
        nodes, paths = self.nodes, dict(arrived)
        for start in starts:
            paths[start] = paths.get(start, 0) | 1
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
            if kind != FORK and before is not None:
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

    def letters(self, state: State) -> frozenset[str] | None:
        """Return letters without which a text leaves ``state``; None: any may change it."""
        if self._looks or state.paths:
            return None
        tests = 0
        for number, _ in self._visit((), [self._start], None, None)[0]:
            tests |= self.nodes[number].value
        found = {"\x80"}  # stands for all letters that are not ASCII
        for letter in map(chr, range(128)):
            kind = self._kind(letter)
            if kind & tests or kind & self.asks != state.before:
                found.add(letter)
        return frozenset(found)


def _reach(nodes: Iterable[Node]) -> int:
    """How many letters before a place decide what look-behinds see there."""
    looks: dict[int, int] = {}
    asked = 0  # by the graph that the nodes are part of: SEEN is the last of a look-behind
    for kind, value, _, room in nodes:
        if kind in (LINE, BOUNDARY):
            asked = max(asked, 1)
        elif kind == LOOK:
            asked = max(asked, looks[value[0]])
        elif kind == SEEN:
            looks[value], asked = room.bit_length() - 1 + asked, 0
    return max(asked, *looks.values(), 0)
