"""The kit passes what is right, and names the law that is broken."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models

import streamdec
from streamdec import HuggingFaceTokenizer, MockTokenizer
from streamdec.testing import (
    LAWS,
    Report,
    Request,
    Result,
    Subject,
    bug_cases,
    check_detokenizer,
    checks,
    small_tokenizers,
)
from streamdec.testing.expectations import Certain, certain_text, waiting_for, whole_text
from streamdec.testing.subjects import byte_level_tokenizer
from tests.testing import adapters

DEMO = Path(streamdec.__file__).parent / "loading" / "demo" / "tokenizer.json"
BYTE_LEVEL = {"byte_level": small_tokenizers()["byte_level"]}
check_byte_level = partial(check_detokenizer, tokenizers=BYTE_LEVEL)
OTHERS = {"whole_decode", "chunk_invariance", "stop_never_leaks"}
"""Laws that most flaws leave alone."""


def failed_laws(report: Report) -> set[str]:
    return {result.name.partition("[")[0] for result in report.failed}


# --- what is right --------------------------------------------------------------------------------


def test_streams_with_stops_pass_everything() -> None:
    report = check_detokenizer(adapters.Stopping, strict=True, max_examples=2)
    assert report.failed == report.skipped == ()
    assert len(report.passed) == len(bug_cases()) + 3 * len(LAWS)


def test_streams_without_stops_pass_the_rest_and_skip_what_needs_stops() -> None:
    report = check_detokenizer(
        adapters.Plain, tokenizers={"demo": DEMO}, strict=True, max_examples=4
    )
    assert report.failed == ()
    stops = {f"bug_case[{case.id}]" for case in bug_cases() if any(case.stop)}
    stops |= {f"{law.name}[demo]" for law in LAWS if "stop" in law.name}
    assert {result.name for result in report.skipped} == stops
    assert {result.detail for result in report.skipped} == {"the detokenizer lacks: stop strings"}


def test_streams_pass_where_a_prompt_gives_a_later_space_or_half_a_character() -> None:
    suffixes = Tokenizer(models.WordLevel({"b</w>": 0}, "b</w>"))
    suffixes.decoder = decoders.BPEDecoder()
    halves, _ = byte_level_tokenizer([b"a", b"\xc3", b"\xa9", b"\xff"])
    given, only = {"suffixes": suffixes, "halves": halves}, ["prompt", "stop_not_from_prompt"]
    report = check_detokenizer(adapters.Stopping, tokenizers=given, only=only, max_examples=30)
    assert report.failed == ()


@pytest.mark.thorough
def test_a_late_detokenizer_fails_only_the_strict_laws() -> None:
    report = check_byte_level(adapters.Late, strict=True, max_examples=10)
    assert failed_laws(report) == {"least_hold", "stop_least_hold"}


# --- what is broken -------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("flawed", "laws"),
    [
        (adapters.PromptEcho, {"prompt"}),
        (adapters.TailLost, {"end_of_stream"}),
        (adapters.TokenByToken, {"certain_text", "whole_decode"}),
        (adapters.SpecialsShown, {"special_tokens"}),
        (adapters.UnknownShown, {"unknown_ids"}),
        (adapters.Grouped, {"chunk_invariance", "stop_never_leaks"}),
        (adapters.StopLeaks, {"stop_never_leaks"}),
        (adapters.StopBuffer, {"stop_least_hold"}),
        (adapters.StopPrefixSwallowed, {"stop_never_swallows"}),
        (adapters.BeforeStopSwallowed, {"visible_stop"}),
        (adapters.StopFromPrompt, {"stop_not_from_prompt"}),
        (adapters.ListOrder, {"first_stop_wins", "stop_chunk_invariance"}),
        (adapters.ShortestOfTie, {"longest_stop_wins"}),
        (adapters.VisibleTail, {"visible_stop"}),
        (adapters.WrongReason, {"first_stop_wins", "stop_never_leaks"}),
        *((flaw, {"whole_decode"}) for flaw in (adapters.Forgetting, adapters.StateShared)),
        *((flaw, {"whole_decode"}) for flaw in (adapters.MarkLost, adapters.Raising)),
        (adapters.ShortStops, {"stop_never_leaks"}),
    ],
)
def test_the_law_that_is_broken_is_named(flawed: Callable[..., Any], laws: set[str]) -> None:
    report = check_byte_level(flawed, only=laws, max_examples=100)
    assert failed_laws(report) == laws
    if flawed not in (adapters.TokenByToken, adapters.Raising):  # they spoil everything
        others = OTHERS - laws
        report = check_byte_level(flawed, only=others, max_examples=10)
        assert failed_laws(report) == set()


@pytest.mark.thorough
def test_an_ignored_prompt_is_found_by_the_first_space() -> None:
    small = {"byte_fallback": small_tokenizers()["byte_fallback"]}
    only = ["prompt", "whole_decode"]
    report = check_detokenizer(
        adapters.PromptForgotten, tokenizers=small, only=only, max_examples=40
    )
    assert failed_laws(report) == {"prompt"}


@pytest.mark.parametrize(
    ("flawed", "ids"),
    [
        (adapters.StopFromPrompt, {"stop-not-from-prompt"}),
        (adapters.ShortestOfTie, {"stop-suffix-tie"}),
        (adapters.SpecialsShown, {"special-first-skipped", "special-skipped-run"}),
        (adapters.VisibleTail, {"stop-hello-world-visible"}),
        (adapters.StopPrefixSwallowed, {"stop-uno-due-tre"}),
    ],
)
def test_a_known_bug_is_named(flawed: Callable[..., Any], ids: set[str]) -> None:
    report = check_detokenizer(flawed, only=["bug_case"], strict=True)
    assert {result.name for result in report.failed} >= {f"bug_case[{name}]" for name in ids}
    assert len(report.failed) < 8


def test_without_a_flush_the_end_is_skipped_and_not_failed() -> None:
    only = ["bug_case", "end_of_stream", "whole_decode"]
    report = check_byte_level(adapters.LibraryWithoutFlush, only=only, max_examples=20)
    assert failed_laws(report) == set()
    ends = {result.name for result in report.skipped if result.detail.endswith("flush")}
    assert "bug_case[utf8-eos-incomplete-3]" in ends


# --- the messages ---------------------------------------------------------------------------------


def test_the_smallest_example_is_shown() -> None:
    report = check_byte_level(adapters.TailLost, only=["end_of_stream"], max_examples=40)
    (result,) = report.failed
    lines = result.detail.splitlines()
    assert lines[0] == "the end outputs all withheld text"
    assert lines[1].startswith("step ")
    assert lines[1].count("[") == 1  # one token
    assert lines[-2:] == ["expected  '\ufffd'", "given     ''"]


LAW = ["whole_decode"]


@pytest.mark.parametrize(
    ("flawed", "only", "said"),
    [
        (adapters.NoneForNothing, LAW, ["expected  a str from step()", "given     None"]),
        (adapters.BytesAtTheEnd, LAW, ["expected  a str from flush()", "given     b''"]),
        (adapters.StopReasonRaises, [*LAW, "bug_case"], ["raised RuntimeError: no reason"]),
        (lambda *_: None, LAW, ["make returned a NoneType without step()"]),
        (
            lambda *_: SimpleNamespace(step=len),
            LAW,
            ["make returned a SimpleNamespace without flush()"],
        ),
        (
            lambda *_: SimpleNamespace(step=lambda _: "", flush=str, stop_reason=False),
            [*LAW, "stop_never_leaks"],
            ["expected  stop_reason None, True or a str", "given     False"],
        ),
    ],
)
def test_an_object_that_is_not_a_detokenizer_fails_without_losing_the_report(
    flawed: Callable[..., Any], only: list[str], said: list[str]
) -> None:
    report = check_byte_level(flawed, only=only, max_examples=5)
    assert len([*report]) == len(checks(only=only, tokenizers=BYTE_LEVEL))
    assert failed_laws(report) == {*only}
    for result in report.failed:
        assert result.detail.splitlines()[-len(said) :] == said


def test_a_detokenizer_with_random_failures_fails() -> None:
    """State that is kept between streams: what was seen is shown, and that it changes."""
    calls = itertools.count(1)

    def make(tokenizer: Tokenizer, request: Request) -> adapters.Late:
        if next(calls) == 7:
            raise KeyError("once")
        return adapters.Late(tokenizer, request)

    report = check_byte_level(make, only=["whole_decode"], max_examples=20)
    (result,) = report.failed
    assert "raised KeyError: 'once'" in result.detail
    assert result.detail.splitlines()[-1].startswith(
        "the same example passed when it was run again: "
    )


def test_a_very_long_output_is_quoted_in_part() -> None:
    report = check_byte_level(adapters.Flooding, only=["bug_case"], max_examples=5)
    assert "and 99,700 characters more" in str(report)
    assert max(len(result.detail) for result in report) < 5_000
    assert len(str(report)) < 10_000


@pytest.mark.thorough
def test_a_law_tested_only_on_empty_streams_is_skipped() -> None:
    report = check_byte_level(adapters.StepMissing, strict=True, max_examples=30)
    assert report.passed == report.failed == ()


def test_a_seed_decides_everything() -> None:
    def requests(seed: int) -> list[Request]:
        def make(tokenizer: Tokenizer, request: Request) -> adapters.Late:
            seen.append(request)
            return adapters.Late(tokenizer, request)

        seen: list[Request] = []
        options: dict[str, Any] = {"only": ["prompt"], "max_examples": 20, "seed": seed}
        check_byte_level(make, **options)
        return seen

    first = requests(1)
    assert requests(1) == first
    assert requests(2) != first


def test_any_tokenizer_can_be_given() -> None:
    raw = Tokenizer.from_file(str(DEMO))
    mock = MockTokenizer.from_tokens([bytes([byte]) for byte in range(256)])
    given: dict[str, Any] = {
        "path": DEMO,
        "library": raw,
        "streamdec": HuggingFaceTokenizer(raw),
        "mock": mock,
        "subject": Subject("own", mock),
    }
    reached: list[object] = []

    def make(tokenizer: Any, request: Request) -> adapters.Late:
        reached.append(tokenizer)
        return _Knowing(tokenizer, request)

    options: dict[str, Any] = {"only": ["whole_decode"], "max_examples": 5}
    report = check_detokenizer(make, tokenizers=given, **options)
    assert [result.outcome for result in report] == ["passed"] * 5
    names = ["path", "library", "streamdec", "mock", "own"]
    assert [result.name for result in report] == [f"whole_decode[{name}]" for name in names]
    kinds = list(dict.fromkeys(map(type, reached)))
    assert kinds == [Tokenizer, HuggingFaceTokenizer, MockTokenizer]


class _Knowing(adapters.Late):
    """Takes streamdec's tokenizers too."""

    def open(self) -> streamdec.DecodeStream:
        given: Any = self.tokenizer
        tokenizer = adapters.known(given) if isinstance(given, Tokenizer) else given
        skip = self.request.skip_special_tokens
        return streamdec.DecodeStream(tokenizer, skip_special_tokens=skip)


def test_a_law_without_an_oracle_is_skipped() -> None:
    letters = MockTokenizer.from_tokens([b"a", b"b", b"ab", b"\xe4"])
    given = {"letters": Subject("letters", letters)}
    only = ["least_hold", "special_tokens", "whole_decode"]
    report = check_detokenizer(_Knowing, tokenizers=given, only=only, max_examples=10)
    assert {result.name: result.detail for result in report.skipped} == {
        "least_hold[letters]": "the certain text cannot be computed for this tokenizer",
        "special_tokens[letters]": "the tokenizer has no special tokens",
    }
    assert [result.name for result in report.passed] == ["whole_decode[letters]"]


@pytest.mark.thorough
def test_a_law_without_an_example_is_skipped() -> None:
    silent = MockTokenizer.from_tokens([b""])
    given = {"silent": Subject("silent", silent)}
    only = ["visible_stop"]
    report = check_detokenizer(_Knowing, tokenizers=given, only=only, max_examples=10)
    assert [result.detail for result in report.skipped] == [
        "no example could be made for this tokenizer"
    ]


def test_a_folder_without_a_tokenizer_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"tokenizer\.json"):
        checks(tokenizers={"mine": tmp_path})


def test_strict_laws_and_bug_cases_are_asked_for() -> None:
    strict = {f"{law.name}[byte_level]" for law in LAWS if law.strict}
    strict |= {f"bug_case[{case.id}]" for case in bug_cases() if case.convention}
    usual = {check.name for check in checks(tokenizers=BYTE_LEVEL)}
    asked = {check.name for check in checks(tokenizers=BYTE_LEVEL, strict=True)}
    assert asked - usual == strict >= {"bug_case[stop-suffix-tie]", "longest_stop_wins[byte_level]"}
    only = checks(only=["least_hold"], tokenizers=BYTE_LEVEL)
    assert [check.name for check in only] == ["least_hold[byte_level]"]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"make": None}, TypeError, "make must be a callable that returns detokenizers, not None"),
        ({"make": "adapters:Mine"}, TypeError, "make must be a callable that returns"),
        ({"tokenizers": {"mine": 1}}, TypeError, "tokenizers['mine'] must be a path, a"),
        ({"tokenizers": [1]}, TypeError, "tokenizers must be a dict from names to tokenizers"),
        ({"tokenizers": "path"}, TypeError, "tokenizers must be a dict from names to tokenizers"),
        ({"only": "prompt"}, TypeError, "only must be a list of names, not 'prompt'; write ['pro"),
        ({"only": ["leaks"]}, ValueError, "only has unknown names: ['leaks']; the names are ['bug"),
        ({"max_examples": 0}, ValueError, "max_examples must be at least 1, not 0"),
        ({"examples": 5}, TypeError, "checks() got an unexpected keyword argument 'examples'"),
    ],
)
def test_wrong_arguments_are_named(
    options: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=f"^{re.escape(told)}"):
        check_detokenizer(**{"make": adapters.Stopping, **options})


def test_arguments_of_a_subject_that_are_swapped_or_no_tokenizers() -> None:
    with pytest.raises(TypeError, match=r"write Subject\(name, tokenizer\)$"):
        Subject(MockTokenizer(), "words")  # type: ignore[arg-type]
    for wrong in ("path", None, Tokenizer(models.BPE())):
        with pytest.raises(TypeError, match="must be a tokenizer that load_tokenizer returns, or"):
            Subject("words", wrong)  # type: ignore[arg-type]


PASSED = Result("prompt[a]", "passed")
FAILED = Result("whole_decode[a]", "failed", "the text is right\nexpected  'a'\ngiven     'b'")
SKIPPED = Result("visible_stop[a]", "skipped", "the detokenizer lacks: stop strings")


def test_failures_are_grouped_by_cause_and_five_are_shown() -> None:
    failed = [Result(f"whole_decode[{name}]", "failed", f"law\n{name}") for name in ("bbb", "a")]
    failed += [Result(f"bug_case[utf8-{i}]", "failed", "case") for i in range(3)]
    failed += [Result(f"law[{i}]", "failed", "law\nraised KeyError: 1") for i in range(4)]
    failed += [Result(f"law{i}[a]", "failed", "law\n" + "x" * 9_999) for i in range(20)]
    text = str(Report(tuple(failed)))
    assert text.splitlines()[:11] == [
        "FAILED law[0]",
        "    law",
        "    raised KeyError: 1",
        "    also in 3 more: law[1], law[2], law[3]",
        "FAILED bug_case[utf8-0]",
        "    case",
        "    also in 2 more: bug_case[utf8-1], bug_case[utf8-2]",
        "FAILED whole_decode[a]",
        "    law",
        "    a",
        "    also in 1 more: whole_decode[bbb]",
    ]
    assert "FAILED for 18 more causes: law2, law3, " in text
    assert len(text) < 2_000
    assert text.endswith("0 passed, 29 failed, 0 skipped")


def test_the_text_has_the_failures_in_full_and_the_skipped_by_reason() -> None:
    other = Result("bug_case[x]", "skipped", "the detokenizer lacks: flush")
    assert str(Report((PASSED, FAILED, SKIPPED, other, SKIPPED))).splitlines() == [
        "FAILED whole_decode[a]",
        "    the text is right",
        "    expected  'a'",
        "    given     'b'",
        "SKIPPED 2: the detokenizer lacks: stop strings",
        "SKIPPED 1: the detokenizer lacks: flush",
        "1 passed, 1 failed, 3 skipped",
    ]


def test_failures_are_raised_and_skips_are_not() -> None:
    Report((PASSED, SKIPPED)).raise_for_failures()
    with pytest.raises(AssertionError, match=r"FAILED whole_decode\[a\]"):
        Report((PASSED, FAILED)).raise_for_failures()
    for nothing_tried in (Report(()), Report((SKIPPED,))):
        with pytest.raises(AssertionError, match="0 passed, 0 failed"):
            nothing_tried.raise_for_failures()


def test_without_hypothesis_the_error_has_the_install_line() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import streamdec.testing"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, check=False, encoding="utf-8")
    last = run.stderr.strip().splitlines()[-1]
    said = "streamdec.testing needs the library hypothesis: pip install 'streamdec[testing]'"
    assert last == f"streamdec.errors.MissingExtraError: {said}"


SUBJECTS = {
    name: Subject(name, HuggingFaceTokenizer(tokenizer))
    for name, tokenizer in small_tokenizers().items()
}


def ids_of(subject: Subject, *pieces: str) -> list[int]:
    """Ids by name; one letter from U+0080 to U+00FF is the token of that byte."""
    found = []
    for piece in pieces:
        byte = piece.encode("latin-1")[0] if len(piece) == 1 and piece >= "\x80" else None
        token_id = subject.tokenizer.token_to_id(piece) if byte is None else subject.byte_ids[byte]
        assert token_id is not None
        found.append(token_id)
    return found


@pytest.mark.parametrize(
    ("name", "pieces", "at_least", "at_most"),
    [
        ("byte_level", [], "", ""),
        ("byte_level", ["the"], "the", "the"),
        ("byte_level", ["the", "\xe4", "\xbd"], "the", "the"),
        ("byte_level", ["\xe4", "\xbd", "\xa0"], "你", "你"),
        ("byte_level", ["\xe4", "the"], "\ufffdthe", "\ufffdthe"),
        ("byte_level", ["\xff"], "\ufffd", "\ufffd"),
        ("byte_level", ["\xe0", "\x80"], "\ufffd\ufffd", "\ufffd\ufffd"),
        ("byte_level", ["\xef", "\xbf"], "", ""),
        ("byte_fallback", ["the", "\xe4"], "the", "the"),
        ("byte_fallback", ["\u2581the"], "the", "the"),
        # One more bad byte, and the library replaces the whole run.
        ("byte_fallback", ["the", "\xe4", "\xbd", "\xa0"], "the", "the你"),
        ("byte_fallback", ["\xe4", "\xbd", "\xa0", "the"], "你the", "你the"),
        ("wordpiece", ["the", "##s"], "thes", "thes"),
    ],
)
def test_certain_text_has_the_least_and_the_most_text(
    name: str, pieces: list[str], at_least: str, at_most: str
) -> None:
    subject = SUBJECTS[name]
    found = certain_text(subject, ids_of(subject, *pieces), skip_special_tokens=True)
    assert found == Certain(at_least, at_most)


def test_a_token_that_breaks_a_run_of_bytes_does_not_continue_it() -> None:
    """Of a vocabulary whose only tokens with U+FFFD are bytes, one is among those tried."""
    small = SUBJECTS["byte_fallback"]
    subject = Subject("other", small.tokenizer)
    subject.apart.append(subject.byte_ids[0xE4])
    found = certain_text(subject, ids_of(subject, "\xe4", "\xbd", "\xa0"), skip_special_tokens=True)
    assert found == Certain("", "你")


@pytest.mark.parametrize(
    ("text", "stops", "waiting"),
    [
        ("abc", [], 0),
        ("abc", ["cd"], 1),
        ("abc", ["cd", "bcd"], 2),
        ("abc", ["abc"], 0),
        ("aab", ["aabaac"], 3),
        ("abab", ["ababac", "x"], 4),
    ],
)
def test_waiting_for_returns_the_length_of_a_possible_stop(
    text: str, stops: list[str], waiting: int
) -> None:
    assert waiting_for(text, stops) == waiting


def test_a_byte_level_tokenizer_of_any_tokens() -> None:
    tokens = [b"a", b"\xe4", b"", b"\xbd\xa0", b"a"]
    tokenizer, ids = byte_level_tokenizer(tokens, [b"<s>"])
    subject = Subject("made", HuggingFaceTokenizer(tokenizer))
    given = [ids[token] for token in (b"a", b"\xe4", b"<s>", b"", b"\xbd\xa0")]
    assert whole_text(subject, given, skip_special_tokens=True) == "a你"
    assert whole_text(subject, given, skip_special_tokens=False) == "a\ufffd<s>\ufffd\ufffd"


def test_the_small_tokenizers_have_words_and_skipped_ids() -> None:
    assert all(subject.words and subject.skipped for subject in SUBJECTS.values())
