"""Stand-ins for the parts of vLLM 0.33.0 and SGLang 0.5.23 that the plugins use.

Their classes have the engines' names, signatures and fields, as far as the plugins use them. Where
an engine is installed (``nox -s vllm sglang``), tests compare them with its own classes.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.support.zoo import ZOO

LIBRARY = ZOO["byte_level_trained"]()
HERE = Path(__file__).resolve().parent
REASONING = [
    ("a", "<think>b two</think> one two", "<think>b two</think> one "),
    ("a", "one two three", "one "),
    ("a", "<think>two</think>a<think>two</think> two", "<think>two</think>a<think>two</think> "),
    ("a", "<think>b two three", "<think>b two three"),
    ("a<think>", "b two</think> one two", "b two</think> one "),
    ("a<think></think>", "one two three", "one "),
]
"""The prompt, what the model generates, and the text of the client, with the stop "two"."""
PLUGINS = HERE.parents[2] / "plugins"
STOP = "two"
PARENTHESES = ["(", ")"]
NAMES = ("sglang", "streamdec_sglang", "streamdec_vllm", "transformers", "vllm")
SGLANG = {
    "manager": "sglang.srt.managers.detokenizer_manager",
    "batch": "sglang.srt.managers.io_struct:BatchTokenIDOutput",
    "req": "sglang.srt.managers.schedule_batch:Req",
    "hooks": "sglang.srt.plugins.hook_registry:HookRegistry",
    "get_serving": "sglang.srt.runtime_context:get_serving",
    "plugin": "streamdec_sglang",
    "ours": "streamdec_sglang.detokenizer",
    "logs": "streamdec_sglang.logs",
    "patch": "streamdec_sglang.patch",
    "reasoning": "streamdec_sglang.reasoning",
    "stops": "streamdec_sglang.stops",
}
"""What tests use of SGLang and of its plugin, by short names."""
VLLM = {
    "detokenizers": "vllm.v1.engine.detokenizer",
    "inputs": "vllm.v1.engine.input_processor",
    "request": "vllm.v1.engine:EngineCoreRequest",
    "params": "vllm.sampling_params:SamplingParams",
}
VLLM_PLUGIN = {
    "plugin": "streamdec_vllm",
    "ours": "streamdec_vllm.detokenizer",
    "patch": "streamdec_vllm.patch",
    "reasoning": "streamdec_vllm.reasoning",
}
STRUCTS = ("BatchTokenIDOutput", "EngineCoreRequest", "InputProcessor", "Req", "SamplingParams")
"""Classes of which the stand-in has a part of the fields."""


class Result(NamedTuple):
    """What the client of a request has in the end."""

    text: str
    num_tokens: int
    stop: str | None


@contextmanager
def in_place() -> Iterator[None]:
    """Make the engines' names stand for the stand-ins inside a ``with`` block.

    The plugins are imported anew in the block, and forgotten after it.
    """

    def forget() -> dict[str, Any]:
        names = [name for name in sys.modules if name.partition(".")[0] in NAMES]
        return {name: sys.modules.pop(name) for name in names}

    before, path = forget(), sys.path[:]
    sys.path[:0] = map(str, (HERE, PLUGINS / "sglang", PLUGINS / "vllm"))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        forget()
        sys.modules.update(before)
        sys.path[:] = path
        importlib.invalidate_caches()


def imported(names: Mapping[str, str]) -> SimpleNamespace:
    """Return objects by short names, and a fast tokenizer of transformers."""
    tokenizer = resolve_name("transformers:PreTrainedTokenizerFast")
    made = tokenizer(tokenizer_object=LIBRARY, clean_up_tokenization_spaces=False)
    found = {name: resolve_name(path) for name, path in names.items()}
    return SimpleNamespace(**found, tokenizer=made)


@contextmanager
def plugged(names: Mapping[str, str]) -> Iterator[SimpleNamespace]:
    """Return what tests use of an engine and of its plugin, which is not registered yet."""
    with in_place(), pytest.MonkeyPatch.context() as patch:
        found = imported(names)
        for switch in ("SWITCH", "STOPS_SWITCH", "MARKERS"):
            if hasattr(found.plugin, switch):
                patch.delenv(getattr(found.plugin, switch), raising=False)
        yield found


def sglang_manager(engine: SimpleNamespace, capacity: int = 100) -> Any:
    manager = engine.manager.DetokenizerManager.__new__(engine.manager.DetokenizerManager)
    manager.tokenizer, manager.vocab_size = engine.tokenizer, len(engine.tokenizer)
    manager.decode_status = engine.manager.LimitedCapacityDict(capacity=capacity)
    manager.disable_tokenizer_batch_decode = manager.is_tool_call_parser_gpt_oss = False
    manager.tool_close_token_ids = frozenset()
    return manager


def sglang_batch(engine: SimpleNamespace, rows: Mapping[str, Sequence[Any]], **fields: Any) -> Any:
    """Return a message of the scheduler: the new ids of each request."""
    number = len(rows)
    values: dict[str, Any] = {
        "decode_ids": [array("q", ids) for ids in rows.values()],
        "read_offsets": [0] * number,
        "decoded_texts": [""] * number,
        "finished_reasons": [None] * number,
        "skip_special_tokens": [True] * number,
        "spaces_between_special_tokens": [True] * number,
        "no_stop_trim": [False] * number,
    }
    return engine.batch(rids=[*rows], **(values | fields))


def encoded(text: str) -> list[int]:
    return list(LIBRARY.encode(text, add_special_tokens=False).ids)


# --- the comparison with the engines --------------------------------------------------------------


def shapes(engine: str) -> dict[str, Any]:
    """Return the parameters of each function and class of the stand-ins, and values of enums."""
    with in_place():
        found: dict[str, Any] = {}
        paths = [path.relative_to(HERE).with_suffix("") for path in (HERE / engine).rglob("*.py")]
        names = [".".join(path.parts).removesuffix(".__init__") for path in sorted(paths)]
        for module in map(importlib.import_module, (*names, "transformers")):
            for name, value in vars(module).items():
                is_own = getattr(value, "__module__", None) == module.__name__
                if name.startswith("_") or not is_own:
                    continue
                inner = [each for each in vars(value) if not each.startswith("__")]
                for each in [name, *(f"{name}.{attribute}" for attribute in inner)]:
                    shape = shape_of(resolve_name(f"{module.__name__}:{each}"))
                    if shape is not None:
                        found[f"{module.__name__}:{each}"] = shape
        return found


def shape_of(value: Any) -> Any:
    """Return the parameters of a function or class, or the value of an enum; None for others."""
    if not callable(value):
        return getattr(value, "value", None)
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return {
        each.name: (each.kind.name, "none" if each.default is each.empty else repr(each.default))
        for each in parameters
    }


def differences(engine: str) -> list[str]:
    """Return how the stand-ins differ from the classes of the engine that is installed."""
    found = []
    for path, ours in shapes(engine).items():
        try:
            theirs = shape_of(resolve_name(path))
        except (AttributeError, ImportError) as error:
            found.append(str(error))
            continue
        if path.partition(":")[2] in STRUCTS and theirs is not None:
            # Structs are made with keywords, and are passed on as they are.
            ours = {name: default for name, (_, default) in ours.items()}
            theirs = {name: default for name, (_, default) in theirs.items() if name in ours}
        if ours != theirs:
            found.append(f"{path}: {ours} here, {theirs} in {engine}")
    return found
