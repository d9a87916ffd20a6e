"""JSON lines from outside: read as they were written, refused with a reason, and played."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import SnapshotError
from streamdec.trace import Trace, Tracer, replay
from streamdec.trace.html import html_page

TOKENS = [b"Hi", b"\xe6\x97", b"\xa5", b"\nUs", b"er:", b"<end>"]


def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens(TOKENS, [5])


def rows(ids: tuple[int, ...] = (0, 1, 2, 5, 3, 4), *, flush: bool = False) -> list[dict[str, Any]]:
    """The lines of a trace, as objects; the stop string is complete at the last token."""
    tracer = Tracer(StopSequenceDecoder(tokenizer(), StopConditions("\nUser:")))
    tracer.step_batch(ids)
    if flush:
        tracer.flush("length")
    return [json.loads(line) for line in tracer.trace().lines()]


def read(lines: list[dict[str, Any]]) -> Trace:
    return Trace.from_lines(map(json.dumps, lines))


# --- each field is compared -----------------------------------------------------------------------

TOKEN_CHANGES: dict[str, tuple[int, Any]] = {
    "kind": (3, "special"),
    "data": (1, "e698"),
    "position": (2, 7),
    "text": (0, "Ho"),
    "held": (1, "e698"),
    "jailed": (4, "\nU"),
    "may_become": (4, []),
    "finish_reason": (5, "length"),
    "stop_reason": (5, "\nUser"),
}


@pytest.mark.parametrize("name", TOKEN_CHANGES)
def test_what_a_token_did_otherwise_is_named(name: str) -> None:
    index, changed = TOKEN_CHANGES[name]
    lines = rows()
    before = lines[index + 1].get(name)
    assert before != changed
    lines[index + 1][name] = changed
    difference = replay(read(lines), tokenizer())
    assert difference is not None
    assert (difference.token_index, difference.what) == (index, name)
    assert str(difference).startswith(f"at token {index} {name} was ")


def dropped(lines: list[dict[str, Any]]) -> None:
    """One token less, at the end."""
    del lines[-2]


def another_id(lines: list[dict[str, Any]]) -> None:
    lines[1]["token_id"] = 4


def another_end(lines: list[dict[str, Any]]) -> None:
    lines[-1]["end"] = {"text": "x", "finish_reason": "length", "stop_reason": None}


def another_verdict(lines: list[dict[str, Any]]) -> None:
    lines[-1]["verdict"].update(equal=False, token_index=0, position=0, reason="lost")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (another_id, "at token 0 data was b'Hi', and is b'er:' now"),
        (another_end, "at the end the flush was End(text='x', finish_reason='length'"),
        (another_verdict, "at the end the verdict was 'equal to the whole decode: no"),
    ],
)
def test_what_went_otherwise_is_named(
    change: Callable[[list[dict[str, Any]]], None], told: str
) -> None:
    lines = rows()
    change(lines)
    assert str(replay(read(lines), tokenizer())).startswith(told)


def test_a_token_that_is_missing_or_one_too_many_is_named() -> None:
    lines = rows(flush=True)
    dropped(lines)
    lines[-1]["end"] = {"text": "", "finish_reason": "length", "stop_reason": None}
    assert "the flush was" in str(replay(read(lines), tokenizer()))
    lines = rows()
    lines.insert(-1, {**lines[1], "index": 6, "chunk": 1})
    assert "at token 6 error was None, and is 'FinishedError" in str(
        replay(read(lines), tokenizer())
    )
    lines[-2]["chunk"] = 0  # in the same call it is only not looked at
    assert (
        str(replay(read(lines), tokenizer())) == "at token 6 number of tokens was 7, and is 6 now"
    )


def test_the_names_of_tokens_may_be_others() -> None:
    lines = rows()
    lines[1]["piece"] = "\u2581Hi"
    assert replay(read(lines), tokenizer()) is None


# --- what is no trace -----------------------------------------------------------------------------

HUGE = "1" + 400 * "0"
VALUES = ("null", "true", "-1", "1.5", HUGE, '"x"', "[]", "[[]]", '[["x"]]', "{}", '{"x":{"y":[]}}')
"""What is tried in the place of everything."""

TEXT = ['"x"']
NULL_OR_TEXT = ["null", '"x"']
NULL_OR_OBJECT = ["null", "{}", '{"x":{"y":[]}}']
FIELDS: dict[tuple[Any, ...], dict[str, list[str]]] = {
    (0,): {
        "machine": [],
        "tokenizer": TEXT,
        "tokenizer_class": TEXT,
        "fingerprint": NULL_OR_TEXT,
        "route": TEXT,
        "options": ["{}"],
        "conditions": ["null", "{}"],
        "after_prompt": ["true"],
        "snapshot": NULL_OR_OBJECT,
        "versions": ["{}"],
        "redacted": ["true"],
        "more": [],
    },
    (5,): {
        "index": [],
        "token_id": ["null"],
        "piece": NULL_OR_TEXT,
        "data": ["null"],
        "kind": [],
        "position": [],
        "text": TEXT,
        "held": [],
        "jailed": TEXT,
        "may_become": ["[]", "[[]]"],
        "chunk": [],
        "finish_reason": ["null"],
        "stop_reason": [*NULL_OR_TEXT, "[]"],
        "more": [],
    },
    (-1,): {"end": ["null"], "error": NULL_OR_TEXT, "verdict": [], "more": []},
    (-1, "end"): {
        "text": TEXT,
        "finish_reason": ["null"],
        "stop_reason": [*NULL_OR_TEXT, "[]"],
        "more": [],
    },
    (-1, "verdict"): {
        "equal": ["null", "true"],
        "token_index": ["null"],
        "position": ["null"],
        "reason": TEXT,
        "more": [],
    },
}
"""Each field of each line, and which of VALUES it may have."""


def inside(lines: list[dict[str, Any]], place: tuple[Any, ...]) -> dict[str, Any]:
    found: Any = lines
    for step in place:
        found = found[step]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("value", VALUES, ids=lambda value: value[:20])
@pytest.mark.parametrize("place", FIELDS, ids=str)
def test_what_a_field_may_be_does_no_harm_and_all_else_is_refused(
    place: tuple[Any, ...], value: str
) -> None:
    for name, allowed in FIELDS[place].items():
        lines = rows((0, 1, 5, 3, 0), flush=True)
        inside(lines, place)[name] = json.loads(value)
        if value not in allowed:
            with pytest.raises(SnapshotError, match=r"^line \d: no line of a trace: "):
                read(lines)
            continue
        trace = read(lines)
        html_page(trace)
        assert list(trace.redacted().lines())
        assert read([json.loads(line) for line in trace.lines()]) == trace
        with suppress(SnapshotError, SnapshotError):
            replay(trace, tokenizer())


@pytest.mark.parametrize("place", FIELDS, ids=str)
def test_a_field_that_is_missing_is_named(place: tuple[Any, ...]) -> None:
    usual = {"piece", "data", "kind", "text", "held", "jailed", "may_become", "finish_reason"}
    names = inside(rows((0, 1, 5, 3, 0), flush=True), place).keys()
    for name in names - usual if place == (5,) else names:
        lines = rows((0, 1, 5, 3, 0), flush=True)
        del inside(lines, place)[name]
        with pytest.raises(SnapshotError, match=r"line \d"):
            read(lines)


@pytest.mark.parametrize("machine", ["decode_stream", "stop"])
@pytest.mark.parametrize("reason", [None, "stop", "length", "abort", "error"])
def test_an_end_of_any_kind_can_be_played(machine: str, reason: str | None) -> None:
    decoders: dict[str, Any] = {
        "decode_stream": DecodeStream(tokenizer()),
        "stop": StopSequenceDecoder(tokenizer(), StopConditions()),
    }
    tracer: Any = Tracer(decoders[machine])
    tracer.step(0)
    lines = [json.loads(line) for line in tracer.trace().lines()]
    lines[-1]["end"] = {"text": "", "finish_reason": reason, "stop_reason": None}
    difference = replay(read(lines), tokenizer())
    possible = reason is not None or machine == "decode_stream"
    assert (difference is None) == possible


def test_a_file_that_was_cut_off_anywhere_is_refused() -> None:
    whole = "\n".join(map(json.dumps, rows()))
    for size in range(len(whole)):
        with pytest.raises(SnapshotError):
            Trace.from_lines(whole[:size].splitlines())


@pytest.mark.parametrize("depth", [50, 500, 900, 990, 100_000])
@pytest.mark.parametrize("name", ["options", "conditions", "snapshot", "versions"])
def test_what_is_nested_deeply_does_no_harm(name: str, depth: int) -> None:
    lines = list(map(json.dumps, rows()))
    header = json.loads(lines[0])
    header[name] = "DEEP"
    for opened, closed in (('{"x":', "}"), ("[", "]")):
        deep = '{"stop":' + opened * depth + "1" + closed * depth + "}"
        text = json.dumps(header).replace('"DEEP"', deep)
        with suppress(SnapshotError, SnapshotError):
            trace = Trace.from_lines([text, *lines[1:]])
            html_page(trace.redacted())
            replay(trace, tokenizer())


def test_lines_as_other_systems_write_them() -> None:
    lines = list(map(json.dumps, rows()))
    expected = Trace.from_lines(lines)
    assert Trace.from_lines(["\ufeff" + lines[0], *lines[1:]]) == expected
    assert Trace.from_lines([f"{line}\r\n" for line in lines]) == expected
    assert Trace.from_lines(["", *lines, "  "]) == expected
