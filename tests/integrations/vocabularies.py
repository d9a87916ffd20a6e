"""Small tokenizers of the kinds that engines have, trained here."""

from __future__ import annotations

import json
from functools import cache

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from tests.support.zoo import BYTE_PIECES

__all__ = [
    "EOS",
    "PAD",
    "VOCABULARIES",
    "byte_fallback",
    "byte_level",
    "id_of",
    "spelled",
    "unigram",
]

TEXT = [
    "The quick brown fox doesn't jump. It sleeps, and dreams!",
    "User: what is the answer? Assistant: I do not know.",
    "one two three four five six seven eight nine ten",
]
PAD, EOS = "<pad>", "</s>"
SPECIAL = [PAD, "<s>", EOS, "<unk>"]


@cache
def byte_level() -> Tokenizer:
    """As GPT-2 and Llama 3 have it: every byte is a token, and a character may be several."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


@cache
def byte_fallback() -> Tokenizer:
    """As Llama 2 and Mistral have it: what the vocabulary has not is spelled in byte tokens."""
    normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizer
    trainer = trainers.BpeTrainer(
        vocab_size=200, special_tokens=SPECIAL, show_progress=False, max_token_length=8
    )
    trained.train_from_iterator(TEXT, trainer)
    model = json.loads(trained.to_str())["model"]
    # Byte tokens are part of the vocabulary, and not special: they are not added tokens.
    pieces = [*model["vocab"], *BYTE_PIECES]
    tokenizer = Tokenizer(
        models.BPE(
            {piece: place for place, piece in enumerate(pieces)},
            [tuple(merge) for merge in model["merges"]],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


@cache
def unigram() -> Tokenizer:
    """As T5 has it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=150, special_tokens=SPECIAL, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator([*TEXT, "😀 ß 你好"], trainer)
    return tokenizer


VOCABULARIES = {"byte_level": byte_level, "byte_fallback": byte_fallback, "unigram": unigram}


def id_of(tokenizer: Tokenizer, piece: str) -> int:
    """The id of a token that is there."""
    found = tokenizer.token_to_id(piece)
    assert found is not None, piece
    return found


def spelled(kind: str, text: str) -> list[int]:
    """The ids of a text with a token for each byte, or for each character where bytes have none."""
    tokenizer = VOCABULARIES[kind]()
    if kind == "unigram":
        pieces = [*text.replace(" ", "\u2581")]
    elif kind == "byte_fallback":
        pieces = [f"<0x{byte:02X}>" for byte in text.encode()]
    else:
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        pieces = [*letters.pre_tokenize_str(text)[0][0]]
    return [id_of(tokenizer, piece) for piece in pieces]
