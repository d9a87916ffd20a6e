"""Rules about ends of sequences: the ids that stop an engine, and their sources."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from streamdec.preflight.eos_sources import CONFIG, GENERATION, Found, listed
from streamdec.preflight.preflight_report import RULES, Evidence, Finding, shown
from streamdec.preflight.snapshot_tokens import is_id
from streamdec.preflight.stop_tokens import StopTokens
from streamdec.preflight.turns import after_call
from streamdec.preflight.view import View

_EOS = "/eos_token_id"


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    for each in (_sources, _sets, _turns, _ids, _fallbacks, _others):
        yield from each(view)


def _sources(view: View) -> Iterator[Finding]:
    """Compare the files, if an engine stops on fewer ids than all of them declare."""
    eos = view.eos
    declared: list[Evidence] = []
    # A missing or unknown value does not count as a disagreement. A null in a file does.
    if eos.tokenizer[0]:
        declared.append(view.role("eos_token", dict(eos.tokenizer[0])))
    if eos.generation_config is not None:
        declared.append(_declared(view, GENERATION, _EOS, eos.values[0], eos.generation))
    text = tuple(found for found in eos.lifted if found[1].kind == "text_config")
    config = eos.or_text(eos.written, text)
    if config and config[0][1].kind == "text_config":
        pointer = config[0][1].pointer.partition(_EOS)[0] + _EOS
        declared.append(_declared(view, CONFIG, pointer, [i for i, _ in config], config))
    elif config or "eos_token_id" in eos.config:
        declared.append(_declared(view, CONFIG, _EOS, eos.values[1], config))
    sets = {frozenset(evidence.ids) for evidence in declared}
    together = frozenset[int]().union(*sets)
    lacking = [stop for stop in view.stop.values() if not together <= stop.ids]
    if len(sets) > 1 and lacking:
        yield _with_stops(view, "EOS_SOURCES_DISAGREE", declared, lacking)


def _declared(view: View, file: str, pointer: str, value: object, found: Found) -> Evidence:
    note = "null" if value is None else ""
    return Evidence(file, pointer, value=shown(value), ids=view.ids(dict(found)), note=note)


def _with_stops(
    view: View, code: str, evidence: Iterable[Evidence], stops: Collection[StopTokens]
) -> Finding:
    """Return a finding about engines, with their stop tokens as evidence."""
    found = [*evidence]
    for stop in stops:
        what = "stops on" if stop.ids else "stops on no token"
        found.append(Evidence(note=f"{stop.engine} {stop.version} {what}", ids=view.ids(stop.ids)))
    return RULES[code](*found, engines=dict.fromkeys(stop.engine for stop in stops))


def _sets(view: View) -> Iterator[Finding]:
    stops = view.stop.values()
    if len({stop.ids for stop in stops}) > 1:
        yield _with_stops(view, "EOS_ENGINES_DISAGREE", (), stops)
    # A tokenizer whose end-of-sequence id is unknown has one nevertheless.
    if not any(stop.ids or stop.unresolved for stop in stops):
        evidence = Evidence(note="no source declares one", value=sorted(view.stop))
        yield RULES["EOS_MISSING_EVERYWHERE"](evidence)


def _turns(view: View) -> Iterator[Finding]:
    terminator, primer = view.turns.terminator, view.turns.primer
    if terminator is not None:
        ids, note = {terminator.id: terminator.text}, "closes the assistant's turn"
        yield from _not_stopped(view, "EOS_TERMINATOR_NOT_STOPPED", note, ids)
    elif primer is not None and primer.id in view.stop_ids:
        text = view.template_text
        opening = {i: t for i, t in view.ids(view.stop_ids).items() if t and t in text}
        place = Evidence(*view.template_place, note="opens the next turn", ids=opening)
        yield RULES["EOS_TURN_PRIMER_IN_STOP_SET"](place)
    called = after_call(view.probes, view.markers)
    # Where the terminator of an answer follows a call too, the finding above is enough.
    if called and (terminator is None or terminator.id not in called):
        note = "between a tool call and its result"
        yield from _not_stopped(view, "EOS_TOOL_CALL_NOT_STOPPED", note, called)


def _not_stopped(view: View, code: str, note: str, ids: Mapping[int, str]) -> Iterator[Finding]:
    if lacking := view.not_stopping_at(ids):
        evidence = Evidence(*view.template_place, note=note, ids=ids)
        yield _with_stops(view, code, [evidence], lacking)


def _ids(view: View) -> Iterator[Finding]:
    tokens, role = view.tokens, view.tokens.roles.get("eos_token")
    bare = None if tokens.folder.is_remote else tokens.bare
    if role is not None and bare is not None and bare.id_of(role.text) is None:
        found = tokens.id_of(role.text)
        ids = {} if found is None else {found: role.text}
        after = Evidence(note="its id after loading", ids=ids)
        yield RULES["EOS_TOKEN_NOT_IN_VOCAB"](view.role("eos_token", ()), after)
    seen = []
    for file, pointer, value in _declared_values(view):
        if not is_id(value):
            seen.append(Evidence(file, pointer, value=shown(value), note="not an id"))
        elif tokens.loaded and tokens.text_of(value) is None:
            seen.append(Evidence(file, pointer, ids={value: None}, note="no such token"))
    missing = [i for i in sorted(_class_defaults(view)) if tokens.text_of(i) is None]
    if missing and tokens.loaded:
        seen.append(_class_default_evidence(view, missing))
    if seen:
        yield RULES["EOS_ID_UNKNOWN"](*seen)


def _declared_values(view: View) -> Iterator[tuple[str, str, Any]]:
    """Yield each declared end of a sequence: file, pointer, value."""
    config = view.eos.config
    places = [(GENERATION, "", view.eos.generation_config or {}), (CONFIG, "", config)]
    if isinstance(config.get("text_config"), dict):
        places.append((CONFIG, "/text_config", config["text_config"]))
    for file, part, data in places:
        for value, pointer in listed(data.get("eos_token_id"), f"{part}{_EOS}"):
            yield file, pointer, value


def _fallbacks(view: View) -> Iterator[Finding]:
    eos = view.eos
    if defaults := _class_defaults(view):
        yield RULES["EOS_CLASS_DEFAULT_IN_EFFECT"](_class_default_evidence(view, defaults))
    text = eos.lifted
    is_written = any(source.kind == "text_config" for _, source in text)
    if is_written and not eos.written and "eos_token_id" not in eos.config:
        pointer = text[0][1].pointer
        yield RULES["EOS_TEXT_CONFIG_ONLY"](Evidence(CONFIG, pointer, ids=view.ids(dict(text))))
    if eos.generation_is_zero:
        yield RULES["EOS_ZERO_DROPPED"](Evidence(GENERATION, _EOS, value=0, ids=view.ids([0])))
    if GENERATION not in view.snapshot:
        yield RULES["GENERATION_CONFIG_MISSING"](Evidence(GENERATION, note="missing"))


def _class_defaults(view: View) -> frozenset[int]:
    """The ids that only the configuration's class says, and on which an engine stops."""
    eos = view.eos
    # SGLang lifts the default of the text part's class in the same way.
    found = eos.class_default if eos.has_attribute else eos.lifted
    said = [
        (i, source) for stop in view.stop.values() for i in stop.ids for source in stop.sources[i]
    ]
    return frozenset(i for i, source in (*found, *said) if source.kind.endswith("class_default"))


def _class_default_evidence(view: View, ids: Iterable[int]) -> Evidence:
    note, value = "the default of its class", view.eos.model_type
    return Evidence(CONFIG, "/model_type", value=value, ids=view.ids(ids), note=note)


def _others(view: View) -> Iterator[Finding]:
    config = view.eos.generation_config or {}
    if config.get("stop_strings"):
        place = Evidence(GENERATION, "/stop_strings", value=shown(config["stop_strings"]))
        yield RULES["GENERATION_STOP_STRINGS_IGNORED"](place)
    bos = list(_declared_role(view, "bos_token"))
    if len({frozenset(evidence.ids) for evidence in bos}) > 1:
        yield RULES["BOS_SOURCES_DISAGREE"](*bos)
    same = [pad for pad in _declared_role(view, "pad_token") if view.stop_ids & set(pad.ids)]
    if same:
        yield RULES["PAD_EQUALS_EOS"](*same)


def _declared_role(view: View, name: str) -> Iterator[Evidence]:
    """Yield the declarations of ids of a role, of tokenizer and files."""
    role = view.tokens.roles.get(name)
    # A default of the tokenizer class is not declared, but it is used for padding.
    if role is not None and (role.pointer or name == "pad_token"):
        found = view.tokens.id_of(role.text)
        if found is not None:
            yield view.role(name, [found])
    for file, config in ((GENERATION, view.eos.generation_config), (CONFIG, view.eos.config)):
        value = (config or {}).get(f"{name}_id")
        ids = view.ids(i for i, _ in listed(value, "") if is_id(i))
        if ids:
            yield Evidence(file, f"/{name}_id", value=shown(value), ids=ids)
