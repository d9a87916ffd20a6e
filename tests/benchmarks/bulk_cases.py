"""Datasets: whole columns of token ids beside the library's ``decode_batch``, and files.

    python -m tests.benchmarks --suite bulk [--quick] [--check] [--json FILE] ...

Times are wall time, because the library decodes a batch on all cores. Each text is compared with
the library's. The lists and arrays of ids are made before, so no conversion is timed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter_ns, process_time_ns
from typing import Any

from streamdec import StopConditions
from streamdec.bench.clock import Clock, in_turns, nanoseconds
from streamdec.bulk import BulkDecoder, decode_arrow, decode_rollouts
from streamdec.bulk.files import decode_files
from streamdec.tokenizers._extras import library
from tests.benchmarks.report import Report
from tests.benchmarks.subjects import SEED, Subject

__all__ = ["CASES", "FULL", "QUICK", "Case", "Effort"]

OURS, THEIRS = "decode_arrow", "decode_batch"
BOUND = 5.0
"""Times the throughput of the library, for texts of byte-level tokenizers."""
ROW = 400
"""Token ids."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    rounds: int = 9
    rows: int = 2_000
    file_rows: int = 20_000


FULL = Effort()
QUICK = Effort(rounds=3, rows=200, file_rows=1_000)

Case = Callable[[Subject, Effort, Report], None]


CUT, RANDOM = "mix, cut anywhere", "random ids"


def rows_of(subject: Subject, kind: str, count: int) -> list[list[int]]:
    """Rows of a text, each of whole characters; or other rows.

    About half of the rows that were cut anywhere begin and end inside characters. Rows drawn from
    the vocabulary, special and unknown ids included, are rarely valid UTF-8.
    """
    seed = random.Random(SEED)
    if kind == RANDOM:
        top = subject.tokenizer.vocab_size + 10
        return [[seed.randrange(top) for _ in range(ROW)] for _ in range(count)]
    if kind == CUT:
        token_ids = subject.texts["mix"]
        starts = [seed.randrange(len(token_ids) - ROW) for _ in range(count)]
        return [token_ids[start : start + ROW] for start in starts]
    return seed.choices(subject.pieces(kind, ROW), k=count)


def array_of(rows: Sequence[Sequence[int]]) -> Any:
    """The rows as a dataset has them."""
    pa = library("pyarrow", "bulk", "this benchmark needs")
    return pa.array(rows, pa.list_(pa.int32()))


def arrays(subject: Subject, effort: Effort, report: Report) -> None:
    """A column of texts, of code and of all scripts; one of rows cut anywhere, of random ids."""
    for kind in (*subject.texts, CUT, RANDOM):
        rows = rows_of(subject, kind, effort.rows)
        column = array_of(rows)
        ours = partial(decode_arrow, column, subject.tokenizer)
        theirs = partial(subject.library.decode_batch, rows, skip_special_tokens=True)
        for number, (text, expected) in enumerate(zip(ours().to_pylist(), theirs(), strict=True)):
            report.compare(f"{subject.name}, {kind}, row {number}", text, expected)
        is_promised = subject.rule == "ByteLevel" and kind in subject.texts
        for clock, on, bound in (
            (perf_counter_ns, "on the wall", BOUND if is_promised else None),
            (process_time_ns, "of processors", None),
        ):
            _race(subject, f"arrays, {kind}", {THEIRS: theirs, OURS: ours}, effort, report)(
                clock, on, bound
            )


def _race(
    subject: Subject,
    where: str,
    actions: Mapping[str, Callable[[], object]],
    effort: Effort,
    report: Report,
) -> Callable[[Clock, str, float | None], None]:
    """Time decoders with one clock, and report how many times as fast the last one is."""
    tokens = effort.rows * ROW  # or a few more
    first, *_, last = actions

    def run(clock: Clock, on: str, bound: float | None) -> None:
        cases = {
            name: partial(nanoseconds, action, clock=clock) for name, action in actions.items()
        }
        times = in_turns(cases, effort.rounds)
        ratio = times.ratio(first, last)
        what = f"{first} / {last}, {on}"
        report.add(subject.name, where, what, ratio, "x", bound=bound, at_least=True)
        for name in actions:
            report.add(
                subject.name, where, f"{name}, {on}", times.time(name).times(1 / tokens), "ns"
            )

    return run


def stops(subject: Subject, effort: Effort, report: Report) -> None:
    """Columns whose rows all end at an id, or all at a stop in their text; beside the library."""
    rows = rows_of(subject, "code", effort.rows // 4)
    small = Effort(effort.rounds, len(rows))
    end = subject.tokenizer.vocab_size  # in no text
    conditions = StopConditions(["\nUser:", "</s>"], max_tokens=2 * ROW, eos_token_ids=end)
    stop = list(subject.tokenizer.encode("\nUser:", add_special_tokens=False).ids)
    for where, last in (("an id at the end", [end]), ("a stop string at the end", stop)):
        column = array_of([[*row, *last] for row in rows])
        actions = {
            THEIRS: partial(subject.library.decode_batch, rows, skip_special_tokens=True),
            f"{OURS} with stops": partial(
                decode_arrow, column, subject.tokenizer, conditions=conditions
            ),
        }
        for action in actions.values():
            action()
        race = _race(subject, f"stops, {where}", actions, small, report)
        race(perf_counter_ns, "on the wall", None)


ANSWER = 512
"""Token ids of an answer, at most."""
ANSWER_STOPS = ("\nObservation:", "</answer>", "<|user|>", "\n\nUser:")


def rollouts(subject: Subject, effort: Effort, report: Report) -> None:
    """Batches of answers cut at their stops, beside ``decode_batch``, ``find`` and ``encode``.

    No answer, or a quarter, or all have a stop string; with and without spans. Another figure says
    how many answers got other ids from ``encode`` than they were made of.
    """
    end = subject.tokenizer.vocab_size  # in no text
    conditions = StopConditions(ANSWER_STOPS, eos_token_ids=end)
    small = Effort(effort.rounds, min(effort.rows, 1024))
    for name, share in (("no stop string", 0.0), ("a stop string in 25 %", 0.25), ("in all", 1.0)):
        rows = _answers(subject, small.rows, share)
        batch = [[*row, end] for row in rows]
        for spans in (False, True):
            where = f"rollouts, {name}{', spans' if spans else ''}"
            ours = partial(decode_rollouts, batch, subject.tokenizer, conditions, spans=spans)
            theirs = partial(_encoded_again, subject, rows, spans=spans)
            others = 0
            for number, (each, (text, ids)) in enumerate(zip(ours(), theirs(), strict=True)):
                report.compare(f"{subject.name}, {where}, row {number}", each.text, text)
                before = each.match.tokens_before if each.match else None
                others += ids is not None and ids != each.token_ids[:before]
            actions: dict[str, Callable[[], object]] = {
                "decode_batch, find, encode": theirs,
                "decode_rollouts": ours,
            }
            for clock, on in ((perf_counter_ns, "on the wall"), (process_time_ns, "of processors")):
                times = in_turns(
                    {each: partial(nanoseconds, run, clock=clock) for each, run in actions.items()},
                    small.rounds,
                )
                what = f"decode_batch, find, encode / decode_rollouts, {on}"
                report.add(subject.name, where, what, times.ratio(*actions), "x", at_least=True)
            what = "answers with other ids after encode"
            report.add(subject.name, where, what, 100 * others / len(rows), "%")


def _answers(subject: Subject, count: int, share: float) -> list[list[int]]:
    """The ids of answers, of which a ``share`` has a stop string in its text."""
    seed, rows = random.Random(SEED), []
    for ids in seed.choices(subject.pieces("mix", 2 * ANSWER), k=count):
        text = subject.expected(ids)
        if seed.random() < share:
            at = seed.randrange(len(text) // 4)
            text = text[:at] + seed.choice(ANSWER_STOPS) + text[at:]
        rows.append([*subject.library.encode(text, add_special_tokens=False).ids[:ANSWER]])
    return rows


def _encoded_again(
    subject: Subject, rows: Sequence[list[int]], *, spans: bool
) -> list[tuple[str, list[int] | None]]:
    """What people write without ``decode_rollouts``. Its ids may differ from those of the row."""
    found: list[tuple[str, list[int] | None]] = []
    for text in subject.library.decode_batch(rows, skip_special_tokens=True):
        places = [place for stop in ANSWER_STOPS if (place := text.find(stop)) >= 0]
        text = text[: min(places)] if places else text
        ids = None
        if places or spans:
            encoding = subject.library.encode(text, add_special_tokens=False)
            ids = encoding.ids
            if spans:
                _ = encoding.offsets
        found.append((text, ids))
    return found


def files(subject: Subject, effort: Effort, report: Report) -> None:
    """Parquet in, Parquet with texts out, by one process."""
    pa = library("pyarrow", "bulk", "this benchmark needs")
    parquet = library("pyarrow.parquet", "bulk", "this benchmark needs")
    rows = rows_of(subject, "mix", 500)
    repeats = max(effort.file_rows // len(rows), 1)
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "in.parquet"), Path(folder, "out.parquet")
        table = pa.table({"id": range(len(rows)), "token_ids": array_of(rows)})
        with parquet.ParquetWriter(source, table.schema) as writer:
            writer.write_table(pa.concat_tables([table] * repeats), row_group_size=5_000)
        job = partial(
            decode_files, [(source, target)], BulkDecoder(subject.tokenizer), overwrite=True
        )
        run = partial(nanoseconds, job, clock=perf_counter_ns)
        times = in_turns({"job": run}, max(effort.rounds // 3, 1))
        per_token = times.time("job").times(1 / (repeats * len(rows) * ROW))
        report.add(subject.name, "files", "Parquet to Parquet, on the wall", per_token, "ns")


CASES: Mapping[str, Case] = {
    "arrays": arrays,
    "stops": stops,
    "rollouts": rollouts,
    "files": files,
}
"""The cases by the names that the command takes."""
