"""The goals, and the figures that decide whether they are reached.

Goals are for developers. A missed goal is not a failure, unlike a missed bound.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from streamdec.bench.entrants import HF, OURS
from streamdec.bench.figures import number
from tests.benchmarks.book import Book
from tests.benchmarks.entrants import NO_STOPS

__all__ = ["GOALS", "LEVEL", "SUBJECTS", "WORKLOADS", "Goal"]

SUBJECTS = {"deepseek-v3": "DeepSeek-V3", "mistral-7b-v0.1": "Mistral-7B"}
"""Byte-level BPE, and SentencePiece's BPE with byte fallback."""
LEVEL, FALLBACK = SUBJECTS
WORKLOADS = ("code", "mix")


@dataclass(frozen=True)
class Goal:
    """A bound, and the figures that should not exceed it."""

    what: str
    bound: float
    unit: str
    where: Sequence[tuple[str, str]]
    """The case and the name of each figure."""
    subjects: Sequence[str] = (LEVEL, FALLBACK)
    bound_313: float | None = None
    """The bound on CPython 3.13 and newer, if it differs."""

    def row(self, book: Book) -> list[str]:
        """Return the goal, the figures of each tokenizer, and whether the worst reaches it."""
        bound = self._bound(book)
        found = {subject: self._values(book, subject) for subject in SUBJECTS}
        cells = [" / ".join(map(number, found[subject])) or "–" for subject in SUBJECTS]
        shown = f"{bound:,g} {self.unit}"
        return [self.what, shown, *cells, _verdict([*chain(*found.values())], bound)]

    def _bound(self, book: Book) -> float:
        version = re.search(r"(\d+)\.(\d+)", book.data["environment"].get("python", ""))
        is_new = version is not None and tuple(map(int, version.groups())) >= (3, 13)
        return self.bound_313 if is_new and self.bound_313 is not None else self.bound

    def _values(self, book: Book, subject: str) -> list[float]:
        if subject not in self.subjects:
            return []
        values = (book.value(subject, *names) for names in self.where)
        return [value for value in values if value is not None]


def _verdict(values: Sequence[float], bound: float) -> str:
    if not values:
        return "not measured"
    beyond = max(values) / bound - 1
    if beyond <= 0:
        return "reached"
    return f"**missed** by {beyond:.0%}" if beyond >= 0.005 else "**missed** by less than 1%"


def _stops(kind: str, counts: Sequence[str], workload: str, bound: float) -> Goal:
    case = f"step with stops, {workload}"
    where = [(case, f"{count} {kind} stops / {NO_STOPS}") for count in counts]
    what = f"a step with {' / '.join(counts)} {kind} stops, {workload}"
    return Goal(f"{what}, beside the library's", bound, "×", where, (LEVEL,))


def _cold(kind: str, bound: float) -> Goal:
    where = [("cold stops, code, 1,024 tokens", f"4 {kind} stops / {NO_STOPS}")]
    what = f"4 new {kind} stops, 1,024 tokens of known code, beside the library"
    return Goal(what, bound, "×", where, (LEVEL,))


def _entry(what: str, bound: float, figure: str, bound_313: float | None = None) -> Sequence[Goal]:
    """Return a goal for each workload."""
    return [
        Goal(
            f"{what}, {workload}", bound, "×", [(f"entry, {workload}", figure)], bound_313=bound_313
        )
        for workload in WORKLOADS
    ]


def _sinks(size: str, bound: float) -> Goal:
    where = [(f"pools, {size} requests", "a round with sinks")]
    return Goal(f"a token of a round of {size} requests with sinks", bound, "ns", where)


_STEP = f"{OURS} / {HF}"
_COUNTS = ("4", "64", "1,000")

GOALS: Sequence[Goal] = (
    Goal(
        "a step without stops, code, beside the library's",
        0.11,
        "×",
        [("step, code", _STEP)],
        (LEVEL,),
    ),
    Goal(
        "a step without stops, mix, beside the library's",
        0.15,
        "×",
        [("step, mix", _STEP)],
        (LEVEL,),
    ),
    _stops("ordinary", _COUNTS, "code", 0.15),
    _stops("ordinary", _COUNTS, "mix", 0.18),
    _stops("hard", ("4",), "code", 0.2),
    _stops("hard", ("1,000",), "code", 0.25),
    Goal(
        "a step with sections outside / inside one, code, beside a step",
        2.5,
        "×",
        [("sections, code", f"{each}side / {OURS} without") for each in ("out", "in")],
    ),
    _cold("ordinary", 0.45),
    _cold("hard", 0.6),
    Goal(
        "1,000 tenants with 4 stops each, beside one tenant",
        1.3,
        "×",
        [("tenants", "1,000 tenants / one")],
    ),
    Goal(
        "code never seen before, without stops, beside the library",
        0.4,
        "×",
        [("unseen code after 299,008 tokens", f"0 ordinary stops / {NO_STOPS}")],
    ),
    *_entry(
        "`iter_chunks` with `return_token_ids`, beside without",
        1.5,
        "iter_chunks, return_token_ids / iter_chunks",
    ),
    *_entry(
        "`iter_chunks` over lists of 8 ids, beside ids", 1, "iter_chunks, lists of 8 / iter_chunks"
    ),
    *_entry("`step_batch` of one id, beside a step", 1.3, "step_batch of one id / step"),
    Goal(
        "opening a stream with 4 new ordinary / hard stops",
        0.02,
        "ms",
        [("compile stops", f"4 {kind} stops") for kind in ("ordinary", "hard")],
    ),
    Goal(
        "opening a stream with 1,000 new ordinary / hard stops",
        2,
        "ms",
        [("compile stops", f"1,000 {kind} stops") for kind in ("ordinary", "hard")],
    ),
    Goal(
        "memory of a set of 4 ordinary / hard stops",
        8_192,
        "B",
        [
            ("memory of a set", f"4 {kind} stops, after 1,024 tokens")
            for kind in ("ordinary", "hard")
        ],
    ),
    Goal(
        "memory of a stream of 32,768 tokens, without stops / with 4",
        400,
        "B",
        [
            ("memory, code", f"{OURS}, 32,768 tokens"),
            ("memory with stops, code", "4 ordinary stops, 32,768 tokens"),
        ],
    ),
    Goal(
        "a token of a stream of 1,000,000 beside one of 512, code / mix",
        1.3,
        "×",
        [(f"growth, {each}", f"{OURS}, 1,000,000 / 512 tokens") for each in WORKLOADS],
    ),
    *_entry("`iter_chunks`, beside a step", 2.5, "iter_chunks / step"),
    *_entry("`iter_chunks`, beside the library's stream", 0.35, f"iter_chunks / {HF}"),
    *_entry(
        "`stream`, beside an async generator that passes on",
        2.0,
        "stream / an async generator that passes on",
        bound_313=1.5,
    ),
    *_entry("`wrap(DecodeStream)`, beside `stream`", 1.1, "wrap(DecodeStream) / stream"),
    Goal(
        "a round of a pool of 1,000, beside a dict of decoders",
        1.2,
        "×",
        [("pools, 1,000 requests", "a round of a pool / a dict of decoders")],
    ),
    _sinks("1,000", 1_000),
    _sinks("10,000", 1_300),
    *_entry("a chat event as bytes, beside a step", 3, "a chat event as bytes / step"),
    Goal(
        "the server without sockets, beside `stream` with events",
        3,
        "×",
        [("server, 32 streams", "the server in this process / stream with events")],
    ),
    Goal(
        "the server over sockets, 200 / 1,000 streams, beside a bare application",
        1.2,
        "×",
        [
            (f"sockets, {count} streams of 50 tokens/s", "the server / a bare application")
            for count in ("200", "1,000")
        ],
    ),
    Goal(
        "`import streamdec`, beside `import tokenizers, anyio`",
        1.8,
        "×",
        [("imports", "import streamdec / import tokenizers, anyio")],
    ),
    Goal(
        "`load_tokenizer` to the first text, beside `Tokenizer.from_file`",
        1.3,
        "×",
        [("load", "load_tokenizer to first text / Tokenizer.from_file")],
    ),
)
"""*The library* is ``tokenizers.decoders.DecodeStream``, which matches no stops."""
