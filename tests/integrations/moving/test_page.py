"""The page on moving a stream: its programs run as processes, and its actors in real Ray."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from streamdec import StopConditions, StopSequenceDecoder, load_tokenizer
from streamdec.tokenizers import LoadedTokenizer
from tests.support.pages import ROOT, Page, printed_by_blocks

PAGE = Page("docs/how-to/your-engine.md", "Move a stream to another process")
OLD, NEW, RAY = PAGE.of_kind("python")
TEXT = "Größe 😀\n\nUser: no"


@cache
def loaded() -> LoadedTokenizer:
    return load_tokenizer("demo")


@pytest.mark.thorough
def test_the_programs_print_what_the_page_says(tmp_path: Path) -> None:
    """In two processes for each line of the shell, in a folder with only the two programs."""
    for name, code in (("old.py", OLD), ("new.py", NEW)):
        (tmp_path / name).write_text(code, encoding="utf-8")
    lines = [(0, "sh", f"{{ {line}; }} 2>&1") for line in PAGE.commands]
    assert "".join(printed_by_blocks(lines, tmp_path)) == PAGE.of_kind("text")[0]


def test_the_snapshots_are_as_small_as_the_page_says() -> None:
    tokenizer = loaded()
    decoder = StopSequenceDecoder(tokenizer, StopConditions("\n\nUser:"))
    sizes = []
    for token_id in tokenizer.encode(TEXT).ids:
        if not decoder.finished:
            decoder.step(token_id)
            sizes.append(len(json.dumps(decoder.snapshot(), separators=(",", ":"))))
    assert f"between {min(sizes)} and {max(sizes)} bytes" in PAGE.text


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_a_stream_moves_between_actors() -> None:
    """After every token, within the emoji and within the stop."""
    ray: Any = pytest.importorskip("ray", reason="not installed: nox -s ray")
    runtime = {"env_vars": {"PYTHONPATH": str(ROOT)}}
    ray.init(num_cpus=4, include_dashboard=False, runtime_env=runtime, log_to_driver=False)
    names: dict[str, Any] = {
        "ray": ray,
        "load_tokenizer": load_tokenizer,
        "StopConditions": StopConditions,
        "StopSequenceDecoder": StopSequenceDecoder,
    }
    try:
        exec(RAY, names)
        workers = [names["Worker"].remote("demo") for _ in range(2)]
        snapshot: Any = None
        given = ""
        for place, token_id in enumerate(loaded().encode(TEXT).ids[:12]):
            text, snapshot = ray.get(workers[place % 2].run.remote([token_id], snapshot))
            given += text
    finally:
        ray.shutdown()
    assert given == "Größe 😀"
    end = StopSequenceDecoder.restore(loaded(), snapshot).flush()
    assert (end.text, end.finish_reason, end.stop_reason) == ("", "stop", "\n\nUser:")
