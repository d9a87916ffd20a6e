"""The request parameters of four APIs, and which ones are rejected.

The APIs are those of OpenAI, vLLM, SGLang and Anthropic.

A parameter that would change the answer and is not supported is rejected by name. An error is
better than an answer that ignores the parameter. Null, and values that change nothing, are
accepted. Parameters that are in no table are ignored.

The tables have every parameter of the clients openai 3.57.0 and anthropic 2.13.0, and of the
servers of vLLM 0.33.0 and SGLang 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from streamdec.server.fields import Fields
from streamdec.server.problems import RequestError

OWN = ("ignore_stops_between", "starts_inside")
"""Parameters of streamdec: the texts or ids between which stops do not count."""


class Refusal(NamedTuple):
    """Why a parameter is rejected, and which of its values change nothing."""

    why: str
    unless: tuple[Any, ...] = ()


class Api(NamedTuple):
    """The parameters of one API."""

    read: frozenset[str]
    harmless: frozenset[str]
    """Parameters that do not change the answer."""
    refused: Mapping[str, Refusal]


def check_supported(fields: Fields, api: Api) -> None:
    """Raise RequestError for an unsupported parameter that changes the answer."""
    for name, value in fields.body.items():
        refusal = api.refused.get(name)
        if refusal is None or value is None or any(_is(value, kept) for kept in refusal.unless):
            continue
        raise RequestError(f"{name}: {refusal.why}", param=name, code="unsupported_parameter")


def _is(value: Any, kept: Any) -> bool:
    """Whether two JSON values are equal. (In Python, False equals 0.)"""
    return value == kept and isinstance(value, bool) is isinstance(kept, bool)


def _all(names: Iterable[str], why: str, *unless: Any) -> dict[str, Refusal]:
    return dict.fromkeys(names, Refusal(why, unless))


_FORM = "this server does not constrain answers; they are plain text"
_BEAMS = "this server does not support beam search"
_CHOICE = "this server does not restrict the generated tokens, except by logit_bias"
_LIMITS = "this server ends an answer only at a stop or at max_tokens, and does not change it"
_NO_PART = "the answers of this server have no such field"
_PASSED_ON = "this server does not pass this parameter to the engine"
_PROMPTS = "a prompt must be messages, text or token ids"
_LOGPROBS = "this server returns only the log probabilities of the likeliest tokens"
_TEMPLATE = "use chat_template_kwargs instead, if the chat template has such a variable"
_SERVICE = "this server has no such service"
_STORED = "this server stores nothing; send all items in input"

_REFUSED: Mapping[str, Refusal] = {
    # OpenAI
    "audio": Refusal(_FORM),
    "modalities": Refusal(_FORM, (["text"],)),
    "response_format": Refusal(_FORM, ({"type": "text"}, {})),
    "tool_choice": Refusal(
        "this server does not force tool calls; use none or auto", ("none", "auto")
    ),
    "functions": Refusal("use tools instead", ([],)),
    "function_call": Refusal("use tool_choice instead", ("none", "auto")),
    "moderation": Refusal(_SERVICE),
    "web_search_options": Refusal(_SERVICE),
    "verbosity": Refusal(_TEMPLATE, ("medium",)),
    "suffix": Refusal("this server continues a text and does not insert into it", ("",)),
    # the form of the answer
    **_all(
        (
            *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
            *("structured_outputs", "json_schema", "regex", "ebnf", "structural_tag"),
        ),
        _FORM,
        *("", {}, []),
    ),
    # what is generated
    "use_beam_search": Refusal(_BEAMS, (False,)),
    "beam_width": Refusal(_BEAMS),
    "length_penalty": Refusal(_BEAMS, (1,)),
    "bad_words": Refusal(_CHOICE, ([],)),
    "allowed_token_ids": Refusal(_CHOICE),
    "thinking_token_budget": Refusal(_LIMITS),
    "repetition_detection": Refusal(_LIMITS),
    "watermark": Refusal(_LIMITS, ({},)),
    "watermarking": Refusal(_LIMITS, (False,)),
    "stop_regex": Refusal("this server does not accept patterns in requests", ("", [])),
    "no_stop_trim": Refusal("use include_stop_str_in_output instead", (False,)),
    "max_new_tokens": Refusal("use max_tokens instead"),
    "min_new_tokens": Refusal("use min_tokens instead", (0,)),
    "sampling_seed": Refusal("use seed instead"),
    "task": Refusal(_TEMPLATE),
    "thinking": Refusal(_TEMPLATE),
    "documents": Refusal("this server does not render documents", ([],)),
    **_all(("vllm_xargs", "extra_args", "custom_params", "session_params"), _PASSED_ON, {}),
    **_all(("custom_logit_processor", "logits_processors"), _PASSED_ON, "", []),
    **_all(("kv_transfer_params", "ec_transfer_params"), _PASSED_ON, {}),
    "lora_path": Refusal("use model to choose what is served", ("",)),
    # the prompt
    **_all(("prompt_embeds", "input_embeds", "input_ids"), _PROMPTS),
    "truncate_prompt_tokens": Refusal("this server does not truncate prompts"),
    # what the answer has
    "detokenize": Refusal("answers always have text; return_token_ids adds the ids", (True,)),
    "return_tokens_as_token_ids": Refusal(
        "log probabilities have the text of tokens; return_token_ids adds the ids", (False,)
    ),
    "prompt_logprobs": Refusal("this server returns no log probabilities of the prompt"),
    "logprob_token_ids": Refusal(_LOGPROBS, ([],)),
    "sampling_logprobs_mode": Refusal(_LOGPROBS),
    **_all(
        (
            *("return_cached_tokens_details", "return_flat_raw_output_top_logprobs"),
            *("return_hidden_states", "return_input_ids_in_sglext", "return_meta_info"),
            *("return_mm_kwargs", "return_output_ids_in_sglext", "return_prompt_text"),
            *("return_prompt_token_ids", "return_routed_experts", "return_sampling_mask"),
            *("return_spec_tokens_details", "return_token_offsets", "return_weight_versions"),
        ),
        _NO_PART,
        False,
    ),
}
_OTHER_STOPS = _all(("stops", "stop_sequences", "stop_strings"), "use stop instead", [])
_SAMPLING = frozenset({
    "model", "n", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "seed", "logit_bias",
    "logprobs", "stop", "stop_token_ids", "include_stop_str_in_output", "ignore_eos",
    "min_tokens", "max_tokens", "skip_special_tokens", "return_token_ids", "best_of", *OWN,
})  # fmt: skip
_HARMLESS = frozenset({
    # who asks, and what the provider stores, counts and caches
    "metadata", "user", "safety_identifier", "service_tier", "store", "priority", "request_id",
    "rid", "session_id", "custom_labels", "cache_salt", "extra_key", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention",
    # how fast the answer comes, and from which worker
    "prediction", "stream_interval", "bootstrap_host", "bootstrap_port", "bootstrap_room",
    "routed_dp_rank", "disagg_prefill_dp_rank", "data_parallel_rank",
    # details of parameters that are rejected, and of images, which are rejected too
    "parallel_tool_calls", "truncation_side", "routed_experts_prompt_start",
    "routed_experts_start_len", "return_flat_raw_top_logprobs_b64", "media_io_kwargs",
    "mm_processor_kwargs", "mm_payload", "images_config", "video_config", "use_audio_in_video",
    "max_dynamic_patch", "min_dynamic_patch",
    # nothing is put between special tokens here, and reasoning comes as it is generated
    "spaces_between_special_tokens", "stream_reasoning",
})  # fmt: skip

COMPLETION = Api(
    _SAMPLING | {"prompt", "echo", "add_special_tokens"},
    _HARMLESS,
    {
        **_REFUSED,
        **_OTHER_STOPS,
        "reasoning_effort": Refusal("only /v1/chat/completions has this parameter"),
        "include_reasoning": Refusal("only /v1/chat/completions has this parameter", (True,)),
    },
)
"""``/v1/completions``."""
CHAT = Api(
    _SAMPLING
    | {
        *("messages", "tools", "top_logprobs", "max_completion_tokens", "reasoning_effort"),
        *("separate_reasoning", "include_reasoning"),
        *("add_generation_prompt", "continue_final_message"),
        *("chat_template", "chat_template_kwargs"),
    },
    _HARMLESS,
    {
        **_REFUSED,
        **_OTHER_STOPS,
        "echo": Refusal("this server does not repeat the last message", (False,)),
        "add_special_tokens": Refusal("the chat template writes the special tokens", (False,)),
    },
)
"""``/v1/chat/completions``."""
RESPONSES = Api(
    (_SAMPLING - {"n", "best_of", "logprobs", "max_tokens", "return_token_ids"})
    | {
        *("input", "instructions", "max_output_tokens", "text", "reasoning", "include"),
        *("tools", "top_logprobs", "metadata", "chat_template_kwargs"),
        "separate_reasoning",
    },
    # The answer has no calls of tools, and nothing is stored.
    (_HARMLESS - {"metadata"}) | {"max_tool_calls", "background_options", "access_programs"},
    {
        **{name: why for name, why in _REFUSED.items() if name != "response_format"},
        **_OTHER_STOPS,
        **_all(("input_ids", "messages", "prompt"), "use input instead"),
        **_all(("max_tokens", "max_completion_tokens"), "use max_output_tokens instead"),
        **_all(("background", "enable_response_messages"), _SERVICE, False),
        **_all(("conversation", "previous_response_id", "previous_response"), _STORED),
        "previous_input_messages": Refusal("use input instead"),
        "context_management": Refusal(_SERVICE, ([],)),
        "image": Refusal("this server supports only text"),
        "include_reasoning": Refusal("only /v1/chat/completions has this parameter", (True,)),
        "reasoning_effort": Refusal("use reasoning.effort instead"),
        "response_format": Refusal("use text.format instead"),
        "truncation": Refusal("this server does not truncate prompts", ("disabled",)),
        **_all(("n", "best_of"), "a response has one sample", 1),
        "logprobs": Refusal("use top_logprobs and include instead", (False,)),
        "return_token_ids": Refusal(_NO_PART, (False,)),
        "echo": Refusal("this server does not repeat the input", (False,)),
        "chat_template": Refusal("only /v1/chat/completions has this parameter"),
    },
)
"""``/v1/responses``."""
ANTHROPIC = Api(
    (_SAMPLING - {"n", "best_of", "logprobs", "return_token_ids", "stop", "stream_options"})
    | {
        *("messages", "system", "tools", "tool_choice", "stop_sequences", "thinking"),
        "chat_template_kwargs",
    },
    (_HARMLESS | {"stream_options"})
    | {
        *("cache_control", "inference_geo", "speed", "diagnostics"),
        *("user_profile_id", "workspace_id"),
    },
    {
        **{name: why for name, why in _REFUSED.items() if name not in ("thinking", "tool_choice")},
        "container": Refusal(_SERVICE),
        "output_config": Refusal(_FORM, ({},)),
        **_all(("n", "best_of"), "a message has one sample", 1),
        "logprobs": Refusal(_NO_PART, (False,)),
        "top_logprobs": Refusal(_NO_PART, (0,)),
        "return_token_ids": Refusal(_NO_PART, (False,)),
        **_all(("stop", "stops", "stop_strings"), "use stop_sequences instead", []),
        "max_completion_tokens": Refusal("use max_tokens instead"),
        "separate_reasoning": Refusal("use thinking instead"),
        "include_reasoning": Refusal("use thinking instead", (True,)),
        "reasoning_effort": Refusal(_TEMPLATE),
        "chat_template": Refusal("only /v1/chat/completions has this parameter"),
        "add_generation_prompt": Refusal("only /v1/chat/completions has this parameter", (True,)),
        "continue_final_message": Refusal("only /v1/chat/completions has this parameter", (False,)),
        "echo": Refusal("this server does not repeat the last message", (False,)),
        "add_special_tokens": Refusal("the chat template writes the special tokens", (False,)),
    },
)
"""Anthropic's ``/v1/messages``."""
