"""Small tokenizers of the kinds that engines have, trained here."""

from __future__ import annotations

from functools import cache, partial

from tokenizers import Tokenizer, pre_tokenizers

from benchmarks import subjects

TEXT = [
    "The quick brown fox doesn't jump. It sleeps, and dreams!",
    "User: what is the answer? Assistant: I do not know.",
    "one two three four five six seven eight nine ten",
]
PAD, EOS = "<pad>", "</s>"
SPECIAL = [PAD, "<s>", EOS, "<unk>"]
VOCABULARIES = {
    "byte_level": cache(partial(subjects.byte_level, TEXT, 400, SPECIAL)),
    "byte_fallback": cache(partial(subjects.byte_fallback, TEXT, 460, SPECIAL)),
}
ANSWER = "It is 42, or 四十二 😀.\nUser: and who are you?"
"""The answer of the model in the examples of the pages."""


def id_of(tokenizer: Tokenizer, piece: str) -> int:
    """The id of a token that is there."""
    found = tokenizer.token_to_id(piece)
    assert found is not None, piece
    return found


def spelled(kind: str, text: str) -> list[int]:
    """The ids of a text with a token for each byte."""
    tokenizer = VOCABULARIES[kind]()
    if kind == "byte_fallback":
        pieces = [f"<0x{byte:02X}>" for byte in text.encode()]
    else:
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        pieces = [*letters.pre_tokenize_str(text)[0][0]]
    return [id_of(tokenizer, piece) for piece in pieces]
