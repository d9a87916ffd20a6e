"""Every way to stream a row: what is broken is found, and nothing is found where nothing is."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, SupportsIndex

import pytest

from streamdec import HuggingFaceTokenizer, MockTokenizer
from streamdec.chunks import Chunk
from streamdec.cli import verify_streams
from streamdec.cli.verify_streams import Difference, Streaming
from streamdec.core.decode_stream import DecodeStream
from streamdec.core.stop_sequence_decoder import StopSequenceDecoder
from streamdec.errors import TokenIdError, TokenizerLibraryError
from streamdec.protocols import Decoder
from tests.cli.running import LIBRARY, TOKENIZER
from tests.support.wrappers import Wrapper
from tests.support.zoo import ZOO

LOST = 12
IDS = LIBRARY.encode(
    "Hello! 你好, two bytes from the middle of a character: नमस्ते 👋 and so on."
).ids


def difference(tokenizer: Any, ids: Sequence[Any], seed: object = 0) -> Difference | None:
    return Streaming(tokenizer).difference(ids, random.Random(str(seed)))


def found(seeds: Iterable[int] = range(40)) -> Difference:
    """What is found of the demo's tokenizer with one of ``seeds``."""
    tokenizer = HuggingFaceTokenizer(TOKENIZER)
    for seed in seeds:
        one = difference(tokenizer, IDS, seed)
        if one is not None:
            return one
    raise AssertionError("nothing was found")


@pytest.mark.parametrize("name", sorted(ZOO))
def test_no_difference_is_found_if_the_laws_hold(name: str) -> None:
    tokenizer = HuggingFaceTokenizer(ZOO[name]())
    chance = random.Random(name)
    tried = Streaming(tokenizer)
    for size in (0, 1, 12, 80):
        ids = [chance.randrange(tokenizer.vocab_size + 5) for _ in range(size)]
        assert tried.difference(ids, chance) is None


# --- broken machines ------------------------------------------------------------------------------


class LosesInBatches(Wrapper):
    kind = DecodeStream

    def feed(self, token_ids: Iterable[SupportsIndex]) -> str:
        text: str = self.decoder.feed([*token_ids][:-1])
        return text


class LosesInStep(Wrapper):
    """The text that one token completes is lost."""

    kind = DecodeStream

    def step(self, token_id: SupportsIndex) -> str:
        text: str = self.decoder.step(token_id)
        return "" if self.num_tokens == LOST + 1 else text


class LosesAtTheEnd(Wrapper):
    kind = DecodeStream

    def flush(self) -> str:
        self.decoder.flush()
        return "?"


class ForgetsWhenRestored(Wrapper):
    kind = DecodeStream

    @classmethod
    def restore(cls, tokenizer: Decoder, snapshot: Mapping[str, Any]) -> Self:
        return cls(tokenizer, **snapshot["options"])


class EchoesThePrompt(Wrapper):
    kind = DecodeStream

    def flush(self) -> str:
        text: str = self.decoder.flush()
        return text + ("!" if self.num_prompt_tokens else "")


class Raises(Wrapper):
    kind = DecodeStream

    def step(self, token_id: SupportsIndex) -> str:
        if self.num_tokens == 3:
            raise ZeroDivisionError("the fourth")
        text: str = self.decoder.step(token_id)
        return text


class LetsStopsOut(Wrapper):
    kind = StopSequenceDecoder

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        chunk: Chunk = self.decoder.feed(token_ids)
        is_stop = chunk.finish_reason == "stop"
        return replace(chunk, text=f"{chunk.text}{chunk.stop_reason}") if is_stop else chunk


class SwallowsTheEnd(Wrapper):
    kind = StopSequenceDecoder

    def flush(self, finish_reason: Any = "length") -> Chunk:
        chunk: Chunk = self.decoder.flush(finish_reason)
        return replace(chunk, text="")

    def feed(self, token_ids: Iterable[SupportsIndex]) -> Chunk:
        # A character of each token waits for the end, for which it has no room.
        chunk: Chunk = self.decoder.feed(token_ids)
        return replace(chunk, text=chunk.text[:-1])


class ForgetsThePrompt(Wrapper):
    """Also that a character was begun there."""

    kind = StopSequenceDecoder

    def __init__(
        self, tokenizer: Decoder, conditions: Any, _: Iterable[SupportsIndex] = (), **options: Any
    ) -> None:
        super().__init__(tokenizer, conditions, **options)


@pytest.mark.parametrize(
    ("name", "broken", "how"),
    [
        ("DecodeStream", LosesInStep, "DecodeStream, one by one"),
        ("DecodeStream", LosesAtTheEnd, "DecodeStream, one by one"),
        ("DecodeStream", LosesInBatches, "DecodeStream in random batches"),
        ("DecodeStream", ForgetsWhenRestored, "DecodeStream in random batches"),
        ("DecodeStream", EchoesThePrompt, "DecodeStream after a prompt"),
        ("DecodeStream", Raises, "DecodeStream, one by one"),
        ("StopSequenceDecoder", LetsStopsOut, "StopSequenceDecoder with a stop"),
        ("StopSequenceDecoder", ForgetsThePrompt, "StopSequenceDecoder with a stop after a prompt"),
        ("StopSequenceDecoder", SwallowsTheEnd, "StopSequenceDecoder in random batches"),
    ],
)
def test_a_broken_stream_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, broken: type, how: str
) -> None:
    monkeypatch.setattr(verify_streams, name, broken)
    assert found().how.startswith(how)


def test_the_character_is_the_first_that_differs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(verify_streams, "DecodeStream", LosesInStep)
    one = found()
    texts = DecodeStream(HuggingFaceTokenizer(TOKENIZER)).step_batch(IDS)
    before = "".join(texts[:LOST])
    after = "".join(texts[LOST + 1 :])
    assert texts[LOST], "a token that completes text"
    assert after[0] != texts[LOST][0], "and other text than the next"
    assert one.position == len(before)
    end = len(before) + 20
    assert len(before) <= 20
    assert one.expected == (before + texts[LOST] + after)[:end]
    assert one.given == (before + after)[:end]
    assert one.options == {"skip_special_tokens": True, "byte_fallback": "eager"}


def test_an_exception_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_streams, "DecodeStream", Raises)
    one = found()
    assert one.position is None
    assert one.error == "ZeroDivisionError: the fourth"


def test_a_difference_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_streams, "DecodeStream", Raises)
    tried = Streaming(HuggingFaceTokenizer(TOKENIZER))
    one = tried.difference(IDS, random.Random("0"))
    assert one is not None
    ids, again = tried.smallest(IDS, one, "0")
    assert len(ids) == 4
    assert again.error == one.error


# --- the oracle -----------------------------------------------------------------------------------


class Crooked(MockTokenizer):
    """Its table and its decode are at odds, where a sample of single tokens does not show it."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text = super().decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text.replace("test token test", "test")


def test_the_oracle_is_the_tokenizers_own_decode() -> None:
    one = difference(Crooked(), [1, 3, 4, 3, 2])
    assert one is not None
    assert one.position == 11


class Mute(MockTokenizer):
    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        if list(token_ids) == [1, 3, 4, 3, 2]:
            raise TokenizerLibraryError("no voice")
        return super().decode(token_ids, skip_special_tokens=skip_special_tokens)


def test_an_oracle_that_fails_is_not_a_difference() -> None:
    with pytest.raises(TokenizerLibraryError, match="no voice"):
        difference(Mute(), [1, 3, 4, 3, 2])


@pytest.mark.parametrize("bad", [-1, True, "1", 2**32, 1.0, None])
def test_an_object_that_is_not_an_id_is_rejected_with_its_place(bad: object) -> None:
    with pytest.raises(TokenIdError, match=r"token 2 "):
        difference(MockTokenizer(), [1, 2, bad])


def test_eager_text_of_bad_bytes_is_compared_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ZOO["byte_fallback_strip"]()
    bad = [library.token_to_id(name) for name in ("<0xC3>", "<0xA9>", "<0xFF>")]
    assert None not in bad
    tried = Streaming(HuggingFaceTokenizer(library))
    assert tried.difference(bad, random.Random("0")) is None
    assert tried.unjudged == 1
    # Its ways are still compared.
    monkeypatch.setattr(verify_streams, "DecodeStream", LosesInBatches)
    assert tried.difference(bad, random.Random("0")) is not None


def test_eager_text_of_whole_characters_is_compared_with_the_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = ZOO["byte_fallback_strip"]()
    ids = [library.token_to_id(name) for name in ("<0xC3>", "<0xA9>", "<0xC3>", "<0xA9>")]

    class LosesWhenEager(Wrapper):
        kind = DecodeStream

        def flush(self) -> str:
            self.decoder.flush()
            return "" if self.options["byte_fallback"] == "exact" else "x"

    tried = Streaming(HuggingFaceTokenizer(library))
    assert tried.difference(ids, random.Random("0")) is None
    assert tried.unjudged == 0
    monkeypatch.setattr(verify_streams, "DecodeStream", LosesWhenEager)
    tried.options = [one for one in tried.options if one["byte_fallback"] == "eager"]
    one = tried.difference(ids, random.Random("0"))
    assert one is not None
    assert one.how == "DecodeStream, one by one"
