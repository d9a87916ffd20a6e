"""Write the README's table of figures from the report in the documentation.

    python -m tests.benchmarks.readme

Run it after :mod:`tests.benchmarks.page`, which writes that report. A test compares the README.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from streamdec.bench.entrants import HF, OURS
from streamdec.bench.figures import duration, number, times
from tests.benchmarks.book import Book, table
from tests.benchmarks.page import ABSENT, REPORT
from tests.benchmarks.subjects import ROOT

__all__ = ["README", "ROWS", "main", "written"]

README = ROOT / "README.md"
SUBJECT = "deepseek-v3"
ROWS: Mapping[str, tuple[str, str]] = {
    OURS: ("streamdec, `step`", "text, counts, stops"),
    "iter_chunks": ("streamdec, `iter_chunks`", "`step`, a source, checks"),
    "stream": ("streamdec, `stream`", "the same, `async for`"),
    HF: ("tokenizers' `DecodeStream`", "text"),
    "mlx-lm BPE": ("mlx-lm", "text"),
    "vLLM Fast": ("vLLM", "text, all ids, stops"),
    "transformers TextIteratorStreamer": ("transformers' streamer", "text, a queue"),
    "SGLang, batch of 32": ("SGLang, batch of 32", "text, all ids"),
    "SGLang, batch of 1": ("SGLang, batch of 1", "text, all ids, stops"),
}
"""The rows by the names of their figures: the title, and what is included."""
ENTRY_POINTS = ("iter_chunks", "stream")
CASES: Mapping[str, tuple[str, str]] = {
    "no stops": ("peers, code", ""),
    "4 stops": ("peers with 4 ordinary stops, code", ", 4 ordinary stops"),
    "1,000 stops": ("peers with 1,000 ordinary stops, code", ", 1,000 ordinary stops"),
    "4,096 stray bytes": ("peers, lone bytes, 4,096 tokens", ""),
}
"""The columns of times: the case, and the suffix of streamdec's figure in it."""
ENTRY = "entry, code"
HELD = "peers, withheld, 4 ordinary stops, code"
MARK = re.compile(r"<!-- figures -->\n.*?<!-- end -->", re.DOTALL)


def written(text: str, book: Book) -> str:
    """Return the README ``text`` with the table of ``book``."""
    if len(MARK.findall(text)) != 1:
        raise ValueError("the README must have one <!-- figures --> with an <!-- end -->")
    return MARK.sub(lambda _: f"<!-- figures -->\n\n{_table(book)}\n<!-- end -->", text)


def _table(book: Book) -> str:
    head = ["CPU time a token", "includes", *CASES, "withheld, 4 stops"]
    rows = []
    for name, (title, includes) in ROWS.items():
        cells = _entry_times(book, name) if name in ENTRY_POINTS else _times(book, name)
        rows.append([title, includes, *cells, _held(book, name)])
    return f"{table(head, rows, texts=2)}{FOOTNOTE}\nMeasured {book.setting}.\n"


FOOTNOTE = "\n\\* The text differs from the tokenizer's own decode.\n"


def _entry_times(book: Book, name: str) -> Iterator[str]:
    """The times of an entry point, beside those of ``step`` in the same race."""
    for suffix, step in (("", "step"), (", 4 stops", "step with 4 stops")):
        time, beside = (book.value(SUBJECT, ENTRY, each) for each in (f"{name}{suffix}", step))
        yield ABSENT if time is None or beside is None else _beside(time, beside)
    yield from [ABSENT] * (len(CASES) - 2)


def _beside(time: float, ours: float) -> str:
    """Return a time, and its multiple of streamdec's time."""
    return f"{duration(time)} ({times(time / ours)})".replace(" ×", "\N{NO-BREAK SPACE}×")


def _times(book: Book, name: str) -> Iterator[str]:
    for case, suffix in CASES.values():
        ours = book.value(SUBJECT, case, f"{OURS}{suffix}")
        figure = _figure(book, case, f"{OURS}{suffix}" if name == OURS else name)
        if figure is None or ours is None:
            yield ABSENT
        elif name == OURS:
            yield f"**{duration(ours)}**"
        else:
            mark = "\\*" if "text" in figure.get("remark", "") else ""
            yield f"{_beside(figure['value'], ours)}{mark}"


def _figure(book: Book, case: str, name: str) -> Mapping[str, Any] | None:
    return book.get(SUBJECT, case, name) or book.starting(SUBJECT, case, name)


def _held(book: Book, name: str) -> str:
    """Return the characters that are withheld after a token, on average."""
    value = book.value(SUBJECT, HELD, name)
    return ABSENT if value is None else number(value)


def main() -> None:
    """Write the table."""
    text = README.read_text(encoding="utf-8")
    README.write_text(written(text, Book.read(REPORT)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
