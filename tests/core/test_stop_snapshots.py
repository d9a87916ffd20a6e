"""Snapshots of streams with stops: small, whole, and checked wherever they come from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import SnapshotError
from tests.core.test_snapshots import mutants, nested, places
from tests.support.snapshots import resealed

YOU = "你".encode()
TOKENS = [b"a", b" b", b"\nUs", b"er:", b"<s>", *(YOU[n : n + 1] for n in range(3)), b"</s>"]
SKIPPED, LEAD, END = 4, 5, 8
RAW = MockTokenizer.from_tokens(TOKENS, special_ids=[SKIPPED, END])


class Kind(NamedTuple):
    """A stream under way, and what may come next."""

    conditions: StopConditions
    before: Sequence[int] = ()
    after: Sequence[int] = (0, 2, 3)
    prompt: Sequence[int] = ()
    sections: Any = None

    def stream(self) -> StopSequenceDecoder:
        stream = StopSequenceDecoder(RAW, self.conditions, self.prompt, sections=self.sections)
        stream.step_batch(self.before)
        return stream


USER = StopConditions(stop="\nUser:")
KINDS = {
    "fresh": Kind(USER),
    "jailed": Kind(USER, [0, 2], [3]),
    "jailed over two tokens": Kind(StopConditions(stop=["a b a", "</s>"]), [0, 1], [0, 0]),
    "inside a character": Kind(USER, [0, LEAD], [6, 7, 2, 3]),
    "after a prompt": Kind(USER, [6], [7, 2, 3], [0, LEAD]),
    "a pattern": Kind(StopConditions(stop_regex=r"(?<=a) b[ab]a"), [0, 1], [0, 0]),
    "a tail that is shown": Kind(StopConditions(visible_stop="a b b"), [0, 1], [1]),
    "longer than the jail": Kind(StopConditions(stop="bx", visible_stop="a by"), [0, 1], [0]),
    "a closed gate": Kind(
        StopConditions(stop="a", ignore_stops_between=("<", "\nUser:"), starts_inside=True),
        [0, 2],
        [3, 0],
    ),
    "an open gate": Kind(
        StopConditions(stop="a", ignore_stops_between=("er:", 2), starts_inside=True), [2], [3, 0]
    ),
    "opened inside a character": Kind(
        StopConditions(stop="你", ignore_stops_between=("<", SKIPPED), starts_inside=True),
        [LEAD, SKIPPED],
        [6, 7],
    ),
    "sections": Kind(USER, [3, 0, 2], sections={"r": ("er:", "a b"), "q": (LEAD, SKIPPED)}),
    "near its limit": Kind(StopConditions(max_tokens=4, min_tokens=2), [0, 0, 0], [0]),
    "ended by a string": Kind(USER, [0, 2, 3], []),
    "ended by an id": Kind(StopConditions(stop_token_ids=[1]), [0, 1], []),
    "ended by its limit": Kind(StopConditions(max_tokens=1), [0], []),
}


def seen(stream: StopSequenceDecoder) -> tuple[Any, ...]:
    end = (stream.finished, stream.finish_reason, stream.match)
    pending = stream.held, stream.jailed, stream.pending_text, stream.num_pending_tokens
    return stream.num_tokens, stream.num_characters, pending, end, stream.snapshot()


# --- from outside ---------------------------------------------------------------------------------


def refused(snapshot: Any, tokenizer: Any = RAW) -> str:
    with pytest.raises(SnapshotError) as raised:
        StopSequenceDecoder.restore(tokenizer, snapshot)
    return str(raised.value)


@given(data=st.data(), ids=st.lists(st.integers(0, 9), max_size=8))
@pytest.mark.parametrize("name", KINDS)
def test_a_changed_snapshot_is_rejected_or_is_a_stream_like_any_other(
    name: str, data: st.DataObject, ids: list[int]
) -> None:
    mutant = data.draw(mutants(KINDS[name].stream().snapshot()))
    try:
        stream = StopSequenceDecoder.restore(RAW, mutant)
    except SnapshotError:
        return
    assert json.loads(json.dumps(stream.snapshot())) == stream.snapshot()
    twin = StopSequenceDecoder.restore(RAW, stream.snapshot())
    assert seen(twin) == seen(stream)
    if stream.finished or stream.options["unknown_ids"] == "error":
        return
    assert twin.step_batch(ids) == stream.step_batch(ids)
    assert twin.flush() == stream.flush()
    assert seen(twin) == seen(stream)


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
def test_deep_and_huge_values_restore_or_raise_snapshot_error(name: str) -> None:
    usual = KINDS[name].stream().snapshot()
    for place in range(len([*places(usual)])):
        for value in (nested(100), nested(5000), 10**5000, 2**70, -1, "x" * 10**5, [0] * 10**4):
            snapshot = json.loads(json.dumps(usual))
            holder, key = [*places(snapshot)][place]
            holder[key] = value
            with suppress(SnapshotError):
                stream = StopSequenceDecoder.restore(RAW, resealed(snapshot))
                assert stream.finished or isinstance(stream.step(0).text, str)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("jailed", {"clean": [None, 1, 0, []]}, "expected numbers from 0 to 0"),
    ("jailed", {"clean": [None, 0, 1, []]}, "expected numbers from 0 to 0"),
    ("jailed", {"clean": [None, True, 0, []]}, "expected numbers from 0 to 0"),
    ("jailed", {"clean": [None, 0, 0, ["a"]]}, "only patterns have a context"),
    ("jailed", {"clean": [None, 0, 0, "a"]}, "only patterns have a context"),
    ("jailed", {"clean": [[None, {"hex": "41"}, []], 0, 0, []]}, "no state"),
    ("a pattern", {"clean": [None, 0, 0, ["a", "b", "c"]]}, "context"),
    ("a pattern", {"clean": [None, 0, 0, ["ab"]]}, "context"),
    ("a pattern", {"clean": [None, 0, 0, [1]]}, "a letter or an empty string"),
    ("a closed gate", {"clean": [None, 2, 0, []]}, "expected numbers from 0 to 1"),
    ("a closed gate", {"start": [None, -1, 0, []]}, "expected numbers from 0 to 1"),
    ("jailed", {"since": [2, 3]}, "no stream can have these fields: end"),
    ("jailed", {"since": [2, 2.0]}, "expected numbers from"),
    ("jailed", {"since": [2] * 2_000}, "entries since the clean point"),
    ("jailed", {"counts": [1, 1, 5]}, "expected tokens, code points and bytes"),
    ("jailed", {"counts": [1, 2, 1]}, "expected tokens, code points and bytes"),
    ("jailed", {"counts": [1, 2]}, "expected 3 numbers"),
    ("jailed", {"counts": [1.0, 1, 1]}, "expected numbers from 0 to"),
    ("jailed", {"care": [2, -3]}, "numbers from -3 to 0"),
    ("jailed", {"care": [0, True]}, "numbers from -3 to 0"),
    ("jailed", {"care": [0, -3]}, "no stream can have these fields: care"),
    ("jailed", {"offsets": [1, 3]}, "numbers from 0 to 2"),
    ("jailed", {"offsets": [1.0, 2]}, "numbers from 0 to 2"),
    ("jailed", {"offsets": [2, 1]}, "offsets"),
    ("jailed", {"offsets": [1]}, "expected 2 numbers"),
    ("after a prompt", {"offsets": [-3, 0]}, "numbers from -2 to 1"),
    ("after a prompt", {"offsets": [-2, -1]}, "offsets"),
    ("jailed", {"conditions": {"stop": [""]}}, "empty stop"),
    ("jailed", {"conditions": {"stops": ["a"]}}, "stops"),
    ("jailed", {"conditions": []}, "conditions"),
    ("jailed", {"live": [0]}, "no stream can have these fields: live"),
    ("jailed", {"match": [False, 1, 7, 1, 7, 2, 1]}, "match"),
    ("near its limit", {"counts": [4, 3, 3]}, "4 tokens do not fit the limit"),
    ("near its limit", {"counts": [5, 3, 3]}, "do not fit the limit"),
    ("near its limit", {"counts": [2**40, 3, 3]}, "expected numbers from 0 to"),
    ("near its limit", {"unknown_tokens": 4}, "expected numbers from 0 to 3"),
    ("ended by a string", {"end": "stopped"}, "no stream can have these fields: end"),
    ("ended by a string", {"end": "length"}, "no stream can have these fields: end"),
    ("ended by a string", {"end": None}, "no stream can have these fields: end"),
    ("ended by a string", {"end": ["stop"]}, "no stream can have these fields: end"),
    ("ended by a string", {"since": [2, 3, 0]}, "the stream has ended"),
    ("ended by a string", {"since": [2, 3, -1]}, "the stream has ended"),
    ("ended by an id", {"end": "length"}, "no stream can have these fields: end"),
    ("ended by its limit", {"since": [0, 0]}, "the stream has ended"),
]


@pytest.mark.parametrize(("name", "change", "what"), WRONG)
def test_an_impossible_field_of_a_snapshot_is_named(
    name: str, change: dict[str, Any], what: str
) -> None:
    assert what in refused(resealed(KINDS[name].stream().snapshot(), change))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("jailed", {"counts": [1, 1, 4]}),
        ("jailed", {"since": [2, -1_000]}),
        ("ended by a string", {"counts": [1, 1, 4]}),
        ("near its limit", {"unknown_tokens": 3}),
    ],
)
def test_values_at_the_bounds_of_these_checks_are_accepted(
    name: str, change: dict[str, Any]
) -> None:
    changed = resealed(KINDS[name].stream().snapshot(), change)
    stream = StopSequenceDecoder.restore(RAW, changed)
    more = 1_000 if "since" in change else 0
    assert stream.num_tokens == KINDS[name].stream().num_tokens + more
