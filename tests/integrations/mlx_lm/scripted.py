"""A tiny model with random weights that generates given ids.

The real loops of mlx-lm run, with their cache; after each pass of the model its logits leave one
choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from tokenizers import Tokenizer

from tests.integrations.vocabularies import EOS, id_of

reason = "not installed: nox -s engines"
mx: Any = pytest.importorskip("mlx.core", reason=reason)
mlx_lm: Any = pytest.importorskip("mlx_lm", reason=reason)
generation: Any = pytest.importorskip("mlx_lm.generate", reason=reason)
tokenizer_utils: Any = pytest.importorskip("mlx_lm.tokenizer_utils", reason=reason)
llama: Any = pytest.importorskip("mlx_lm.models.llama", reason=reason)
transformers: Any = pytest.importorskip("transformers", reason=reason)

SIZE = 512
"""More ids than any of the tokenizers has, as models have them."""


@cache
def _real() -> Any:
    mx.random.seed(0)
    return llama.Model(
        llama.ModelArgs(
            model_type="llama",
            hidden_size=16,
            num_hidden_layers=1,
            intermediate_size=16,
            num_attention_heads=2,
            rms_norm_eps=1e-5,
            vocab_size=SIZE,
        )
    )


class Scripted:
    """A model of mlx-lm, and its ids after a prompt of this number of tokens."""

    def __init__(self, said: Sequence[int], eos: int, num_prompt: int) -> None:
        self.said = [*said]
        self.eos = eos
        self.num_prompt = num_prompt

    def __getattr__(self, name: str) -> Any:
        return getattr(_real(), name)

    def __call__(self, inputs: Any, cache: Any = None) -> Any:
        logits = _real()(inputs, cache=cache)
        size = inputs.shape[1]
        first = cache[0].offset - size - self.num_prompt + 1
        forced = mx.full(logits.shape, -mx.inf)
        for place, step in enumerate(range(first, first + size)):
            token = self.said[step] if 0 <= step < len(self.said) else self.eos
            forced[:, place, token] = 0.0
        return mx.where(forced == 0.0, 0.0 * logits, forced)


def scripted(tokenizer: Tokenizer, said: Sequence[int], num_prompt: int) -> Scripted:
    """A model that generates these ids after a prompt of this size, and then EOS."""
    return Scripted(said, id_of(tokenizer, EOS), num_prompt)


def wrapped(tokenizer: Tokenizer) -> Any:
    """The tokenizer as transformers has it."""
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=EOS)
