"""``python -m fuzz.snapshots``: check that any snapshot raises an error or restores a stream.

An input is JSON: a ``snapshot``, and the tokenizer that it is ``of``. ``"*"`` in place of the
tokenizer becomes its fingerprint, so that seeds stay valid if fingerprints change. ``"*"`` in place
of the checksum becomes the right one, so that an edited field reaches the checks behind it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from fuzz.cases import Case, shown, written
from fuzz.edits import json_edit
from fuzz.harness import Target, main
from streamdec import (
    DecodeStream,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TextStopDecoder,
)
from streamdec import Sequence as TokenSequence
from streamdec.core.snapshots import fingerprint, sealed
from streamdec.core.stepping import has_sections
from streamdec.errors import FinishedError, RewriteError, SnapshotError, TokenIdError
from streamdec.protocols import CTC, BPESuffix, Decoder, Metaspace, WordPiece
from tests import reference
from tests.support.wrappers import Bare

YOU = "你".encode()
BYTES = [b"a", b" b", b"\nUs", b"er:", b"<s>", *(YOU[n : n + 1] for n in range(3)), b"</s>", b"."]
PIECES = ["▁a", "b</w>", "##c", "<pad>", "a", "▁", ".", "|", " n't"]
RELEASE = None
AFTER = (0, 5, 6, 7, 2, 3, 99, RELEASE, 4, 1, 5, RELEASE, 6)
"""Ids for a restored stream, and releases: characters in bytes, stops, an unknown and a special
id."""


def _of_pieces(rule: Any) -> MockTokenizer:
    return MockTokenizer.from_tokens([piece.encode() for piece in PIECES], [3], rule)


TOKENIZERS: dict[str, Decoder] = {
    "bytes": MockTokenizer.from_tokens(BYTES, [4, 8]),
    "fallback": MockTokenizer.from_tokens(BYTES, [4, 8], "byte_fallback"),
    "window": Bare(MockTokenizer.from_tokens(BYTES, [4, 8])),
    "metaspace": _of_pieces(Metaspace()),
    "wordpiece": _of_pieces(WordPiece()),
    "suffix": _of_pieces(BPESuffix()),
    "ctc": _of_pieces(CTC()),
}
Stream: TypeAlias = DecodeStream | StopSequenceDecoder | TokenSequence | TextStopDecoder
MACHINES: tuple[Callable[[Decoder, Any], Stream], ...] = (
    DecodeStream.restore,
    StopSequenceDecoder.restore,
    TokenSequence.restore,
    lambda _, snapshot: TextStopDecoder.restore(snapshot),
)


def law(data: bytes) -> None:
    case = Case(data)
    tokenizer = TOKENIZERS[case.choice("of", [*TOKENIZERS])]
    snapshot = _filled(case.fields.get("snapshot"), fingerprint(tokenizer))
    for restore in MACHINES:
        try:
            stream = restore(tokenizer, snapshot)
        except SnapshotError:
            continue
        _is_like_any_other(stream, restore, tokenizer)


def _filled(value: Any, own: str) -> Any:
    if isinstance(value, list):
        return [_filled(each, own) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {key: _filled(each, own) for key, each in value.items()}
    if fields.get("tokenizer") == "*":
        fields["tokenizer"] = own
    return sealed({**fields, "check": ""}) if fields.get("check") == "*" else fields


def _is_like_any_other(
    stream: Stream, restore: Callable[[Decoder, Any], Stream], tokenizer: Decoder
) -> None:
    """Check that its own snapshots give the same stream, to the end."""
    if isinstance(stream, (DecodeStream, StopSequenceDecoder)):
        assert 0 <= stream.unknown_tokens <= stream.num_tokens
        if tokenizer is TOKENIZERS["bytes"]:
            assert reference.unfinished(stream.held) == stream.held
        read = stream.num_prompt_tokens + stream.num_tokens
        assert 0 <= stream.prefix_offset <= stream.read_offset <= read
        assert stream.num_pending_tokens <= read
        _jails_a_beginning(stream)
    snapshot = stream.snapshot()
    assert json.loads(json.dumps(snapshot)) == snapshot
    twin = restore(tokenizer, snapshot)
    assert twin.snapshot() == snapshot
    for token_id in AFTER:
        assert _step(twin, token_id) == _step(stream, token_id)
        snapshot = stream.snapshot()
        assert twin.snapshot() == snapshot
        twin = restore(tokenizer, snapshot)
    assert _end(twin) == _end(stream)
    assert twin.snapshot() == stream.snapshot()


def _jails_a_beginning(decoder: DecodeStream | StopSequenceDecoder) -> None:
    """Check that jailed text may become a hidden stop, and no other text is jailed."""
    conditions, jailed = decoder.conditions, decoder.jailed
    if jailed and not (conditions.stop_regex or has_sections(decoder)):
        assert any(stop != jailed and stop.startswith(jailed) for stop in conditions.stop)


PROMISED = (FinishedError, RewriteError, TokenIdError)


def _step(stream: Stream, token_id: int | None) -> object:
    try:
        if token_id is RELEASE:
            return None if isinstance(stream, TextStopDecoder) else stream.release()
        if isinstance(stream, TextStopDecoder):
            return stream.step(BYTES[token_id % len(BYTES)].decode(errors="ignore"))
        if isinstance(stream, TokenSequence):
            return stream.append_token(token_id)
        return stream.step(token_id)
    except PROMISED as error:
        return type(error)


def _end(stream: Stream) -> object:
    try:
        return stream.text if isinstance(stream, TokenSequence) else stream.flush()
    except PROMISED as error:
        return type(error)


# --- seeds ----------------------------------------------------------------------------------------

CONDITIONS: Mapping[str, dict[str, Any]] = {
    "stop": {"stop": "\nUser:"},
    "visible": {"stop": " b\nUsx", "visible_stop": "a b\nUser:"},
    "gate": {"stop": "a", "ignore_stops_between": [["er:", 2]], "starts_inside": True},
    "limits": {"min_tokens": 2, "max_tokens": 5},
    "ended": {"stop_token_ids": [2]},
    "regex": {"stop_regex": "a b[ab]?x", "max_match_length": 20},
}


def seeds() -> dict[str, bytes]:
    made = {}
    for of, tokenizer in TOKENIZERS.items():
        stream = DecodeStream(tokenizer, [0, 5], spans=of == "bytes")
        stream.feed([6, 99])
        made[f"stream-{of}"] = of, stream.snapshot()
    for name, given in CONDITIONS.items():
        decoder = StopSequenceDecoder(TOKENIZERS["bytes"], StopConditions(**given))
        decoder.feed([0, 1, 2])
        made[f"stops-{name}"] = "bytes", decoder.snapshot()
    named: dict[str, tuple[str | int, str | int]] = {"a": ("<s>", 0), "b": ("er:", "\nUs")}
    conditions = StopConditions(stop="a.", ignore_stops_between=[("er:", 2)], starts_inside=False)
    sectioned = StopSequenceDecoder(TOKENIZERS["bytes"], conditions, sections=named)
    sectioned.feed([3, 5, 4])
    made["sections"] = "bytes", sectioned.snapshot()
    sectioned = StopSequenceDecoder(TOKENIZERS["suffix"], sections={"a": [(3, 0)]}, spans=True)
    sectioned.feed([1, 3])
    sectioned.release()
    sectioned.feed([3, 1, 0])
    made["sections-suffix"] = "suffix", sectioned.snapshot()
    text = TextStopDecoder(StopConditions(stop="\nUser:", stop_regex="a b[ab]?x"))
    text.step("a b\nUs")
    made["text"] = "bytes", text.snapshot()
    windowed = StopSequenceDecoder(TOKENIZERS["window"], StopConditions(stop="\nUser:"))
    windowed.feed([0, 2])
    made["stops-window"] = "window", windowed.snapshot()
    made["sequence"] = "bytes", TokenSequence(TOKENIZERS["bytes"], [0, 5, 6, 4]).snapshot()
    return {f"{name}.json": _seed(of, snapshot) for name, (of, snapshot) in made.items()}


def _seed(of: str, snapshot: Any) -> bytes:
    return written(of=of, snapshot=_unfilled(json.loads(json.dumps(snapshot))))


def _unfilled(value: Any) -> Any:
    if isinstance(value, list):
        return [_unfilled(each) for each in value]
    if not isinstance(value, dict):
        return value
    own = {"tokenizer": "*", "check": "*"}
    return {key: own.get(key) or _unfilled(each) for key, each in value.items()}


FIELDS = ["num_prompt_tokens", "unknown_tokens", "start", "clean", "care", "counts", "since", "end"]
FIELDS += ["match", "offsets", "spans", "options", "sections", "conditions", "token_ids", "seen"]
WORDS = [*TOKENIZERS, *FIELDS, *CONDITIONS.values(), "decode_stream", "*", {"hex": "e4"}]
TARGET = Target("snapshots", law, seeds, json_edit([*WORDS, "\nUs", [1, 1], [True, "", 0]]), shown)

if __name__ == "__main__":
    sys.exit(main(TARGET))
