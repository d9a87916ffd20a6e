"""Draw the pictures of the documentation from a report.

    python -m tests.benchmarks.picture REPORT FOLDER

They are SVG with light and dark colours, which the reader's setting selects, and with their
own background, so that they can be read on any page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log10
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from streamdec.bench.entrants import HF, OURS
from streamdec.bench.figures import duration, times
from tests.benchmarks.book import Book

__all__ = ["PICTURES", "lone_bytes", "main", "steps"]

SUBJECT = "deepseek-v3"
TITLE = "DeepSeek-V3"
WIDTH = 880
STYLE = """
  .ground { fill: #ffffff; stroke: #d8dee6 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
    fill: #1f2933 }
  .title { font-size: 19px; font-weight: 650 }
  .small { font-size: 12px; fill: #5b6774 }
  .head { font-size: 12px; font-weight: 600; fill: #5b6774 }
  text.ours { font-weight: 650; fill: #0b62d0 }
  .end { text-anchor: end }
  .middle { text-anchor: middle }
  .figures { font-variant-numeric: tabular-nums }
  .grid { stroke: #e4e9ef }
  .link { stroke: #b3bdc9; stroke-width: 2 }
  .band { fill: #0b62d0; opacity: 0.07 }
  .line { fill: none; stroke: #9aa7b5; stroke-width: 1.75 }
  .line.ours { stroke: #0b62d0; stroke-width: 3 }
  .none { fill: #ffffff; stroke: #52606d; stroke-width: 2 }
  .few { fill: #52606d }
  .many { fill: #c2410c }
  .mark.ours.none { stroke: #0b62d0 }
  .mark.ours.few { fill: #0b62d0 }
  .dot { fill: #9aa7b5 }
  .dot.ours { fill: #0b62d0 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0f151c; stroke: #2a3542 }
    text { fill: #e6ebf1 }
    .small, .head { fill: #9aa7b5 }
    text.ours { fill: #6cb2ff }
    .grid { stroke: #222c37 }
    .link { stroke: #46525f }
    .band { fill: #6cb2ff; opacity: 0.1 }
    .line { stroke: #6b7885 }
    .line.ours { stroke: #6cb2ff }
    .none { fill: #0f151c; stroke: #b8c2cd }
    .few { fill: #b8c2cd }
    .many { fill: #ff9a5c }
    .mark.ours.none { stroke: #6cb2ff }
    .mark.ours.few { fill: #6cb2ff }
    .dot { fill: #6b7885 }
    .dot.ours { fill: #6cb2ff }
  }
"""

PEERS = (
    "mlx-lm BPE",
    "vLLM Fast",
    "transformers TextIteratorStreamer",
    "SGLang, batch of 32",
    "SGLang, batch of 1",
    "vLLM Slow",
)
LABELS = {
    HF: "tokenizers DecodeStream",
    "transformers TextIteratorStreamer": "transformers streamer",
}


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{escape(text)}</text>'


def _document(height: float, title: str, description: str, body: Iterator[str]) -> str:
    box = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": f"0 0 {WIDTH} {height:.0f}",
        "width": WIDTH,
        "height": f"{height:.0f}",
        "role": "img",
        "aria-labelledby": "title description",
    }
    ground = {"class": "ground", "x": 0.5, "y": 0.5, "width": WIDTH - 1}
    lines = [
        _tag("svg", box).replace("/>", ">"),
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="description">{escape(description)}</desc>',
        f"<style>{STYLE}</style>",
        _tag("rect", {**ground, "height": f"{height - 1:.0f}", "rx": 10}),
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _tag(name: str, attributes: Mapping[str, object]) -> str:
    written = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    return f"<{name} {written}/>"


def _line_between(kind: str, start: tuple[float, float], end: tuple[float, float]) -> str:
    ends = {"x1": start[0], "y1": start[1], "x2": end[0], "y2": end[1]}
    return _tag("line", {"class": kind, **{key: f"{value:.1f}" for key, value in ends.items()}})


def _tick(value: float) -> str:
    return duration(value).replace(".0", "")


class Axis(NamedTuple):
    """A logarithmic axis: its range of values, and its range on the picture."""

    least: float
    most: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (log10(value) - log10(self.least)) / (log10(self.most) - log10(self.least))
        return self.start + share * (self.end - self.start)

    def decades(self) -> Iterator[float]:
        """Return the powers of ten on the axis."""
        exponent = round(log10(self.least))
        while 10**exponent <= self.most * 1.01:
            yield 10.0**exponent
            exponent += 1


# --- what a token costs ---------------------------------------------------------------------------


class Row(NamedTuple):
    """A contestant, and its times without stops, with 4 and with 1,000, or None."""

    name: str
    values: Sequence[float | None]


KINDS = (("none", "no stops"), ("few", "4 stops"), ("many", "1,000 stops"))
NOTE = (
    "Logarithmic scale. Below each time: how many times that of streamdec with the same stops; "
    "all run in turns in one process. –: matches none, or, as SGLang, no more than 32."
)
TOP = 124
STEP = 38


def _rows(book: Book) -> list[Row]:
    rows = [_row(book, name) for name in (OURS, HF, *PEERS)]
    return [row for row in rows if any(row.values)]


def _row(book: Book, name: str) -> Row:
    case = "peers, {}code"
    values = []
    for stops in ("", "4", "1,000"):
        where = case.format("") if not stops else f"peers with {stops} ordinary stops, code"
        what = f"{name}, {stops} ordinary stops" if stops and name == OURS else name
        figure = book.get(SUBJECT, where, what) or book.starting(SUBJECT, where, what)
        values.append(None if figure is None else float(figure["value"]))
    return Row(name, values)


def steps(book: Book) -> str:
    """Draw dots on a logarithmic axis, and the same figures beside them."""
    rows = _rows(book)
    height = TOP + STEP * len(rows) + 108
    title = "What a token costs"
    parts = [
        f"{LABELS.get(row.name, row.name)}: "
        + ", ".join(
            f"{label} {duration(value)}"
            for (_, label), value in zip(KINDS, row.values, strict=True)
            if value is not None
        )
        for row in rows
    ]
    description = f"CPU time per token, {TITLE}'s tokenizer, code. {'; '.join(parts)}."
    return _document(height, title, description, _draw_steps(book, rows))


COLUMNS = (648, 738, 848)


def _draw_steps(book: Book, rows: Sequence[Row]) -> Iterator[str]:
    axis = Axis(10, 1_000_000, 204, 562)
    bottom = TOP + STEP * len(rows)
    yield _text(24, 38, "What a token costs", "title")
    what = (
        f"CPU time a token from id to text, {TITLE}'s tokenizer, code, warm; the stops never come"
    )
    yield _text(24, 60, what, "small")
    yield from _legend(axis)
    for value in axis.decades():
        x = axis(value)
        yield _line_between("grid", (x, TOP - 8), (x, bottom))
        yield _text(x, bottom + 18, _tick(value), "small middle")
    for (_, label), x in zip(KINDS, COLUMNS, strict=True):
        yield _text(x, TOP - 22, label, "head end")
    for place, row in enumerate(rows):
        yield from _draw_row(row, rows[0], TOP + STEP * place + STEP / 2 - 4, axis)
    notes = (NOTE, book.setting)
    for place, note in enumerate(_wrapped(notes)):
        yield _text(24, bottom + 40 + 16 * place, note, "small")


def _wrapped(notes: Sequence[str]) -> Iterator[str]:
    """Return lines that fit the width."""
    for note in notes:
        line = ""
        for word in note.split(" "):
            if len(line) + len(word) > 126:
                yield line
                line = ""
            line = f"{line} {word}".lstrip()
        yield line


def _legend(axis: Axis) -> Iterator[str]:
    x = axis.start
    for kind, label in KINDS:
        yield _mark(kind, "", x, 88)
        yield _text(x + 11, 92, label, "small")
        x += 40 + 7 * len(label)


def _mark(kind: str, who: str, x: float, y: float) -> str:
    if kind == "many":
        corners = f"{x:.1f},{y - 7:.1f} {x + 7:.1f},{y:.1f} {x:.1f},{y + 7:.1f} {x - 7:.1f},{y:.1f}"
        return f'<polygon class="mark {who} many" points="{corners}"/>'
    return f'<circle class="mark {who} {kind}" cx="{x:.1f}" cy="{y:.1f}" r="5.5"/>'


def _draw_row(row: Row, ours: Row, y: float, axis: Axis) -> Iterator[str]:
    who = "ours" if row is ours else ""
    if who:
        box = {"x": 12, "y": f"{y - STEP / 2 + 2:.1f}", "width": WIDTH - 24, "height": STEP - 4}
        yield _tag("rect", {"class": "band", **box, "rx": 6})
    yield _text(24, y + 4.5, LABELS.get(row.name, row.name), who)
    known = [axis(value) for value in row.values if value is not None]
    yield _line_between("link", (min(known), y), (max(known), y))
    for (kind, _), value in zip(KINDS, row.values, strict=True):
        if value is not None:
            yield _mark(kind, who, axis(value), y)
    for value, own, x in zip(row.values, ours.values, COLUMNS, strict=True):
        if value is None:
            yield _text(x, y + 4.5, "–", "small end")
        elif own is None or row is ours:
            yield _text(x, y + 4.5, duration(value), f"end figures {who}")
        else:
            yield _text(x, y - 2, duration(value), "end figures")
            yield _text(x, y + 12, times(value / own), "small end figures")


# --- how it grows ---------------------------------------------------------------------------------

SIZES = (64, 256, 1_024, 4_096)


def lone_bytes(book: Book) -> str:
    """Draw lines: the time of a token by the number of tokens."""
    lines = {name: _line(book, name) for name in (OURS, HF, *PEERS, "mlx-lm naive")}
    lines = {name: line for name, line in lines.items() if line}
    height = 492
    title = "A run of bytes that are not a character"
    parts = [
        f"{LABELS.get(name, name)}: {duration(line[-1][1])} at {line[-1][0]:,} tokens"
        for name, line in lines.items()
    ]
    description = (
        f"CPU time per token while lone continuation bytes come, {TITLE}'s tokenizer, "
        f"by the length of the run. {'; '.join(parts)}."
    )
    return _document(height, title, description, _draw_lines(book, lines))


def _line(book: Book, name: str) -> list[tuple[int, float]]:
    points = []
    for size in SIZES:
        case = f"peers, lone bytes, {size:,} tokens"
        figure = book.get(SUBJECT, case, name) or book.starting(SUBJECT, case, name)
        if figure is not None:
            points.append((size, float(figure["value"])))
    return points


def _draw_lines(book: Book, lines: Mapping[str, Sequence[tuple[int, float]]]) -> Iterator[str]:
    across, up = Axis(SIZES[0], SIZES[-1], 84, 600), Axis(10, 1_000_000, 388, 92)
    yield _text(24, 38, "A run of bytes that are not a character", "title")
    what = (
        f"CPU time a token, {TITLE}'s tokenizer, by the length of a run of lone continuation bytes"
    )
    yield _text(24, 60, what, "small")
    for value in up.decades():
        y = up(value)
        yield _line_between("grid", (across.start, y), (across.end, y))
        yield _text(across.start - 10, y + 4, _tick(value), "small end")
    for size in SIZES:
        yield _text(across(size), up.start + 20, f"{size:,} tokens", "small middle")
    places = _apart({name: up(line[-1][1]) for name, line in lines.items()})
    for name, line in sorted(lines.items(), key=lambda item: item[0] == OURS):
        who = "ours" if name == OURS else ""
        points = [(across(size), up(value)) for size, value in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline class="line {who}" points="{path}"/>'
        for x, y in points:
            yield f'<circle class="dot {who}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>'
        label = f"{LABELS.get(name, name)}, {duration(line[-1][1])}"
        x, y = points[-1]
        yield _line_between("grid", (x + 6, y), (across.end + 24, places[name]))
        yield _text(across.end + 28, places[name] + 4.5, label, who)
    notes = ("Both scales are logarithmic.", book.setting)
    for place, note in enumerate(_wrapped(notes)):
        yield _text(24, 430 + 16 * place, note, "small")


def _apart(wanted: Mapping[str, float], least: float = 19) -> dict[str, float]:
    """Return the heights, moved so that no two labels touch."""
    places: dict[str, float] = {}
    last = float("-inf")
    for name in sorted(wanted, key=lambda name: wanted[name]):
        last = places[name] = max(wanted[name], last + least)
    return places


PICTURES: Mapping[str, Callable[[Book], str]] = {
    "performance.svg": steps,
    "lone-bytes.svg": lone_bytes,
}
"""The pictures by their file names."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw all pictures."""
    given = sys.argv[1:] if arguments is None else [*arguments]
    if len(given) != 2:
        sys.stderr.write("python -m tests.benchmarks.picture REPORT FOLDER\n")
        return 2
    book, folder = Book.read(Path(given[0])), Path(given[1])
    if not _rows(book):
        sys.stderr.write(f"{given[0]}: no times of {SUBJECT} from a run with --peers\n")
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / name).write_text(draw(book), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
