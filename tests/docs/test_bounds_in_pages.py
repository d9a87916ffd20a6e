"""The bounds that the pages on security and on the design tell are those of the code."""

from __future__ import annotations

import re

import pytest

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
from tests.support.pages import Page

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
    f"the metadata of a GGUF file | {gguf_metadata.MAX_METADATA // MIB} MiB |",
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


def test_when_fastokens_is_built() -> None:
    worth = f"{WORTH:,} code points"
    assert worth in Page("docs/explanation/formats.md").text
    assert worth in (HybridTokenizer.__doc__ or "")


def test_each_bound_of_a_server_is_on_the_page() -> None:
    fields = {*re.findall(r"`(\w+)`", SECURITY)}
    assert {*ServerLimits.__dataclass_fields__} <= fields


def test_numbers_written_as_words_are_those_of_the_code() -> None:
    assert window.MAX_HELD == 3
    assert "withholds at most three U+FFFD" in DESIGN
    assert window.INITIAL_INCREMENTAL_DETOKENIZATION_OFFSET == 5
