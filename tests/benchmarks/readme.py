"""Writes the README's table of figures from the report of the documentation.

    python -m tests.benchmarks.readme

Run it after :mod:`tests.benchmarks.page`, which writes that report. A test holds the README to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from streamdec.bench.entrants import HF, OURS
from streamdec.bench.figures import duration, number, times
from tests.benchmarks.book import Book, table
from tests.benchmarks.page import REPORT

__all__ = ["README", "main", "written"]

README = Path(__file__).resolve().parents[2] / "README.md"
SUBJECT = "deepseek-v3"
NAMES: Mapping[str, str] = {
    OURS: OURS,
    HF: "tokenizers' `DecodeStream`",
    "mlx-lm BPE": "mlx-lm",
    "vLLM Fast": "vLLM",
    "transformers TextIteratorStreamer": "transformers' streamer",
    "SGLang, batch of 32": "SGLang, batch of 32",
    "SGLang, batch of 1": "SGLang, batch of 1",
}
"""The contestants of the table, and their names in the README."""
CASES: Mapping[str, tuple[str, str]] = {
    "no stops": ("peers, code", ""),
    "4 stops": ("peers with 4 ordinary stops, code", ", 4 ordinary stops"),
    "1,000 stops": ("peers with 1,000 ordinary stops, code", ", 1,000 ordinary stops"),
    "4,096 stray bytes": ("peers, lone bytes, 4,096 tokens", ""),
}
"""The columns of times: the case, and the suffix of streamdec's figure in it."""
ENTRY = "entry, code"
ENTRY_FIGURES = ("iter_chunks", "iter_chunks, 4 stops")
"""The figures of the entry point that the README shows, for the first columns."""
HELD = "peers, withheld, 4 ordinary stops, code"
MARK = re.compile(r"<!-- figures -->\n.*?<!-- end -->", re.DOTALL)


def written(text: str, book: Book) -> str:
    """The README ``text`` with the table as it should be."""
    if len(MARK.findall(text)) != 1:
        raise ValueError("the README must have one <!-- figures --> with an <!-- end -->")
    return MARK.sub(lambda _: f"<!-- figures -->\n\n{_table(book)}\n<!-- end -->", text)


def _table(book: Book) -> str:
    head = ["CPU time a token", *CASES, "withheld, 4 stops"]
    rows = [[title, *_times(book, name), _held(book, name)] for name, title in NAMES.items()]
    rows.insert(1, [f"{OURS}, `iter_chunks`", *_entry_times(book), "–"])
    return f"{table(head, rows)}{FOOTNOTE}\nMeasured {book.setting}.\n"


FOOTNOTE = "\n\\* its text is not that of the tokenizer's own decode.\n"


def _entry_times(book: Book) -> Iterator[str]:
    for (case, suffix), name in zip_longest(CASES.values(), ENTRY_FIGURES):
        step = book.value(SUBJECT, case, f"{OURS}{suffix}")
        time = book.value(SUBJECT, ENTRY, name) if name else None
        yield "–" if time is None or step is None else _beside(time, step)


def _beside(time: float, ours: float) -> str:
    """A time, and how many times ours it is."""
    return f"{duration(time)} ({times(time / ours)})".replace(" ×", "\N{NO-BREAK SPACE}×")


def _times(book: Book, name: str) -> Iterator[str]:
    for case, suffix in CASES.values():
        ours = book.value(SUBJECT, case, f"{OURS}{suffix}")
        figure = _figure(book, case, f"{OURS}{suffix}" if name == OURS else name)
        if figure is None or ours is None:
            yield "–"
        elif name == OURS:
            yield f"**{duration(ours)}**"
        else:
            mark = "\\*" if "text" in figure.get("remark", "") else ""
            yield f"{_beside(figure['value'], ours)}{mark}"


def _figure(book: Book, case: str, name: str) -> Mapping[str, Any] | None:
    return book.get(SUBJECT, case, name) or book.starting(SUBJECT, case, name)


def _held(book: Book, name: str) -> str:
    """Characters that were decoded and had not gone out, on average after each token."""
    value = book.value(SUBJECT, HELD, name)
    return "–" if value is None else number(value)


def main() -> None:
    """Writes the table."""
    text = README.read_text(encoding="utf-8")
    README.write_text(written(text, Book.read(REPORT)), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
