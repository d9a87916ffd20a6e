"""One committed snapshot of each kind, and the tokenizers they belong to.

``data/old_snapshots.jsonl`` is only added to: a line that was released must restore in every later
release. After a new kind is added to KINDS, ``python -m tests.decoders.old_snapshots`` adds its
line and leaves the others as they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from streamdec import DecodeStream, MockTokenizer
from streamdec import Sequence as TokenSequence
from streamdec.protocols import (
    CTC,
    BPESuffix,
    ByteFallback,
    Decoder,
    DecodingRule,
    Metaspace,
    TextRules,
)

FILE = Path(__file__).parent / "data" / "old_snapshots.jsonl"

BYTES = (b"a", b" b", b"\xe4", b"\xbd", b"\xa0", b"<s>", b" ", b".")


class Windowed:
    """All that the windowed route needs."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        known = [i for i in token_ids if i < len(BYTES) and not (skip_special_tokens and i == 5)]
        return b"".join(BYTES[i] for i in known).decode("utf-8", "replace")


def pieces(rule: DecodingRule | TextRules, *texts: str) -> MockTokenizer:
    return MockTokenizer.from_tokens([text.encode() for text in texts], (), rule)


@dataclass(frozen=True)
class Kind:
    """A stream to take a snapshot of, and its expected text afterwards."""

    tokenizer: Decoder
    before: tuple[int, ...]
    after: tuple[int, ...]
    prompt: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    flushed: bool = False
    released: bool = False

    def stream(self) -> DecodeStream:
        stream = DecodeStream(self.tokenizer, self.prompt, **self.options)
        stream.step_batch(self.before)
        if self.released:
            stream.release()
        if self.flushed:
            stream.flush()
        return stream


RAW = MockTokenizer.from_tokens(BYTES, special_ids=[5])
FALLBACK = MockTokenizer.from_tokens(BYTES[:5], (), "byte_fallback")
MARKS = ("▁a", "▁b", "<0xE4>", "<0xBD>", "<0xA0>")

KINDS: dict[str, Kind] = {
    "at rest": Kind(RAW, (0, 1), (2, 3, 4)),
    "fresh": Kind(RAW, (), (0, 1)),
    "inside a character": Kind(RAW, (0, 2, 5, 99, 3), (5, 4, 0)),
    "after a prompt": Kind(RAW, (), (4, 0), prompt=(0,) * 9 + (2, 3)),
    "finished": Kind(RAW, (0, 2), (), flushed=True),
    "other options": Kind(
        RAW, (0, 5, 99), (5, 99), options={"skip_special_tokens": False, "unknown_ids": "replace"}
    ),
    "clean-up": Kind(RAW, (0, 6), (7, 0), options={"clean_up_tokenization_spaces": True}),
    "noting": Kind(RAW, (0, 2, 5), (3, 4, 0), options={"spans": True}),
    "first token": Kind(pieces(Metaspace(), "▁a", "▁b"), (), (0, 1)),
    "later token": Kind(pieces(Metaspace(), "▁a", "▁b"), (0,), (0, 1)),
    "word suffix": Kind(pieces(BPESuffix(), "a</w>", "b"), (1, 0), (1, 0)),
    "repetition": Kind(pieces(CTC(), "a", "<pad>", "|"), (0, 2, 0), (0, 1, 0)),
    "exact run": Kind(FALLBACK, (0, 2, 3), (4, 2, 0), options={"byte_fallback": "exact"}),
    "broken run": Kind(FALLBACK, (0, 3), (3, 0), options={"byte_fallback": "exact"}),
    "eager run": Kind(FALLBACK, (0, 2, 3), (4, 2, 0)),
    "spaced run": Kind(pieces(ByteFallback(Metaspace()), *MARKS), (0, 2, 3), (4, 1)),
    "exact spaced run": Kind(
        pieces(ByteFallback(Metaspace()), *MARKS),
        (2, 3),
        (4, 1),
        options={"byte_fallback": "exact"},
    ),
    "leading strip": Kind(
        pieces(TextRules(ByteFallback(), ("é", 2)), "é", "<0xC3>", "<0xA9>", "a"), (0, 1), (2, 0, 3)
    ),
    "run of a prompt": Kind(
        FALLBACK, (3,), (4, 0), prompt=(0, 2, 3, 4, 2), options={"byte_fallback": "exact"}
    ),
    "released": Kind(RAW, (0, 2), (3, 4, 0), released=True),
    "window": Kind(Windowed(), (0, 1, 2), (3, 4, 0), prompt=(0, 1)),
}


def line_of(name: str) -> dict[str, Any]:
    """What is written down of a kind: its snapshot, and what the stream then said."""
    stream = KINDS[name].stream()
    snapshot = stream.snapshot()
    texts = [] if stream.finished else stream.step_batch(KINDS[name].after)
    return {"kind": name, "snapshot": snapshot, "texts": texts, "flush": stream.flush()}


def sequence_line() -> dict[str, Any]:
    sequence = TokenSequence(RAW, (0, 2, 5), skip_special_tokens=True)
    snapshot = sequence.snapshot()
    texts = [sequence.append_token(token_id) for token_id in (3, 4)]
    return {"kind": "sequence", "snapshot": snapshot, "texts": texts, "flush": ""}


def read() -> dict[str, dict[str, Any]]:
    lines = map(json.loads, FILE.read_text("utf-8").splitlines() if FILE.exists() else [])
    return {line["kind"]: line for line in lines}


def add_missing() -> None:
    written = read()
    lines = [line_of(name) for name in KINDS if name not in written]
    lines += [] if "sequence" in written else [sequence_line()]
    with FILE.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


if __name__ == "__main__":
    add_missing()
