"""What holds for every backend alike, on a small tokenizer of each and on real files."""

from __future__ import annotations

import pickle
import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from tokenizers import Regex, normalizers
from tokenizers import Tokenizer as LibraryTokenizer

from streamdec import DecodeStream
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.hybrid import HybridTokenizer
from streamdec.backends.mock import MockTokenizer
from streamdec.bench.entrants import HF, rival_of
from streamdec.encoding import Encoding, Special
from streamdec.errors import EncodeError, StreamdecError, TokenizerLibraryError
from streamdec.protocols import Tokenizer
from streamdec.tokenizers._base import BaseTokenizer
from streamdec.tokenizers.tokenizer_report import TokenizerReport
from tests import test_laws
from tests.support import files
from tests.support.zoo import ZOO

LETTERS = [bytes([byte]) for byte in range(256)]


def byte_level() -> str:
    return ZOO["byte_level_trained"]().to_str()


NEEDED = dict.fromkeys(("tiktoken", "tekken"), "tiktoken")
NEEDED |= dict.fromkeys(("sentencepiece", "gguf"), "sentencepiece")
BACKENDS: dict[str, Callable[[], BaseTokenizer]] = {
    "mock": lambda: MockTokenizer.from_tokens([*LETTERS, b"the", b" the", "é".encode()]),
    "huggingface": lambda: HuggingFaceTokenizer(byte_level()),
    "fast": lambda: HybridTokenizer(byte_level()),
    **files.BACKENDS,
}
TEXTS = [
    *("", "a", "the quick brown fox", "Größe naïve", "你好，世界！"),
    *("😀👍🏽 e\u0301", "\n\n\t  x  "),
    *("<|end|> <s>a</s> <eos>", "1234567890" * 20, "the the " * 300, "\x00\x7f\ufffd", "é" * 50),
]


@pytest.fixture(params=BACKENDS)
def make(request: pytest.FixtureRequest) -> Callable[[], BaseTokenizer]:
    """Makes a new tokenizer of each backend."""
    pytest.importorskip(NEEDED.get(request.param, "tokenizers"))
    return BACKENDS[request.param]


@pytest.fixture
def made(make: Callable[[], BaseTokenizer]) -> BaseTokenizer:
    return made_once(make)


@cache
def made_once(make: Callable[[], BaseTokenizer]) -> BaseTokenizer:
    return make()


def everything(tokenizer: BaseTokenizer, text: str) -> list[Any]:
    """What a tokenizer has to say of ``text``."""
    said: list[Any] = []
    for special in ("parse", "text", "forbid"):
        for add in (False, True):
            try:
                found = tokenizer.encode(text, special=special, add_special_tokens=add)
                stream = DecodeStream(tokenizer)
                said += [found.ids, found.tokens, tokenizer.decode(found.ids)]
                said += ["".join(stream.step_batch(found.ids)) + stream.flush()]
                said += [[tokenizer.token_bytes(i) for i in found.ids]]
                said += [found.offsets, found.byte_offsets]
            except EncodeError as error:
                said.append(str(error))
    return said


@pytest.mark.thorough
def test_four_threads_that_share_a_tokenizer_get_the_results_of_one(
    make: Callable[[], BaseTokenizer],
) -> None:
    expected = {text: everything(make(), text) for text in TEXTS}
    shared, together = make(), threading.Barrier(4)

    def work(number: int) -> dict[str, list[Any]]:
        texts = random.Random(number).sample(TEXTS, len(TEXTS))
        together.wait()
        return {text: everything(shared, text) for text in texts}

    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(work, range(4)):
            assert found == expected


@pytest.mark.asyncio
async def test_aencode_returns_what_encode_returns(made: BaseTokenizer) -> None:
    long = "the quick Größe " * 600
    assert len(long) > made.inline_chars
    texts = [*TEXTS, long]
    for special in ("parse", "text"):
        expected = [made.encode(text, special=special, add_special_tokens=True) for text in texts]
        options: dict[str, Any] = {"special": special, "add_special_tokens": True}
        assert await made.aencode_batch(texts, **options) == expected
        assert made.encode_batch(texts, **options) == expected
        assert [await made.aencode(text, **options) for text in texts] == expected


async def raised(tokenizer: BaseTokenizer, text: Any, **options: Any) -> set[str]:
    """What each method that encodes raises."""
    errors = (TypeError, ValueError, StreamdecError)
    with pytest.raises(errors) as encode:
        tokenizer.encode(text, **options)
    with pytest.raises(errors) as aencode:
        await tokenizer.aencode(text, **options)
    with pytest.raises(errors) as batch:
        tokenizer.encode_batch(["a", text], **options)
    with pytest.raises(errors) as abatch:
        await tokenizer.aencode_batch(["a", text], **options)
    found = (caught.value for caught in (encode, aencode, batch, abatch))
    return {f"{type(e).__name__}: {e}".replace("texts[1]: ", "") for e in found}


@pytest.mark.parametrize("special", ["parse", "text", "forbid"])
@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.asyncio
async def test_every_method_that_encodes_names_a_lone_surrogate(
    made: BaseTokenizer, special: Special, size: int
) -> None:
    told = f"EncodeError: a lone surrogate cannot be encoded: U+D800 at index {size}"
    assert await raised(made, "é" * size + "\ud800", special=special) == {told}
    assert made.token_to_id("\ud800") is None


@pytest.mark.asyncio
async def test_every_method_that_encodes_names_an_object_that_is_not_a_str(
    made: BaseTokenizer,
) -> None:
    for wrong in (b"the", None, 5, ["the"]):
        told = f"TypeError: a text must be a str, not {type(wrong).__name__}"
        assert await raised(made, wrong) == {told}
    told = "ValueError: special must be 'parse', 'text' or 'forbid', not 'none'"
    assert await raised(made, "the", special="none") == {told}
    one: Any = b"the"
    with pytest.raises(TypeError, match="a list of strings, got one bytes"):
        made.encode_batch(one)
    with pytest.raises(TypeError, match="a list of strings, got one bytes"):
        await made.aencode_batch(one)
    expected = made.encode_batch(["the", " quick"])
    assert made.encode_batch(iter(["the", " quick"])) == expected  # type: ignore[arg-type]
    assert await made.aencode_batch(iter(["the", " quick"])) == expected  # type: ignore[arg-type]


NOT_IDS: list[tuple[Any, str]] = [
    ([-1], "the id at index 0 is out of range: -1; a token id is an integer from 0 to 4294967"),
    ([5, -1], "the id at index 1 is out of range: -1; "),
    ([2**32], "the id at index 0 is out of range: 4294967296; "),
    ([2**70], "the id at index 0 is out of range: 11"),
    ([1.0], "the id at index 0 is of type float: 1.0; "),
    (["5"], "the id at index 0 is of type str: '5'; "),
    ([None], "the id at index 0 is of type NoneType: None; "),
    ([[5]], "the id at index 0 is of type list: [5]; "),
    (5, "token ids must be a list or an array, not int; for one id pass a list, such as [12]"),
    (None, "token ids must be a list or an array, not NoneType"),
    ("5", "token ids must be a list or an array, not str; tokenizer.encode(text).ids returns"),
    ("12 13", "token ids must be a list or an array, not str; tokenizer.encode(text).ids"),
    (np.array([[1], [2]]), "an array of token ids must have one dimension, not 2; pass one"),
    (np.int64(3), "an array of token ids must have one dimension, not 0"),
    (np.float32(3), "an array of token ids must have one dimension, not 0"),
]


def test_decode_rejects_objects_that_are_not_ids(made: BaseTokenizer) -> None:
    for bad, told in NOT_IDS:
        for skip in (True, False):
            with pytest.raises(TypeError, match=f"^{re.escape(told)}"):
                pytest.fail(f"{bad}: {made.decode(bad, skip_special_tokens=skip)}")
            with pytest.raises(TypeError, match=f"^{re.escape(told)}") as caught:
                pytest.fail(f"{bad}: {made.decode_batch([[], bad], skip_special_tokens=skip)}")
            assert caught.value.__notes__ == ["in row 1 of the batch"]


def test_other_lists_of_ids_are_decoded(made: BaseTokenizer) -> None:
    encoding = made.encode("the quick")
    text = made.decode(encoding.ids)
    ids: Any
    for ids in (encoding, tuple(encoding.ids), iter(encoding.ids), np.array(encoding.ids)):
        assert made.decode(ids) == text


def test_an_id_without_a_token_contributes_nothing(made: BaseTokenizer) -> None:
    assert isinstance(made, Tokenizer)
    ids = made.encode("the quick").ids
    far = (made.vocab_size, 2**31, 2**32 - 1)
    assert made.decode([*far, *ids, *far]) == made.decode(ids) == made.decode(tuple(ids))
    for token_id in (-1, *far, 2**32, 2**70):
        assert made.id_to_token(token_id) is None
        assert made.token_bytes(token_id) is None
        assert made.piece(token_id) is None


def panicking() -> HuggingFaceTokenizer:
    """Its normalizer panics on any text: the library's own fault."""
    tokenizer = LibraryTokenizer.from_str(byte_level())
    tokenizer.normalizer = normalizers.Replace(Regex("x*"), "y")
    return HuggingFaceTokenizer(tokenizer)


@pytest.mark.parametrize("special", ["parse", "text", "forbid"])
@pytest.mark.asyncio
async def test_every_method_that_encodes_turns_a_panic_into_a_library_error(
    special: Special,
) -> None:
    broken = panicking()
    for text in ("aa", "a" * 5_000):
        for told in await raised(broken, text, special=special):
            assert re.match(r"TokenizerLibraryError: .*Panic", told)
    with pytest.raises(TokenizerLibraryError, match="Panic"):
        assert Encoding([1], "aa", broken).offsets


@pytest.mark.parametrize("text", ["Größe", "你好", "😀👍🏽"])
def test_byte_offsets_are_exact_where_tokens_spell_the_text(made: BaseTokenizer, text: str) -> None:
    encoding = made.encode(text)
    for token_id, (start, end) in zip(encoding, encoding.byte_offsets, strict=True):
        token = made.token_bytes(token_id) or b""
        assert text.encode()[start:end] in (token, token.removeprefix(b" "))


def test_every_backend_is_a_tokenizer(made: BaseTokenizer) -> None:
    assert isinstance(made, Tokenizer)
    highest = max(i for i in range(made.vocab_size + 5) if made.id_to_token(i) is not None)
    assert made.vocab_size == highest + 1
    for token_id in range(made.vocab_size + 1):
        name = made.id_to_token(token_id)
        assert (made.token_bytes(token_id) is None) == (name is None)
        if name is not None:
            assert made.id_to_token(made.token_to_id(name) or 0) == name


FOLDERS = {path.name: path for path in files.shared_folders()}


def test_the_laws_are_tested_on_every_folder() -> None:
    assert set(FOLDERS) <= {*test_laws.FORMATS, *test_laws.SHARED}


@pytest.mark.parametrize("name", ["tiktoken", "tekken", "sentencepiece", "gguf"])
def test_a_copy_reports_how_it_was_loaded(name: str) -> None:
    original = BACKENDS[name]()
    original.report = TokenizerReport("a", "now", "default", "b", "because")
    assert pickle.loads(pickle.dumps(original)).report == original.report


@pytest.mark.asyncio
async def test_a_long_text_is_encoded_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_thread(_: Any) -> Any:
        raise AssertionError("a thread")

    monkeypatch.setattr("streamdec.tokenizers._base.in_thread", no_thread)
    tokenizer = BACKENDS["huggingface"]()
    assert await tokenizer.aencode("the") == tokenizer.encode("the")
    with pytest.raises(AssertionError, match="a thread"):
        await tokenizer.aencode("the " * 5_000)


def test_a_benchmark_compares_with_the_library(made: BaseTokenizer) -> None:
    rival = rival_of(made)
    name = made.tokenizer_type
    libraries = {"huggingface": HF}
    libraries |= dict.fromkeys(("tiktoken", "sentencepiece"), f"{name}, offset")
    assert rival.name.startswith(libraries.get(name, "decode(), offset"))
    ids = made.encode("hi low").ids if name != "gguf" else [263, 264]
    assert rival.text(ids) == made.decode(ids)
