"""The types of the tokens of a GGUF file, as llama.cpp reads them.

In: the metadata and the names of the tokens. Out: a type for each token, of those of a
SentencePiece model, or 0. llama.cpp finds some special tokens by their names and changes their
types (``llama_vocab::impl::load`` in its ``src/llama-vocab.cpp``): it skips the tokens that end a
turn or mark a gap, and shows those that structure a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamdec.folders.sentencepiece_proto import BYTE, CONTROL, NORMAL, USER_DEFINED

UNDEFINED = 0
"""The type of a token without text."""
_ENDS = frozenset(
    (
        *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>"),
        *("<|calls|>", "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>"),
        *("[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>"),
        *("<|tool_response>", "<｜end▁of▁sentence｜>", "[e~["),
    )
)
_GAPS = {
    ("fim_pre", "prefix"): (
        *("<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>"),
        *("<|code_prefix|>", "<|prefix|>"),
    ),
    ("fim_suf", "suffix"): (
        *("<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>"),
        *("<|code_suffix|>", "<|suffix|>"),
    ),
    ("fim_mid", "middle"): (
        *("<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>"),
        *("<|code_middle|>", "<|middle|>"),
    ),
    ("fim_pad",): ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"),
    ("fim_rep",): ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"),
    ("fim_sep",): ("<|file_sep|>",),
}
"""Tokens for text with a gap; they are looked for if the file has no id under one of the keys."""
_SHOWN = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


def types_of(
    data: Mapping[str, Any], names: Mapping[str, int], size: int
) -> tuple[list[int], list[str]]:
    """Return the types of ``size`` tokens, and a phrase for each doubt about them.

    ``names`` are their ids by name. Raises ValueError if the file has no tokens, or types that are
    not as many integers.
    """
    if not size:
        raise ValueError("the GGUF file has no tokens (tokenizer.ggml.tokens)")
    types = data.get("token_type") or [NORMAL] * size
    if not isinstance(types, list) or not all(type(kind) is int for kind in types):
        raise ValueError("tokenizer.ggml.token_type is not a list of integers")
    if len(types) != size:
        raise ValueError(f"{len(types)} token types, but {size} tokens")
    if strange := set(types) - {UNDEFINED, *range(NORMAL, BYTE + 1)}:
        raise ValueError(f"a token has the unknown type {min(strange)}")
    types = [*types]
    gaps = [[text for text in texts if text in names] for texts in _gaps(data, len(names))]
    doubts = [
        f"llama.cpp skips one of the tokens {', '.join(map(repr, gap))}, and it is not said which"
        for gap in gaps
        if len(gap) > 1 and any(types[names[text]] != CONTROL for text in gap)
    ]
    for text, kind in _kinds(data, gaps, names).items():
        types[names[text]] = kind
    return types, doubts


def _gaps(data: Mapping[str, Any], size: int) -> Iterator[tuple[str, ...]]:
    """Yield the names of the tokens for a gap of which the file has no id."""
    for keys, texts in _GAPS.items():
        ids = (data.get(f"{key}_token_id") for key in keys)
        if not any(type(i) is int and 0 <= i < size for i in ids):
            yield texts


def _kinds(
    data: Mapping[str, Any], gaps: list[list[str]], names: Mapping[str, int]
) -> dict[str, int]:
    """Return the types of tokens that llama.cpp finds by their names."""
    special = _ENDS.union(*gaps)
    found = dict.fromkeys(special.intersection(names), CONTROL)
    found |= dict.fromkeys((text for text in _SHOWN if text in names), USER_DEFINED)
    has_call = "<|call|>" in found or "<|calls|>" in found
    if "<|end|>" in found and has_call and ("<|return|>" in found or "<|flush|>" in found):
        found["<|end|>"] = USER_DEFINED
    roles = ("eos", "eot", "eom", "fim_pad", "fim_rep", "fim_sep")
    ends = [data.get(f"{role}_token_id") for role in roles]
    is_plamo = names.get("<|plamo:eos|>", -1) in ends
    if "</s>" in found and ("<|tool_response>" in found or is_plamo):
        found["</s>"] = NORMAL
    return found
