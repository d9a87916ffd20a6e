"""Each row of ``docs/reference/features.md`` in which streamdec says yes names tests that hold it.

The other columns are of other projects; nothing here checks them.
"""

from __future__ import annotations

import ast
import re

from tests.support.pages import ROOT, Page

PAGE = Page("docs/reference/features.md")
PROOF: dict[str, tuple[str, ...]] = {
    "An incomplete character is held": ("tests/test_laws.py::test_law_1_emission",),
    "A genuine U+FFFD is output at once": (
        "tests/core/test_utf8.py::test_all_that_cannot_become_a_character_is_decoded_with_its_bytes",
    ),
    "The prompt may end inside a character": ("tests/test_laws.py::test_law_4_prompt",),
    "The prompt is never output": ("tests/test_laws.py::test_window_laws_4_and_6",),
    "The leading space equals that of the full decode": (
        "tests/test_laws.py::test_laws_3_5_6_7_full_decode",
    ),
    "No text is taken back or output twice": ("tests/test_laws.py::test_law_1_emission",),
    "Special tokens skipped or shown, for each stream": (
        "tests/test_laws.py::test_law_8_specials",
    ),
    "A run of bad bytes costs as much as text": ("tests/test_laws.py::test_law_15_bounds",),
    "Ids without text cost as much as others": (
        "tests/test_laws.py::test_law_8_runs_of_skipped_specials",
        "tests/test_laws.py::test_law_15_bounds",
    ),
    "Bounded memory for each stream": (
        "tests/core/test_decode_stream.py::test_a_live_stream_takes_at_most_512_bytes_at_any_length",
        "tests/core/test_stop_set.py::test_stored_texts_are_bounded",
    ),
    "Stop strings": ("tests/test_stop_laws.py::test_all_laws_as_the_oracle",),
    "Stop regexes": ("tests/test_stop_patterns.py::test_as_the_oracle",),
    "A stop in any split into tokens": ("tests/test_stop_laws.py::test_law_0_any_tokenizer",),
    "No part of a stop is output": ("tests/test_stop_laws.py::test_all_laws_as_the_oracle",),
    "Only text that may become a stop is withheld": (
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "Hidden or visible, for each stop": ("tests/test_stop_laws.py::test_all_laws_as_the_oracle",),
    "`min_tokens` applies to stop strings": (
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "Stops can be ignored in reasoning": (
        "tests/test_stop_model.py::test_decoder_does_what_the_model_says",
    ),
    "Each chunk names its section, such as reasoning": (
        "tests/test_stop_model.py::test_decoder_does_what_the_model_says",
    ),
    "Pending bytes are flushed at the end": ("tests/test_laws.py::test_laws_3_5_6_7_full_decode",),
    "Which stop matched": ("tests/test_stop_laws.py::test_all_laws_as_the_oracle",),
    "Where the stop is in the text": (
        "tests/test_stop_laws.py::test_oracle_and_engine_give_the_answers_worked_out_by_hand",
    ),
    "The engine is cancelled at a stop": (
        "tests/streams/test_laws.py::test_law_0_any_grouping_of_ids",
    ),
    "A slow reader slows the producer down": (
        "tests/streams/test_reading.py::test_a_slow_reader_holds_the_engine_back",
        "tests/streams/test_token_queue.py::test_put_waits_for_room_until_its_timeout",
    ),
    "The position of each token in the text": ("tests/test_laws.py::test_law_17_spans",),
    "A stream can be forked": ("tests/core/test_decode_stream.py::test_a_copy_is_independent",),
    "A stream can be saved as JSON and continued elsewhere": (
        "tests/test_stop_model.py::test_decoder_does_what_the_model_says",
    ),
    "Equal to the full decode: stated and tested": (
        "tests/test_laws.py::test_laws_3_5_6_7_full_decode",
    ),
}


def cells() -> list[list[str]]:
    """The cells of each row of a table of features."""
    blocks = re.findall(r"^\| \| \*\*sd\*\* \|.*\n\|.*\n((?:\|.*\n)+)", PAGE.text, re.MULTILINE)
    lines = "".join(blocks).splitlines()
    return [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]


def test_every_row_with_a_yes_names_a_test() -> None:
    assert [row[0] for row in cells() if row[1] in "✓~"] == [*PROOF]
    assert all(PROOF.values())


def test_each_named_test_exists_and_runs() -> None:
    for name in {each for names in PROOF.values() for each in names}:
        path, _, function = name.partition("::")
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        (found,) = [node for node in tree.body if getattr(node, "name", None) == function]
        assert isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef)), name
        decorators = "".join(map(ast.unparse, found.decorator_list))
        assert not re.search(r"mark\.(skip|xfail)", decorators), name
