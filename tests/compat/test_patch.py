"""The patch: where it is looked up, how it is undone, and who else may be there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tokenizers.decoders
from fastokens import _native as fastokens
from fastokens._compat import _TokenizerShim
from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from streamdec.compat import TokenizersDecodeStream, patch_decode_stream
from tests.support.zoo import ZOO


def place() -> Any:
    """What vLLM finds."""
    return tokenizers.decoders.DecodeStream


@pytest.fixture(autouse=True)
def _is_restored() -> Iterator[None]:
    yield
    assert place() is DecodeStream


@pytest.fixture
def tokenizer() -> Tokenizer:
    return ZOO["byte_level_trained"]()


def leaks(tokenizer: Any) -> bool:
    """Whether the patched stream outputs a prompt that ends inside a character."""
    ids = tokenizer.encode("Größe 😀").ids
    stream = place()(ids=ids[:-1], skip_special_tokens=True)
    text: str = stream.step(tokenizer, ids[-1])
    assert text.endswith("😀")
    return text != "😀"


def test_the_patched_class_is_used_until_the_patch_is_undone(tokenizer: Tokenizer) -> None:
    patch = patch_decode_stream()
    assert place() is TokenizersDecodeStream
    assert not leaks(tokenizer)
    patch.undo()
    assert place() is DecodeStream
    assert leaks(tokenizer)
    patch.undo()
    assert place() is DecodeStream


def test_undoing_the_last_patch_restores_the_library() -> None:
    first, second, third = (patch_decode_stream() for _ in range(3))
    first.undo()
    first.undo()
    assert place() is TokenizersDecodeStream
    with third:
        second.undo()
        assert place() is TokenizersDecodeStream
    assert place() is DecodeStream


def test_existing_streams_continue_after_the_patch_is_undone(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("😀").ids
    with patch_decode_stream():
        stream = place()()
        stream.step(tokenizer, ids[0])
    assert [stream.step(tokenizer, token_id) for token_id in ids[1:]][-1] == "😀"


def test_ours_over_that_of_fastokens(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    """It hands its own kind of tokenizer to the stream."""
    monkeypatch.setattr(tokenizers.decoders, "DecodeStream", fastokens.DecodeStream)
    shim = _TokenizerShim(tokenizer)
    assert leaks(shim)
    with patch_decode_stream():
        assert not leaks(shim)
        assert not leaks(tokenizer)
        first, second = (place()() for _ in range(2))
        first.step(shim, 0)
        second.step(shim, 0)
        assert first._stream.tokenizer is second._stream.tokenizer
    assert place() is fastokens.DecodeStream
    monkeypatch.undo()


def test_tokenizers_that_cannot_be_read_are_left_to_fastokens(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = _TokenizerShim(tokenizer)
    monkeypatch.setattr(_TokenizerShim, "to_str", lambda _: "{}")
    with patch_decode_stream():
        assert not leaks(shim)
        stream = place()()
        stream.step(shim, 0)
        assert stream._stream.tokenizer is shim


def test_the_patch_of_fastokens_over_ours_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = patch_decode_stream()
    monkeypatch.setattr(tokenizers.decoders, "DecodeStream", fastokens.DecodeStream)
    patch.undo()
    assert place() is fastokens.DecodeStream
    monkeypatch.undo()
    tokenizers.decoders.DecodeStream = DecodeStream  # type: ignore[misc]
