"""The stream under the library's interface, beside the library's own.

The oracle is the library's ``decode``; its stream is also compared where it is correct.
"""

from __future__ import annotations

import array
import copy
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers.decoders
from fastokens import _native as fastokens
from fastokens._compat import _TokenizerShim
from tokenizers import Tokenizer, decoders, models
from tokenizers.decoders import DecodeStream

from streamdec.compat import TokenizersDecodeStream, patch_decode_stream
from tests.support.zoo import ZOO, shared_tokenizers

TEXT = """Größe: naïve café, 你好，世界！ 👩‍👩‍👧 🇪🇺
\tdef f(x):
    return [x]  # it doesn't .

User: no"""
BOTH = [pytest.param(DecodeStream, id="theirs"), pytest.param(TokenizersDecodeStream, id="ours")]


def texts(stream: Any, tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    return [stream.step(tokenizer, token_id) or "" for token_id in ids]


def end_of(stream: TokenizersDecodeStream) -> str:
    """What the interface has no word for."""
    text: str = stream._stream.flush() if stream._stream else ""
    return text


def clean_start(tokenizer: Tokenizer, ids: Sequence[int], start: int) -> int:
    """The last place until ``start`` at which no character is open."""
    while tokenizer.decode(ids[:start]).endswith("\ufffd"):
        start -= 1
    return start


@pytest.fixture
def tokenizer() -> Tokenizer:
    return ZOO["byte_level_trained"]()


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.parent.name) for path in shared_tokenizers()]
)
def test_real_tokenizers_give_the_same_text_and_never_later(path: Path) -> None:
    """Without a prompt, and after one that ends between characters."""
    tokenizer = Tokenizer.from_file(str(path))
    ids = tokenizer.encode(TEXT, add_special_tokens=False).ids
    for skip, start in [(True, 0), (False, 0), (True, clean_start(tokenizer, ids, len(ids) // 2))]:
        prompt, new = ids[:start] or None, ids[start:]
        stream = TokenizersDecodeStream(prompt, skip)
        ours = texts(stream, tokenizer, new)
        theirs = texts(DecodeStream(prompt, skip), tokenizer, new)
        whole = tokenizer.decode(ids, skip_special_tokens=skip)
        before = tokenizer.decode(ids[:start], skip_special_tokens=skip)
        end = end_of(stream)
        assert "".join(ours) + end == whole[len(before) :]
        if not end:
            assert "".join(ours) == "".join(theirs)
            for place in range(len(new)):
                assert "".join(ours[:place]).startswith("".join(theirs[:place]))


@pytest.mark.parametrize("skip", [True, False])
def test_a_prompt_that_ends_inside_a_character_is_not_output(
    tokenizer: Tokenizer, skip: bool
) -> None:
    """vllm-project/vllm#48853: the library's stream takes such a prompt for new text."""
    ids = tokenizer.encode("Größe 😀<eos>", add_special_tokens=False).ids
    place = next(n for n in range(1, len(ids)) if tokenizer.decode(ids[:n]).endswith("\ufffd"))
    whole = tokenizer.decode(ids, skip_special_tokens=skip)
    rest = whole[len(tokenizer.decode(ids[:place]).rstrip("\ufffd")) :]
    assert "".join(texts(TokenizersDecodeStream(ids[:place], skip), tokenizer, ids[place:])) == rest


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(
    "ids", [None, [], [0, 1], (0, 1), range(2), np.array([0, 1]), array.array("I", [1]), b"\0"]
)
def test_accepted_prompts(make: Any, tokenizer: Tokenizer, ids: Any) -> None:
    for stream in (make(ids), make(ids=ids, skip_special_tokens=True)):
        assert stream.step(tokenizer, tokenizer.token_to_id("a")) == "a"


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([-1],), OverflowError),
        (([0, 2**32, 0],), OverflowError),
        ((["a"],), TypeError),
        (([1.0],), TypeError),
        (("ab",), TypeError),
        ((5,), TypeError),
        ((None, 1), TypeError),
        ((None, "yes"), TypeError),
    ],
)
def test_rejected_prompts(make: Any, arguments: tuple[Any, ...], error: type[Exception]) -> None:
    """Said at once: in vLLM an error of a later step would end all requests."""
    with pytest.raises(error):
        make(*arguments)


@pytest.mark.parametrize("make", BOTH)
def test_step_accepts_an_id(make: Any, tokenizer: Tokenizer) -> None:
    [a], [b] = (tokenizer.encode(text).ids for text in "ab")
    stream = make()
    assert stream.step(tokenizer, a) == "a"
    assert stream.step(tokenizer=tokenizer, id=np.uint32(b)) == "b"
    assert stream.step(tokenizer, [a, b, a]) == "aba"
    assert stream.step(tokenizer, 4_000_000_000) is None, "unknown ids have no text"


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize(
    "value", [-1, 2**32, 2**64, "a", 1.5, None, [-1], [1, "x"], [[1]], {"a": 1}, object()]
)
def test_a_rejected_argument_changes_nothing(make: Any, tokenizer: Tokenizer, value: Any) -> None:
    """VLLM goes on after a TypeError (vllm-project/vllm#21951)."""
    ids = tokenizer.encode("😀").ids
    stream = make()
    for token_id in ids[:-1]:
        stream.step(tokenizer, token_id)
    with pytest.raises(TypeError):
        stream.step(tokenizer, value)
    assert stream.step(tokenizer, ids[-1]) == "😀"


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("value", [None, "x", object()])
def test_a_step_needs_a_tokenizer(make: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="okenizer"):
        make().step(value, 1)


class Fickle:
    """A decoder that changes what it said once a 2 comes."""

    def decode_chain(self, tokens: list[str]) -> list[str]:
        return [("b" if "2" in tokens else "a") * len(tokens)]


@pytest.mark.parametrize("make", BOTH)
def test_text_that_is_taken_back_is_an_invalid_prefix(make: Any) -> None:
    """VLLM knows by these words that it must begin a new stream."""
    tokenizer = Tokenizer(models.WordLevel({"0": 0, "1": 1, "2": 2}, "0"))
    tokenizer.decoder = decoders.Decoder.custom(Fickle())
    stream = make()
    assert stream.step(tokenizer, 0) == "a"
    with pytest.raises(Exception, match=r"^Invalid prefix encountered while decoding stream"):
        stream.step(tokenizer, 2)


def test_a_stream_has_one_tokenizer(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("😀").ids
    stream = TokenizersDecodeStream(ids[:1])
    stream.step(tokenizer, ids[1])
    with pytest.raises(ValueError, match="the same tokenizer object at each step"):
        stream.step(Tokenizer.from_str(tokenizer.to_str()), ids[2])
    assert "".join(texts(stream, tokenizer, ids[2:])) == "😀"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("make", [each for each in BOTH if hasattr(each.values[0], "__copy__")])
@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_copy_is_independent(make: Any, copied: Callable[[Any], Any], steps: int) -> None:
    """Theirs too, since tokenizers 0.23. A token has a space if another is before it."""
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
    ids = [1, 0, 1]
    stream = make([0])
    before = "".join(texts(stream, tokenizer, ids[:steps]))
    other = copied(stream)
    stream.step(tokenizer, 0)
    assert before + "".join(texts(other, tokenizer, ids[steps:])) == " b a b"


def test_the_prompt_is_taken_as_it_is_when_it_is_given(tokenizer: Tokenizer) -> None:
    """VLLM lengthens its list in place."""
    ids = tokenizer.encode("😀").ids
    prompt = ids[:1]
    stream = TokenizersDecodeStream(prompt)
    prompt += ids[1:]
    assert "".join(texts(stream, tokenizer, ids[1:])) == "😀"


def place() -> Any:
    """What vLLM finds."""
    return tokenizers.decoders.DecodeStream


@pytest.fixture(autouse=True)
def _is_restored() -> Iterator[None]:
    yield
    assert place() is DecodeStream


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
    with patch_decode_stream():
        assert place() is TokenizersDecodeStream
    assert place() is TokenizersDecodeStream
    patch.undo()
    assert place() is DecodeStream
    assert leaks(tokenizer)
    patch.undo()
    assert place() is DecodeStream


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
