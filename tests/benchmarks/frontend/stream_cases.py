"""The cases of decoding: at once, in one or many streams, with stops; and of memory."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, cycle
from time import thread_time_ns
from typing import Any

from streamdec.bench.clock import fresh, in_turns
from streamdec.bench.entrants import HF, OURS, Entrant, Library
from tests.benchmarks import common, stops
from tests.benchmarks.common import race
from tests.benchmarks.entrants import NO_STOPS, stopping
from tests.benchmarks.frontend import child
from tests.benchmarks.frontend.common import Case, Effort, Timed
from tests.benchmarks.frontend.encoders import HF_BATCH, HUGGINGFACE, HYBRID, Encoder, Frontend
from tests.benchmarks.memory import bytes_per_stream, traced
from tests.benchmarks.report import Report

__all__ = ["STREAM_CASES"]

HF_DECODE = "HF decode"
HF_DECODE_BATCH = "HF decode_batch"
BATCH = 16
SEED = 33
MEMORY_TEXT = 8_192
MB = 1e-6
PROBES_GOAL_MS = 500
"""The goal on a machine without other work."""


# --- 4. decode ------------------------------------------------------------------------------------


def decode(frontend: Frontend, effort: Effort, report: Report) -> None:
    """All ids at once, in a batch, and one by one, beside the library's own calls."""
    library, tokenizer = frontend.library, frontend.hybrid.tokenizer
    ids = frontend.reply(effort.decode_size)
    batch = [ids[start::BATCH] for start in range(BATCH)]
    singles = ids[:256]
    where = f"decode, {len(ids):,} tokens"
    pairs: dict[str, tuple[Callable[[], object], str, Callable[[], object]]] = {
        "decode": (partial(tokenizer.decode, ids), HF_DECODE, partial(library.decode, ids)),
        "decode_batch": (
            partial(tokenizer.decode_batch, batch),
            HF_DECODE_BATCH,
            partial(library.decode_batch, batch),
        ),
        "decode, one id each": (
            lambda: [tokenizer.decode([i]) for i in singles],
            f"{HF_DECODE}, one id each",
            lambda: [library.decode([i]) for i in singles],
        ),
    }
    for name, (ours, theirs, library_call) in pairs.items():
        found, expected = ours(), library_call()
        report.compare(f"{frontend.name}, {where}, {name}", f"{found}", f"{expected}")
        timed = Timed((OURS, theirs))
        for _ in range(effort.rounds):
            timed.take(OURS, ours)
            timed.take(theirs, library_call)
        samples = timed.times().cpu
        add = partial(report.add, frontend.name, where)
        add(f"{OURS} {name} / {theirs}", samples.ratio(OURS, theirs), "x")
        add(f"{OURS} {name}", samples.time(OURS).times(1e-6), "ms")
        add(theirs, samples.time(theirs).times(1e-6), "ms")


# --- 5. streaming ---------------------------------------------------------------------------------


def streaming(frontend: Frontend, effort: Effort, report: Report) -> None:
    """One stream of 100,000 tokens, stepped one by one."""
    subject, rounds = frontend.subject, max(effort.rounds // 2, 2)
    ids = frontend.reply(effort.stream_size)
    where = f"streaming, {len(ids):,} tokens"
    common.warm(subject, [ids], report, where)
    samples = race([subject.ours, subject.rival], [ids], rounds)
    add = partial(report.add, subject.name, where)
    bound = common.STEP_BOUNDS.get(subject.rule)
    add(f"{OURS} / {HF}", samples.ratio(OURS, HF), "x", bound=bound and bound * common.FLAT)
    for name in (OURS, HF):
        add(name, samples.time(name), "ns")
        add(f"{name}, speed", 1e3 / samples.time(name).median, "Mtokens/s")


# --- 7. concurrent streaming ----------------------------------------------------------------------


def concurrent(frontend: Frontend, effort: Effort, report: Report) -> None:
    """Streams that take turns token by token, each with its own text."""
    subject = frontend.subject
    entrants: list[Entrant] = [subject.ours, subject.rival]
    pieces = [frontend.reply(effort.turns_size) for _ in range(max(effort.streams))]
    names = {
        (each.name, n): f"{each.name}, {n} streams" for each in entrants for n in effort.streams
    }
    for piece in pieces:
        common.compare(subject, subject.ours, piece, report, "concurrent streaming")
    cases = {
        names[each.name, n]: partial(_in_turns, each, pieces, n)
        for n in effort.streams
        for each in entrants
    }
    samples = in_turns(cases, effort.rounds)
    add, one = partial(report.add, subject.name, "concurrent streaming"), effort.streams[0]
    for n in effort.streams:
        add(f"{OURS} / {HF}, {n} streams", samples.ratio(names[OURS, n], names[HF, n]), "x")
        for each in entrants:
            name = names[each.name, n]
            if n != one:
                add(f"{name} / {one}", samples.ratio(name, names[each.name, one]), "x")
            add(name, samples.time(name), "ns")


def _in_turns(entrant: Entrant, pieces: Sequence[Sequence[int]], count: int) -> float:
    """Return the time of a token if ``count`` streams take turns. All counts have equal tokens."""
    ids = [fresh(piece) for piece in pieces]
    taken = 0
    for start in range(0, len(pieces), count):
        group = ids[start : start + count]
        steps = [_step_of(entrant) for _ in group]
        turns = [*zip(cycle(steps), chain(*zip(*group, strict=True)), strict=False)]
        began = thread_time_ns()
        for step, token_id in turns:
            step(token_id)
        taken += thread_time_ns() - began
    return taken / sum(map(len, pieces))


def _step_of(entrant: Entrant) -> Callable[[int], object]:
    """Return the step of a new stream."""
    stream: Any = entrant.open()
    if isinstance(entrant, Library):
        return partial(stream.step, entrant.library)
    step: Callable[[int], object] = stream.step
    return step


# --- 8. stop sequences ----------------------------------------------------------------------------


def stop_sequences(frontend: Frontend, effort: Effort, report: Report) -> None:
    """The cost that stops add to a step. None of them is ever complete."""
    subject = frontend.subject
    ids = frontend.reply(effort.decode_size)
    text = subject.expected(ids)
    sets = [
        stopping(f"{n} stops", subject.tokenizer, stops.role_markers(n, text, random.Random(SEED)))
        for n in effort.stops
    ]
    common.warm(subject, [ids], report, "stop sequences")
    for each in sets:
        common.warm(subject, [ids], report, f"stop sequences, {each.name}", each)
    samples = race([subject.ours, subject.rival, *sets], [ids], effort.rounds)
    add = partial(report.add, subject.name, "stop sequences")
    for each in sets:
        add(f"{each.name} / none", samples.ratio(each.name, OURS), "x")
        add(f"{each.name} / {NO_STOPS}", samples.ratio(each.name, HF), "x")
        add(each.name, samples.time(each.name), "ns")
    add("none", samples.time(OURS), "ns")


# --- 11. memory; and loading ----------------------------------------------------------------------


def memory(frontend: Frontend, effort: Effort, report: Report) -> None:
    """The memory that Python allocates for a stream and for an encoding."""
    subject, add = frontend.subject, partial(report.add, frontend.name, "memory")
    ids = frontend.reply(min(effort.stream_size, 8_192))
    common.warm(subject, [ids], report, "memory")
    for each in (subject.ours, subject.rival):
        used = bytes_per_stream(each, ids, 32)
        bound = common.BYTES_PER_STREAM if each is subject.ours else None
        add(f"{each.name}, a stream of {len(ids):,} tokens", used, "B", bound=bound)
    for encoder in frontend.encoders:
        texts = frontend.windows("code", MEMORY_TEXT, 2)
        kept: list[object] = []
        held = traced(partial(_keep, kept, encoder, texts[1:]), partial(encoder.encode, texts[:1]))
        tokens = len(frontend.expected(texts[1]))
        what = f"{encoder.name}, an encoding, for each of {tokens:,} tokens"
        add(what, held.kept / tokens, "B")


def _keep(kept: list[object], encoder: Encoder, texts: Sequence[str]) -> None:
    kept += encoder.encode(texts)


def load(frontend: Frontend, effort: Effort, report: Report) -> None:
    """The time and memory of loading and of the first text, each time in a new process."""
    backends = {HF_BATCH: child.LIBRARY, HUGGINGFACE: "huggingface", HYBRID: "fastokens"}
    text = frontend.windows("code", MEMORY_TEXT, 1)[0]
    found: dict[str, list[child.Loaded]] = {name: [] for name in backends}

    def run(name: str) -> float:
        found[name].append(child.load(frontend.subject.path, backends[name], text))
        return found[name][-1].seconds

    samples = in_turns({name: partial(run, name) for name in backends}, effort.loads)
    add = partial(report.add, frontend.name, "load")
    for name in (HUGGINGFACE, HYBRID):
        add(f"{name} / {child.LIBRARY}", samples.ratio(name, HF_BATCH), "x")
    for name in backends:
        shown = child.LIBRARY if name == HF_BATCH else name
        first = min(each.first_seconds for each in found[name])
        add(shown, samples.time(name).times(1e3), "ms")
        add(f"{shown}, first text of {MEMORY_TEXT:,} tokens", first * 1e3, "ms")
        for what, sizes in {
            "memory": [each.loaded_bytes for each in found[name]],
            "memory after the first text": [each.used_bytes for each in found[name]],
        }.items():
            if None in sizes:
                report.note(f"{frontend.name}, load: the system does not tell the memory")
            else:
                add(f"{shown}, {what}", min(size or 0 for size in sizes) * MB, "MB")
    for part, seconds in frontend.report.seconds.items():
        goal = PROBES_GOAL_MS if part == "probes" else None
        add(f"of which {part}, in this process", seconds * 1e3, "ms", goal=goal)
    report.note(f"{frontend.name}, hybrid: {frontend.report}")


STREAM_CASES: Mapping[str, Case] = {
    "load": load,
    "decode": decode,
    "streaming": streaming,
    "concurrent-streaming": concurrent,
    "stop-sequences": stop_sequences,
    "memory": memory,
}
"""The cases by the names that the command takes."""
