"""Automata of stop patterns: what they do and keep is bounded, and makes no difference."""

from __future__ import annotations

import random
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from streamdec.core.patterns import automaton, matcher
from streamdec.core.patterns.compile import read_pattern, read_patterns
from streamdec.core.patterns.matcher import matcher_of

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
        pytest.param(MANY_SETS, LETTERS, marks=pytest.mark.thorough),
        pytest.param(MANY_KINDS, LETTERS[:150], marks=pytest.mark.thorough),
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
        found = read_pattern(pattern, 4_000).automaton
        state = found.blank
        for letter in chooser.choices(letters, k=800):
            state, _ = found.step(state, letter)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken <= found.num_bytes + 20_000
    assert taken <= 3_500_000


@pytest.mark.parametrize("most", [1, 20, 200])
def test_threads_share_a_matcher_whose_states_come_and_go(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = read_patterns([r"(?i)\b(?:a|bc?|c[^a]*)+-|(?<!ab)[b-]{2,}c"], 12)
    chooser = random.Random(most)
    texts = ["".join(chooser.choices("abcABC- éx", k=40)) for _ in range(100)]
    shared: Any = matcher_of((), (), patterns)

    def work(text: str) -> object:
        tail, found = shared.start, []
        for letter in text:
            tail, hit = shared.step(tail, letter, ignore=True)
            found.append((hit, shared.jailed(tail), shared.context(tail)))
        return found, shared.step(shared.start, text)[1]

    expected = [work(text) for text in texts]
    assert len({str(found) for found in expected}) > 50
    monkeypatch.setattr(automaton, "MAX_KNOWN", most)
    monkeypatch.setattr(automaton, "MAX_LETTERS", most)
    monkeypatch.setattr(matcher, "MAX_CONTEXTS", most)
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(work, texts)] == expected
