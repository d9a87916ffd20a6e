"""Rules about quantisation: the places of its declaration, and who reads them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from streamdec.preflight.preflight_report import RULES, Evidence, Finding, shown
from streamdec.preflight.snapshot import Snapshot
from streamdec.preflight.view import View

_CONFIG = "config.json"
_SIDECAR = "hf_quant_config.json"
_KEY = "quantization_config"
_MOST = 20
"""Pieces of evidence that a finding shows."""

Place = tuple[str, str, dict[str, Any]]
"""A declaration: its file, dotted path and value."""


def quantizations(config: Any) -> list[tuple[str, Any]]:
    """Return each ``quantization_config`` and its dotted path, the outer ones first."""
    found = []
    places: deque[tuple[str, Any]] = deque([("", config)])
    while places:
        path, value = places.popleft()
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in items:
            here = f"{path}.{key}" if path else str(key)
            if key == _KEY and inner:
                found.append((here, inner))
            elif isinstance(inner, dict | list):
                places.append((here, inner))
    return found


def quantization_places(snapshot: Snapshot) -> list[Place]:
    """Return all declarations by precedence."""
    config = snapshot.object(_CONFIG) or {}
    places: list[tuple[str, str, Any]] = [(_CONFIG, *each) for each in quantizations(config)]
    others = [(_CONFIG, "compression_config", config.get("compression_config"))]
    if sidecar := snapshot.object(_SIDECAR):
        inner = sidecar.get("quantization")
        is_inner = isinstance(inner, dict)
        others.insert(0, (_SIDECAR, "quantization" if is_inner else "", inner or sidecar))
    at = 1 if places and places[0][1] == _KEY else 0
    places[at:at] = others
    return [(f, p, value) for f, p, value in places if isinstance(value, dict) and value]


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    places = quantization_places(view.snapshot)
    if not places:
        return
    if all("." in path for _, path, _ in places):
        yield RULES["QUANT_NESTED"](*(_evidence(*place) for place in places[:_MOST]))
    if {file for file, _, _ in places} == {_SIDECAR}:
        yield RULES["QUANT_SIDECAR_ONLY"](*(_evidence(*place) for place in places))
    null = [
        Evidence(file, _pointer(f"{path}.{key}".strip(".")))
        for file, path, value in places
        for key in ("kv_cache_scheme", "kv_cache_quant_algo")
        if key in value and value[key] is None
    ]
    if null:
        yield RULES["QUANT_KV_SCHEME_NULL"](*null[:_MOST])


def _evidence(file: str, path: str, value: dict[str, Any]) -> Evidence:
    said = {
        key: shown(value[key])
        for key in ("quant_method", "quant_algo", "bits", "format")
        if isinstance(value.get(key), str | int)
    }
    return Evidence(file, _pointer(path), value=said or None)


def _pointer(path: str) -> str:
    return "/" + path.replace(".", "/") if path else ""
