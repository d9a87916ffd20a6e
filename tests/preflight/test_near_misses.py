"""What is almost a finding and none: each rule's border from the other side."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from streamdec.preflight import inspect
from tests.preflight.changes import (
    CALLING,
    GLM,
    METASPACE,
    QUANT,
    RENDERED,
    both,
    config,
    decoder,
    drop,
    entry,
    file,
    flag,
    generation,
    own,
    pieces,
    say,
    template,
    without,
)
from tests.preflight.making import CHATML, Parts, added, control

NEAR_MISSES: list[tuple[str, str, Callable[[Parts], object]]] = [
    ("EOS_SOURCES_DISAGREE", "the same id as a list", generation(eos_token_id=[258, 258])),
    ("EOS_SOURCES_DISAGREE", "one file is silent", without("generation")),
    ("EOS_ENGINES_DISAGREE", "one file is broken", file("generation_config.json", "{")),
    (
        "EOS_TERMINATOR_NOT_STOPPED",
        "the old ChatML, which ends with the answer",
        template(CHATML.replace("+ '<|im_end|>\\n'", "+ ('' if loop.last else '<|im_end|>\\n')")),
    ),
    ("EOS_TERMINATOR_NOT_STOPPED", "no marker closes a turn", template(GLM)),
    (
        "EOS_TOOL_CALL_NOT_STOPPED",
        "it is a stop id",
        both(template(CALLING), generation(eos_token_id=[258, 259]), config(eos_token_id=259)),
    ),
    (
        "EOS_TOOL_CALL_NOT_STOPPED",
        "the end of an answer is reported",
        both(template(CALLING.replace("<|pad|>", "<|im_end|>")), generation(eos_token_id=256)),
    ),
    (
        "EOS_TOOL_CALL_NOT_STOPPED",
        "a stop id begins the result",
        both(template(CALLING), generation(eos_token_id=[257, 258]), config(eos_token_id=257)),
    ),
    (
        "DECODER_CANNOT_READ_VOCAB",
        "it can",
        decoder(type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True),
    ),
    (
        "DECODER_CANNOT_READ_VOCAB",
        "it replaces the sign",
        decoder(type="Replace", pattern={"String": "Ġ"}, content=" "),
    ),
    ("DECODER_CANNOT_READ_VOCAB", "of the class", both(METASPACE, config(model_type="qwen2"))),
    ("DECODER_CANNOT_READ_VOCAB", "a few pieces", pieces("##", "###", "## ", "##a")),
    (
        "CHAT_TEMPLATE_REWRITES_TURNS",
        "the end of the text is another",
        template(CHATML + "{{ '<|endoftext|>' }}"),
    ),
    ("EOS_TURN_PRIMER_IN_STOP_SET", "no stop id opens a turn", template(GLM)),
    ("EOS_TURN_PRIMER_IN_STOP_SET", "a marker closes a turn", generation(eos_token_id=[257, 258])),
    (
        "EOS_MISSING_EVERYWHERE",
        "the tokenizer has one",
        both(config(eos_token_id=None), generation(eos_token_id=None)),
    ),
    ("EOS_TOKEN_NOT_IN_VOCAB", "a word of the model", say(eos_token="a")),
    ("EOS_ID_UNKNOWN", "the last id that there is", generation(eos_token_id=[258, 259])),
    (
        "EOS_ID_UNKNOWN",
        "no tokenizer.json tells",
        both(without("tokenizer"), generation(eos_token_id=9)),
    ),
    ("EOS_CLASS_DEFAULT_IN_EFFECT", "null is declared", config(eos_token_id=None)),
    (
        "EOS_CLASS_DEFAULT_IN_EFFECT",
        "the class has none",
        lambda p: setattr(p, "config", {"model_type": "qwen2"}),
    ),
    ("EOS_ZERO_DROPPED", "in a list", generation(eos_token_id=[0])),
    ("EOS_ZERO_DROPPED", "false is not an id", generation(eos_token_id=False)),
    (
        "BOS_SOURCES_DISAGREE",
        "the same",
        both(say(bos_token="<|endoftext|>"), generation(bos_token_id=256)),
    ),
    ("BOS_SOURCES_DISAGREE", "null is none", both(say(bos_token=None), config(bos_token_id=9))),
    ("SPECIAL_FLAG_DRIFT", "another id", both(drop("pad_token"), entry(261, "<|pad|>"))),
    ("ADDED_TOKEN_CONTENT_DRIFT", "the text is elsewhere", entry(261, "<|pad|>")),
    ("ADDED_TOKEN_ONLY_IN_CONFIG", "another id", entry(261, "<|pad|>")),
    ("ADDED_TOKEN_ONLY_IN_CONFIG", "a word of the model", entry(64, "a")),
    ("ADDED_TOKEN_ID_NOT_HONOURED", "no gap", both(own(260, "<next>"), entry(260, "<next>"))),
    (
        "SPECIAL_TOKENS_MAP_OVERRIDES",
        "the same in another form",
        both(
            drop("added_tokens_decoder"),
            file("special_tokens_map.json", {"eos_token": added("<|im_end|>")}),
        ),
    ),
    (
        "SPECIAL_TOKENS_MAP_OVERRIDES",
        "it is not read",
        file("special_tokens_map.json", {"eos_token": "<|endoftext|>"}),
    ),
    (
        "SPECIAL_TOKENS_MAP_STALE",
        "it is read",
        both(
            drop("added_tokens_decoder"),
            file("special_tokens_map.json", {"eos_token": "<|endoftext|>"}),
        ),
    ),
    (
        "STRUCTURAL_TOKEN_NOT_SPECIAL",
        "in a comment",
        both(own(260, "<x>", special=False), template(CHATML + "{# <x> #}")),
    ),
    ("STRUCTURAL_TOKEN_NOT_SPECIAL", "a role makes it special", flag(2, special=False)),
    ("TEMPLATE_MARKER_NOT_A_TOKEN", "in a comment", template(CHATML + "{# <|im_begin|> #}")),
    ("TEMPLATE_MARKER_NOT_A_TOKEN", "put together", template(CHATML + "{{ '<|' ~ 'x' ~ '|>' }}")),
    ("TOKENIZER_CLASS_UNKNOWN", "a class without Fast", say(tokenizer_class="LlamaTokenizer")),
    (
        "TOKENIZER_CLASS_UNKNOWN",
        "its code is named",
        say(tokenizer_class="Acme", auto_map={"AutoTokenizer": ["a.Acme", None]}),
    ),
    (
        "CHAT_TEMPLATE_MISSING",
        "engines have code for it",
        both(drop("chat_template"), config(model_type="gpt_oss")),
    ),
    (
        "CHAT_TEMPLATE_MISSING",
        "an empty file is one",
        both(drop("chat_template"), file("chat_template.jinja", "")),
    ),
    (
        "CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE",
        "other ends of lines",
        both(template(CHATML + "\na"), file("chat_template.jinja", CHATML + "\r\na")),
    ),
    ("CHAT_TEMPLATE_NEEDS_KWARGS", "always given", template(CHATML + "{{ documents }}{{ tools }}")),
    ("CHAT_TEMPLATE_NEEDS_KWARGS", "a role", template(CHATML + "{{ eos_token }}")),
    ("CHAT_TEMPLATE_NEEDS_KWARGS", "made there", template(CHATML + "{% set x = 1 %}{{ x }}")),
    ("CHAT_TEMPLATE_NONE_CONTENT_LEAK", "the word is always there", template(CHATML + "None")),
    (
        "QUANT_NESTED",
        "the top level has it too",
        config(quantization_config=QUANT, text_config={"quantization_config": QUANT}),
    ),
    (
        "QUANT_SIDECAR_ONLY",
        "config.json has it too",
        both(
            config(quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"}),
            file("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}}),
        ),
    ),
]


@pytest.mark.parametrize(
    ("code", "change"), [pytest.param(c, f, id=f"{c}: {why}") for c, why, f in NEAR_MISSES]
)
def test_a_near_miss_is_not_a_finding(
    code: str, change: Callable[[Parts], object], tmp_path: Path
) -> None:
    report = inspect(control(change).write(tmp_path), render=code in RENDERED)
    assert code not in report.codes, [str(f) for f in report.findings if f.code == code]
