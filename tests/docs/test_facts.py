"""What pages and ``llms.txt`` say of names, variables, loggers, bounds, ids and links is so."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import runpy
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.backends import gguf_metadata, tekken
from streamdec.backends.hybrid import WORTH, HybridTokenizer
from streamdec.core import since, snapshots, stop_set, stop_sets, table, window
from streamdec.core.patterns import compile as patterns
from streamdec.folders import sentencepiece_proto, tokenizer_config
from streamdec.loading import detect, trial_main
from streamdec.preflight import snapshot, turns
from streamdec.server import ServerLimits
from streamdec.streams import reading, token_queue
from streamdec.tokenizers import folder_files
from tests.support.files import shared
from tests.support.pages import ROOT, Page, printed_by
from tests.support.public_api import DOORS, documented, is_error, public_names

# --- the pages of the API -------------------------------------------------------------------------


def _key(door: str, name: str, thing: Any) -> str:
    """What tells things apart: classes and functions are reached by more than one path."""
    if isinstance(thing, type | FunctionType):
        return f"{thing.__module__}.{thing.__qualname__}"
    return f"{door}.{name}"


PUBLIC = {
    _key(door, name, thing): thing for door in DOORS for name, thing in public_names(door).items()
}
DOCUMENTED = [
    _key(door, name, getattr(importlib.import_module(door), name)) for door, name in documented()
]


def test_every_public_name_has_its_place() -> None:
    assert sorted({*DOCUMENTED}) == sorted(DOCUMENTED)
    errors = Page("docs/reference/errors.md").text
    missing = {key: PUBLIC[key] for key in PUBLIC.keys() - {*DOCUMENTED}}
    assert {
        key
        for key, thing in missing.items()
        if not (is_error(thing) and re.search(rf"\b{thing.__name__}\b", errors))
    } == set()


def test_the_pages_have_nothing_that_is_not_public() -> None:
    assert len(DOCUMENTED) > 100
    assert {*DOCUMENTED} - PUBLIC.keys() == set()


SOURCES = sorted([*(ROOT / "streamdec").rglob("*.py"), *ROOT.glob("plugins/*/streamdec_*/*.py")])
NAME = re.compile(r"_?[A-Z][A-Z_]{3,}")
OTHER_WORDS = re.compile(
    "(STOPS_)?SWITCH|TRIED|MARKERS|FIELD|FILE|NAME|SECONDS|TRUE|SIG[A-Z]+|COMMIT_[A-Z_]+|"
    "[A-Z]+_NUM_THREADS|TOKENIZERS_PARALLELISM"
)
"""Words in capitals of those modules that are no variables, or are only set for a child process."""


def named(title: str) -> set[str]:
    """The first cells of the table under a heading."""
    return {in_code(first) for first, *_ in Page("docs/reference/cli.md", title).table}


def in_code(cell: str) -> str:
    (found,) = re.findall(r"`([^`]+)`", cell)
    return str(found)


LOOKS = re.compile(r"\b(environ|getenv|envvar)\b")


def words_of(path: Path) -> set[str]:
    """The words in capitals that a module writes out or has under a name."""
    module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    written = ast.walk(ast.parse(path.read_text("utf-8")))
    found = {str(node.value) for node in written if isinstance(node, ast.Constant)}
    for value in vars(module).values():
        found |= {value} if isinstance(value, str) else set()
        found |= {*map(str, value)} if isinstance(value, tuple) else set()
    return {word for word in found if NAME.fullmatch(word)}


def test_every_variable_is_on_the_page() -> None:
    """Of the modules that look into the environment."""
    words = [words_of(path) for path in SOURCES if LOOKS.search(path.read_text("utf-8"))]
    assert len(words) > 8
    # click reads the first of these, rich the other.
    asked = {"_STREAMDEC_COMPLETE", "NO_COLOR"}.union(*words)
    there = named("Environment variables")
    assert {word for word in asked - there if not OTHER_WORDS.fullmatch(word)} == set()
    assert there <= asked


def test_every_logger_is_on_the_page() -> None:
    names = {
        name
        for path in SOURCES
        for name in re.findall(r'getLogger\("([^"]+)"\)', path.read_text("utf-8"))
    }
    assert named("Loggers") == names


def test_importing_changes_nothing() -> None:
    code = """
import logging, os, threading, tokenizers
theirs = tokenizers.decoders.DecodeStream
before = dict(os.environ)
import streamdec
from streamdec import hooks
assert hooks.installed == ()
assert tokenizers.decoders.DecodeStream is theirs
assert logging.getLogger("streamdec").handlers == [] == logging.getLogger().handlers
assert threading.active_count() == 1
assert dict(os.environ) == before
"""
    assert printed_by(code) == []


# --- bounds ---------------------------------------------------------------------------------------


SECURITY = " ".join(Page("docs/explanation/security.md").text.split())
DESIGN = " ".join(Page("docs/explanation/design.md").text.split())
DECODING = " ".join(Page("docs/explanation/decoding.md").text.split())
MIB = 2**20
STOP_SETS = f"{stop_sets.MAX_SETS:,}, and about {stop_sets.MAX_SETS_SIZE // MIB} MiB together"
TEXTS = f"{stop_set.MAX_STORED:,} of about {stop_set.STORED_SIZE}"
SERVER = ServerLimits()


OF_SECURITY = [
    f"stream together | {patterns.MAX_PARTS:,} parts, repetitions counted;",
    f"{patterns.MAX_SOURCE:,} code points, and {patterns.MAX_RANGES} ranges beyond ASCII",
    f"for its patterns | {patterns.MAX_AGES:,} bits: their parts times",
    f"{table.MAX_TRANSITIONS:,} transitions in its rows; ",
    f"stop sets of one table | {STOP_SETS}",
    f"one for each id of the vocabulary and for {table.MAX_UNKNOWN:,} unknown ids |",
    (
        f"texts that one stop set stores | {stop_set.MAX_STORED:,}, "
        f"each of at most {stop_set.MAX_TEXT} code points |"
    ),
    f"a window of the windowed route | {window.MAX_WINDOW} ids",
    f"between two checks for cancellation | {reading.MAX_TOKENS_AT_ONCE} each |",
    f"{token_queue.MAX_SIZE:,}, or `maxsize`",
    f"{folder_files.MAX_FILE // MIB} MiB (`MAX_FILE`)",
    f"makes of one character | {trial_main.MAX_GROWTH:,} characters",
    f"the special tokens of a Tekken file | {tekken.MAX_SPECIAL:,} |",
    f"a SentencePiece model | {sentencepiece_proto.MAX_MODEL // MIB} MiB",
    f"beside a tokenizer | {tokenizer_config._MAX_BYTES // MIB} MiB",
    f"a GGUF file | {gguf_metadata.MAX_METADATA // MIB} MiB, {gguf_metadata.MAX_ITEMS:,} keys and",
    f"files of a folder that are opened to detect their format | {detect._MAX_FILES} |",
    (
        f"JSON {snapshot.MAX_JSON // MIB} MiB, "
        f"`tokenizer.json` {snapshot.LIMITS['tokenizer.json'] // MIB} MiB, "
        f"a template {snapshot.MAX_TEXT // MIB} MiB"
    ),
    f"{folder_files.MAX_CONTAINERS:,} brackets, {folder_files.MAX_VALUES:,} values",
    f"{snapshot.MAX_ENTRIES:,} files; {snapshot.MAX_TEMPLATES} named templates |",
    f"rendering a conversation | {turns.LIMITS.cpu_seconds} s of CPU time, in a child process",
    f"`body_seconds`) | {SERVER.body_bytes // MIB} MiB, {SERVER.body_seconds:g} s |",
    f"(`depth`) | {SERVER.depth} |",
    f"(`prompt_tokens`) | {SERVER.prompt_tokens:,} |",
    f"(`stops`) | {SERVER.stops} of each |",
    f"(`stop_characters`) | {SERVER.stop_characters:,} code points |",
    f"(`top_logprobs`) | {SERVER.samples}; {SERVER.max_tokens:,}; {SERVER.top_logprobs} |",
    f"(`work`) | {SERVER.work:,}; ",
    f"(`waiting`) | {SERVER.running}; {SERVER.waiting} |",
    f"at most {snapshots.MOST_ENTRIES:,}, and four for each code point",
]
OF_DESIGN = [
    f"rows of a table | {table.MAX_TRANSITIONS:,} of about 200 bytes",
    f"about 400 bytes each, and {table.MAX_UNKNOWN:,} unknown ids |",
    f"texts stored in one stop set | {TEXTS} bytes, each of at most {stop_set.MAX_TEXT} code",
    f"stop sets of a table | {STOP_SETS}",
    f"ids since the clean point | {since.MOST_SINCE}, ",
    f"no step decodes more than {window.MAX_WINDOW} ids",
]


@pytest.mark.parametrize(
    ("said", "page"),
    [
        *((said, SECURITY) for said in OF_SECURITY),
        *((said, DESIGN) for said in OF_DESIGN),
        (f"a window has at most {window.MAX_WINDOW} ids", DECODING),
    ],
    ids=lambda each: each[:40],
)
def test_the_bounds_of_a_page_are_those_of_the_code(said: str, page: str) -> None:
    assert said in page


def test_each_bound_of_a_server_is_on_the_page() -> None:
    fields = {*re.findall(r"`(\w+)`", SECURITY)}
    assert {*ServerLimits.__dataclass_fields__} <= fields


def test_numbers_in_sentences_are_those_of_the_code() -> None:
    assert window.MAX_HELD == 3
    assert "withholds at most three U+FFFD" in DESIGN
    assert window.INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET == 5
    worth = f"{WORTH:,} code points"
    assert worth in Page("docs/explanation/formats.md").text
    assert worth in (HybridTokenizer.__doc__ or "")


@pytest.mark.parametrize("path", shared("qwen3/tokenizer.json"), ids=lambda path: path.parent.name)
def test_the_marker_of_qwen3_is_the_id_on_the_page_and_is_not_skipped(path: Path) -> None:
    tokenizer = load_tokenizer(path, fast="off")
    page = Page("docs/explanation/stops.md").text
    (told,) = re.findall(r"Qwen3's `</think>` is id (\d+)", page)
    assert tokenizer.token_to_id("</think>") == int(told)
    assert not tokenizer.is_skipped(int(told))


# --- llms.txt -------------------------------------------------------------------------------------


TEXT: str = runpy.run_path(str(ROOT / "docs" / "llms_txt.py"))["text"]()
LINK = re.compile(r"^- \[[^\]]+\]\(([^)]+)\): .+$", re.MULTILINE)


def test_it_has_the_form_of_llms_txt() -> None:
    """A title, a quoted summary, then text without headings, then lists of links under headings."""
    head, *sections = re.split(r"^## ", TEXT, flags=re.MULTILINE)
    title, blank, summary, *_ = head.splitlines()
    assert (title, blank, summary[:2]) == ("# streamdec", "", "> ")
    outside_code = re.sub(r"^```.*?^```$", "", head, flags=re.MULTILINE | re.DOTALL)
    assert [line for line in outside_code.splitlines() if line.startswith("#")] == ["# streamdec"]
    assert len(sections) >= 4
    for section in sections:
        name, *lines = section.strip().splitlines()
        assert name
        assert all(LINK.fullmatch(line) for line in lines if line)


def test_it_links_every_page() -> None:
    """And so does the front page, of which it has the links."""
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(LINK.findall(TEXT)) == sorted(
        f"{path[:-3]}.html" if "/api/" in path else f"_sources/{path}.txt"
        for path in pages - {"index.md"}
    )
    assert len(pages) > 25


def test_its_code_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    around, by_hand = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    exec(around, names)
    tokenizer, answer = names["tokenizer"], names["answer"]
    ids = [*tokenizer.encode("It is 42.\nUser: no").ids]  # type: ignore[attr-defined]
    asyncio.run(answer([ids], [41]))  # type: ignore[operator]
    assert capsys.readouterr().out == "It is 42."
    exec(by_hand, names)
    assert capsys.readouterr().out == "It is 42."
