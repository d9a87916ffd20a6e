"""The bounds that the pages on security and on the design tell are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from streamdec.backends import gguf_metadata
from streamdec.folders import sentencepiece_proto, tokenizer_config
from streamdec.loading import detect
from streamdec.preflight import snapshot, turns
from streamdec.server import ServerLimits, admission, bodies
from streamdec.server.connections import Connection
from streamdec.stops import patterns, stop_set, stop_sets
from streamdec.streams import reading, token_queue
from streamdec.tables import byte_table, table, window
from streamdec.tokenizers import _reading, folder_files
from tests.support.pages import ROOT, Page

SECURITY = " ".join(Page("docs/explanation/security.md").text.split())
DESIGN = " ".join(Page("docs/explanation/design.md").text.split())
OFFSETS = " ".join(Page("docs/explanation/offsets.md").text.split())
MIB = 2**20
STOP_SETS = f"{stop_sets.MAX_SETS:,}, and about {stop_sets.MAX_SETS_SIZE // MIB} MiB together"
TEXTS = f"{stop_set.MAX_STORED:,} of about {stop_set.STORED_SIZE}"
SERVER = ServerLimits()


@pytest.mark.parametrize(
    "said",
    [
        f"{patterns.MAX_PARTS:,} parts, repetitions counted; a letter costs",
        f"{patterns.MAX_SOURCE:,} code points; {patterns.MAX_RANGES} ranges beyond ASCII",
        f"parts times the longest match: {patterns.MAX_AGES:,} bits",
        f"{table.MAX_TRANSITIONS:,} transitions in rows; ids below {table.MAX_LISTED:,} in ",
        f"stop sets of one table | {STOP_SETS}",
        f"texts that one stop set knows | {stop_set.MAX_STORED:,} |",
        f"a window of the windowed route | {window.MAX_WINDOW} ids",
        f"between two checks for cancellation | {reading.MAX_TOKENS_AT_ONCE} |",
        f"{token_queue.MAX_SIZE:,}, or `maxsize`",
        f"{_reading.MAX_FILE // MIB} MiB (`MAX_FILE`)",
        f"a SentencePiece model | {sentencepiece_proto.MAX_MODEL // MIB} MiB",
        f"beside a tokenizer | {tokenizer_config._MAX_BYTES // MIB} MiB",
        (
            f"{gguf_metadata.MAX_METADATA // MIB} MiB, {gguf_metadata.MAX_ITEMS:,} items, "
            f"{gguf_metadata._MAX_NESTING} levels"
        ),
        f"files of a folder that are opened to detect their format | {detect._MAX_FILES} |",
        (
            f"{snapshot.MAX_JSON // MIB} MiB, {snapshot.LIMITS['tokenizer.json'] // MIB} MiB, "
            f"{snapshot.MAX_TEXT // MIB} MiB"
        ),
        f"{folder_files.MAX_CONTAINERS:,} brackets, {folder_files.MAX_VALUES:,} values",
        f"{snapshot.MAX_ENTRIES:,}; {snapshot.MAX_TEMPLATES} |",
        f"{turns.MOST_SECONDS} s, in a child process",
        (
            f"{SERVER.body_bytes // MIB} MiB, {SERVER.body_seconds:g} s; "
            f"after {bodies.PATIENCE:g} s a body must arrive at `body_bytes / body_seconds` at "
            "least"
        ),
        (
            f"bodies of {admission.LARGE // 1024} KiB and more whose answers have not begun: "
            f"`bodies_bytes` | {SERVER.bodies_bytes // MIB} MiB;"
        ),
        f"`values` | {SERVER.values:,} |",
        f"`depth` | {SERVER.depth} |",
        f"`messages`, `message_characters` | {SERVER.messages:,}, {SERVER.message_characters:,} |",
        f"`stops`, `stop_characters` | {SERVER.stops}, {SERVER.stop_characters:,} |",
        f"`samples`, `top_logprobs` | {SERVER.samples}, {SERVER.top_logprobs} |",
        f"`prompt_tokens`, `max_tokens` | {SERVER.prompt_tokens:,}, {SERVER.max_tokens:,} |",
        f"| {SERVER.concurrent}, {SERVER.waiting}, {SERVER.waiting_seconds:g} s |",
        (
            f"no request for {Connection.head_seconds:g} seconds, or does not read its response "
            f"for {Connection.drain_seconds:g}"
        ),
    ],
)
def test_the_page_on_security_says_what_the_code_has(said: str) -> None:
    assert said in SECURITY


def test_each_test_that_the_page_names_is_there() -> None:
    named = {*re.findall(r"`((?:tests|fuzz)/[\w/.]+)`", SECURITY)}
    assert len(named) > 25
    assert [each for each in named if not Path(ROOT, each).is_file()] == []


def test_each_bound_of_a_server_is_on_the_page() -> None:
    fields = {*re.findall(r"`(\w+)`", SECURITY)}
    assert {*ServerLimits.__dataclass_fields__} - {"default_max_tokens"} <= fields


@pytest.mark.parametrize(
    "said",
    [
        f"rows of a table | {table.MAX_TRANSITIONS:,} of about 200 bytes",
        f"ids below {table.MAX_LISTED:,}; 8 bytes for each id",
        f"texts stored in one stop set | {TEXTS} bytes",
        f"stop sets of a table | {STOP_SETS}",
        f"ids that streams of a table named | {table.MAX_NAMED:,} |",
        f"the streams of one table use more than {table.MAX_NAMED:,} such ids",
        f"older than {byte_table.MAX_AGE} tokens",
        f"no step decodes more than {window.MAX_WINDOW} ids",
    ],
)
def test_the_page_on_the_design_says_what_the_code_has(said: str) -> None:
    assert said in DESIGN


def test_what_pages_write_as_words_is_what_the_code_has() -> None:
    assert window.MAX_HELD == 3
    assert "withholds at most three U+FFFD" in DESIGN
    assert f"a window has at most {window.MAX_WINDOW} ids" in OFFSETS
    assert window.INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET == 5
