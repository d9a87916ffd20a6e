"""The windowed route as a stream takes it, over tokenizers that only have ``decode``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from streamdec import DecodeStream, HuggingFaceTokenizer, MockTokenizer
from streamdec.errors import RewriteError, TokenIdError
from tests.support.wrappers import Bare
from tests.support.zoo import UNCOMPILED

WORDS = ["", "Hello", " world", " .", " don", " n't", "é", "<s>"]


class SlowTokenizer:
    """The ``decode`` of a slow tokenizer of transformers, which cleans up by default."""

    def __init__(self) -> None:
        self.cleaned: set[bool] = set()

    def decode(
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **_kwargs: Any,
    ) -> str:
        assert isinstance(token_ids, list)
        self.cleaned.add(bool(clean_up_tokenization_spaces is None or clean_up_tokenization_spaces))
        words = [WORDS[i] for i in token_ids if not (skip_special_tokens and WORDS[i] == "<s>")]
        text = "".join(words)
        return text.replace(" .", ".").replace(" n't", "n't") if True in self.cleaned else text


class Strict(SlowTokenizer):
    """The same, without other keywords."""

    def decode(  # type: ignore[override]
        self,
        token_ids: Sequence[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
    ) -> str:
        return super().decode(token_ids, skip_special_tokens, clean_up_tokenization_spaces)


SENTENCE = [7, 1, 2, 4, 5, 7, 2, 3]


@pytest.mark.parametrize("kind", [SlowTokenizer, Strict])
def test_a_slow_tokenizer_streams_with_its_clean_up_off(kind: type[SlowTokenizer]) -> None:
    tokenizer = kind()
    stream = DecodeStream(tokenizer)
    assert stream.route == "window"
    texts = stream.step_batch(SENTENCE)
    assert texts == ["", "Hello", " world", " don", " n't", "", " world", " ."]
    assert stream.flush() == ""
    assert tokenizer.cleaned == {False}


def test_clean_up_is_done_on_the_stream() -> None:
    stream = DecodeStream(SlowTokenizer(), clean_up_tokenization_spaces=True)
    texts = "".join(stream.step_batch(SENTENCE)) + stream.flush()
    assert texts == "Hello world donn't world."
    assert DecodeStream(SlowTokenizer(), [1], clean_up_tokenization_spaces=True).step(3) == "."


@pytest.mark.parametrize(("spaces", "withheld"), [(1, 1), (6, 6), (9, 9), (40, 10)])
def test_a_prompts_last_spaces_are_withheld_one_for_each_pattern(
    spaces: int, withheld: int
) -> None:
    tokenizer = MockTokenizer.from_tokens([b"x", b" ", b"."])
    bare, compiled = (
        DecodeStream(decoder, [0, *[1] * spaces], clean_up_tokenization_spaces=True)
        for decoder in (Bare(tokenizer), tokenizer)
    )
    assert compiled.step(2) == " " * (withheld - 1) + "."
    assert bare.step(2) == " " * (withheld - 1) + "."


def test_unknown_ids_can_raise_if_the_tokenizer_has_piece() -> None:
    tokenizer = HuggingFaceTokenizer(UNCOMPILED["regex_after_fuse"]())
    known = tokenizer.token_to_id("l")
    assert known is not None
    stream = DecodeStream(tokenizer, unknown_ids="error")
    with pytest.raises(TokenIdError) as raised:
        stream.step_batch([known, 99_999])
    assert (raised.value.token_id, raised.value.index) == (99_999, 1)
    assert stream.num_tokens == 1
    skipping = DecodeStream(tokenizer)
    assert skipping.step_batch([known, 99_999, known]) == ["l", "", "l"]
    assert skipping.unknown_tokens == 1


class Waiting:
    """``decode`` changes its text once a 2 comes, but its end may yet become a character."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        is_changed = 2 in token_ids
        return "ab"[is_changed] * len(token_ids) + "\ufffd" * is_changed


def test_text_that_flush_would_reject_is_not_held() -> None:
    stream = DecodeStream(Waiting())
    assert stream.step_batch([0, 2]) == ["a", ""]
    assert (stream.held, stream.pending_text) == (b"", "")
    with pytest.raises(RewriteError):
        stream.flush()
    assert not stream.finished


class Failing:
    """``decode`` fails for two ids, but can be repaired."""

    is_repaired = False

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if len(token_ids) == 2 and not self.is_repaired:
            raise RuntimeError("broken")
        return "\ufffd" * len(token_ids) if len(token_ids) < 3 else "abc"


def test_what_a_stream_says_of_itself_does_not_raise_what_decode_raises() -> None:
    tokenizer = Failing()
    stream = DecodeStream(tokenizer)
    assert stream.step(0) == ""
    tokenizer.is_repaired = True
    assert stream.step(0) == ""
    tokenizer.is_repaired = False
    assert (stream.held, stream.pending_text) == (b"", "")
    assert "2 tokens" in repr(stream)
    with pytest.raises(RuntimeError, match="broken"):
        stream.flush()
    tokenizer.is_repaired = True
    assert stream.step(0) + stream.flush() == "abc"


class Broken:
    """A tokenizer with a mistake in its ``decode``."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        texts = {0: "a", 1: "b"}
        return "".join(texts.get(token_id) or {"c": "C"}["d"] for token_id in token_ids)


def test_a_key_error_of_the_tokenizer_is_not_an_unknown_id() -> None:
    stream = DecodeStream(Broken())
    assert stream.step_batch([0, 1]) == ["a", "b"]
    with pytest.raises(KeyError, match="'d'"):
        stream.step(3)
    assert stream.unknown_tokens == 0
