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

from streamdec.core.conditions import StopConditions
from streamdec.errors import warn
from streamdec.preflight.engine_versions import Engine, parse_engine
from streamdec.preflight.eos_sources import EosSources, Source
from streamdec.preflight.snapshot import open_snapshot
from streamdec.preflight.snapshot_tokens import Tokens

_OF_SGLANG = ("<|eom_id|>", "<|content_model_end_sampling|>", "<|ifm|im_end|>")
"""SGLang's built-in list of texts. Before 0.5.23 it had only the first."""


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

    ``path``, ``engine`` and the errors are those of
    :func:`~streamdec.preflight.effective_stop_tokens`. If some ids are unknown
    (``StopTokens.resolved``), warns with :class:`~streamdec.StreamdecWarning`, and uses the others.

    >>> from streamdec.preflight import stop_conditions
    >>> stop_conditions("path/to/model").eos_token_ids
    (0, 2)
    """
    found = effective_stop_tokens(path, engine)
    if not found.resolved:
        known = ", ".join(map(str, sorted(found.ids))) or "none"
        warn(
            f"{os.fspath(path)!r:.200}: the id of the tokenizer's EOS token is unknown, so "
            f"{engine} may stop on more ids than these: {known}. Add the id with "
            "StopConditions(eos_token_ids=...)"
        )
    return StopConditions(eos_token_ids=sorted(found.ids))


def stop_tokens_of(eos: EosSources, engine: Engine) -> StopTokens:
    """Return the stop tokens of ``engine`` for sources that were read before."""
    found = tuple(_RULES[engine.name](eos, engine))
    nearest = engine.rules_of
    note = f"the rules are those of {engine.name} {nearest}, the nearest that was read"
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
        notes=() if engine.version == nearest else (note,),
    )


def _transformers(eos: EosSources, engine: Engine) -> Iterator[tuple[int, Source]]:
    own = eos.loaded if engine.before("5") else eos.written
    has_file = eos.generation_config is not None
    yield from eos.generation if has_file else eos.or_text(own, eos.written_text)


def _vllm(eos: EosSources, _: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.tokenizer[0]
    has_file = eos.generation_config is not None
    yield from eos.generation if has_file else eos.or_text(eos.loaded, eos.loaded_text)


def _sglang(eos: EosSources, engine: Engine) -> Iterator[tuple[int, Source]]:
    yield from eos.loaded if eos.has_attribute else eos.lifted
    if not eos.generation_is_zero:
        yield from eos.generation
    yield from eos.tokenizer[0]
    texts = _OF_SGLANG[:1] if engine.before("0.5.23") else _OF_SGLANG
    for token_id, (text, _) in eos.tokens.added.items():
        if text in texts:
            yield token_id, Source("built_in", "sglang: srt/utils/hf_transformers", "", text)


_RULES = {"transformers": _transformers, "vllm": _vllm, "sglang": _sglang}
