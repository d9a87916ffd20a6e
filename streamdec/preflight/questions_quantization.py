"""Questions about quantisation: where it is declared, and what it is in one line.

In: a folder, or the JSON of a ``config.json``. Out: dotted paths with what is there; a line.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from streamdec.preflight.engines import parse_engine
from streamdec.preflight.findings.quantization import nested_quantization, quantization_places
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.view import View

__all__ = ["QuantizationEntry", "find_nested_quantization_config", "summarize_quant_config"]

_KEY = "quantization_config"


class QuantizationEntry(NamedTuple):
    """A ``quantization_config`` and where it is.

    >>> from streamdec.preflight import QuantizationEntry, find_nested_quantization_config
    >>> config = {"text_config": {"quantization_config": {"quant_method": "fp8"}}}
    >>> [entry] = find_nested_quantization_config(config)
    >>> entry
    QuantizationEntry(path='text_config.quantization_config', value={'quant_method': 'fp8'})
    """

    path: str
    """The dotted path to it, items of lists by their index: ``text_config.quantization_config``."""
    value: dict[str, Any]
    """What it says, as JSON."""


def find_nested_quantization_config(
    path: str | os.PathLike[str] | Mapping[str, Any],
) -> list[QuantizationEntry]:
    """Every ``quantization_config`` that says something, at any depth of a ``config.json``.

    ``path`` is the folder of a snapshot, or the JSON of the file. The top level comes first, then
    what is nearer to it; objects and lists are walked. Nothing found: look for
    ``hf_quant_config.json`` (``QUANT_SIDECAR_ONLY``) before taking the weights for unquantised.

    Raises :class:`~streamdec.PreflightError` for a path that is no folder.

    >>> from streamdec.preflight import find_nested_quantization_config
    >>> config = {"llm_config": {"layers": [{"quantization_config": {"bits": 4}}]}}
    >>> [entry.path for entry in find_nested_quantization_config(config)]
    ['llm_config.layers.0.quantization_config']
    """
    config = path if isinstance(path, Mapping) else Snapshot(Path(path)).object("config.json") or {}
    top = [(_KEY, config.get(_KEY)), *nested_quantization(dict(config))]
    return [QuantizationEntry(p, value) for p, value in top if isinstance(value, dict) and value]


def summarize_quant_config(config: str | os.PathLike[str] | Mapping[str, Any]) -> str:
    """A quantisation in one line: its method, widths, format, what is left out, the KV cache.

    ``config`` is a ``quantization_config`` as JSON, or the folder of a snapshot, whose declarations
    are all shown in the order in which they win, each after where it is; ``none`` without one.
    ``kv_cache_scheme=None``: there are no scales for the KV cache, and fp8 there has scale 1.0.

    Raises :class:`~streamdec.PreflightError` for a path that is no folder.

    >>> from streamdec.preflight import summarize_quant_config
    >>> summarize_quant_config({"quant_method": "gptq", "bits": 4, "group_size": 128})
    'gptq bits=4 group_size=128'
    >>> summarize_quant_config("path/to/model")
    'none'
    """
    if isinstance(config, Mapping):
        return " ".join(_summary(config))
    view = View(Snapshot(Path(config)), (parse_engine("vllm"),), render=False)
    places = quantization_places(view)
    lines = (
        f"{file}{path and '#' + path}: {summarize_quant_config(value)}"
        for file, path, value in places
    )
    return "; ".join(lines) or "none"


def _summary(config: Mapping[str, Any]) -> Iterator[str]:
    method, algorithm = config.get("quant_method"), config.get("quant_algo")
    yield _word(method or ("modelopt" if algorithm else "no method"))
    if algorithm:
        yield f"quant_algo={_word(algorithm)}"
    weights = _weights(config)
    for key in ("num_bits", "group_size"):
        if key in weights:
            yield f"{key}={_word(weights[key])}"
    for key in ("bits", "w_bit", "group_size", "desc_act", "activation_scheme", "format"):
        if key in config and key not in weights:
            yield f"{key}={_word(config[key])}"
    ignored = [config.get(key) for key in ("ignore", "modules_to_not_convert", "exclude_modules")]
    count = sum(len(names) for names in ignored if isinstance(names, list))
    if count:
        yield f"ignore_patterns={count}"
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        if key in config:
            value = config[key]
            yield f"{key}={'set' if isinstance(value, dict | list) else _word(value)}"


def _weights(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the first group of compressed-tensors."""
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            return weights
    return {}


def _word(value: object) -> str:
    """A value as it is shown: on one line, and not long."""
    shown = value if isinstance(value, str) and value.isprintable() else repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"
