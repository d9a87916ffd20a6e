"""StopSequenceDecoder on cases made by hand: what the laws once did not reach."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from streamdec import (
    MockTokenizer,
    StopConditions,
    StopRegexTimeoutError,
    StopSequenceDecoder,
    regex_stops,
)
from streamdec.core.counting import TICKS


def decoder_of(
    tokens: Sequence[bytes], conditions: StopConditions, special: Sequence[int] = ()
) -> StopSequenceDecoder:
    tokenizer = MockTokenizer.from_tokens(tokens, special)
    return StopSequenceDecoder(tokenizer, conditions, skip_special_tokens=False)


def test_what_a_jail_gave_out_is_not_cut_again_when_a_hidden_sequence_ends_the_stream() -> None:
    conditions = StopConditions(stop="abaa", stop_token_sequences=[[2, 3]])
    decoder = decoder_of([b"a", b"ba", b"b", b"<s>"], conditions, [3])
    assert [decoder.step(token_id).text for token_id in (0, 1, 2, 3)] == ["", "", "ab", "a"]
    assert decoder.match is not None
    assert (decoder.match.start, decoder.match.end, decoder.match.tokens_before) == (3, 3, 2)


@pytest.mark.parametrize("ids", [[0, 1, 2, 3], [0, 1, 3, 4]])
def test_a_shown_sequence_begins_after_the_character_that_it_breaks(ids: list[int]) -> None:
    conditions = StopConditions(stop_token_sequences=[ids[2:]], include_stop_str_in_output=True)
    decoder = decoder_of([b"a", b"-\xe4", b"", b"<s>", b"x"], conditions)
    text = "".join(decoder.step(token_id).text for token_id in ids)
    assert decoder.match is not None
    assert text[: decoder.match.start] == "a-\ufffd"
    assert decoder.match.end == len(text)


def test_a_last_token_whose_release_fails_was_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = decoder_of([b"x", b"\xe4", b"y"], StopConditions(stop_regex="ab", max_tokens=2))
    decoder.step(0)
    before = decoder.snapshot()
    with monkeypatch.context() as patched:
        patched.setattr(regex_stops, "TIMEOUT", 0.0)
        with pytest.raises(StopRegexTimeoutError):
            decoder.step(1)
    assert decoder.snapshot() == before
    assert decoder.step(1).text == "\ufffd"
    assert decoder.finish_reason == "length"


@pytest.mark.parametrize("limit", [1, 2, TICKS, TICKS + 1, TICKS + 2, 2 * TICKS + 3])
@pytest.mark.parametrize("id_at_rest", [0, 2])
def test_the_limit_is_met_to_the_token_however_long_the_stream(limit: int, id_at_rest: int) -> None:
    """The hot path does not ask for it: it runs out of ticks. 0 is looked up in another way."""
    tokenizer = MockTokenizer.from_tokens([b"a", b"b", b"c"])
    for _ in range(2):
        decoder = StopSequenceDecoder(tokenizer, StopConditions(stop="x", max_tokens=limit))
        chunk = decoder.step_batch([id_at_rest] * (limit + 5))
        assert (decoder.num_tokens, chunk.unread_tokens) == (limit, 5)
        assert len(chunk.text) == limit
        assert chunk.finish_reason == "length"
