"""The request parameters of OpenAI, vLLM, SGLang and Anthropic, and which ones are rejected.

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

OWN = ("enable_stops_after", "disable_stops_after", "ignore_stops_between", "starts_inside")
"""Parameters of streamdec: the texts or ids between which stops count or do not count."""


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
    """Raise RequestError for a parameter that would change the answer and is not supported."""
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


_FORM = "answers are not constrained here, they are only text"
_BEAMS = "beams are not served here"
_CHOICE = "which tokens are generated is not limited here; the engine gets logit_bias"
_LIMITS = "answers are not ended or changed here other than by stops and max_tokens"
_NO_PART = "the answer has no such part here"
_PASSED_ON = "the engine gets no such parameter"
_PROMPTS = "prompts are messages, text or token ids here"
_LOGPROBS = "only log probabilities of the likeliest tokens are served here"
_TEMPLATE = "give it in chat_template_kwargs, if the chat template has such a variable"
_SERVICE = "there is no such service here"
_STORED = "nothing is stored here: give all items in input"

_REFUSED: Mapping[str, Refusal] = {
    # OpenAI
    "audio": Refusal(_FORM),
    "modalities": Refusal(_FORM, (["text"],)),
    "response_format": Refusal(_FORM, ({"type": "text"}, {})),
    "tool_choice": Refusal(
        "calls of tools are not forced here, only none or auto", ("none", "auto")
    ),
    "functions": Refusal("use tools", ([],)),
    "function_call": Refusal("use tool_choice", ("none", "auto")),
    "moderation": Refusal(_SERVICE),
    "web_search_options": Refusal(_SERVICE),
    "verbosity": Refusal(_TEMPLATE, ("medium",)),
    "suffix": Refusal("text is not inserted here, only continued", ("",)),
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
    "stop_regex": Refusal("patterns of a client are not served here", ("", [])),
    "no_stop_trim": Refusal("use include_stop_str_in_output", (False,)),
    "max_new_tokens": Refusal("use max_tokens"),
    "min_new_tokens": Refusal("use min_tokens", (0,)),
    "sampling_seed": Refusal("use seed"),
    "task": Refusal(_TEMPLATE),
    "thinking": Refusal(_TEMPLATE),
    "documents": Refusal("documents are not rendered here", ([],)),
    **_all(("vllm_xargs", "extra_args", "custom_params", "session_params"), _PASSED_ON, {}),
    **_all(("custom_logit_processor", "logits_processors"), _PASSED_ON, "", []),
    **_all(("kv_transfer_params", "ec_transfer_params"), _PASSED_ON, {}),
    "lora_path": Refusal("model names what is served here", ("",)),
    # the prompt
    **_all(("prompt_embeds", "input_embeds", "input_ids"), _PROMPTS),
    "truncate_prompt_tokens": Refusal("prompts are not truncated here"),
    # what the answer has
    "detokenize": Refusal("answers have text here; return_token_ids adds the ids", (True,)),
    "return_tokens_as_token_ids": Refusal(
        "log probabilities have the tokens' text here; return_token_ids adds the ids", (False,)
    ),
    "prompt_logprobs": Refusal("log probabilities of the prompt are not served here"),
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
        "reasoning_effort": Refusal("it is for chats"),
        "include_reasoning": Refusal("it is for chats", (True,)),
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
        "echo": Refusal("the last message is not repeated here", (False,)),
        "add_special_tokens": Refusal("the chat template writes them", (False,)),
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
        **_all(("input_ids", "messages", "prompt"), "use input"),
        **_all(("max_tokens", "max_completion_tokens"), "use max_output_tokens"),
        **_all(("background", "enable_response_messages"), _SERVICE, False),
        **_all(("conversation", "previous_response_id", "previous_response"), _STORED),
        "previous_input_messages": Refusal("use input"),
        "context_management": Refusal(_SERVICE, ([],)),
        "image": Refusal("only text is served here"),
        "include_reasoning": Refusal("it is for chats", (True,)),
        "reasoning_effort": Refusal("use reasoning.effort"),
        "response_format": Refusal("use text.format"),
        "truncation": Refusal("prompts are not truncated here", ("disabled",)),
        **_all(("n", "best_of"), "a response is one sample", 1),
        "logprobs": Refusal("use top_logprobs and include", (False,)),
        "return_token_ids": Refusal(_NO_PART, (False,)),
        "echo": Refusal("the input is not repeated here", (False,)),
        "chat_template": Refusal("it is for chats"),
    },
)
"""``/v1/responses``."""
ANTHROPIC = Api(
    frozenset({
        "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stream",
        "stop_sequences", "temperature", "top_p", "top_k", "thinking", *OWN,
    }),
    frozenset({
        "metadata", "service_tier", "cache_control", "inference_geo", "speed", "diagnostics",
        "user_profile_id", "workspace_id",
    }),
    {
        "container": Refusal(_SERVICE),
        "output_config": Refusal(_FORM, ({},)),
    },
)  # fmt: skip
"""Anthropic's ``/v1/messages``."""
