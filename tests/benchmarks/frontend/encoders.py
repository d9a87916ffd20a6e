"""Who encodes: the library as everyone calls it, streamdec on it, and the hybrid.

A further one is a class here and a line in :class:`Frontend`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

from tokenizers import Tokenizer

from streamdec import HybridTokenizer, load_tokenizer
from streamdec.errors import MissingExtraError
from streamdec.tokenizers.tokenizer_report import FastMode
from tests.benchmarks.frontend.prompts import TEXTS, Reel
from tests.benchmarks.subjects import Subject

__all__ = ["HF_BATCH", "HUGGINGFACE", "HYBRID", "Encoder", "Frontend"]

HF_BATCH = "HF encode_batch_fast"
HUGGINGFACE = "streamdec, huggingface"
HYBRID = "streamdec, hybrid"
ENCODE_FLOORS = {"ByteLevel": 15.0, "ByteFallback": 4.0}
"""Times as fast as the library, at 8,192 tokens: byte-level BPE, and that of SentencePiece."""
_NOTHING_TO_COMPARE = "fastokens is not installed: pip install 'streamdec[fast]'"
VOCABULARY_OF_A_MODEL = 30_000
"""Below it fastokens gains less on SentencePiece's BPE: there the number is a goal."""


class Encoder(Protocol):
    """A way to turn texts into ids."""

    name: str

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        """A batch, into results as they come from the encoder."""
        ...

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        """The results as integers."""
        ...


class LibraryBatch:
    """``tokenizers``, by the quickest of its calls: no offsets, and other threads may run."""

    name = HF_BATCH

    def __init__(self, library: Tokenizer) -> None:
        self._encode = library.encode_batch_fast

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        found: Sequence[Any] = self._encode(list(texts), add_special_tokens=False)
        return found

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [result.ids for result in results]


class Streamdec:
    """streamdec, with one encoder or the other."""

    def __init__(self, name: str, tokenizer: HybridTokenizer) -> None:
        self.name = name
        self.tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        tokenizer = self.tokenizer
        return [tokenizer.encode(texts[0])] if len(texts) == 1 else tokenizer.encode_batch(texts)

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [result.ids for result in results]


class Frontend:
    """A tokenizer as a frontend uses it, loaded anew by each contestant: none has seen a text.

    Raises MissingExtraError without fastokens: there would be nothing to compare.
    """

    def __init__(self, subject: Subject) -> None:
        try:
            import fastokens  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(_NOTHING_TO_COMPARE) from error
        self.subject = subject
        self.name = subject.name
        self.library: Tokenizer = Tokenizer.from_file(str(subject.path))
        self.huggingface = Streamdec(HUGGINGFACE, self._load("off"))
        self.hybrid = Streamdec(HYBRID, self._load("now"))
        self.report = self.hybrid.tokenizer.report

    def _load(self, fast: FastMode) -> HybridTokenizer:
        tokenizer = load_tokenizer(self.subject.path, fast=fast)
        assert isinstance(tokenizer, HybridTokenizer)
        return tokenizer

    @property
    def is_fast(self) -> bool:
        """Whether fastokens serves this file. Where it does not, nothing is promised."""
        return self.report.active == "fastokens"

    def encode_bounds(self, *, words_come_again: bool = True) -> dict[str, float | None]:
        """How many times as fast as the library the hybrid must encode, or is hoped to."""
        rule = self.subject.rule
        is_small = self.subject.library.get_vocab_size() < VOCABULARY_OF_A_MODEL
        is_hope = not words_come_again or (is_small and rule == "ByteFallback")
        times = ENCODE_FLOORS.get(rule) if self.is_fast else None
        return {"goal" if is_hope else "floor": times}

    @cached_property
    def rivals(self) -> list[Encoder]:
        """Whom the hybrid is compared with."""
        return [LibraryBatch(self.library), self.huggingface]

    @cached_property
    def encoders(self) -> list[Encoder]:
        """All of them."""
        return [*self.rivals, self.hybrid]

    def expected(self, text: str) -> list[int]:
        """The ids, as the library gives them."""
        result = self.library.encode_batch_fast([text], add_special_tokens=False)[0]
        return [*result.ids]

    # --- texts

    @cached_property
    def reels(self) -> dict[str, Reel]:
        """Of each kind of text what was not used yet."""
        return {name: Reel(text()) for name, text in TEXTS.items()}

    @cached_property
    def _characters_per_token(self) -> dict[str, float]:
        samples = {name: text()[-100_000:] for name, text in TEXTS.items()}
        return {name: len(text) / len(self.expected(text)) for name, text in samples.items()}

    def windows(self, kind: str, tokens: int, count: int) -> list[str]:
        """``count`` texts of about ``tokens`` tokens."""
        return self.characters(kind, int(tokens * self._characters_per_token[kind]), count)

    def characters(self, kind: str, size: int, count: int) -> list[str]:
        """``count`` texts of ``size`` characters."""
        return [self.reels[kind].window(max(size, 1)) for _ in range(count)]

    def reply(self, tokens: int) -> list[int]:
        """``tokens`` ids of a text, for what is decoded."""
        ids: list[int] = []
        while len(ids) < tokens:
            ids += self.expected(self.windows("code", tokens, 1)[0])
        return ids[:tokens]
