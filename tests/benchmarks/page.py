"""Writes what a report found into the documentation: tables, pictures, and the report itself.

    python -m tests.benchmarks.page [REPORT]

``REPORT`` is what ``python -m tests.benchmarks --peers FOLDER --json REPORT`` wrote; without it the
one of the documentation is taken again. Nobody types a figure of that page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from tests.benchmarks.book import Book, duration, number, size, table, times
from tests.benchmarks.entrants import HF, OURS
from tests.benchmarks.picture import PICTURES

__all__ = ["GOALS", "PAGE", "REPORT", "SUBJECTS", "TABLES", "files", "main"]

_DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = _DOCS / "explanation" / "performance.md"
REPORT = _DOCS / "explanation" / "performance.json"
IMAGES = _DOCS / "images"

SUBJECTS = {"deepseek-v3": "DeepSeek-V3", "mistral-7b-v0.1": "Mistral-7B"}
"""Byte-level BPE, and SentencePiece's BPE with byte fallback."""
LEVEL, FALLBACK = SUBJECTS
WORKLOADS = ("code", "mix")
NO_STOPS = f"{HF} (matches no stops)"
SHORT = {"transformers TextIteratorStreamer": "transformers streamer"}
PEERS = (
    "mlx-lm BPE",
    "mlx-lm SPM",
    "vLLM Fast",
    "mlx-lm naive",
    "transformers TextIteratorStreamer",
    "SGLang, batch of 32",
    "SGLang, batch of 1",
    "vLLM Slow",
)

# --- goals ----------------------------------------------------------------------------------------


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


def _goals(book: Book) -> str:
    head = ["", "goal", *SUBJECTS.values(), ""]
    return table(head, (goal.row(book) for goal in GOALS))


# --- tables ---------------------------------------------------------------------------------------


def _setting(book: Book) -> str:
    shares = [note for note in book.data["notes"] if ", mix: " in note and "whole char" in note]
    return f"Measured {book.setting}.\n\n" + "".join(f"- {share}\n" for share in shares)


def _steps(book: Book) -> str:
    """Everyone without stops."""
    head = ["", *(f"{name}, {each}" for name in SUBJECTS.values() for each in WORKLOADS)]
    names = [OURS, HF, *PEERS]
    rows = [[SHORT.get(name, name), *_step_cells(book, name)] for name in names]
    return table(head, rows) + _FOOTNOTE


_FOOTNOTE = "\n\\* its text is not that of `Tokenizer.decode`.\n"


def _step_cells(book: Book, name: str) -> Iterator[str]:
    for subject in SUBJECTS:
        for workload in WORKLOADS:
            yield _cell(book, subject, f"peers, {workload}", name, OURS)


def _cell(book: Book, subject: str, case: str, name: str, ours: str) -> str:
    """A time, and how many times ours it is."""
    figure = book.get(subject, case, name) or book.starting(subject, case, name)
    beside = book.value(subject, case, ours)
    if figure is None or beside is None:
        return "–"
    mark = "\\*" if "text" in figure.get("remark", "") else ""
    time = duration(figure["value"])
    if name == ours:
        return f"**{time}**"
    return f"{time} ({times(figure['value'] / beside)}){mark}"


def _stops(book: Book) -> str:
    """Those that match stops, on code."""
    names = ("vLLM Fast", "vLLM Slow", "SGLang, batch of 1")
    head = ["", OURS, *names]
    rows = []
    for subject, title in SUBJECTS.items():
        for count in ("4", "64", "1,000"):
            for kind in ("ordinary", "hard"):
                case = f"peers with {count} {kind} stops, code"
                ours = f"{OURS}, {count} {kind} stops"
                cells = [_cell(book, subject, case, name, ours) for name in (ours, *names)]
                rows.append([f"{title}, {count} {kind}", *cells])
    return table(head, rows)


def _withheld(book: Book) -> str:
    names = (OURS, "SGLang, batch of 1", "vLLM Fast", "a fixed window")
    cases = [
        f"4 {kind} stops, {workload}" for kind in ("ordinary", "hard") for workload in WORKLOADS
    ]
    head = [f"{SUBJECTS[LEVEL]}, characters", *cases]
    rows = [
        [name, *(_plain(book.value(LEVEL, f"peers, withheld, {case}", name)) for case in cases)]
        for name in names
    ]
    return table(head, rows)


def _plain(value: float | None, form: Callable[[float], str] = number) -> str:
    return "–" if value is None else form(value)


def _growth(book: Book) -> str:
    sizes = ("512", "2,048", "8,192", "32,768")
    head = [f"{SUBJECTS[LEVEL]}, code", *(f"{each} tokens" for each in sizes)]
    rows = []
    for name in (OURS, HF, *PEERS):
        case = "growth, code" if name in (OURS, HF) else "peers, growth, code"
        values = [book.value(LEVEL, case, f"{name}, {each} tokens") for each in sizes]
        if any(value is not None for value in values):
            rows.append([SHORT.get(name, name), *(_plain(value, duration) for value in values)])
    return table(head, rows)


def _lone(book: Book) -> str:
    sizes = ("64", "256", "1,024", "4,096")
    head = [f"{SUBJECTS[LEVEL]}, lone bytes", *(f"{each} tokens" for each in sizes)]
    rows = []
    for name in (OURS, HF, *PEERS):
        cells = [
            _cell(book, LEVEL, f"peers, lone bytes, {each} tokens", name, OURS) for each in sizes
        ]
        if any(cell != "–" for cell in cells):
            rows.append([SHORT.get(name, name), *cells])
    return table(head, rows) + _FOOTNOTE


def _memory(book: Book) -> str:
    head = [f"{SUBJECTS[LEVEL]}, code", "1,024 tokens", "8,192 tokens"]
    rows = []
    for name in (OURS, HF, *PEERS):
        for suffix in ("", ", 4 stops"):
            what = f"{name}{suffix}"
            cells = [
                _plain(book.value(LEVEL, "peers, memory, code", f"{what}, {each}"), size)
                for each in head[1:]
            ]
            if any(cell != "–" for cell in cells):
                rows.append([SHORT.get(name, name) + suffix, *cells])
    return table(head, rows)


def _beginnings(book: Book) -> str:
    """What is done once for a tokenizer or a set of stops."""
    rows = [
        ("`Tokenizer.from_file`", "load", "Tokenizer.from_file"),
        ("streamdec: ready for the first token", "load", f"{OURS}, table ready"),
        ("streamdec: from 4 new stops to a stream", "compile stops", "4 ordinary stops"),
        ("streamdec: from 1,000 new stops to a stream", "compile stops", "1,000 ordinary stops"),
        ("transformers: its tokenizer", "peers, load", "transformers, the tokenizer"),
        ("mlx-lm: tables of the BPE detokenizer", "peers, load", "mlx-lm BPE, tables"),
        ("mlx-lm: tables of the SPM detokenizer", "peers, load", "mlx-lm SPM, tables"),
        ("transformers: `StopStringCriteria` of 4 stops", _ALONE, f"{_CRITERIA}, tables"),
    ]
    head = ["", *SUBJECTS.values()]
    return table(
        head,
        (
            [title, *(_plain(book.value(each, case, what), _milliseconds) for each in SUBJECTS)]
            for title, case, what in rows
        ),
    )


_ALONE = "peers with 4 ordinary stops, a check alone"
_CRITERIA = "transformers StopStringCriteria"


def _milliseconds(value: float) -> str:
    return duration(value * 1e6)


def _cold_table(book: Book) -> str:
    """What was never seen, beside the library without stops."""
    cold = "cold stops, code, 1,024 tokens"
    unseen = "unseen code after 299,008 tokens"
    rows = [
        *((f"stops of one stream alone: {w}", cold, w) for w in _SETS),
        *((f"code never seen before: {w}", unseen, w) for w in ("0 ordinary stops", *_SETS)),
    ]
    head = ["", *SUBJECTS.values()]
    lines = []
    for title, case, what in rows:
        cells = [_plain(book.value(each, case, f"{what} / {NO_STOPS}"), times) for each in SUBJECTS]
        if any(cell != "–" for cell in cells):
            lines.append([title, *cells])
    return table(head, lines)


_SETS = tuple(
    f"{count} {kind} stops" for kind in ("ordinary", "hard") for count in ("4", "64", "1,000")
)


def _around(book: Book) -> str:
    names = (
        "a step with 4 stops",
        "a turn of asyncio's loop",
        "a chunk as JSON in a server-sent event",
    )
    rows = (
        [name, *(_plain(book.value(each, "around a step", name), duration) for each in SUBJECTS)]
        for name in names
    )
    return table(["", *SUBJECTS.values()], rows)


def _asynchronous(book: Book) -> str:
    cases = (
        ("an asynchronous generator alone", "async, code", "nothing"),
        ("a generator around it that passes on", "async, code", "a wrapper that does nothing"),
        ("streamdec, no stops", "async, code", f"{OURS}, no stops"),
        ("streamdec, 4 stops", "async, code", OURS),
        ("streamdec, 4 stops, four tokens at a time", "async, code", f"{OURS}, four at a time"),
        ("streamdec, 4 stops, with `idle_timeout`", "async, code", f"{OURS}, idle_timeout"),
        ("from task to task: a feed, a token a wake", _HANDED, "a feed, 1 tokens a wake"),
        ("from task to task: a feed, 4 tokens a wake", _HANDED, "a feed, 4 tokens a wake"),
        ("from task to task: a queue of anyio", _HANDED, "anyio's memory stream of 64, a token"),
    )
    rows = (
        [title, *(_plain(book.value(each, case, what), duration) for each in SUBJECTS)]
        for title, case, what in cases
    )
    return table(["", *SUBJECTS.values()], rows)


_HANDED = "hand-over, asyncio"

TABLES: Mapping[str, Callable[[Book], str]] = {
    "setting": _setting,
    "goals": _goals,
    "steps": _steps,
    "stops": _stops,
    "withheld": _withheld,
    "growth": _growth,
    "lone": _lone,
    "memory": _memory,
    "beginnings": _beginnings,
    "cold": _cold_table,
    "async": _asynchronous,
    "around": _around,
}
"""By the marks ``<!-- NAME -->`` on the page, each up to ``<!-- end -->``."""


# --- writing --------------------------------------------------------------------------------------


def files(book: Book, page: str) -> dict[Path, str]:
    """What the documentation is to be: the page around its tables, the pictures, the report."""
    # With the digits that are kept, so that the kept report gives the same again.
    book = Book.read_text(book.compact())
    for name, make in TABLES.items():
        mark = re.compile(rf"<!-- {name} -->\n.*?<!-- end -->", re.DOTALL)
        if len(mark.findall(page)) != 1:
            raise ValueError(f"the page must have one <!-- {name} --> with an <!-- end -->")
        text = f"<!-- {name} -->\n\n{make(book)}\n<!-- end -->"
        page = mark.sub(lambda _, text=text: text, page)  # type: ignore[misc]
    pictures = {IMAGES / name: draw(book) for name, draw in PICTURES.items()}
    return {PAGE: page, REPORT: book.compact(), **pictures}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes them."""
    given = sys.argv[1:] if arguments is None else arguments
    book = Book.read(Path(given[0]) if given else REPORT)
    for path, text in files(book, PAGE.read_text(encoding="utf-8")).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
