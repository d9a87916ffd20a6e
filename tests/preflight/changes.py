"""Changes to the control: for each finding one that makes it fire, and some that almost do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.preflight.making import CHATML, Parts, added


def config(**values: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.config.update(values) if parts.config is not None else None


def generation(**values: Any) -> Callable[[Parts], None]:
    return lambda p: p.generation.update(values) if p.generation is not None else None


def say(**values: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.say(**values)


def file(name: str, content: str | bytes | dict[str, Any]) -> Callable[[Parts], None]:
    return lambda parts: parts.others.update({name: content})


def both(*changes: Callable[[Parts], object]) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        for each in changes:
            each(parts)

    return change


def without(*names: str) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        for name in names:
            setattr(parts, name, None)

    return change


def drop(*keys: str) -> Callable[[Parts], None]:
    def change(parts: Parts) -> None:
        for key in keys:
            assert parts.tokenizer_config is not None
            parts.tokenizer_config.pop(key, None)

    return change


def flag(index: int, *, special: bool) -> Callable[[Parts], None]:
    return lambda parts: parts.own[index].update(special=special)


def template(text: str) -> Callable[[Parts], None]:
    return say(chat_template=text)


def ending(text: str) -> Callable[[Parts], None]:
    return template(CHATML + text)


def entry(token_id: int, content: str, *, special: bool = True) -> Callable[[Parts], None]:
    return lambda parts: parts.decoder.update({str(token_id): added(content, special=special)})


def pieces(*added_pieces: str) -> Callable[[Parts], None]:
    """Give the last letters of the vocabulary other texts."""

    def change(parts: Parts) -> None:
        assert parts.tokenizer is not None
        letters = [*parts.tokenizer["model"]["vocab"]]
        letters[256 - len(added_pieces) :] = added_pieces
        parts.tokenizer["model"]["vocab"] = {letter: i for i, letter in enumerate(letters)}

    return change


def decoder(**fields: Any) -> Callable[[Parts], None]:
    """Pieces that begin with the byte-level sign for a space, and this decoder."""

    def change(parts: Parts) -> None:
        pieces(*(f"Ġ{i}" for i in range(20)))(parts)
        assert parts.tokenizer is not None
        parts.tokenizer["decoder"] = fields

    return change


def own(token_id: int, content: str, *, special: bool = True) -> Callable[[Parts], None]:
    return lambda parts: parts.own.append({"id": token_id, **added(content, special=special)})


QUANT = {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}}
LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
GLM = (
    "{%- for m in messages %}{{ '<|im_start|>' if m.role == 'user' else '<|pad|>' }}{{ m.content }}"
    "{%- endfor %}{% if add_generation_prompt %}<|pad|>{% endif %}"
)

METASPACE = decoder(type="Metaspace", replacement="▁", prepend_scheme="always", split=True)
CLOSED_TWICE = template(CHATML.replace("'<|im_end|>", "'<|pad|><|im_end|>"))  # as Command R7B
CALLING = CHATML.replace(  # a call ends with a token of its own, as in gpt-oss
    "'<|im_end|>\\n' }}", "('<|pad|>' if m.tool_calls else '<|im_end|>\\n') }}"
).replace("+ (m", "+ (m.tool_calls[0].function.arguments.at if m.tool_calls else '') + (m")
FORGETTING = CHATML.replace(
    "m['role'] +",
    "m.role + ('<think>' if loop.last and m.reasoning == m.reasoning_content else '') +",
)
TEXT = "(m['content'] if m['content'] is string else '')"

CASES: dict[str, Callable[[Parts], object]] = {
    "EOS_SOURCES_DISAGREE": config(eos_token_id=[256, 258]),
    "EOS_ENGINES_DISAGREE": say(eos_token="<|endoftext|>"),
    "EOS_TERMINATOR_NOT_STOPPED": both(
        say(eos_token="<|pad|>"), config(eos_token_id=259), generation(eos_token_id=259)
    ),
    "EOS_TOOL_CALL_NOT_STOPPED": template(CALLING),
    "EOS_TURN_PRIMER_IN_STOP_SET": both(template(GLM), generation(eos_token_id=[257, 258])),
    "EOS_MISSING_EVERYWHERE": both(
        drop("eos_token"), config(eos_token_id=None), generation(eos_token_id=None)
    ),
    "EOS_TOKEN_NOT_IN_VOCAB": say(eos_token="</s>"),
    "EOS_ID_UNKNOWN": generation(eos_token_id=[258, 900]),
    "EOS_CLASS_DEFAULT_IN_EFFECT": lambda parts: (
        parts.config.pop("eos_token_id") if parts.config else None
    ),
    "EOS_TEXT_CONFIG_ONLY": lambda parts: setattr(
        parts, "config", {"model_type": "gemma3", "text_config": {"eos_token_id": 258}}
    ),
    "EOS_ZERO_DROPPED": generation(eos_token_id=0),
    "GENERATION_CONFIG_MISSING": without("generation"),
    "GENERATION_STOP_STRINGS_IGNORED": generation(stop_strings=["END"]),
    "BOS_SOURCES_DISAGREE": both(say(bos_token="<|endoftext|>"), generation(bos_token_id=257)),
    "PAD_EQUALS_EOS": say(pad_token="<|im_end|>"),
    "SPECIAL_FLAG_DRIFT": flag(2, special=False),
    "ADDED_TOKEN_CONTENT_DRIFT": entry(259, "<|padding|>"),
    "ADDED_TOKEN_ONLY_IN_CONFIG": entry(260, "<tool>"),
    "ADDED_TOKEN_ID_NOT_HONOURED": both(own(270, "<gap>"), entry(270, "<gap>")),
    "ADDED_TOKENS_DECODER_ABSENT": drop("added_tokens_decoder"),
    "ADDED_TOKENS_DECODER_SHAPE": say(added_tokens_decoder=[added("<|im_end|>")]),
    "EXTRA_SPECIAL_TOKENS_LIST": say(extra_special_tokens=["<|im_start|>"]),
    "EXTRA_SPECIAL_SHADOWS_ADDITIONAL": say(
        extra_special_tokens=["<|im_start|>"], additional_special_tokens=["<|pad|>"]
    ),
    "EXTRA_SPECIAL_NOT_SKIPPED": both(
        own(260, "<u>", special=False),
        entry(260, "<u>", special=False),
        say(additional_special_tokens=["<u>"]),
    ),
    "SPECIAL_TOKENS_MAP_OVERRIDES": both(
        drop("added_tokens_decoder"),
        file("special_tokens_map.json", {"eos_token": "<|endoftext|>"}),
    ),
    "SPECIAL_TOKENS_MAP_STALE": file(
        "special_tokens_map.json", {"eos_token": added("<|endoftext|>")}
    ),
    "STRUCTURAL_TOKEN_NOT_SPECIAL": both(
        flag(1, special=False), entry(257, "<|im_start|>", special=False)
    ),
    "TEMPLATE_MARKER_NOT_A_TOKEN": template(
        CHATML.replace("'<|im_start|>assistant", "'<|im_begin|>assistant")
    ),
    "FILE_INVALID_JSON": file("special_tokens_map.json", b"\xef\xbb\xbf{}"),
    "FILE_LFS_POINTER": both(without("tokenizer"), file("tokenizer.json", LFS)),
    "FILE_TOO_LARGE": file("chat_template.jinja", b" " * (2**20 + 1)),
    "FILE_UNREADABLE": file("chat_template.jinja", b"\xff\xfe{"),
    "TOKENIZER_JSON_INVALID": lambda parts: (
        parts.tokenizer.update(model={"type": "none"}) if parts.tokenizer else None
    ),
    "DECODER_CANNOT_READ_VOCAB": METASPACE,
    "TOKENIZER_JSON_MISSING": without("tokenizer"),
    "TOKENIZER_CONFIG_TYPE": say(eos_token=["<|im_end|>"]),
    "TOKENIZER_CLASS_REQUIRES_V5": say(tokenizer_class="TokenizersBackend"),
    "TOKENIZER_CLASS_UNKNOWN": say(tokenizer_class="AcmeTokenizerFast"),
    "TOKENIZER_REMOTE_CODE": say(auto_map=["tokenization_acme.Acme", None]),
    "ADD_BOS_EOS_FLAG_IGNORED": say(add_bos_token=True),
    "CHAT_TEMPLATE_MISSING": drop("chat_template"),
    "CHAT_TEMPLATE_BYPASSED": config(model_type="gpt_oss"),
    "CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE": file(
        "chat_template.jinja", CHATML.replace("assistant", "model")
    ),
    "CHAT_TEMPLATE_INLINE_LOST": file("additional_chat_templates/rag.jinja", CHATML),
    "CHAT_TEMPLATE_NO_DEFAULT": say(chat_template=[{"name": "tool_use", "template": CHATML}]),
    "CHAT_TEMPLATE_LEGACY_JSON": file("chat_template.json", {"chat_template": CHATML}),
    "CHAT_TEMPLATE_SYNTAX_ERROR": template("{% for m in messages %}{{ m.content }}"),
    "CHAT_TEMPLATE_UNKNOWN_NAME": ending("{% if tools %}{{ tools | from_json }}{% endif %}"),
    "CHAT_TEMPLATE_SANDBOX_VIOLATION": ending("{{ messages.__class__.__mro__ }}"),
    "CHAT_TEMPLATE_RESOURCE_LIMIT": ending("{{ 'a' * 4000000000 }}"),
    "CHAT_TEMPLATE_FAILS": ending("{{ messages[0].content.gone.x }}"),
    "CHAT_TEMPLATE_REFUSES": ending("{% if tools %}{{ raise_exception('no tools') }}{% endif %}"),
    "CHAT_TEMPLATE_IGNORES_GENERATION_PROMPT": template(CHATML.partition("{%- if")[0]),
    "CHAT_TEMPLATE_REWRITES_TURNS": template(FORGETTING),
    "CHAT_TEMPLATE_CLOCK_DEPENDENT": template("{{ strftime_now('%d') }}" + CHATML),
    "CHAT_TEMPLATE_NEEDS_KWARGS": ending("{% if enable_thinking %}!{% endif %}"),
    "CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS": ending(
        "{% for m in messages %}{% for c in m.tool_calls or [] %}{% for k, v in "
        "c.function.arguments.items() %}{{ k }}{% endfor %}{% endfor %}{% endfor %}"
    ),
    "CHAT_TEMPLATE_NONE_CONTENT_LEAK": template(CHATML.replace(f"+ {TEXT} +", "~ m['content'] ~")),
    "CHAT_TEMPLATE_LIST_CONTENT_REPR": template(CHATML.replace(f"+ {TEXT} +", "~ m['content'] ~")),
    "QUANT_NESTED": config(text_config={"quantization_config": QUANT}),
    "QUANT_SIDECAR_ONLY": file("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}}),
    "QUANT_KV_SCHEME_NULL": config(quantization_config={**QUANT, "kv_cache_scheme": None}),
}
GRAVER = dict.fromkeys(
    ("SPECIAL_FLAG_DRIFT", "TOKENIZER_JSON_MISSING", "CHAT_TEMPLATE_FAILS"), "error"
)
"""The severities in these snapshots that are not those of the rules."""
RENDERED = {
    "EOS_TERMINATOR_NOT_STOPPED",
    "EOS_TOOL_CALL_NOT_STOPPED",
    "EOS_TURN_PRIMER_IN_STOP_SET",
    "CHAT_TEMPLATE_REWRITES_TURNS",
    "CHAT_TEMPLATE_SANDBOX_VIOLATION",
    "CHAT_TEMPLATE_RESOURCE_LIMIT",
    "CHAT_TEMPLATE_FAILS",
    "CHAT_TEMPLATE_REFUSES",
    "CHAT_TEMPLATE_IGNORES_GENERATION_PROMPT",
    "CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS",
    "CHAT_TEMPLATE_NONE_CONTENT_LEAK",
    "CHAT_TEMPLATE_LIST_CONTENT_REPR",
}
"""Those for which the template is rendered, which takes a child process."""
NEAR_MISSES: dict[str, Callable[[Parts], object]] = {
    "EOS_SOURCES_DISAGREE: the same id as a list": generation(eos_token_id=[258, 258]),
    "EOS_SOURCES_DISAGREE: one file is silent": without("generation"),
    "EOS_ENGINES_DISAGREE: one file is broken": file("generation_config.json", "{"),
    "EOS_TERMINATOR_NOT_STOPPED: the old ChatML, which ends with the answer": template(
        CHATML.replace("+ '<|im_end|>\\n'", "+ ('' if loop.last else '<|im_end|>\\n')")
    ),
    "EOS_TERMINATOR_NOT_STOPPED: no marker closes a turn": template(GLM),
    "EOS_TOOL_CALL_NOT_STOPPED: it is a stop id": both(
        template(CALLING), generation(eos_token_id=[258, 259]), config(eos_token_id=259)
    ),
    "EOS_TOOL_CALL_NOT_STOPPED: the end of an answer is reported": both(
        template(CALLING.replace("<|pad|>", "<|im_end|>")), generation(eos_token_id=256)
    ),
    "EOS_TOOL_CALL_NOT_STOPPED: a stop id begins the result": both(
        template(CALLING), generation(eos_token_id=[257, 258]), config(eos_token_id=257)
    ),
    "DECODER_CANNOT_READ_VOCAB: it can": decoder(
        type="ByteLevel", add_prefix_space=True, trim_offsets=True, use_regex=True
    ),
    "DECODER_CANNOT_READ_VOCAB: it replaces the sign": decoder(
        type="Replace", pattern={"String": "Ġ"}, content=" "
    ),
    "DECODER_CANNOT_READ_VOCAB: of the class": both(METASPACE, config(model_type="qwen2")),
    "DECODER_CANNOT_READ_VOCAB: a few pieces": pieces("##", "###", "## ", "##a"),
    "CHAT_TEMPLATE_REWRITES_TURNS: the end of the text is another": ending("{{ '<|endoftext|>' }}"),
    "EOS_TURN_PRIMER_IN_STOP_SET: no stop id opens a turn": template(GLM),
    "EOS_TURN_PRIMER_IN_STOP_SET: a marker closes a turn": generation(eos_token_id=[257, 258]),
    "EOS_MISSING_EVERYWHERE: the tokenizer has one": both(
        config(eos_token_id=None), generation(eos_token_id=None)
    ),
    "EOS_TOKEN_NOT_IN_VOCAB: a word of the model": say(eos_token="a"),
    "EOS_ID_UNKNOWN: the last id that there is": generation(eos_token_id=[258, 259]),
    "EOS_ID_UNKNOWN: no tokenizer.json tells": both(
        without("tokenizer"), generation(eos_token_id=9)
    ),
    "EOS_CLASS_DEFAULT_IN_EFFECT: null is declared": config(eos_token_id=None),
    "EOS_CLASS_DEFAULT_IN_EFFECT: the class has none": lambda p: setattr(
        p, "config", {"model_type": "qwen2"}
    ),
    "EOS_ZERO_DROPPED: in a list": generation(eos_token_id=[0]),
    "EOS_ZERO_DROPPED: false is not an id": generation(eos_token_id=False),
    "BOS_SOURCES_DISAGREE: the same": both(
        say(bos_token="<|endoftext|>"), generation(bos_token_id=256)
    ),
    "BOS_SOURCES_DISAGREE: null names no token": both(say(bos_token=None), config(bos_token_id=9)),
    "SPECIAL_FLAG_DRIFT: another id": both(drop("pad_token"), entry(261, "<|pad|>")),
    "ADDED_TOKEN_CONTENT_DRIFT: the text is elsewhere": entry(261, "<|pad|>"),
    "ADDED_TOKEN_ONLY_IN_CONFIG: another id": entry(261, "<|pad|>"),
    "ADDED_TOKEN_ONLY_IN_CONFIG: a word of the model": entry(64, "a"),
    "ADDED_TOKEN_ID_NOT_HONOURED: no gap": both(own(260, "<next>"), entry(260, "<next>")),
    "SPECIAL_TOKENS_MAP_OVERRIDES: the same in another form": both(
        drop("added_tokens_decoder"),
        file("special_tokens_map.json", {"eos_token": added("<|im_end|>")}),
    ),
    "SPECIAL_TOKENS_MAP_OVERRIDES: it is not read": file(
        "special_tokens_map.json", {"eos_token": "<|endoftext|>"}
    ),
    "SPECIAL_TOKENS_MAP_STALE: it is read": both(
        drop("added_tokens_decoder"),
        file("special_tokens_map.json", {"eos_token": "<|endoftext|>"}),
    ),
    "STRUCTURAL_TOKEN_NOT_SPECIAL: in a comment": both(
        own(260, "<x>", special=False), ending("{# <x> #}")
    ),
    "STRUCTURAL_TOKEN_NOT_SPECIAL: a role makes it special": flag(2, special=False),
    "TEMPLATE_MARKER_NOT_A_TOKEN: in a comment": ending("{# <|im_begin|> #}"),
    "TEMPLATE_MARKER_NOT_A_TOKEN: put together": ending("{{ '<|' ~ 'x' ~ '|>' }}"),
    "TOKENIZER_CONFIG_TYPE: null, a typed object and an object of models": say(
        bos_token=None,
        eos_token={"__type": "AddedToken", **added("<|im_end|>")},
        auto_map={"AutoModel": "a.Acme"},
    ),
    "TOKENIZER_CONFIG_TYPE: the map has objects without a type": both(
        drop("added_tokens_decoder"),
        file("special_tokens_map.json", {"eos_token": added("<|im_end|>")}),
    ),
    "FILE_INVALID_JSON: NaN and infinity, which Python reads": file(
        "config.json", '{"eos_token_id": 258, "x": NaN, "y": -Infinity}'
    ),
    "TOKENIZER_CLASS_UNKNOWN: a class without Fast": say(tokenizer_class="LlamaTokenizer"),
    "TOKENIZER_CLASS_UNKNOWN: its code is named": say(
        tokenizer_class="Acme", auto_map={"AutoTokenizer": ["a.Acme", None]}
    ),
    "CHAT_TEMPLATE_MISSING: engines have code for it": both(
        drop("chat_template"), config(model_type="gpt_oss")
    ),
    "CHAT_TEMPLATE_MISSING: an empty file is one": both(
        drop("chat_template"), file("chat_template.jinja", "")
    ),
    "CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE: other ends of lines": both(
        ending("\na"), file("chat_template.jinja", CHATML + "\r\na")
    ),
    "CHAT_TEMPLATE_UNKNOWN_NAME: in a branch that guards it": ending(
        "{% if helper is defined %}{{ helper() }}{% endif %}"
    ),
    "CHAT_TEMPLATE_NEEDS_KWARGS: always given": ending("{{ documents }}{{ tools }}"),
    "CHAT_TEMPLATE_NEEDS_KWARGS: a role": ending("{{ eos_token }}"),
    "CHAT_TEMPLATE_NEEDS_KWARGS: made there": ending("{% set x = 1 %}{{ x }}"),
    "CHAT_TEMPLATE_NONE_CONTENT_LEAK: the word is always there": ending("None"),
    "QUANT_NESTED: the top level has it too": config(
        quantization_config=QUANT, text_config={"quantization_config": QUANT}
    ),
    "QUANT_SIDECAR_ONLY: config.json has it too": both(
        config(quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"}),
        file("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4"}}),
    ),
}
"""What is almost a finding and none: each rule's border from the other side."""
