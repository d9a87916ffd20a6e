"""What an encoding is: one buffer, and everything else made of it."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import MockTokenizer
from streamdec.errors import EncodeError
from streamdec.tokenizers import Encoding, SpecialTokens

IDS = st.lists(st.integers(0, 2**32 - 1), max_size=40)


@given(IDS)
def test_ids_their_buffer_and_bytes_are_the_same(ids: list[int]) -> None:
    encoding = Encoding(ids)
    assert encoding.ids == tuple(ids) == tuple(encoding) == tuple(encoding.buffer)
    assert bytes(encoding) == b"".join(i.to_bytes(4, "little") for i in ids)
    assert Encoding(bytes(encoding)) == encoding != Encoding([*ids, 1])
    assert hash(Encoding(bytes(encoding))) == hash(encoding)
    assert len(encoding) == len(ids)
    assert encoding.ids is encoding.ids
    assert encoding.buffer.readonly


def test_what_is_not_ids_is_rejected() -> None:
    for wrong in ([-1], [2**32]):
        with pytest.raises(OverflowError):
            Encoding(wrong)
    for data in (b"a", b"abc", b"abcde"):
        with pytest.raises(ValueError, match="multiple"):
            Encoding(data)


def test_tokens_and_offsets_are_made_when_asked_for() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", "é".encode(), b"\xf0\x9f", b"\x98\x8b"])
    encoding = tokenizer.encode("aé😋a")
    assert encoding.ids == (0, 1, 2, 3, 0)
    assert encoding.tokens == ("a", "é", "\\xf0\\x9f", "\\x98\\x8b", "a")
    assert encoding.offsets == ((0, 1), (1, 2), (2, 3), (2, 3), (3, 4))
    assert encoding.byte_offsets == ((0, 1), (1, 3), (3, 5), (5, 7), (7, 8))


def test_a_pickled_encoding_keeps_what_was_asked_for() -> None:
    encoding = MockTokenizer.from_tokens([b"a"]).encode("aa")
    assert encoding.tokens == ("a", "a")
    copy = pickle.loads(pickle.dumps(encoding))
    assert copy == encoding
    assert copy.tokens == ("a", "a")
    with pytest.raises(LookupError, match="has no tokenizer"):
        assert copy.offsets


def test_offsets_of_a_text_that_the_tokens_do_not_spell() -> None:
    with pytest.raises(EncodeError):
        assert MockTokenizer().encode("Hello, wide world").offsets


def test_special_tokens_are_each_there_once() -> None:
    tokens = SpecialTokens(
        bos_token="<s>", eos_token="<s>", pad_token="<p>", additional_special_tokens=("<p>", "<x>")
    )
    assert tokens.all == ("<s>", "<p>", "<x>")
    assert SpecialTokens().all == ()


@pytest.mark.parametrize("is_long", [False, True])
def test_an_error_of_a_batch_names_the_index_of_its_text(is_long: bool) -> None:
    texts = ["Hello"] * 40
    if is_long:
        texts[0] = "Hello " * 2_000  # divided among threads
    for bad, kind, said in [
        ("<eos>", EncodeError, "the special token '<eos>'"),
        ("a\ud800", EncodeError, "U\\+D800 at index 1"),
        (7, TypeError, "must be a str, not int"),
    ]:
        batch: Any = [*texts, bad, *texts, bad]
        told = rf"^texts\[40\]: .*{said}"
        with pytest.raises(kind, match=told):
            MockTokenizer().encode_batch(batch, special="forbid")
        with pytest.raises(kind, match=told):
            asyncio.run(MockTokenizer().aencode_batch(batch, special="forbid"))
