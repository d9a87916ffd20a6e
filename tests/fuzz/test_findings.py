"""What the targets found, each as a case by hand."""

from __future__ import annotations

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.core.snapshots import sealed
from streamdec.errors import SnapshotError

TOKENIZER = MockTokenizer.from_tokens([b"a", b"b"])


@pytest.mark.parametrize(
    "stream",
    [DecodeStream(TOKENIZER), StopSequenceDecoder(TOKENIZER, StopConditions(stop="ab"))],
    ids=["without stops", "with stops"],
)
def test_a_snapshot_with_more_unknown_tokens_than_tokens_is_rejected(
    stream: DecodeStream | StopSequenceDecoder,
) -> None:
    for token_id in (1, 99, 98):
        stream.step(token_id)
    snapshot = stream.snapshot()
    assert type(stream).restore(TOKENIZER, snapshot).unknown_tokens == 2
    forged = sealed({**snapshot, "unknown_tokens": 4, "check": ""})
    with pytest.raises(SnapshotError, match="3 tokens do not fit the limit or the unknown tokens"):
        type(stream).restore(TOKENIZER, forged)
