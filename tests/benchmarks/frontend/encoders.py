"""The encoders: the library with its fastest call, streamdec on top of it, and the hybrid.

To add one, add a class here and a line in :class:`Frontend`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

from tokenizers import Tokenizer

from streamdec import load_tokenizer
from streamdec.errors import MissingExtraError
from streamdec.tokenizers import HybridTokenizer
from streamdec.tokenizers.tokenizer_report import FastMode
from tests.benchmarks.frontend.prompts import TEXTS, Reel
from tests.benchmarks.subjects import Subject

__all__ = ["FASTOKENS", "HF_BATCH", "HUGGINGFACE", "HYBRID", "Encoder", "Frontend"]

HF_BATCH = "HF encode_batch_fast"
FASTOKENS = "fastokens encode"
HUGGINGFACE = "streamdec, huggingface"
HYBRID = "streamdec, hybrid"
ENCODE_BOUNDS = {"ByteLevel": 15.0, "ByteFallback": 4.0}
"""How many times as fast as the library, at 8,192 tokens: byte-level BPE, and SentencePiece's."""
_NOTHING_TO_COMPARE = "fastokens is not installed: pip install 'streamdec[fast]'"
VOCABULARY_OF_A_MODEL = 30_000
"""Below this size fastokens gains less on SentencePiece's BPE, so the number is a goal."""


class Encoder(Protocol):
    """A way to turn texts into ids."""

    name: str

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        """Encode a batch. Return the encoder's own results."""
        ...

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        """Return the results as integers."""
        ...


class LibraryBatch:
    """``tokenizers``, with its fastest call: no offsets, and other threads may run."""

    name = HF_BATCH

    def __init__(self, library: Tokenizer) -> None:
        self._encode = library.encode_batch_fast

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        found: Sequence[Any] = self._encode(list(texts), add_special_tokens=False)
        return found

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [result.ids for result in results]


class Streamdec:
    """streamdec, with one of its two encoders."""

    def __init__(self, name: str, tokenizer: HybridTokenizer) -> None:
        self.name = name
        self.tokenizer = tokenizer

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        tokenizer = self.tokenizer
        return [tokenizer.encode(texts[0])] if len(texts) == 1 else tokenizer.encode_batch(texts)

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [result.ids for result in results]


class Fastokens:
    """``fastokens``, with its fastest call for a single text."""

    name = FASTOKENS

    def __init__(self, encode: Callable[[str], Any]) -> None:
        self._encode = encode

    def encode(self, texts: Sequence[str]) -> Sequence[Any]:
        return [self._encode(text) for text in texts]

    def ids(self, results: Sequence[Any]) -> list[Sequence[int]]:
        return [result.ids for result in results]


class Frontend:
    """A tokenizer as a frontend uses it. Each contestant loads it again, so none has seen a text.

    Raises MissingExtraError without fastokens, because there would be nothing to compare.
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
        """Whether fastokens encodes for this file. If not, there are no bounds."""
        return self.report.active == "fastokens"

    def encode_bounds(self, *, words_come_again: bool = True) -> dict[str, float | None]:
        """Return the bound or the goal of the hybrid's speed, as a multiple of the library's."""
        rule = self.subject.rule
        is_small = self.subject.library.get_vocab_size() < VOCABULARY_OF_A_MODEL
        is_hope = not words_come_again or (is_small and rule == "ByteFallback")
        times = ENCODE_BOUNDS.get(rule) if self.is_fast else None
        return {"goal" if is_hope else "bound": times}

    @cached_property
    def rivals(self) -> list[Encoder]:
        """The encoders that the hybrid is compared with."""
        return [LibraryBatch(self.library), self.huggingface]

    @cached_property
    def of_short_texts(self) -> list[Encoder]:
        """All encoders, and fastokens itself if it encodes for this file."""
        if not self.is_fast:
            return self.encoders
        encoder = self._load("now").fast_encoder
        assert encoder is not None
        return [*self.encoders, Fastokens(encoder.encode_short)]

    @cached_property
    def encoders(self) -> list[Encoder]:
        """All encoders."""
        return [*self.rivals, self.hybrid]

    def expected(self, text: str) -> list[int]:
        """Return the ids of the library."""
        result = self.library.encode_batch_fast([text], add_special_tokens=False)[0]
        return [*result.ids]

    # --- texts

    @cached_property
    def reels(self) -> dict[str, Reel]:
        """Return the part of each kind of text that was not used yet."""
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
        """Return ``tokens`` ids of a text, to decode."""
        ids: list[int] = []
        while len(ids) < tokens:
            ids += self.expected(self.windows("code", tokens, 1)[0])
        return ids[:tokens]
