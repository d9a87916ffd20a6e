"""A preflight report for people: lines of text, in colours on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streamdec.cli.shared import printable, shown_token
from streamdec.preflight import Evidence, Finding, Report, StopTokens
from streamdec.preflight.preflight_report import SEVERITIES, Severity

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_SIGNS: dict[Severity, str] = {"error": "✖", "warning": "▲", "info": "•"}
_MOST_EVIDENCE = 6
"""Pieces of evidence shown for a finding; JSON has all."""
_MOST_IDS = 8
_MOST_VALUE = 160


def report_lines(report: Report, *, with_infos: bool) -> Iterator[RenderableType]:
    """Yield the parts of the report."""
    yield Text.assemble((printable(report.path), "bold"), "   ", _counts(report))
    yield Text("\n  stops on", "bold")
    yield _indented(4, _stops(report))
    for stop in report.stop_tokens.values():
        for note in stop.notes:
            yield _indented(4, Text(f"{stop.engine}: {printable(note)}", "dim"))
    shown = [found for found in report.findings if with_infos or found.severity != "info"]
    for finding in shown:
        yield from _finding(finding)
    if left := len(report.findings) - len(shown):
        yield Text(f"\n  {left} more of severity info: --verbose shows them", "dim")


def _indented(cells: int, shown: RenderableType) -> Padding:
    return Padding(shown, (0, 0, 0, cells), expand=False)


def _counts(report: Report) -> Text:
    told = Text()
    found = [finding.severity for finding in report.findings]
    for severity in reversed(SEVERITIES):
        if count := found.count(severity):
            told.append(" · " if told else "", "dim")
            plural = "s" if count > 1 and severity != "info" else ""
            told.append(f"{count} {severity}{plural}", _STYLES[severity])
    return told or Text("no findings", "green")


def _stops(report: Report) -> Table:
    """Return the effective stop tokens: a row for each id of each engine."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for stop in report.stop_tokens.values():
        rows = [
            (Text(str(i), "bold"), shown_token(stop.texts.get(i)), _sources_of(stop, i))
            for i in sorted(stop.ids)
        ]
        rows += [
            (
                Text("?", "bold red"),
                shown_token(source.text),
                f"{printable(source.file)}: no file tells its id",
            )
            for source in stop.unresolved
        ]
        name = f"{stop.engine} {stop.version}"
        for token_id, text, sources in rows or [(Text("none", "bold red"), "", "")]:
            table.add_row(Text(name), token_id, Text(text, "green"), Text(sources, "dim"))
            name = ""
    return table


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


def _finding(finding: Finding) -> Iterator[RenderableType]:
    style = _STYLES[finding.severity]
    yield Text.assemble(
        (f"\n  {_SIGNS[finding.severity]} {finding.severity:<8}", style),
        (finding.code, "bold"),
        (f"  {', '.join(finding.engines)}", "dim"),
    )
    yield _indented(4, Text(printable(finding.when)))
    for evidence in finding.evidence[:_MOST_EVIDENCE]:
        yield _indented(6, _evidence(evidence))
    more = len(finding.evidence) - _MOST_EVIDENCE
    if more > 0:
        yield _indented(6, Text(f"and {more} more (--json has them)", "dim"))
    yield _indented(4, Text.assemble(("→ ", style), finding.action))


def _evidence(evidence: Evidence) -> Text:
    """Return the place, the note, the value, and the ids with their texts."""
    place = evidence.file + (f"#{evidence.pointer}" if evidence.pointer else "")
    place += f":{evidence.line}" if evidence.line is not None else ""
    parts = []
    if place:
        parts.append(Text(printable(place), "magenta"))
    if evidence.note:
        parts.append(Text(printable(evidence.note)))
    if evidence.value is not None and not evidence.ids:
        value = printable(repr(evidence.value))
        parts.append(Text(value if len(value) <= _MOST_VALUE else f"{value[:_MOST_VALUE]}…"))
    ids = Text(", ").join(
        Text.assemble(
            (str(i), "bold"), (f" {shown_token(text)}" if text is not None else "", "green")
        )
        for i, text in list(evidence.ids.items())[:_MOST_IDS]
    )
    if len(evidence.ids) > _MOST_IDS:
        ids.append(f", and {len(evidence.ids) - _MOST_IDS} more", "dim")
    if ids:
        parts.append(ids)
    return Text("  ").join(parts)
