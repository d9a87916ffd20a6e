"""The goals of the second edition, set before its code, and the figures that decide about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from tests.benchmarks.book import Book, number
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


def _with_stops(kind: str, workload: str, counts: Sequence[str], bound: float) -> Goal:
    where = [
        (f"step with stops, {workload}", f"{count} {kind} stops / {NO_STOPS}") for count in counts
    ]
    listed = " / ".join(counts)
    what = f"a step with {listed} {kind} stops beside the library's without, {workload}"
    return Goal(what, bound, "×", where, (LEVEL,))


def _entry(one: str, other: str, bound: float) -> Goal:
    return Goal(
        f"{one} beside {other}, code / mix", bound, "×", _both("entry, {}", f"{one} / {other}")
    )


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
        "a step beside the library's, code", 0.11, "×", [("step, code", f"{OURS} / {HF}")], (LEVEL,)
    ),
    Goal(
        "a step beside the library's, mix", 0.15, "×", [("step, mix", f"{OURS} / {HF}")], (LEVEL,)
    ),
    _with_stops("ordinary", "code", ("4", "64", "1,000"), 0.15),
    _with_stops("ordinary", "mix", ("4", "64", "1,000"), 0.18),
    _with_stops("hard", "code", ("4",), 0.20),
    _with_stops("hard", "code", ("1,000",), 0.25),
    _cold("ordinary", 0.45),
    _cold("hard", 0.6),
    Goal(
        "1,000 tenants with stops of their own, beside one",
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
    _entry("step_batch of one id", "step", 1.3),
    _entry("iter_chunks", "step", 2.5),
    _entry("iter_chunks", HF, 0.35),
    _entry("iter_chunks, lists of 8", "iter_chunks", 1.0),
    _entry("iter_chunks, return_token_ids", "iter_chunks", 1.5),
    _entry("a chat event as bytes", "step", 3.0),
    Goal(
        "`stream` over a source that never waits, beside a generator that passes on, code / mix",
        2.0,
        "×",
        _both("async, {}", f"{OURS} / a wrapper that does nothing"),
    ),
    Goal(
        "a round of a pool beside a dict of decoders, 1,000 requests",
        1.2,
        "×",
        [("pools, 1,000 requests", "a round of a pool / a dict of decoders")],
    ),
    Goal(
        "a token of a round with sinks, 1,000 requests",
        1_000,
        "ns",
        [("pools, 1,000 requests", "a round with sinks that count")],
    ),
    Goal(
        "a token of a round with sinks, 10,000 requests",
        1_300,
        "ns",
        [("pools, 10,000 requests", "a round with sinks that count")],
    ),
    Goal(
        "`from streamdec import iter_chunks, load_tokenizer` beside `import tokenizers, anyio`",
        1.8,
        "×",
        [("imports", "streamdec / its dependencies")],
    ),
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
        "bytes of a stream of 1,024 / 32,768 tokens of code",
        400,
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
        0.02,
        "ms",
        [("compile stops", f"4 {kind} stops") for kind in ("ordinary", "hard")],
    ),
    Goal(
        "from 1,000 strings, ordinary / hard, to a stream",
        2,
        "ms",
        [("compile stops", f"1,000 {kind} stops") for kind in ("ordinary", "hard")],
    ),
)
