"""A preflight report for people: lines of text, in colours on a terminal.

In: reports. Out: one text. The same lines go to a terminal, wrapped to its width, and to a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO

from rich.console import Console
from rich.text import Text

from streamdec.preflight import Evidence, Finding, Report, StopTokens
from streamdec.preflight.preflight_report import SEVERITIES, Severity

STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "cyan"}
SIGNS: dict[Severity, str] = {"error": "✖", "warning": "▲", "info": "•"}
MOST_EVIDENCE = 6
"""Pieces of evidence shown for a finding; JSON has all."""
MOST_IDS = 8
MOST_VALUE = 160
NARROWEST = 40
ROOM = 26
"""The least width of continuation rows, in which names of files fit."""

Line = tuple[int, Text]
"""The indent of a line's continuation rows, and the line."""


def text_report(reports: Sequence[Report], console: Console | None = None) -> str:
    """Return the reports as text.

    If ``console`` is a terminal, the text has colours and is wrapped.
    """
    lines = [line for report in reports for line in (*_report(report), (0, Text()))]
    if len(reports) > 1:
        lines += _summary(reports)
    else:
        lines.pop()
    if console is None or not console.is_terminal or console.is_dumb_terminal:
        return "".join(f"{line.plain.rstrip()}\n" for _, line in lines)
    width = max(console.width, NARROWEST)
    painter = Console(
        file=StringIO(),
        force_terminal=True,
        width=width,
        color_system=console.color_system,  # type: ignore[arg-type] # a name of one, as it gives
        no_color=console.no_color,
        legacy_windows=False,
        highlight=False,
    )
    with painter.capture() as captured:
        for indent, line in lines:
            for row in _wrapped(line, indent, width, painter):
                row.rstrip()
                painter.print(row, soft_wrap=True)
    return captured.get()


def _counts_of(report: Report) -> dict[Severity, int]:
    """Return the number of findings of each severity, the most severe first."""
    found = [finding.severity for finding in report.findings]
    return {severity: found.count(severity) for severity in reversed(SEVERITIES)}


def _sources_of(stop: StopTokens, token_id: int) -> str:
    """Return the files that declare a stop token.

    The place in the file is added if it is unusual.
    """
    told = []
    for source in stop.sources[token_id]:
        usual = source.pointer.startswith(("/eos_token_id", "/eos_token"))
        place = "" if usual or not source.pointer else f"#{source.pointer}"
        told.append(printable(source.file + place))
    return ", ".join(dict.fromkeys(told))


def _decided_by(report: Report) -> dict[str, list[str]]:
    """Return the stops that each file decides."""
    found: dict[str, list[str]] = {}
    for what, file in report.sources.items():
        found.setdefault(file, []).append(what)
    return found


def as_sentence(clause: str) -> str:
    """Return a clause as a sentence; a file name at its beginning stays as it is."""
    first = clause.split(" ", 1)[0]
    is_name = "." in first or "_" in first
    return (clause if is_name else clause[:1].upper() + clause[1:]) + "."


def printable(text: str) -> str:
    """Return ``text`` with unprintable characters escaped.

    Such characters can move the cursor, and hide or reverse text.
    """
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


# --- one report -----------------------------------------------------------------------------------


def _report(report: Report) -> Iterator[Line]:
    title = Text(printable(report.path), "bold")
    title.append("   ")
    title.append_text(_counts(report))
    yield 2, title
    yield 0, Text()
    yield from _stops(report)
    for finding in report.findings:
        yield 0, Text()
        yield from _finding(finding)
    if report.sources:
        yield 0, Text()
        yield 0, Text("  decided by", "bold")
        for file, decided in _decided_by(report).items():
            line = Text(f"    {printable(', '.join(decided))}  ")
            yield 6, line.append(printable(file), "dim")
    references = {str(each) for finding in report.findings for each in finding.reference}
    if references:
        yield 0, Text()
        yield 0, Text("  references", "bold")
        yield from ((6, Text(f"    {each}", "dim")) for each in sorted(references))


def _counts(report: Report) -> Text:
    told = Text()
    for severity, count in _counts_of(report).items():
        if count:
            told.append(" · " if told else "", "dim")
            told.append(_counted(count, severity), STYLES[severity])
    return told or Text("no findings", "green")


def _counted(count: int, severity: Severity) -> str:
    return f"{count} {severity}" + ("s" if count > 1 and severity != "info" else "")


def _stops(report: Report) -> Iterator[Line]:
    """Yield the effective stop tokens: a row for each id of each engine."""
    rows: list[tuple[str, str, str, str]] = []
    for stop in report.stop_tokens.values():
        name = f"{stop.engine} {stop.version}"
        cells = [
            (str(i), _quoted(stop.texts.get(i)), _sources_of(stop, i)) for i in sorted(stop.ids)
        ]
        cells += [
            ("?", _quoted(source.text), f"{source.file}: no file tells its id")
            for source in stop.unresolved
        ]
        for number, cell in enumerate(cells or [("none", "", "")]):
            rows.append(("" if number else name, *cell))
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    yield 0, Text("  stops on", "bold")
    indent = 4 + sum(widths) + 6
    for engine, token_id, text, sources in rows:
        line = Text(f"    {engine:{widths[0]}}  ")
        is_missing = token_id in ("?", "none")
        line.append(f"{token_id:>{widths[1]}}", "bold red" if is_missing else "bold")
        line.append(f"  {text:{widths[2]}}  ", "green")
        line.append(sources, "dim")
        yield indent, line
    for stop in report.stop_tokens.values():
        for note in stop.notes:
            yield 6, Text(f"    {stop.engine}: {printable(note)}", "dim")


def _quoted(text: str | None) -> str:
    if text is None:
        return ""
    is_plain = bool(text) and text.isprintable() and text.strip() == text
    return text if is_plain else ascii(text)


def _finding(finding: Finding) -> Iterator[Line]:
    style = STYLES[finding.severity]
    head = Text(f"  {SIGNS[finding.severity]} {finding.severity:<8}", style)
    head.append(finding.code, "bold")
    head.append(f"  {', '.join(finding.engines)}", "dim")
    yield 4, head
    yield 4, Text(f"    {printable(finding.when)}")
    for evidence in finding.evidence[:MOST_EVIDENCE]:
        yield 8, _evidence(evidence)
    more = len(finding.evidence) - MOST_EVIDENCE
    if more > 0:
        yield 8, Text(f"      and {more} more (--json has them)", "dim")
    yield 6, Text.assemble(("    → ", style), finding.action)


def _evidence(evidence: Evidence) -> Text:
    """Return the place, the note, the value, and the ids with their texts."""
    told = Text("      ")
    place = evidence.file + (f"#{evidence.pointer}" if evidence.pointer else "")
    place += f":{evidence.line}" if evidence.line is not None else ""
    parts = []
    if place:
        parts.append(Text(printable(place), "magenta"))
    if evidence.note:
        parts.append(Text(printable(evidence.note)))
    if _says_more(evidence):
        parts.append(Text(_short(evidence.value)))
    ids = Text(", ").join(
        Text.assemble((str(i), "bold"), (f" {_quoted(text)}" if text is not None else "", "green"))
        for i, text in list(evidence.ids.items())[:MOST_IDS]
    )
    if len(evidence.ids) > MOST_IDS:
        ids.append(f", and {len(evidence.ids) - MOST_IDS} more", "dim")
    if ids:
        parts.append(ids)
    return told.append_text(Text("  ").join(parts))


def _says_more(evidence: Evidence) -> bool:
    """Return whether the value of evidence has more than its ids and their texts."""
    value = evidence.value
    listed = value if isinstance(value, list) else [value]
    known = {*evidence.ids, *evidence.ids.values()}
    return value is not None and not all(isinstance(v, int | str) and v in known for v in listed)


def _short(value: object) -> str:
    shown = printable(repr(value))
    return shown if len(shown) <= MOST_VALUE else f"{shown[:MOST_VALUE]}…"


# --- several reports ------------------------------------------------------------------------------


def _summary(reports: Sequence[Report]) -> Iterator[Line]:
    """Yield a row for each folder."""
    width = max(len(printable(report.path)) for report in reports)
    for report in reports:
        line = Text(f"{printable(report.path):{width}}  ")
        yield width + 2, line.append_text(_counts(report))


def _wrapped(line: Text, indent: int, width: int, console: Console) -> Iterator[Text]:
    """Yield the rows of a line; continuation rows are indented."""
    if line.cell_len <= width:
        yield line
        return
    first, *_ = line.wrap(console, width)
    rest = line[len(first.plain) :]
    rest = rest[len(rest.plain) - len(rest.plain.lstrip()) :]
    yield first
    indent = min(indent, width - ROOM)
    for row in rest.wrap(console, width - indent):
        yield Text(" " * indent).append_text(row)
