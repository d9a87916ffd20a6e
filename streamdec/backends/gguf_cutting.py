r"""How a text is split before BPE merges, by the name in a GGUF file.

A file of the kind ``gpt2`` only names its regexes, in ``tokenizer.ggml.pre``. The names are
llama.cpp's (``src/llama-vocab.cpp`` of ggml-org/llama.cpp), and so is what the regexes match. Those
of the models' own tokenizers treat some rare texts differently. If there are several regexes, each
one splits the parts that the previous one made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Cutting:
    """One way to split a text."""

    patterns: tuple[str, ...]
    """The regexes, in the dialect of Oniguruma."""
    ignores_merges: bool = False
    """Whether a part that is a token becomes that token without merges."""
    adds_bos: bool = False
    """Whether bos is one of the added special tokens, if the file does not say."""


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SUFFIX = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_BEGIN, _SPACES = r"[^\r\n\p{L}\p{N}]?", r"\s*[\r\n]+|\s+(?!\S)|\s+"
_REST = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_LLAMA3 = rf"{_SUFFIX}|{_BEGIN}\p{{L}}+|\p{{N}}{{1,3}}|{_REST}"
_QWEN = rf"{_SUFFIX}|{_BEGIN}\p{{L}}+|\p{{N}}|{_REST}"
_UPPER, _LOWER = r"[\p{L}&&[^a-z]]", r"[\p{L}&&[^A-Z]]"
_WORDS = (rf"{_BEGIN}{_UPPER}*{_LOWER}+", rf"{_BEGIN}{_UPPER}+{_LOWER}*")
_REST_OF_CODE = _REST.replace(r"[\r\n]*", r"[\r\n/]*")
_TEKKEN = rf"{_WORDS[0]}|{_WORDS[1]}|\p{{N}}|{_REST_OF_CODE}"
_O200K = rf"{_WORDS[0]}{_SUFFIX}?|{_WORDS[1]}{_SUFFIX}?|\p{{N}}{{1,3}}|{_REST_OF_CODE}"
_HAN = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002ebef"
_HAN += "\U0002f800-\U0002fa1f"
_KIMI = rf"[{_HAN}]+|{_BEGIN}[\p{{L}}&&[^{_HAN}]]+{_SUFFIX}?|\p{{N}}{{1,3}}|{_REST}"
_DEEPSEEK_WORDS = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
_DEEPSEEK3 = (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK_WORDS)
_DEEPSEEK_CODER = (
    *(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+"),
    *("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff&&[^\\s]]+", r"\p{N}"),
)
_BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_BEGIN}\p{{L}}+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = rf"{_SUFFIX}|{_BEGIN}\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_QWEN35 = (
    rf"{_SUFFIX}|{_BEGIN}[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_PUNCTUATION = r"[\p{P}$+<=>^~|`]+"

_BY_NAMES: Mapping[str, Cutting] = {
    "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe "
    "gigachat a.x-4.0 mellum modern-bert mpt olmo jais exaone4 trillion granite-docling": Cutting(
        (_GPT2,)
    ),
    "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano": Cutting(
        (_LLAMA3,), ignores_merges=True, adds_bos=True
    ),
    "dbrx smaug-bpe chatglm-bpe": Cutting((_LLAMA3,)),
    "glm4 glm5": Cutting((_LLAMA3,), ignores_merges=True),
    "qwen2 deepseek-r1-qwen megrez kormo f2llmv2 stablelm2 hunyuan solar-open grok-2": Cutting(
        (_QWEN,)
    ),
    "qwen35": Cutting((_QWEN35,)),
    "gpt-4o llama4 kanana2 talkie minimax-m2": Cutting((_O200K,)),
    "tekken": Cutting((_TEKKEN,), ignores_merges=True, adds_bos=True),
    "kimi-k2": Cutting((_KIMI,)),
    "deepseek-coder": Cutting(_DEEPSEEK_CODER),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": Cutting(_DEEPSEEK3),
    "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": Cutting(
        (r"\p{N}", _GPT2)
    ),
    "falcon": Cutting((_PUNCTUATION, _GPT2, "[0-9][0-9][0-9]")),
    "bloom poro-chat gpt3-finnish": Cutting((_BLOOM,)),
    "viking": Cutting((_BLOOM, r"\p{N}")),
    "bailingmoe bailingmoe2 llada-moe": Cutting((_BAILING,)),
    "seed-coder": Cutting((_SEED,)),
    # The default of llama.cpp for a file without a name.
    "default": Cutting((r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
}


CUTTING: Mapping[str, Cutting] = MappingProxyType(
    {name: cutting for names, cutting in _BY_NAMES.items() for name in names.split()}
)
"""How a text is split, by the value of ``tokenizer.ggml.pre``."""

ESCAPED = frozenset(("gemma4", "granite-embed-multi-311m", "sarvam-moe"))
"""Names of files whose tokens are not byte-level, but spelled as in SentencePiece."""
RAW = frozenset(("whitespace",))
"""Names of files whose tokens are text, which llama.cpp does not decode faithfully."""
ONLY_DECODED = frozenset(
    (
        *("deepseek-llm", "youtu", "jais-2", "exaone-moe", "chameleon", "superbpe", "afmoe"),
        *("granite-embed-multi-97m", "tiny_aya", "cohere2moe", "laguna", "k2-horizon", "minicpm5"),
        *("spark2_5", "ufakzeka"),
    )
)
"""Other names of llama.cpp for byte-level vocabularies, whose regexes are not known here."""
