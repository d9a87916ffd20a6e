"""Other systems' bugs, one row each, fed in every way.

They are the bug cases of the conformance kit, which has all rows of the folder beside the
repository. Bytes are in hex there, one entry a token.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from streamdec import Chunk, FinishReason, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.testing import BugCase, bug_cases

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "bug-cases" / "cases.jsonl"


@dataclass(frozen=True)
class Case:
    """A row: the tokens, and the expected result."""

    name: str
    tokens: list[bytes]
    text: str
    finish: FinishReason
    conditions: dict[str, Any]
    skipped: list[int] = field(default_factory=list)
    prompt: list[bytes] = field(default_factory=list)
    stop_reason: str | None = None

    @property
    def ids(self) -> range:
        return range(len(self.tokens))

    def tokenizer(self) -> MockTokenizer:
        return MockTokenizer.from_tokens([*self.tokens, *self.prompt], self.skipped)

    def decoder(self, tokenizer: MockTokenizer) -> StopSequenceDecoder:
        prompt = [len(self.tokens) + place for place in range(len(self.prompt))]
        return StopSequenceDecoder(tokenizer, StopConditions(**self.conditions), prompt)


def _ours(case: BugCase) -> Case:
    name = "visible_stop" if case.include_stop_str_in_output else "stop"
    return Case(
        name=case.id,
        tokens=[*case.tokens],
        text=case.expected_text,
        finish=case.expected_finish,
        conditions={name: case.stop, "min_tokens": case.min_tokens},
        skipped=[*case.skipped],
        prompt=[*case.prompt],
        stop_reason=case.expected_stop_reason,
    )


def _shared(row: dict[str, Any]) -> Case:
    name = "visible_stop" if row["stop_visible"] else "stop"
    said = row["note"].rpartition("[matched=")[2].removesuffix("]")
    return Case(
        name=row["id"],
        tokens=_bytes(row["token_bytes"]),
        text=row["expected_text"],
        finish=row["expected_finish"],
        conditions={name: tuple(row["stop"])},
        skipped=row.get("skip", []),
        stop_reason=json.loads(said) if row["expected_finish"] == "stop" else None,
    )


def _bytes(tokens: Sequence[str]) -> list[bytes]:
    return [bytes.fromhex(token) for token in tokens]


def _shared_rows() -> Iterator[Case]:
    if SHARED.exists():
        yield from (_shared(json.loads(line)) for line in SHARED.read_text("utf-8").splitlines())


ROWS = [*map(_ours, bug_cases())]


def _without_empty_stops(case: Case) -> Case:
    conditions = {**case.conditions}
    for name in conditions.keys() & {"stop", "visible_stop"}:
        conditions[name] = tuple(stop for stop in conditions[name] if stop)
    return Case(**{**vars(case), "conditions": conditions})


@pytest.fixture(params=ROWS, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Case:
    """The row; an empty stop is an error, and then the row is tested without it."""
    row: Case = request.param
    usable = _without_empty_stops(row)
    if usable != row:
        with pytest.raises(ValueError, match="empty"):
            StopConditions(**row.conditions)
    return usable


def check(case: Case, decoder: StopSequenceDecoder, text: str) -> None:
    """Ends the stream, and compares all of it with the row."""
    assert decoder.finished == (case.finish == "stop")
    last = decoder.flush(case.finish)
    assert text + last.text == case.text
    assert last.finish_reason == decoder.finish_reason == case.finish
    assert (decoder.match.stop if decoder.match else None) == case.stop_reason
    assert (decoder.held, decoder.jailed) == (b"", "")


def fed(decoder: StopSequenceDecoder, groups: Sequence[Sequence[int]]) -> str:
    """The text of all groups, each a call; none after the finish."""
    text = ""
    for group in groups:
        if decoder.finished:
            break
        chunk = decoder.feed(group)
        assert chunk.unread_tokens <= len(group)
        text += chunk.text
    return text


def test_one_by_one_all_at_once_and_in_random_groups(case: Case) -> None:
    tokenizer, chance = case.tokenizer(), random.Random(case.name)
    decoder = case.decoder(tokenizer)
    text = ""
    for token_id in case.ids:
        if not decoder.finished:
            chunk: Chunk = decoder.step(token_id)
            text += chunk.text
            assert chunk.finish_reason == decoder.finish_reason
    check(case, decoder, text)
    decoder = case.decoder(tokenizer)
    chunk = decoder.feed(case.ids)
    assert chunk.unread_tokens == len(case.ids) - decoder.num_tokens
    check(case, decoder, chunk.text)
    for _ in range(10):
        cuts = sorted(chance.sample(range(len(case.ids) + 1), chance.randint(0, len(case.ids))))
        bounds = [0, *cuts, len(case.ids)]
        groups = [case.ids[start:end] for start, end in itertools.pairwise(bounds)]
        decoder = case.decoder(tokenizer)
        check(case, decoder, fed(decoder, groups))


def test_a_snapshot_between_any_two_tokens(case: Case) -> None:
    tokenizer = case.tokenizer()
    for place in range(len(case.ids) + 1):
        decoder = case.decoder(tokenizer)
        text = fed(decoder, [case.ids[:place]])
        snapshot = json.loads(json.dumps(decoder.snapshot()))
        other = StopSequenceDecoder.restore(case.tokenizer(), snapshot)
        check(case, other, text + fed(other, [case.ids[place:]]))


def test_the_stop_cases_have_rows() -> None:
    """Each row of the shared folder is among ours, and says the same."""
    ours = {case.name: case for case in ROWS}
    assert len(ours) >= 81
    for case in _shared_rows():
        found = ours[case.name]
        assert replace(found, conditions={}, prompt=[]) == replace(case, conditions={})
        for name, stop in case.conditions.items():
            assert found.conditions[name] == stop
