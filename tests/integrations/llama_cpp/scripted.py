"""A tiny GGUF model with random weights, in llama.cpp, that generates given ids.

Its vocabulary is one of our small tokenizers. A logits processor leaves the real loop one choice.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from tests.integrations.vocabularies import EOS, VOCABULARIES

reason = "not installed: nox -s llama-cpp"
llama_cpp: Any = pytest.importorskip("llama_cpp", reason=reason)
gguf: Any = pytest.importorskip("gguf", reason=reason)

KINDS = {"byte_level": "gpt2", "byte_fallback": "llama"}
"""Our name of each vocabulary, and that of llama.cpp."""

WIDTH = 32
"""Numbers in a vector of the model."""


def write_model(path: Path, kind: str) -> None:
    """A whole model of the kind ``llama``: 30 kB of weights, and the vocabulary."""
    tokenizer = VOCABULARIES[kind]()
    size = tokenizer.get_vocab_size()
    writer = gguf.GGUFWriter(str(path), "llama")
    for name, value in (
        ("block_count", 1),
        ("context_length", 512),
        ("embedding_length", WIDTH),
        ("feed_forward_length", WIDTH),
        ("head_count", 2),
        ("head_count_kv", 2),
        ("layer_norm_rms_eps", 1e-5),
        ("rope_dimension_count", WIDTH // 2),
        ("vocab_size", size),
    ):
        getattr(writer, f"add_{name}")(value)
    _write_vocabulary(writer, tokenizer, KINDS[kind])
    random = np.random.default_rng(0)
    shapes = {
        "token_embd": (size, WIDTH),
        "output": (size, WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.ffn_norm": (WIDTH,),
    }
    matrices = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    shapes |= {f"blk.0.{name}": (WIDTH, WIDTH) for name in matrices}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.1, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _write_vocabulary(writer: Any, tokenizer: Tokenizer, model: str) -> None:
    pieces = [tokenizer.id_to_token(each) or "" for each in range(tokenizer.get_vocab_size())]
    special = {added.content for added in tokenizer.get_added_tokens_decoder().values()}
    kinds = gguf.TokenType

    def kind_of(piece: str) -> Any:
        if piece in special:
            return kinds.UNKNOWN if piece == "<unk>" else kinds.CONTROL
        is_byte = model == "llama" and piece.startswith("<0x")
        return kinds.BYTE if is_byte else kinds.NORMAL

    writer.add_tokenizer_model(model)
    writer.add_token_list(pieces)
    writer.add_token_types([kind_of(piece) for piece in pieces])
    if model == "llama":
        writer.add_token_scores([-float(place) for place in range(len(pieces))])
    else:
        writer.add_tokenizer_pre("gpt-2")
        merges = json.loads(tokenizer.to_str())["model"]["merges"]
        writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(tokenizer.token_to_id("<s>"))
    writer.add_eos_token_id(tokenizer.token_to_id(EOS))


def loaded(path: Path) -> Any:
    """The model in llama.cpp."""
    return llama_cpp.Llama(str(path), n_ctx=256, n_threads=1, verbose=False)


def scripted(llm: Any, said: list[int]) -> None:
    """Has ``llm`` say those ids, and then EOS."""
    left = iter(said)

    def force(_: Any, scores: Any) -> Any:
        scores[:] = -np.inf
        scores[next(left, llm.token_eos())] = 0.0
        return scores

    processors = llama_cpp.LogitsProcessorList([force])
    llm.generate = partial(type(llm).generate, llm, logits_processor=processors)
