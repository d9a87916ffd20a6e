"""The token ids on which engines stop without being asked: their rules.

In: a folder and an engine. Out: :class:`~streamdec.preflight.StopTokens`: ids, and the source of
each.

T is the tokenizer's end-of-sequence id. G is the ``eos_token_id`` of ``generation_config.json``; it
is absent if the file is missing or not JSON, but not if it is null. C is the ``eos_token_id`` of
the loaded configuration, with the default of its class:

=============  ==================================================================================
transformers   G; if absent, ``config.json`` as written: top level, else its text part.
               4.57 applies class defaults there, 5 does not. T is not used.
vLLM           T and G; if G is absent, T and C, or the text part's if C has none.
SGLang         C, G, T, and the ids of a built-in list of texts. A bare 0 in G is dropped. A
               configuration without that attribute takes it from its text part.
dynamo         G, else the top level of ``config.json``, else its text part; and T, if
               ``added_tokens_decoder`` tells its id.
smg            the top level of ``config.json`` and G, as written.
mlx-lm         G unless it is 0 or empty, else the top level of ``config.json``, else T.
=============  ==================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from math import isfinite
from typing import Any

from streamdec.core.conditions import StopConditions
from streamdec.errors import warn
from streamdec.folders.transformers_facts import ABSENT, facts
from streamdec.locks import cached_property
from streamdec.preflight.engine_versions import Engine, parse_engine
from streamdec.preflight.snapshot import Snapshot, open_snapshot
from streamdec.preflight.snapshot_tokens import Tokens, is_id

MAX_SHOWN = 500
"""The most characters of a text in a report."""
GENERATION = "generation_config.json"
CONFIG = "config.json"
_ADDITIONAL_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.5.23", ("<|eom_id|>", "<|content_model_end_sampling|>", "<|ifm|im_end|>")),
    ("0", ("<|eom_id|>",)),
)
"""SGLang's built-in list of texts, by its first version."""
MAX_IDS = 1_000
"""The most ids of a list that are read; real lists have up to ten."""
_HARMONY_STOPS = ("<|return|>", "<|call|>")
_SGLANG_PARTS = ("thinker_config", "llm_config", "language_config", "text_config")
"""The keys of the text part of a configuration in SGLang, in its order."""
_LOADED_PARTS = ("decoder", "generator", "text_config", "llm_config")
"""The same in a loaded configuration of transformers and in vLLM, except for models with a
``thinker_config``."""
_WRITTEN_PARTS = ("decoder", "generator", "text_config")
"""The same in ``config.json`` as written in transformers, in its order."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a stop token.

    >>> from streamdec.preflight import effective_stop_tokens
    >>> [source] = effective_stop_tokens("path/to/model", "vllm").sources[0]
    >>> source.kind, source.file, source.pointer
    ('generation_config', 'generation_config.json', '/eos_token_id/1')
    """

    kind: str
    """``tokenizer``, ``generation_config``, ``config``, ``text_config``, ``class_default``,
    ``text_class_default`` or ``built_in``."""
    file: str
    """The file, or for a default the model type of transformers."""
    pointer: str = ""
    """The place in the file."""
    text: str | None = None
    """The text whose id it is, if the source is a text."""
    resolved: bool = True
    """Whether the id is known. If not, ``text`` ends a sequence without a known id, or the text is
    unknown too."""


@dataclass(frozen=True, slots=True)
class StopTokens:
    """The ids on which an engine stops without being asked, and their sources.

    >>> from streamdec.preflight import effective_stop_tokens
    >>> found = effective_stop_tokens("path/to/model", "sglang")
    >>> found.engine, found.resolved, found.texts
    ('sglang', True, {0: '<|endoftext|>', 2: '<|im_end|>'})
    """

    engine: str
    """The name of the engine: ``sglang``."""
    version: str
    """The requested version."""
    ids: frozenset[int]
    """Token ids; empty if the engine stops on none."""
    sources: Mapping[int, tuple[Source, ...]]
    """The sources of each id."""
    texts: Mapping[int, str | None] = field(default_factory=dict)
    """The text of each id; None if it is unknown."""
    unresolved: tuple[Source, ...] = ()
    """Sources whose id is unknown."""
    notes: tuple[str, ...] = ()
    """Remarks about this engine."""

    @property
    def resolved(self) -> bool:
        """Whether the set is complete."""
        return not self.unresolved

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "engine": self.engine,
            "version": self.version,
            "resolved": self.resolved,
            "ids": [
                {
                    "id": i,
                    "text": shortened(self.texts.get(i)),
                    "resolved": True,
                    "sources": _as_json(self.sources[i]),
                }
                for i in sorted(self.ids)
            ],
            "unresolved": _as_json(self.unresolved),
            "notes": list(self.notes),
        }


def shortened(text: str | None) -> str | None:
    """Return the first 500 characters of a text of a file."""
    return text if text is None or len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def fields_as_json(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON, with texts of at most 500 characters."""
    return {each.name: _as_json(getattr(value, each.name)) for each in fields(value)}


def _as_json(value: Any) -> Any:
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return fields_as_json(value)
    if isinstance(value, float) and not isfinite(value):
        return str(value)  # JSON has no NaN
    if isinstance(value, str):
        return shortened(value)
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    return [_as_json(each) for each in value] if isinstance(value, list | tuple) else value


Found = tuple[tuple[int, Source], ...]
"""Ids, each with its source."""


@dataclass
class EosSources:
    """T, G and C of a snapshot."""

    snapshot: Snapshot
    tokens: Tokens

    # --- G ----------------------------------------------------------------------------------------

    @cached_property
    def generation_config(self) -> dict[str, Any] | None:
        """The file; None if it is missing or invalid, which engines treat alike."""
        return self.snapshot.object(GENERATION)

    @property
    def generation_is_absent(self) -> bool:
        """Whether engines fall back to other files."""
        return self.generation_config is None

    @cached_property
    def generation(self) -> Found:
        """Its ``eos_token_id``."""
        config = self.generation_config or {}
        return _found(config.get("eos_token_id"), "generation_config", GENERATION, "/eos_token_id")

    # --- C ----------------------------------------------------------------------------------------

    @cached_property
    def config(self) -> dict[str, Any]:
        """``config.json``; empty without one."""
        return self.snapshot.object(CONFIG) or {}

    @cached_property
    def model_type(self) -> str:
        """``model_type`` in it."""
        value = self.config.get("model_type")
        return value if isinstance(value, str) else ""

    @cached_property
    def written(self) -> Found:
        """The top level of ``config.json`` as written."""
        return _found(self.config.get("eos_token_id"), "config", CONFIG, "/eos_token_id")

    @cached_property
    def written_text(self) -> Found:
        """The text part of ``config.json`` as written, by the keys of transformers."""
        name = next((n for n in _WRITTEN_PARTS if self._part(n)), "text_config")
        return self.written_part(name)

    def written_part(self, name: str) -> Found:
        """Return a part of ``config.json`` as written."""
        value = self._part(name).get("eos_token_id")
        return _found(value, "text_config", CONFIG, f"/{name}/eos_token_id")

    def _part(self, name: str) -> Mapping[str, Any]:
        part = self.config.get(name)
        return part if isinstance(part, dict) else {}

    @property
    def values(self) -> tuple[Any, ...]:
        """The ``eos_token_id`` of both files."""
        generation = self.generation_config or {}
        return generation.get("eos_token_id"), self.config.get("eos_token_id")

    @cached_property
    def class_default(self) -> Found:
        """The default of the configuration's class, if it is in effect."""
        if "eos_token_id" in self.config or not self.model_type:
            return ()
        default = facts().eos_default(self.model_type).top
        return _found(default, "class_default", f"transformers: {self.model_type}", "")

    @cached_property
    def loaded(self) -> Found:
        """C: the attribute of the loaded configuration."""
        return self.written or self.class_default

    @property
    def has_attribute(self) -> bool:
        """Whether the loaded configuration has the attribute, even if it is None."""
        if "eos_token_id" in self.config:
            return True
        return bool(facts().eos_default(self.model_type).top != ABSENT)

    @cached_property
    def lifted(self) -> Found:
        """The attribute of the text part in SGLang."""
        return self._text_of(_SGLANG_PARTS)

    @cached_property
    def loaded_text(self) -> Found:
        """The attribute of the text part in a loaded configuration of transformers."""
        own = facts().eos_default(self.model_type).part
        return self._text_of((own,) if own == "thinker_config" else _LOADED_PARTS)

    def _text_of(self, names: tuple[str, ...]) -> Found:
        own = facts().eos_default(self.model_type).part
        for name in names:
            part = self.config.get(name)
            pointer = f"/{name}"
            if isinstance(part, dict):
                if name == "thinker_config" and isinstance(part.get("text_config"), dict):
                    part, pointer = part["text_config"], f"{pointer}/text_config"
                if "eos_token_id" in part:
                    value, pointer = part["eos_token_id"], f"{pointer}/eos_token_id"
                    return _found(value, "text_config", CONFIG, pointer)
                is_known = facts().knows_model(self.model_type)
                # A part that the class does not know is loaded without any default.
                return self._text_default(part) if name == own or not is_known else ()
            if name == own:
                return self._text_default({})
        return ()

    def _text_default(self, part: Mapping[str, Any]) -> Found:
        """Return the class default of the text part.

        It is the default of the text part's own type, else of the outer type.
        """
        default = facts().eos_default(self.model_type).text
        name, text_type = self.model_type, part.get("model_type")
        if isinstance(text_type, str) and facts().knows_model(text_type):
            default, name = facts().eos_default(text_type).top, text_type
        return _found(default, "text_class_default", f"transformers: {name}", "")

    def or_text(self, value: Found, text: Found) -> Found:
        """Return ``value``, or ``text`` if the top level has no value.

        An empty list is a value.
        """
        return value if self.config.get("eos_token_id") is not None or value else text

    # --- T and A ----------------------------------------------------------------------------------

    @cached_property
    def tokenizer(self) -> tuple[Found, tuple[Source, ...]]:
        """T, and its source if the id is unknown."""
        tokens = self.tokens
        role = tokens.roles.get("eos_token")
        if role is None:
            others = tokens.is_remote or (tokens.json is None and tokens.other_vocabularies)
            if others and "eos_token" not in tokens.said:
                return (), (Source("tokenizer", "", resolved=False),)
            return (), ()
        found = self.tokens.resolve(role.text)
        source = Source("tokenizer", role.source, role.pointer, role.text, found.resolved)
        return (((found.id, source),), ()) if found.id is not None else ((), (source,))

    def additional(self, engine: Engine) -> Found:
        """Return the texts of SGLang's list that are added tokens."""
        since = next(s for s, _ in _ADDITIONAL_TEXTS if not engine.before(s))
        texts = dict(_ADDITIONAL_TEXTS)[since]
        file = "sglang: srt/utils/hf_transformers"
        return tuple(
            (i, Source("built_in", file, "", text))
            for i, (text, _) in self.tokens.added.items()
            if text in texts
        )


def effective_stop_tokens(path: str | os.PathLike[str], engine: str) -> StopTokens:
    """Return the ids on which ``engine`` stops when it serves a snapshot.

    ``engine`` is ``"vllm"``, ``"sglang"``, ``"transformers"``, ``"dynamo"``, ``"smg"`` or
    ``"mlx-lm"``. A version may follow after ``@`` (``"vllm@0.19.1"``). The default is the newest
    known version. ``path`` is the folder of the snapshot. A request can change the set; see the
    notes. The rules were read in the source of each engine. The module
    ``streamdec.preflight.stop_tokens`` begins with a table of them.

    Raises :class:`~streamdec.TokenizerLoadError` if ``path`` is not a folder, ValueError for an
    unknown engine.

    >>> from streamdec.preflight import effective_stop_tokens
    >>> found = effective_stop_tokens("path/to/model", "vllm@0.19.1")
    >>> {i: [source.kind for source in found.sources[i]] for i in sorted(found.ids)}
    {0: ['generation_config'], 2: ['tokenizer', 'generation_config']}
    """
    known = parse_engine(engine)
    snapshot = open_snapshot(path)
    return stop_tokens_of(EosSources(snapshot, Tokens(snapshot)), known)


def stop_conditions(path: str | os.PathLike[str], engine: str = "vllm") -> StopConditions:
    """Return ``StopConditions`` with the ids on which ``engine`` stops.

    The ids are its ``eos_token_ids``. ``path`` is the folder of a snapshot, and ``engine`` is as
    for :func:`~streamdec.preflight.effective_stop_tokens`.

    If some ids are unknown (``StopTokens.resolved``), warns with
    :class:`~streamdec.StreamdecWarning`, and uses the others.

    Raises the errors of :func:`~streamdec.preflight.effective_stop_tokens`.

    >>> from streamdec.preflight import stop_conditions
    >>> stop_conditions("path/to/model").eos_token_ids
    (0, 2)
    """
    found = effective_stop_tokens(path, engine)
    if not found.resolved:
        known = ", ".join(map(str, sorted(found.ids))) or "none"
        message = (
            f"{os.fspath(path)!r:.200}: the id of the tokenizer's EOS token is unknown, so "
            f"{engine} may stop on more ids than these: {known}. Add the id with "
            "StopConditions(eos_token_ids=...)"
        )
        warn(message)
    return StopConditions(eos_token_ids=sorted(found.ids))


def stop_tokens_of(eos: EosSources, engine: Engine) -> StopTokens:
    """Return the stop tokens of ``engine`` for sources that were read before."""
    found = tuple(_RULES[engine.name](eos, engine))
    sources: dict[int, tuple[Source, ...]] = {}
    for token_id, source in found:
        sources[token_id] = (*sources.get(token_id, ()), source)
    uses_tokenizer = engine.name in ("vllm", "sglang") or (engine.name == "mlx-lm" and not found)
    return StopTokens(
        engine=engine.name,
        version=engine.version,
        ids=frozenset(sources),
        sources=dict(sorted(sources.items())),
        texts={i: eos.tokens.text_of(i) for i in sorted(sources)},
        unresolved=eos.tokenizer[1] if uses_tokenizer else (),
        notes=tuple(_notes(eos, engine)),
    )


# --- the rules ------------------------------------------------------------------------------------


def _transformers(eos: EosSources, engine: Engine) -> Iterator[tuple[int, Source]]:
    if not eos.generation_is_absent:
        yield from eos.generation
    elif engine.before("5"):
        yield from eos.or_text(eos.loaded, eos.written_text)
    else:
        yield from eos.or_text(eos.written, eos.written_text)


def _vllm(eos: EosSources, _: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.tokenizer[0]
    if not eos.generation_is_absent:
        yield from eos.generation
    else:
        yield from eos.or_text(eos.loaded, eos.loaded_text)


def _sglang(eos: EosSources, engine: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.loaded if eos.has_attribute or _is_old_llava(eos.config) else eos.lifted
    if not is_bare_zero(eos.generation_config):
        yield from eos.generation
    yield from eos.tokenizer[0]
    yield from eos.additional(engine)


def _dynamo(eos: EosSources, _: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.generation or eos.written or eos.written_part("text_config")
    role = eos.tokens.roles.get("eos_token")
    if role is not None:
        for entry in eos.tokens.declared:
            if entry.content == role.text:
                yield entry.id, Source("tokenizer", role.source, role.pointer, role.text)


def _smg(eos: EosSources, _: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.written
    yield from eos.generation


def _mlx_lm(eos: EosSources, _: Engine) -> Iterator[tuple[int, Source]]:
    if not is_bare_zero(eos.generation_config) and eos.generation:
        yield from eos.generation
    else:
        yield from eos.written or eos.tokenizer[0]


_RULES = {
    "transformers": _transformers,
    "vllm": _vllm,
    "sglang": _sglang,
    "dynamo": _dynamo,
    "smg": _smg,
    "mlx-lm": _mlx_lm,
}


def _notes(eos: EosSources, engine: Engine) -> Iterator[str]:
    if any(isinstance(value, list) and len(value) > MAX_IDS for value in eos.values):
        yield f"of a list of more than {MAX_IDS:,} ids the first are read"
    if engine.version != engine.rules_of:
        yield f"the rules are those of {engine.name} {engine.rules_of}, the nearest that was read"
    if engine.name == "vllm":
        yield "ignore_eos removes these ids and keeps the stop_token_ids of a request"
        if eos.model_type == "gpt_oss" and engine.before("0.33"):
            ids = [eos.tokens.resolve(text).id for text in _HARMONY_STOPS]
            yield f"the chat server adds {' and '.join(_HARMONY_STOPS)} ({ids})"
    elif engine.name == "sglang":
        yield "ignore_eos removes all ids, the stop_token_ids of a request included"


def _is_old_llava(config: Mapping[str, Any]) -> bool:
    """Return whether SGLang uses the whole configuration as its text part."""
    listed = config.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else ""
    return isinstance(name, str) and name.startswith("Llava") and name.endswith("ForCausalLM")


def is_bare_zero(generation_config: Mapping[str, Any] | None) -> bool:
    """Return whether ``eos_token_id`` is the integer 0, which a truth test drops."""
    value = (generation_config or {}).get("eos_token_id")
    return value == 0 and isinstance(value, int) and not isinstance(value, bool)


def _found(value: object, kind: str, file: str, pointer: str) -> Found:
    """Return the ids in a value, which is an id or a list; other values are left out."""
    if is_id(value):
        return ((value, Source(kind, file, pointer)),)
    if isinstance(value, list):
        return tuple(
            (each, Source(kind, file, f"{pointer}/{index}"))
            for index, each in enumerate(value[:MAX_IDS])
            if is_id(each)
        )
    return ()
