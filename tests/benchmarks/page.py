"""Write the figures of a report into the documentation: tables, pictures, and the report itself.

    python -m tests.benchmarks.page [REPORT]

``REPORT`` is the file that ``python -m tests.benchmarks --peers FOLDER --json REPORT`` wrote.
Without it, the report in the documentation is used again. No figure of these pages is typed by
hand.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from streamdec.bench.entrants import HF, OURS
from streamdec.bench.figures import duration, number, size, times
from tests.benchmarks.book import Book, table
from tests.benchmarks.entrants import NO_STOPS
from tests.benchmarks.goals import GOALS, LEVEL, SUBJECTS, WORKLOADS
from tests.benchmarks.picture import PICTURES
from tests.benchmarks.subjects import ROOT

__all__ = ["ABSENT", "GOALS_PAGE", "PAGE", "REPORT", "TABLES", "files", "lacks", "main"]

PAGE = ROOT / "docs/explanation/performance.md"
GOALS_PAGE = ROOT / "docs/explanation/performance-goals.md"
REPORT = ROOT / "docs/explanation/performance.json"
IMAGES = ROOT / "docs/images"

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
"""The peers whose versions a report must have."""

ABSENT = "–"
_FOOTNOTE = "\n\\* its text is not that of `Tokenizer.decode`.\n"

# --- tables ---------------------------------------------------------------------------------------

Form = Callable[[float], str]
Place = tuple[str, str, str]
"""The tokenizer, the case and the name of a figure."""


def _shown(book: Book, place: Place, form: Form) -> str:
    value = book.value(*place)
    return ABSENT if value is None else form(value)


def _rows(
    book: Book, rows: Iterable[tuple[str, Sequence[Place]]], form: Form = duration
) -> Iterator[list[str]]:
    """Return the rows of which at least one figure was measured."""
    for title, places in rows:
        cells = [_shown(book, place, form) for place in places]
        if any(cell != ABSENT for cell in cells):
            yield [title, *cells]


def _by_tokenizer(case: str, what: str) -> list[Place]:
    return [(subject, case, what) for subject in SUBJECTS]


_COLUMNS = [f"{name}, {each}" for name in SUBJECTS.values() for each in WORKLOADS]


def _by_text(case: str, what: str) -> list[Place]:
    return [(subject, case.format(each), what) for subject in SUBJECTS for each in WORKLOADS]


def _goals(book: Book) -> str:
    head = ["", "goal, at most", *SUBJECTS.values(), ""]
    return table(head, (goal.row(book) for goal in GOALS))


def _setting(book: Book) -> str:
    shares = [note for note in book.data["notes"] if ", mix: " in note and "whole char" in note]
    return f"Measured {book.setting}.\n\n" + "".join(f"- {share}\n" for share in shares)


def _entry(book: Book) -> str:
    """The entry points, and what they are compared with."""
    rows = (
        ("`DecodeStream.step`", "step"),
        ("`StopSequenceDecoder.step`, 4 stops", "step with 4 stops"),
        ("`StopSequenceDecoder.step`, a pattern", "step with a pattern"),
        ("`step_batch` of one id", "step_batch of one id"),
        ("`iter_chunks`", "iter_chunks"),
        ("`iter_chunks`, 4 stops", "iter_chunks, 4 stops"),
        ("`iter_chunks`, `return_token_ids`", "iter_chunks, return_token_ids"),
        ("`iter_chunks` over lists of 8 ids", "iter_chunks, lists of 8"),
        ("`iter_chunks` over an engine's outputs", "iter_chunks, outputs of an engine"),
        ("`stream`", "stream"),
        ("`stream`, 4 stops", "stream, 4 stops"),
        ("`stream`, 4 stops, over lists of 8 ids", "stream, 4 stops, lists of 8"),
        ("`stream`, 4 stops, `idle_timeout`", "stream, 4 stops, idle_timeout"),
        ("`wrap(DecodeStream)`", "wrap(DecodeStream)"),
        ("a chat event as bytes, for a chunk", "a chat event as bytes"),
        ("*the library's `DecodeStream.step`*", HF),
        ("*an async generator, alone*", "an async generator"),
        ("*an async generator that passes on*", "an async generator that passes on"),
    )
    places = ((title, _by_text("entry, {}", what)) for title, what in rows)
    return table(["", *_COLUMNS], _rows(book, places))


def _pools(book: Book) -> str:
    """A token of a round for many requests."""
    sizes = ("1,000", "10,000")
    names = (
        "a dict of decoders",
        "a round of a pool",
        "a round with sinks",
        "a queue and a task for each stream",
    )
    rows = ((name, [(LEVEL, f"pools, {each} requests", name) for each in sizes]) for name in names)
    head = [f"{SUBJECTS[LEVEL]}, code, 4 stops", *(f"{each} requests" for each in sizes)]
    return table(head, _rows(book, rows))


def _server(book: Book) -> str:
    case = "sockets, {} streams of 50 tokens/s"
    rows = [
        ("without sockets: `stream` with events", "server, 32 streams", "stream with events"),
        ("without sockets: the server", "server, 32 streams", "the server in this process"),
        *(
            (f"over sockets, {count} streams: {name}", case.format(count), name)
            for count in ("200", "1,000")
            for name in ("a bare application", "the server")
        ),
    ]
    places = ((title, _by_tokenizer(case, what)) for title, case, what in rows)
    return table(["", *SUBJECTS.values()], _rows(book, places))


def _steps(book: Book) -> str:
    """All contestants without stops."""
    rows = [
        [
            SHORT.get(name, name),
            *(
                _cell(book, subject, f"peers, {workload}", name, OURS)
                for subject in SUBJECTS
                for workload in WORKLOADS
            ),
        ]
        for name in (OURS, HF, *PEERS)
    ]
    return table(["", *_COLUMNS], rows) + _FOOTNOTE


def _cell(book: Book, subject: str, case: str, name: str, ours: str) -> str:
    """Return a time, and its multiple of streamdec's time."""
    figure = book.get(subject, case, name) or book.starting(subject, case, name)
    beside = book.value(subject, case, ours)
    if figure is None or beside is None:
        return ABSENT
    mark = "\\*" if "text" in figure.get("remark", "") else ""
    time = duration(figure["value"])
    if name == ours:
        return f"**{time}**"
    return f"{time} ({times(figure['value'] / beside)}){mark}"


def _stops(book: Book) -> str:
    """The contestants that match stops, on code."""
    names = ("vLLM Fast", "vLLM Slow", "SGLang, batch of 1")
    rows = []
    for subject, title in SUBJECTS.items():
        for count in ("4", "64", "1,000"):
            for kind in ("ordinary", "hard"):
                case = f"peers with {count} {kind} stops, code"
                ours = f"{OURS}, {count} {kind} stops"
                cells = [_cell(book, subject, case, name, ours) for name in (ours, *names)]
                rows.append([f"{title}, {count} {kind}", *cells])
    return table(["", OURS, *names], rows)


def _warm_stops(book: Book) -> str:
    """A step with stops as a multiple of the library's step, which matches none."""
    rows = (
        (what, _by_text("step with stops, {}", f"{what} / {NO_STOPS}"))
        for what in ("0 ordinary stops", *_SETS)
    )
    return table(["", *_COLUMNS], _rows(book, rows, times))


_SETS = tuple(
    f"{count} {kind} stops" for kind in ("ordinary", "hard") for count in ("4", "64", "1,000")
)


def _withheld(book: Book) -> str:
    names = (OURS, "SGLang, batch of 1", "vLLM Fast", "a fixed window")
    cases = [
        f"4 {kind} stops, {workload}" for kind in ("ordinary", "hard") for workload in WORKLOADS
    ]
    rows = ((name, [(LEVEL, f"peers, withheld, {case}", name) for case in cases]) for name in names)
    return table([f"{SUBJECTS[LEVEL]}, characters", *cases], _rows(book, rows, number))


def _growth(book: Book) -> str:
    sizes = ("512", "2,048", "8,192", "32,768", "1,000,000")
    rows = (
        (
            SHORT.get(name, name),
            [
                (
                    LEVEL,
                    "growth, code" if name in (OURS, HF) else "peers, growth, code",
                    f"{name}, {each} tokens",
                )
                for each in sizes
            ],
        )
        for name in (OURS, HF, *PEERS)
    )
    head = [f"{SUBJECTS[LEVEL]}, code", *(f"{each} tokens" for each in sizes)]
    return table(head, _rows(book, rows))


def _lone(book: Book) -> str:
    sizes = ("64", "256", "1,024", "4,096")
    rows = []
    for name in (OURS, HF, *PEERS):
        cells = [
            _cell(book, LEVEL, f"peers, lone bytes, {each} tokens", name, OURS) for each in sizes
        ]
        if any(cell != ABSENT for cell in cells):
            rows.append([SHORT.get(name, name), *cells])
    head = [f"{SUBJECTS[LEVEL]}, lone bytes", *(f"{each} tokens" for each in sizes)]
    return table(head, rows) + _FOOTNOTE


def _memory(book: Book) -> str:
    head = [f"{SUBJECTS[LEVEL]}, code", "1,024 tokens", "8,192 tokens"]
    rows = (
        (
            SHORT.get(name, name) + suffix,
            [(LEVEL, "peers, memory, code", f"{name}{suffix}, {each}") for each in head[1:]],
        )
        for name in (OURS, HF, *PEERS)
        for suffix in ("", ", 4 stops")
    )
    return table(head, _rows(book, rows, size))


def _beginnings(book: Book) -> str:
    """Costs that occur once for a process, a tokenizer or a set of stops."""
    first_text = "load_tokenizer to first text"
    users = "from streamdec import iter_chunks, load_tokenizer"
    rows = [
        ("`import tokenizers, anyio`", "imports", "import tokenizers, anyio"),
        ("`import streamdec`, which loads its parts on use", "imports", "import streamdec"),
        (f"`{users}`", "imports", users),
        ("`Tokenizer.from_file`", "load", "Tokenizer.from_file"),
        ("streamdec: `load_tokenizer` to the first text", "load", first_text),
        ("streamdec: from 4 new stops to a stream", "compile stops", "4 ordinary stops"),
        ("streamdec: from 1,000 new stops to a stream", "compile stops", "1,000 ordinary stops"),
        ("transformers: its tokenizer", "peers, load", "transformers, the tokenizer"),
        ("mlx-lm: tables of the BPE detokenizer", "peers, load", "mlx-lm BPE, tables"),
        ("mlx-lm: tables of the SPM detokenizer", "peers, load", "mlx-lm SPM, tables"),
        (
            "transformers: `StopStringCriteria` of 4 stops",
            "peers with 4 ordinary stops, a check alone",
            "transformers StopStringCriteria, tables",
        ),
    ]
    places = ((title, _by_tokenizer(case, what)) for title, case, what in rows)
    return table(["", *SUBJECTS.values()], _rows(book, places, lambda ms: duration(ms * 1e6)))


def _cold(book: Book) -> str:
    """Cold caches, as a multiple of the library's time without stops."""
    cold = "cold stops, code, 1,024 tokens"
    unseen = "unseen code after 299,008 tokens"
    rows = [
        *((f"new stops, known code: {what}", cold, what) for what in _SETS),
        *(
            (f"new code, known stops: {what}", unseen, what)
            for what in ("0 ordinary stops", *_SETS)
        ),
    ]
    places = ((title, _by_tokenizer(case, f"{what} / {NO_STOPS}")) for title, case, what in rows)
    return table(["", *SUBJECTS.values()], _rows(book, places, times))


def _tasks(book: Book) -> str:
    cases = (
        ("a `TokenQueue`, one token a wake", "hand-over, asyncio", "a feed, 1 tokens a wake"),
        ("a `TokenQueue`, 4 tokens a wake", "hand-over, asyncio", "a feed, 4 tokens a wake"),
        (
            "a memory stream of anyio",
            "hand-over, asyncio",
            "anyio's memory stream of 64, a token",
        ),
        ("a turn of asyncio's loop", "around a step", "a turn of asyncio's loop"),
        (
            "a chunk as JSON in a server-sent event, with `json`",
            "around a step",
            "a chunk as JSON in a server-sent event",
        ),
    )
    places = ((title, _by_tokenizer(case, what)) for title, case, what in cases)
    return table(["", *SUBJECTS.values()], _rows(book, places))


TABLES: Mapping[str, Callable[[Book], str]] = {
    "setting": _setting,
    "entry": _entry,
    "pools": _pools,
    "server": _server,
    "tasks": _tasks,
    "steps": _steps,
    "stops": _stops,
    "warm-stops": _warm_stops,
    "withheld": _withheld,
    "growth": _growth,
    "lone": _lone,
    "memory": _memory,
    "beginnings": _beginnings,
    "cold": _cold,
}
"""The tables of the page, by the marks ``<!-- NAME -->``. Each ends with ``<!-- end -->``."""


# --- writing --------------------------------------------------------------------------------------


def files(book: Book, page: str, goals_page: str) -> dict[Path, str]:
    """Return the new content of the pages, the pictures and the report."""
    # With the digits that are kept, so that the kept report gives the same again.
    book = Book.read_text(book.compact())
    pictures = {IMAGES / name: draw(book) for name, draw in PICTURES.items()}
    return {
        PAGE: _filled(page, TABLES, book),
        GOALS_PAGE: _filled(goals_page, {"goals": _goals}, book),
        REPORT: book.compact(),
        **pictures,
    }


def _filled(page: str, tables: Mapping[str, Callable[[Book], str]], book: Book) -> str:
    for name, make in tables.items():
        mark = re.compile(rf"<!-- {name} -->\n.*?<!-- end -->", re.DOTALL)
        if len(mark.findall(page)) != 1:
            raise ValueError(f"the page must have one <!-- {name} --> with an <!-- end -->")
        text = f"<!-- {name} -->\n\n{make(book)}\n<!-- end -->"
        page = mark.sub(lambda _, text=text: text, page)  # type: ignore[misc]
    return page


def lacks(book: Book) -> Iterator[str]:
    """Return the reasons why the documentation cannot be written from this report."""
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
    """Write the pages, or print why not and change nothing."""
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
    for path, text in files(book, PAGE.read_text("utf-8"), GOALS_PAGE.read_text("utf-8")).items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
