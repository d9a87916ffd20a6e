"""Reads requests of OpenAI's and Anthropic's APIs into one form.

In: the object of a request, and what the server knows. Out: a :class:`Generation`, and the prompts
or the conversation. A wrong field is a :class:`RequestError` that names it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from streamdec.chat.messages import TEXT_PARTS
from streamdec.core.conditions import StopConditions
from streamdec.server.engines import SamplingParams
from streamdec.server.errors import RequestError, shown
from streamdec.server.fields import Fields
from streamdec.server.limits import ServerLimits

_SEEDS = 1 << 63
_NUMBERS = MappingProxyType({
    "temperature": (0, 2), "top_p": (0, 1), "min_p": (0, 1), "repetition_penalty": (0, 10),
    "frequency_penalty": (-2, 2), "presence_penalty": (-2, 2),
})  # fmt: skip
"""Parameters of sampling, with their least and largest values."""
_REFUSED = frozenset({
    # the form of the answer
    "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs",
    "json_schema", "regex", "ebnf", "output_config", "output_format", "audio", "functions",
    "suffix", "echo", "prompt_logprobs", "logprob_token_ids", "return_tokens_as_token_ids",
    # the prompt
    "prompt_embeds", "input_ids", "input_embeds", "truncate_prompt_tokens", "documents",
    "chat_template", "continue_final_message", "mcp_servers", "context_management", "compaction",
    "thread",
    # what is generated, and when it ends
    "use_beam_search", "bad_words", "allowed_token_ids", "logit_bias", "logits_processors",
    "custom_logit_processor", "lora_path", "thinking_token_budget", "repetition_detection",
    "ignore_stops_between", "starts_inside", "stop_regex", "stop_strings", "stops", "no_stop_trim",
    "max_new_tokens", "min_new_tokens", "sampling_seed", "max_output_tokens", "max_length",
    "sampling_params", "extra_body", "vllm_xargs",
})  # fmt: skip
"""Parameters of OpenAI, Anthropic, vLLM and SGLang that would change the answer and are not
supported. Only null, false and empty values are accepted."""
_FIXED: Mapping[str, Any] = MappingProxyType({
    "response_format": {"type": "text"}, "modalities": ["text"], "best_of": 1, "detokenize": True,
    "include_reasoning": True, "separate_reasoning": True, "add_special_tokens": True,
    "add_generation_prompt": True, "spaces_between_special_tokens": True, "verbosity": "medium",
    "length_penalty": 1, "web_search_options": None, "eos_token_id": None,
})  # fmt: skip
"""Such parameters with the one value that changes nothing. None: only null is accepted."""
_NOT_OPENAI = _REFUSED | {"stop_sequences"}
_NOT_ANTHROPIC = _REFUSED | {"n", "logprobs", "top_logprobs", "stop", "container"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a server knows before a request."""

    models: tuple[str, ...]
    limits: ServerLimits
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    reasoning_markers: tuple[tuple[str, str], ...]
    """The markers around the model's reasoning, between which stops do not count."""
    skips_special_tokens: bool
    """Whether requests skip special tokens if they do not say so."""
    gives_logprobs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A request to generate, in any API."""

    model: str
    n: int
    conditions: StopConditions
    sampling: SamplingParams
    stream: bool
    include_usage: bool
    skip_special_tokens: bool
    return_token_ids: bool
    separates_reasoning: bool
    """Whether the reasoning is a separate part, without its markers."""

    def params(self, index: int) -> SamplingParams:
        """Return the parameters of sample ``index`` of a prompt."""
        if index == 0:
            return self.sampling
        seed = self.sampling.seed
        return replace(self.sampling, index=index, seed=None if seed is None else seed + index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation, and the other variables of its template."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    variables: dict[str, Any] | None
    continues: bool = False
    """Whether the answer continues the last message."""


Prompt = str | list[int]
"""A prompt: a text or ids."""


def read_completion(body: dict[str, Any], known: Known) -> tuple[Generation, list[Prompt]]:
    """Read a request to ``/v1/completions``."""
    fields = Fields(body)
    prompts = _prompts(fields, known)
    logprobs = fields.integer("logprobs", 0, known.limits.top_logprobs)
    return _generation(fields, known, num_prompts=len(prompts), logprobs=logprobs), prompts


def read_chat(body: dict[str, Any], known: Known) -> tuple[Generation, Chat]:
    """Read a request to ``/v1/chat/completions``."""
    fields = Fields(body)
    top = fields.integer("top_logprobs", 0, known.limits.top_logprobs)
    logprobs = (top or 0) if fields.flag("logprobs") else None
    if top and logprobs is None:
        raise RequestError("top_logprobs needs logprobs: true", param="top_logprobs")
    # Log probabilities belong to one text, so the reasoning is then a part of the content.
    separates = bool(known.reasoning_markers) and logprobs is None
    asked = _generation(fields, known, logprobs=logprobs, separates_reasoning=separates)
    return asked, _chat(fields)


def read_message(body: dict[str, Any], known: Known) -> tuple[Generation, Chat]:
    """Read a request to Anthropic's ``/v1/messages``."""
    fields = Fields(body)
    if fields.get("max_tokens") is None:
        raise RequestError("max_tokens is required", param="max_tokens")
    separates = bool(known.reasoning_markers)
    asked = _generation(fields, known, separates_reasoning=separates, name_of_stop="stop_sequences")
    system = fields.get("system")
    above = [{"role": "system", "content": system}] if system else []
    choice = fields.within("tool_choice").text("type")
    tools = [] if choice == "none" else fields.objects("tools") or []
    changed = {
        "messages": [*above, *(fields.objects("messages") or ())],
        "tools": [{"type": "function", "function": _as_function(tool)} for tool in tools],
        "tool_choice": choice,
    }
    chat = _chat(Fields({**body, **changed}))
    return asked, replace(chat, continues=chat.messages[-1]["role"] == "assistant")


# --- what all requests have -----------------------------------------------------------------------


def _generation(
    fields: Fields,
    known: Known,
    *,
    num_prompts: int = 1,
    logprobs: int | None = None,
    separates_reasoning: bool = False,
    name_of_stop: str = "stop",
) -> Generation:
    _check_supported(fields, _NOT_OPENAI if name_of_stop == "stop" else _NOT_ANTHROPIC)
    limits = known.limits
    model = fields.text("model") or known.models[0]
    if model not in known.models:
        message = f"unknown model {shown(model)}; /v1/models lists the models"
        raise RequestError(message, status=404, param="model", code="model_not_found")
    if logprobs is not None and not known.gives_logprobs:
        message = "the engine does not support log probabilities"
        raise RequestError(message, param="logprobs", code="unsupported_parameter")
    n = fields.integer("n", 1, limits.samples) or 1
    conditions = _conditions(fields, known, name_of_stop)
    max_tokens = conditions.max_tokens
    assert max_tokens is not None
    _check_work(num_prompts * n, max_tokens, 1 + (logprobs or 0), limits)
    stream = fields.flag("stream")
    options = fields.within("stream_options")
    if options.body and not stream:
        raise RequestError("stream_options needs stream: true", param="stream_options")
    numbers: dict[str, Any] = {
        name: fields.number(name, *_NUMBERS[name]) for name in fields.body if name in _NUMBERS
    }
    sampling = SamplingParams(
        max_tokens=max_tokens,
        min_tokens=conditions.min_tokens,
        top_k=fields.integer("top_k", -1, 1 << 31),
        seed=fields.integer("seed", -_SEEDS, _SEEDS - n),
        logprobs=logprobs,
        stop_token_ids=conditions.stop_token_ids,
        eos_token_ids=() if conditions.ignore_eos else conditions.eos_token_ids,
        ignore_eos=conditions.ignore_eos,
        n=n,
        **numbers,
    )
    return Generation(
        model=model,
        n=n,
        conditions=conditions,
        sampling=sampling,
        stream=stream,
        include_usage=options.flag("include_usage"),
        skip_special_tokens=fields.flag("skip_special_tokens", known.skips_special_tokens),
        return_token_ids=fields.flag("return_token_ids"),
        separates_reasoning=separates_reasoning,
    )


def _check_supported(fields: Fields, refused: frozenset[str]) -> None:
    """Raise RequestError for an unsupported parameter that would change the answer."""
    for name, value in fields.body.items():
        is_wrong = value is not None and name in _FIXED and value != _FIXED[name]
        if is_wrong or (value and name in refused):
            message = f"{name} would change the answer, and this server does not support it"
            raise RequestError(message, param=name, code="unsupported_parameter")


def _check_work(samples: int, tokens: int, logprobs: int, limits: ServerLimits) -> None:
    if samples > limits.samples:
        message = f"n times the prompts must be at most {limits.samples}, not {samples}"
        raise RequestError(message, param="n")
    if (work := samples * tokens * logprobs) > limits.work:
        message = (
            f"{samples} samples of {tokens} tokens with {logprobs} log probabilities are {work}, "
            f"and the product must be at most {limits.work}"
        )
        raise RequestError(message, param="max_tokens")


def _conditions(fields: Fields, known: Known, name_of_stop: str) -> StopConditions:
    limits = known.limits
    most = limits.max_tokens
    max_tokens = fields.integer("max_completion_tokens", 1, most)
    if max_tokens is None:
        max_tokens = fields.integer("max_tokens", 1, most) or most
    markers = known.reasoning_markers
    try:
        return StopConditions(
            stop=_stops(fields, name_of_stop, limits),
            stop_token_ids=_stop_ids(fields, known),
            include_stop_str_in_output=fields.flag("include_stop_str_in_output"),
            min_tokens=fields.integer("min_tokens", 0, most) or 0,
            max_tokens=max_tokens,
            ignore_eos=fields.flag("ignore_eos"),
            eos_token_ids=known.eos_token_ids,
            ignore_stops_between=markers or None,
        )
    except ValueError as error:
        raise error if isinstance(error, RequestError) else RequestError(str(error)) from None


def _stops(fields: Fields, name: str, limits: ServerLimits) -> list[str]:
    """Return the stop strings of a request."""
    given = fields.get(name)
    stops = [given] if isinstance(given, str) else given or []
    most = limits.stop_characters
    if (
        not isinstance(stops, list)
        or len(stops) > limits.stops
        or not all(isinstance(each, str) and 0 < len(each) <= most for each in stops)
    ):
        wanted = f"at most {limits.stops} strings of 1 to {most} characters"
        raise RequestError(f"{name} must be {wanted}", param=name)
    if re.search("[\ud800-\udfff]", "".join(stops)):
        raise RequestError(f"{name} has a lone surrogate, half of a character", param=name)
    return stops


def _stop_ids(fields: Fields, known: Known) -> list[int]:
    ids = fields.get("stop_token_ids") or []
    most = known.limits.stops
    if not isinstance(ids, list) or len(ids) > most or not _are_ids(ids, known.vocab_size):
        wanted = f"at most {most} token ids from 0 to {known.vocab_size - 1}"
        raise RequestError(f"stop_token_ids must be {wanted}", param="stop_token_ids")
    return ids


def _are_ids(given: list[Any], vocab_size: int) -> bool:
    return not set(map(type, given)) - {int} and all(0 <= each < vocab_size for each in given)


# --- prompts and conversations --------------------------------------------------------------------


def _prompts(fields: Fields, known: Known) -> list[Prompt]:
    """Return the prompts of a completion: one text or list of ids, or a list of them."""
    given, most = fields.get("prompt"), known.limits.samples
    prompts = given if isinstance(given, list) else [given]
    if prompts and all(type(each) is int for each in prompts):
        prompts = [prompts]
    are_right = all(
        isinstance(each, str) or (isinstance(each, list) and _are_ids(each, known.vocab_size))
        for each in prompts
    )
    if not are_right or not 0 < len(prompts) <= most:
        ids = f"a list of token ids from 0 to {known.vocab_size - 1}"
        raise fields.wrong("prompt", f"a text, {ids}, or a list of up to {most} of either")
    return prompts


def _chat(fields: Fields) -> Chat:
    messages = fields.objects("messages")
    if not messages:
        raise fields.wrong("messages", "a list of at least one message")
    if not all(isinstance(each.get("role"), str) for each in messages):
        raise RequestError("the role of each message must be a string", param="messages")
    choice = fields.get("tool_choice")
    if choice not in (None, "none", "auto"):
        message = "this server does not force tool calls; use none or auto"
        raise RequestError(message, param="tool_choice", code="unsupported_parameter")
    variables = fields.mapping("chat_template_kwargs")
    if effort := fields.text("reasoning_effort"):
        variables = {"reasoning_effort": effort, **(variables or {})}
    return Chat(
        messages=[_with_reasoning(each) for each in messages],
        tools=None if choice == "none" else fields.objects("tools") or None,
        variables=variables,
    )


def _with_reasoning(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose thinking blocks, of Anthropic's API, are its reasoning.

    Encrypted ones are left out. Raises RequestError for a part that the engine would not get.
    """
    content = message.get("content")
    if not isinstance(content, list):
        return message
    kept, thoughts = [], ""
    for part in content:
        kind = part.get("type", "text") if isinstance(part, dict) else "text"
        if kind == "thinking":
            thoughts += str(part.get("thinking") or "")
        elif kind in TEXT_PARTS:
            kept.append(part)
        elif kind != "redacted_thinking":
            told = f"messages have a part {shown(kind)}, and this server supports only text"
            raise RequestError(told, param="messages")
    message = {**message, "content": kept}
    return {"reasoning": thoughts, **message} if thoughts else message


def _as_function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool of Anthropic's API in the form of OpenAI's, which templates use."""
    named = {name: tool[name] for name in ("name", "description") if name in tool}
    return {**named, "parameters": tool.get("input_schema", {})}
