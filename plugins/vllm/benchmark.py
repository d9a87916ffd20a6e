"""The cost of a token in vLLM's ``OutputProcessor``, without and with the plugin.

    python plugins/vllm/benchmark.py TOKENIZER_JSON TEXT_FILE

The engine's outputs are made beforehand. The benchmark times the whole ``add_request`` and
``process_outputs``, with all that vLLM does for each output. It adds requests twice: first with
stop strings that no earlier request had, then again with the same stop strings. In each round all
contestants are measured in turn. The table shows the shortest time of the rounds, in CPU time of
the process.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import streamdec_vllm
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast
from vllm.sampling_params import RequestOutputKind, SamplingParams
from vllm.v1.engine import EngineCoreOutput, EngineCoreRequest
from vllm.v1.engine.output_processor import OutputProcessor


class Case(NamedTuple):
    """What is measured."""

    name: str
    stops: int = 0
    own: bool = False
    requests: int = 256
    tokens: int = 96
    at_once: int = 1
    stray: bool = False


FIGURES = {"a token, ns": 1e9, "a new request, us": 1e6, "a request, us": 1e6}
"""The figures of the table, and the number of their units in a second."""
CASES = (
    Case("no stops"),
    Case("4 stops", 4),
    Case("64 stops", 64),
    Case("4 own stops", 4, own=True),
    Case("64 own stops", 64, own=True),
    Case("4 stops, 4 tokens a step", 4, at_once=4),
    Case("stray bytes", requests=16, tokens=1_500, stray=True),
)


@contextmanager
def _plugin() -> Iterator[None]:
    streamdec_vllm.register()
    try:
        yield
    finally:
        streamdec_vllm.unregister()


CONTESTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "detokenize=False": nullcontext,
    "vLLM": nullcontext,
    "plugin": _plugin,
}


def requests_of(
    case: Case, ids: list[int], turn: object, *, detokenize: bool
) -> list[EngineCoreRequest]:
    """The requests of a case.

    All requests have the same stops, or each has its own if ``case.own`` is true. Each ``turn`` has
    new stops.
    """
    made = []
    for number in range(case.requests):
        draw = random.Random(f"{turn} {number if case.own else 0}")
        stops = [f"\n\n{draw.getrandbits(20):05x}top {k}:" for k in range(case.stops)]
        params = SamplingParams(
            stop=stops if detokenize else None,
            detokenize=detokenize,
            output_kind=RequestOutputKind.DELTA,
            max_tokens=100_000,
        )
        made.append(
            EngineCoreRequest(
                request_id=str(number),
                external_req_id=str(number),
                prompt_token_ids=ids[:500],
                mm_features=None,
                sampling_params=params,
                pooling_params=None,
                arrival_time=0.0,
                lora_request=None,
                cache_salt=None,
                data_parallel_rank=None,
            )
        )
    return made


def steps_of(case: Case, ids: list[int], stray: list[int]) -> list[list[EngineCoreOutput]]:
    """The outputs of an engine, step by step.

    Each request reads another part of the text.
    """
    draw = random.Random(2)
    starts = [draw.randrange(len(ids) - case.tokens) for _ in range(case.requests)]
    rows = [
        stray[: case.tokens] if case.stray else ids[start : start + case.tokens] for start in starts
    ]
    return [
        [
            EngineCoreOutput(request_id=str(number), new_token_ids=row[at : at + case.at_once])
            for number, row in enumerate(rows)
        ]
        for at in range(0, case.tokens, case.at_once)
    ]


def timed(
    held: Any, requests: list[EngineCoreRequest], steps: list[list[EngineCoreOutput]]
) -> tuple[float, float]:
    """CPU seconds of adding the requests, and of the steps."""
    processor = OutputProcessor(held, log_stats=False)
    gc.collect()
    gc.disable()
    begin = time.process_time()
    for request in requests:
        processor.add_request(request, None)
    added = time.process_time()
    for step in steps:
        processor.process_outputs(step)
    end = time.process_time()
    gc.enable()
    return added - begin, end - added


def measured(
    held: Any, case: Case, ids: list[int], stray: list[int], rounds: int
) -> dict[str, dict[str, float]]:
    """For each figure and contestant the shortest time of the rounds, in seconds."""
    steps = steps_of(case, ids, stray)
    found: dict[str, dict[str, list[float]]] = {
        figure: {name: [] for name in CONTESTANTS} for figure in FIGURES
    }
    for turn in range(rounds):
        for name, context in CONTESTANTS.items():
            makes_text = name != "detokenize=False"
            twice = [
                requests_of(case, ids, (case, name, turn), detokenize=makes_text) for _ in "12"
            ]
            with context():
                new, _ = timed(held, twice[0], [])
                added, stepped = timed(held, twice[1], steps)
            times = (stepped / case.tokens, new, added)
            for figure, seconds in zip(FIGURES, times, strict=True):
                found[figure][name].append(seconds / case.requests)
    return {
        figure: {name: min(each) for name, each in by_name.items()}
        for figure, by_name in found.items()
    }


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    library = Tokenizer.from_file(str(arguments.tokenizer))
    held = PreTrainedTokenizerFast(tokenizer_object=library)
    ids = library.encode(arguments.text.read_text("utf-8"), add_special_tokens=False).ids
    stray = [i for i in range(1_000) if library.decode([i]) == "\ufffd"] * 2_000
    print(f"{'':44}" + "".join(f"{name:>20}" for name in CONTESTANTS) + "   vLLM : plugin")
    for case in CASES:
        if case.stray and not stray:
            continue
        for figure, times in measured(held, case, ids, stray, arguments.rounds).items():
            unit = FIGURES[figure]
            row = "".join(f"{times[name] * unit:20,.1f}" for name in CONTESTANTS)
            print(f"{case.name:>24}{figure:>20}{row}{times['vLLM'] / times['plugin']:14.2f}")


if __name__ == "__main__":
    main()
