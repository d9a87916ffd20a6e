"""Rules about chat templates: which one is in effect, and its renderings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from streamdec.errors import ChatTemplateError
from streamdec.preflight.preflight_report import RULES, Evidence, Finding, Severity
from streamdec.preflight.snapshot import CONFIG, DIRECTORY, FILE, LEGACY, Template
from streamdec.preflight.turns import CHILD_DIED, FIRST, WHAT, Probes, rewritten
from streamdec.preflight.view import View
from streamdec.tokenizers.folder_files import with_line_feeds

_MOST_RENDERED = 3
"""Templates besides the default: each takes its own process."""

_ONCE = (
    *("CHAT_TEMPLATE_SYNTAX_ERROR", "CHAT_TEMPLATE_RESOURCE_LIMIT"),
    "CHAT_TEMPLATE_SANDBOX_VIOLATION",
)
"""Failures that are about the template and not about a conversation."""
_GRAVER: Mapping[str, Severity] = {
    "CHAT_TEMPLATE_REFUSES": "warning",
    "CHAT_TEMPLATE_FAILS": "error",
    CHILD_DIED: "warning",
}
"""The severity of a failure with an ordinary conversation."""
_ORDINARY = frozenset(("prompt", "generation", "answered", "followed"))
"""Conversations of questions and answers that are text."""
_OWN_CODE = (
    *("gpt_oss", "GptOssForCausalLM", "deepseek_v32", "DeepseekV32ForCausalLM"),
    *("deepseek_v4", "DeepseekV4ForCausalLM", "kimi_k3", "KimiK3ForConditionalGeneration"),
)
"""The model types and architectures for which engines have their own encoder."""


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    yield from _places(view)
    rendered = 0
    for name, template in view.templates.all:
        rendered += template is not view.templates.default
        yield from _parsed(view, name, template, rendered <= _MOST_RENDERED)
    yield from _rendered(view)


def _places(view: View) -> Iterator[Finding]:
    templates = view.templates
    listed = view.eos.config.get("architectures")
    kinds = [view.eos.model_type, *(listed if isinstance(listed, list) else ())]
    own = [kind for kind in kinds if kind in _OWN_CODE]
    if own:
        note = "engines have their own encoder"
        yield RULES["CHAT_TEMPLATE_BYPASSED"](Evidence("config.json", value=own[0], note=note))
    unread = any(name in (FILE, CONFIG, LEGACY) for name, _ in view.snapshot.problems())
    if not templates.all and not own and not view.mistral_files and not unread:
        note = f"no {FILE}, {DIRECTORY}, {LEGACY}, nor an entry in {CONFIG}"
        yield RULES["CHAT_TEMPLATE_MISSING"](Evidence(note=note))
    yield from _shadowed(view)
    if templates.loaded and "default" not in templates.loaded:
        names = Evidence(value=sorted(templates.loaded)[:20], note="names")
        yield RULES["CHAT_TEMPLATE_NO_DEFAULT"](names)
    if LEGACY in view.snapshot.names:
        yield RULES["CHAT_TEMPLATE_LEGACY_JSON"](Evidence(LEGACY, "/chat_template"))


def _shadowed(view: View) -> Iterator[Finding]:
    files, inline = view.templates.files, view.templates.inline
    if not files or not inline:
        return
    place = Evidence(CONFIG, "/chat_template", value=sorted(inline)[:20])
    if "default" not in files and "default" in inline:
        others = Evidence(DIRECTORY, value=sorted(files)[:20])
        yield RULES["CHAT_TEMPLATE_INLINE_LOST"](place, others)
        return
    differing = [
        Evidence(template.file, note=f"{name} differs from the inline one")
        for name, template in files.items()
        if name in inline and with_line_feeds(inline[name].text) != template.text
    ]
    lost = sorted(set(inline) - set(files))
    if differing or lost:
        note = f"lost: {', '.join(lost)[:200]}" if lost else ""
        place = Evidence(CONFIG, "/chat_template", note=note)
        yield RULES["CHAT_TEMPLATE_SIDECAR_SHADOWS_INLINE"](place, *differing[:20])


def _parsed(view: View, name: str, template: Template, render: bool) -> Iterator[Finding]:
    probes = view.probes
    if template is not view.templates.default:
        probes = view.probe(template, ("prompt", "call") if render else ())
    if probes.unavailable:
        yield RULES["CHAT_TEMPLATE_NOT_INSPECTED"](_at(template, note=probes.unavailable))
        return
    yield from _failures(template, probes)
    if probes.static is None:
        return
    if probes.static.unknown:
        value = sorted(probes.static.unknown)
        line = min(probes.static.unknown.values())
        yield RULES["CHAT_TEMPLATE_UNKNOWN_NAME"](_at(template, line=line, note=name, value=value))
    if probes.static.reads_clock:
        yield RULES["CHAT_TEMPLATE_CLOCK_DEPENDENT"](_at(template, note=name))
    if probes.static.undeclared:
        place = _at(template, note=name, value=sorted(probes.static.undeclared))
        yield RULES["CHAT_TEMPLATE_NEEDS_KWARGS"](place)


def _failures(template: Template, probes: Probes) -> Iterator[Finding]:
    """A finding for each kind of failure, with the conversations that failed."""
    failed = dict(probes.failed)
    if "call" in probes.rendered:
        failed.pop("call_string", None)  # CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS
    if probes.error is not None and probes.error not in failed.values():
        failed[""] = probes.error
    unknown = probes.static.unknown if probes.static is not None else {}
    by_code: dict[str, dict[str, ChatTemplateError]] = {}
    for name, error in failed.items():
        is_unknown = any(f"'{word}' is undefined" in str(error) for word in unknown)
        if not is_unknown and not (unknown and error.code == "CHAT_TEMPLATE_SYNTAX_ERROR"):
            by_code.setdefault(error.code or "CHAT_TEMPLATE_FAILS", {})[name] = error
    for code, errors in by_code.items():
        rule = RULES["CHAT_TEMPLATE_NOT_INSPECTED" if code == CHILD_DIED else code]
        is_graver = code == CHILD_DIED or not _ORDINARY.isdisjoint(errors)
        severity = _GRAVER.get(code, rule.severity) if is_graver else rule.severity
        seen: dict[tuple[str, int | None], list[str]] = {}
        for name, error in errors.items():
            said = str(error)[:300]
            seen.setdefault((said, error.line), []).extend([WHAT[name]] if name else [])
        evidence = [
            _at(template, line=line, note=": ".join(filter(None, ("; ".join(names), said))))
            for (said, line), names in seen.items()
        ]
        yield rule(*(evidence[:1] if code in _ONCE else evidence), severity=severity)


def _rendered(view: View) -> Iterator[Finding]:
    template = view.templates.default
    if template is None or not view.render:
        return
    texts = view.probes.rendered
    prompt, generation = texts.get("prompt"), texts.get("generation")
    if prompt is not None and prompt == generation:
        yield RULES["CHAT_TEMPLATE_IGNORES_GENERATION_PROMPT"](_at(template, value=prompt[-200:]))
    error = view.probes.failed.get("call_string")
    if "call" in texts and error is not None:
        note = str(error)[:300]
        yield RULES["CHAT_TEMPLATE_TOOL_ARGS_STRING_FAILS"](_at(template, note=note))
    for name, empty in (("none", "empty"), ("call_none", "call")):
        without = texts.get(empty, texts.get("answered", ""))
        if texts.get(name, "").count("None") > without.count("None"):
            yield RULES["CHAT_TEMPLATE_NONE_CONTENT_LEAK"](_at(template, value=texts[name][-200:]))
            break
    changed = rewritten(view.probes)
    if changed:
        before, after = next(iter(changed.values()))
        note = "; ".join(WHAT[name] for name in changed)
        value = {"before": before, "with a message more": after}
        yield RULES["CHAT_TEMPLATE_REWRITES_TURNS"](_at(template, note=note, value=value))
    listed = texts.get("list", "")
    if f"'text': '{FIRST}'" in listed:
        yield RULES["CHAT_TEMPLATE_LIST_CONTENT_REPR"](_at(template, value=listed[-200:]))


def _at(
    template: Template, *, line: int | None = None, note: str = "", value: object = None
) -> Evidence:
    return Evidence(template.file, template.pointer, line=line, note=note, value=value)
