r"""Draws ``docs/images/at-work*.svg``: one stream of ids through two decoders, step by step.

    python scripts/make_at_work_picture.py

Nothing of the picture is typed: the ids go through ``tokenizers.decoders.DecodeStream`` and through
streamdec, and what each of them gave is drawn. The tokenizer is that of ``streamdec demo``.

The case: a limit ended an answer within a character, and another request goes on with it (a button
that says "continue", a worker that takes over), up to a stop string. Both decoders are given the
ids of the prompt, as vLLM gives them. ``DecodeStream`` matches no stops, so its text is searched
for the stop before each piece goes out, as those do who use it.

The picture shows the end for a while and then how it came about, three times, and stays at the end.
Where it does not play, or the reader asks for less motion, the end is all it shows. There is a wide
one and one for telephones, each with two sets of colours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple
from xml.sax.saxutils import escape

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream as LibraryStream

from streamdec import (
    DecodeStream,
    HuggingFaceTokenizer,
    StopConditions,
    StopReason,
    StopSequenceDecoder,
)
from streamdec.trace import TokenRecord, Tracer

ROOT = Path(__file__).resolve().parent.parent
TOKENIZER = ROOT / "streamdec" / "cli" / "data" / "demo_tokenizer.json"
IMAGES = ROOT / "docs" / "images"

CONVERSATION = (
    "<|im_start|>system\nNever tell the door code, 4711.<|im_end|>\n"
    "<|im_start|>user\nWho is up at night?<|im_end|>\n"
    "<|im_start|>assistant\nThe owl "
)
ANSWER = "🦉 is up at night."
STOP = "\nUser:"
GOES_ON = " And"

# --- what the two give ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """What one id gave."""

    token: TokenRecord
    """What streamdec gave for it, and withheld after it."""
    theirs: str
    """What the library's stream gave, less what a search for the stop finds in time."""


@dataclass(frozen=True)
class Run:
    """The same ids through both."""

    prompt: Sequence[TokenRecord]
    steps: Sequence[Step]
    echo: str
    """The text of the prompt, if the library's stream gave it; else empty."""
    leak: str
    """What it gave of the stop."""
    stop_reason: StopReason

    @property
    def ours(self) -> str:
        """All that streamdec gave."""
        return "".join(step.token.text for step in self.steps)

    @property
    def theirs(self) -> str:
        """All that the library's stream gave."""
        return "".join(step.theirs for step in self.steps)


def run() -> Run:
    """Drives both, and says where the library's stream went wrong."""
    library = Tokenizer.from_file(str(TOKENIZER))
    ids = library.encode(CONVERSATION + ANSWER + STOP + GOES_ON).ids
    # The limit: the first token that ends within a character is the last of the prompt.
    limit = next(
        n for n in range(len(ids)) if library.decode(ids[:n]).endswith("\N{REPLACEMENT CHARACTER}")
    )
    prompt, generated = ids[:limit], ids[limit:]
    pieces = [*_library_pieces(library, prompt, generated)]
    ours = _our_records(HuggingFaceTokenizer(library), prompt, generated)
    steps = [Step(token, piece) for token, piece in zip(ours, pieces, strict=True)]
    theirs = "".join(pieces)
    begun = library.decode(prompt).rstrip("\N{REPLACEMENT CHARACTER}")
    echo = begun if theirs.startswith(begun) else ""
    leak = theirs.removeprefix(echo).removeprefix(ANSWER)
    return Run(_records(library, prompt), steps, echo, leak, ours[-1].stop_reason)


def _library_pieces(library: Tokenizer, prompt: list[int], generated: list[int]) -> Iterator[str]:
    """The library's text, up to the stop as far as it was not given out when it is found."""
    stream = LibraryStream(ids=prompt, skip_special_tokens=True)
    text = ""
    for token_id in generated:
        given = len(text)
        text += stream.step(library, token_id) or ""
        stop = text.find(STOP)
        yield text[given:] if stop < 0 else text[given : max(given, stop)]
        if stop >= 0:
            return


def _our_records(
    tokenizer: HuggingFaceTokenizer, prompt: list[int], generated: list[int]
) -> Sequence[TokenRecord]:
    conditions = StopConditions(stop=STOP)
    decoder = Tracer(StopSequenceDecoder(tokenizer, conditions, prompt_token_ids=prompt), prompt)
    for token_id in generated:
        if decoder.step(token_id).finish_reason is not None:
            break
    return decoder.trace().tokens


def _records(library: Tokenizer, ids: list[int]) -> Sequence[TokenRecord]:
    tracer = Tracer(DecodeStream(HuggingFaceTokenizer(library)))
    tracer.step_batch(ids)
    return tracer.trace().tokens


# --- when what is seen ----------------------------------------------------------------------------

REST, LEAD, STEP = 5.0, 1.2, 0.6
"""Seconds for the end, which is shown first, for what is there before the first id, for each id."""
FADE = 0.25
PLAYS = 3


class Clock:
    """The moments of the film as shares of its length."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.length = REST + LEAD + STEP * steps

    def __call__(self, step: int) -> float:
        """When a step begins, in per cent; ``steps`` is when the last is over."""
        return self._share(REST + LEAD + STEP * step)

    def _share(self, seconds: float) -> float:
        return 100 * seconds / self.length

    def styles(self) -> Iterator[str]:
        """``.s3`` is what step 3 gave: it is seen at rest, and from then on to the end."""
        seen, clear, hidden = (
            f"{{ visibility: {visibility}; fill-opacity: {opacity} }}"
            for visibility, opacity in (("visible", 1), ("visible", 0), ("hidden", 0))
        )
        gone = [self._share(REST), self._share(REST + FADE)]
        for step in range(self.steps):
            start = self(step)
            yield (
                f"@keyframes s{step} {{ 0%, {gone[0]:.2f}% {seen} {gone[1]:.2f}% {hidden} "
                f"{start:.2f}% {hidden} {start + 0.01:.2f}% {clear} "
                f"{start + self._share(FADE):.2f}%, 100% {seen} }}"
            )
            yield f".s{step} {{ animation: s{step} {self.length:.1f}s linear {PLAYS} }}"

    def between(self, start: int, end: int) -> tuple[str, str]:
        """The class of what is seen from one step up to another and not at rest; its rules."""
        name = f"from{start}to{end}"
        hidden, seen = "{ visibility: hidden }", "{ visibility: visible }"
        rules = (
            f"@keyframes {name} {{ 0%, 100% {hidden} {self(start):.2f}% {seen} "
            f"{self(end):.2f}% {hidden} }}\n"
            f".{name} {{ visibility: hidden; "
            f"animation: {name} {self.length:.1f}s step-end {PLAYS} }}"
        )
        return name, rules


# --- drawing --------------------------------------------------------------------------------------

EDGE, INSET, GAP = 20, 16, 16
LINE = 22
CHIP, CHIP_ROW = 28, 52
TAIL = 5
"""How many ids of the prompt are shown."""


@dataclass(frozen=True)
class Layout:
    """Where things go."""

    width: int
    letters: int
    """How many letters of small text a line has room for."""
    panes_beside: bool
    """Whether the two texts stand beside each other, and not one below the other."""


LAYOUTS: Mapping[str, Layout] = {
    "at-work.svg": Layout(720, 92, panes_beside=True),
    "at-work-narrow.svg": Layout(400, 50, panes_beside=False),
}

STYLE = """
  .ground { fill: #ffffff; stroke: #d8dee6 }
  text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
    fill: #1f2933; white-space: pre }
  .title { font-size: 18px; font-weight: 650 }
  .small { fill: #5b6774 }
  .head { font-size: 14px; font-weight: 650 }
  .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
    monospace }
  .id { font-size: 11px; fill: #6b7785 }
  .id, .chip { text-anchor: middle }
  .text { font-size: 15px }
  .end { text-anchor: end }
  .pane { fill: #f5f7fa; stroke: #e4e9ef }
  .box { fill: #eef1f5 }
  .new { fill: #e3effc }
  .now { fill: none; stroke: #0b62d0; stroke-width: 2 }
  .ours { fill: #0b62d0 }
  .wrong { fill: #b93815 }
  .bar { fill: #d9531e }
  .rule { fill: #cbd2d9 }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #0f151c; stroke: #2a3542 }
    text { fill: #e6ebf1 }
    .small { fill: #9aa7b5 }
    .id { fill: #8492a0 }
    .pane { fill: #151d26; stroke: #222c37 }
    .box { fill: #1d2732 }
    .new { fill: #17304d }
    .now { stroke: #6cb2ff }
    .ours { fill: #6cb2ff }
    .wrong { fill: #ff9a5c }
    .bar { fill: #ff9a5c }
    .rule { fill: #3a4653 }
  }
"""
STILL = "@media (prefers-reduced-motion: reduce) { * { animation: none !important } }"


LABELS = 'aria-labelledby="title description"'
TITLE = "The same token ids, decoded twice"
CASE = "A limit had cut this answer inside its emoji. Now it goes on, up to the stop "
NOTE = (
    "Both had the prompt's ids. DecodeStream has no stops: its text was searched for one before "
    "each piece went out. "
)


def picture(run: Run, versions: str, layout: Layout) -> str:
    """The drawing of a run that was made with ``versions``."""
    drawing = Drawing(run, layout)
    drawing.draw(versions)
    width, height = layout.width, round(drawing.y)
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    ground = f'x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="10"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} role="img" {LABELS}>',
        f'<title id="title">{TITLE}</title>',
        f'<desc id="description">{escape(description(run))}</desc>',
        f"<metadata>{escape(versions)}</metadata>",
        f"<style>{STYLE}",
        *drawing.rules,
        f"{STILL}</style>",
        f'<rect class="ground" {ground}/>',
        *drawing.body,
        "</svg>",
    ]
    return "".join(f"{line}\n" for line in lines)


def description(run: Run) -> str:
    """The picture in words, for those who do not see it."""
    return (
        "A request goes on with an answer that a limit had cut within a character. For its "
        f"{len(run.steps)} token ids DecodeStream of tokenizers, with a search for the stop "
        f"{STOP!r} in its text, gives {run.theirs!r}: the whole prompt, and {run.leak!r} of the "
        f"stop. For the same ids streamdec gives {run.ours!r}, and stops at {run.stop_reason!r}."
    )


def versions() -> str:
    """What the library's half was made with."""
    return f"tokenizers {version('tokenizers')}"


def recorded_versions(drawing: str) -> str:
    """The same, of a drawing."""
    (found,) = re.findall(r"<metadata>(.*)</metadata>", drawing)
    return str(found)


class Drawing:
    """The drawing of one run, from the top down; ``y`` is how far it has come."""

    def __init__(self, run: Run, layout: Layout) -> None:
        self.run = run
        self.layout = layout
        self.clock = Clock(len(run.steps))
        self.rules: list[str] = [*self.clock.styles()]
        self.body: list[str] = []
        self.y = 34.0

    def draw(self, versions: str) -> None:
        """All of it."""
        self._text(EDGE, self.y, TITLE, "title")
        self.y += 4
        self._paragraph(f'{CASE}"{_shown(STOP)}".')
        self.y += 26
        self._tokens()
        self._panes()
        self.y += 8
        self._paragraph(f"{NOTE}{versions}, and the tokenizer of streamdec demo.")
        self.y += 18

    # --- the tokens

    def _tokens(self) -> None:
        """The last ids of the prompt, and those that come, each a box with its number below."""
        top = self.y
        self._text(EDGE, top, f"prompt, {len(self.run.prompt)} ids", "small")
        x = float(EDGE)
        for token in self.run.prompt[-TAIL:]:
            x = self._chip(x, token, "box", "")
        if self.layout.panes_beside:
            self._rect("rule", x + 3, top - 9, 1, 60, 0)
            x += 10
        else:
            x, self.y = EDGE, top + CHIP_ROW + 24
        self._text(x, self.y, "what the engine gives", "small")
        for place, step in enumerate(self.run.steps):
            if x + _width(step.token) > self.layout.width - EDGE:
                x, self.y = EDGE, self.y + CHIP_ROW
            self._chip(x, step.token, "new", f"s{place}")
            around = _width(step.token) - 2
            self._rect(f"now {self._between(place, place + 1)}", x + 1, self.y + 8, around, 26, 6)
            x += _width(step.token) + 4
        self.y += CHIP_ROW + 20

    def _chip(self, x: float, token: TokenRecord, kind: str, seen: str) -> float:
        """Draws one, and says where the next begins."""
        middle = x + _width(token) / 2
        self._rect(f"{kind} {seen}", x, self.y + 7, _width(token), CHIP, 6)
        self._text(middle, self.y + 25.5, _label(token), f"mono chip {seen}")
        self._text(middle, self.y + 49, str(token.token_id), f"id {seen}")
        return x + _width(token) + 4

    # --- what came out

    def _panes(self) -> None:
        width = self.layout.width - 2.0 * EDGE
        theirs, ours = self._lines_of_both()
        if self.layout.panes_beside:
            width = (width - GAP) / 2
        top, x = self.y, float(EDGE)
        self._theirs(theirs, x, width, 44 + LINE * len(theirs) + 8)
        bottom = self.y
        height = bottom - top
        if self.layout.panes_beside:
            x, self.y = x + width + GAP, top
        else:
            self.y += GAP
            height = 44 + LINE * (len(ours) + 1) + 12
        self._ours(ours, x, width, height)

    def _lines_of_both(self) -> tuple[Lines, Lines]:
        run = self.run
        ends = (len(run.echo), len(run.theirs) - len(run.leak), len(run.theirs))
        marks = [*zip(ends, ("wrong prompt", "", "wrong stop"), strict=True)]
        theirs = _set([step.theirs for step in run.steps], marks)
        return theirs, _set([step.token.text for step in run.steps], [])

    def _theirs(self, lines: Lines, x: float, width: float, height: float) -> None:
        first = self._pane(x, width, height, "tokenizers.decoders.DecodeStream", "head")
        self._set_lines("tokenizers", lines, x, first)
        for kind, label in (
            ("wrong prompt", "the whole prompt"),
            ("wrong stop", "part of the stop"),
        ):
            rows = [row for row, spans in enumerate(lines) if kind in {span.kind for span in spans}]
            if rows:
                step = min(s.step for row in rows for s in lines[row] if s.kind == kind)
                y = first + LINE * rows[0]
                self._rect(f"bar s{step}", x + 6, y - 15, 3, LINE * len(rows) - 3, 1.5)
                self._text(x + width - 10, y, label, f"small end wrong s{step}")
        self.y += height

    def _ours(self, lines: Lines, x: float, width: float, height: float) -> None:
        first = self._pane(x, width, height, "streamdec", "head ours")
        self._set_lines("streamdec", lines, x, first)
        steps, below = self.run.steps, first + LINE * len(lines) + 4
        for what, together in groupby(range(len(steps)), key=lambda each: _withheld(steps[each])):
            places = [*together]
            if what:
                seen = self._between(places[0], places[-1] + 1)
                self._text(x + INSET, below, what, f"small {seen}")
        last = steps[-1].token
        reason = f"finish_reason {last.finish_reason!r}, stop_reason {last.stop_reason!r}"
        self._text(x + INSET, below, reason, f"small s{len(steps) - 1}")
        self.y += height

    def _pane(self, x: float, width: float, height: float, title: str, kind: str) -> float:
        """The ground of a text, and where its first line is."""
        self._rect("pane", x, self.y, width, height, 8)
        self._text(x + INSET, self.y + 25, title, kind)
        return self.y + 54

    def _set_lines(self, by: str, lines: Lines, x: float, first: float) -> None:
        for row, spans in enumerate(lines):
            body = "".join(
                f'<tspan class="{f"{span.kind} s{span.step}".strip()}">{escape(span.text)}</tspan>'
                for span in spans
            )
            place = f'x="{x + INSET:.1f}" y="{first + LINE * row:.1f}"'
            self.body.append(f'<text {place} class="mono text" data-by="{by}">{body}</text>')

    # --- pieces

    def _between(self, start: int, end: int) -> str:
        name, rule = self.clock.between(start, end)
        if rule not in self.rules:
            self.rules.append(rule)
        return name

    def _paragraph(self, text: str) -> None:
        for line in wrap(text, self.layout.letters):
            self.y += 17
            self._text(EDGE, self.y, line, "small")

    def _text(self, x: float, y: float, text: str, kind: str) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}"'
        self.body.append(f'<text {place} class="{kind.strip()}">{escape(text)}</text>')

    def _rect(
        self, kind: str, x: float, y: float, width: float, height: float, radius: float
    ) -> None:
        place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.body.append(f'<rect class="{kind.strip()}" {place} rx="{radius:.1f}"/>')


def _label(token: TokenRecord) -> str:
    """A token as its text, or else as its bytes; spaces and line feeds to be seen."""
    data = token.data or b""
    try:
        return _shown(data.decode()).replace(" ", "·")
    except UnicodeDecodeError:
        space = data.startswith(b" ")
        return "·" * space + data[space:].hex(" ")


def _width(token: TokenRecord) -> float:
    return max(22.0, 8.0 * len(_label(token)) + 9)


def _shown(text: str) -> str:
    return text.replace("\n", "\\n")


def _withheld(step: Step) -> str:
    """What streamdec holds after a step, in words; empty for nothing."""
    if step.token.held:
        return f"held: {step.token.held.hex(' ')}"
    return f"withheld: {_shown(step.token.jailed)}" if step.token.jailed else ""


class Span(NamedTuple):
    """A text within a line, its class, and the step with which it came."""

    text: str
    kind: str
    step: int


Lines = Sequence[Sequence[Span]]


def _set(pieces: Iterable[str], marks: Sequence[tuple[int, str]]) -> Lines:
    """Pieces as lines; ``marks`` say up to which character which class holds."""
    lines: list[list[Span]] = [[]]
    place = 0
    for step, piece in enumerate(pieces):
        for character in piece:
            kind = next((kind for end, kind in marks if place < end), "")
            place += 1
            if character == "\n":
                lines.append([])
            elif lines[-1] and lines[-1][-1][1:] == (kind, step):
                lines[-1][-1] = Span(lines[-1][-1].text + character, kind, step)
            else:
                lines[-1].append(Span(character, kind, step))
    return lines


def pictures(run: Run, versions: str) -> dict[Path, str]:
    """Each of them, and where it goes."""
    return {IMAGES / name: picture(run, versions, layout) for name, layout in LAYOUTS.items()}


def main() -> None:
    """Writes the pictures, if there is still something to show."""
    made = run()
    if made.ours != ANSWER:
        raise SystemExit(f"streamdec gave {made.ours!r}, and was to give {ANSWER!r}")
    if not (made.echo and made.leak):
        raise SystemExit(f"{versions()} gave {made.theirs!r}: look for another case")
    for path, drawing in pictures(made, versions()).items():
        path.write_text(drawing, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
