"""Rules about chat templates: which one is in effect, and what it does with conversations."""

from __future__ import annotations

from collections.abc import Iterator

from streamdec.errors import ChatTemplateError
from streamdec.preflight.preflight_report import Evidence, Finding
from streamdec.preflight.rules import RULES
from streamdec.preflight.templates import CONFIG, DIRECTORY, FILE, LEGACY, Template
from streamdec.preflight.turns import CHILD_DIED, FIRST, WHAT, probe
from streamdec.preflight.view import View

__all__ = ["check"]

_MOST_RENDERED = 3
"""Templates besides the default: each takes a process of its own."""

_BY_CODE = {
    rule.code: rule
    for rule in (
        RULES["CHAT_TEMPLATE_SYNTAX_ERROR"],
        RULES["CHAT_TEMPLATE_SANDBOX_VIOLATION"],
        RULES["CHAT_TEMPLATE_RESOURCE_LIMIT"],
    )
}
_OWN_CODE = {
    "gpt_oss": "harmony",
    "deepseek_v32": "an encoder of their own for DeepSeek V3.2",
    "deepseek_v4": "an encoder of their own for DeepSeek V4",
    "kimi_k3": "an encoder of their own for Kimi K3",
}
_ARCHITECTURES = {
    "GptOssForCausalLM": "gpt_oss",
    "DeepseekV32ForCausalLM": "deepseek_v32",
    "DeepseekV4ForCausalLM": "deepseek_v4",
    "KimiK3ForConditionalGeneration": "kimi_k3",
}


def check(view: View) -> Iterator[Finding]:
    """All that this module's rules say of a snapshot."""
    yield from _places(view)
    rendered = 0
    for name, template in view.templates.all:
        rendered += template is not view.templates.default
        yield from _parsed(view, name, template, view.render and rendered <= _MOST_RENDERED)
    yield from _rendered(view)


def _places(view: View) -> Iterator[Finding]:
    templates = view.templates
    kind = _encoder_of(view)
    if kind:
        place = Evidence("config.json", "/model_type", value=view.eos.model_type)
        yield RULES["CHAT_TEMPLATE_BYPASSED"](
            place, Evidence(note=f"engines have {_OWN_CODE[kind]}")
        )
    unread = any(f.name in (FILE, CONFIG, LEGACY) for f in view.snapshot.problems())
    if not templates.all and not kind and not view.mistral_files and not unread:
        yield RULES["CHAT_TEMPLATE_MISSING"](
            Evidence(note=f"no {FILE}, {DIRECTORY}, {LEGACY}, nor an entry in {CONFIG}")
        )
    yield from _shadowed(view)
    if templates.loaded and not templates.is_single:
        names = Evidence(value=sorted(templates.loaded)[:20], note="names")
        yield (
            RULES["CHAT_TEMPLATE_NAMED"]
            if "default" in templates.loaded
            else RULES["CHAT_TEMPLATE_NO_DEFAULT"]
        )(names)
    if templates.sidecar is not None and "default" in templates.additional:
        yield RULES["CHAT_TEMPLATE_DEFAULT_COLLISION"](
            Evidence(FILE), Evidence(f"{DIRECTORY}/default.jinja")
        )
    if LEGACY in view.snapshot.names:
        yield RULES["CHAT_TEMPLATE_LEGACY_JSON"](Evidence(LEGACY, "/chat_template"))


def _encoder_of(view: View) -> str:
    """The architecture for which engines have an encoder of their own; empty for others."""
    if view.eos.model_type in _OWN_CODE:
        return view.eos.model_type
    listed = view.eos.config.get("architectures")
    names = listed if isinstance(listed, list) else []
    return next(
        (_ARCHITECTURES[n] for n in names if isinstance(n, str) and n in _ARCHITECTURES), ""
    )


def _shadowed(view: View) -> Iterator[Finding]:
    files, inline = view.templates.files, view.templates.inline
    if not files or not inline:
        return
    place = Evidence(CONFIG, "/chat_template", value=sorted(inline)[:20])
    if "default" not in files and "default" in inline:
        yield RULES["CHAT_TEMPLATE_INLINE_LOST"](
            place, Evidence(DIRECTORY, value=sorted(files)[:20])
        )
        return
    differing = [
        Evidence(template.file, note=f"{name} differs from the inline one")
        for name, template in files.items()
        if name in inline and _lines(inline[name].text) != _lines(template.text)
    ]
    lost = sorted(set(inline) - set(files))
    if differing or lost:
        note = f"lost: {', '.join(lost)[:200]}" if lost else ""
        yield RULES["CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE"](
            Evidence(CONFIG, "/chat_template", note=note), *differing[:20]
        )


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _parsed(view: View, name: str, template: Template, render: bool) -> Iterator[Finding]:
    if template is view.templates.default:
        probes = view.probes
    else:
        roles = {role: found.text for role, found in view.tokens.roles.items()}
        probes = probe(template.text, roles, conversations=("prompt", "call") if render else ())
    if probes.unavailable:
        yield RULES["CHAT_TEMPLATE_NOT_INSPECTED"](_at(template, note=probes.unavailable))
        return
    failed = [(error, f"{WHAT[name]}: ") for name, error in probes.failed.items()]
    if probes.error is not None and probes.error not in probes.failed.values():
        failed.append((probes.error, ""))
    found = {error.code: (error, where) for error, where in reversed(failed)}
    for code, (error, where) in found.items():
        if code == CHILD_DIED:
            yield RULES["CHAT_TEMPLATE_NOT_INSPECTED"](
                _at(template, note=_said(error)), severity="warning"
            )
        # What a compiler says of an unknown name is said below, and better.
        is_name = (
            probes.static is not None
            and probes.static.unknown
            and code == RULES["CHAT_TEMPLATE_SYNTAX_ERROR"].code
        )
        if code in _BY_CODE and not is_name:
            yield _BY_CODE[code](_at(template, line=error.line, note=where + _said(error)))
    if probes.static is None:
        return
    if probes.static.unknown:
        value = sorted(probes.static.unknown)
        line = min(probes.static.unknown.values())
        yield RULES["CHAT_TEMPLATE_UNKNOWN_NAME"](_at(template, line=line, note=name, value=value))
    if "strftime_now" in probes.static.called:
        yield RULES["CHAT_TEMPLATE_CLOCK_DEPENDENT"](_at(template, note=name))
    if probes.static.undeclared:
        yield RULES["CHAT_TEMPLATE_NEEDS_KWARGS"](
            _at(template, note=name, value=sorted(probes.static.undeclared))
        )


def _rendered(view: View) -> Iterator[Finding]:
    template = view.templates.default
    if template is None or not view.render:
        return
    texts, failed = view.probes.rendered, view.probes.failed
    prompt, generation = texts.get("prompt"), texts.get("generation")
    if prompt is not None and prompt == generation:
        yield RULES["CHAT_TEMPLATE_IGNORES_GENERATION_PROMPT"](_at(template, value=prompt[-200:]))
    if "call" in texts and "call_string" in failed:
        yield RULES["CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS"](
            _at(template, note=_said(failed["call_string"]))
        )
    for name, empty in (("none", "empty"), ("call_none", "call")):
        without = texts.get(empty, texts.get("answered", ""))
        if texts.get(name, "").count("None") > without.count("None"):
            yield RULES["CHAT_TEMPLATE_NONE_CONTENT_LEAK"](_at(template, value=texts[name][-200:]))
            break
    listed = texts.get("list", "")
    if f"'text': '{FIRST}'" in listed:
        yield RULES["CHAT_TEMPLATE_LIST_CONTENT_REPR"](_at(template, value=listed[-200:]))


def _at(
    template: Template, *, line: int | None = None, note: str = "", value: object = None
) -> Evidence:
    return Evidence(template.file, template.pointer, line=line, note=note, value=value)


def _said(error: ChatTemplateError) -> str:
    return str(error)[:300]
