"""The matcher of patterns: against ``re`` itself, in pieces, and with automata of any size."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from streamdec.core.patterns import automaton, matcher
from streamdec.core.patterns.compile import read_pattern, read_patterns
from streamdec.core.patterns.matcher import PatternStops, PatternTail
from streamdec.core.strings import StopStrings
from tests.support.caches import traced
from tests.test_stop_patterns import ENDLESS, MOST, REPEATS, patterns

MORE = settings(max_examples=4 * settings().max_examples)


def stops_of(
    *sources: str, most: int | None = MOST, hidden: Sequence[str] = (), shown: bool = False
) -> PatternStops:
    return PatternStops(StopStrings(hidden), read_patterns(sources, most), visible=shown)


SIGNS = "sSſßkK\u212aiIİıµμ_é1²٣ \n-🦉"
"""Letters that are equal in other cases, and what is or is not part of a word."""
ATOMS = (
    *map(re.escape, SIGNS),
    *(".", r"\w", r"\W", r"\d", r"\s", r"\S", r"[^\W_]", "[s-ß]", "[^k]", "[^ſ-ı]", "[I-_é]"),
    *("", "(?:)", "()", "^", r"\A", r"\b", r"\B", r"(?<=\w)", "(?<![s-t])", "(?<!(?<=K)i)"),
    *("(?<=)", r"(?<=\bs)", "(?<!s|ß)", r"(?<=(?m:^)\B.)", r"(?<=\A.)", r"(?<!(?-m:^)\n)"),
)
FLAGS = ["i", "a", "s", "m", "x", "ai", "-i", "u-i", "im-s", "-m"]
NESTED = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join).map("({})".format),
        st.builds("(?:{}){}".format, inner, st.sampled_from([*REPEATS, *ENDLESS, "{0}"])),
        st.builds("(?{}:{})".format, st.sampled_from(FLAGS), inner),
    ),
    max_leaves=8,
)
GLOBAL_FLAGS = st.sampled_from(["", "(?i)", "(?a)", "(?s)", "(?m)", "(?aim)"])


# --- as ``re``


def first_match(asked: re.Pattern[str], text: str) -> str | None:
    starts = range(max(len(text) - MOST, 0), len(text))
    return next((text[start:] for start in starts if asked.fullmatch(text, start)), None)


@MORE
@given(flags=GLOBAL_FLAGS, pattern=NESTED, text=st.text(SIGNS, max_size=12))
@example(flags="(?m)", pattern=r"\As", text="k\ns")
@example(flags="(?m)", pattern=r"(?<=\As)k", text="i\nsk")
@example(flags="(?m)", pattern="(?-m:^)s", text="\ns")
@example(flags="(?m)", pattern=r"(?<!\A)sk", text="sk-sk")
def test_a_match_is_one_of_re(flags: str, pattern: str, text: str) -> None:
    """Any syntax, letters and flags: the stop is the first and longest match that ``re`` finds."""
    try:
        matcher = stops_of(flags + pattern)
    except ValueError:
        reject()
    asked, tail = re.compile(flags + pattern), matcher.start
    for size in range(1, len(text) + 1):
        expected = first_match(asked, text[:size])
        tail, hit = matcher.step(tail, text[size - 1])
        assert (hit.text if hit else None) == expected
        if hit:
            break
    _, hit = matcher.step(matcher.start, text)
    assert (hit.text if hit else None) == expected if text else hit is None


# --- contexts

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["step", "step", "step", "ignore", "skip", "close"]),
        st.text("ab-\n é", max_size=5),
    ),
    max_size=10,
)


def taken(matcher: PatternStops, tail: PatternTail, action: str, text: str) -> tuple[Any, Any]:
    if action == "skip":
        return matcher.skip(tail, text), None
    if action == "close":
        return matcher.close(tail), None
    return matcher.step(tail, text, ignore=action == "ignore")


@MORE
@given(
    sources=st.lists(
        st.one_of(patterns(), st.tuples(GLOBAL_FLAGS, NESTED).map("".join)), min_size=1, max_size=2
    ),
    hidden=st.sampled_from([[], ["ab"], ["-a", "b\n"]]),
    actions=ACTIONS,
)
@example(sources=["(?<=^ab)c"], hidden=[], actions=[("skip", "b"), ("step", "ab"), ("skip", "")])
@example(sources=[r"(?<=\b..\n)a", "(?<=.{20})b"], hidden=[], actions=[("step", "ab-\n")] * 9)
def test_a_context_is_all_that_matters_of_the_text_before(
    sources: list[str], hidden: list[str], actions: list[tuple[str, str]]
) -> None:
    """After clean text, a tail of the context equals the tail, and both go on alike.

    How the text is cut makes no difference to it.
    """
    try:
        matcher = stops_of(*sources, hidden=hidden)
    except ValueError:
        reject()
    whole = letterwise = matcher.start
    restored: PatternTail | None = matcher.start
    for action, text in actions:
        whole, hit = taken(matcher, whole, action, text)
        if restored is not None:
            assert taken(matcher, restored, action, text) == (whole, hit)
        if hit is not None:
            return
        for piece in text if action != "close" and text else [text]:
            letterwise, hit = taken(matcher, letterwise, action, piece)
            assert hit is None
        assert letterwise == whole
        assert hash(letterwise) == hash(whole)
        restored = None
        if not matcher.text(whole):
            restored = matcher.tail_after(matcher.context(whole))
            assert restored == whole
            assert hash(restored) == hash(whole)


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("stop", 1),
        ("^stop", 2),
        (r"\bstop\d", 3),
        (r"(?m)^stop", 3),
        (r"(?<=\n)stop", 3),
        (r"(?a)\b(?<![-.] )stop\d", 9),
        ("(?<=x[^a]{30})stop", 200),
        ("(?<=[а-я])stop", 2),
    ],
)
def test_prose_has_few_tails(pattern: str, most: int) -> None:
    """Letters that no pattern can tell apart are one, and a context is as short as it can be."""
    chooser = random.Random(1)
    letters = "".join(map(chr, (*range(32, 127), 10, *range(0x400, 0x480), *range(0x4E00, 0x4F00))))
    matcher = stops_of(pattern, most=9)
    tail, tails = matcher.start, {matcher.start}
    for letter in chooser.choices(letters.replace("s", ""), k=5_000):
        tail, _ = matcher.step(tail, letter)
        tails.add(tail)
    assert len(tails) <= most


def test_a_context_does_not_depend_on_earlier_texts() -> None:
    """Two matchers of which one has read much."""
    first, second = (stops_of(r"(?<=[^\W\d].)x|\by") for _ in range(2))
    first.step(first.start, "жяZ一é 9_\n" * 9)
    for text in ("Жя", "é٣", "q!", "\n\n", "_ "):
        contexts = [each.context(each.step(each.start, text)[0]) for each in (first, second)]
        assert contexts[0] == contexts[1]


def test_lone_surrogates_in_the_text_are_other_letters_in_a_context() -> None:
    for pattern in (r"\bx", r"(?<=[^a])x", "(?<=[\x80-\uffff])x", "(?<=[一-\U0010ffff].)x"):
        matcher = stops_of(pattern)
        tail, _ = matcher.step(matcher.start, "a\ud800\udc00")
        assert matcher.tail_after(matcher.context(tail)) == tail


# --- which letters matter


@given(pattern=NESTED, text=st.text(SIGNS, max_size=6), data=st.data())
def test_text_without_the_letters_that_matter_leaves_a_tail_as_it_is(
    pattern: str, text: str, data: st.DataObject
) -> None:
    try:
        matcher = stops_of(pattern, hidden=["ſ", "-i"])
    except ValueError:
        reject()
    tail, hit = matcher.step(matcher.start, text)
    letters = None if hit or tail.text else matcher.letters(tail, is_open=True)
    if letters is None:
        reject()
    others = [chr(n) for n in range(128) if chr(n) not in letters]
    if "\x80" not in letters:
        others += [sign for sign in SIGNS if not sign.isascii()]
    if others:
        more = data.draw(st.text(others, max_size=5))
        assert matcher.step(tail, more) == (tail, None)


def test_few_paths_and_letters_are_worth_storing() -> None:
    for pattern in ("(?s)a[^!]*!", "(?<=b.{30})c"):  # a long text, and many paths in a long context
        matcher = stops_of(pattern, most=50)
        tail, cacheable = matcher.start, []
        for letter in "ab" * 15:
            tail, _ = matcher.step(tail, letter)
            cacheable.append(matcher.is_cacheable(tail))
        assert cacheable == [True] * cacheable.index(False) + [False] * cacheable[::-1].index(True)
        assert 10 <= cacheable.index(False) <= 18


IDEOGRAPHS = "".join(map(chr, range(0x4E00, 0x4E00 + 3_000)))
MANY_SETS = "".join(f"[^{letter}!]" for letter in IDEOGRAPHS[:100]) + "!"
MANY_KINDS = "(?:" + "|".join(f"{letter}[^{letter}]" for letter in IDEOGRAPHS[:100]) + ")*!"


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
        pytest.param(MANY_SETS, IDEOGRAPHS, marks=pytest.mark.thorough),
        pytest.param(MANY_KINDS, IDEOGRAPHS[:150], marks=pytest.mark.thorough),
        ("(?s).*!", IDEOGRAPHS),
        ("(?<=[一丁].{100})!", IDEOGRAPHS[:4]),
        ("(?:[一丁]|丂七|丄丅)*!", IDEOGRAPHS[:6]),
        (".{0,50}!", IDEOGRAPHS[:9] + "\n"),
    ],
)
def test_num_bytes_of_an_automaton_is_an_upper_bound(pattern: str, letters: str) -> None:
    chooser = random.Random(1)
    read_pattern.cache_clear()
    with traced() as memory:
        found = read_pattern(pattern, 4_000).automaton
        state = found.blank
        for letter in chooser.choices(letters, k=800):
            state, _ = found.step(state, letter)
        taken = memory()[0]
    assert taken <= found.num_bytes + 20_000
    assert taken <= 3_500_000


@pytest.mark.parametrize("most", [1, 20, 200])
def test_threads_share_a_matcher_whose_states_come_and_go(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    patterns = read_patterns([r"(?i)\b(?:a|bc?|c[^a]*)+-|(?<!ab)[b-]{2,}c"], 12)
    chooser = random.Random(most)
    texts = ["".join(chooser.choices("abcABC- éx", k=40)) for _ in range(100)]
    shared: Any = PatternStops(StopStrings(()), patterns)

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
