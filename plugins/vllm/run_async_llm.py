"""Run vLLM's ``AsyncLLM`` on a CPU, without the plugin and with it.

The model is tiny and random.

    python plugins/vllm/run_async_llm.py path/to/tokenizer.json

vLLM's wheel has kernels for GPUs only, so :class:`CpuExecutor` takes the place of its worker. It
runs the model with transformers. All else is vLLM's: ``AsyncLLM``, its messages, the engine core
in its own process, its scheduler and its output processor. Requests are greedy, so their ids
are the same in both runs. With the plugin each text must be what the tokenizer decodes, cut at the
stop; the status says whether it is.
"""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
import tempfile
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine.async_llm import AsyncLLM
from vllm.v1.executor.abstract import Executor
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import ModelRunnerOutput

NUM_REQUESTS = 24
NUM_TOKENS = 24

RESULT = "RESULT"
Result = tuple[str, list[int], Any]
"""Text, ids and stop reason of a request."""


class CpuExecutor(Executor):  # type: ignore[misc]
    """Runs the model of a request with transformers, without cache.

    Requests run one after the other.
    """

    def _init_executor(self) -> None:
        path = self.model_config.model
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(path)
        self.ids: dict[str, list[int]] = {}
        self.limits: dict[str, int] = {}

    def collective_rpc(
        self,
        method: Any,
        timeout: float | None = None,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        non_block: bool = False,
    ) -> Any:
        """Answer what the engine core asks its worker."""
        spec = FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=8, dtype=torch.float32)
        answers = {
            "determine_available_memory": 2**26,
            "execute_model": self._step,
            "get_kv_cache_spec": {"model.layers.0": spec},
            "get_supported_kv_cache_layouts": ["NHD"],
            "get_supported_tasks": ("generate",),
            "supports_draft_weight_updates": False,
        }
        answer = answers.get(method)
        result = [answer(*args) if callable(answer) else answer]
        if not non_block:
            return result
        future: Future[Any] = Future()
        future.set_result(result[0])
        return future

    def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
        """Return the next id of each request whose prompt is complete."""
        output = self._step(scheduler_output)
        if not non_block:
            return output
        future: Future[Any] = Future()
        future.set_result(output)
        return future

    def _step(self, scheduled: Any) -> ModelRunnerOutput:
        for request in scheduled.scheduled_new_reqs:
            self.ids[request.req_id] = [*request.prompt_token_ids]
        names = [*scheduled.num_scheduled_tokens]
        sampled = [[self._next(self.ids[name])] for name in names]
        for name, new in zip(names, sampled, strict=True):
            self.ids[name] += new
        return ModelRunnerOutput(names, {name: i for i, name in enumerate(names)}, sampled)

    def _next(self, ids: list[int]) -> int:
        with torch.inference_mode():
            return int(self.model(torch.tensor([ids])).logits[0, -1].argmax())

    def compile_or_warm_up_model(self) -> None:
        """Nothing is compiled."""

    def check_health(self) -> None:
        """It has no worker that could die."""

    def shutdown(self) -> None:
        """It has nothing to close."""


def make_model(folder: Path, tokenizer: Path) -> None:
    """Save a tiny random model with this tokenizer."""
    torch.manual_seed(0)
    library = Tokenizer.from_file(str(tokenizer))
    transformers.PreTrainedTokenizerFast(tokenizer_object=library).save_pretrained(folder)
    config = transformers.LlamaConfig(
        vocab_size=library.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        eos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def requests(stops: dict[int, str]) -> list[SamplingParams]:
    """The requests of a run, of each kind of output.

    ``stops`` are the stops of some of them.
    """
    kinds = [RequestOutputKind.DELTA, RequestOutputKind.CUMULATIVE, RequestOutputKind.FINAL_ONLY]
    return [
        SamplingParams(
            temperature=0,
            max_tokens=NUM_TOKENS,
            output_kind=kinds[number % 3],
            stop=stops.get(number),
            include_stop_str_in_output=number % 4 == 1,
        )
        for number in range(NUM_REQUESTS)
    ]


def prompt_of(number: int) -> list[int]:
    """The ids of a prompt."""
    return [100 + number, 200 + number]


async def texts_of(model: Path, stops: dict[int, str]) -> list[Result]:
    """What a caller of ``AsyncLLM`` has in the end for each request; all run at once."""
    engine = AsyncLLM.from_engine_args(
        AsyncEngineArgs(
            model=str(model),
            dtype="float32",
            max_model_len=256,
            enforce_eager=True,
            async_scheduling=False,
            distributed_executor_backend=CpuExecutor,
            disable_log_stats=True,
        )
    )

    async def one(number: int, params: SamplingParams) -> Result:
        text, ids, reason = "", list[int](), None
        prompt = {"prompt_token_ids": prompt_of(number)}
        async for output in engine.generate(prompt, params, f"{number}"):
            sample = output.outputs[0]
            if params.output_kind is RequestOutputKind.DELTA:
                text, ids = text + sample.text, [*ids, *sample.token_ids]
            else:
                text, ids = sample.text, [*sample.token_ids]
            reason = sample.stop_reason
        return text, ids, reason

    try:
        return list(await asyncio.gather(*map(one, range(NUM_REQUESTS), requests(stops))))
    finally:
        engine.shutdown()


def expected_of(library: Tokenizer, number: int, ids: list[int]) -> str:
    """What the tokenizer decodes."""
    prompt = prompt_of(number)
    before = library.decode(prompt)
    return str(library.decode([*prompt, *ids])[len(before) :])


def child(model: Path) -> None:
    """One run: all requests without stops, then each second one with a stop.

    The stop is from the text of the request.
    """
    library = Tokenizer.from_file(str(model / "tokenizer.json"))
    free = asyncio.run(texts_of(model, {}))
    texts = [expected_of(library, number, ids) for number, (_, ids, _) in enumerate(free)]
    stops = {number: texts[number][NUM_TOKENS:][:4] for number in range(1, NUM_REQUESTS, 2)}
    print(RESULT, repr((texts, free, stops, asyncio.run(texts_of(model, stops)))), flush=True)


def run(model: Path, switch: str) -> Any:
    """The result of a run in its own process."""
    environment = {
        **os.environ,
        "STREAMDEC_VLLM": switch,
        "VLLM_TARGET_DEVICE": "cpu",
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parent),
    }
    command = [sys.executable, __file__, "--child", str(model)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(RESULT)]
    if not lines:
        sys.exit(done.stdout + done.stderr)
    return ast.literal_eval(lines[0].removeprefix(RESULT).strip())


def main() -> int:
    """Compare the texts of both runs with the tokenizer's, and print the differences."""
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder), Path(sys.argv[1]))
        runs = {switch: run(Path(folder), switch) for switch in ("off", "on")}
    num_wrong = {}
    for switch, (texts, free, stops, stopped) in runs.items():
        num_wrong[switch] = 0
        for number, whole in enumerate(texts):
            stop, is_visible = stops.get(number), requests(stops)[number].include_stop_str_in_output
            cut = (
                whole if stop is None else whole[: whole.find(stop)] + (stop if is_visible else "")
            )
            for (text, _, reason), expected in ((free[number], whole), (stopped[number], cut)):
                if text != expected or (expected is cut and reason != stop):
                    num_wrong[switch] += 1
                    print(f"plugin {switch}: expected {expected!r}, got {text!r} ({reason!r})")
    print(f"{2 * NUM_REQUESTS} requests; texts that are not the tokenizer's: {num_wrong}")
    same_ids = [ids for _, ids, _ in runs["off"][1]] == [ids for _, ids, _ in runs["on"][1]]
    return 0 if same_ids and not num_wrong["on"] else 1


if __name__ == "__main__":
    if sys.argv[1] == "--child":
        child(Path(sys.argv[2]))
    else:
        sys.exit(main())
