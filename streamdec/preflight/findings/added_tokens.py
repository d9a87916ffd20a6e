"""Rules about added tokens: where the files differ, and the tokens after loading."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from streamdec.folders.tokenizer_config import ROLES, content_of
from streamdec.preflight.preflight_report import Evidence, Finding, Severity, shown
from streamdec.preflight.rules import RULES
from streamdec.preflight.snapshot_tokens import Entry, Tokens
from streamdec.preflight.view import View

_CONFIG = "tokenizer_config.json"
_JSON = "tokenizer.json"
_MAP = "special_tokens_map.json"
_MOST = 50
"""Pieces of evidence that one finding shows; it says how many there are."""
_MARKER = re.compile(r"<\|[^|<>\s{}'\"]{1,64}\|>|<｜[^｜<>\s{}'\"]{1,64}｜>")


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    yield from _flags(view)
    yield from _declared(view)
    yield from _own(view)
    yield from _shape(view)
    yield from _extra(view)
    yield from _map(view)
    yield from _in_template(view)


def _flags(view: View) -> Iterator[Finding]:
    """Tokens of ``tokenizer.json`` whose flag is another one after loading."""
    tokens = view.tokens
    if not tokens.knows_all_ids or tokens.bare is None:
        return
    bare, said = tokens.bare.added, {(e.id, e.content): e for e in tokens.declared}
    found: dict[int, Evidence] = {}
    for entry in tokens.own:
        is_special = bare.get(entry.id, ("", False))[1]
        after = tokens.added.get(entry.id)
        if bare.get(entry.id) != (entry.content, entry.special) or after is None:
            continue  # another entry with its text or its id counts
        if after == (entry.content, not is_special):
            value = {_JSON: is_special, "after loading": after[1]}
            declared = said.get((entry.id, entry.content))
            if declared is not None:
                value[_CONFIG] = declared.special
            note = "special"
            if is_special and not tokens.is_built:
                note += ", and skipped anyway"
            ids = {entry.id: entry.content}
            found[entry.id] = Evidence(_JSON, entry.pointer, value=value, ids=ids, note=note)
    written = view.written_in_template(tokens.added[i][0] for i in found)
    is_grave = {i for i in found if i in view.stop_ids or tokens.added[i][0] in written}
    evidence = sorted(found, key=lambda token_id: token_id not in is_grave)
    if evidence:
        severity: Severity = "error" if is_grave else "warning"
        yield RULES["SPECIAL_FLAG_DRIFT"](*_some([found[i] for i in evidence]), severity=severity)


def _declared(view: View) -> Iterator[Finding]:
    """Yield findings about tokens that the two files declare differently."""
    tokens = view.tokens
    if tokens.bare is None:
        return
    content, other_id, only = [], [], []
    for entry in tokens.declared:
        there, here = tokens.bare.id_of(entry.content), tokens.bare.text_of(entry.id)
        if there == entry.id:
            continue
        if there is not None:
            other_id.append(_entry(entry, f"tokenizer.json has it under {there}"))
        elif here is not None:
            content.append(
                _entry(entry, f"tokenizer.json has {here!r:.80} there{_after(view, entry)}")
            )
        else:
            only.append(_entry(entry, f"not in tokenizer.json{_after(view, entry)}"))
    for rule, found in (
        (RULES["ADDED_TOKEN_CONTENT_DRIFT"], content),
        (RULES["ADDED_TOKEN_ID_DRIFT"], other_id),
        (RULES["ADDED_TOKEN_ONLY_IN_CONFIG"], only),
    ):
        if found:
            yield rule(*_some(found))


def _after(view: View, entry: Entry) -> str:
    found = view.tokens.resolve(entry.content).id
    return "" if found is None else f"; its id after loading is {found}"


def _entry(entry: Entry, note: str) -> Evidence:
    return Evidence(_CONFIG, entry.pointer, ids={entry.id: entry.content}, note=note)


def _own(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    if tokens.bare is not None:
        first = {entry.content: entry for entry in reversed(tokens.own)}
        loaded = tokens.loaded if tokens.knows_all_ids and tokens.loaded else tokens.bare
        moved = [
            Evidence(
                _JSON, entry.pointer, ids={entry.id: entry.content}, note=_moved(tokens, after)
            )
            for entry in first.values()
            if (after := loaded.id_of(entry.content)) != entry.id
            or tokens.bare.id_of(entry.content) != entry.id
        ]
        if moved:
            yield RULES["ADDED_TOKEN_ID_NOT_HONOURED"](*_some(moved))
    twice = [
        Evidence(file, entry.pointer, ids={entry.id: entry.content})
        for file, entries in ((_JSON, tokens.own), (_CONFIG, tokens.declared))
        for entry in _duplicates(entries)
    ]
    if twice:
        yield RULES["ADDED_TOKEN_DUPLICATE_CONTENT"](*_some(twice))


def _moved(tokens: Tokens, after: int | None) -> str:
    return (
        f"missing after loading with {tokens.chosen.name}"
        if after is None
        else f"{after} after loading"
    )


def _duplicates(entries: list[Entry]) -> list[Entry]:
    """Those whose text another one has too."""
    counts = Counter(entry.content for entry in entries)
    return [entry for entry in entries if counts[entry.content] > 1]


def _shape(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    if not tokens.has_decoder:
        if tokens.config or tokens.own:
            yield RULES["ADDED_TOKENS_DECODER_ABSENT"](
                Evidence(_CONFIG, note="no added_tokens_decoder")
            )
    elif not isinstance(tokens.decoder, dict):
        kind = type(tokens.decoder).__name__
        yield RULES["ADDED_TOKENS_DECODER_SHAPE"](
            Evidence(_CONFIG, "/added_tokens_decoder", value=kind)
        )
    else:
        good = {entry.pointer for entry in tokens.declared}
        if len(good) < len(tokens.decoder):
            bad = [str(key)[:40] for key in tokens.decoder]
            bad = [key for key in bad if f"/added_tokens_decoder/{key}" not in good][:_MOST]
            note = "entries that are not tokens"
            yield RULES["ADDED_TOKENS_DECODER_SHAPE"](
                Evidence(_CONFIG, "/added_tokens_decoder", value=bad, note=note)
            )


def _extra(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    extra, source = tokens.said.get("extra_special_tokens", (None, _CONFIG))
    additional, source_of_additional = tokens.said.get("additional_special_tokens", (None, _CONFIG))
    if isinstance(extra, list):
        below = any(engine.may_have_transformers_4 for engine in view.engines)
        evidence = Evidence(source, "/extra_special_tokens", value=f"a list of {len(extra)}")
        yield RULES["EXTRA_SPECIAL_TOKENS_LIST"](evidence, severity="error" if below else "info")
    # With an object of names, the list is read anyway.
    if extra and additional and not isinstance(extra, dict):
        yield RULES["EXTRA_SPECIAL_SHADOWS_ADDITIONAL"](
            Evidence(source, "/extra_special_tokens", value=shown(_names(extra))),
            Evidence(
                source_of_additional, "/additional_special_tokens", value=shown(_names(additional))
            ),
        )
    skipped = _skipped_all_the_same(tokens)
    unskipped = [
        Evidence(source, f"/{key}", ids={found: text}, note="special=false after loading")
        for key, listed, source in (
            ("extra_special_tokens", extra, source),
            ("additional_special_tokens", additional, source_of_additional),
        )
        for text in dict.fromkeys(_names(listed))
        if (found := tokens.resolve(text).id) is not None
        and tokens.added.get(found) == (text, False)
        and text not in skipped
    ]
    if unskipped:
        yield RULES["EXTRA_SPECIAL_NOT_SKIPPED"](*_some(unskipped))


def _skipped_all_the_same(tokens: Tokens) -> set[str]:
    """The texts that the library skips with any later flag: the flag was set once."""
    own = () if tokens.is_built else (entry.token for entry in tokens.own)
    return {token.content for token in (*own, *tokens.to_add()) if token.special}


def _called_special(said: Mapping[str, object]) -> list[str]:
    """What is listed as special without a role, under the new key or the old."""
    return [
        *_names(said.get("extra_special_tokens")),
        *_names(said.get("additional_special_tokens")),
    ]


def _names(listed: object) -> list[str]:
    values = list(listed.values()) if isinstance(listed, dict) else listed
    if not isinstance(values, list):
        return []
    return [text for value in values if (text := content_of(value))]


def _map(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    differing = []
    for name in ROLES:
        if name not in tokens.special_map:
            continue
        here, there = content_of(tokens.special_map[name]), content_of(tokens.config.get(name))
        # A role of which the config is silent is not overridden by the map; it is lost with it.
        is_said = name in tokens.config or tokens.has_decoder
        if here != there and is_said:
            differing.append(Evidence(_MAP, f"/{name}", value={_MAP: here, _CONFIG: there}))
    if tokens.has_decoder:
        named = set(_called_special(tokens.config))
        listed = _called_special(tokens.special_map)
        if listed and set(listed) != named:
            value = {_MAP: shown(listed), _CONFIG: shown(sorted(named))}
            differing.append(Evidence(_MAP, value=value, note="further special tokens"))
    if differing:
        yield (
            RULES["SPECIAL_TOKENS_MAP_STALE"]
            if tokens.has_decoder
            else RULES["SPECIAL_TOKENS_MAP_OVERRIDES"]
        )(*differing)


def _in_template(view: View) -> Iterator[Finding]:
    template, tokens = view.template_text, view.tokens
    if not template:
        return
    unskipped = {text: i for i, (text, special) in tokens.added.items() if not special}
    found = view.ids(unskipped[text] for text in view.written_in_template(unskipped))
    if found:
        yield RULES["STRUCTURAL_TOKEN_NOT_SPECIAL"](
            Evidence(*view.template_place, ids=dict(list(found.items())[:_MOST]))
        )
    if tokens.knows_all_ids:
        markers = sorted(set(_MARKER.findall(template)))
        unknown = [marker for marker in markers if tokens.resolve(marker).id is None]
        if unknown:
            yield RULES["TEMPLATE_MARKER_NOT_A_TOKEN"](
                Evidence(*view.template_place, value=unknown[:_MOST])
            )


def _some(evidence: list[Evidence]) -> list[Evidence]:
    """The first pieces, and how many more there are."""
    more = len(evidence) - _MOST
    return evidence if more <= 0 else [*evidence[:_MOST], Evidence(note=f"and {more} more")]
