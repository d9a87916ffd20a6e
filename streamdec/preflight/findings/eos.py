"""Rules about ends of sequences: the ids that stop an engine, and their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from streamdec.preflight.eos_sources import CONFIG, GENERATION, Found
from streamdec.preflight.preflight_report import Evidence, Finding, shown
from streamdec.preflight.rules import RULES
from streamdec.preflight.snapshot_tokens import is_id
from streamdec.preflight.stop_tokens import StopTokens
from streamdec.preflight.turns import after_call
from streamdec.preflight.view import View


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    yield from _sources(view)
    yield from _sets(view)
    yield from _turns(view)
    yield from _ids(view)
    yield from _fallbacks(view)
    yield from _others(view)


def _sources(view: View) -> Iterator[Finding]:
    """Compare the files, if an engine stops on fewer ids than all of them declare."""
    eos = view.eos
    text = tuple(found for found in eos.lifted if found[1].kind == "text_config")
    config = eos.or_text(eos.written, text)
    declared: list[tuple[frozenset[int], Evidence]] = []
    # A missing or unknown value does not count as a disagreement. A null in a file does.
    if eos.tokenizer[0]:
        ids = _ids_of(eos.tokenizer[0])
        declared.append((ids, view.role("eos_token", ids)))
    if eos.generation_config is not None:
        value = eos.generation_config.get("eos_token_id")
        declared.append(_declared(view, GENERATION, "/eos_token_id", value, eos.generation))
    if config and config[0][1].kind == "text_config":
        pointer = config[0][1].pointer.partition("/eos_token_id")[0] + "/eos_token_id"
        declared.append(_declared(view, CONFIG, pointer, [i for i, _ in config], config))
    elif config or "eos_token_id" in eos.config:
        value = eos.config.get("eos_token_id")
        declared.append(_declared(view, CONFIG, "/eos_token_id", value, config))
    together = frozenset[int]().union(*(ids for ids, _ in declared))
    changing = [found for found in view.stop.values() if not together <= found.ids]
    if len({ids for ids, _ in declared}) > 1 and changing:
        yield RULES["EOS_SOURCES_DISAGREE"](
            *(evidence for _, evidence in declared),
            *(view.seen(found) for found in changing),
            engines=_names(changing),
        )


def _declared(
    view: View, file: str, pointer: str, value: object, found: Found
) -> tuple[frozenset[int], Evidence]:
    ids = _ids_of(found)
    note = "null" if value is None else ""
    return ids, Evidence(file, pointer, value=shown(value), ids=view.ids(ids), note=note)


def _names(stops: Iterable[StopTokens]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found.engine for found in stops))


def _sets(view: View) -> Iterator[Finding]:
    sets = {found.ids for found in view.stop.values()}
    if len(sets) > 1:
        yield RULES["EOS_ENGINES_DISAGREE"](
            *(view.seen(found) for found in view.stop.values()),
            engines=_names(view.stop.values()),
        )
    # A tokenizer whose end-of-sequence id is unknown has one nevertheless.
    if not any(found.ids or found.unresolved for found in view.stop.values()) and view.stop:
        yield RULES["EOS_MISSING_EVERYWHERE"](
            Evidence(note="no source declares one", value=sorted(view.stop))
        )


def _turns(view: View) -> Iterator[Finding]:
    terminator, primer = view.turns.terminator, view.turns.primer
    if terminator is not None:
        lacking = view.not_stopping_at({terminator.id: terminator.text})
        if lacking:
            yield RULES["EOS_TERMINATOR_NOT_STOPPED"](
                Evidence(
                    *view.template_place,
                    note="closes the assistant's turn",
                    ids={terminator.id: terminator.text},
                ),
                *(view.seen(found) for found in lacking),
                engines=_names(lacking),
            )
    elif primer is not None and primer.id in view.stop_ids:
        text = view.template_text
        opening = {i: t for i, t in view.ids(view.stop_ids).items() if t and t in text}
        yield RULES["EOS_TURN_PRIMER_IN_STOP_SET"](
            Evidence(*view.template_place, note="opens the next turn", ids=opening)
        )
    called = after_call(view.probes, view.markers)
    # Where the terminator of an answer follows a call too, the finding above is enough.
    if called and (terminator is None or terminator.id not in called):
        lacking = view.not_stopping_at(called)
        if lacking:
            yield RULES["EOS_TOOL_CALL_NOT_STOPPED"](
                Evidence(
                    *view.template_place, note="between a tool call and its result", ids=called
                ),
                *(view.seen(found) for found in lacking),
                engines=_names(lacking),
            )


def _ids(view: View) -> Iterator[Finding]:
    tokens, role = view.tokens, view.tokens.roles.get("eos_token")
    bare = None if tokens.is_remote else tokens.bare
    if role is not None and bare is not None and bare.id_of(role.text) is None:
        found = tokens.id_of(role.text)
        ids = {} if found is None else {found: role.text}
        yield RULES["EOS_TOKEN_NOT_IN_VOCAB"](
            view.role("eos_token", ()),
            Evidence(note="its id after loading", ids=ids),
        )
    seen: dict[tuple[str, str], Evidence] = {}
    for file, pointer, value in _declared_values(view):
        if not is_id(value):
            seen[file, pointer] = Evidence(file, pointer, value=shown(value), note="not an id")
        elif tokens.loaded and tokens.text_of(value) is None:
            seen[file, pointer] = Evidence(file, pointer, ids={value: None}, note="no such token")
    missing = [i for i in sorted(_class_defaults(view)) if tokens.text_of(i) is None]
    if missing and tokens.loaded:
        seen[CONFIG, "/model_type"] = _class_default_evidence(view, missing)
    if seen:
        yield RULES["EOS_ID_UNKNOWN"](*seen.values())


def _declared_values(view: View) -> Iterator[tuple[str, str, Any]]:
    """Yield each declared end of a sequence: file, pointer, value."""
    places = [
        (GENERATION, "/eos_token_id", (view.eos.generation_config or {}).get("eos_token_id")),
        (CONFIG, "/eos_token_id", view.eos.config.get("eos_token_id")),
    ]
    text = view.eos.config.get("text_config")
    if isinstance(text, dict):
        places.append((CONFIG, "/text_config/eos_token_id", text.get("eos_token_id")))
    for file, pointer, value in places:
        if isinstance(value, list):
            yield from ((file, f"{pointer}/{i}", each) for i, each in enumerate(value[:1000]))
        elif value is not None:
            yield file, pointer, value


def _fallbacks(view: View) -> Iterator[Finding]:
    eos = view.eos
    defaults = _class_defaults(view)
    if defaults:
        yield RULES["EOS_CLASS_DEFAULT_IN_EFFECT"](_class_default_evidence(view, defaults))
    text = eos.lifted
    is_written = any(source.kind == "text_config" for _, source in text)
    if is_written and not eos.written and "eos_token_id" not in eos.config:
        _, source = text[0]
        yield RULES["EOS_TEXT_CONFIG_ONLY"](
            Evidence(CONFIG, source.pointer, ids=view.ids(_ids_of(text)))
        )
    if eos.generation_is_zero:
        yield RULES["EOS_ZERO_DROPPED"](
            Evidence(GENERATION, "/eos_token_id", value=0, ids=view.ids([0]))
        )
    if view.snapshot.file(GENERATION) is None:
        yield RULES["GENERATION_CONFIG_MISSING"](Evidence(GENERATION, note="missing"))


def _class_defaults(view: View) -> frozenset[int]:
    """The ids that only the configuration's class says, and on which an engine stops."""
    eos = view.eos
    found = eos.class_default
    if not found and "eos_token_id" not in eos.config and not eos.has_attribute:
        # SGLang lifts the default of the text part's class in the same way.
        found = eos.lifted
    said = [
        (i, source) for stop in view.stop.values() for i in stop.ids for source in stop.sources[i]
    ]
    return frozenset(i for i, source in (*found, *said) if source.kind.endswith("class_default"))


def _class_default_evidence(view: View, ids: Iterable[int]) -> Evidence:
    return Evidence(
        CONFIG,
        "/model_type",
        value=view.eos.model_type,
        ids=view.ids(ids),
        note="the default of its class",
    )


def _others(view: View) -> Iterator[Finding]:
    config = view.eos.generation_config or {}
    if config.get("stop_strings"):
        value = shown(config["stop_strings"])
        yield RULES["GENERATION_STOP_STRINGS_IGNORED"](
            Evidence(GENERATION, "/stop_strings", value=value)
        )
    bos = dict(_declared_role(view, "bos_token"))
    if len({ids for ids, _ in bos.values()}) > 1:
        yield RULES["BOS_SOURCES_DISAGREE"](*(evidence for _, evidence in bos.values()))
    pad = dict(_declared_role(view, "pad_token"))
    same = [evidence for ids, evidence in pad.values() if ids & view.stop_ids]
    if same:
        yield RULES["PAD_EQUALS_EOS"](*same)


def _declared_role(view: View, name: str) -> Iterator[tuple[str, tuple[frozenset[int], Evidence]]]:
    """Yield each file that declares ids of a role, with the ids and the evidence."""
    role = view.tokens.roles.get(name)
    # A default of the tokenizer class is not declared, but it is used for padding.
    if role is not None and (role.pointer or name == "pad_token"):
        found = view.tokens.id_of(role.text)
        if found is not None:
            yield "tokenizer", (frozenset({found}), view.role(name, [found]))
    for file, config in ((GENERATION, view.eos.generation_config), (CONFIG, view.eos.config)):
        value = (config or {}).get(f"{name}_id")
        listed = value if isinstance(value, list) else [value]
        ids = frozenset(i for i in listed if is_id(i))
        if ids:
            yield file, (ids, Evidence(file, f"/{name}_id", value=shown(value), ids=view.ids(ids)))


def _ids_of(found: Found) -> frozenset[int]:
    return frozenset(token_id for token_id, _ in found)
