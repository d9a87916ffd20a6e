"""Traces to look at: of a small tokenizer with everything in it that is hard to show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from streamdec import MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.trace import Trace, Tracer
from streamdec.trace.html import html_page

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u202e\u0000]]>-->{{trace}}"
TOKENS = [
    *(b"Hello", b" w", b"\xf0", b"\x9f\xa6", b"\x89", b"\n", b"Us", b"er:", b"ing", b"."),
    *(" שלום".encode(), b"<|end|>", HOSTILE.encode(), b"", "日本".encode()),
]
WORDS = [0, 1, 2, 3, 4, 9, 5, 6, 8, 10, 11, 99, 12, 13, 14, 0]
"""Token 2 to 4 are an owl, 6 and 7 the beginning of a stop that does not come."""


def trace_of() -> Trace:
    """The trace of ``WORDS``, and a stop in the end."""
    return stopped([*WORDS, 5, 6, 7], stop="\nUser:")


def stopped(ids: Sequence[int], *, group: int = 1, **conditions: Any) -> Trace:
    """The trace of these tokens under these conditions, up to the end of the ids."""
    tokenizer = MockTokenizer.from_tokens(TOKENS, [11])
    tracer = Tracer(StopSequenceDecoder(tokenizer, StopConditions(**conditions)))
    for start in range(0, len(ids), group):
        if not tracer.finished:
            tracer.step_batch(ids[start : start + group])
    tracer.flush()
    return tracer.trace()


def page_of(trace: Trace, folder: Path) -> Path:
    path = folder / "trace.html"
    path.write_text(html_page(trace), encoding="utf-8")
    return path
