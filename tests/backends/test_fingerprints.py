"""Tokenizers with equal fingerprints decode alike; a snapshot of another tokenizer is rejected."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, models
from tokenizers import Tokenizer as LibraryTokenizer

from streamdec import DecodeStream, MockTokenizer, SnapshotError
from streamdec.backends.huggingface import HuggingFaceTokenizer
from streamdec.backends.sentencepiece import SentencePieceTokenizer
from streamdec.backends.tiktoken import TiktokenTokenizer
from streamdec.protocols import ByteFallback, ByteLevel, Concatenation, DecodingRule, Tokenizer
from streamdec.tokenizers import EncodingSpec
from tests.support.files import gguf_tokenizer, model_proto, rank_file

BYTES = [bytes([byte]) for byte in range(256)]
SIZE = 3000
"""More than a HuggingFaceTokenizer asks its library for."""
TOKENS = tuple(f"w{i}" for i in range(SIZE))
SPECIAL = frozenset({7, 1501})
PLACES = [0, 1500, SIZE - 2]


def library(
    tokens: Sequence[str] = TOKENS,
    special: Collection[int] = SPECIAL,
    decoder: decoders.Decoder | None = None,
) -> LibraryTokenizer:
    made = LibraryTokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    made.decoder = decoders.ByteLevel() if decoder is None else decoder
    made.add_tokens([AddedToken(tokens[i], special=i in special) for i in (7, 8, 1501)])
    return made


def huggingface(tokens: Sequence[str], special: Collection[int]) -> Tokenizer:
    return HuggingFaceTokenizer(library(tokens, special).to_str())


def small_object(tokens: Sequence[str], special: Collection[int]) -> Tokenizer:
    """One that was given, and is small enough for its library to be asked for every token."""
    few = [*tokens[:10], *tokens[1490:1510], *tokens[2990:]]
    made = LibraryTokenizer(models.WordLevel({token: i for i, token in enumerate(few)}, few[0]))
    for token in ("w7", "w8", "w1501"):
        if token in few:
            made.add_tokens([AddedToken(token, special=tokens.index(token) in special)])
    return HuggingFaceTokenizer(made)


def tiktoken(tokens: Sequence[str], special: Collection[int]) -> Tokenizer:
    pytest.importorskip("tiktoken")
    ranks = {token: i for i, token in enumerate([*BYTES, *(token.encode() for token in tokens)])}
    spec = EncodingSpec("mine", r"\S+|\s+", {f"<{i}>": 10_000 + i for i in special})
    return TiktokenTokenizer(rank_file(ranks), encoding=spec)


def sentencepiece(tokens: Sequence[str], special: Collection[int]) -> Tokenizer:
    pytest.importorskip("sentencepiece")
    pieces = [("<unk>", 0.0, 2), *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256))]
    pieces += [(token, -float(i), 3 if i in special else 1) for i, token in enumerate(tokens)]
    return SentencePieceTokenizer(model_proto(pieces, adds_prefix=True))


def mock(tokens: Sequence[str], special: Collection[int]) -> Tokenizer:
    return MockTokenizer.from_tokens([token.encode() for token in tokens], special)


def gguf(tokens: Sequence[str], special: Collection[int], **changes: Any) -> Tokenizer:
    types = [3 if i in special else 1 for i in range(len(tokens))]
    facts = {"tokens": [*tokens], "token_type": types, "scores": [0.0] * len(tokens)}
    return gguf_tokenizer(**facts, **changes)


MAKERS = [huggingface, small_object, tiktoken, sentencepiece, mock, gguf]
of_each = pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
usual = cache(lambda make: make(TOKENS, SPECIAL))
"""The tokenizer that others are compared with."""


def refuses(taken_with: Any, other: Any) -> None:
    snapshot = DecodeStream(taken_with).snapshot()
    with pytest.raises(SnapshotError, match="another tokenizer"):
        DecodeStream.restore(other, snapshot)


def accepts(taken_with: Any, other: Any) -> None:
    assert DecodeStream.restore(other, DecodeStream(taken_with).snapshot()).num_tokens == 0


@of_each
def test_an_equal_tokenizer_has_an_equal_fingerprint(make: Callable[..., Tokenizer]) -> None:
    tokenizer, equal = usual(make), make(TOKENS, SPECIAL)
    copy = pickle.loads(pickle.dumps(make(TOKENS, SPECIAL)))
    assert tokenizer.fingerprint == equal.fingerprint == copy.fingerprint
    accepts(tokenizer, equal)


def swapped(place: int) -> tuple[str, ...]:
    first, second = TOKENS[place : place + 2]
    return (*TOKENS[:place], second, first, *TOKENS[place + 2 :])


OTHERS: dict[str, tuple[tuple[str, ...], Collection[int]]] = {
    **{f"swapped at {i}": (swapped(i), SPECIAL) for i in PLACES},
    **{f"changed at {i}": ((*TOKENS[:i], "new", *TOKENS[i + 1 :]), SPECIAL) for i in PLACES},
    "a token more": ((*TOKENS, "more"), SPECIAL),
    "a token less": (TOKENS[:-1], SPECIAL),
    "cut in another place": (("w", "0w1", *TOKENS[2:]), SPECIAL),
    **{f"special: {ids}": (TOKENS, ids) for ids in ([7], [7, 8, 1501], [8, 1501], [])},
}


@of_each
@pytest.mark.parametrize("change", OTHERS)
def test_a_changed_tokenizer_is_another(make: Callable[..., Tokenizer], change: str) -> None:
    refuses(usual(make), make(*OTHERS[change]))


def test_a_nul_in_a_token_does_not_end_it() -> None:
    """Hashing puts one between tokens."""
    one, other = ((*pair, *TOKENS[2:]) for pair in (("a\0", "b"), ("a", "\0b")))
    refuses(gguf(one, SPECIAL), gguf(other, SPECIAL))


RULES: list[DecodingRule] = [Concatenation(), ByteLevel(), ByteFallback()]


def test_another_decoder_is_another_tokenizer() -> None:
    refuses(usual(gguf), gguf(TOKENS, SPECIAL, add_space_prefix=False))
    refuses(usual(gguf), gguf(TOKENS, SPECIAL, model="gpt2"))
    fused = HuggingFaceTokenizer(library(decoder=decoders.Fuse()).to_str())
    refuses(usual(huggingface), fused)
    tables = [MockTokenizer.from_tokens([b"a", b"b"], decoder=rule) for rule in RULES]
    for one in tables:
        for other in tables:
            (accepts if one is other else refuses)(one, other)


def added(*tokens: str | AddedToken) -> LibraryTokenizer:
    made = library()
    made.add_tokens(list(tokens))
    return made


@pytest.mark.parametrize(
    "changed",
    [
        lambda: added("<new>"),
        lambda: added(AddedToken("w9", special=True)),
        lambda: library(special={7}),
        lambda: library(decoder=decoders.Fuse()),
        lambda: library((*TOKENS, "more")),
        lambda: library(TOKENS[:-1]),
        lambda: library((*TOKENS[:300], "more", *TOKENS[300:])),
    ],
)
def test_a_tokenizer_object_has_its_own_fingerprint(
    changed: Callable[[], LibraryTokenizer],
) -> None:
    for taken_with in (HuggingFaceTokenizer(library()), usual(huggingface)):
        refuses(taken_with, HuggingFaceTokenizer(changed()))
        refuses(HuggingFaceTokenizer(changed()), taken_with)


def test_a_tokenizer_object_has_the_fingerprint_of_its_file() -> None:
    """It lacks the hash of the file, so only what both have is compared."""
    given, loaded = HuggingFaceTokenizer(library()), usual(huggingface)
    assert loaded.fingerprint.startswith(f"{given.fingerprint}-")
    assert [len(given.fingerprint), len(loaded.fingerprint)] == [16, 33]
    accepts(given, loaded)
    accepts(loaded, given)


@pytest.mark.parametrize("tokenizer", ["", "-", None, 3, ["a"], "0" * 16])
def test_a_part_of_a_fingerprint_is_not_a_fingerprint(tokenizer: object) -> None:
    loaded: Any = usual(huggingface)
    snapshot = DecodeStream(loaded).snapshot()
    cut = [loaded.fingerprint[:8], f"{loaded.fingerprint[:16]}-", f"{loaded.fingerprint}-"]
    for wrong in (tokenizer, *cut):
        with pytest.raises(SnapshotError):
            DecodeStream.restore(loaded, snapshot | {"tokenizer": wrong})
