"""The verdict: yes for every decoder there is, and no, at the right token, for one that errs."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import DecodeStream, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.errors import TokenIdError
from streamdec.trace import Tracer, Verdict
from streamdec.trace.records import TokenRecord
from streamdec.trace.verdict import verdict_on
from tests.stop_laws import setup_of
from tests.stop_model import Situation
from tests.test_stop_patterns import ANY

TOKENS = [b"Hi", b" you", b" \xe6\x97", b"\xa5", b"\nUs", b"er:", b"!", b"<end>", b"."]
IDS = [0, 1, 2, 3, 6, 4, 5]
"""Hi you, a character over two tokens, and a stop over two."""


def tokenizer() -> MockTokenizer:
    return MockTokenizer.from_tokens(TOKENS, [7])


def traced(ids: Sequence[int], *, flush: bool = True, **conditions: Any) -> Tracer[Any]:
    tracer = Tracer(StopSequenceDecoder(tokenizer(), StopConditions(**conditions)))
    tracer.step_batch(ids)
    if flush:
        tracer.flush()
    return tracer


@given(situation=ANY, group=st.integers(1, 4))
def test_the_text_of_a_stopped_stream_equals_the_full_decode(
    situation: Situation, group: int
) -> None:
    tracer = Tracer(setup_of(situation).decoder(), situation.prompt)
    try:
        for start in range(0, len(situation.ids), group):
            if not tracer.finished:
                tracer.step_batch(situation.ids[start : start + group])
    except TokenIdError:
        assert "TokenIdError" in (tracer.trace().error or "")
    if not tracer.finished:
        assert tracer.trace().verdict == Verdict(None, reason="the stream continues")
    tracer.flush()
    verdict = tracer.trace().verdict
    if situation.unknown_ids == "replace":
        assert "which decode() does not have" in verdict.reason
    else:
        assert verdict.equal, verdict


def test_a_prompt_is_known_again_after_a_reset() -> None:
    stream = DecodeStream(tokenizer(), [0, 2])
    stream.step(3)
    tracer = Tracer(stream, [0, 2])
    assert tracer.trace().header.after_prompt
    tracer.reset()
    tracer.step(3)
    tracer.flush()
    assert tracer.trace().verdict == Verdict(equal=True)


def test_a_stop_in_the_text_that_a_stop_id_ends_is_no_difference() -> None:
    """The id would complete the character, of which the stop has the U+FFFD."""
    tracer = traced([0, 2, 3], visible_stop=" \ufffd", stop_token_ids=[3])
    trace = tracer.trace()
    assert (trace.text, tracer.match.stop) == ("Hi \ufffd", " \ufffd")
    assert trace.verdict == Verdict(equal=True)


def test_a_decode_that_raises_gives_no_verdict() -> None:
    class Broken(MockTokenizer):
        def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
            if len(token_ids) > 1:
                raise RuntimeError("Hi you: no")
            return super().decode(token_ids, skip_special_tokens=skip_special_tokens)

    tracer = traced([0, 1])
    tracer.decoder.tokenizer = Broken.from_tokens(TOKENS, [7])
    trace = tracer.trace()
    assert trace.verdict == Verdict(None, reason="decode() raised RuntimeError: Hi you: no")


def test_text_that_decode_does_not_clean_up_is_not_compared() -> None:
    tracer = Tracer(DecodeStream(tokenizer(), clean_up_tokenization_spaces=True))
    tracer.flush()
    told = "clean_up_tokenization_spaces=True, which decode() does not have"
    assert tracer.trace().verdict == Verdict(None, reason=told)


Breaking = Callable[[TokenRecord], TokenRecord]

LOST: Breaking = lambda token: replace(token, text="")  # noqa: E731 (each is one word of a table)
CHANGED: Breaking = lambda token: replace(token, text="#" + token.text[1:])  # noqa: E731
DOUBLED: Breaking = lambda token: replace(token, text=token.text * 2)  # noqa: E731
LEAKED: Breaking = lambda token: replace(token, text=token.text + "?")  # noqa: E731


def broken(tracer: Tracer[Any], index: int, breaking: Breaking) -> Verdict:
    """The verdict on a trace in which one token did something else."""
    trace = tracer.trace()
    assert trace.verdict.equal
    tokens = list(trace.tokens)
    tokens[index] = breaking(tokens[index])
    assert tokens[index] != trace.tokens[index]
    other = replace(trace, tokens=tuple(tokens))
    ids = [token.token_id or 0 for token in tokens]
    match = getattr(tracer, "match", None)
    return verdict_on(other, tracer.decoder.tokenizer, ids, None, match)


@pytest.mark.parametrize(
    "conditions",
    [
        {},
        {"stop": "\nUser:"},
        {"visible_stop": "\nUser:"},
        {"stop_token_ids": [5]},
        {"visible_stop_token_ids": [5]},
        {"eos_token_ids": [5]},
        {"stop_token_ids": [5], "include_stop_str_in_output": True},
        {"max_tokens": 6},
    ],
    ids=str,
)
def test_a_token_that_gives_something_else_is_named(conditions: dict[str, Any]) -> None:
    for index, breaking in itertools.product([0, 1, 3, 4], [LOST, CHANGED, DOUBLED, LEAKED]):
        verdict = broken(traced(IDS, **conditions), index, breaking)
        assert (verdict.equal, verdict.token_index) == (False, index)
        assert f"first difference at token {index}" in str(verdict)


def test_text_that_is_lost_before_a_regex_is_a_difference() -> None:
    tracer = traced(IDS, stop_regex=[r"\n\w+:"], max_match_length=9)
    assert tracer.finish_reason == "stop"
    verdict = broken(tracer, 4, LOST)
    assert (verdict.equal, verdict.token_index) == (False, 4)
    assert verdict.reason == r"the stream has 'Hi you 日', decode() has 'Hi you 日!\nUser:'"


def test_jailed_text_is_compared_too() -> None:
    tracer = traced([0, 4, 6], stop="\nUser:")
    trace = tracer.trace()
    first, us, last = trace.tokens
    wrong = replace(us, jailed="#Us"), replace(last, text="#Us!")
    verdict = verdict_on(replace(trace, tokens=(first, *wrong)), tokenizer(), [0, 4, 6], None)
    assert (verdict.token_index, verdict.position) == (1, 2)


def test_a_difference_in_the_flush_is_at_no_token() -> None:
    tracer = traced([0, 2])
    trace = tracer.trace()
    assert trace.end is not None
    lost = replace(trace, end=replace(trace.end, text=""))
    verdict = verdict_on(lost, tokenizer(), [0, 2], None)
    assert (verdict.equal, verdict.token_index, verdict.position) == (False, None, 3)
    assert "no, first difference after the last: the stream has 'Hi '" in str(verdict)
