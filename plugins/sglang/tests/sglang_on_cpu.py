"""SGLang's scheduler output and its detokenizer manager, in one process without a GPU.

In: scripts, which are the ids that a model generates for a request. Out: the texts that clients
get. Between them everything is SGLang's: ``Req`` finds the stops, the accumulator of its output
streamer makes the batches, its messages carry them, and ``DetokenizerManager`` decodes them.

Two packages are stubbed, because their wheels do not load without CUDA: ``sgl_kernel`` and
``torchvision``. They are not called; SGLang's modules only name them when they are imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import pickle
import sys
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

__all__ = [
    *("SHARED", "Script", "batches", "load", "make_manager", "request", "run", "stock"),
    "tokenizer",
]

SHARED = Path(__file__).resolve().parents[4] / "shared" / "tokenizers"
"""The folder of real tokenizers beside the repository; it may be missing."""

_STUBBED = ("sgl_kernel", "torchvision")


class _Name(type):
    """A class that stands for anything: each attribute is another one."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


class _Stub(ModuleType):
    __path__: Any = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Name(name, (), {})


class _Stubs(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name.partition(".")[0] in _STUBBED:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: Any) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a stub has no code."""


@cache
def load() -> SimpleNamespace:
    """Import SGLang, load its plugins as its processes do, and return what tests use of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # First, so that transformers finds out that there is no torchvision.
        import transformers.models.auto.processing_auto  # noqa: F401

        sys.meta_path.append(_Stubs())
        from sglang.srt.managers import detokenizer_manager, io_struct, schedule_batch
        from sglang.srt.managers.scheduler_components import output_streamer
        from sglang.srt.plugins import load_plugins
        from sglang.srt.sampling import sampling_params

        load_plugins()
    return SimpleNamespace(
        detokenizer=detokenizer_manager,
        io=io_struct,
        batch=schedule_batch,
        streamer=output_streamer,
        params=sampling_params,
    )


def stock() -> Any:
    """Return SGLang's own ``_decode_batch_token_id_output``, without the hook."""
    method = load().detokenizer.DetokenizerManager._decode_batch_token_id_output
    return getattr(method, "__wrapped__", method)


@cache
def tokenizer(name: str) -> Any:
    """Return a real tokenizer, as SGLang makes it for its detokenizer."""
    load()
    from transformers import PreTrainedTokenizerFast

    found = PreTrainedTokenizerFast(
        tokenizer_file=str(SHARED / name / "tokenizer.json"), clean_up_tokenization_spaces=False
    )
    found.additional_stop_token_ids = None
    return found


def make_manager(tokenizer: Any, *, capacity: int = 1 << 16) -> Any:
    """Return a ``DetokenizerManager`` without its sockets.

    Args:
        tokenizer: the tokenizer of the manager.
        capacity: how many requests it keeps the state of.
    """
    theirs = load().detokenizer
    manager = theirs.DetokenizerManager.__new__(theirs.DetokenizerManager)
    manager.tokenizer = tokenizer
    manager.vocab_size = len(tokenizer)
    manager.decode_status = theirs.LimitedCapacityDict(capacity=capacity)
    manager.disable_tokenizer_batch_decode = False
    manager.is_tool_call_parser_gpt_oss = False
    manager.tool_close_token_ids = frozenset()
    return manager


# --- the scheduler's side -------------------------------------------------------------------------


@dataclass
class Script:
    """A request, and what a model generates for it.

    Args:
        prompt_ids: the ids of the prompt.
        steps: the ids of each step of the model.
        abort_at: the step at which the request is aborted; -1 for none.
        stream: whether the client reads the text as it comes.
        params: of SGLang's ``SamplingParams``.
    """

    prompt_ids: Sequence[int]
    steps: Sequence[Sequence[int]]
    abort_at: int = -1
    stream: bool = True
    params: dict[str, Any] = field(default_factory=dict)


def request(rid: str, script: Script, tokenizer: Any, *, is_stock: bool = False) -> Any:
    """Return SGLang's ``Req``; with ``is_stock``, without the plugin's checks."""
    theirs = load()
    num_ids = sum(map(len, script.steps))
    params = theirs.params.SamplingParams(**{"max_new_tokens": num_ids, **script.params})
    params.normalize(tokenizer)
    made = theirs.batch.Req(
        rid, "", array("q", script.prompt_ids), params, stream=script.stream, eos_token_ids=set()
    )
    made.tokenizer = tokenizer
    if is_stock:
        made.__class__ = theirs.batch.Req
    return made


def _accumulator() -> Any:
    return load().streamer._GenerationStreamAccumulator(
        return_logprob=False,
        return_hidden_states=False,
        return_routed_experts=False,
        return_indexer_topk=False,
        spec_algorithm=SimpleNamespace(is_none=lambda: True),
        disaggregation_mode=None,
        default_stream_interval=1,
        default_force_stream_interval=50,
        get_cached_tokens_details=lambda _: None,
        is_request_level_customized_info_key=lambda _: False,
        current_weight_version="default",
    )


class _Wire:
    """Stands for a pair of sockets: what one has sent, the other receives."""

    def __init__(self) -> None:
        self._data = b""

    def send(self, data: bytes, flags: int = 0) -> None:
        self._data = data

    def recv(self, flags: int = 0) -> bytes:
        return self._data

    def send_pyobj(self, value: object, flags: int = 0, protocol: int = -1) -> None:
        self._data = pickle.dumps(value, protocol)

    def recv_pyobj(self, flags: int = 0) -> Any:
        return pickle.loads(self._data)


def batches(scripts: dict[str, Script], tokenizer: Any, *, is_stock: bool = False) -> Iterator[Any]:
    """Yield the ``BatchTokenIDOutput`` of each step, as the detokenizer receives it.

    With ``is_stock`` the scheduler looks for stops as without the plugin.
    """
    theirs, wire = load(), _Wire()
    requests = {
        rid: request(rid, script, tokenizer, is_stock=is_stock) for rid, script in scripts.items()
    }
    for place in range(max(len(script.steps) for script in scripts.values())):
        batch = _accumulator()
        for rid, each in requests.items():
            script = scripts[rid]
            if each.finished() or place >= len(script.steps):
                continue
            if place == script.abort_at:
                each.to_finish = theirs.batch.FINISH_ABORT("aborted")
            each.output_ids.extend(script.steps[place])
            each.update_finish_state(len(script.steps[place]))
            batch.accept(req=each)
        payload = batch.to_payload(dp_rank=0, is_idle_batch=False)
        if payload is not None:
            theirs.io.sock_send(wire, payload)
            yield theirs.io.sock_recv(wire)


def run(manager: Any, given: Iterable[Any], decode: Any = None) -> dict[str, list[str]]:
    """Return the texts that each request gets.

    Args:
        manager: decodes.
        given: the batches.
        decode: the method that decodes a batch; without it, the manager's.
    """
    texts: dict[str, list[str]] = {}
    method = decode or type(manager)._decode_batch_token_id_output
    for each in given:
        for rid, text in zip(each.rids, method(manager, each), strict=True):
            texts.setdefault(rid, []).append(text)
    return texts
