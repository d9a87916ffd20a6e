r"""Stop regexes, against the oracle, for which ``re`` itself is asked.

``Source`` tries out whether a text may become a match. This is exact for patterns that look back
only at their beginning. For other patterns only the end of the stream is compared, and that no part
of a stop is output.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from streamdec import (
    MockTokenizer,
    StopSequenceDecoder,
)
from streamdec.core.patterns.compile import read_patterns
from streamdec.protocols import BPESuffix
from tests import stop_laws as laws
from tests import strategies
from tests.stop_model import Conditions, Model, Situation

# --- patterns of which the oracle asks ``re`` -----------------------------------------------------

MORE = [
    "".join(letters) for size in range(1, 6) for letters in itertools.product("ab-", repeat=size)
]
"""What may follow a text: enough to complete the patterns that are drawn."""


class Source(NamedTuple):
    """A Regex of the oracle. ``^`` holds at each of the places where the gate opened."""

    source: str

    def matches(self, text: str, start: int, opened: tuple[int, ...]) -> bool:
        return _matches(self.source, text, start, opened)

    def may_match(self, text: str, start: int, opened: tuple[int, ...], longest: float) -> bool:
        return may_become(self.source, text, start, opened, longest)


def _matches(pattern: str, text: str, start: int, opened: tuple[int, ...]) -> bool:
    if opened != (0,):
        places = [rf"(?<=\A{re.escape(text[:place])})" for place in opened] or ["(?!)"]
        there = f"(?:{'|'.join(places)})"
        pattern = pattern.replace("(?m:^)", rf"(?:{there}|(?<=\n))")
        pattern = re.sub(r"(?<!\[)\^", lambda _: there, pattern)
    return re.compile(pattern).fullmatch(text, start) is not None


@lru_cache(maxsize=100_000)
def may_become(
    pattern: str,
    text: str,
    start: int,
    opened: tuple[int, ...] = (0,),
    longest: float = float("inf"),
) -> bool:
    """Whether ``text`` from ``start`` on, and something more, is a match: tried out."""
    size = len(text) - start
    return any(
        size + len(more) <= longest and _matches(pattern, text + more, start, opened)
        for more in MORE
    )


# --- the cases of the laws ------------------------------------------------------------------------

TOKENS = (b"<s>", b"a", b"b", b"-", b"ab", b"ba", b"aab", b"b-a", b"-b", b"bb-", b"\n", b"A", b"")
CUT = ("é".encode(), b"a\xc3", b"\xa9b", b"\xff", b"-\xe4", b"\xbd\xa0a")
TABLES = (
    Situation((*TOKENS, *CUT), (0,)),
    Situation((*TOKENS, b"\xc3", b"\xa9", b"\xff", b"\xe4"), (0,), "byte_fallback"),
)
LEADING = (
    r"\b", r"\B", "^", "(?m:^)", "(?<=a)", "(?<!b)", "(?<=-a)", "(?<!(?<=a)b)", "(?<=^a)",
    r"(?<=\ba)", "(?<=(?<=(?m:^)a)b)", "(?<!^a)", "(?<!^)",
)  # fmt: skip
"""What a pattern may look back at."""
MOST_LETTERS = 5
"""The letters with which ``Source`` tries to complete a match."""

MOST = 6
"""The greatest ``max_match_length`` that is drawn."""


class Part(NamedTuple):
    """A piece of a pattern."""

    text: str
    letters: int = 1
    """The most letters that complete a match, from any place in it."""


def _joined(parts: Sequence[Part]) -> Part:
    return Part("".join(part.text for part in parts), sum(part.letters for part in parts))


def _either(parts: Sequence[Part]) -> Part:
    return Part(f"(?:{'|'.join(part.text for part in parts)})", max(part.letters for part in parts))


def _repeated(part: Part, how: str) -> Part:
    least = int(how[1]) if how[0] == "{" else 1
    return Part(f"(?:{part.text}){how}", part.letters * max(least, 1))


LETTER = st.sampled_from(["a", "b", "-", "a", "b", ".", "[ab]", "[^a]", r"\w", "[-b]"]).map(Part)
REPEATS = ["?", "{2}", "{0,2}", "{1,2}?", "{1,3}", "??"]
ENDLESS = ["*", "+", "*?", "{2,}"]


def parts(repeats: Sequence[str]) -> st.SearchStrategy[Part]:
    """Pieces, which may match nothing."""
    return st.recursive(
        LETTER,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(_joined),
            st.lists(inner, min_size=2, max_size=3).map(_either),
            st.builds(_repeated, inner, st.sampled_from(list(repeats))),
            st.builds(lambda part: part._replace(text=f"(?i:{part.text})"), inner),
        ),
        max_leaves=5,
    )


@st.composite
def patterns(draw: st.DrawFn, *, leading: Sequence[str] = LEADING, endless: bool = True) -> str:
    """Patterns without dead ends; each matches at least one letter."""
    part = draw(parts([*REPEATS, *ENDLESS] if endless else REPEATS))
    pattern = _joined(draw(st.permutations([part, draw(LETTER)])))
    if pattern.letters > MOST_LETTERS:
        reject()
    before = draw(st.sampled_from(["", "", *leading]))
    return before + pattern.text


def refusal(conditions: Conditions) -> str:
    """Why the patterns are rejected, or nothing."""
    try:
        sources = [each.source for each in conditions.stop_regex]
        read_patterns(sources, conditions.max_match_length)
    except ValueError as error:
        return str(error)
    return ""


@st.composite
def situations(draw: st.DrawFn, one: st.SearchStrategy[str] | None = None) -> Situation:
    """Regexes, alone and with all else that may end a stream."""
    table = draw(st.sampled_from(TABLES))
    ids = draw(st.lists(st.integers(0, len(table.tokens) - 1), max_size=9).map(tuple))
    one = patterns() if one is None else one
    given_: dict[str, Any] = {
        "stop_regex": draw(st.lists(one.map(Source), min_size=1, max_size=2).map(tuple)),
        "max_match_length": draw(st.none() | st.integers(1, 6)),
        "min_tokens": draw(st.sampled_from([0, 0, 0, 1, 3])),
        "include_stop_str_in_output": draw(st.sampled_from([False, False, True])),
    }
    text = st.text("ab-", min_size=1, max_size=4)
    texts = st.lists(text, max_size=2).map(tuple)
    if draw(st.booleans()):
        given_ |= {"stop": draw(texts), "visible_stop": draw(texts)}
    if draw(st.integers(0, 2)) == 0:
        marker = text | st.integers(0, len(table.tokens))
        pairs = draw(st.lists(st.tuples(marker, marker), min_size=1, max_size=2))
        distinct = {first: last for first, last in pairs if first != last}
        given_["ignore_stops_between"] = tuple(distinct.items())
        given_["starts_inside"] = draw(st.none() | st.booleans()) if distinct else None
    if draw(st.integers(0, 3)) == 0:
        given_["stop_token_ids"] = (draw(st.integers(0, 5)),)
    if draw(st.integers(0, 2)) == 0:
        given_["max_tokens"] = draw(st.integers(max(given_["min_tokens"], 1), len(ids) + 3))
    conditions = Conditions(**given_)
    why = refusal(conditions)
    if why:  # a match of any length, or of more than max_match_length
        assert "max_match_length" in why
        reject()
    return replace(
        table,
        conditions=conditions,
        prompt=draw(st.lists(st.integers(0, len(table.tokens) - 1), max_size=2).map(tuple)),
        operations=ids,
        skip_special_tokens=draw(st.booleans()),
    )


ANY = strategies.situations() | situations()
"""With patterns, and without: for the laws that do not ask the oracle."""


# --- the laws -------------------------------------------------------------------------------------


@settings(max_examples=4 * settings().max_examples)
@given(situation=situations())
def test_as_the_oracle(situation: Situation) -> None:
    """After each token, and at each end that could come there; with cold caches and with warm."""
    laws.as_the_oracle(situation)


def dead_ends() -> st.SearchStrategy[str]:
    """Patterns that look back in their middle."""
    short = st.sampled_from(["a", "b", "-", "ab", "[ab]", ".", "[^a]{1,2}", "(?:b|-a)", "a?", "b*"])
    look = st.sampled_from(LEADING)
    return st.tuples(short, look, short, LETTER.map(lambda part: part.text)).map("".join)


@given(situation=situations(dead_ends()))
def test_impossible_matches_may_be_withheld_and_nothing_is_output_too_early(
    situation: Situation,
) -> None:
    setup, model = laws.setup_of(situation), Model(situation)
    for count, found in enumerate(laws.one_by_one(setup, situation.ids)):
        wanted = model.after(count)
        assert len(found.text) <= len(wanted.text)
        assert found.text + found.jailed == wanted.text + wanted.jailed
        assert found.num_pending_tokens >= wanted.num_pending_tokens
        differ: dict[str, Any] = {"text": "", "jailed": "", "num_pending_tokens": 0}
        assert found._replace(**differ) == wanted._replace(**differ)


@pytest.mark.parametrize(
    ("pattern", "ids", "text"),
    [
        ("(?<=^x)a", [2, 0, 1, 0, 2, 1, 3], "xx"),  # the gate opened, and closed at once
        ("(?<=^yx)a", [2, 0, 1, 4, 0, 2, 1, 3], "xyx"),
        ("(?<=^x)a", [0, 2, 1, 3], "x"),  # the text began, and the gate closed at once
        ("(?<=^x)a", [2, 0, 2, 1, 3], "xxa"),  # it closed after a letter
        ("^a", [0, 1, 0, 1, 3], ""),
        ("^a", [0, 2, 1, 3], "x"),
    ],
)
def test_each_place_where_the_gate_opened_is_a_beginning(
    pattern: str, ids: list[int], text: str
) -> None:
    tokenizer = MockTokenizer.from_tokens([b"<o>", b"<c>", b"x", b"a", b"y"], special_ids=[0, 1])
    decoder = StopSequenceDecoder(tokenizer, stop_regex=pattern, ignore_stops_between=(0, 1))
    chunks = decoder.step_batch(ids)
    assert "".join(chunk.text for chunk in chunks) == text
    assert decoder.finished == (text[-1:] != "a")


def test_a_release_is_no_beginning() -> None:
    """The space that a token before it owes is in no stop, and the text does not begin after it."""
    tokenizer = MockTokenizer.from_tokens([b"x</w>", b"a</w>"], (), BPESuffix("</w>"))
    for pattern in ("^a", "(?<=^)a", "(?<!x )a"):
        decoder = StopSequenceDecoder(tokenizer, stop_regex=pattern)
        chunks = [decoder.step(0), decoder.release(), decoder.step(1), decoder.flush()]
        assert "".join(chunk.text for chunk in chunks) == "x a"
        assert decoder.match is None
