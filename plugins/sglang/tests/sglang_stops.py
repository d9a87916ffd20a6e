"""Compare the search for stop strings with SGLang's own: ``python sglang_stops.py``.

Random requests are checked step by step by SGLang's ``Req`` and by the plugin's: the reason and the
length of the end must be equal, and so must what is withheld while a request streams, except that
the plugin withholds more in the cases of :data:`WITHHELD`. Then both sides decode the text with the
plugin's detokenizer. ``--figures`` measures what a check costs.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from time import process_time
from typing import Any

import sglang_on_cpu
from sglang_benchmark import CORPUS
from sglang_on_cpu import Script
from sglang_texts import Source

TOKENIZERS = ("qwen3", "deepseek-v3", "gpt2", "phi-3-vision", "mistral-7b-v0.1", "yi")
STOPS = (
    *("END", "ND.\n", "\nUser:", "\nUser: b", "User", "。", "世界", "🦉🦉", "🦉 of", "bye", "\n\n"),
    *("é", "k", " done", "|---|---|", "</s>", "<|im_end|>", "\u200d👧", "  ", "Ü"),
)
OPEN = "an unfinished character follows the beginning of a stop"
LONG = "the beginning of a stop has more tokens than SGLang looks at"
WITHHELD = (OPEN, LONG)
"""Where the plugin withholds ids that SGLang sends."""


class Random:
    """Random requests of one tokenizer."""

    def __init__(self, name: str) -> None:
        self.tokenizer = sglang_on_cpu.tokenizer(name)
        self.source = Source(self.tokenizer)

    def script(self, draw: random.Random) -> Script:
        """Return a request with stop strings, which tokens of any kind spell."""
        script = self.source.script(draw)
        stops = draw.sample(STOPS, draw.randint(1, 4))
        ids = [token_id for step in script.steps for token_id in step]
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(ids) + 1)
            ids[place:place] = self.spelled(draw.choice(stops), draw)
        steps, most = [], draw.choice((1, 1, 1, 2, 5, 9))
        while ids:
            size = draw.randint(1, most)
            steps.append(ids[:size])
            ids = ids[size:]
        params = {**script.params, "stop": stops}
        params.pop("stop_regex", None)
        abort_at = draw.randrange(len(steps)) if draw.random() < 0.05 else -1
        return Script(script.prompt_ids, steps, abort_at, stream=True, params=params)

    def spelled(self, text: str, draw: random.Random) -> list[int]:
        """Return ids of ``text``, encoded in random pieces, sometimes only a part of it."""
        text = text[: draw.randint(1, len(text))] if draw.random() < 0.3 else text
        ids: list[int] = []
        while text:
            size = draw.randint(1, len(text))
            ids += self.tokenizer.encode(text[:size], add_special_tokens=False)
            text = text[size:]
        return ids


def checks(script: Script, tokenizer: Any, draw: random.Random, *, is_stock: bool) -> Iterator[Any]:
    """Yield the reason and the length of the end, and whether ids are withheld, at each step."""
    request = sglang_on_cpu.request("a", script, tokenizer, is_stock=is_stock)
    for place, step in enumerate(script.steps):
        if draw.random() < 0.05:
            request.reset_for_retract()
        if place == script.abort_at:
            request.to_finish = sglang_on_cpu.load().batch.FINISH_ABORT("aborted")
        request.output_ids.extend(step)
        request.update_finish_state(len(step))
        reason = request.finished_reason and request.finished_reason.to_json()
        is_withheld = not request.finished() and request.check_match_stop_str_prefix()
        yield reason, request.finished_len, is_withheld, [*request.output_ids]
        if request.finished():
            return


def difference(script: Script, tokenizer: Any, seed: int) -> str:
    """Return how the plugin differs from SGLang for a request; empty if it does not.

    Raises AssertionError for a difference that is not among :data:`WITHHELD`.
    """
    found = ""
    ours, theirs = (
        [*checks(script, tokenizer, random.Random(seed), is_stock=is_stock)]
        for is_stock in (False, True)
    )
    assert len(ours) == len(theirs), (script, ours[-1], theirs[-1])
    for (reason, length, held, ids), expected in zip(ours, theirs, strict=True):
        assert (reason, length, ids) == (*expected[:2], expected[3]), (script, reason, expected)
        if held != expected[2]:
            assert held, (script, ids)
            is_open = tokenizer.decode(ids).endswith("\ufffd")
            found = OPEN if is_open else LONG
    return found


def leaks(scripts: Sequence[Script], tokenizer: Any) -> int:
    """Return in how many requests a stop that ends it was sent in part, before it was found."""
    named = {f"request {number}": script for number, script in enumerate(scripts)}
    manager, number = sglang_on_cpu.make_manager(tokenizer), 0
    texts: dict[str, list[str]] = {}
    for batch in sglang_on_cpu.batches(named, tokenizer):
        found = type(manager)._decode_batch_token_id_output(manager, batch)
        for rid, text, reason in zip(batch.rids, found, batch.finished_reasons, strict=True):
            matched = (reason or {}).get("matched")
            before = "".join(texts.setdefault(rid, []))
            texts[rid].append(text)
            if isinstance(matched, str) and matched in named[rid].params["stop"]:
                ends = (before.endswith(matched[:size]) for size in range(1, len(matched)))
                number += any(ends) and not text and not named[rid].params["no_stop_trim"]
    return number


def compare(name: str, number: int, seed: int) -> Counter[str]:
    """Check ``number`` random requests, and count the differences."""
    made, draw = Random(name), random.Random(seed)
    found: Counter[str] = Counter()
    for place in range(number):
        found[difference(made.script(draw), made.tokenizer, seed + place)] += 1
    return found


# --- what it costs --------------------------------------------------------------------------------


def cost(tokenizer: Any, stops: Sequence[str], size: int, *, is_stock: bool) -> float:
    """Return the CPU time of a check of one request in nanoseconds, of ``size`` at each step."""
    ids = tokenizer.encode(CORPUS.read_text("utf-8"), add_special_tokens=False)
    params = {"stop": list(stops), "max_new_tokens": 10_000}
    requests = [
        sglang_on_cpu.request(f"{n}", Script([], [], params=params), tokenizer, is_stock=is_stock)
        for n in range(size)
    ]
    starts = [len(ids) * n // size for n in range(size)]
    texts = [[*islice(cycle(ids), start, start + 100)] for start in starts]
    taken = 0.0
    for place in range(100):
        for each, text in zip(requests, texts, strict=True):
            each.output_ids.append(text[place])
        begin = process_time()
        for each in requests:
            each.update_finish_state()
            each.check_match_stop_str_prefix()
        taken += process_time() - begin
    assert not any(each.finished() for each in requests)
    return taken / size / 100 * 1e9


def figures(name: str, rounds: int) -> None:
    """Print what the whole check costs, with SGLang's own code and with the plugin."""
    tokenizer = sglang_on_cpu.tokenizer(name)
    made_up = [f"\n<{letter * 3}>:" for letter in "abcdefghijklmnopqrstuvwxyzABCDEF"]
    print(f"| {name} | SGLang, ns | plugin, ns | ratio |\n|---|--:|--:|--:|")
    for size, number in ((64, 0), (64, 1), (64, 4), (64, 32), (256, 4)):
        sides = [
            min(cost(tokenizer, made_up[:number], size, is_stock=each) for _ in range(rounds))
            for each in (True, False)
        ]
        row = f"{size} requests, {number} stops | {sides[0]:,.0f} | {sides[1]:,.0f}"
        print(f"| {row} | {sides[0] / sides[1]:.1f} |")


def main() -> None:
    """Compare, or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokenizers", nargs="+", default=TOKENIZERS)
    parser.add_argument("--requests", type=int, default=500, help="for each tokenizer")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figures", action="store_true", help="measure instead")
    arguments = parser.parse_args()
    sglang_on_cpu.load()
    for name in arguments.tokenizers:
        if arguments.figures:
            figures(name, 3)
            continue
        found = compare(name, arguments.requests, arguments.seed)
        same = found.pop("", 0)
        print(f"{name}: {same:,} of {arguments.requests:,} requests equal", *found.items())


if __name__ == "__main__":
    main()
