r"""The known encodings of tiktoken's kind, with their regexes and special tokens.

A rank file has a line for each token, with its bytes in base64 and its rank, and nothing else. Its
SHA-256 identifies it. Sources:

* OpenAI's: ``tiktoken_ext/openai_public.py`` of tiktoken 0.14 (a test compares them);
* Llama 3: ``models/llama3/tokenizer.py`` of meta-llama/llama-models, and ``llama/tokenizer.py`` of
  meta-llama/llama3 for the names of April 2024; Llama 4: ``models/llama4/tokenizer.py`` there;
* Qwen: ``tokenization_qwen.py`` of Qwen-7B; Kimi: ``tokenization_kimi.py`` of Kimi-K2-Instruct and
  ``tokenization_moonshot.py`` of Moonlight-16B-A3B;
* GLM-4: ``tokenization_chatglm.py`` of glm-4-9b-chat; Hunyuan: ``tokenization_hy.py`` of
  Hunyuan-A13B-Instruct.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class RankFile:
    """A rank file that is recognised by its content.

    >>> from streamdec.tokenizers.encodings import ENCODINGS
    >>> ENCODINGS["cl100k_base"].files[0].sha256[:16]
    '223921b76ee99bde'
    """

    sha256: str
    """Its SHA-256 in hexadecimal."""
    url: str = ""
    """The address from which tiktoken downloads it, and names it in its cache; "" without one."""


@dataclass(frozen=True)
class EncodingSpec:
    r"""An encoding of tiktoken's kind without its ranks.

    For an unknown rank file, make one and pass it as ``encoding`` to
    :func:`~streamdec.load_tokenizer` or :class:`~streamdec.tokenizers.TiktokenTokenizer`, which
    check it against the file. The known ones are in
    :data:`streamdec.tokenizers.encodings.ENCODINGS`.

    >>> from streamdec.tokenizers import TiktokenTokenizer
    >>> from streamdec.tokenizers import EncodingSpec
    >>> spec = EncodingSpec("mine", pattern=r"\s?\w+|\s+|\W", special_tokens={"<|end|>": 300})
    >>> tokenizer = TiktokenTokenizer("path/to/model.tiktoken", encoding=spec)
    >>> tokenizer.encode("hello<|end|>").ids
    (261, 300)
    """

    name: str
    """Its name."""
    pattern: str
    """The regex that splits a text into words, in the dialect of tiktoken."""
    special_tokens: Mapping[str, int] = field(default_factory=dict)
    """Special tokens and their ids, which are not in the rank file."""
    files: tuple[RankFile, ...] = ()
    """The rank files that contain it; () for any file."""
    code: tuple[str, ...] = ()
    """Tokenizer classes, as ``module.Class``. A rank file of unknown SHA-256 has this encoding if
    the ``tokenizer_config.json`` beside it names one of them."""
    is_numbered: bool = False
    """Whether the id of a token is the number of distinct tokens in the lines before it, instead of
    the rank in its line."""
    ranks_below: int | None = None
    """Ranks from this one on belong to another encoding that shares the file; None without one."""
    num_reserved: int = 0
    """How many ids after the ranks are special tokens, named in ``tokenizer_config.json``."""
    bos_token: str | None = None
    """The token that begins a text."""
    eos_token: str | None = None
    """The token that ends a text."""
    pad_token: str | None = None
    """The token that fills a batch."""
    begins_with: tuple[str, ...] = ()
    """The special tokens that ``add_special_tokens`` puts before a text."""
    is_nfc: bool = False
    """Whether texts are normalized to NFC before they are encoded."""
    is_cut: bool = False
    """Whether the reference splits texts after 400,000 characters, and runs of white space or of
    other characters after 25,000; no token crosses such a place."""


_OPENAI = "https://openaipublic.blob.core.windows.net/encodings"

_GPT2 = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
_CL100K = (
    r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+"""
    r"""| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
)
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_LLAMA3 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    rf"| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_QWEN = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def _cased(beyond: str = "", slash: str = "") -> str:
    """Return the regex of o200k, which splits words where the case changes.

    ``beyond`` is a part of a character class that excludes letters; ``slash`` may follow
    punctuation.
    """
    upper = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{beyond}]"
    lower = rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{beyond}]"
    begin = r"[^\r\n\p{L}\p{N}]?"
    return (
        rf"{begin}{upper}*{lower}+{_CONTRACTIONS}?|{begin}{upper}+{lower}*{_CONTRACTIONS}?"
        rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n{slash}]*|{_SPACES}"
    )


_O200K = _cased(slash="/")
_KIMI = r"[\p{Han}]+|" + _cased(beyond=r"&&[^\p{Han}]")


def _numbered(first: int, names: Iterable[str]) -> dict[str, int]:
    return {name: first + n for n, name in enumerate(names)}


def _reserved(kind: str, start: int, stop: int) -> list[str]:
    return [f"<|{kind}reserved_special_token_{n}|>" for n in range(start, stop)]


_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_BEGIN_END = ("<|begin_of_text|>", "<|end_of_text|>")

_O200K_SPECIAL = {_END: 199999, "<|endofprompt|>": 200018}
_HARMONY_NAMED = {
    "<|startoftext|>": 199998,
    "<|return|>": 200002,
    "<|constrain|>": 200003,
    "<|channel|>": 200005,
    "<|start|>": 200006,
    "<|end|>": 200007,
    "<|message|>": 200008,
    "<|call|>": 200012,
}
# Id 200018 has two names: <|endofprompt|> and <|reserved_200018|>.
_HARMONY_RESERVED = {
    f"<|reserved_{i}|>": i
    for i in range(200000, 201088)
    if i not in frozenset(_HARMONY_NAMED.values())
}
_LLAMA3_SPECIAL = [
    *(*_BEGIN_END, *_reserved("", 0, 4), "<|start_header_id|>", "<|end_header_id|>"),
    *(*_reserved("", 4, 5), "<|eot_id|>", *_reserved("", 5, 251)),
]
_LLAMA31_SPECIAL = [
    *(*_BEGIN_END, *_reserved("", 0, 2), "<|finetune_right_pad_id|>", "<|step_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
    *("<|image|>", *_reserved("", 2, 246)),
]
_LLAMA4_SPECIAL = [
    *(*_BEGIN_END, *_FIM),
    *("<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>"),
    *_reserved("text_post_train_", 0, 6),
    *("<|python_start|>", "<|python_end|>", "<|finetune_right_pad|>"),
    *_reserved("text_post_train_", 8, 69),
    *("<|image_start|>", "<|image_end|>", *_reserved("vision_", 0, 2)),
    *("<|tile_x_separator|>", "<|tile_y_separator|>", *_reserved("vision_", 2, 6)),
    *("<|image|>", *_reserved("vision_", 6, 7), "<|patch|>", *_reserved("vision_", 7, 1048)),
    *_reserved("reasoning_", 0, 8),
    *("<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>"),
]
_LLAMA4_SPECIAL += _reserved("", 0, 2048 - len(_LLAMA4_SPECIAL))

_GLM4_SPECIAL = (
    *(_END, "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"),
    *("<|begin_of_image|>", "<|end_of_image|>", "<|begin_of_video|>", "<|end_of_video|>"),
)
_EXTRA = [f"<|extra_{n}|>" for n in range(205)]
_HUNYUAN_SPECIAL = (*(_END, "<|startoftext|>", "<|bos|>", "<|eos|>", "<|pad|>"), *_EXTRA)


def _of_openai(name: str, sha256: str) -> RankFile:
    return RankFile(sha256, f"{_OPENAI}/{name}.tiktoken")


_P50K_FILE = _of_openai(
    "p50k_base", "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
)
_R50K_FILE = _of_openai(
    "r50k_base", "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"
)
_CL100K_FILE = _of_openai(
    "cl100k_base", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
)
_O200K_FILE = _of_openai(
    "o200k_base", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
)
_LLAMA3_FILE = RankFile("82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55")
_LLAMA4_FILE = RankFile("d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed")
_QWEN_FILE = RankFile("b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186")
_KIMI_FILE = RankFile("b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103")


def _openai(name: str, pattern: str, special: Mapping[str, int], *files: RankFile) -> EncodingSpec:
    return EncodingSpec(name, pattern, special, files, eos_token=_END)


def _llama(
    name: str, pattern: str, special: Mapping[str, int], file: RankFile, pad_token: str | None
) -> EncodingSpec:
    return EncodingSpec(
        name,
        pattern,
        special,
        (file,),
        bos_token=_BEGIN_END[0],
        eos_token=_BEGIN_END[1],
        pad_token=pad_token,
        begins_with=(_BEGIN_END[0],),
        is_cut=True,
    )


_R50K = replace(
    _openai("r50k_base", _GPT2, {_END: 50256}, _R50K_FILE, _P50K_FILE), ranks_below=50256
)
_LLAMA31_IDS, _LLAMA3_IDS = (_numbered(128000, n) for n in (_LLAMA31_SPECIAL, _LLAMA3_SPECIAL))
_SPECS = (
    _openai("o200k_base", _O200K, _O200K_SPECIAL, _O200K_FILE),
    EncodingSpec(
        "o200k_harmony",
        _O200K,
        _O200K_SPECIAL | _HARMONY_NAMED | _HARMONY_RESERVED,
        (_O200K_FILE,),
        bos_token="<|startoftext|>",
        eos_token="<|return|>",
        pad_token=_END,
    ),
    _openai(
        "cl100k_base",
        _CL100K,
        {**_numbered(100257, (_END, *_FIM)), "<|endofprompt|>": 100276},
        _CL100K_FILE,
    ),
    _openai("p50k_base", _GPT2, {_END: 50256}, _P50K_FILE),
    _openai("p50k_edit", _GPT2, {_END: 50256, **_numbered(50281, _FIM)}, _P50K_FILE),
    _R50K,
    replace(_R50K, name="gpt2"),
    _llama("llama3.1", _LLAMA3, _LLAMA31_IDS, _LLAMA3_FILE, "<|finetune_right_pad_id|>"),
    _llama("llama3", _LLAMA3, _LLAMA3_IDS, _LLAMA3_FILE, None),
    _llama(
        "llama4", _O200K, _numbered(200000, _LLAMA4_SPECIAL), _LLAMA4_FILE, "<|finetune_right_pad|>"
    ),
    EncodingSpec(
        "qwen",
        _QWEN,
        _numbered(151643, (_END, "<|im_start|>", "<|im_end|>", *_EXTRA)),
        (_QWEN_FILE,),
        eos_token=_END,
        is_nfc=True,
    ),
    EncodingSpec(
        "glm4",
        _LLAMA3,
        _numbered(151329, _GLM4_SPECIAL),
        code=("tokenization_chatglm.ChatGLM4Tokenizer",),
        eos_token=_END,
        pad_token=_END,
        begins_with=("[gMASK]", "<sop>"),
    ),
    EncodingSpec(
        "hunyuan",
        _QWEN,
        _numbered(127957, _HUNYUAN_SPECIAL),
        code=("tokenization_hy.HYTokenizer",),
        eos_token="<|eos|>",
        pad_token="<|pad|>",
        is_nfc=True,
        is_numbered=True,
    ),
    EncodingSpec(
        "kimi",
        _KIMI,
        files=(_KIMI_FILE,),
        code=("tokenization_kimi.TikTokenTokenizer", "tokenization_moonshot.TikTokenTokenizer"),
        num_reserved=256,
        is_cut=True,
    ),
)

ENCODINGS: Mapping[str, EncodingSpec] = MappingProxyType({spec.name: spec for spec in _SPECS})
"""Every encoding that is known by name.

If several encodings share a rank file, the first is used unless ``encoding`` is given.
"""
