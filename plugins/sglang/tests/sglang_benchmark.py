"""What SGLang's decode loop costs with the plugin and without: ``python sglang_benchmark.py``.

Both decode the same batches in one process, in turns; the shortest time of each counts. A ratio is
SGLang's own time divided by the plugin's. The hook, the states of the requests, their beginning and
their end are part of the loop. Read the ratios: the times are those of the machine.
"""

from __future__ import annotations

import argparse
import platform
import sys
from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import cycle, islice
from pathlib import Path
from time import process_time
from types import SimpleNamespace
from typing import Any

import sglang_on_cpu

CORPUS = Path(__file__).resolve().parents[3] / "scripts" / "demo_corpus.txt"
NUM_PROMPT_IDS = 5
"""How many ids of a prompt SGLang's scheduler sends."""

Batch = SimpleNamespace


def _batch(
    rids: Sequence[str], ids: Sequence[Sequence[int]], num_prompt_ids: int, reason: Any = None
) -> Batch:
    """Return the part of a ``BatchTokenIDOutput`` that is read when a batch is decoded."""
    size = len(rids)
    return Batch(
        rids=[*rids],
        decode_ids=[array("q", each) for each in ids],
        read_offsets=[num_prompt_ids] * size,
        decoded_texts=[""] * size,
        finished_reasons=[reason] * size,
        skip_special_tokens=[True] * size,
        spaces_between_special_tokens=[True] * size,
        no_stop_trim=[False] * size,
    )


def loop(texts: Sequence[Sequence[int]], tokens_a_step: int = 1) -> list[Batch]:
    """Return the batches in which requests with these ids begin, continue and end."""
    rids = [f"request {number}" for number in range(len(texts))]
    first = NUM_PROMPT_IDS + tokens_a_step
    batches = [_batch(rids, [ids[:first] for ids in texts], NUM_PROMPT_IDS)]
    size = min(map(len, texts))
    for place in range(first, size - tokens_a_step + 1, tokens_a_step):
        ids = [each[place : place + tokens_a_step] for each in texts]
        batches.append(_batch(rids, ids, NUM_PROMPT_IDS))
    batches[-1].finished_reasons = [{"type": "length", "length": size}] * len(rids)
    return batches


def times(tokenizer: Any, batches: Sequence[Batch], rounds: int) -> tuple[float, float]:
    """Return the CPU seconds that SGLang's own code and the plugin take for ``batches``."""
    stock = sglang_on_cpu.stock()
    hooked = sglang_on_cpu.load().detokenizer.DetokenizerManager._decode_batch_token_id_output
    if stock is hooked:
        raise SystemExit("the plugin is not installed, or STREAMDEC_SGLANG is off")
    taken: dict[Callable[..., Any], list[float]] = {stock: [], hooked: []}
    warm = sglang_on_cpu.make_manager(tokenizer)
    for _ in range(rounds + 1):
        for method, found in taken.items():
            manager = sglang_on_cpu.make_manager(tokenizer)
            if method is hooked and hasattr(warm, "_streamdec"):
                manager._streamdec = warm._streamdec  # as in a process that runs
            begin = process_time()
            for batch in batches:
                method(manager, batch)
            found.append(process_time() - begin)
            if method is hooked:
                warm = manager
    return min(taken[stock][1:]), min(taken[hooked][1:])


def _requests(ids: Sequence[int], number: int, size: int) -> list[list[int]]:
    """Return the ids of ``number`` requests, which begin at different places of a text."""
    step = max(len(ids) // number, 1)
    return [
        [*islice(cycle(ids), place * step, place * step + size + NUM_PROMPT_IDS)]
        for place in range(number)
    ]


def _stray(tokenizer: Any) -> list[int]:
    """Return the ids of tokens that are a single byte of a longer character."""
    found = []
    for token_id in range(len(tokenizer)):
        if tokenizer.decode([token_id, token_id]) == "\ufffd\ufffd":
            found.append(token_id)
        if len(found) == 32:
            break
    return found


def _with_strays(ids: Sequence[int], strays: Sequence[int], every: int) -> list[int]:
    """Return ``ids`` with a stray byte after each ``every`` of them."""
    mixed: list[int] = []
    for place, token_id in enumerate(ids):
        mixed.append(token_id)
        if place % every == every - 1:
            mixed.append(strays[place % len(strays)])
    return mixed


def cases(tokenizer: Any, size: int) -> dict[str, tuple[list[Batch], int]]:
    """Return the batches of each case, and its number of tokens or requests."""
    ids = tokenizer.encode(CORPUS.read_text("utf-8"), add_special_tokens=False)
    strays = _stray(tokenizer)
    mixed = _with_strays(ids, strays, 10)
    many = _requests(ids, 256, size)
    new = [_batch([f"{each}"], [ids[:6]], NUM_PROMPT_IDS) for each in range(1000)]
    texts = _requests(ids, 1000, 1)
    other = [_batch([f"{each}"], [texts[each]], NUM_PROMPT_IDS) for each in range(1000)]
    together = _batch([f"{each}" for each in range(1000)], texts, NUM_PROMPT_IDS)
    return {
        "256 requests": (loop(many), 256 * size),
        "1 request": (loop(many[:1]) * 8, 8 * size),
        "256 requests, 4 tokens a step": (loop(many, 4), 256 * size),
        "256 requests, 1 token in 11 a stray byte": (loop(_requests(mixed, 256, size)), 256 * size),
        "16 requests of stray bytes alone": (
            loop([[*islice(cycle(strays), n, n + size)] for n in range(16)]),
            16 * size,
        ),
        "a new request alone, prompts end alike": (new, 1000),
        "a new request alone, prompts end differently": (other, 1000),
        "1,000 new requests in one batch": ([together], 1000),
    }


def main() -> None:
    """Print a table for each tokenizer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizers", nargs="+", default=["qwen3", "deepseek-v3", "phi-3-vision"])
    parser.add_argument("--rounds", type=int, default=5, help="how many times each is measured")
    parser.add_argument("--size", type=int, default=200, help="tokens of a request")
    arguments = parser.parse_args()
    sglang_on_cpu.load()
    names = ("sglang", "streamdec", "tokenizers", "transformers")
    print(f"{datetime.now(UTC):%Y-%m-%d}, Python {platform.python_version()}", end="")
    print("".join(f", {name} {version(name)}" for name in names))
    for name in arguments.tokenizers:
        tokenizer = sglang_on_cpu.tokenizer(name)
        print(f"\n| {name} | SGLang, µs | plugin, µs | ratio |\n|---|--:|--:|--:|")
        for case, (batches, number) in cases(tokenizer, arguments.size).items():
            theirs, ours = times(tokenizer, batches, arguments.rounds)
            each = f"{theirs / number * 1e6:,.2f} | {ours / number * 1e6:,.2f}"
            print(f"| {case} | {each} | {theirs / ours:.1f} |")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
