"""Rules about ends of sequences: which ids stop an engine, and who says so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamdec.preflight.preflight_report import Evidence, Finding, shown
from streamdec.preflight.rules import RULES
from streamdec.preflight.snapshot_tokens import is_id
from streamdec.preflight.stop_tokens import CONFIG, GENERATION, Found, is_bare_zero
from streamdec.preflight.view import View

__all__ = ["check"]


def check(view: View) -> Iterator[Finding]:
    """All that this module's rules say of a snapshot."""
    yield from _sources(view)
    yield from _sets(view)
    yield from _turns(view)
    yield from _ids(view)
    yield from _fallbacks(view)
    yield from _others(view)


def _sources(view: View) -> Iterator[Finding]:
    eos = view.eos
    declared = {
        "tokenizer": _ids_of(eos.tokenizer[0]),
        GENERATION: _ids_of(eos.generation),
        CONFIG: _ids_of(eos.or_text(eos.loaded, eos.lifted)),
    }
    # What is not there, or cannot be told, disagrees with nothing; a null in a file does.
    is_said = {
        "tokenizer": bool(eos.tokenizer[0]),
        GENERATION: not eos.generation_is_absent,
        CONFIG: bool(declared[CONFIG]) or "eos_token_id" in eos.config,
    }
    said = {name: ids for name, ids in declared.items() if is_said[name]}
    if len(set(said.values())) > 1:
        yield RULES["EOS_SOURCES_DISAGREE"](
            *(_declares(view, name, ids) for name, ids in said.items())
        )


def _declares(view: View, name: str, ids: frozenset[int]) -> Evidence:
    if name != "tokenizer":
        return Evidence(name, "/eos_token_id", value=sorted(ids), ids=view.ids(ids))
    role = view.tokens.roles["eos_token"]
    return Evidence(role.source, role.pointer, value=role.text, ids=view.ids(ids))


def _sets(view: View) -> Iterator[Finding]:
    sets = {found.ids for found in view.stop.values()}
    if len(sets) > 1:
        yield RULES["EOS_ENGINES_DISAGREE"](
            *(view.seen(found) for found in view.stop.values()),
            engines=tuple(dict.fromkeys(found.engine for found in view.stop.values())),
        )
    # A tokenizer whose end has no known id has one anyway.
    if not any(found.ids or found.unresolved for found in view.stop.values()) and view.stop:
        yield RULES["EOS_MISSING_EVERYWHERE"](
            Evidence(note="no source declares one", value=sorted(view.stop))
        )


def _turns(view: View) -> Iterator[Finding]:
    terminator, primer = view.turns.terminator, view.turns.primer
    if terminator is not None:
        lacking = [found for found in view.stop.values() if terminator.id not in found.ids]
        # Where the tokenizer's own id is not known, it may be just this one.
        lacking = [
            found
            for found in lacking
            if not any(source.text in (terminator.text, None) for source in found.unresolved)
        ]
        if lacking:
            yield RULES["EOS_TERMINATOR_NOT_STOPPED"](
                Evidence(
                    *view.template_place,
                    note="closes the assistant's turn",
                    ids={terminator.id: terminator.text},
                ),
                *(view.seen(found) for found in lacking),
                engines=tuple(dict.fromkeys(found.engine for found in lacking)),
            )
    elif primer is not None and primer.id in view.stop_ids:
        text = view.template_text
        opening = {i: t for i, t in view.ids(view.stop_ids).items() if t and t in text}
        yield RULES["EOS_TURN_PRIMER_IN_STOP_SET"](
            Evidence(*view.template_place, note="opens the next turn", ids=opening)
        )


def _ids(view: View) -> Iterator[Finding]:
    tokens, role = view.tokens, view.tokens.roles.get("eos_token")
    bare = None if tokens.is_remote else tokens.bare
    if role is not None and bare is not None and bare.id_of(role.text) is None:
        found = tokens.resolve(role.text)
        ids = {} if found.id is None else {found.id: role.text}
        yield RULES["EOS_TOKEN_NOT_IN_VOCAB"](
            Evidence(role.source, role.pointer, value=role.text),
            Evidence(note="its id after loading", ids=ids),
        )
    seen: dict[tuple[str, str], Evidence] = {}
    for file, pointer, value in _declared_values(view):
        if not is_id(value):
            seen[file, pointer] = Evidence(file, pointer, value=shown(value), note="not an id")
        elif tokens.knows_all_ids and tokens.text_of(value) is None:
            seen[file, pointer] = Evidence(file, pointer, ids={value: None}, note="no such token")
    if seen:
        yield RULES["EOS_ID_UNKNOWN"](*seen.values())


def _declared_values(view: View) -> Iterator[tuple[str, str, Any]]:
    """Every value that is declared as the end of a sequence: file, pointer, value."""
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
    default = eos.class_default
    if not default and "eos_token_id" not in eos.config and not eos.has_attribute:
        # SGLang lifts the default of the text part's class in the same way.
        default = tuple(f for f in eos.lifted if f[1].kind == "text_class_default")
    if default:
        ids = _ids_of(default)
        evidence = Evidence(
            CONFIG, "/model_type", value=eos.model_type, ids=view.ids(ids), note="class default"
        )
        yield RULES["EOS_CLASS_DEFAULT_IN_EFFECT"](evidence)
    text = eos.lifted
    is_written = any(source.kind == "text_config" for _, source in text)
    if is_written and not eos.written and "eos_token_id" not in eos.config:
        _, source = text[0]
        yield RULES["EOS_TEXT_CONFIG_ONLY"](
            Evidence(CONFIG, source.pointer, ids=view.ids(_ids_of(text)))
        )
    if is_bare_zero(eos.generation_config):
        yield RULES["EOS_ZERO_DROPPED"](
            Evidence(GENERATION, "/eos_token_id", value=0, ids=view.ids([0]))
        )
    if view.snapshot.file(GENERATION) is None:
        yield RULES["GENERATION_CONFIG_MISSING"](Evidence(GENERATION, note="not there"))


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
    """Each file that declares the ids of a role, with what it declares."""
    role = view.tokens.roles.get(name)
    # No file declares the default of the tokenizer class, but it is used as padding.
    if role is not None and (role.pointer or name == "pad_token"):
        found = view.tokens.resolve(role.text)
        if found.id is not None:
            evidence = Evidence(
                role.source, role.pointer, value=role.text, ids={found.id: role.text}
            )
            yield "tokenizer", (frozenset({found.id}), evidence)
    for file, config in ((GENERATION, view.eos.generation_config), (CONFIG, view.eos.config)):
        value = (config or {}).get(f"{name}_id")
        listed = value if isinstance(value, list) else [value]
        ids = frozenset(i for i in listed if is_id(i))
        if ids:
            yield file, (ids, Evidence(file, f"/{name}_id", value=shown(value), ids=view.ids(ids)))


def _ids_of(found: Found) -> frozenset[int]:
    return frozenset(token_id for token_id, _ in found)
