"""Each row of ``docs/reference/features.md`` in which streamdec says yes is held by a test.

``PROOF`` has for each row what tries it here in a few lines, and the tests that hold it for drawn
streams. The other columns are of other projects; here only their form is looked at.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from streamdec import (
    Chunk,
    DecoderPool,
    DecodeStream,
    HuggingFaceTokenizer,
    MockTokenizer,
    StopConditions,
    StopSequenceDecoder,
    TokenIdError,
    TokenQueue,
    hooks,
    iter_chunks,
    stream,
)
from tests.support.pages import ROOT, Page
from tests.support.zoo import ZOO

PAGE = Page("docs/reference/features.md")
SPECIAL = 256
EOS = 257
BYTES = MockTokenizer.from_tokens(
    [*(bytes([byte]) for byte in range(256)), b"<s>", b"</s>"], special_ids=[SPECIAL, EOS]
)
"""Each byte is the token of its number."""


def tables() -> list[tuple[list[str], list[list[str]]]]:
    """Of each table of features the columns, and the cells of each row."""
    found: list[tuple[list[str], list[list[str]]]] = []
    for block in re.findall(r"^\| \| \*\*sd\*\* \|.*\n(?:\|.*\n)+", PAGE.text, re.MULTILINE):
        head, _, *body = (
            [cell.strip() for cell in line.strip()[1:-1].split("|")] for line in block.splitlines()
        )
        found.append((head[2:], body))
    return found


*GROUPS, TEN_MORE = tables()
ROWS = [row for _, body in GROUPS for row in body]


def texts(
    ids: bytes | list[int], *, prompt: bytes = b"", end: bool = True, **options: Any
) -> list[str]:
    """The text of each step, and of the flush."""
    stepped = DecodeStream(BYTES, [*prompt], **options)
    found = [stepped.step(token_id) for token_id in ids]
    return [*found, stepped.flush()] if end else found


def stopped(*groups: bytes | list[int], **conditions: Any) -> tuple[str, StopSequenceDecoder]:
    """The text of a stream that is given groups of ids, and then ended."""
    decoder = StopSequenceDecoder(BYTES, StopConditions(**conditions))
    text = ""
    for group in groups:
        if not decoder.finished:
            text += decoder.feed([*group]).text
    return text + decoder.flush().text, decoder


# --- text -----------------------------------------------------------------------------------------


def an_open_character_is_held() -> None:
    assert texts("é".encode()) == ["", "é", ""]


def it_is_known_by_its_bytes() -> None:
    """A genuine U+FFFD, as a model may write it, is not an open character."""
    assert texts("\ufffd".encode(), end=False) == ["", "", "\ufffd"]


def a_bad_byte_goes_out_at_once() -> None:
    assert texts(b"a\xffb", end=False) == ["a", "\ufffd", "b"]
    assert texts(b"\xe4A", end=False) == ["", "\ufffdA"]


def one_replacement_for_each_part() -> None:
    for data in (b"\xff\xfe\xe4\xbd", b"\xe4\xbdA\xf0\x9f", b"\xed\xa0\x80"):
        assert "".join(texts(data)) == data.decode("utf-8", "replace")


def the_prompt_is_context() -> None:
    tokenizer = HuggingFaceTokenizer(ZOO["metaspace_always"]())
    first = next(i for i in range(tokenizer.vocab_size) if tokenizer.piece(i) == "\u2581a")
    assert DecodeStream(tokenizer).step(first) == "a"
    assert DecodeStream(tokenizer, [first]).step(first) == " a"


def a_prompt_within_a_character() -> None:
    whole = "你".encode()
    assert texts(whole[2:], prompt=b"Hello world" + whole[:2]) == ["你", ""]


def the_prompt_is_never_given_out() -> None:
    assert texts(b"!", prompt=b"Hello \xe4\xbd") == ["\ufffd!", ""]


def the_leading_space() -> None:
    tokenizer = HuggingFaceTokenizer(ZOO["byte_fallback_strip"]())
    ids = [next(i for i in range(tokenizer.vocab_size) if tokenizer.piece(i) == " a")] * 2
    assert DecodeStream(tokenizer).feed(ids) == tokenizer.decode(ids) == "a a"


def nothing_is_taken_back() -> None:
    data = "a你\ufffd".encode() + b"\xff\xe4\xbd" + "é".encode()
    for cut in range(len(data)):
        assert data.decode("utf-8", "replace").startswith("".join(texts(data[:cut], end=False)))


def specials_are_skipped_or_shown() -> None:
    assert texts([SPECIAL], skip_special_tokens=True) == ["", ""]
    assert texts([SPECIAL], skip_special_tokens=False) == ["<s>", ""]


def a_special_within_a_character() -> None:
    assert texts([0xC3, SPECIAL, 0xA9]) == ["", "", "é", ""]


def raw_bytes() -> None:
    raw = DecodeStream(BYTES)
    assert [raw.step_bytes(byte) for byte in b"\xc3\xffa"] == [b"\xc3", b"\xff", b"a"]


# --- cost -----------------------------------------------------------------------------------------


def several_ids_in_a_step() -> None:
    assert DecodeStream(BYTES).step_batch([*"aé".encode()]) == ["a", "", "é"]


def many_streams_in_a_call() -> None:
    pool = DecoderPool(BYTES)
    pool.add("a")
    pool.add("b")
    assert {name: chunk.text for name, chunk in pool.step({"a": [72, 105], "b": 33}).items()} == {
        "a": "Hi",
        "b": "!",
    }


# --- stops ----------------------------------------------------------------------------------------


def stop_ids() -> None:
    assert stopped(b"Hi!", stop_token_ids=[33])[0] == "Hi"


def stop_strings() -> None:
    assert stopped(b"Hi STOP x", stop="STOP")[0] == "Hi "


def stop_regexes() -> None:
    assert stopped(b"Hi 42 x", stop_regex=r"[0-9]{2}")[0] == "Hi "


def within_a_token_and_however_it_is_cut() -> None:
    tokenizer = MockTokenizer.from_tokens([b"xSTOPy", b"S", b"TO", b"P", b"ST", b"OP", b"x"])
    for ids in ([0], [6, 1, 2, 3], [6, 4, 5, 6], [6, 4, 2, 3]):
        decoder = StopSequenceDecoder(tokenizer, StopConditions(stop=("STOP", "STTOP")))
        assert (decoder.feed(ids).text, decoder.finished) == ("x", True)


def no_beginning_leaks_and_no_more_is_withheld() -> None:
    decoder = StopSequenceDecoder(BYTES, StopConditions(stop="\nUser:"))
    assert [decoder.step(token_id).text for token_id in b"Hi\nUs"] == ["H", "i", "", "", ""]
    assert (decoder.jailed, decoder.step(ord("a")).text) == ("\nUs", "\nUsa")


def hidden_or_visible_for_each() -> None:
    conditions = {"stop": "A", "visible_stop": "B"}
    assert stopped(b"xA", **conditions)[0] == "x"
    assert stopped(b"xB", **conditions)[0] == "xB"


def the_first_to_be_complete() -> None:
    for stops in (["abcd", "bc"], ["bc", "abcd"]):
        match = stopped(b"xabcdy", stop=stops)[1].match
        assert match is not None
        assert match.stop == "bc"


def min_tokens() -> None:
    assert stopped(b"A.A.", stop="A", min_tokens=2)[0] == "A."


def ignore_eos() -> None:
    assert stopped([72, EOS, 33], eos_token_ids=[EOS])[0] == "H"
    assert stopped([72, EOS, 33], eos_token_ids=[EOS], ignore_eos=True)[0] == "H!"


def stops_ignored_in_a_part() -> None:
    for prompt, text in ((b"", "B"), (b"<a>", "BA</a>B")):
        ids = [*b"BA</a>BA"]
        conditions = StopConditions("A", ignore_stops_between=("<a>", "</a>"))
        decoder = StopSequenceDecoder(BYTES, conditions, [*prompt])
        assert decoder.feed(ids).text == text
    section: dict[str, Any] = {"ignore_stops_between": ("<a>", "</a>"), "starts_inside": True}
    text, decoder = stopped(b"A</a>xA!", stop="A", **section)
    assert (text, decoder.finish_reason) == ("A</a>x", "stop")


def stops_switch_on_and_off() -> None:
    """The features that are claimed only in part."""
    text, _ = stopped(b"<a>A</a>A", stop="A", ignore_stops_between=("<a>", "</a>"))
    assert text == "<a>A</a>"


def chunks_name_their_section() -> None:
    decoder = StopSequenceDecoder(BYTES, sections={"reasoning": ("<a>", "</a>")})
    parts = decoder.feed([*b"x<a>y</a>z<"]).split()
    found = [(part.section, part.text) for part in parts if part.text]
    assert found == [(None, "x"), ("reasoning", "y"), (None, "z")]
    assert decoder.flush().text == "<"


def a_section_that_the_prompt_opens() -> None:
    sections = {"why": ("<a>", "</a>")}
    decoder = StopSequenceDecoder(BYTES, prompt_token_ids=[*b"<a>"], sections=sections)
    assert [decoder.step(token_id).section for token_id in b"y"] == ["why"]


# --- ends -----------------------------------------------------------------------------------------


def pending_bytes() -> None:
    assert texts(b"\xe4\xbd") == ["", "", "\ufffd"]


def text_beside_an_open_character() -> None:
    tokenizer = MockTokenizer.from_tokens([b"Hello", b"a\xe4"])
    ending = DecodeStream(tokenizer)
    assert [*ending.step_batch([0, 1]), ending.flush()] == ["Hello", "a", "\ufffd"]


def what_was_withheld_comes_out() -> None:
    assert stopped(b"Hi ST", stop="STOP")[0] == "Hi ST"
    assert stopped(b"Hi ST?", stop="STOP", max_tokens=5)[0] == "Hi ST"
    assert stopped([*b"Hi ST", EOS], stop="STOP", eos_token_ids=[EOS])[0] == "Hi ST"


def which_stop_and_where() -> None:
    _, decoder = stopped("é STOP".encode(), stop=["STOP", "END"])
    match = decoder.match
    assert match is not None
    assert match.stop == "STOP"
    assert (match.start, match.end, match.byte_start, match.byte_end) == (2, 6, 3, 7)
    assert (match.token_index, match.tokens_before) == (6, 3)


def ids_end_where_the_text_does() -> None:
    (chunk,) = iter_chunks([[*b"Hi STOP and more"]], BYTES, stop="STOP", return_token_ids=True)
    assert (chunk.text, chunk.token_ids) == ("Hi ", (*b"Hi STOP",))
    assert chunk.unread_tokens == len(b" and more")


def a_stop_beats_the_limit() -> None:
    assert stopped(b"STOP", stop="STOP", max_tokens=4)[1].finish_reason == "stop"


# --- async ----------------------------------------------------------------------------------------


def an_asynchronous_iterator_that_cancels() -> None:
    seen: list[str] = []

    async def engine() -> AsyncIterator[int]:
        try:
            for token_id in b"Hi!":
                yield token_id
            raise AssertionError("asked on after the stop")
        finally:
            seen.append("closed")

    async def main() -> None:
        async with stream(engine(), BYTES, stop="!", on_stop=lambda: seen.append("told")) as it:
            seen.extend([chunk.text async for chunk in it])

    anyio.run(main)
    assert seen == ["told", "closed", "H", "i", ""]


def a_slow_reader_holds_back_and_reads_all() -> None:
    feed = TokenQueue(maxsize=3)
    for token_id in b"Hi!":
        feed.put(token_id)
    with pytest.raises(Exception, match="the queue is full"):
        feed.put(0, wait=False)
    feed.end()

    async def main() -> list[Chunk]:
        return [chunk async for chunk in stream(feed, BYTES)]

    assert [chunk.text for chunk in anyio.run(main)] == ["Hi!", ""]


# --- the rest -------------------------------------------------------------------------------------


def ids_the_tokenizer_lacks() -> None:
    assert texts([72, 999]) == ["H", "", ""]
    assert texts([72, 999], unknown_ids="replace") == ["H", "\ufffd", ""]
    with pytest.raises(TokenIdError, match="token 1: the tokenizer has no id 999"):
        texts([72, 999], unknown_ids="error")


def places() -> None:
    recording = DecodeStream(BYTES, spans=True)
    recording.step_batch([*"aé".encode()])
    found = [(span.start, span.end) for span in recording.take_spans()]
    assert found == [(0, 1), (1, 2), (1, 2)]


def bytes_of_tokens() -> None:
    assert BYTES.token_bytes(0xC3) == b"\xc3"


def metrics() -> None:
    told: list[int] = []

    class Counts(hooks.Hook):
        def stream_ended(self, event: hooks.StreamEnded) -> None:
            told.append(event.tokens)

    remove = hooks.add_hook(Counts())
    try:
        list(iter_chunks([1, 2, 3], MockTokenizer()))
    finally:
        remove()
    assert told == [3]


def fork_save_and_reset() -> None:
    first = DecodeStream(BYTES)
    first.step(0xC3)
    fork = first.fork()
    saved = DecodeStream.restore(BYTES, json.loads(json.dumps(first.snapshot())))
    assert [it.step(0xA9) for it in (first, fork, saved)] == ["é"] * 3
    first.reset()
    assert first.step(ord("a")) == "a"


def each_beam_is_a_fork() -> None:
    first = StopSequenceDecoder(BYTES, StopConditions(stop="STOP"))
    text = first.feed([*b"xST"]).text
    beams = [(first, b"OP"), (first.fork(), b"AR")]
    assert [text + beam.feed([*ids]).text for beam, ids in beams] == ["x", "xSTAR"]


def a_snapshot_within_a_stop() -> None:
    decoder = StopSequenceDecoder(BYTES, StopConditions(stop="STOP"))
    decoder.feed([*b"xST"])
    saved = StopSequenceDecoder.restore(BYTES, json.loads(json.dumps(decoder.snapshot())))
    assert saved.feed([*b"OP"]).finish_reason == "stop"


def laws_are_stated() -> None:
    laws = Page("docs/explanation/laws.md").text
    assert "**0. Chunk-invariance.**" in laws
    assert "**6. The full decode.**" in laws


CORE = "tests/core"
PROOF: dict[str, tuple[Callable[[], None] | str, ...]] = {
    # text
    "An incomplete character is held": (
        an_open_character_is_held,
        "tests/test_laws.py::test_law_1_emission",
    ),
    "… found by its bytes, not by a U+FFFD at the end of the text": (
        it_is_known_by_its_bytes,
        "tests/test_laws.py::test_law_1_and_2_emission_of_bytes",
    ),
    "A genuine U+FFFD is output at once": (
        a_bad_byte_goes_out_at_once,
        "tests/core/test_utf8.py::test_each_byte_outputs_what_it_decides",
    ),
    "One U+FFFD for each ill-formed part": (
        one_replacement_for_each_part,
        "tests/core/test_utf8.py::test_the_whole_text_per_part_is_what_python_replaces",
    ),
    "The prompt is context for the first text": (
        the_prompt_is_context,
        "tests/test_laws.py::test_law_4_prompt_is_as_if_streamed",
    ),
    "The prompt may end inside a character": (
        a_prompt_within_a_character,
        "tests/test_laws.py::test_law_4_prompt",
    ),
    "The prompt is never output": (
        the_prompt_is_never_given_out,
        "tests/test_laws.py::test_window_laws_4_and_6",
    ),
    "The leading space equals that of the full decode": (
        the_leading_space,
        "tests/test_laws.py::test_laws_3_5_6_7_full_decode",
    ),
    "No text is taken back or output twice": (
        nothing_is_taken_back,
        "tests/test_laws.py::test_law_1_emission",
    ),
    "Special tokens skipped or shown, for each stream": (
        specials_are_skipped_or_shown,
        "tests/test_laws.py::test_law_8_specials",
    ),
    "A skipped special token inside a character": (
        a_special_within_a_character,
        "tests/test_laws.py::test_law_8_runs_of_skipped_specials",
    ),
    "The stream as raw bytes": (
        raw_bytes,
        "tests/core/test_decode_stream.py::test_step_bytes_gives_the_raw_bytes_of_each_token",
    ),
    # cost
    "Several ids in a step": (
        several_ids_in_a_step,
        "tests/test_laws.py::test_law_0_chunk_invariance",
    ),
    "Many streams in one call": (
        many_streams_in_a_call,
        "tests/streams/test_pool.py::test_a_request_in_a_pool_equals_a_decoder",
    ),
    "A run of bad bytes costs as much as text": ("tests/test_laws.py::test_law_15_bounds",),
    "Ids without text cost as much as others": (
        "tests/test_laws.py::test_law_8_runs_of_skipped_specials",
        "tests/test_laws.py::test_law_15_bounds",
    ),
    "Each id in constant time, for any ids": (
        "tests/test_laws.py::test_law_15_bounds",
        "tests/test_laws.py::test_window_law_15_bounds",
        "tests/test_stop_laws.py::test_law_15_bounds",
    ),
    "Bounded memory for each stream": (
        f"{CORE}/test_decode_stream.py::test_a_live_stream_takes_at_most_512_bytes_at_any_length",
        "tests/core/test_stop_set.py::test_sets_that_are_used_once_stay_within_their_bound",
    ),
    # stops
    "Stop ids": (stop_ids, "tests/test_stop_laws.py::test_all_laws_as_the_oracle"),
    "Stop strings": (stop_strings, "tests/test_stop_laws.py::test_all_laws_as_the_oracle"),
    "Stop regexes": (stop_regexes, "tests/test_stop_patterns.py::test_as_the_oracle"),
    "A stop inside a token": (
        within_a_token_and_however_it_is_cut,
        "tests/core/test_bug_cases.py::test_one_by_one_all_at_once_and_in_random_groups",
    ),
    "A stop in any split into tokens": (
        within_a_token_and_however_it_is_cut,
        "tests/test_stop_laws.py::test_law_0_any_tokenizer",
    ),
    "No part of a stop is output": (
        no_beginning_leaks_and_no_more_is_withheld,
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "Only text that may become a stop is withheld": (
        no_beginning_leaks_and_no_more_is_withheld,
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "Hidden or visible, for each stop": (
        hidden_or_visible_for_each,
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "The stop that is complete first wins": (
        the_first_to_be_complete,
        "tests/test_stop_laws.py::test_laws_1_3_9_and_11_as_the_oracle_of_its_text",
        "tests/test_stop_laws.py::test_law_9_order_of_lists",
    ),
    "`min_tokens` applies to stop strings": (
        min_tokens,
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "`ignore_eos`": (ignore_eos, "tests/test_stop_laws.py::test_all_laws_as_the_oracle"),
    "Stops can be ignored in reasoning": (
        stops_ignored_in_a_part,
        "tests/core/test_stop_set.py::test_the_end_of_a_stop_counts_the_text_of_a_marker",
    ),
    "The matcher itself handles reasoning and tool calls": (stops_switch_on_and_off,),
    "Each chunk names its section, such as reasoning": (
        chunks_name_their_section,
        "tests/test_stop_model.py::test_decoder_does_what_the_model_says",
    ),
    "A section that the prompt opens": (
        a_section_that_the_prompt_opens,
        "tests/core/test_sections_option.py::test_the_prompt_or_the_caller_says_where_a_stream_begins",
    ),
    # ends
    "Pending bytes are flushed at the end": (
        pending_bytes,
        "tests/test_laws.py::test_laws_3_5_6_7_full_decode",
    ),
    "Text that shares a token with pending bytes is flushed": (
        text_beside_an_open_character,
        "tests/test_laws.py::test_laws_3_5_6_7_full_decode",
    ),
    "Withheld text is flushed at the end": (
        what_was_withheld_comes_out,
        "tests/test_stop_laws.py::test_law_6_full_decode",
    ),
    "Which stop matched": (
        which_stop_and_where,
        "tests/test_stop_laws.py::test_all_laws_as_the_oracle",
    ),
    "Where the stop is in the text": (
        which_stop_and_where,
        "tests/test_stop_laws.py::test_oracle_and_engine_give_the_answers_worked_out_by_hand",
    ),
    "Ids cut to the text": (
        ids_end_where_the_text_does,
        "tests/streams/test_laws.py::test_each_id_belongs_to_one_chunk_in_order",
    ),
    "How much of a KV cache may be kept": (
        which_stop_and_where,
        "tests/test_stop_laws.py::test_tokens_before_a_match_are_those_an_engine_may_keep",
    ),
    "A stop beats the limit on the same token": (
        a_stop_beats_the_limit,
        f"{CORE}/test_stop_sequence_decoder.py::test_max_tokens_is_exact_for_streams_of_any_length",
    ),
    # async
    "An asynchronous iterator": (
        an_asynchronous_iterator_that_cancels,
        "tests/streams/test_laws.py::test_law_0_any_grouping_of_ids",
    ),
    "A slow reader slows the producer down": (
        a_slow_reader_holds_back_and_reads_all,
        "tests/streams/test_reading.py::test_a_slow_reader_holds_the_engine_back",
        "tests/streams/test_token_queue.py::test_a_slow_reader_of_a_bounded_queue_holds_its_thread_back",
    ),
    "Waiting ids are decoded at once": (
        a_slow_reader_holds_back_and_reads_all,
        "tests/streams/test_token_queue.py::test_all_waiting_ids_are_taken_at_once",
    ),
    "The engine is cancelled at a stop": (
        an_asynchronous_iterator_that_cancels,
        "tests/streams/test_laws.py::test_law_0_any_grouping_of_ids",
    ),
    # tokenizers
    "Formats besides `tokenizer.json`": (
        "tests/docs/test_tokenizers_page.py::test_a_file_does_what_its_row_says",
        "tests/loading/test_formats.py::test_every_format",
        "tests/loading/test_formats.py::test_models_of_sentencepiece_and_gguf",
    ),
    "A policy for ids that the tokenizer lacks": (
        ids_the_tokenizer_lacks,
        "tests/test_laws.py::test_law_16_unknown_ids",
    ),
    # observability
    "The position of each token in the text": (places, "tests/test_laws.py::test_law_17_spans"),
    "The bytes of each token": (
        bytes_of_tokens,
        "tests/integrations/wire/test_logprobs.py::test_the_bytes_are_the_text_and_say_where_it_is",
    ),
    "Metrics": (
        metrics,
        "tests/metrics/test_prometheus.py::test_a_number_is_the_one_counted_by_hand",
    ),
    # moving
    "A stream can be forked": (
        fork_save_and_reset,
        "tests/core/test_decode_stream.py::test_a_fork_is_independent",
    ),
    "A stream can be saved as JSON and continued elsewhere": (
        fork_save_and_reset,
        a_snapshot_within_a_stop,
        "tests/core/test_snapshots.py::test_a_stream_continues_after_a_snapshot_at_every_token",
        f"{CORE}/test_stop_snapshots.py::test_a_restored_stream_is_equal_and_continues_equally",
    ),
    "A stream can be reset": (
        fork_save_and_reset,
        "tests/test_laws.py::test_law_0_chunk_invariance",
    ),
    "Each beam of a beam search as text while it grows": (
        each_beam_is_a_fork,
        "tests/core/test_sequence.py::test_a_fork_is_independent",
    ),
    # proof
    "The same text however ids are grouped: stated": (
        laws_are_stated,
        "tests/test_laws.py::test_law_0_chunk_invariance",
        "tests/test_stop_laws.py::test_law_0_chunk_invariance",
    ),
    "Equal to the full decode: stated and tested": (
        laws_are_stated,
        "tests/test_laws.py::test_laws_3_5_6_7_full_decode",
    ),
    "Property tests or fuzzing in the repository": (
        "tests/fuzz/test_targets.py::test_the_law_holds_for_every_seed",
        "tests/fuzz/test_mutants.py::test_each_law_is_broken_at_least_once",
    ),
}


def test_every_row_with_a_yes_has_a_check() -> None:
    said = [row[0] for row in ROWS]
    assert len(said) == len(set(said)) > 50
    assert [row[0] for row in ROWS if row[1] in "✓~"] == [*PROOF]
    assert all(PROOF.values())


@pytest.mark.parametrize(
    "check",
    dict.fromkeys(it for proof in PROOF.values() for it in proof if callable(it)),
    ids=lambda check: check.__name__,
)
def test_the_check_of_a_row_passes(check: Callable[[], None]) -> None:
    check()


def test_each_named_test_exists_and_runs() -> None:
    named: dict[str, list[str]] = {}
    for name in {it for proof in PROOF.values() for it in proof if isinstance(it, str)}:
        path, _, function = name.partition("::")
        assert not path.startswith("tests/benchmarks")
        named.setdefault(path, []).append(function)
    for path, functions in named.items():
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        for function in functions:
            found = [node for node in tree.body if getattr(node, "name", None) == function]
            kinds = [type(node) for node in found]
            assert kinds in ([ast.FunctionDef], [ast.AsyncFunctionDef]), (path, function)
            decorators = "".join(map(ast.unparse, getattr(found[0], "decorator_list", [])))
            assert not re.search(r"mark\.(skip|xfail)", decorators), (path, function)
            assert any(isinstance(node, (ast.Assert, ast.Call)) for node in ast.walk(found[0]))


# --- the other columns ----------------------------------------------------------------------------


def test_features_that_the_page_denies_are_missing() -> None:
    """The rows that say no: should one of them come, the page is to be changed."""
    told = {row[0] for row in ROWS if row[1] == "–"}
    assert told == {
        "Spaces between special tokens, as an option",
        "Sequences of stop ids",
        "Banned strings, with a rewind",
        "Loops are detected",
    }
    with pytest.raises(TypeError, match="stop_token_sequences"):
        StopConditions(stop_token_sequences=[[1, 2]])  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="spaces_between_special_tokens"):
        DecodeStream(BYTES, spaces_between_special_tokens=True)  # type: ignore[call-arg]
