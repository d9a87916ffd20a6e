"""Questions about chat templates: environment, arguments and turn markers.

In: a folder, an engine, and the ``chat_template_kwargs`` of a request. Out: which arguments reach
the template; which stop ids begin a turn. A template is parsed for arguments and rendered for
turns, both in a child process.

The rules were read in the engines' source: vLLM 0.33.0 (``vllm/renderers/hf.py``,
``renderers/online_renderer.py``, ``entrypoints/openai/chat_completion/protocol.py``,
``tokenizers/mistral.py``); SGLang 0.5.10 and 0.5.23
(``srt/entrypoints/openai/serving_chat.py``, ``chat_encoding.py``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from streamdec.chat import require_jinja2
from streamdec.children.child import ChildLimits
from streamdec.errors import ChatTemplateError
from streamdec.preflight.engine_versions import Engine, parse_engine
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.templates import Template
from streamdec.preflight.turns import openers
from streamdec.preflight.view import View

if TYPE_CHECKING:
    from streamdec.chat.environment import Clock

_STANDARD = frozenset(
    (
        *("conversation", "tools", "documents", "chat_template", "add_generation_prompt"),
        *("continue_final_message", "tokenize", "padding", "truncation", "max_length"),
        *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
        "sanitize_control_tokens",
    )
)
"""The named parameters of ``apply_chat_template`` (transformers 5.24.0; 4.57 lacks the last)."""
_FIELDS = frozenset(("add_generation_prompt", "continue_final_message"))
"""Fields of a request to vLLM; they always have a value."""
_POSITIONAL = frozenset(
    ("conversation", "tokenize", "add_generation_prompt", "tools", "return_dict")
)
"""Arguments that SGLang itself passes: a second value is a TypeError."""
_TRUST = "--trust-request-chat-template is off"


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

    Args:
        profile: ``"classic"`` for transformers 4.57 to 5.20, ``"hardened"`` for 5.22.2 and later.
        now: A datetime, or a function that returns one, for ``strftime_now``. By default the
            local time.

    The sandbox does not limit time or memory. For untrusted templates use
    :class:`streamdec.chat.ChatTemplate` with ``isolate=True``.

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

    vLLM drops arguments that are neither names in the template nor parameters of
    ``apply_chat_template``, and fields of the request. SGLang rejects the arguments that it sets
    itself, and passes all others. transformers passes all arguments.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder,
    :class:`~streamdec.errors.MissingExtraError` if jinja2 is needed and missing (only for vLLM),
    ValueError for another engine, TypeError if a name in ``kwargs`` is not a string.

    >>> from streamdec.preflight import effective_template_kwargs
    >>> effective_template_kwargs("path/to/model", "vllm", {"enable_thinking": False}).dropped
    {'enable_thinking': 'the template does not use it'}
    """
    known = parse_engine(engine)
    names: list[object] = list(kwargs)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("kwargs must be a mapping of names to values")
    view = View(open_snapshot(path), (known,), render=False)
    tool_use = view.templates.loaded.get("tool_use") if with_tools else None
    template = tool_use or view.templates.default
    case = _Case(view, known, template, dict(kwargs), trust_request_chat_template)
    dropped, refused = _RULES[known.name](case)
    dropped = {name: why for name, why in dropped.items() if name not in refused}
    kept = {k: v for k, v in kwargs.items() if k not in dropped and k not in refused}
    return TemplateKwargs(kept, dropped, refused)


class _Case(NamedTuple):
    """A request, and the engine that it goes to."""

    view: View
    engine: Engine
    template: Template | None
    kwargs: dict[str, Any]
    is_trusted: bool

    @property
    def architecture(self) -> str:
        """The first architecture in the configuration; empty without one."""
        listed = self.view.eos.config.get("architectures")
        first = listed[0] if isinstance(listed, list) and listed else ""
        return first if isinstance(first, str) else ""

    def all_as(self, reason: str) -> dict[str, str]:
        """Return every name with the same reason."""
        return dict.fromkeys(self.kwargs, reason)


Reasons = tuple[dict[str, str], dict[str, str]]
"""The arguments that are dropped and those that are refused, each with the reason."""
_NO_TEMPLATE = "the snapshot has no chat template"


def _vllm(case: _Case) -> Reasons:
    view, given = case.view, case.kwargs.get("chat_template")
    if view.eos.model_type == "gpt_oss":
        return case.all_as("vLLM renders gpt-oss with harmony, without a template"), {}
    if view.mistral_files and view.mistral_weights:
        reason = "vLLM uses its Mistral mode, which does not support chat_template_kwargs"
        return {}, case.all_as(reason)
    refused = {} if given is None or case.is_trusted else {"chat_template": _TRUST}
    if view.eos.model_type in ("deepseek_v32", "deepseek_v4", "kimi_k3"):
        return {}, refused  # its own encoder receives all names
    template = case.template.text if case.template is not None else None
    if isinstance(given, str) and case.is_trusted:
        template = given
    if template is None:
        return {}, case.all_as(_NO_TEMPLATE) | refused
    try:
        named = _undeclared(template)
    except ChatTemplateError as error:
        return {}, case.all_as(str(error)) | refused
    if "tokenize" in case.kwargs:
        refused["tokenize"] = "vLLM raises ValueError for this name"
    dropped = {}
    for name in case.kwargs:
        if name in _FIELDS:
            dropped[name] = "the field of the request with this name is used instead"
        elif name not in named | _STANDARD:
            dropped[name] = "the template does not use it"
    return dropped, refused


def _sglang(case: _Case) -> Reasons:
    is_old = case.engine.before("0.5.23")
    given = case.kwargs.get("chat_template")
    refused = {}
    if "chat_template" in case.kwargs and not case.is_trusted and not is_old:
        refused["chat_template"] = _TRUST
    if "DeepseekV3" in case.architecture and case.template is None:
        reason = "SGLang renders this architecture with its own code, which reads only thinking"
        others = case.all_as(reason) if is_old else {}
        others.pop("thinking", None)
        return others, refused
    if not is_old and any(name in case.architecture for name in ("DeepseekV4", "KimiK3")):
        return {}, refused  # its own encoder receives all names
    if case.template is None and not isinstance(given, str):
        return {}, case.all_as(_NO_TEMPLATE) | refused
    reason = "SGLang passes this argument itself, so a second value raises TypeError"
    return {}, refused | {name: reason for name in case.kwargs if name in _POSITIONAL}


def _transformers(case: _Case) -> Reasons:
    if case.template is None and not isinstance(case.kwargs.get("chat_template"), str):
        return {}, case.all_as(_NO_TEMPLATE)
    return {}, {}


_RULES = {"vllm": _vllm, "sglang": _sglang, "transformers": _transformers}


def _undeclared(template: str) -> frozenset[str]:
    """Return the variables not defined by a template, as ``jinja2.meta`` finds them."""
    require_jinja2()
    from streamdec.chat.isolated import ChildPool, undeclared_isolated

    pool = ChildPool(1, ChildLimits(cpu_seconds=1))
    try:
        return undeclared_isolated(template, pool=pool)
    finally:
        pool.close()


# --- turns ----------------------------------------------------------------------------------------

_ARTICLES = {"assistant": "an"}
_ENGINES = ("vllm", "sglang", "transformers")


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
    assistant's turn. A model like GLM ends its turn by starting the next one. The template is
    rendered, so the list is also empty without a template, or if it fails.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder,
    :class:`~streamdec.errors.MissingExtraError` without jinja2.

    >>> from streamdec.preflight import is_turn_marker_eos
    >>> is_turn_marker_eos("path/to/model")
    []
    """
    require_jinja2()
    view = View(open_snapshot(path), tuple(map(parse_engine, _ENGINES)), render=True)
    template = view.templates.default
    if template is None:
        return []
    place = f"{template.file}{template.pointer and '#' + template.pointer}"
    stops = {text: i for i in sorted(view.stop_ids) if (text := view.tokens.text_of(i))}
    begun = openers(view.probes, {**view.markers, **stops})
    return [
        TurnMarker(i, text, f"before {_listed(begun[text])}, {place}{_line(template.text, text)}")
        for text, i in stops.items()
        if text in begun
    ]


def _listed(roles: Iterable[str]) -> str:
    return " and ".join(f"{_ARTICLES.get(role, 'a')} {role} message" for role in roles)


def _line(text: str, marker: str) -> str:
    """Return a colon and the line that contains a marker; "" if no line does."""
    before, found, _ = text.partition(marker)
    line = before.count("\n") + 1
    return f":{line}" if found else ""
