"""What a stream records besides its text: the span of each token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.core.shared_tables import table_for
from streamdec.core.spans import Recorder

TOKENIZER = MockTokenizer.from_tokens([b"a", b"\xe4", b"\xbd\xa0"])
TABLE = table_for(TOKENIZER)
START = TABLE.prime(())
MUCH = 100
"""More code points than any stream here has."""


def recorder() -> Recorder:
    return Recorder(TABLE, START)


def indexes(recording: Recorder) -> list[int]:
    return [span.token_index for span in recording.take(MUCH)]


def test_reset_drops_the_records() -> None:
    recording = recorder()
    recording.token(START, 0)
    recording.reset()
    assert indexes(recording) == []


def test_a_fork_records_independently() -> None:
    recording = recorder()
    recording.token(START, 0)
    other = recording.fork(1)
    other.token(START, 0)
    assert indexes(recording) == [0]
    assert indexes(other) == [0, 1]


def test_the_records_survive_json() -> None:
    stream = DecodeStream(TOKENIZER, spans=True)
    stream.step_batch([0, 1])
    dumped = json.loads(json.dumps(stream.snapshot()["spans"]))
    assert Recorder.load(TABLE, START, dumped, 2).dump() == dumped


def test_a_dump_does_not_change_as_the_stream_continues() -> None:
    recording = recorder()
    dumped = recording.dump()
    recording.token(START, 0)
    assert dumped["settled"] == []


@pytest.mark.parametrize("data", [None, {}, [], 1, {"at": []}, {"at": [0, 0, 0, 0]}])
def test_malformed_records_raise(data: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        Recorder.load(TABLE, START, data, 0)
