"""Small snapshots of our own: a control that nothing is wrong with, and changes to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.support.files import write_files

SHARED = Path(__file__).resolve().parents[3] / "shared" / "snapshots"
"""The folder of real snapshots beside the repository; it may be missing."""
CHATML = (
    "{%- for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + (m['content'] if m['content'] is string else '') + "
    "'<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
)
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|pad|>")
"""The ids 256 to 259; below are the bytes."""


def shared_snapshots() -> list[Path]:
    """The real snapshots, where they are at hand."""
    return sorted(path.parent for path in SHARED.glob("*/CASE.json"))


@cache
def _tokenizer() -> str:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    return str(tokenizer.to_str())


def added(content: str, *, special: bool = True) -> dict[str, Any]:
    """An added token as files have it."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"content": content, **flags, "special": special}


@dataclass
class Parts:
    """The files of a snapshot, to be changed before they are written. None: not there."""

    tokenizer: dict[str, Any] | None
    tokenizer_config: dict[str, Any] | None
    config: dict[str, Any] | None
    generation: dict[str, Any] | None
    others: dict[str, str | bytes | dict[str, Any]] = field(default_factory=dict)
    """By name; a dict is written as JSON."""

    @property
    def decoder(self) -> dict[str, Any]:
        """``added_tokens_decoder``."""
        assert self.tokenizer_config is not None
        decoder: dict[str, Any] = self.tokenizer_config["added_tokens_decoder"]
        return decoder

    @property
    def own(self) -> list[dict[str, Any]]:
        """The added tokens of ``tokenizer.json``."""
        assert self.tokenizer is not None
        tokens: list[dict[str, Any]] = self.tokenizer["added_tokens"]
        return tokens

    def say(self, **values: Any) -> None:
        """Sets keys of ``tokenizer_config.json``."""
        assert self.tokenizer_config is not None
        self.tokenizer_config.update(values)

    def write(self, folder: Path) -> Path:
        """Writes the files."""
        named = {
            "tokenizer.json": self.tokenizer,
            "tokenizer_config.json": self.tokenizer_config,
            "config.json": self.config,
            "generation_config.json": self.generation,
            **self.others,
        }
        folder.mkdir(parents=True, exist_ok=True)
        there = {name: content for name, content in named.items() if content is not None}
        return write_files(folder, there)


def control(change: Callable[[Parts], object] | None = None) -> Parts:
    """A snapshot on which all engines agree; ``change`` is applied to it."""
    parts = Parts(
        tokenizer=json.loads(_tokenizer()),
        tokenizer_config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|pad|>",
            "added_tokens_decoder": {str(256 + i): added(text) for i, text in enumerate(SPECIAL)},
            "chat_template": CHATML,
        },
        # A model type without its own tokenizer class: tokenizer.json is loaded as it is.
        config={"model_type": "llama", "vocab_size": 320, "eos_token_id": 258},
        generation={"eos_token_id": 258, "do_sample": True},
    )
    parts = deepcopy(parts)
    if change is not None:
        change(parts)
    return parts
