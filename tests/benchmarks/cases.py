"""The cases of streams without stops, and the names of all cases.

A case is a function of a tokenizer (:class:`~tests.benchmarks.subjects.Subject`), an effort and a
report. It compares each text that it times, and adds figures to the report. A bound guards against
growth and cliffs. The goals are in :mod:`tests.benchmarks.goals`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time_ns

from tokenizers import Tokenizer

from streamdec import DecodeStream, load_tokenizer
from streamdec.bench.clock import fresh, in_turns, nanoseconds, per_token
from streamdec.bench.entrants import HF, OURS, Entrant, text_of
from tests.benchmarks.async_cases import ASYNC_CASES
from tests.benchmarks.common import (
    BYTES_PER_STREAM,
    FLAT,
    FULL,
    QUICK,
    STEP_BOUNDS,
    Case,
    Effort,
    compare,
    long_streams,
    race,
    repeated,
    warm,
)
from tests.benchmarks.entrants import ColdTokenizer, Counting, LookUp
from tests.benchmarks.entry_cases import ENTRY_CASES
from tests.benchmarks.memory import bytes_per_stream
from tests.benchmarks.peers.cases import PEER_CASES
from tests.benchmarks.report import Report
from tests.benchmarks.server_cases import SERVER_CASES
from tests.benchmarks.stop_cases import STOP_CASES
from tests.benchmarks.subjects import Subject

__all__ = ["CASES", "FULL", "QUICK", "Case", "Effort"]

PROMPT_SIZE = 100_000
PROMPT_MS = 1.0
CALLS = 200
"""Calls that are timed together, because each takes only microseconds."""
FILE = "Tokenizer.from_file"
FIRST_TEXT = "load_tokenizer to first text"


# --- the step -------------------------------------------------------------------------------------


def step(subject: Subject, effort: Effort, report: Report) -> None:
    """A warm step beside the library's. Also of id 0 only, which is the result of NaN logits.

    The case also measures the least code that a step could be.
    """
    workloads = {name: subject.pieces(name, effort.step_size)[0] for name in subject.texts}
    for name in workloads:
        share = subject.split_share(name)
        report.note(f"{subject.name}, {name}: {share:.0%} of tokens are not whole characters")
    if subject.expected([0]):
        workloads["id 0"] = [0] * effort.step_size
    for workload, token_ids in workloads.items():
        warm(subject, [token_ids], report, f"step, {workload}")
        if text_of(subject.rival, token_ids) != subject.expected(token_ids):
            report.note(f"{subject.name}, {workload}: the text of {HF} is not decode's")
        least = [LookUp(subject.tokenizer), Counting(subject.tokenizer)]
        for each in least:
            compare(subject, each, token_ids, report, f"step, {workload}, {each.name}")
        entrants: list[Entrant] = [subject.ours, subject.rival, *least]
        samples = race(entrants, [token_ids] * effort.step_streams, effort.rounds)
        add = partial(report.add, subject.name, f"step, {workload}")
        add(f"{OURS} / {HF}", samples.ratio(OURS, HF), "x", bound=STEP_BOUNDS.get(subject.rule))
        for each in least:
            add(f"{each.name} / {HF}", samples.ratio(each.name, HF), "x")
        for entrant in entrants:
            add(entrant.name, samples.time(entrant.name), "ns")


def cold(subject: Subject, effort: Effort, report: Report) -> None:
    """The first stream of a tokenizer object, for which no transition is computed."""
    for workload in subject.texts:
        pieces = subject.pieces(workload, effort.cold_size)[:1]
        ours = ColdTokenizer(subject.library)
        where = f"cold, {workload}, {effort.cold_size:,} tokens"
        compare(subject, ours, pieces[0], report, where)
        samples = race([ours, subject.rival], pieces, effort.rounds)
        report.add(subject.name, where, f"{ours.name} / {HF}", samples.ratio(ours.name, HF), "x")
        report.add(subject.name, where, ours.name, samples.time(ours.name), "ns")


# --- length ---------------------------------------------------------------------------------------


def growth(subject: Subject, effort: Effort, report: Report) -> None:
    """The same ids as many short streams and as one long stream, up to a million tokens.

    Only streamdec decodes the million. It repeats the whole text, so that no character is cut.
    """
    shortest, longest = effort.growth_sizes[0], effort.growth_sizes[-1]
    for workload, token_ids in subject.texts.items():
        cut = {size: subject.pieces(workload, size) for size in effort.growth_sizes}
        for size, pieces in cut.items():
            warm(subject, pieces, report, f"growth, {workload}, {size:,} tokens")
        add = partial(report.add, subject.name, f"growth, {workload}")
        million = token_ids * (effort.long_size // len(token_ids) + 1)
        compare(subject, subject.ours, million, report, f"growth, {workload}, long stream")
        for entrant in (subject.ours, subject.rival):
            cases = {size: partial(per_token, entrant, cut[size]) for size in cut}
            ends = [longest]
            if entrant is subject.ours:
                cases[effort.long_size] = partial(per_token, entrant, [million])
                ends.append(effort.long_size)
            named = {f"{entrant.name}, {size:,} tokens": case for size, case in cases.items()}
            samples = in_turns(named, max(effort.rounds // 2, 1))
            for end in ends:
                ratio = samples.ratio(*(f"{entrant.name}, {n:,} tokens" for n in (end, shortest)))
                bound = FLAT if entrant is subject.ours else None
                add(f"{entrant.name}, {end:,} / {shortest:,} tokens", ratio, "x", bound=bound)
            for name in named:
                add(name, samples.time(name), "ns")


def lone(subject: Subject, effort: Effort, report: Report) -> None:
    """Continuation bytes without a lead byte, in short runs and in a long one."""
    token_id = subject.lone_byte
    if token_id is None:
        report.note(f"{subject.name}: no token is a lone continuation byte")
        return
    _flat(subject, effort, report, "lone bytes", token_id)


def skipped(subject: Subject, effort: Effort, report: Report) -> None:
    """Skipped tokens: three at a time in code, as in a chat, and thousands in a row."""
    special = subject.skipped
    if not special:
        report.note(f"{subject.name}: no token is skipped")
        return
    chat = _with_turns(subject.pieces("code", effort.step_size)[0], special)
    warm(subject, [chat], report, "skipped, turns")
    samples = race([subject.ours, subject.rival], [chat] * effort.step_streams, effort.rounds)
    add = partial(report.add, subject.name, "skipped, turns")
    bound = STEP_BOUNDS.get(subject.rule)  # some of these tokens take the slow path
    add(f"{OURS} / {HF}", samples.ratio(OURS, HF), "x", bound=bound and 2 * bound)
    add(OURS, samples.time(OURS), "ns")
    _flat(subject, effort, report, "skipped on end", special[-1])


def _with_turns(token_ids: Sequence[int], special: Sequence[int], each: int = 64) -> list[int]:
    """Return ``token_ids`` with three skipped tokens after ``each`` of them."""
    turn = [*special, *special, *special][:3]
    chat: list[int] = []
    for start in range(0, len(token_ids), each):
        chat += [*token_ids[start : start + each], *turn]
    return chat


def _flat(subject: Subject, effort: Effort, report: Report, case: str, token_id: int) -> None:
    """Compare a token of the longest run of ``token_id`` with a token of the shortest."""
    shortest, longest = min(effort.lone_sizes), max(effort.lone_sizes)
    pieces = {size: [[token_id] * size] * (longest // size) for size in effort.lone_sizes}
    for size, streams in pieces.items():
        warm(subject, streams[:1], report, f"{case}, {size:,} tokens")
    cases = {str(size): partial(per_token, subject.ours, pieces[size]) for size in pieces}
    samples = in_turns(cases, effort.rounds)
    add = partial(report.add, subject.name, case)
    ratio = samples.ratio(str(longest), str(shortest))
    add(f"{OURS}, {longest:,} / {shortest:,} tokens", ratio, "x", bound=FLAT)
    for size in pieces:
        add(f"{OURS}, {size:,} tokens", samples.time(str(size)), "ns")


# --- memory ---------------------------------------------------------------------------------------


def memory(subject: Subject, effort: Effort, report: Report) -> None:
    """What Python allocates for one more stream, without its list of ids, with warm caches."""
    for size in effort.memory_sizes:
        for name, token_ids in long_streams(subject, size).items():
            warm(subject, [token_ids], report, f"memory, {name}")
            used = bytes_per_stream(subject.ours, token_ids, effort.live_streams)
            what = f"{OURS}, {size:,} tokens"
            report.add(subject.name, f"memory, {name}", what, used, "B", bound=BYTES_PER_STREAM)


# --- beginnings -----------------------------------------------------------------------------------


def prompt(subject: Subject, effort: Effort, report: Report) -> None:
    """Opening a stream after a prompt of 100,000 ids. It reads all of them if all are skipped."""
    prompts = {name: repeated(ids, PROMPT_SIZE) for name, ids in subject.texts.items()}
    if subject.lone_byte is not None:
        prompts["lone bytes"] = [subject.lone_byte] * PROMPT_SIZE
    if subject.skipped:
        prompts["all skipped"] = [subject.skipped[-1]] * PROMPT_SIZE
    for name, token_ids in prompts.items():
        _compare_after_prompt(subject, token_ids, report, f"prompt, {name}")
        action = partial(DecodeStream, subject.tokenizer, fresh(token_ids))
        samples = in_turns({name: partial(nanoseconds, action)}, effort.rounds)
        time = samples.time(name).times(1e-6)
        bound = PROMPT_MS if name != "all skipped" else None
        what = f"{OURS}, {PROMPT_SIZE:,} ids"
        report.add(subject.name, f"prompt, {name}", what, time, "ms", bound=bound)


def _compare_after_prompt(
    subject: Subject, token_ids: Sequence[int], report: Report, where: str
) -> None:
    generated = subject.texts["code"][:64]
    stream = DecodeStream(subject.tokenizer, token_ids)
    text = stream.feed(generated) + stream.flush()
    before = subject.expected(token_ids)
    whole = subject.expected([*token_ids, *generated])
    report.compare(f"{subject.name}, {where}", before + text, whole)


def load(subject: Subject, effort: Effort, report: Report) -> None:
    """From a file to the first text, beside the library's loading of the file.

    The time is that of all threads, because the library uses several.
    """
    path, token_id = str(subject.path), subject.texts["code"][0]
    loads: dict[str, Callable[[], object]] = {
        FILE: partial(Tokenizer.from_file, path),
        FIRST_TEXT: lambda: DecodeStream(load_tokenizer(path)).step(token_id),
        f"first text, {FILE} done": lambda: ColdTokenizer(subject.library).open().step(token_id),
    }
    cases = {
        name: partial(nanoseconds, action, clock=process_time_ns) for name, action in loads.items()
    }
    samples = in_turns(cases, effort.loads)
    add = partial(report.add, subject.name, "load")
    add(f"{FIRST_TEXT} / {FILE}", samples.ratio(FIRST_TEXT, FILE), "x")
    for name in cases:
        add(name, samples.time(name).times(1e-6), "ms")


def copies(subject: Subject, effort: Effort, report: Report) -> None:
    """A stream that is opened, forked, and written to JSON and read again."""
    token_ids = subject.pieces("mix", effort.cold_size)[0]
    warm(subject, [token_ids], report, "copies")
    stream = DecodeStream(subject.tokenizer)
    half = len(token_ids) // 2
    text = stream.feed(token_ids[:half])
    written = json.dumps(stream.snapshot())
    read = partial(DecodeStream.restore, subject.tokenizer)
    for copy in (stream.fork(), read(json.loads(written))):
        rest = copy.feed(token_ids[half:]) + copy.flush()
        report.compare(f"{subject.name}, copies", text + rest, subject.expected(token_ids))
    verbs: dict[str, Callable[[], object]] = {
        "begin": partial(DecodeStream, subject.tokenizer),
        "fork": stream.fork,
        "snapshot to JSON text": lambda: json.dumps(stream.snapshot()),
        "restore from JSON text": lambda: read(json.loads(written)),
    }
    cases = {name: partial(nanoseconds, verb, CALLS) for name, verb in verbs.items()}
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
    **SERVER_CASES,
    **STOP_CASES,
    **ASYNC_CASES,
    **PEER_CASES,
}
"""The cases by the names that the command takes."""
