"""The cases: each measures one promise on one tokenizer, and compares every text on the way.

A case is a function of a subject, how much effort to spend, and the report that takes its
figures; a further one joins :data:`CASES`. Floors are what must hold, goals what the prototype of
this design reached, with some room.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tokenizers import Tokenizer

from streamdec import DecodeStream, HuggingFaceTokenizer
from streamdec.bench.clock import fresh, in_turns, nanoseconds, per_token
from streamdec.bench.memory import bytes_per_stream
from tests.benchmarks.async_cases import ASYNC_CASES
from tests.benchmarks.common import (
    BYTES_PER_STREAM,
    FLAT,
    FULL,
    QUICK,
    Case,
    Effort,
    compare,
    long_streams,
    race,
    warm,
)
from tests.benchmarks.entrants import HF, OURS, ColdProgram, ColdTokenizer, Entrant, Floor
from tests.benchmarks.entry_cases import ENTRY_CASES
from tests.benchmarks.peers.cases import PEER_CASES
from tests.benchmarks.report import Report
from tests.benchmarks.stop_cases import STOP_CASES
from tests.benchmarks.subjects import Subject

__all__ = ["CASES", "FULL", "QUICK", "Case", "Effort"]

STEP_FLOORS = {"ByteLevel": 0.15, "ByteFallback": 0.06}
STEP_GOALS = {"ByteLevel": 0.12, "ByteFallback": 0.05}
STEP_GOAL_IN_CALLS = 3.5
LONE_BYTES_GOAL = 2_000
PROMPT_SIZE = 100_000
PROMPT_MS = 1.0
READY_SHARE = 0.02
READY_MS = 5.0
REPLIES = 200
"""Calls timed together, of verbs that take microseconds."""


# --- the step -------------------------------------------------------------------------------------


def step(subject: Subject, effort: Effort, report: Report) -> None:
    """A warm step, beside an empty call and beside everyone else's."""
    for workload, token_ids in _step_workloads(subject, effort, report).items():
        warm(subject, [token_ids], report, f"step, {workload}")
        entrants: list[Entrant] = [Floor(), subject.ours, *subject.rivals]
        for entrant in subject.rivals:
            _note_other_text(subject, entrant, token_ids, report, workload)
        samples = race(entrants, [token_ids] * effort.step_streams, effort.rounds)
        add = partial(report.add, subject.name, f"step, {workload}")
        for entrant in subject.rivals:
            bounds = _step_bounds(subject, entrant)
            add(f"{OURS} / {entrant.name}", samples.ratio(OURS, entrant.name), "x", **bounds)
        in_calls = samples.ratio(OURS, Floor.name)
        add(f"{OURS} / an empty call", in_calls, "x", goal=STEP_GOAL_IN_CALLS)
        for entrant in entrants:
            add(entrant.name, samples.time(entrant.name), "ns")


def _step_workloads(subject: Subject, effort: Effort, report: Report) -> dict[str, list[int]]:
    """The texts; and the id 0 on end, which is what an engine gives whose logits are NaN."""
    workloads = {name: subject.pieces(name, effort.step_size)[0] for name in subject.texts}
    for name in workloads:
        share = subject.split_share(name)
        report.note(f"{subject.name}, {name}: {share:.0%} of tokens are no whole characters")
    if subject.expected([0]):
        workloads["id 0"] = [0] * effort.step_size
    else:
        report.note(f"{subject.name}: id 0 gives no text")
    return workloads


def _step_bounds(subject: Subject, entrant: Entrant) -> dict[str, float | None]:
    if entrant.name != HF:
        return {}
    return {"floor": STEP_FLOORS.get(subject.rule), "goal": STEP_GOALS.get(subject.rule)}


def _note_other_text(
    subject: Subject, entrant: Entrant, token_ids: Sequence[int], report: Report, workload: str
) -> None:
    """A rival's text is its own affair, but a reader should know."""
    if entrant.text(token_ids) != subject.expected(token_ids):
        report.note(f"{subject.name}, {workload}: the text of {entrant.name} is not decode's")


def cold(subject: Subject, effort: Effort, report: Report) -> None:
    """The first stream of all, and the first stream of a program whose tokens are known."""
    for workload in subject.texts:
        for size in effort.cold_sizes:
            pieces = subject.pieces(workload, size)[:1]
            ours = [ColdTokenizer(subject.library), ColdProgram(subject.library, pieces[0])]
            for entrant in ours:
                compare(subject, entrant, pieces[0], report, f"{entrant.name}, {workload}")
            samples = race([*ours, *subject.rivals], pieces, effort.rounds)
            add = partial(report.add, subject.name, f"cold, {workload}, {size:,} tokens")
            for entrant in ours:
                for rival in subject.rivals:
                    ratio = samples.ratio(entrant.name, rival.name)
                    add(f"{entrant.name} / {rival.name}", ratio, "x")
                add(entrant.name, samples.time(entrant.name), "ns")


# --- length ---------------------------------------------------------------------------------------


def growth(subject: Subject, effort: Effort, report: Report) -> None:
    """The same ids as many short streams and as one long stream: what the length itself costs."""
    shortest, longest = effort.growth_sizes[0], effort.growth_sizes[-1]
    for workload in subject.texts:
        cut = {size: subject.pieces(workload, size) for size in effort.growth_sizes}
        for size, pieces in cut.items():
            warm(subject, pieces, report, f"growth, {workload}, {size:,} tokens")
        add = partial(report.add, subject.name, f"growth, {workload}")
        for entrant in (subject.ours, *subject.rivals):
            cases = {str(size): partial(per_token, entrant, cut[size]) for size in cut}
            samples = in_turns(cases, effort.rounds)
            floor = FLAT if entrant is subject.ours else None
            ratio = samples.ratio(str(longest), str(shortest))
            add(f"{entrant.name}, {longest:,} / {shortest:,} tokens", ratio, "x", floor=floor)
            for size in cut:
                add(f"{entrant.name}, {size:,} tokens", samples.time(str(size)), "ns")


def lone(subject: Subject, effort: Effort, report: Report) -> None:
    """Continuation bytes without a lead: U+FFFD each, and never text that others can settle."""
    token_id = subject.lone_byte
    if token_id is None:
        report.note(f"{subject.name}: no token is a lone continuation byte")
        return
    _flat(subject, effort, report, "lone bytes", {n: [token_id] * n for n in effort.lone_sizes})
    _against_rivals(subject, effort, report, "lone bytes", token_id)


def _against_rivals(
    subject: Subject, effort: Effort, report: Report, case: str, token_id: int
) -> None:
    """How many times as much as ours a run of one token costs the others."""
    for size in effort.rival_lone_sizes:
        rounds = 1 if size > 1_024 else 3
        samples = race([subject.ours, *subject.rivals], [[token_id] * size], rounds)
        add = partial(report.add, subject.name, f"{case}, {size:,} tokens")
        for rival in subject.rivals:
            is_goal = rival.name == HF and size == 4_096 and token_id == subject.lone_byte
            goal = LONE_BYTES_GOAL if is_goal else None
            ratio = samples.ratio(rival.name, OURS)
            add(f"{rival.name} / {OURS}", ratio, "x", goal=goal, at_least=True)
            add(rival.name, samples.time(rival.name), "ns")


def skipped(subject: Subject, effort: Effort, report: Report) -> None:
    """Tokens that are left out: three at a time among code, as in a chat, and thousands on end."""
    special = subject.skipped
    if not special:
        report.note(f"{subject.name}: no token is skipped")
        return
    chat = _with_turns(subject.pieces("code", effort.step_size)[0], special)
    warm(subject, [chat], report, "skipped, turns")
    entrants = [subject.ours, *subject.rivals]
    samples = race(entrants, [chat] * effort.step_streams, effort.rounds)
    for rival in subject.rivals:
        what = f"{OURS} / {rival.name}"
        ratio = samples.ratio(OURS, rival.name)
        bounds = {"floor": STEP_FLOORS.get(subject.rule)} if rival.name == HF else {}
        report.add(subject.name, "skipped, turns", what, ratio, "x", **bounds)
    report.add(subject.name, "skipped, turns", OURS, samples.time(OURS), "ns")
    runs = {size: [special[-1]] * size for size in effort.lone_sizes}
    _flat(subject, effort, report, "skipped on end", runs)
    _against_rivals(subject, effort, report, "skipped on end", special[-1])


def _with_turns(token_ids: Sequence[int], special: Sequence[int], each: int = 64) -> list[int]:
    """``token_ids`` with three skipped tokens after ``each`` of them."""
    turn = [*special, *special, *special][:3]
    chat: list[int] = []
    for start in range(0, len(token_ids), each):
        chat += [*token_ids[start : start + each], *turn]
    return chat


def _flat(
    subject: Subject, effort: Effort, report: Report, case: str, runs: Mapping[int, list[int]]
) -> None:
    """Whether a token of the longest run costs what one of the shortest does."""
    shortest, longest = min(runs), max(runs)
    pieces = {size: [run] * (longest // size) for size, run in runs.items()}
    for size, streams in pieces.items():
        warm(subject, streams[:1], report, f"{case}, {size:,} tokens")
    cases = {str(size): partial(per_token, subject.ours, pieces[size]) for size in runs}
    samples = in_turns(cases, effort.rounds)
    add = partial(report.add, subject.name, case)
    ratio = samples.ratio(str(longest), str(shortest))
    add(f"{OURS}, {longest:,} / {shortest:,} tokens", ratio, "x", floor=FLAT)
    for size in runs:
        add(f"{OURS}, {size:,} tokens", samples.time(str(size)), "ns")


# --- memory ---------------------------------------------------------------------------------------


def memory(subject: Subject, effort: Effort, report: Report) -> None:
    """What Python allocates for one more stream, its id list apart, the caches being warm."""
    for size in effort.memory_sizes:
        for name, token_ids in long_streams(subject, size).items():
            warm(subject, [token_ids], report, f"memory, {name}")
            used = bytes_per_stream(subject.ours, token_ids, effort.live_streams)
            what = f"{OURS}, {size:,} tokens"
            report.add(subject.name, f"memory, {name}", what, used, "B", floor=BYTES_PER_STREAM)
    for rival in subject.rivals:
        size = effort.memory_sizes[0]
        used = bytes_per_stream(rival, subject.texts["code"][:size], effort.live_streams)
        what = f"{rival.name}, {size:,} tokens, as far as Python sees"
        report.add(subject.name, "memory, code", what, used, "B")


# --- beginnings -----------------------------------------------------------------------------------


def prompt(subject: Subject, effort: Effort, report: Report) -> None:
    """A stream after 100,000 ids. Only if all are skipped must they be read to the beginning."""
    prompts = {name: _repeated(ids, PROMPT_SIZE) for name, ids in subject.texts.items()}
    if subject.lone_byte is not None:
        prompts["lone bytes"] = [subject.lone_byte] * PROMPT_SIZE
    if subject.skipped:
        prompts["all skipped"] = [subject.skipped[-1]] * PROMPT_SIZE
    for name, token_ids in prompts.items():
        _compare_after_prompt(subject, token_ids, report, f"prompt, {name}")
        given = fresh(token_ids)
        action = partial(DecodeStream, subject.tokenizer, given)
        samples = in_turns({name: partial(nanoseconds, action)}, effort.rounds)
        time = samples.time(name).times(1e-6)
        floor = PROMPT_MS if name != "all skipped" else None
        what = f"{OURS}, {PROMPT_SIZE:,} ids"
        report.add(subject.name, f"prompt, {name}", what, time, "ms", floor=floor)


def _repeated(token_ids: Sequence[int], size: int) -> list[int]:
    """``token_ids`` again and again, cut at the front, so that the end is a good one."""
    times = size // len(token_ids) + 1
    return [*token_ids, *([*token_ids] * times)][-size:]


def _compare_after_prompt(
    subject: Subject, token_ids: Sequence[int], report: Report, where: str
) -> None:
    """Whether what comes after a prompt is what the whole decode has after the prompt's text."""
    generated = subject.texts["code"][:64]
    stream = DecodeStream(subject.tokenizer, token_ids)
    text = "".join(stream.step_batch(generated)) + stream.flush()
    before = subject.expected(token_ids)
    whole = subject.expected([*token_ids, *generated])
    report.compare(f"{subject.name}, {where}", before + text, whole)


def load(subject: Subject, effort: Effort, report: Report) -> None:
    """What streamdec adds to loading: until the first token can come, and the fingerprint."""
    path = str(subject.path)
    cases = {
        "file": lambda: nanoseconds(partial(Tokenizer.from_file, path)),
        "ready": lambda: nanoseconds(ColdTokenizer(subject.library).open),
        "fingerprint": lambda: nanoseconds(partial(_fingerprint, subject.library)),
    }
    samples = in_turns(cases, effort.loads)
    add = partial(report.add, subject.name, "load")
    file, ready = samples.time("file").times(1e-6), samples.time("ready").times(1e-6)
    floor = max(READY_SHARE * file.median, READY_MS)
    add(f"{OURS}, table ready", ready, "ms", floor=floor)
    add(f"{OURS}, table ready / Tokenizer.from_file", samples.ratio("ready", "file"), "x")
    add(f"{OURS}, fingerprint / Tokenizer.from_file", samples.ratio("fingerprint", "file"), "x")
    add("Tokenizer.from_file", file, "ms")
    add(f"{OURS}, fingerprint", samples.time("fingerprint").times(1e-6), "ms")


def _fingerprint(library: Tokenizer) -> str:
    return HuggingFaceTokenizer(library).fingerprint


def copies(subject: Subject, effort: Effort, report: Report) -> None:
    """A stream begun, forked, written down as JSON and read again, in the middle of a text."""
    token_ids = subject.pieces("mix", 2_048)[0]
    warm(subject, [token_ids], report, "copies")
    stream = DecodeStream(subject.tokenizer)
    text = "".join(stream.step_batch(token_ids[:1_024]))
    written = json.dumps(stream.snapshot())
    read = partial(DecodeStream.restore, subject.tokenizer)
    for copy in (stream.fork(), read(json.loads(written))):
        rest = "".join(copy.step_batch(token_ids[1_024:])) + copy.flush()
        report.compare(f"{subject.name}, copies", text + rest, subject.expected(token_ids))
    verbs: dict[str, Callable[[], object]] = {
        "begin": partial(DecodeStream, subject.tokenizer),
        "fork": stream.fork,
        "snapshot": stream.snapshot,
        "snapshot to JSON text": lambda: json.dumps(stream.snapshot()),
        "restore": partial(read, json.loads(written)),
        "restore from JSON text": lambda: read(json.loads(written)),
    }
    cases = {name: partial(nanoseconds, verb, REPLIES) for name, verb in verbs.items()}
    samples = in_turns(cases, effort.rounds)
    for name in verbs:
        report.add(subject.name, "copies", f"{OURS}, {name}", samples.time(name).times(1e-3), "us")


CASES: Mapping[str, Case] = {
    "step": step,
    "cold": cold,
    "growth": growth,
    "lone": lone,
    "skipped": skipped,
    "memory": memory,
    "prompt": prompt,
    "load": load,
    "copies": copies,
    **ENTRY_CASES,
    **STOP_CASES,
    **ASYNC_CASES,
    **PEER_CASES,
}
