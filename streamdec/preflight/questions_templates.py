"""Questions about chat templates: environment, arguments and turn markers.

In: a folder, an engine, and the ``chat_template_kwargs`` of a request. Out: which arguments reach
the template; which stop ids begin a turn.

The rules were read in the engines' source: vLLM 0.33.0 (``vllm/renderers/hf.py``,
``renderers/online_renderer.py``, ``entrypoints/openai/chat_completion/protocol.py``,
``tokenizers/mistral.py``); SGLang 0.5.10 and 0.5.23
(``srt/entrypoints/openai/serving_chat.py``, ``chat_encoding.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

from streamdec.chat import require_jinja2
from streamdec.children.child import ChildLimits
from streamdec.errors import ChatTemplateError
from streamdec.preflight.engine_versions import ENGINES, Engine, parse_engine
from streamdec.preflight.preflight_report import Evidence
from streamdec.preflight.snapshot import Template, open_snapshot
from streamdec.preflight.turns import openers
from streamdec.preflight.view import View

if TYPE_CHECKING:
    from streamdec.chat.environment import Clock

_STANDARD = {
    *("conversation", "tools", "documents", "chat_template", "add_generation_prompt"),
    *("continue_final_message", "tokenize", "padding", "truncation", "max_length"),
    *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
    "sanitize_control_tokens",
}
"""The named parameters of ``apply_chat_template`` (transformers 5.24.0; 4.57 lacks the last)."""
_FIELDS = {"add_generation_prompt", "continue_final_message"}
"""Fields of a request to vLLM; they always have a value."""
_POSITIONAL = {"conversation", "tokenize", "add_generation_prompt", "tools", "return_dict"}
"""Arguments that SGLang itself passes: a second value is a TypeError."""


class TemplateKwargs(NamedTuple):
    """The arguments of a request: each is kept, dropped or refused.

    >>> from streamdec.preflight import effective_template_kwargs
    >>> kept, dropped, refused = effective_template_kwargs("path/to/model", "sglang", {"x": 1})
    >>> kept
    {'x': 1}
    """

    kept: dict[str, Any]
    """Those that reach the template or the engine's own encoder, by name."""
    dropped: dict[str, str]
    """Those that the engine silently drops, each with the reason."""
    refused: dict[str, str]
    """Those for which the request fails, each with the reason."""


def build_chat_template_env(profile: str = "classic", *, now: Clock | None = None) -> Any:
    """Return a jinja2 environment like that of transformers for chat templates.

    ``profile`` and ``now`` are those of :class:`streamdec.chat.ChatTemplate`, which isolates
    untrusted templates. This sandbox does not limit time or memory.

    Raises :class:`~streamdec.errors.MissingExtraError` without jinja2, ValueError for another
    profile.

    >>> from streamdec.preflight import build_chat_template_env
    >>> environment = build_chat_template_env()
    >>> environment.from_string("{{ {'ä': None} | tojson }}").render()
    '{"ä": null}'
    """
    require_jinja2()
    from streamdec.chat.environment import make_environment

    return make_environment(profile, now=now)


def effective_template_kwargs(
    path: str | os.PathLike[str],
    engine: str,
    kwargs: Mapping[str, Any],
    *,
    with_tools: bool = False,
    trust_request_chat_template: bool = False,
) -> TemplateKwargs:
    """Return which ``chat_template_kwargs`` reach the template of a snapshot.

    Args:
        path: The folder.
        engine: ``vllm``, ``sglang`` or ``transformers`` (a bare ``apply_chat_template``), with a
            version after ``@`` or the newest that is known.
        kwargs: The arguments by name, as in the request.
        with_tools: Whether the request has tools, which selects a template named ``tool_use``.
        trust_request_chat_template: Whether the server was started with this option.

    vLLM drops arguments that the template and ``apply_chat_template`` do not name, and fields of
    the request. SGLang rejects those that it sets itself. transformers passes all.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder,
    :class:`~streamdec.errors.MissingExtraError` for vLLM without jinja2, ValueError for another
    engine, TypeError if a name in ``kwargs`` is not a string.

    >>> from streamdec.preflight import effective_template_kwargs
    >>> effective_template_kwargs("path/to/model", "vllm", {"enable_thinking": False}).dropped
    {'enable_thinking': 'the template does not use it'}
    """
    known = parse_engine(engine)
    if not all(isinstance(name, str) for name in list[object](kwargs)):
        raise TypeError("kwargs must be a mapping of names to values")
    view = View(open_snapshot(path), (known,), render=False)
    tool_use = view.templates.loaded.get("tool_use") if with_tools else None
    template = tool_use or view.templates.default
    given = kwargs.get("chat_template")
    if isinstance(given, str) and (known.name != "vllm" or trust_request_chat_template):
        template = Template(given, "")
    case = _Case(view, known, template, kwargs, {})
    if "chat_template" in kwargs and not trust_request_chat_template:
        case.refused["chat_template"] = "--trust-request-chat-template is off"
    dropped, refused = _RULES[known.name](case)
    dropped = {name: why for name, why in dropped.items() if name not in refused}
    kept = {k: v for k, v in kwargs.items() if k not in dropped and k not in refused}
    return TemplateKwargs(kept, dropped, refused)


class _Case(NamedTuple):
    """A request, and the engine that it goes to."""

    view: View
    engine: Engine
    template: Template | None
    kwargs: Mapping[str, Any]
    refused: dict[str, str]
    """The template of the request if the server does not trust it, with the reason."""


Reasons = tuple[dict[str, str], dict[str, str]]
"""The arguments that are dropped and those that are refused, each with the reason."""
_NO_TEMPLATE = "the snapshot has no chat template"


def _vllm(case: _Case) -> Reasons:
    view, _, template, kwargs, refused = case
    if view.eos.model_type == "gpt_oss":
        reason = "vLLM renders gpt-oss with harmony, without a template"
        return dict.fromkeys(kwargs, reason), {}
    is_weight = re.compile(r"consolidated.*\.safetensors").fullmatch
    if view.mistral_files and any(map(is_weight, view.snapshot.names)):
        reason = "vLLM uses its Mistral mode, which does not support chat_template_kwargs"
        return {}, dict.fromkeys(kwargs, reason)
    if kwargs.get("chat_template") is None:
        refused = {}
    if view.eos.model_type in ("deepseek_v32", "deepseek_v4", "kimi_k3"):
        return {}, refused  # its own encoder receives all names
    if template is None:
        return {}, dict.fromkeys(kwargs, _NO_TEMPLATE) | refused
    require_jinja2()
    from streamdec.chat.isolated import ChildPool, undeclared_isolated

    try:
        with closing(ChildPool(1, ChildLimits(cpu_seconds=1))) as pool:
            named = undeclared_isolated(template.text, pool=pool)
    except ChatTemplateError as error:
        return {}, dict.fromkeys(kwargs, str(error)) | refused
    if "tokenize" in kwargs:
        refused = {**refused, "tokenize": "vLLM raises ValueError for this name"}
    dropped = {}
    for name in kwargs:
        if name in _FIELDS:
            dropped[name] = "the field of the request with this name is used instead"
        elif name not in named | _STANDARD:
            dropped[name] = "the template does not use it"
    return dropped, refused


def _sglang(case: _Case) -> Reasons:
    view, engine, template, kwargs, refused = case
    is_old = engine.before("0.5.23")
    if is_old:
        refused = {}
    listed = view.eos.config.get("architectures")
    architecture = str(listed[0]) if isinstance(listed, list) and listed else ""
    if "DeepseekV3" in architecture and not view.templates.all:
        reason = "SGLang renders this architecture with its own code, which reads only thinking"
        return {name: reason for name in kwargs if is_old and name != "thinking"}, refused
    if not is_old and ("DeepseekV4" in architecture or "KimiK3" in architecture):
        return {}, refused  # its own encoder receives all names
    if template is None:
        return {}, dict.fromkeys(kwargs, _NO_TEMPLATE) | refused
    reason = "SGLang passes this argument itself, so a second value raises TypeError"
    return {}, refused | {name: reason for name in kwargs if name in _POSITIONAL}


def _transformers(case: _Case) -> Reasons:
    return {}, {} if case.template is not None else dict.fromkeys(case.kwargs, _NO_TEMPLATE)


_RULES = {"vllm": _vllm, "sglang": _sglang, "transformers": _transformers}


class TurnMarker(NamedTuple):
    """A stop id that begins a turn.

    >>> from streamdec.preflight import TurnMarker
    >>> print(*TurnMarker(154827, "<|user|>", "before a user message, chat_template.jinja:64"))
    154827 <|user|> before a user message, chat_template.jinja:64
    """

    id: int
    """The token id."""
    content: str
    """Its text."""
    where: str
    """The role whose turn it begins, and its line in the template."""


def is_turn_marker_eos(path: str | os.PathLike[str]) -> list[TurnMarker]:
    """Return the stop ids with which a template begins a turn, and whose turn.

    ``path`` is the folder of the snapshot.

    The ids are those on which vLLM, SGLang or transformers stop, without the marker that closes the
    assistant's turn. A model like GLM ends its turn by starting the next one. The list is also
    empty without a template, or if rendering it fails.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder,
    :class:`~streamdec.errors.MissingExtraError` without jinja2.

    >>> from streamdec.preflight import is_turn_marker_eos
    >>> is_turn_marker_eos("path/to/model")
    []
    """
    require_jinja2()
    view = View(open_snapshot(path), tuple(map(parse_engine, ENGINES)), render=True)
    template = view.templates.default
    if template is None:
        return []
    stops = {text: i for i in sorted(view.stop_ids) if (text := view.tokens.text_of(i))}
    begun = openers(view.probes, {**view.markers, **stops})
    found = []
    for text, i in stops.items():
        if text in begun and (text, i) != view.turns.terminator:
            roles = " and ".join(
                f"{'an' if role == 'assistant' else 'a'} {role} message" for role in begun[text]
            )
            before, is_written, _ = template.text.partition(text)
            line = before.count("\n") + 1 if is_written else None
            place = Evidence(template.file, template.pointer, line=line).place
            found.append(TurnMarker(i, text, f"before {roles}, {place}"))
    return found
