r"""Draw ``docs/images/at-work*.svg``: the same token ids in a common loop and in streamdec.

    python scripts/make_at_work_picture.py

The picture shows both programs (``LOOP`` and ``OURS``), and this script runs them. Every text in it
is what one of them printed for one of the ids. The ids are those of the README's first example, and
the tokenizer is that of ``streamdec demo``.

There is a wide picture and one for telephones, each with colours for light and for dark pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

from tokenizers import Tokenizer

from streamdec import HuggingFaceTokenizer, iter_chunks

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "streamdec" / "loading" / "demo" / "tokenizer.json"
IMAGES = ROOT / "docs" / "images"

TEXT = "An owl 🦉 is up.\nUser: Who?"
STOP = "\nUser:"
LOOP = """\
text = ""
for token_id in token_ids:
    piece = tokenizer.decode([token_id])
    text += piece
    if stop in text:
        break
    print(piece, end="")
"""
OURS = """\
for chunk in iter_chunks(
    token_ids, tokenizer, stop=stop
):
    print(chunk.text, end="")
"""
BROKEN = "\N{REPLACEMENT CHARACTER}"

# --- what the two programs print ------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """The ids up to the stop, and what each program printed after each of them."""

    token_ids: Sequence[int]
    labels: Sequence[str]
    """The text of each id, or its bytes in hex if they are not UTF-8."""
    loop: Sequence[str]
    ours: Sequence[str]


def run() -> Run:
    """Run both programs on the same ids."""
    library = Tokenizer.from_file(str(TOKENIZER))
    token_ids = library.encode(TEXT).ids
    loop = _printed(LOOP, token_ids, tokenizer=library)
    ours = _printed(OURS, token_ids, tokenizer=HuggingFaceTokenizer(library))
    read = max(len(loop), len(ours))
    loop += [""] * (read - len(loop))
    ours += [""] * (read - len(ours))
    data = HuggingFaceTokenizer(library)
    labels = [_label(data.token_bytes(token_id) or b"") for token_id in token_ids[:read]]
    return Run(token_ids[:read], labels, loop, ours)


def _printed(code: str, token_ids: Sequence[int], **names: Any) -> list[str]:
    """Run ``code``, and return what it printed between one id and the next."""
    printed: list[str] = []

    def read() -> Iterator[int]:
        for token_id in token_ids:
            printed.append("")
            yield token_id

    def note(text: str, end: str) -> None:
        printed[-1] += text + end

    names |= {"token_ids": read(), "stop": STOP, "print": note, "iter_chunks": iter_chunks}
    exec(code, names)  # one of the two programs above
    return printed


def _label(data: bytes) -> str:
    try:
        return shown(data.decode())
    except UnicodeDecodeError:
        space = data.startswith(b" ")
        return "·" * space + data[space:].hex(" ")


def shown(text: str) -> str:
    """``text`` with visible spaces and line feeds."""
    return text.replace("\n", "\\n").replace(" ", "·")


# --- drawing --------------------------------------------------------------------------------------

EDGE, INSET, GAP = 20, 16, 16
CODE_LINE, TEXT_LINE, ROW = 18, 23, 30


class Layout(NamedTuple):
    """The width of a picture, and whether its parts are beside each other."""

    width: int
    wide: bool


LAYOUTS: Mapping[str, Layout] = {
    "at-work.svg": Layout(760, wide=True),
    "at-work-narrow.svg": Layout(400, wide=False),
}
LABELS = 'aria-labelledby="title description"'
TITLE = "The same token ids in a common loop and in streamdec"
STYLE = """
  .ground { fill: #ffffff; stroke: #d8dee6 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
    fill: #1f2933; white-space: pre }
  .title { font-size: 17px; font-weight: 650 }
  .small { fill: #5b6774 }
  .head { font-size: 14px; font-weight: 650 }
  .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
    monospace }
  .code { font-size: 12.5px; fill: #46525f }
  .cell { font-size: 13px; text-anchor: middle }
  .id, .wait { font-size: 11px; fill: #6b7785; text-anchor: middle }
  .end { text-anchor: end }
  .output { font-size: 16px }
  .pane { fill: #f5f7fa; stroke: #e4e9ef }
  .rule { fill: #dbe1e8 }
  .box { fill: #eef1f5 }
  .good { fill: #e3effc }
  .bad { fill: #fde7dd }
  .ours { fill: #0b62d0 }
  .wrong { fill: #b93815 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0f151c; stroke: #2a3542 }
    text { fill: #e6ebf1 }
    .small { fill: #9aa7b5 }
    .code { fill: #b6c2cf }
    .id, .wait { fill: #8492a0 }
    .pane { fill: #151d26; stroke: #222c37 }
    .rule { fill: #2c3845 }
    .box { fill: #1d2732 }
    .good { fill: #17304d }
    .bad { fill: #43231a }
    .ours { fill: #6cb2ff }
    .wrong { fill: #ff9a5c }
  }
"""


def picture(run: Run, versions: str, layout: Layout) -> str:
    """The drawing of a run that was made with ``versions``."""
    drawing = Drawing(run, layout)
    drawing.draw()
    width, height = layout.width, round(drawing.y)
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    ground = f'x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" {LABELS}>',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="description">{escape(description(run))}</desc>',
        f"<metadata>{escape(versions)}</metadata>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" {ground}/>',
        *drawing.body,
        "</svg>",
    ]
    return "".join(f"{line}\n" for line in lines)


def description(run: Run) -> str:
    """The picture in words."""
    return (
        f"Two programs read {len(run.token_ids)} token ids. The loop that decodes each id alone "
        f"prints {''.join(run.loop)!r}. streamdec prints {''.join(run.ours)!r}. "
        f"The stop string is {STOP!r}."
    )


def versions() -> str:
    """The library that decodes in the loop."""
    return f"tokenizers {version('tokenizers')}"


def recorded_versions(drawing: str) -> str:
    """The library that a drawing was made with."""
    (found,) = re.findall(r"<metadata>(.*)</metadata>", drawing)
    return str(found)


@dataclass
class Drawing:
    """A drawing of one run, from the top down. ``y`` is where the next part begins."""

    run: Run
    layout: Layout
    y: float = 0
    body: list[str] = field(default_factory=list)

    def draw(self) -> None:
        """Draw the title, the two programs with their outputs, and the tokens."""
        lines = [TITLE] if self.layout.wide else ["The same token ids", "in two programs"]
        for line in lines:
            self.y += 22 if self.y else 34
            self._text(EDGE, self.y, line, "title")
        self.y += 24
        self._text(EDGE, self.y, f'The stop string is "{shown(STOP)}".', "small")
        self.y += 16
        self._programs()
        self.y += 18
        if self.layout.wide:
            self._tokens_across()
        else:
            self._tokens_down()
        self.y += 16

    # --- the programs

    def _programs(self) -> None:
        width = self.layout.width - 2.0 * EDGE
        if self.layout.wide:
            width = (width - GAP) / 2
        top = self.y
        self._program("a common loop", LOOP, EDGE, width)
        if self.layout.wide:
            self.y = top
            self._program("streamdec", OURS, EDGE + width + GAP, width)
        else:
            self.y += GAP
            self._program("streamdec", OURS, EDGE, width)

    def _leak(self) -> str:
        """The end of the loop's output that is the beginning of the stop."""
        theirs = "".join(self.run.loop)
        return next(
            theirs[-n:] for n in range(len(STOP), -1, -1) if theirs.endswith(STOP[:n]) or not n
        )

    def _program(self, title: str, code: str, x: float, width: float) -> None:
        """The pane of a program: its code, and what it printed."""
        ours = code is OURS
        rows = LOOP.count("\n") if self.layout.wide else code.count("\n")
        printed = 1 if ours and not self.layout.wide else 2
        height = 44 + CODE_LINE * rows + 12 + TEXT_LINE * printed + 12
        self._rect("pane", x, self.y, width, height, 8)
        self._text(x + INSET, self.y + 26, title, "head ours" if ours else "head")
        for row, line in enumerate(code.splitlines()):
            self._text(x + INSET, self.y + 52 + CODE_LINE * row, line, "mono code")
        self._rect("rule", x + INSET, self.y + 45 + CODE_LINE * rows, width - 2 * INSET, 1, 0)
        below = self.y + height - TEXT_LINE * printed + 7
        if ours:
            self._output("streamdec", "".join(self.run.ours), "", x, below)
        else:
            self._output("loop", "".join(self.run.loop), self._leak(), x, below)
            for row, what in enumerate(("broken character", "part of the stop")):
                place = below + TEXT_LINE * row
                self._text(x + width - INSET, place, what, "end wrong")
        self.y += height

    def _output(self, by: str, text: str, leak: str, x: float, y: float) -> None:
        """What a program printed. Wrong are broken characters, and ``leak`` at the end."""
        place = 0
        for row, line in enumerate(text.split("\n")):
            spans = ""
            for part in re.findall(f"{BROKEN}+|[^{BROKEN}]+", line):
                wrong = BROKEN in part or (leak and place >= len(text) - len(leak))
                kind = "wrong" if wrong else "right"
                spans += f'<tspan class="{kind}">{escape(part)}</tspan>'
                place += len(part)
            place += 1
            at = f'x="{x + INSET:.1f}" y="{y + TEXT_LINE * row:.1f}"'
            self.body.append(f'<text {at} class="mono output" data-by="{by}">{spans}</text>')

    # --- the tokens

    def _rows(self) -> Iterator[tuple[str, int, tuple[str, str], tuple[str, str]]]:
        """Each token, its id, and the text and class of both programs."""
        last = len(self.run.token_ids) - 1
        leaked = len("".join(self.run.loop)) - len(self._leak())
        place = 0
        for number, (label, token_id, theirs, ours) in enumerate(
            zip(self.run.labels, self.run.token_ids, self.run.loop, self.run.ours, strict=True)
        ):
            wrong = bool(theirs) and (BROKEN in theirs or place >= leaked)
            place += len(theirs)
            yield (
                label,
                token_id,
                (shown(theirs) or "stop", "bad" if wrong else "box" if theirs else ""),
                (shown(ours) or ("stop" if number == last else "wait"), "good" if ours else ""),
            )

    def _tokens_across(self) -> None:
        rows = [*self._rows()]
        widths = [
            max(31.0, 8.0 * max(len(label), len(theirs[0]), len(ours[0])) + 7)
            for label, _, theirs, ours in rows
        ]
        space = (self.layout.width - 2 * EDGE - sum(widths)) / (len(rows) - 1)
        top = self.y
        for part, title in enumerate(("each token and its id", "the loop", "streamdec")):
            self._text(EDGE, top + 12 + part * 56 + (part > 0) * 18, title, "small")
        x = float(EDGE)
        for (label, token_id, theirs, ours), width in zip(rows, widths, strict=True):
            self._cell(x, top + 20, width, label, "box")
            self._text(x + width / 2, top + 62, str(token_id), "id")
            self._cell(x, top + 94, width, *theirs)
            self._cell(x, top + 150, width, *ours)
            x += width + space
        self.y = top + 150 + 26

    def _tokens_down(self) -> None:
        columns = (EDGE, EDGE + 84, EDGE + 164, EDGE + 266)
        for x, title in zip(columns, ("token", "id", "the loop", "streamdec"), strict=True):
            self._text(x + 8, self.y + 12, title, "small")
        self.y += 20
        for label, token_id, theirs, ours in self._rows():
            self._cell(columns[0], self.y, 76, label, "box")
            self._text(columns[1] + 20, self.y + 17, str(token_id), "id")
            self._cell(columns[2], self.y, 84, *theirs)
            self._cell(columns[3], self.y, 84, *ours)
            self.y += ROW

    def _cell(self, x: float, y: float, width: float, text: str, kind: str) -> None:
        """A box with a text; without a kind, only a grey text."""
        if kind:
            self._rect(kind, x, y, width, 26, 5)
        style = "cell wrong" if kind == "bad" else "cell" if kind else "wait"
        self._text(x + width / 2, y + 17.5, text, f"{'mono' * bool(kind)} {style}")

    # --- pieces

    def _text(self, x: float, y: float, text: str, kind: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}"'
        self.body.append(f'<text {place} class="{kind.strip()}">{escape(text)}</text>')

    def _rect(
        self, kind: str, x: float, y: float, width: float, height: float, radius: float
    ) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.body.append(f'<rect class="{kind}" {place} rx="{radius:.1f}"/>')


def pictures(run: Run, versions: str) -> dict[Path, str]:
    """Each picture by its path."""
    return {IMAGES / name: picture(run, versions, layout) for name, layout in LAYOUTS.items()}


def main() -> None:
    """Write the pictures, if the loop still fails in both ways."""
    made = run()
    loop, ours = "".join(made.loop), "".join(made.ours)
    if ours != TEXT.partition(STOP)[0]:
        raise SystemExit(f"streamdec printed {ours!r}, expected {TEXT.partition(STOP)[0]!r}")
    if BROKEN not in loop or not loop.endswith(STOP[:-1]):
        raise SystemExit(f"the loop printed {loop!r} with {versions()}: choose another text")
    for path, drawing in pictures(made, versions()).items():
        path.write_text(drawing, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
