"""Tiny models with random weights that generate given ids.

The real loop of ``generate`` runs, with its cache, criteria and padding; a logits processor leaves
it one choice at each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from tokenizers import Tokenizer

from streamdec.integrations.transformers import GenerateStreamer
from tests.integrations import vocabularies
from tests.integrations.vocabularies import EOS, PAD, VOCABULARIES, id_of

reason = "not installed: nox -s engines"
torch: Any = pytest.importorskip("torch", reason=reason)
transformers: Any = pytest.importorskip("transformers", reason=reason)

SIZE = 512
"""More ids than any of the tokenizers has, as models have them."""


def _gpt2(**ids: int) -> Any:
    config = transformers.GPT2Config(
        vocab_size=SIZE, n_positions=256, n_embd=16, n_layer=1, n_head=2, **ids
    )
    return transformers.GPT2LMHeadModel(config)


def _t5(**ids: int) -> Any:
    config = transformers.T5Config(
        vocab_size=SIZE,
        d_model=16,
        d_kv=8,
        d_ff=16,
        num_layers=1,
        num_heads=2,
        decoder_start_token_id=ids["pad_token_id"],
        **ids,
    )
    return transformers.T5ForConditionalGeneration(config)


MODELS: dict[str, tuple[Callable[..., Any], str]] = {
    "gpt2": (_gpt2, "byte_level"),
    "t5": (_t5, "byte_fallback"),
}


def tokenizer_of(name: str) -> Tokenizer:
    """The tokenizer of a model."""
    return VOCABULARIES[MODELS[name][1]]()


@cache
def _made(name: str) -> Any:
    make, tokenizer = MODELS[name][0], tokenizer_of(name)
    ids = {"pad_token_id": PAD, "bos_token_id": "<s>", "eos_token_id": EOS}
    torch.manual_seed(0)
    return make(**{role: id_of(tokenizer, text) for role, text in ids.items()}).eval()


class Script:
    """A logits processor that leaves each row one id at each step; after its last, EOS."""

    def __init__(self, rows: Sequence[Sequence[int]], eos: int) -> None:
        self._rows = rows
        self._eos = eos
        self._start: int | None = None

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if self._start is None:
            self._start = input_ids.shape[1]
        step = input_ids.shape[1] - self._start
        forced = torch.full_like(scores, -torch.inf)
        for place, row in enumerate(self._rows):
            forced[place, row[step] if step < len(row) else self._eos] = 0.0
        return forced


class Model:
    """A model that says ``rows``, each a list of ids or a text."""

    def __init__(self, name: str, rows: Sequence[Sequence[int] | str]) -> None:
        self.tokenizer = tokenizer_of(name)
        self.rows = [encoded(name, row) if isinstance(row, str) else [*row] for row in rows]
        self.eos = id_of(self.tokenizer, EOS)
        self.pad = id_of(self.tokenizer, PAD)
        self.real = _made(name)
        """The model itself, without the script."""
        self.config = self.real.config
        self.generation_config = self.real.generation_config
        self.script = Script(self.rows, self.eos)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """The real one, with the script."""
        return self.real.generate(*args, logits_processor=[self.script], **kwargs)


def encoded(name: str, text: str) -> list[int]:
    """The ids of a text, as its tokenizer has them."""
    tokenizer = tokenizer_of(name)
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
    return ids


def spelled(name: str, text: str) -> list[int]:
    """The ids of a text with a token for each byte."""
    return vocabularies.spelled(MODELS[name][1], text)


def prompts(name: str, texts: Sequence[str | Sequence[int]]) -> dict[str, Any]:
    """What ``generate`` is given for several prompts: padded on the left."""
    pad = id_of(tokenizer_of(name), PAD)
    rows = [encoded(name, text) if isinstance(text, str) else [*text] for text in texts]
    longest = max(map(len, rows))
    missing = [longest - len(row) for row in rows]
    return {
        "input_ids": torch.tensor(
            [[pad] * lack + row for lack, row in zip(missing, rows, strict=True)]
        ),
        "attention_mask": torch.tensor([[0] * lack + [1] * (longest - lack) for lack in missing]),
    }


def texts_of(found: Sequence[Any], num_rows: int = 1) -> list[str]:
    """The text of each row."""
    return ["".join(chunk.text for row, chunk in found if row == each) for each in range(num_rows)]


def read(model: Any, streamer: GenerateStreamer, **inputs: Any) -> list[Any]:
    """All chunks, read as fast as can be."""
    with streamer:
        streamer.start(model, **{"max_new_tokens": 60} | inputs)
        return [*streamer]
