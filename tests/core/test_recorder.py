"""What a stream notes besides its text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.core.programs import program_for
from streamdec.core.recorder import Recorder

TOKENIZER = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd\xa0"])


def recorder(*, tokens: bool = True, spans: bool = True) -> Recorder:
    program = program_for(TOKENIZER)
    return Recorder(program, program.prime(()), tokens=tokens, spans=spans)


def test_ids_and_places_are_noted_if_asked_for() -> None:
    noting = recorder()
    memory = noting._primed
    noting.token(memory, 0)
    assert noting.token_ids == [0]
    assert noting.tracker is not None
    assert [span.token_index for span in noting.tracker.take()] == [0]
    silent = recorder(tokens=False, spans=False)
    silent.token(memory, 0)
    silent.finish(memory)
    assert (silent.token_ids, silent.tracker) == (None, None)


def test_reset_forgets_the_notes() -> None:
    noting = recorder()
    noting.token(noting._primed, 0)
    noting.reset()
    assert noting.token_ids == []
    assert noting.tracker is not None
    assert noting.tracker.take() == []


def test_a_fork_notes_on_its_own() -> None:
    noting = recorder()
    noting.token(noting._primed, 0)
    other = noting.fork(1)
    other.token(noting._primed, 0)
    assert noting.token_ids == [0]
    assert other.token_ids == [0, 0]
    assert noting.tracker is not None
    assert len(noting.tracker.take()) == 1


def test_the_notes_survive_json() -> None:
    stream = DecodeStream(TOKENIZER, keep_tokens=True, spans=True)
    stream.step_batch([0, 1])
    assert stream._recorder is not None
    dumped = json.loads(json.dumps(stream._recorder.dump()))
    program = program_for(TOKENIZER)
    assert Recorder.load(program, program.prime(()), dumped, 2).dump() == dumped


def test_what_was_dumped_does_not_change_as_the_stream_goes_on() -> None:
    noting = recorder(spans=False)
    dumped = noting.dump()
    noting.token(noting._primed, 0)
    assert dumped["token_ids"] == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        [],
        {"token_ids": [], "spans": 1},
        {"token_ids": ["a"], "spans": None},
        {"token_ids": [-1], "spans": None},
        {"token_ids": 1, "spans": None},
        {"token_ids": [0], "spans": None},
    ],
)
def test_what_are_no_notes_is_refused(data: Any) -> None:
    program = program_for(TOKENIZER)
    with pytest.raises((ValueError, TypeError, KeyError)):
        Recorder.load(program, program.prime(()), data, 0)
