"""Incidents of real models as small snapshots of our own: the same mistake with 260 tokens.

The ids 0 to 255 are the bytes; the added tokens are from 256 on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.preflight.making import CHATML, Parts, added, control

__all__ = ["INCIDENTS", "write"]

GLM = """[gMASK]<sop>
{%- for m in messages %}
{%- if m.role == 'user' %}<|user|>
{{ m.content }}
{%- elif m.role == 'assistant' %}<|assistant|>
{{ m.content }}
{%- for call in m.tool_calls or [] %}
<tool_call>{{ call.function.name }}
{%- for name, value in call.function.arguments.items() %}
<arg_key>{{ name }}</arg_key><arg_value>{{ value }}</arg_value>
{%- endfor %}</tool_call>
{%- endfor %}
{%- elif m.role == 'tool' %}<|observation|>
<tool_response>{{ m.content }}</tool_response>
{%- else %}<|system|>
{{ m.content }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}<|assistant|>
{{ '<think></think>' if enable_thinking is defined and not enable_thinking else '' }}
{%- endif %}"""
KIMI = (
    "{%- for m in messages %}<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>"
    "{{ m.content }}<|im_end|>{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{%- endif %}"
)
GEMMA = (
    "{{ bos_token }}{%- for m in messages %}"
    "<|turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content }}"
    "{%- for call in m.tool_calls or [] %}call:{{ call.function.name }}{"
    "{%- for name, value in call.function.arguments | dictsort %}{{ name }}:{{ value }}"
    "{%- endfor %}}{%- endfor %}<turn|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|turn>model\n{%- endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{%- for m in messages %}{%- if m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{%- else %}<｜Assistant｜>{{ m.content }}<｜end▁of▁sentence｜>{%- endif %}{%- endfor %}"
    "{%- if add_generation_prompt %}<｜Assistant｜><think>\n{%- endif %}"
)
WEIGHTS = {"num_bits": 4, "group_size": 32, "type": "int", "symmetric": True}
QUANTIZATION = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": WEIGHTS}},
    "ignore": [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        "re:.*mlp\\.(gate|up)_proj.*",
    ],
    "kv_cache_scheme": None,
}


def _tokens(parts: Parts, tokens: Mapping[str, bool], *, declared: bool = True) -> None:
    """Gives a snapshot other added tokens, from id 256 on: texts, and whether each is special."""
    entries = [added(text, special=special) for text, special in tokens.items()]
    parts.own[:] = [{"id": 256 + i, **entry} for i, entry in enumerate(entries)]
    assert parts.tokenizer_config is not None
    if declared:
        decoder = {str(256 + i): entry for i, entry in enumerate(entries)}
        parts.say(added_tokens_decoder=decoder)
    else:
        del parts.tokenizer_config["added_tokens_decoder"]


def _eos(parts: Parts, *, config: Any, generation: Any) -> None:
    assert parts.config is not None
    assert parts.generation is not None
    parts.config["eos_token_id"] = config
    parts.generation["eos_token_id"] = generation


def glm(parts: Parts) -> None:
    """GLM-5.1: three ids, two of which begin turns; a class of v5; a list of extra tokens."""
    names = ("<|endoftext|>", "[gMASK]", "<sop>", "<|system|>", "<|user|>", "<|assistant|>")
    _tokens(parts, dict.fromkeys((*names, "<|observation|>"), True), declared=False)
    parts.say(
        tokenizer_class="TokenizersBackend",
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        extra_special_tokens=[*names, "<|observation|>"],
    )
    assert parts.tokenizer_config is not None
    del parts.tokenizer_config["chat_template"]
    parts.others["chat_template.jinja"] = GLM
    _eos(parts, config=[256, 260, 262], generation=[256, 260, 262])


def gemma(parts: Parts) -> None:
    """Gemma 4: one id more in generation_config.json, no decoder, the template in a file."""
    names = ("<bos>", "<eos>", "<|turn>", "<turn|>", "<|tool_response>")
    _tokens(parts, dict.fromkeys(names, True), declared=False)
    parts.say(tokenizer_class="GemmaTokenizer", processor_class="Gemma4Processor")
    parts.say(bos_token="<bos>", eos_token="<eos>", pad_token=None)
    assert parts.tokenizer_config is not None
    del parts.tokenizer_config["chat_template"]
    parts.others["chat_template.jinja"] = GEMMA
    _eos(parts, config=[257, 259], generation=[257, 259, 260])


def kimi(parts: Parts) -> None:
    """Kimi-K2.6: two files were fixed and one was not; the tokenizer is code of the snapshot."""
    names = ("[BOS]", "[EOS]", "<|im_end|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>")
    _tokens(parts, dict.fromkeys((*names, "<|im_system|>"), True))
    parts.tokenizer = None
    parts.say(
        tokenizer_class="TikTokenTokenizer",
        auto_map={"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]},
        bos_token="[BOS]",
        eos_token="[EOS]",
        pad_token=None,
        chat_template=KIMI,
    )
    _eos(parts, config=258, generation=258)
    assert parts.config is not None
    parts.config["text_config"] = {"quantization_config": QUANTIZATION}
    parts.config["dtype"] = "bfloat16"


def qwen(parts: Parts) -> None:
    """Qwen3: the marker that closes a turn is the end of the sequence."""
    parts.say(chat_template=CHATML, pad_token="<|endoftext|>")
    _eos(parts, config=258, generation=[258, 256])


def qwen_base(parts: Parts) -> None:
    """Qwen3.5-Base: the chat template of its sibling, and another end of the sequence."""
    parts.say(eos_token="<|endoftext|>")
    _eos(parts, config=256, generation=256)


def deepseek(parts: Parts) -> None:
    """DeepSeek-V3 and R1: added tokens in tokenizer.json alone, role markers not special."""
    tokens = {"<｜begin▁of▁sentence｜>": True, "<｜end▁of▁sentence｜>": True}
    tokens |= {"<｜User｜>": False, "<｜Assistant｜>": False, "<｜place▁holder▁no▁0｜>": True}
    _tokens(parts, tokens, declared=False)
    parts.say(
        tokenizer_class="LlamaTokenizerFast",
        bos_token=added("<｜begin▁of▁sentence｜>"),
        eos_token=added("<｜end▁of▁sentence｜>"),
        pad_token=added("<｜end▁of▁sentence｜>"),
        chat_template=DEEPSEEK,
    )
    _eos(parts, config=257, generation=257)


def phi(parts: Parts) -> None:
    """Phi-4: what begins a sequence here ends it elsewhere."""
    parts.say(tokenizer_class="GPT2Tokenizer", bos_token="<|endoftext|>", eos_token="<|im_end|>")
    _eos(parts, config=258, generation=258)
    for data in (parts.config, parts.generation):
        assert data is not None
        data["bos_token_id"] = 256


def command_r(parts: Parts) -> None:
    """Command-R-plus: its end of the sequence is special in one file and not in the other."""
    parts.own[2]["special"] = False


INCIDENTS: Mapping[str, Callable[[Parts], None]] = {
    "glm": glm,
    "gemma": gemma,
    "kimi": kimi,
    "qwen": qwen,
    "qwen-base": qwen_base,
    "deepseek": deepseek,
    "phi": phi,
    "command-r": command_r,
}
"""Each incident by the name of its folder."""


def write(folder: Path) -> Path:
    """Writes all of them into ``folder``, each into its own folder."""
    for name, change in INCIDENTS.items():
        control(change).write(folder / name)
    return folder
