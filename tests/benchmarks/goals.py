"""What was to be reached, set before the code was written, and which figures say whether it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from streamdec.bench.figures import number
from tests.benchmarks.book import Book
from tests.benchmarks.entrants import HF, OURS

__all__ = ["GOALS", "LEVEL", "NO_STOPS", "SUBJECTS", "WORKLOADS", "Goal"]

SUBJECTS = {"deepseek-v3": "DeepSeek-V3", "mistral-7b-v0.1": "Mistral-7B"}
"""Byte-level BPE, and SentencePiece's BPE with byte fallback."""
LEVEL, FALLBACK = SUBJECTS
WORKLOADS = ("code", "mix")
NO_STOPS = f"{HF} (matches no stops)"


@dataclass(frozen=True)
class Goal:
    """What is to be reached, and which figures say whether it is."""

    what: str
    bound: float
    unit: str
    where: Sequence[tuple[str, str]]
    """Case and name of each figure."""
    subjects: Sequence[str] = (LEVEL, FALLBACK)
    at_least: bool = False

    def row(self, book: Book) -> list[str]:
        """The goal, each tokenizer's figures, and whether they reach it."""
        found = {subject: self._values(book, subject) for subject in SUBJECTS}
        cells = [" / ".join(map(number, found[subject])) or "–" for subject in SUBJECTS]
        sign = "≥" if self.at_least else "≤"
        bound = f"{sign} {self.bound:,g}{f' {self.unit}' if self.unit else ''}"
        return [self.what, bound, *cells, self._verdict([*chain(*found.values())])]

    def _values(self, book: Book, subject: str) -> list[float]:
        if subject not in self.subjects:
            return []
        values = (book.value(subject, *names) for names in self.where)
        return [value for value in values if value is not None]

    def _verdict(self, values: Sequence[float]) -> str:
        if not values:
            return "not measured"
        worst = min(values) if self.at_least else max(values)
        beyond = (self.bound - worst if self.at_least else worst - self.bound) / self.bound
        return "reached" if beyond <= 0 else f"**missed** by {beyond:.0%}"


def _both(case: str, what: str) -> list[tuple[str, str]]:
    """The same of both texts."""
    return [(case.format(workload), what) for workload in WORKLOADS]


def _with_stops(kind: str) -> Iterator[Goal]:
    for workload in WORKLOADS:
        where = [
            (f"step with stops, {workload}", f"{count} {kind} stops / {OURS} without")
            for count in ("4", "64", "1,000")
        ]
        what = f"a step with 4 / 64 / 1,000 {kind} stops, beside one without, {workload}"
        yield Goal(what, 1.3, "×", where)


def _against_vllm(count: str, bound: float) -> Goal:
    where = [
        (
            f"peers with {count} {kind} stops, code",
            f"vLLM Fast / {OURS}, {count} {kind} stops",
        )
        for kind in ("ordinary", "hard")
    ]
    what = f"vLLM Fast beside a step, {count} ordinary / hard stops each, code"
    return Goal(what, bound, "×", where, at_least=True)


def _cold(kind: str, bound: float) -> Goal:
    where = [("cold stops, code, 1,024 tokens", f"4 {kind} stops / {NO_STOPS}")]
    return Goal(
        f"4 {kind} stops never seen before, 1,024 tokens of code, beside the library without stops",
        bound,
        "×",
        where,
    )


GOALS: Sequence[Goal] = (
    Goal(
        "a step beside the library's, byte-level, code / mix",
        0.12,
        "×",
        _both("step, {}", f"{OURS} / {HF}"),
        (LEVEL,),
    ),
    Goal(
        "a step beside the library's, byte fallback, code / mix",
        0.05,
        "×",
        _both("step, {}", f"{OURS} / {HF}"),
        (FALLBACK,),
    ),
    Goal(
        "a step beside an empty Python call, code / mix",
        3.5,
        "×",
        _both("step, {}", f"{OURS} / an empty call"),
    ),
    *_with_stops("ordinary"),
    *_with_stops("hard"),
    _against_vllm("4", 30),
    _against_vllm("64", 80),
    _against_vllm("1,000", 700),
    Goal(
        "mlx-lm's BPE detokenizer beside a step, code / mix",
        20,
        "×",
        _both("peers, {}", f"mlx-lm BPE / {OURS}"),
        (LEVEL,),
        at_least=True,
    ),
    Goal(
        "mlx-lm's SPM detokenizer beside a step, code / mix",
        20,
        "×",
        _both("peers, {}", f"mlx-lm SPM / {OURS}"),
        (FALLBACK,),
        at_least=True,
    ),
    Goal(
        "SGLang, a batch of 32, beside a step, code / mix",
        40,
        "×",
        _both("peers, {}", f"SGLang, batch of 32 / {OURS}"),
        at_least=True,
    ),
    Goal(
        "a token of a stream of 32,768 beside one of 512, code / mix",
        1.3,
        "×",
        _both("growth, {}", f"{OURS}, 32,768 / 512 tokens"),
    ),
    Goal(
        "4,096 lone continuation bytes, the library beside a step",
        2_000,
        "×",
        [("lone bytes, 4,096 tokens", f"{HF} / {OURS}")],
        at_least=True,
    ),
    Goal(
        "a lone continuation byte of 32,768 beside one of 256",
        1.3,
        "×",
        [("lone bytes", f"{OURS}, 32,768 / 256 tokens")],
    ),
    Goal(
        "code never seen before, 4 ordinary stops, beside the library without stops",
        0.3,
        "×",
        [("unseen code after 299,008 tokens", f"4 ordinary stops / {NO_STOPS}")],
    ),
    _cold("ordinary", 0.7),
    _cold("hard", 1.1),
    Goal(
        "`async for` over a source that never waits, beside a generator that passes on, code / mix",
        2.3,
        "×",
        _both("async, {}", f"{OURS} / a wrapper that does nothing"),
    ),
    Goal(
        "bytes of a stream of 1,024 / 32,768 tokens of code",
        512,
        "B",
        [("memory, code", f"{OURS}, {count} tokens") for count in ("1,024", "32,768")],
    ),
    Goal(
        "the same with 4 ordinary stops",
        512,
        "B",
        [
            ("memory with stops, code", f"4 ordinary stops, {count} tokens")
            for count in ("1,024", "32,768")
        ],
    ),
    Goal(
        "ready for the first token, beside `Tokenizer.from_file`",
        0.02,
        "×",
        [("load", f"{OURS}, table ready / Tokenizer.from_file")],
    ),
    Goal(
        "from 4 strings, ordinary / hard, to a stream",
        0.2,
        "ms",
        [("compile stops", f"4 {kind} stops") for kind in ("ordinary", "hard")],
    ),
    Goal(
        "from 1,000 strings, ordinary / hard, to a stream",
        5,
        "ms",
        [("compile stops", f"1,000 {kind} stops") for kind in ("ordinary", "hard")],
    ),
)
