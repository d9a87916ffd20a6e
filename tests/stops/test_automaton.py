"""Automata of stop patterns: what they do and keep is bounded, and makes no difference."""

from __future__ import annotations

import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from streamdec.stops import stop_sets

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.patterns.automaton import State
from streamdec.core.patterns.compile import read_pattern
from streamdec.core.shared_tables import table_for
from tests.support.caches import small_caches

LETTERS = "".join(map(chr, range(0x4E00, 0x4E00 + 3_000)))
MANY_SETS = "".join(f"[^{letter}!]" for letter in LETTERS[:100]) + "!"
MANY_KINDS = "(?:" + "|".join(f"{letter}[^{letter}]" for letter in LETTERS[:100]) + ")*!"

NESTED = st.recursive(
    st.sampled_from(["a", "[ab]", "", "()", r"\b", "(?<=a)", "(?<!^b)"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=6).map("|".join).map("({})".format),
        st.builds(
            "(?:{}){}".format, inner, st.sampled_from(["?", "*", "+", "{2,}", "{0,3}", "{3}"])
        ),
    ),
    max_leaves=9,
)


@given(pattern=NESTED)
@example(pattern="(?:((a+)b?)+|)*")
@example(pattern=f"(?:a{'|' * 99}(?:){'|()' * 99}){{0,4}}")
def test_the_graph_bounds_the_work_for_a_letter(pattern: str) -> None:
    """A loop is entered at its beginning, left at its end, and gone back in nowhere else.

    So a path that went back once comes to no end of a loop with a new age, and a node is visited at
    most twice before a letter and twice after it. At each visit its edges are followed.
    """
    try:
        found = read_pattern(f"{pattern}c", 60)
    except ValueError:  # more than 60 letters, or 1,000 parts
        reject()
    nodes = found.automaton.nodes
    edges = [(number, each) for number, node in enumerate(nodes) for each in node.nexts]
    assert len(edges) <= 2 * len(nodes)
    assert max(node.room.bit_length() for node in nodes) == found.longest + 1
    loops = [(begin, end) for end, begin in edges if begin <= end]
    assert len({end for _, end in loops}) == len(loops)
    for begin, end in loops:
        inside = range(begin, end + 1)
        crossing = [edge for edge in edges if (edge[0] in inside) != (edge[1] in inside)]
        assert all(end == left if left in inside else begin == to for left, to in crossing)


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        (MANY_SETS, LETTERS),
        (MANY_KINDS, LETTERS[:150]),
        ("(?s).*!", LETTERS),
        ("(?<=[一丁].{100})!", LETTERS[:4]),
        ("(?:[一丁]|丂七|丄丅)*!", LETTERS[:6]),
        (".{0,50}!", LETTERS[:9] + "\n"),
    ],
)
def test_num_bytes_of_an_automaton_is_an_upper_bound(pattern: str, letters: str) -> None:
    chooser = random.Random(1)
    read_pattern.cache_clear()
    tracemalloc.start()
    try:
        automaton = read_pattern(pattern, 4_000).automaton
        state = automaton.start
        for letter in chooser.choices(letters, k=2_500):
            state, _ = automaton.step(state, letter)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= automaton.num_bytes + 20_000
    assert taken <= 3_500_000


def test_states_are_compared_without_the_letters_that_they_have_met() -> None:
    automaton = read_pattern("ab", None).automaton
    state, _ = automaton.step(automaton.start, "a")
    automaton.step(state, "x")
    twin, other = State(state.paths, state.before), State((), state.before)
    assert (len(state), len(twin), len(other)) == (1, 0, 0)
    assert (state == twin, state != twin) == (True, False)
    assert (other == twin, other != twin) == (False, True)


@pytest.mark.parametrize("most", [1, 20, 200])
def test_threads_share_a_pattern_whose_states_come_and_go(most: int) -> None:
    pattern = r"(?i)\b(?:a|bc?|c[^a]*)+-|(?<!ab)[b-]{2,}c"
    conditions = StopConditions(stop_regex=pattern, max_match_length=12)
    tokenizer = MockTokenizer.from_tokens([*map(str.encode, "abcABC- éx")])
    chooser = random.Random(most)
    jobs = [chooser.choices(range(9), k=40) for _ in range(200)]

    def work(job: list[int]) -> object:
        decoder = StopSequenceDecoder(tokenizer, conditions)
        return decoder.step_batch(job), decoder.match, decoder.jailed

    expected = [work(job) for job in jobs]
    assert len({str(found) for found in expected}) > 100
    with small_caches(most), ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, jobs)] == expected


@pytest.mark.parametrize(
    ("pattern", "letters"),
    [
        ("(?<=[ab].{100})x", "abcd"),
        ("(?<=[ab][bc].{4})x", "abcd"),
        ("(?:" + "|".join(f"[^{letter}]." for letter in LETTERS[:50]) + ")x", LETTERS[:60]),
        ("(?:ab|[ac].|b[cd]*)*x", "abcd"),
        (r"\w+:x", "abcdefgh :"),
    ],
)
def test_size_of_a_stop_set_is_an_upper_bound(pattern: str, letters: str) -> None:
    chooser = random.Random(1)
    tokenizer = MockTokenizer.from_tokens([*map(str.encode, letters)])
    conditions = StopConditions(stop_regex=pattern, max_match_length=500)
    read_pattern.cache_clear()
    tracemalloc.start()
    try:
        decoder = StopSequenceDecoder(tokenizer, conditions)
        for token_id in chooser.choices(range(len(letters)), k=3_000):
            decoder.step(token_id)
        taken = tracemalloc.get_traced_memory()[0]
        [stops] = table_for(tokenizer).stop_sets
    finally:
        tracemalloc.stop()
    assert stops.noted_size * 5 // 4 >= stops.size
    assert taken <= stops.size + 200_000


def test_patterns_that_grow_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_sets, "MAX_SETS_SIZE", 2_000_000)
    tokenizer = MockTokenizer.from_tokens([b"".join(b"%d " % n for n in range(500))])
    for number in range(9):
        conditions = StopConditions(stop_regex=f"{number}.*!", max_match_length=3_000)
        StopSequenceDecoder(tokenizer, conditions).step(0)
        assert sum(stops.size for stops in table_for(tokenizer).stop_sets) <= 2_000_000
