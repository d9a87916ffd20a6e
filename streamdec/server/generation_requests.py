"""Reads requests of OpenAI's and Anthropic's APIs into one form.

In: the object of a request, and the limits. Out: a :class:`Generation`; or, for a wrong field, a
:class:`RequestError` that names it. :mod:`streamdec.server.parameters` lists the rejected fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamdec.core.conditions import StopConditions
from streamdec.integrations.requests import from_vllm
from streamdec.server.bodies import check_inner
from streamdec.server.engines import SamplingParams
from streamdec.server.fields import Fields
from streamdec.server.limits import ServerLimits
from streamdec.server.parameters import ANTHROPIC, OWN
from streamdec.server.problems import RequestError, shown

_VLLM_KEYS = (  # the fields that end a stream
    "stop",
    "stop_token_ids",
    "include_stop_str_in_output",
    "ignore_eos",
    "min_tokens",
    "max_tokens",
    "max_completion_tokens",
)
_IDS_PER_SEED = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A request to generate, in either API."""

    model: str
    """The name of the model that the client gave."""
    n: int
    conditions: StopConditions
    sampling: SamplingParams
    stream: bool = False
    include_usage: bool = False
    continuous_usage_stats: bool = False
    logprobs: int | None = None
    """The number of alternatives of each token; None for no log probabilities."""
    skip_special_tokens: bool = True
    return_token_ids: bool = False
    separates_reasoning: bool = False
    """Whether the reasoning is a separate part, without its markers."""
    hides_reasoning: bool = False
    """Whether that part is not sent."""
    starts_in: int | None = None
    """The pair of reasoning markers between which the answer begins, from 1; 0: outside of all.
    None: the prompt decides."""

    def params(self, index: int) -> SamplingParams:
        """Return the parameters of sample ``index`` of a prompt."""
        if not index:
            return self.sampling
        seed = self.sampling.seed
        return replace(self.sampling, index=index, seed=None if seed is None else seed + index)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt: a text or ids."""

    text: str | None
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """A conversation, and the other variables of its template."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    variables: Mapping[str, Any] | None = None
    template: str | None = None
    """The template in the request, which is not trusted."""

    @property
    def without_answer(self) -> Chat:
        """The conversation up to where the answer's own message begins."""
        messages = self.messages[:-1] if self.continue_final_message else self.messages
        return replace(
            self, messages=messages, add_generation_prompt=False, continue_final_message=False
        )


# --- for all --------------------------------------------------------------------------------------


def generation_of(
    body: Mapping[str, Any],
    *,
    served: Sequence[str],
    limits: ServerLimits,
    eos_token_ids: Sequence[int],
    reasoning_markers: Sequence[tuple[str | int, str | int]] = (),
    logprobs: int | None,
    separates_reasoning: bool = False,
    skips_special_tokens: bool = True,
) -> Generation:
    """Read a request, with the field names of OpenAI's API and of vLLM's."""
    fields = Fields(body)
    model = served_model(fields, served)
    n = fields.integer("n", 1, limits.samples) or 1
    best_of = fields.integer("best_of", 1)
    if best_of is not None and best_of != n:
        message = "best_of must equal n: this server does not rank samples"
        raise RequestError(message, param="best_of", code="unsupported_parameter")
    conditions = _conditions(
        fields, limits, eos_token_ids, reasoning_markers, separates_reasoning=separates_reasoning
    )
    stream = fields.flag("stream")
    if fields.get("stream_options") is not None and not stream:
        message = "stream_options is for requests with stream: true"
        raise RequestError(message, param="stream_options")
    options = fields.within("stream_options")
    assert conditions.max_tokens is not None
    sampling = SamplingParams(
        max_tokens=conditions.max_tokens,
        min_tokens=conditions.min_tokens,
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", -1, 1 << 31),
        min_p=fields.number("min_p", 0, 1),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, 10),
        seed=fields.integer("seed", -_IDS_PER_SEED, _IDS_PER_SEED - 1),
        logprobs=logprobs,
        stop_token_ids=conditions.stop_token_ids,
        eos_token_ids=() if conditions.ignore_eos else conditions.eos_token_ids,
        ignore_eos=conditions.ignore_eos,
        n=n,
        logit_bias=_logit_bias(fields),
    )
    return Generation(
        model=model,
        n=n,
        conditions=conditions,
        sampling=sampling,
        stream=stream,
        include_usage=options.flag("include_usage"),
        continuous_usage_stats=options.flag("continuous_usage_stats"),
        logprobs=logprobs,
        skip_special_tokens=fields.flag("skip_special_tokens", default=skips_special_tokens),
        return_token_ids=fields.flag("return_token_ids"),
        separates_reasoning=separates_reasoning,
        starts_in=_start_of_reasoning(fields, conditions) if separates_reasoning else None,
    )


def _start_of_reasoning(fields: Fields, conditions: StopConditions) -> int | None:
    """Return where the reasoning starts if the request says it.

    Returns None if the request does not say it or names other markers.
    """
    if fields.get("starts_inside") is None or conditions.ignore_stops_between:
        return None
    return int(fields.flag("starts_inside"))


def served_model(fields: Fields, served: Sequence[str]) -> str:
    """Return the name of the model; the first one if none is given."""
    model = fields.text("model") or served[0]
    if model not in served:
        message = f"unknown model {shown(model)}; /v1/models lists the models"
        raise RequestError(message, status=404, param="model", code="model_not_found")
    return model


def _conditions(
    fields: Fields,
    limits: ServerLimits,
    eos_token_ids: Sequence[int],
    reasoning_markers: Sequence[tuple[str | int, str | int]],
    *,
    separates_reasoning: bool,
) -> StopConditions:
    for name in ("max_tokens", "max_completion_tokens"):
        fields.integer(name, 1, limits.max_tokens)
    fields.integer("min_tokens", 0, limits.max_tokens)
    given = {key: fields.get(key) for key in _VLLM_KEYS if fields.get(key) is not None}
    for name in ("stop", "stop_token_ids"):
        value = given.get(name)
        if isinstance(value, list) and len(value) > limits.stops:
            message = f"{name} must have at most {limits.stops} stops, not {len(value)}"
            raise RequestError(message, param=name)
    sections = fields.get("ignore_stops_between")
    if isinstance(sections, list) and len(sections) > limits.stops:
        message = f"ignore_stops_between must have at most {limits.stops} pairs"
        raise RequestError(f"{message}, not {len(sections)}", param="ignore_stops_between")
    if not {"max_tokens", "max_completion_tokens"} & given.keys():
        given["max_tokens"] = limits.default_max_tokens or limits.max_tokens
        given["max_tokens"] = max(given["max_tokens"], given.get("min_tokens", 0))
    gate: dict[str, Any] = {key: fields.get(key) for key in OWN}
    if gate["ignore_stops_between"] is None:
        gate["ignore_stops_between"] = reasoning_markers
    if separates_reasoning and not gate["ignore_stops_between"]:
        gate["starts_inside"] = None  # only the reasoning has a start
    try:
        return from_vllm(
            given, eos_token_ids=eos_token_ids, **gate, max_stop_length=limits.stop_characters
        )
    except (TypeError, ValueError) as error:
        message = str(error)
        word = re.match(r"\w+", message)
        param = word[0] if word and word[0] in (*_VLLM_KEYS, *OWN) else None
        raise RequestError(message, param=param) from None


def _logit_bias(fields: Fields) -> dict[int, float]:
    given = fields.mapping("logit_bias") or {}
    found = {}
    for key, value in given.items():
        is_id = key.isascii() and key.isdecimal() and len(key) < 10
        if not is_id or type(value) not in (int, float) or not -100 <= value <= 100:
            message = "logit_bias must be an object of token ids, with numbers from -100 to 100"
            raise RequestError(message, param="logit_bias")
        found[int(key)] = float(value)
    return found


# --- /v1/completions ------------------------------------------------------------------------------


def read_prompts(body: Mapping[str, Any], vocab_size: int, limits: ServerLimits) -> list[Prompt]:
    """Return the prompts of a completion: one text or list of ids, or a list of them."""
    given = body.get("prompt")
    if isinstance(given, str):
        return [Prompt(given)]
    if isinstance(given, list) and given:
        if len(given) <= limits.samples and all(isinstance(each, str) for each in given):
            return [Prompt(each) for each in given]
        if len(given) <= limits.samples and all(isinstance(each, list) for each in given):
            return [prompt_of_ids(each, vocab_size, limits) for each in given]
        if not isinstance(given[0], (str, list)):
            return [prompt_of_ids(given, vocab_size, limits)]
        if len(given) > limits.samples:
            message = f"expected at most {limits.samples} prompts, got {len(given)}"
            raise RequestError(message, param="prompt")
    message = "prompt must be a string, a list of token ids, or a list of either"
    raise RequestError(message, param="prompt")


def prompt_of_ids(
    ids: list[Any], vocab_size: int, limits: ServerLimits, param: str = "prompt"
) -> Prompt:
    """Return the prompt of ``ids``.

    Raises RequestError for an id that the tokenizer does not have, and for too many ids.
    """
    if len(ids) > limits.prompt_tokens:
        raise too_long(str(len(ids)), limits, param)
    is_of_ints = not set(map(type, ids)) - {int}
    if not is_of_ints or (ids and not 0 <= min(ids) <= max(ids) < vocab_size):
        wrong = next(each for each in ids if type(each) is not int or not 0 <= each < vocab_size)
        message = f"{param}: a token id must be from 0 to {vocab_size - 1}, not {shown(wrong)}"
        raise RequestError(message, param=param)
    return Prompt(None, tuple(ids))


def too_long(num_tokens: str, limits: ServerLimits, param: str = "prompt") -> RequestError:
    """Return the error for a prompt of this many tokens."""
    message = f"{param} has {num_tokens} tokens, and the limit is {limits.prompt_tokens}"
    return RequestError(message, param=param, code="context_length_exceeded")


# --- /v1/chat/completions -------------------------------------------------------------------------


def read_chat(body: Mapping[str, Any], limits: ServerLimits) -> Chat:
    """Return the conversation of a chat completion."""
    fields = Fields(body)
    messages = fields.objects("messages")
    if not messages:
        message = "messages must be a list of at least one message"
        raise RequestError(message, param="messages")
    if len(messages) > limits.messages:
        most = f"messages must have at most {limits.messages} messages"
        raise RequestError(f"{most}, not {len(messages)}", param="messages")
    for index, each in enumerate(messages):
        if not isinstance(each.get("role"), str):
            param = f"messages.{index}.role"
            raise RequestError(f"{param} must be a string", param=param)
    tools = fields.objects("tools")
    if fields.get("tool_choice") == "none":
        tools = None
    continues = fields.flag("continue_final_message")
    variables = fields.mapping("chat_template_kwargs")
    if effort := fields.text("reasoning_effort"):
        variables = {"reasoning_effort": effort, **(variables or {})}
    return Chat(
        messages=messages,
        tools=tools or None,
        add_generation_prompt=fields.flag("add_generation_prompt", default=not continues),
        continue_final_message=continues,
        variables=variables,
        template=fields.text("chat_template"),
    )


def check_sizes(messages: Sequence[Mapping[str, Any]], limits: ServerLimits) -> None:
    """Raise RequestError for a message that is too large.

    This takes some milliseconds for large messages.
    """
    for index, each in enumerate(messages):
        size = len(json.dumps(each, ensure_ascii=False, separators=(",", ":")))
        if size > limits.message_characters:
            most = f"and the limit is {limits.message_characters}"
            message = f"messages.{index} has {size} characters as JSON, {most}"
            raise RequestError(message, param=f"messages.{index}")
        for arguments in _arguments(each):
            check_inner(arguments, limits, f"messages.{index}.tool_calls")


def _arguments(message: Mapping[str, Any]) -> Iterator[str]:
    """Yield the arguments of tool calls that are strings; their JSON is parsed later."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            yield arguments


# --- /v1/messages ---------------------------------------------------------------------------------


def read_messages(body: Mapping[str, Any], limits: ServerLimits) -> tuple[Chat, dict[str, Any]]:
    """Return the conversation of an Anthropic request, and its other fields.

    The other fields have the names of OpenAI's API.
    """
    fields = Fields(body)
    if fields.integer("max_tokens", 1) is None:
        raise RequestError("max_tokens is required", param="max_tokens")
    stops = fields.texts("stop_sequences")
    if stops is not None and len(stops) > limits.stops:
        message = f"stop_sequences must have at most {limits.stops} stops, not {len(stops)}"
        raise RequestError(message, param="stop_sequences")
    rest = {name: value for name, value in body.items() if name in ANTHROPIC.read}
    if stops:
        rest["stop"] = stops
    system, messages = fields.get("system"), fields.get("messages")
    if system is not None and not isinstance(system, (str, list)):
        raise fields.wrong("system", "a string or a list of text blocks")
    above = [{"role": "system", "content": system}] if system else []
    choice = fields.within("tool_choice").text("type")
    if choice not in (None, "none", "auto"):
        message = "tool_choice: this server does not force tool calls; use none or auto"
        raise RequestError(message, param="tool_choice", code="unsupported_parameter")
    tools = [_as_function(tool) for tool in fields.objects("tools") or ()]
    variables = fields.mapping("chat_template_kwargs")
    chat = {"tools": tools, "tool_choice": choice, "chat_template_kwargs": variables}
    if isinstance(messages, list):
        messages = [*above, *map(_with_reasoning, messages)]
        return read_chat({**chat, "messages": messages}, limits), rest
    raise fields.wrong("messages", "a list of messages")


def _with_reasoning(message: Any) -> Any:
    """Return a message with its thinking blocks as the field for reasoning.

    Templates read that field. Thinking blocks that only Anthropic can decrypt are left out.
    """
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or message.get("role") != "assistant":
        return message
    kinds = [each.get("type") if isinstance(each, dict) else None for each in content]
    thoughts: list[Any] = [
        each.get("thinking")
        for each, kind in zip(content, kinds, strict=True)
        if kind == "thinking"
    ]
    rest = [
        each
        for each, kind in zip(content, kinds, strict=True)
        if kind not in ("thinking", "redacted_thinking")
    ]
    found = {**message, "content": rest}
    if thoughts and all(isinstance(each, str) for each in thoughts):
        found["reasoning_content"] = "".join(thoughts)
    return found


def _as_function(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool of Anthropic's API in the form of OpenAI's, which templates use."""
    others = {name: value for name, value in tool.items() if name in ("name", "description")}
    return {
        "type": "function",
        "function": {**others, "parameters": tool.get("input_schema", {})},
    }
