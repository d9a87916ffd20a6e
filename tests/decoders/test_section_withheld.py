"""What a SectionDecoder withholds beside a stop that may come, and what it counts."""

from __future__ import annotations

from typing import Any

import pytest

from streamdec import MockTokenizer, SectionDecoder, StopConditions, StopSequenceDecoder

TOKENS = [b"a", b"b", b"d", b"x", b"ab", b"z", b"", b"cd", b"b"]
A, B, D, X, AB, Z, SKIPPED, CD, OTHER_B = range(len(TOKENS))
TOKENIZER = MockTokenizer.from_tokens([each or b"<s>" for each in TOKENS], special_ids=[SKIPPED])


def decoder_of(*pairs: tuple[str | int, str | int], stop: str) -> SectionDecoder:
    return SectionDecoder(TOKENIZER, StopConditions(stop), sections={"r": pairs})


def shown(decoder: SectionDecoder, *ids: int) -> list[tuple[list[tuple[Any, str]], str]]:
    """For each id: the section and the text of each part, and what is withheld."""
    return [
        (
            [(part.section, part.text) for part in decoder.step(i).split() if part.text],
            decoder.jailed,
        )
        for i in ids
    ]


def test_a_marker_may_continue_in_what_a_stop_withholds() -> None:
    begun: list[Any] = [([], "a"), ([], "ab")]
    decoder = decoder_of(("abd", "cd"), stop="bz")
    assert shown(decoder, A, B, D, X) == [*begun, ([], ""), ([("r", "x")], "")]
    decoder = decoder_of(("abd", "cd"), stop="bz")
    assert shown(decoder, A, B, X) == [*begun, ([(None, "abx")], "")]
    decoder = decoder_of(("abd", "cd"), stop="bz")
    assert shown(decoder, A, B, Z) == [*begun, ([(None, "a")], "")]


def test_text_before_a_marker_that_a_stop_withholds_is_output() -> None:
    decoder = decoder_of(("xq", "q"), ("ab", "cd"), stop="abz")
    assert shown(decoder, X, AB, X) == [([], "x"), ([(None, "x")], "ab"), ([("r", "x")], "")]


def test_a_marker_does_not_continue_behind_an_id_that_is_a_marker() -> None:
    decoder = decoder_of(("abd", "cd"), (SKIPPED, "z"), stop="bz")
    assert shown(decoder, A, B, SKIPPED, X) == [
        *(([], "a"), ([], "ab"), ([(None, "a")], "b")),
        ([(None, "b"), ("r", "x")], ""),
    ]


def test_a_marker_does_not_continue_in_the_text_of_an_id_that_is_a_marker() -> None:
    decoder = decoder_of(("ab", "cd"), (B, "d"), stop="bz")
    assert shown(decoder, A, B, X) == [([], "a"), ([(None, "a")], "b"), ([("r", "x")], "")]
    decoder = decoder_of(("abb", "cd"), (OTHER_B, "d"), stop="bbz")
    assert shown(decoder, A, B, OTHER_B, X) == [
        *(([], "a"), ([], "ab"), ([(None, "a")], "bb")),
        ([(None, "b"), ("r", "x")], ""),
    ]


@pytest.mark.parametrize("size", range(7))
def test_the_ids_after_the_end_are_counted(size: int) -> None:
    ids = [X, A, B, Z, A, B][:size]
    plain = StopSequenceDecoder(TOKENIZER, StopConditions("bz"))
    decoder = decoder_of(("ab", "cd"), stop="bz")
    assert decoder.step_batch(ids).unread_tokens == plain.step_batch(ids).unread_tokens


def test_withholds_says_whether_anything_is_withheld() -> None:
    decoder = decoder_of(("ab", "cd"), stop="z")
    found = [decoder.withholds]
    counted = [decoder.num_characters]
    for token_id in (X, A, X, A, B, X):
        decoder.step(token_id)
        found.append(decoder.withholds)
        counted.append(decoder.num_characters)
    assert found == [False, False, True, False, True, False, False]
    assert counted == [0, 1, 1, 3, 3, 5, 6]
    decoder.step(CD)
    decoder.step(A)
    assert decoder.withholds
    decoder.flush()
    assert not decoder.withholds
