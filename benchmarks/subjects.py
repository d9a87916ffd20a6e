"""The tokenizers that are measured, and the ids of the texts in each of them.

Two tokenizers are trained here in a few seconds, in a temporary folder. The user may name others
instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from benchmarks import texts
from benchmarks.peers.kit import Kit
from streamdec import HuggingFaceTokenizer
from streamdec.locks import cached_property

ROOT = Path(__file__).resolve().parents[1]
MOST_TOKENS = 8_192
CODE_SIZE = 400_000
MIX_SIZE = 120_000
SEED = 20


class Subject:
    """A tokenizer and the ids for its streams.

    ``size`` is the least number of tokens of each text. No text ends inside a character.
    """

    def __init__(self, name: str, path: Path, size: int = MOST_TOKENS) -> None:
        self.name = name
        self.path = path
        self.library: Tokenizer = Tokenizer.from_file(str(path))
        self.tokenizer = HuggingFaceTokenizer(self.library)
        self.kit: Kit | None = None
        """The peers, if the user has fetched them."""
        self._size = size

    @property
    def rule(self) -> str:
        """The class of the rule that joins its tokens, or "window" if there is only ``decode``."""
        rules = self.tokenizer.rules
        return type(rules.rule).__name__ if rules else "window"

    def expected(self, token_ids: Sequence[int]) -> str:
        """Return the text, as the library decodes all ids at once."""
        text: str = self.library.decode(token_ids, skip_special_tokens=True)
        return text

    # --- workloads

    @cached_property
    def texts(self) -> dict[str, list[int]]:
        """The ids of *code* and *mix*: ``size`` of each, and those that end the last character."""
        sources = {"code": texts.code(CODE_SIZE), "mix": texts.mix(MIX_SIZE, SEED)}
        return {name: self._take(self._encode(text), self._size) for name, text in sources.items()}

    def encode(self, text: str) -> list[int]:
        """Return the ids of ``text`` alone."""
        return [*self.library.encode(text, add_special_tokens=False).ids]

    def _encode(self, text: str) -> list[int]:
        """Return the ids of ``text``, repeated if they are too few."""
        token_ids = self.encode(text)
        return token_ids * (1 + (self._size + 64) // max(len(token_ids), 1))

    def _take(self, token_ids: Sequence[int], size: int) -> list[int]:
        """Return the first ``size`` of ``token_ids``, and those that end the last character."""
        for end in range(size, min(size + 64, len(token_ids)) + 1):
            if not self.expected(token_ids[:end]).endswith("\ufffd"):
                return [*token_ids[:end]]
        return [*token_ids[:size]]

    def piece(self, workload: str, size: int) -> list[int]:
        """Return the first ``size`` tokens of a text, and those that end a character."""
        return self._take(self.texts[workload], size)

    @cached_property
    def lone_byte(self) -> int | None:
        """The id of a single continuation byte, or None."""
        names = {letter for letter in pre_tokenizers.ByteLevel.alphabet() if ord(letter) >= 0x100}
        for name in ("<0x80>", *sorted(names)):
            token_id: int | None = self.library.token_to_id(name)
            if token_id is not None and self.expected([token_id]) == "\ufffd":
                return token_id
        return None

    @cached_property
    def eos(self) -> int:
        """An id that is skipped in the text; without one, 0."""
        added = self.library.get_added_tokens_decoder()
        special = (i for i, each in added.items() if each.special and not self.expected([i]))
        return max(special, default=0)


# --- the tokenizers that are trained here ---------------------------------------------------------

VOCABULARY_SIZE = 8_000
SPECIAL_TOKENS = ("<unk>", "<s>", "</s>", "<|user|>", "<|assistant|>", "<|end|>")
WORDS = Regex("\u2581*[^\u2581]+|\u2581+")
"""Words with the spaces before them."""


def trained(folder: Path, size: int = MOST_TOKENS) -> Iterator[Subject]:
    """Train a byte-level and a byte-fallback BPE, and save them in ``folder``."""
    # Much code, and a little of another mix.
    text = texts.code(2_000_000) + texts.mix(30_000, SEED + 1)
    corpus = text.splitlines(keepends=True)
    for name, train in (("trained-bytelevel", byte_level), ("trained-fallback", byte_fallback)):
        path = folder / f"{name}.json"
        train(corpus, VOCABULARY_SIZE, SPECIAL_TOKENS).save(str(path))
        yield Subject(name, path, size)


def byte_level(corpus: Sequence[str], size: int, special: Sequence[str]) -> Tokenizer:
    """Return a tokenizer like GPT-2's: every byte is a token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[*special],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def byte_fallback(corpus: Sequence[str], size: int, special: Sequence[str]) -> Tokenizer:
    """Return a tokenizer like Llama 2's, with an alphabet of 400 letters and byte fallback.

    ``<unk>`` must be one of the special tokens.
    """
    words = Tokenizer(models.BPE())
    words.normalizer = normalizers.Replace(" ", "\u2581")
    words.pre_tokenizer = pre_tokenizers.Split(WORDS, "isolated")
    most = size - 256 - len(special)
    trainer = trainers.BpeTrainer(vocab_size=most, limit_alphabet=400, show_progress=False)
    words.train_from_iterator(corpus, trainer)
    model = json.loads(words.to_str())["model"]
    names = [*special, *(f"<0x{byte:02X}>" for byte in range(256)), *model["vocab"]]
    vocabulary = {name: token_id for token_id, name in enumerate(names)}
    merges = [tuple(pair) for pair in model["merges"]]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.add_special_tokens([*special])
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return tokenizer


def given(path: Path, size: int = MOST_TOKENS) -> Subject:
    """Return the user's tokenizer, from a ``tokenizer.json`` or its folder."""
    file = path / "tokenizer.json" if path.is_dir() else path
    name = file.parent.name if file.name == "tokenizer.json" else file.stem
    return Subject(name or str(path), file, size)
