"""Writes the README's table of figures out of the report of the documentation.

    python -m tests.benchmarks.readme

Run it after :mod:`tests.benchmarks.page`, which writes that report. A test holds the README to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.book import Book, duration, number, table, times
from tests.benchmarks.entrants import HF, OURS
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
"""Who is in the table, and how the README calls them."""
CASES: Mapping[str, tuple[str, str]] = {
    "no stops": ("peers, code", ""),
    "4 stops": ("peers with 4 ordinary stops, code", ", 4 ordinary stops"),
    "1,000 stops": ("peers with 1,000 ordinary stops, code", ", 1,000 ordinary stops"),
    "4,096 stray bytes": ("peers, lone bytes, 4,096 tokens", ""),
}
"""The columns of times: the case, and what streamdec's figure has behind its name in it."""
HELD = "peers, withheld, 4 ordinary stops, code"
MARK = re.compile(r"<!-- figures -->\n.*?<!-- end -->", re.DOTALL)


def written(text: str, book: Book) -> str:
    """The README ``text`` with the table as it should be."""
    if len(MARK.findall(text)) != 1:
        raise ValueError("the README must have one <!-- figures --> with an <!-- end -->")
    return MARK.sub(lambda _: f"<!-- figures -->\n\n{_table(book)}\n<!-- end -->", text)


ENTRY_POINTS: Sequence[tuple[str, str, str]] = (
    ("`DecodeStream.step`", "entry, code", "step"),
    ("`iter_chunks(ids, tokenizer)`", "entry, code", "iter_chunks"),
    ("the same with 4 stops", "entry, code", "iter_chunks, 4 stops"),
    ("the same with `return_token_ids`", "entry, code", "iter_chunks, return_token_ids"),
    ("`async for` over `stream`, 4 stops, the engine's generator included", "async, code", OURS),
    ("a round of `DecoderPool`, 1,000 requests", "pools, 1,000 requests", "a round of a pool"),
    ("the same with sinks", "pools, 1,000 requests", "a round with sinks that count"),
    ("a chunk as an event of OpenAI's chat API", "entry, code", "a chat event as bytes"),
)
"""What people call: the title, the case, and the figure."""


def _entry_points(book: Book) -> str:
    """What a call costs for each token, beside the library's own stream in the same run."""
    library = book.value(SUBJECT, "entry, code", HF)
    rows = []
    for title, case, what in ENTRY_POINTS:
        value = book.value(SUBJECT, case, what)
        if value is not None and library is not None:
            ratio = times(value / library).replace(" ×", "\N{NO-BREAK SPACE}×")
            rows.append([title, duration(value), ratio])
    if library is not None:
        rows.append(["tokenizers' `DecodeStream`, which matches no stops", duration(library), "1"])
    return table(["CPU time a token, code, DeepSeek-V3", "", "beside the library"], rows)


def _table(book: Book) -> str:
    head = ["CPU time a token", *CASES, "withheld, 4 stops"]
    rows = [[title, *_times(book, name), _held(book, name)] for name, title in NAMES.items()]
    engines = f"{table(head, rows)}{FOOTNOTE}"
    return f"{_entry_points(book)}\n{engines}\nMeasured {book.setting}.\n"


FOOTNOTE = "\n\\* its text is not that of the tokenizer's own decode.\n"


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
            cell = f"{duration(figure['value'])} ({times(figure['value'] / ours)}){mark}"
            yield cell.replace(" ×", "\N{NO-BREAK SPACE}×")


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
