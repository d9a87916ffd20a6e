"""Train the tokenizer of ``streamdec demo``: texts in, ``tokenizer.json`` out.

    python scripts/train_demo_tokenizer.py

A byte-level BPE over ``demo_corpus.txt``, which was written for this purpose. The vocabulary is
kept so small that the cuts between tokens fall inside characters often: that is what the demo
shows. Training is deterministic, so a second run writes the same file (a test holds this).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

SCRIPTS = Path(__file__).resolve().parent
CORPUS = SCRIPTS / "demo_corpus.txt"
DATA = SCRIPTS.parent / "streamdec" / "cli" / "data"
TOKENIZER = SCRIPTS.parent / "streamdec" / "loading" / "demo" / "tokenizer.json"
DEMO_TEXT = DATA / "demo_text.txt"

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCABULARY_SIZE = 1200
LARGEST_FILE = 300_000
LEAST_SPLIT_SHARE = 0.25


def train(text: str) -> Tokenizer:
    """Return the byte-level BPE of ``text`` with the special tokens first."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text.splitlines(keepends=True), trainer)
    return tokenizer


def split_share(tokenizer: Tokenizer, text: str) -> float:
    """Return the share of the non-ASCII characters of ``text`` that span more than one token."""
    cuts = set(_cuts(tokenizer, text))
    inner = list(_inner_bytes(text))
    return sum(not cuts.isdisjoint(places) for places in inner) / len(inner)


def _cuts(tokenizer: Tokenizer, text: str) -> Iterator[int]:
    """Byte offsets at which a token ends; a letter of a byte-level token is one byte."""
    end = 0
    for token in tokenizer.encode(text).tokens:
        end += len(token)
        yield end


def _inner_bytes(text: str) -> Iterator[range]:
    """For each non-ASCII character the byte offsets that lie inside it."""
    start = 0
    for character in text:
        size = len(character.encode())
        if size > 1:
            yield range(start + 1, start + size)
        start += size


def main() -> None:
    """Write the tokenizer, if it is as the demo needs it."""
    tokenizer = train(CORPUS.read_text(encoding="utf-8"))
    share = split_share(tokenizer, DEMO_TEXT.read_text(encoding="utf-8"))
    content = tokenizer.to_str(pretty=True) + "\n"
    if share < LEAST_SPLIT_SHARE or len(content.encode()) > LARGEST_FILE:
        raise SystemExit(f"not fit for the demo: {share:.0%} split, {len(content.encode())} bytes")
    TOKENIZER.write_text(content, encoding="utf-8", newline="\n")
    print(f"{TOKENIZER.name}: {len(content.encode())} bytes, {share:.0%} of characters are split")


if __name__ == "__main__":
    main()
