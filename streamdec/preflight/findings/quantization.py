"""Rules about quantisation: the places of its declaration, and who reads them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamdec.preflight.preflight_report import Evidence, Finding, shown
from streamdec.preflight.rules import RULES
from streamdec.preflight.view import View

_CONFIG = "config.json"
_SIDECAR = "hf_quant_config.json"
_KEY = "quantization_config"
_MAX_NODES = 100_000


def nested_quantization(config: Any) -> list[tuple[str, Any]]:
    """Return each ``quantization_config`` below the top level: path and value.

    The path is dotted. At most 100,000 values of a file are examined.
    """
    found = []
    level: list[tuple[str, Any]] = [("", config)]
    seen = 0
    while level and seen < _MAX_NODES:
        following: list[tuple[str, Any]] = []
        for path, value in level:
            items: Any = ()
            if isinstance(value, dict):
                items = value.items()
            elif isinstance(value, list):
                items = enumerate(value)
            for key, inner in items:
                seen += 1
                here = f"{path}.{key}" if path else str(key)
                if key == _KEY and inner:
                    if path:
                        found.append((here, inner))
                elif isinstance(inner, dict | list):
                    following.append((here, inner))
        level = following
    return found


def quantization_places(view: View) -> list[tuple[str, str, dict[str, Any]]]:
    """Return all declarations by precedence: file, dotted path, value."""
    config = view.eos.config
    places: list[tuple[str, str, Any]] = [(_CONFIG, _KEY, config.get(_KEY))]
    if _SIDECAR in view.snapshot.names:
        sidecar = view.snapshot.object(_SIDECAR) or {}
        inner = sidecar.get("quantization")
        places.append(
            (_SIDECAR, "quantization" if isinstance(inner, dict) else "", inner or sidecar)
        )
    places.append((_CONFIG, "compression_config", config.get("compression_config")))
    places += [(_CONFIG, path, value) for path, value in nested_quantization(config)]
    return [(f, p, value) for f, p, value in places if isinstance(value, dict) and value]


def check(view: View) -> Iterator[Finding]:
    """Yield the findings of this module."""
    places = quantization_places(view)
    if not places:
        return
    outer = [(file, path) for file, path, _ in places if "." not in path]
    nested = [place for place in places if "." in place[1]]
    if nested and not outer:
        yield RULES["QUANT_NESTED"](*(_evidence(*place) for place in nested[:20]))
    if {file for file, _, _ in places} == {_SIDECAR}:
        yield RULES["QUANT_SIDECAR_ONLY"](*(_evidence(*place) for place in places))
    methods = {summary for _, _, value in places if (summary := _method(value))}
    widths = {bits for _, _, value in places if (bits := _bits(value)) is not None}
    if len(methods) > 1 or len(widths) > 1:
        yield RULES["QUANT_MULTIPLE_DISAGREE"](*(_evidence(*place) for place in places[:20]))
    yield from _without_method(view, places)
    null = [
        (file, f"{path}.{key}".strip("."))
        for file, path, value in places
        for key in ("kv_cache_scheme", "kv_cache_quant_algo")
        if key in value and value[key] is None
    ]
    if null:
        yield RULES["QUANT_KV_SCHEME_NULL"](
            *(Evidence(file, _pointer(path)) for file, path in null[:20])
        )


def _without_method(view: View, places: list[tuple[str, str, dict[str, Any]]]) -> Iterator[Finding]:
    """Declarations in which an engine finds no method.

    An algorithm (``quant_algo``) alone is enough in two cases: for SGLang in
    ``hf_quant_config.json``, and for vLLM where ``producer`` is modelopt and the algorithm is in
    ``quantization``, in either file. vLLM 0.33.0: ``model_arch_config_convertor.py``. SGLang
    0.5.23: ``model_config.py``.
    """
    rule = RULES["QUANT_NO_METHOD"]
    has_top = (_CONFIG, _KEY) in {(file, path) for file, path, _ in places}
    sidecar = (view.snapshot.object(_SIDECAR) or {}) if _SIDECAR in view.snapshot.names else {}
    lacking: dict[str, list[Evidence]] = {}
    for file, path, value in places:
        if _is_name(value.get("quant_method")) or (file == _SIDECAR and has_top):
            continue  # no engine reads hf_quant_config.json then
        whole = sidecar if file == _SIDECAR else value
        for engine in rule.engines if file != _SIDECAR else ("vllm", "sglang"):
            inner = whole.get("quantization")
            has_algorithm = isinstance(inner, dict) and _is_name(inner.get("quant_algo"))
            reads = (engine == "vllm" and _is_modelopt(whole)) or (
                engine == "sglang" and file == _SIDECAR
            )
            if not (has_algorithm and reads):
                lacking.setdefault(engine, []).append(_evidence(file, path, value))
    if lacking:
        evidence = {str(each): each for found in lacking.values() for each in found}
        yield rule(*list(evidence.values())[:20], engines=lacking)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_modelopt(value: Mapping[str, Any]) -> bool:
    producer = value.get("producer")
    return isinstance(producer, dict) and producer.get("name") == "modelopt"


def _evidence(file: str, path: str, value: dict[str, Any]) -> Evidence:
    said = {
        key: shown(value[key])
        for key in ("quant_method", "quant_algo", "bits", "format")
        if isinstance(value.get(key), str | int)
    }
    return Evidence(file, _pointer(path), value=said or None, note=path)


def _pointer(path: str) -> str:
    return "/" + path.replace(".", "/") if path else ""


def _method(value: dict[str, Any]) -> str:
    """Return the method; NVIDIA's tools write an algorithm, with or without a method."""
    method = value.get("quant_method")
    if isinstance(method, str) and method:
        name = method.lower().replace("_", "-")
        return "modelopt" if name.startswith("modelopt") else name
    return "modelopt" if isinstance(value.get("quant_algo"), str) else ""


def _bits(value: dict[str, Any]) -> Any:
    """Return the width of the weights, or the algorithm."""
    for key in ("quant_algo", "bits", "w_bit", "num_bits"):
        found = value.get(key)
        if isinstance(found, str | int) and not isinstance(found, bool):
            return str(found).lower()
    bits = (group.get("num_bits") for group in grouped_weights(value))
    return next((str(each) for each in bits if isinstance(each, int)), None)


def grouped_weights(config: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what each group of compressed-tensors says of its weights."""
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict):
            yield weights
