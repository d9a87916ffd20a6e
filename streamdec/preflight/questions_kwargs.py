"""Questions about chat templates: their environment, and which arguments of a request reach them.

In: a folder, an engine, and what a request has as ``chat_template_kwargs``. Out: which of them
reach what renders the prompt. The template is parsed and neither compiled nor rendered.

The rules were read in the engines' source: vLLM 0.33.0 (``vllm/renderers/hf.py``,
``renderers/online_renderer.py``, ``entrypoints/openai/chat_completion/protocol.py``,
``tokenizers/mistral.py``), its pull requests 25794 (the list of allowed names, in 0.11.0) and 27622
(the library's own names are on it, from 0.11.1); SGLang 0.5.10 and 0.5.23
(``srt/entrypoints/openai/serving_chat.py``, ``chat_encoding.py``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streamdec.errors import ChatTemplateError
from streamdec.preflight.engines import Engine, parse_engine
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.templates import Template
from streamdec.preflight.view import View

if TYPE_CHECKING:
    from streamdec.chat.environment import Clock

__all__ = ["TemplateKwargs", "build_chat_template_env", "effective_template_kwargs"]

_STANDARD = frozenset(
    (
        *("conversation", "tools", "documents", "chat_template", "add_generation_prompt"),
        *("continue_final_message", "tokenize", "padding", "truncation", "max_length"),
        *("return_tensors", "return_dict", "return_assistant_tokens_mask", "tokenizer_kwargs"),
        "sanitize_control_tokens",
    )
)
"""The named parameters of ``apply_chat_template`` (transformers 5.23.0; 4.57 lacks the last)."""
_FIELDS = frozenset(("add_generation_prompt", "continue_final_message"))
"""Fields of a request to vLLM, which always have a value."""
_POSITIONAL = frozenset(
    ("conversation", "tokenize", "add_generation_prompt", "tools", "return_dict")
)
"""What SGLang gives ``apply_chat_template`` itself: a second value is a TypeError."""
_TRUST = "--trust-request-chat-template is off"


class TemplateKwargs(NamedTuple):
    """What became of the arguments of a request: each is kept, dropped or refused.

    >>> from streamdec.preflight import effective_template_kwargs
    >>> kept, dropped, refused = effective_template_kwargs("path/to/model", "sglang", {"x": 1})
    >>> kept
    {'x': 1}
    """

    kept: dict[str, Any]
    """Those that reach what renders the prompt, by name."""
    dropped: dict[str, str]
    """Those that are left out without a word: why, by name."""
    refused: dict[str, str]
    """Those for which the request is answered with an error: why, by name."""


def build_chat_template_env(profile: str = "classic", *, now: Clock | None = None) -> Any:
    """The jinja2 environment in which transformers renders chat templates, new at each call.

    ``profile`` and ``now`` are those of :mod:`streamdec.chat`: ``classic`` as transformers 4.57 to
    5.20 has it, ``hardened`` as from 5.22 on; ``now`` stands in for the local time. The sandbox
    stops code, not cost: for templates of strangers use :class:`streamdec.chat.ChatTemplate` with
    ``isolate=True``.

    Raises :class:`~streamdec.MissingExtraError` without jinja2, ValueError for another profile.

    >>> from streamdec.preflight import build_chat_template_env
    >>> environment = build_chat_template_env()
    >>> environment.from_string("{{ {'ä': None} | tojson }}").render()
    '{"ä": null}'
    """
    return _chat("environment").make_environment(profile, now=now)


def effective_template_kwargs(
    path: str | os.PathLike[str],
    engine: str,
    kwargs: Mapping[str, Any],
    *,
    with_tools: bool = False,
    trust_request_chat_template: bool = False,
) -> TemplateKwargs:
    """Which ``chat_template_kwargs`` of a request reach the template of the snapshot in ``path``.

    Args:
        path: the folder.
        engine: ``vllm``, ``sglang`` or ``transformers`` (a bare ``apply_chat_template``), with a
            version after ``@`` or the newest that is known.
        kwargs: by name, as in the request.
        with_tools: whether the request has tools, which chooses a template named ``tool_use``.
        trust_request_chat_template: whether the server was started so.

    vLLM drops what is neither a name in the template nor a parameter of ``apply_chat_template``;
    SGLang and transformers hand on everything, and a template ignores what it does not name.

    Raises :class:`~streamdec.PreflightError` for what is no folder,
    :class:`~streamdec.MissingExtraError` without jinja2, ValueError for another engine.

    TypeError is for names in ``kwargs`` that are no strings.

    >>> from streamdec.preflight import effective_template_kwargs
    >>> effective_template_kwargs("path/to/model", "vllm", {"enable_thinking": False}).dropped
    {'enable_thinking': 'the template does not name it'}
    """
    known = parse_engine(engine)
    if known.name not in _RULES:
        raise ValueError(f"engine must be one of {', '.join(_RULES)}, not {engine!r:.60}")
    names: list[object] = list(kwargs)
    if not all(isinstance(name, str) for name in names):
        raise TypeError("kwargs must be a mapping of names to values")
    view = View(Snapshot(Path(path)), (known,), render=False)
    case = _Case(view, known, dict(kwargs), with_tools, trust_request_chat_template)
    return _RULES[known.name](case)


class _Case(NamedTuple):
    """A request and whom it goes to."""

    view: View
    engine: Engine
    kwargs: dict[str, Any]
    with_tools: bool
    is_trusted: bool

    @property
    def architecture(self) -> str:
        """The first of the configuration's architectures; empty without one."""
        listed = self.view.eos.config.get("architectures")
        first = listed[0] if isinstance(listed, list) and listed else ""
        return first if isinstance(first, str) else ""

    @property
    def template(self) -> Template | None:
        """The template that a request gets."""
        templates = self.view.templates
        special = templates.loaded.get("tool_use") if self.with_tools else None
        return special or templates.default

    def sorted_out(
        self, dropped: Mapping[str, str] | None = None, refused: Mapping[str, str] | None = None
    ) -> TemplateKwargs:
        """The rest is kept."""
        out, no = dict(dropped or {}), dict(refused or {})
        kept = {k: v for k, v in self.kwargs.items() if k not in out and k not in no}
        return TemplateKwargs(kept, out, no)

    def all_as(self, reason: str) -> dict[str, str]:
        """Every name with the same reason."""
        return dict.fromkeys(self.kwargs, reason)


def _vllm(case: _Case) -> TemplateKwargs:
    if case.view.eos.model_type == "gpt_oss":
        return case.sorted_out(case.all_as("vLLM renders gpt-oss with harmony, without a template"))
    if _is_mistral_native(case):
        reason = "vLLM takes its Mistral mode, where chat_template_kwargs are not supported"
        return case.sorted_out(refused=case.all_as(reason))
    refused = {}
    given = case.kwargs.get("chat_template")
    if given is not None and not case.is_trusted:
        refused["chat_template"] = _TRUST
    if _has_own_encoder(case):
        return case.sorted_out(refused=refused)
    template = case.template.text if case.template is not None else None
    if isinstance(given, str) and case.is_trusted:
        template = given
    if template is None:
        reason = "the snapshot has no chat template"
        return case.sorted_out(refused=case.all_as(reason) | refused)
    try:
        named = _undeclared(template)
    except ChatTemplateError as error:
        return case.sorted_out(refused=case.all_as(f"the template: {error}") | refused)
    is_old = case.engine.before("0.11.1")
    if "tokenize" in case.kwargs and not is_old:
        refused["tokenize"] = "vLLM raises ValueError for this name"
    dropped = {}
    # The code of a snapshot usually takes **kwargs; which names its signature has is not known.
    standard = frozenset[str]() if is_old and case.view.tokens.is_remote else _STANDARD
    for name in case.kwargs:
        if name in _FIELDS:
            dropped[name] = "the field of the request with this name counts"
        elif name not in named | standard:
            dropped[name] = (
                "vLLM before 0.11.1 drops what the tokenizer's own code takes as **kwargs"
                if name in _STANDARD
                else "the template does not name it"
            )
    return case.sorted_out({k: v for k, v in dropped.items() if k not in refused}, refused)


def _sglang(case: _Case) -> TemplateKwargs:
    refused = {}
    if case.engine.before("0.5.23"):
        first_encoder = "DeepseekV3" in case.architecture and case.template is None
        if first_encoder:
            rest = {k: _only("thinking") for k in case.kwargs if k != "thinking"}
            return case.sorted_out(rest)
    else:
        if "chat_template" in case.kwargs and not case.is_trusted:
            refused["chat_template"] = _TRUST
        if _has_own_encoder(case) or ("DeepseekV3" in case.architecture and case.template is None):
            return case.sorted_out(refused=refused)
    if case.template is None and not isinstance(case.kwargs.get("chat_template"), str):
        reason = "the snapshot has no chat template"
        return case.sorted_out(refused=case.all_as(reason) | refused)
    for name in case.kwargs:
        if name in _POSITIONAL:
            refused[name] = "SGLang gives it a value itself: TypeError, multiple values"
    return case.sorted_out(refused=refused)


def _transformers(case: _Case) -> TemplateKwargs:
    if case.template is None and not isinstance(case.kwargs.get("chat_template"), str):
        return case.sorted_out(refused=case.all_as("the snapshot has no chat template"))
    return case.sorted_out()


_RULES = {"vllm": _vllm, "sglang": _sglang, "transformers": _transformers}


def _only(name: str) -> str:
    return f"SGLang renders this architecture with code of its own, which reads {name} alone"


def _has_own_encoder(case: _Case) -> bool:
    """Whether the engine renders with code of its own, which is given all names."""
    types = ("deepseek_v32", "deepseek_v4", "kimi_k3")
    if case.engine.name == "sglang":
        return any(name in case.architecture for name in ("DeepseekV4", "KimiK3"))
    return case.view.eos.model_type in types


def _is_mistral_native(case: _Case) -> bool:
    names = case.view.snapshot.names
    is_native = any(n == "tekken.json" or n.startswith("tokenizer.model.v") for n in names)
    return is_native and any(re.fullmatch(r"consolidated.*\.safetensors", n) for n in names)


def _undeclared(template: str) -> frozenset[str]:
    """The variables that a template does not make itself, as ``jinja2.meta`` finds them.

    Without computing its constants: jinja2 does that while it looks for the variables, and a
    constant may be as large as a template likes.
    """
    environment = _chat("environment").make_environment("classic")
    tree = _chat("static_check").check_template(environment, template).tree
    # vLLM looks with an environment that lacks these two.
    for name in ("raise_exception", "strftime_now"):
        environment.globals.pop(name)
    meta, nodes = import_module("jinja2.meta"), import_module("jinja2.nodes")

    class Finder(meta.TrackingCodeGenerator):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__(environment)
            self.optimizer = None

        def _output_child_to_const(self, node: Any, frame: Any, finalize: Any) -> str:
            raise nodes.Impossible

        def visit_EvalContextModifier(self, node: Any, frame: Any) -> None:  # noqa: N802
            return

    finder = Finder()
    try:
        finder.visit(tree)
    except (import_module("jinja2").TemplateError, RecursionError) as error:
        raise ChatTemplateError(f"it cannot be compiled: {error}") from error
    return frozenset(finder.undeclared_identifiers)


def _chat(module: str) -> Any:
    """A module of :mod:`streamdec.chat`. Raises :class:`MissingExtraError` without jinja2."""
    return import_module("streamdec.chat._jinja").within(f"streamdec.chat.{module}")
