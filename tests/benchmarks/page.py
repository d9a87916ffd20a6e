"""Writes the figures of a report into the documentation: tables, pictures, and the report itself.

    python -m tests.benchmarks.page [REPORT]

``REPORT`` is what ``python -m tests.benchmarks --peers FOLDER --json REPORT`` wrote; without it the
one of the documentation is taken again. Nobody types a figure of that page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from streamdec.bench.figures import duration, number, size, times
from tests.benchmarks.book import Book, table
from tests.benchmarks.entrants import HF, OURS
from tests.benchmarks.goals import GOALS, LEVEL, NO_STOPS, SUBJECTS, WORKLOADS
from tests.benchmarks.picture import PICTURES

__all__ = ["PAGE", "REPORT", "TABLES", "files", "lacks", "main"]

_DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = _DOCS / "explanation" / "performance.md"
REPORT = _DOCS / "explanation" / "performance.json"
IMAGES = _DOCS / "images"

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

ENGINES = ("vllm", "sglang", "mlx-lm", "transformers")
"""Whose versions a report must have."""

# --- tables ---------------------------------------------------------------------------------------

_COLUMNS = [f"{name}, {each}" for name in SUBJECTS.values() for each in WORKLOADS]


def _goals(book: Book) -> str:
    head = ["", "goal", *SUBJECTS.values(), ""]
    return table(head, (goal.row(book) for goal in GOALS))


def _setting(book: Book) -> str:
    shares = [note for note in book.data["notes"] if ", mix: " in note and "whole char" in note]
    return f"Measured {book.setting}.\n\n" + "".join(f"- {share}\n" for share in shares)


def _steps(book: Book) -> str:
    """Everyone without stops."""
    head = ["", *_COLUMNS]
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


def _entry(book: Book) -> str:
    """The calls that users make, beside a step."""
    rows = (
        [title, *_entry_cells(book, "entry, {}", name)]
        for title, name in (
            ("`DecodeStream.step`", "step"),
            ("`StopSequenceDecoder.step`, 4 stops", "step with 4 stops"),
            ("`iter_chunks`", "iter_chunks"),
            ("`iter_chunks`, 4 stops", "iter_chunks, 4 stops"),
            ("`iter_chunks`, `return_token_ids`", "iter_chunks, return_token_ids"),
            ("`iter_chunks` over lists of 8 ids", "iter_chunks, lists of 8"),
            ("`DecodeStream.step_batch` of one id", "step_batch of one id"),
            ("a chat event as bytes, for a chunk", "a chat event as bytes"),
        )
    )
    return table(["", *_COLUMNS], rows)


def _entry_cells(book: Book, case: str, name: str) -> Iterator[str]:
    for subject in SUBJECTS:
        for workload in WORKLOADS:
            yield _plain(book.value(subject, case.format(workload), name), duration)


def _pools(book: Book) -> str:
    """A token of a round for many requests."""
    sizes = ("1,000", "10,000")
    names = ("a dict of decoders", "a round of a pool", "a round with sinks that count")
    rows = (
        [
            name,
            *(
                _plain(book.value(LEVEL, f"pools, {size} requests", name), duration)
                for size in sizes
            ),
        ]
        for name in names
    )
    return table(
        [f"{SUBJECTS[LEVEL]}, code, 4 stops", *(f"{size} requests" for size in sizes)], rows
    )


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
    "entry": _entry,
    "pools": _pools,
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


def lacks(book: Book) -> Iterator[str]:
    """Why the documentation cannot be written from this report."""
    if book.data["quick"]:
        yield "it is of a quick run"
    yield from (f"it has a wrong text: {failure}" for failure in book.data["failures"][:1])
    if absent := [name for name in ENGINES if name not in book.data["environment"]]:
        yield f"these did not take part (--peers): {', '.join(absent)}"
    wanted = {
        (subject, *names) for goal in GOALS for subject in goal.subjects for names in goal.where
    }
    if missing := sorted(names for names in wanted if book.get(*names) is None):
        yield f"{len(missing)} figures are missing, such as {missing[0]}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes them; or says why not, and leaves all as it is."""
    given = sys.argv[1:] if arguments is None else arguments
    path = Path(given[0]) if given else REPORT
    try:
        book = Book.read(path)
        reasons = [*lacks(book)]
    except (OSError, ValueError, LookupError, TypeError) as error:
        reasons = [f"no report of the benchmark ({type(error).__name__}: {error})"]
    if reasons:
        sys.stderr.write(f"{path}: not for the documentation: {'; '.join(reasons)}\n")
        return 1
    for path, text in files(book, PAGE.read_text(encoding="utf-8")).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
