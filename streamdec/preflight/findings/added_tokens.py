"""Rules about added tokens: where the files differ, and the tokens after loading."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamdec.folders.tokenizer_config import CONFIG, ROLES, content_of
from streamdec.preflight.preflight_report import RULES, Evidence, Finding, Severity, shown
from streamdec.preflight.view import View

_JSON = "tokenizer.json"
_MAP = "special_tokens_map.json"
_EXTRA = ("extra_special_tokens", "additional_special_tokens")
"""The keys of special tokens without a role, the new one and the old one."""
_MOST = 50
"""Pieces of evidence that one finding shows; it says how many there are."""
_MARKER = re.compile(r"<\|[^|<>\s{}'\"]{1,64}\|>|<｜[^｜<>\s{}'\"]{1,64}｜>")


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    for each in (_flags, _declared, _own, _shape, _extra, _map, _in_template):
        yield from each(view)


def _finding(
    code: str, evidence: list[Evidence], severity: Severity | None = None
) -> Iterator[Finding]:
    """Yield the finding with the first pieces of evidence, if there are any."""
    if len(evidence) > _MOST:
        evidence = [*evidence[:_MOST], Evidence(note=f"and {len(evidence) - _MOST} more")]
    if evidence:
        yield RULES[code](*evidence, severity=severity)


def _flags(view: View) -> Iterator[Finding]:
    """Tokens of ``tokenizer.json`` whose flag is another one after loading."""
    tokens = view.tokens
    if tokens.loaded is None or tokens.bare is None:
        return
    bare, said = tokens.bare.added, {(e.id, e.token.content): e.token for e in tokens.declared}
    found: dict[int, Evidence] = {}
    for i, token, pointer in tokens.own:
        is_special = token.special
        # Another entry with its text or its id may count instead.
        after = tokens.added.get(i)
        if (bare.get(i), after) == ((token.content, is_special), (token.content, not is_special)):
            value = {_JSON: is_special, "after loading": not is_special}
            if (i, token.content) in said:
                value[CONFIG] = said[i, token.content].special
            note = "special"
            if is_special and not tokens.folder.is_built:
                note += ", and skipped anyway"
            found[i] = Evidence(_JSON, pointer, value=value, ids={i: token.content}, note=note)
    written = view.written_in_template(tokens.added[i][0] for i in found)
    grave = {i for i in found if i in view.stop_ids or tokens.added[i][0] in written}
    evidence = [found[i] for i in sorted(found, key=lambda i: i not in grave)]
    yield from _finding("SPECIAL_FLAG_DRIFT", evidence, "error" if grave else None)


def _declared(view: View) -> Iterator[Finding]:
    """Yield findings about tokens that the two files declare differently."""
    tokens = view.tokens
    if tokens.bare is None:
        return
    found: dict[str, list[Evidence]] = {}
    for i, token, pointer in tokens.declared:
        if tokens.bare.id_of(token.content) is not None:
            continue
        here, after = tokens.bare.text_of(i), tokens.id_of(token.content)
        code = "ADDED_TOKEN_ONLY_IN_CONFIG" if here is None else "ADDED_TOKEN_CONTENT_DRIFT"
        note = "not in tokenizer.json" if here is None else f"tokenizer.json has {here!r:.80} there"
        if after is not None:
            note += f"; its id after loading is {after}"
        evidence = Evidence(CONFIG, pointer, ids={i: token.content}, note=note)
        found.setdefault(code, []).append(evidence)
    for code, seen in found.items():
        yield from _finding(code, seen)


def _own(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    if tokens.bare is None:
        return
    loaded = tokens.loaded or tokens.bare
    moved = []
    firsts = {entry.token.content: entry for entry in reversed(tokens.own)}
    for i, token, pointer in firsts.values():
        after = loaded.id_of(token.content)
        if after != i or tokens.bare.id_of(token.content) != i:
            missing = f"missing after loading with {tokens.folder.chosen.name}"
            note = missing if after is None else f"{after} after loading"
            moved.append(Evidence(_JSON, pointer, ids={i: token.content}, note=note))
    yield from _finding("ADDED_TOKEN_ID_NOT_HONOURED", moved)


def _shape(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    decoder = tokens.config.get("added_tokens_decoder")
    if not tokens.has_decoder:
        if tokens.config or tokens.own:
            note = "no added_tokens_decoder"
            yield RULES["ADDED_TOKENS_DECODER_ABSENT"](Evidence(CONFIG, note=note))
    elif not isinstance(decoder, dict) or len(tokens.declared) < len(decoder):
        place = Evidence(CONFIG, "/added_tokens_decoder", value=shown(decoder))
        yield RULES["ADDED_TOKENS_DECODER_SHAPE"](place)


def _extra(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    extra, additional = ((key, *tokens.said.get(key, (None, CONFIG))) for key in _EXTRA)
    key, value, source = extra
    if isinstance(value, list):
        below = any(engine.may_have_transformers_4 for engine in view.engines)
        evidence = Evidence(source, f"/{key}", value=f"a list of {len(value)}")
        yield RULES["EXTRA_SPECIAL_TOKENS_LIST"](evidence, severity="error" if below else "info")
    # With an object of names, the list is read anyway.
    if value and additional[1] and not isinstance(value, dict):
        yield RULES["EXTRA_SPECIAL_SHADOWS_ADDITIONAL"](
            *(Evidence(f, f"/{k}", value=shown(_names(v))) for k, v, f in (extra, additional))
        )
    # The library skips a token with any later flag if it was special once.
    own = () if tokens.folder.is_built else (entry.token for entry in tokens.own)
    skipped = {token.content for token in (*own, *tokens.to_add()) if token.special}
    unskipped = [
        Evidence(source, f"/{key}", ids={found: text}, note="special=false after loading")
        for key, listed, source in (extra, additional)
        for text in dict.fromkeys(_names(listed))
        if text not in skipped
        and (found := tokens.id_of(text)) is not None
        and tokens.added.get(found) == (text, False)
    ]
    yield from _finding("EXTRA_SPECIAL_NOT_SKIPPED", unskipped)


def _names(listed: object) -> list[str]:
    values = list(listed.values()) if isinstance(listed, dict) else listed
    return [t for value in values if (t := content_of(value))] if isinstance(values, list) else []


def _map(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    differing = []
    for name in ROLES:
        # A role of which the config is silent is not overridden by the map; it is lost with it.
        if name in tokens.special_map and (name in tokens.config or tokens.has_decoder):
            here, there = content_of(tokens.special_map[name]), content_of(tokens.config.get(name))
            if here != there:
                differing.append(Evidence(_MAP, f"/{name}", value={_MAP: here, CONFIG: there}))
    if tokens.has_decoder:
        files = (tokens.config, tokens.special_map)
        named, listed = ([t for key in _EXTRA for t in _names(file.get(key))] for file in files)
        if listed and set(listed) != set(named):
            value = {_MAP: shown(listed), CONFIG: shown(sorted(set(named)))}
            differing.append(Evidence(_MAP, value=value, note="further special tokens"))
    stale = "SPECIAL_TOKENS_MAP_STALE"
    yield from _finding(stale if tokens.has_decoder else "SPECIAL_TOKENS_MAP_OVERRIDES", differing)


def _in_template(view: View) -> Iterator[Finding]:
    tokens = view.tokens
    unskipped = {text: i for i, (text, special) in tokens.added.items() if not special}
    if found := view.ids(unskipped[text] for text in view.written_in_template(unskipped)):
        some = dict(list(found.items())[:_MOST])
        yield RULES["STRUCTURAL_TOKEN_NOT_SPECIAL"](Evidence(*view.template_place, ids=some))
    markers = sorted(set(_MARKER.findall(view.template_text)))
    unknown = [marker for marker in markers if tokens.id_of(marker) is None]
    if unknown and tokens.loaded is not None:
        place = Evidence(*view.template_place, value=unknown[:_MOST])
        yield RULES["TEMPLATE_MARKER_NOT_A_TOKEN"](place)
