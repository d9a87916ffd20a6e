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
=============  ==================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from streamdec.core.conditions import StopConditions
from streamdec.errors import warn
from streamdec.preflight.engine_versions import Engine, parse_engine
from streamdec.preflight.eos_sources import MAX_IDS, EosSources, Source
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.snapshot_tokens import Tokens

_ADDITIONAL_TEXTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("0.5.23", ("<|eom_id|>", "<|content_model_end_sampling|>", "<|ifm|im_end|>")),
    ("0", ("<|eom_id|>",)),
)
"""SGLang's built-in list of texts, by its first version."""
_HARMONY_STOPS = ("<|return|>", "<|call|>")


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


def effective_stop_tokens(path: str | os.PathLike[str], engine: str) -> StopTokens:
    """Return the ids on which ``engine`` stops when it serves a snapshot.

    ``engine`` is ``"vllm"``, ``"sglang"`` or ``"transformers"``. A version may follow after ``@``
    (``"vllm@0.19.1"``). The default is the newest known version. ``path`` is the folder of the
    snapshot. A request can change the set; see the notes. The module
    ``streamdec.preflight.stop_tokens`` begins with a table of the rules.

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
    return StopTokens(
        engine=engine.name,
        version=engine.version,
        ids=frozenset(sources),
        sources=dict(sorted(sources.items())),
        texts={i: eos.tokens.text_of(i) for i in sorted(sources)},
        unresolved=() if engine.name == "transformers" else eos.tokenizer[1],
        notes=tuple(_notes(eos, engine)),
    )


# --- the rules ------------------------------------------------------------------------------------


def _transformers(eos: EosSources, engine: Engine) -> Iterator[tuple[int, Source]]:
    if eos.generation_config is not None:
        yield from eos.generation
    elif engine.before("5"):
        yield from eos.or_text(eos.loaded, eos.written_text)
    else:
        yield from eos.or_text(eos.written, eos.written_text)


def _vllm(eos: EosSources, _: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.tokenizer[0]
    if eos.generation_config is not None:
        yield from eos.generation
    else:
        yield from eos.or_text(eos.loaded, eos.loaded_text)


def _sglang(eos: EosSources, engine: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.loaded if eos.has_attribute or _is_old_llava(eos.config) else eos.lifted
    if not eos.generation_is_zero:
        yield from eos.generation
    yield from eos.tokenizer[0]
    texts = next(texts for since, texts in _ADDITIONAL_TEXTS if not engine.before(since))
    for token_id, (text, _) in eos.tokens.added.items():
        if text in texts:
            file = "sglang: srt/utils/hf_transformers"
            yield token_id, Source("built_in", file, "", text)


_RULES = {"transformers": _transformers, "vllm": _vllm, "sglang": _sglang}


def _notes(eos: EosSources, engine: Engine) -> Iterator[str]:
    if any(isinstance(value, list) and len(value) > MAX_IDS for value in eos.values):
        yield f"of a list of more than {MAX_IDS:,} ids the first are read"
    if engine.version != engine.rules_of:
        yield f"the rules are those of {engine.name} {engine.rules_of}, the nearest that was read"
    if eos.model_type == "gpt_oss" and engine.name == "vllm" and engine.before("0.33"):
        ids = [eos.tokens.id_of(text) for text in _HARMONY_STOPS]
        yield f"the chat server adds {' and '.join(_HARMONY_STOPS)} ({ids})"


def _is_old_llava(config: Mapping[str, Any]) -> bool:
    """Return whether SGLang uses the whole configuration as its text part."""
    listed = config.get("architectures")
    name = listed[0] if isinstance(listed, list) and listed else ""
    return isinstance(name, str) and name.startswith("Llava") and name.endswith("ForCausalLM")
