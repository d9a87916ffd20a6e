"""Rules about files: unreadable and missing ones, and the tokenizer class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamdec.folders.tokenizer_class import auto_map_of
from streamdec.folders.tokenizer_config import CONFIG, ROLES
from streamdec.folders.transformers_facts import ONLY_V5, facts
from streamdec.preflight.preflight_report import RULES, Evidence, Finding, shown
from streamdec.preflight.view import View
from streamdec.tokenizers.folder_files import Problem

_OBJECTS = (
    *("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json"),
    *("special_tokens_map.json", "added_tokens.json", "chat_template.json"),
    *("hf_quant_config.json", "processor_config.json", "preprocessor_config.json"),
)
"""Files that engines read and that must be JSON objects."""
_JSON = "tokenizer.json"
_WITHOUT_FILES = {"ByT5Tokenizer", "CanineTokenizer", "DiaTokenizer", "PerceiverTokenizer"}
"""Classes that need no vocabulary: their tokens are bytes or characters."""

_BY_PROBLEM: Mapping[Problem, str] = {
    "json": "FILE_INVALID_JSON",
    "lfs": "FILE_LFS_POINTER",
    "too-large": "FILE_TOO_LARGE",
    "outside": "FILE_OUTSIDE_FOLDER",
    "unreadable": "FILE_UNREADABLE",
    "text": "FILE_UNREADABLE",
}


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module.

    The other modules have read their files before.
    """
    for each in (_problems, _tokenizer_json, _decoder, _types, _class):
        yield from each(view)


def _problems(view: View) -> Iterator[Finding]:
    for name in _OBJECTS:
        view.snapshot.object(name)
    found: dict[str, list[Evidence]] = {}
    for name, error in view.snapshot.problems():
        evidence = Evidence(name, line=error.line, note=str(error))
        found.setdefault(_BY_PROBLEM[error.problem], []).append(evidence)
    for code, seen in found.items():
        yield RULES[code](*seen)
    if view.tokens.json is not None and view.tokens.bare is None:
        yield RULES["TOKENIZER_JSON_INVALID"](Evidence(_JSON, note=view.tokens.refused))


def _tokenizer_json(view: View) -> Iterator[Finding]:
    tokens, name = view.tokens, view.tokens.folder.chosen.name
    is_there = _JSON in view.snapshot
    found = tokens.other_vocabularies or auto_map_of(tokens.config)
    found = found or [*_WITHOUT_FILES & {name}]
    if not is_there or (tokens.folder.how == "python" and not found):
        note = "transformers may use" if found else "no other file makes a tokenizer"
        others = Evidence(value=found or None, note=note)
        missing = Evidence(_JSON, note=f"{name} does not read it" if is_there else "not there")
        yield RULES["TOKENIZER_JSON_MISSING"](missing, others, severity=None if found else "error")
    else:
        flags = [
            Evidence(CONFIG, f"/{key}", value=tokens.config[key])
            for key in ("add_bos_token", "add_eos_token")
            if isinstance(tokens.config.get(key), bool)
        ]
        if flags:
            yield RULES["ADD_BOS_EOS_FLAG_IGNORED"](*flags)


_READERS = {"Ġ": "ByteLevel", "▁": "Metaspace", "##": "WordPiece"}
"""The signs at the beginning of pieces, and the decoders that read them."""
_SHARE = 0.05
"""The share of a vocabulary that begins with a sign, if the sign is more than a letter."""


def _decoder(view: View) -> Iterator[Finding]:
    """Check that the decoder reads the sign for a space or a suffix."""
    tokens = view.tokens
    if tokens.json is None or tokens.bare is None or tokens.folder.is_remote:
        return
    own = tokens.json.get("decoder")
    decoders = [own]
    if tokens.folder.is_built:
        # The class has its own decoder; it is None for a class that is not known well.
        built = tokens.folder.pipeline
        decoders = [parts["decoder"] for _, parts in built["pipelines"]] if built else []
    vocabulary, rule = tokens.bare.model, RULES["DECODER_CANNOT_READ_VOCAB"]
    for sign, reader in _READERS.items():
        pieces = [text for text in vocabulary if text.startswith(sign)]
        reading = [_reads(decoder, sign, reader) for decoder in decoders]
        if len(pieces) > _SHARE * len(vocabulary) and reading and not any(reading):
            loaded = tokens.folder.chosen.name if tokens.folder.is_built else _JSON
            some = {vocabulary[text]: text for text in pieces[:4]}
            left = Evidence(note=f"the decoder of {loaded} leaves {sign} in texts")
            # The last engine of the rule reads tokenizer.json without the class.
            engines = rule.engines[:-1] if _reads(own, sign, reader) else None
            yield rule(Evidence(_JSON, "/model/vocab", ids=some), left, engines=engines)


def _reads(decoder: Any, sign: str, reader: str) -> bool:
    """Return whether a decoder, or one inside it, reads ``sign``."""
    if not isinstance(decoder, dict):
        return False
    if decoder.get("type") in ("Replace", "CTC"):
        return sign in str((decoder.get("pattern"), decoder.get("word_delimiter_token")))
    inner = decoder.get("decoders")
    return decoder.get("type") == reader or any(
        _reads(each, sign, reader) for each in (inner if isinstance(inner, list) else ())
    )


def _types(view: View) -> Iterator[Finding]:
    """Check the types of the values without which transformers loads no tokenizer."""
    config, wrong = view.tokens.config, []
    for role in ROLES:
        value, source = view.tokens.said.get(role, (None, ""))
        # transformers itself gives the objects of special_tokens_map.json their type.
        is_token = isinstance(value, dict) and (source != CONFIG or "__type" in value)
        if not isinstance(value, str | None) and not is_token:
            wrong.append((source, role, value, 'a string or {"__type": "AddedToken", …}'))
    if not isinstance(name := config.get("tokenizer_class"), str | None):
        wrong.append((CONFIG, "tokenizer_class", name, "a string"))
    code = config.get("auto_map", {})
    names = code.get("AutoTokenizer", ["", ""]) if isinstance(code, dict) else code
    if not isinstance(names, list) or len(names) < 2:
        wrong.append((CONFIG, "auto_map", code, 'an object with "AutoTokenizer": [slow, fast]'))
    found = (Evidence(f, f"/{key}", value=shown(v), note=f"expected {e}") for f, key, v, e in wrong)
    if wrong:
        yield RULES["TOKENIZER_CONFIG_TYPE"](*found)


def _class(view: View) -> Iterator[Finding]:
    config = view.tokens.config
    code = auto_map_of(config)
    if code:
        evidence = Evidence(CONFIG, "/auto_map", value=[name[:200] for name in code[:4]])
        yield RULES["TOKENIZER_REMOTE_CODE"](evidence)
    declared = config.get("tokenizer_class")
    if not isinstance(declared, str) or not declared:
        return
    evidence = Evidence(CONFIG, "/tokenizer_class", value=declared[:200])
    if declared in ONLY_V5:
        below = any(engine.may_have_transformers_4 for engine in view.engines)
        yield RULES["TOKENIZER_CLASS_REQUIRES_V5"](evidence, severity="error" if below else "info")
    elif not code and facts().tokenizer_class(declared) is None:
        loaded = Evidence(note="transformers 5 uses", value=view.tokens.folder.chosen.name)
        yield RULES["TOKENIZER_CLASS_UNKNOWN"](evidence, loaded)
