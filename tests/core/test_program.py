"""What a program does with a token, a prompt and a memory that comes as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from streamdec import DecodeStream, MockTokenizer
from streamdec.core.program import DEFAULT_OPTIONS, Options, Program, cascade_of, first_span
from streamdec.core.programs import program_for
from streamdec.protocols import CTC, ByteFallback, Concatenation, LiteralReplace, TextRules
from tests.core.tables import Touched

YOU = "你".encode()
TOKENS = [b"a", b" ", b"c", *(YOU[i : i + 1] for i in range(3)), b"<s>"]
SPECIAL = 6


def tokenizer_of(tokens: Sequence[bytes] = TOKENS, **options: Any) -> MockTokenizer:
    return MockTokenizer.from_tokens(tokens, [SPECIAL] if tokens is TOKENS else (), **options)


def compiled(tokenizer: MockTokenizer, options: Options = DEFAULT_OPTIONS) -> Program:
    found = program_for(tokenizer, options)
    assert isinstance(found, Program)
    return found


# --- tokens ---------------------------------------------------------------------------------------


def test_a_token_gives_text_and_the_next_memory() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer)
    assert found.transition(found.rest, 0) == ("a", found.rest)
    text, memory = found.transition(found.rest, 3)
    assert (text, found.held(memory), found.offsets(memory)) == ("", YOU[:1], (1, 1))
    assert found.transition(memory, SPECIAL)[1] == (*memory[:4], 2)
    with pytest.raises(KeyError):
        found.transition(memory, 99)


def test_an_unknown_id_gives_nothing_or_interrupts() -> None:
    tokenizer = tokenizer_of()
    for unknown_ids, text, held in (("skip", "", YOU[:1]), ("replace", "\ufffd\ufffd", b"")):
        found = compiled(tokenizer, Options(unknown_ids=unknown_ids))  # type: ignore[arg-type]
        _, memory = found.transition(found.rest, 3)
        given, memory = found.unknown(memory)
        assert (given, found.held(memory)) == (text, held)


def test_the_offsets_move_when_text_came_and_none_is_withheld() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer)
    memory, seen = found.prime([]), []
    for token_id in (0, 3, 4, 5, SPECIAL, SPECIAL, 0, 0):
        _, memory = found.transition(memory, token_id)
        seen.append(found.offsets(memory))
    assert seen == [(1, 0), (1, 1), (1, 2), (3, 0), (3, 1), (3, 2), (3, 0), (1, 0)]


def test_text_that_leaves_a_tail_withheld_does_not_move_the_offsets() -> None:
    tokenizer = tokenizer_of([b"a ", b"b"])
    found = compiled(tokenizer, Options(clean_up_tokenization_spaces=True))
    text, memory = found.transition(found.rest, 0)
    assert (text, found.held(memory), found.offsets(memory)) == ("a", b" ", (1, 1))
    text, memory = found.transition(memory, 1)
    assert (text, found.held(memory), found.offsets(memory)) == (" b", b"", (2, 0))


def test_flush_gives_what_was_withheld_and_leaves_nothing() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer, Options(clean_up_tokenization_spaces=True))
    text, memory = found.flush(found.prime([1, 3, 4]))
    assert text == " \ufffd"
    assert found.held(memory) == b""
    assert found.flush(memory)[0] == ""


def test_what_waits_is_counted() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer, Options(clean_up_tokenization_spaces=True))
    assert not any(map(any, (found.waiting(found.rest).tails, found.waiting(found.rest)[:2])))
    waiting = found.waiting(found.prime([1, 3, 4]))
    assert (waiting.data, waiting.tokens, sum(waiting.tails)) == (len(YOU) - 1, 0, 1)


def test_a_memory_is_settled_without_its_offsets_and_may_then_be_the_one_at_rest() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer)
    memory = found.prime([0, 0, 0])
    assert found.offsets(memory) != found.offsets(found.rest)
    assert found.settled(memory) is found.settled(found.rest) is found.rest
    begun = found.prime([0, 0, 3])
    assert found.settled(begun) == (*begun[:3], 1, 0)


# --- prompts --------------------------------------------------------------------------------------

LONG = 100_000


def test_clean_up_reads_a_long_prompt_only_as_far_back_as_needed() -> None:
    tokenizer = tokenizer_of([b"x", b" ", b"'", b" word"])
    found = compiled(tokenizer, Options(clean_up_tokenization_spaces=True))
    prompt = Touched([0] * LONG + [1, 2])
    memory = found.prime(prompt)
    assert prompt.touched < 100
    assert found.held(memory) == b" '"


def test_a_prompt_of_nothing_but_pattern_letters_is_read_in_one_linear_pass() -> None:
    tokenizer = tokenizer_of([b"s", b" "])
    found = compiled(tokenizer, Options(clean_up_tokenization_spaces=True))
    prompt = Touched([0] * LONG + [1])
    assert found.held(found.prime(prompt)) == b" "
    assert prompt.touched < 3 * LONG


def test_replaces_of_the_tokenizer_itself_are_primed_too() -> None:
    rules = TextRules(Concatenation(), ("x", 1), (LiteralReplace("ab", "!"),))
    tokenizer = tokenizer_of([b"x", b"a", b"b", b"c"], decoder=rules)
    for prompt in ([0, 1], [1], [3] * 50 + [1], [1] * 50):
        assert DecodeStream(tokenizer, prompt).step_batch([2, 3]) == ["!", "c"]


# --- memories as JSON -----------------------------------------------------------------------------


def test_a_memory_at_rest_is_empty_json() -> None:
    found = compiled(tokenizer_of())
    assert found.dump(found.rest) == {}
    assert found.load({}) == found.rest


MALFORMED: list[Any] = [
    None,
    [],
    7,
    {"pending": "41"},
    {"pending": "e4bda0"},
    {"pending": "e4f"},
    {"pending": 4},
    {"pending": "e4 bd e4"},
    {"span": -1},
    {"span": 1.0},
    {"span": True},
    {"wait": 2**63},
    {"wait": None},
    {"state": 0},
    {"state": [None]},
    {"tails": [""]},
    {"tails": None},
    {"other": 1},
    {1: 1},
]


@pytest.mark.parametrize("data", MALFORMED)
def test_what_is_no_memory_is_refused(data: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError)):
        compiled(tokenizer_of()).load(data)


def test_tails_that_begin_no_pattern_are_refused() -> None:
    tokenizer = tokenizer_of()
    found = compiled(tokenizer, Options(clean_up_tokenization_spaces=True))
    good = found.dump(found.prime([1])) | {"tails": [" ", *[""] * 9]}
    assert found.load(json.loads(json.dumps(good)))[2][0] == " "
    for tails in (["x", *[""] * 9], [" .", *[""] * 9], [""] * 9, [""] * 11, [0] * 10, None):
        with pytest.raises((ValueError, TypeError)):
            found.load({"tails": tails})


# --- small things ---------------------------------------------------------------------------------


WRONG: list[tuple[str, type[Exception], list[Any]]] = [
    ("skip_special_tokens", TypeError, [1, None, "yes"]),
    ("clean_up_tokenization_spaces", TypeError, [0, None, "no"]),
    ("byte_fallback", ValueError, ["", "Eager", None, ["eager"], 1]),
    ("unknown_ids", ValueError, ["", "Skip", None, ["skip"], 1]),
]


@pytest.mark.parametrize(("name", "error", "values"), WRONG)
def test_options_are_checked_by_name(name: str, error: type[Exception], values: list[Any]) -> None:
    for value in values:
        with pytest.raises(error, match=f"{name} must be"):
            Options()._replace(**{name: value}).check()


def test_the_first_span_is_five_tokens_or_the_whole_prompt() -> None:
    assert [first_span([0] * length) for length in (0, 1, 5, 6, 1000)] == [0, 1, 5, 5, 5]


def test_a_tokenizers_own_replaces_go_before_the_clean_up() -> None:
    own = LiteralReplace("_", " ")
    cascade = cascade_of([own], Options(clean_up_tokenization_spaces=True))
    assert cascade.rules[0] is own
    assert cascade.flush(cascade.start, "a_.") == "a."
    assert cascade_of([own], DEFAULT_OPTIONS).rules == (own,)


def test_rows_of_repetitions_are_bounded_by_the_vocabulary() -> None:
    tokenizer = tokenizer_of([b"a", b"b", b"|"], decoder=CTC())
    DecodeStream(tokenizer).step_batch([0, 1, 2] * 100)
    assert len(compiled(tokenizer)._rows) <= 8


def test_only_traceable_programs_have_spans() -> None:
    assert compiled(tokenizer_of()).has_spans
    assert not compiled(tokenizer_of(), Options(clean_up_tokenization_spaces=True)).has_spans
    stripped = TextRules(ByteFallback(), strip_left=("é", 1))
    assert not compiled(tokenizer_of([b"a"], decoder=stripped)).has_spans
