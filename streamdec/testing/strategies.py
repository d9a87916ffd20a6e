"""Hypothesis strategies for the laws: token ids, running text, cuts and stops."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from hypothesis import strategies as st

from streamdec.testing.subjects import Subject

# Strategies are kept, because hypothesis examines each new one, which takes longer than a draw.
_kept = lru_cache(maxsize=256)


@_kept
def token_ids(
    subject: Subject, *, known: bool = False, special: bool = True, max_size: int = 40
) -> st.SearchStrategy[list[int]]:
    """Generate about ``max_size`` ids of ``subject`` at most, of every kind.

    With ``known``, all ids have a token. Without ``special``, none may be skipped.
    """
    kinds = [subject.usual, subject.usual, subject.partial]
    if special:
        kinds.append(subject.special)
    else:
        kinds = [[i for i in kind if not subject.tokenizer.is_skipped(i)] for kind in kinds]
    if not known:
        kinds.append(subject.unknown or subject.usual)
    one = st.one_of([st.sampled_from(kind) for kind in kinds if kind])
    runs = st.tuples(one, st.integers(2, 12)).map(lambda run: [run[0]] * run[1])
    return st.one_of(
        st.lists(one, max_size=max_size),
        st.lists(st.sampled_from(kinds[2] or kinds[0]), max_size=max_size),
        _joined(st.one_of(one.map(lambda i: [i]), runs), max_size // 4),
    )


@_kept
def running_text(
    subject: Subject, *, skip_special_tokens: bool, silent: bool = True, max_size: int = 20
) -> st.SearchStrategy[list[int]]:
    """Generate ids of ``subject`` like a model's, in at most ``max_size`` parts.

    The parts are words, characters in bytes and, with ``silent``, runs without text: of unknown ids
    and, with ``skip_special_tokens``, of special ids.
    """
    word = st.sampled_from(subject.ordinary).map(lambda i: [i])
    skipped = set(subject.skipped if skip_special_tokens else ())
    unseen_ids = [*subject.unknown, *sorted(skipped)]
    byte_ids = {byte: i for byte, i in subject.byte_ids.items() if i not in skipped}
    unseen = st.tuples(st.sampled_from(unseen_ids), st.integers(1, 80)).map(
        lambda run: [run[0]] * run[1]
    )
    spelled = [
        [byte_ids[byte] for byte in char.encode()]
        for char in "aé你😀\u0301\ufeff\u2028"
        if byte_ids.keys() >= set(char.encode())
    ]
    parts = [word, word, word, *([st.sampled_from(spelled)] * 2 if spelled else ())]
    if silent:
        parts.append(unseen)
    return _joined(st.sampled_from(parts).flatmap(lambda part: part), max_size)


def _joined(parts: st.SearchStrategy[list[int]], max_size: int) -> st.SearchStrategy[list[int]]:
    """Generate at most ``max_size`` parts, joined into one list."""
    return st.lists(parts, max_size=max_size).map(lambda found: [i for part in found for i in part])


def cuts(token_ids: Sequence[int]) -> st.SearchStrategy[list[int]]:
    """Generate at most eight ascending places to divide ``token_ids`` into calls."""
    return _cuts(len(token_ids))


@_kept
def _cuts(length: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, length), max_size=8).map(sorted)


def divided(token_ids: Sequence[int]) -> st.SearchStrategy[list[list[int]]]:
    """Generate ``token_ids`` in groups that are not empty, one for each call."""
    bounds = cuts(token_ids).map(lambda places: sorted({0, *places, len(token_ids)}))
    return bounds.map(lambda found: [list(token_ids[i:j]) for i, j in itertools.pairwise(found)])


def interspersed(
    token_ids: Sequence[int], others: Sequence[int], places: Sequence[int]
) -> st.SearchStrategy[list[int]]:
    """Generate ``token_ids`` with runs of ``others`` at one or more of ``places``."""
    run = st.tuples(st.sampled_from(others), st.sampled_from([1, 1, 2, 3, 12]))
    runs = st.lists(st.tuples(st.sampled_from(places), run), min_size=1, max_size=4)
    return runs.map(lambda found: _with_runs(token_ids, found))


def _with_runs(token_ids: Sequence[int], runs: Sequence[tuple[int, tuple[int, int]]]) -> list[int]:
    result = list(token_ids)
    for place, (token_id, length) in sorted(runs, reverse=True):
        result[place:place] = [token_id] * length
    return result


def stops(text: str, *, missing: bool = True) -> st.SearchStrategy[str]:
    """Generate stop strings that are parts of ``text``, which is not empty.

    With ``missing`` some have another letter at the beginning, at the end, or in place of the
    second half.
    """
    start = st.integers(0, len(text) - 1)
    changes = _CHANGES if missing else _CHANGES[:1]
    # One mapped strategy, because a new one for each choice would cost milliseconds.
    drawn = st.tuples(start, _SIZES, st.sampled_from(changes), start)
    return drawn.map(lambda choice: _stop(text, *choice))


_SIZES = st.sampled_from([1, 2, 3, 4, 2, 3, 4, 6, 9, 40])
_CHANGES = ("none", "none", "longer", "earlier", "other")


def _stop(text: str, start: int, size: int, change: str, letter_at: int) -> str:
    part, letter = text[max(min(start, len(text) - size), 0) :][:size], text[letter_at]
    if change == "longer":
        return part + letter
    if change == "earlier":
        return letter + part
    return part[: len(part) // 2] + letter if change == "other" else part
