"""The page on moving a stream: its programs run as processes, joined by a pipe."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest

from streamdec import (
    LoadedTokenizer,
    StopConditions,
    StopSequenceDecoder,
    iter_chunks,
    load_tokenizer,
)
from tests.support.pages import ROOT, Page

PAGE = Page("docs/how-to/migrate-a-stream.md")
OLD, NEW, RAY = PAGE.of_kind("python")
TOKENIZER = ROOT / "streamdec" / "cli" / "data" / "demo_tokenizer.json"
TEXT = "Größe 😀\n\nUser: no"


@cache
def loaded() -> LoadedTokenizer:
    return load_tokenizer(TOKENIZER)


def test_every_example_is_ten_lines() -> None:
    assert all(len(code.splitlines()) <= 10 for code in PAGE.of_kind("python"))


@pytest.mark.thorough
def test_the_programs_print_what_the_page_says() -> None:
    """In two processes for each line of the shell."""
    processes = []
    for line in PAGE.commands:
        old = started(OLD, line.split()[3], stdin=subprocess.DEVNULL)
        processes += [old, started(NEW, stdin=old.stdout)]
        assert old.stdout is not None
        old.stdout.close()
        old.stdout = None  # it is the other's
    said = b"".join(process.communicate(timeout=60)[1] for process in processes)
    assert said.decode() == PAGE.of_kind("text")[0]


def started(code: str, *more: str, stdin: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-X", "utf8", "-c", code, str(TOKENIZER), *more],
        cwd=ROOT,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_the_snapshots_are_as_small_as_the_page_says() -> None:
    tokenizer = loaded()
    decoder = StopSequenceDecoder(tokenizer, StopConditions("\n\nUser:"))
    sizes = []
    for token_id in tokenizer.encode(TEXT).ids:
        if not decoder.finished:
            decoder.step(token_id)
            sizes.append(len(json.dumps(decoder.snapshot(), separators=(",", ":"))))
    assert f"between {min(sizes)} and {max(sizes)} bytes" in PAGE.text


@pytest.mark.parametrize("cut", range(13))
def test_the_text_does_not_depend_on_where_the_stream_moves(cut: int) -> None:
    tokenizer = loaded()
    ids = tokenizer.encode(TEXT).ids
    decoder = StopSequenceDecoder(tokenizer, StopConditions("\n\nUser:"))
    before = decoder.feed(ids[:cut])
    snapshot = json.loads(json.dumps(decoder.snapshot()))
    restored = StopSequenceDecoder.restore(tokenizer, snapshot)
    with nullcontext() if not restored.finished else pytest.warns(match="has already ended"):
        chunks = [*iter_chunks(ids[cut:], decoder=restored)]
    assert before.text + "".join(chunk.text for chunk in chunks) == "Größe 😀"
    assert (before.stop_reason or chunks[-1].stop_reason) == "\n\nUser:"
