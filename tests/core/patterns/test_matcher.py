"""The matcher of patterns: against ``re`` itself, letter by letter and in pieces."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from streamdec.core.patterns.compile import read_patterns
from streamdec.core.patterns.matcher import PatternStops, PatternTail, matcher_of
from tests.test_stop_patterns import ENDLESS, MOST, REPEATS, patterns

MORE = settings(max_examples=4 * settings().max_examples)


def stops_of(
    *sources: str, most: int | None = MOST, hidden: Sequence[str] = (), shown: bool = False
) -> PatternStops:
    found = matcher_of(hidden, (), read_patterns(sources, most), shown=shown)
    assert isinstance(found, PatternStops)
    return found


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
        st.sampled_from(["step", "step", "step", "ignore", "skip", "restart"]),
        st.text("ab-\n é", max_size=5),
    ),
    max_size=10,
)


def taken(matcher: PatternStops, tail: PatternTail, action: str, text: str) -> tuple[Any, Any]:
    if action == "skip":
        return matcher.skip(tail, text), None
    if action == "restart":
        return matcher.restart(tail), None
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
        for piece in text if action != "restart" and text else [text]:
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


@pytest.mark.parametrize(
    ("pattern", "context"),
    [
        ("ab", ("a",)),
        ("ab", ("",)),
        (r"\ba", ("a", "b")),
        ("^a", ("", "a")),
        ("^a", ("", "")),
        ("(?<=^ab)c", ("a",) * 6),
        ("(?<=ab)c", ("a",) * 100_000),
        ("(?<=ab)c", ("ab",)),
        ("(?<=ab)c", ("\ud800",)),
        ("(?<=ab)c", (1,)),
        ("(?<=ab)c", (None, "a")),
        ("(?<=ab)c", (["a"],)),
    ],
)
def test_a_context_that_a_pattern_cannot_have_is_rejected(
    pattern: str, context: tuple[Any, ...]
) -> None:
    with pytest.raises(ValueError, match="context"):
        stops_of(pattern).tail_after(context)


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
    letters = None if hit else matcher.letters(tail, is_open=True)
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
