"""A preflight report for people: lines of text, in colours on a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streamdec.cli.shared import counted, printable, shown_token
from streamdec.preflight import Evidence, Finding, Report, Severity, StopTokens

_STYLES: dict[Severity, str] = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_MOST_EVIDENCE = 6
"""Pieces of evidence shown for a finding; JSON has all."""
_MOST_IDS = 8
_MOST_VALUE = 160


def report_lines(report: Report, *, with_infos: bool) -> Iterator[RenderableType]:
    """Yield the answer, a row for each engine, the findings, and their number."""
    styles = {True: "bold green", False: "bold red", None: "bold yellow"}
    yield Text(printable(report.answer), styles[report.stops_at_end_of_turn])
    table = Table.grid(padding=(0, 2, 0, 0))
    for stop in report.stop_tokens.values():
        table.add_row(f"  {stop.engine} {stop.version}", Text(", ").join(_stops(stop)))
    yield table
    for stop in report.stop_tokens.values():
        for note in stop.notes:
            yield Text(f"  {stop.engine}: {printable(note)}", "dim")
    for finding in report.findings if with_infos else report.at_least("warning"):
        yield from _finding(finding)
    yield _counts(report, with_infos)


def _stops(stop: StopTokens) -> Iterator[Text]:
    """Yield each stop token of an engine, with the files that declare it."""
    for i in sorted(stop.ids)[:_MOST_IDS]:
        places = dict.fromkeys(printable(source.file) for source in stop.sources[i])
        text = shown_token(stop.texts.get(i)) or "(unknown text)"
        yield Text.assemble((f"{i} ", "bold"), (text, "green"), (f" ({', '.join(places)})", "dim"))
    if len(stop.ids) > _MOST_IDS:
        yield Text(f"and {len(stop.ids) - _MOST_IDS} more (--json has them)", "dim")
    for source in stop.unresolved:
        named = f"{shown_token(source.text)} ({printable(source.file)}, unknown id)"
        yield Text(f"? {named if source.file else 'the EOS token of the tokenizer'}", "red")
    if not stop.ids and stop.resolved:
        yield Text("stops on no token", "bold red")


def _counts(report: Report, with_infos: bool) -> Text:
    found = [finding.severity for finding in report.findings]
    graver = [s for s in ("error", "warning") if s in found]
    parts = [counted(found.count(s), s) for s in graver] or ["no errors, no warnings"]
    if infos := found.count("info"):
        parts.append(counted(infos, "info") + ("" if with_infos else " (--verbose shows them)"))
    return Text(", ".join(parts), _STYLES["warning"] if graver else "green")


def _finding(finding: Finding) -> Iterator[RenderableType]:
    style = _STYLES[finding.severity]
    yield Text.assemble(
        (f"\n{finding.severity} ", style),
        (finding.code, "bold"),
        (f" ({', '.join(finding.engines)})", "dim"),
    )
    yield Text(f"  {printable(finding.when)}")
    for evidence in finding.evidence[:_MOST_EVIDENCE]:
        yield Padding(_evidence(evidence), (0, 0, 0, 4), expand=False)
    if (more := len(finding.evidence) - _MOST_EVIDENCE) > 0:
        yield Text(f"    and {more} more (--json has them)", "dim")
    yield Text.assemble(("  → ", style), f"{finding.action}")


def _evidence(evidence: Evidence) -> Text:
    """Return the place, the note, the value, and the ids with their texts."""
    parts = [Text(printable(evidence.place), "magenta"), Text(printable(evidence.note))]
    if evidence.value is not None and not evidence.ids:
        value = printable(repr(evidence.value))
        parts.append(Text(value if len(value) <= _MOST_VALUE else f"{value[:_MOST_VALUE]}…"))
    for i, text in list(evidence.ids.items())[:_MOST_IDS]:
        parts.append(Text.assemble((f"{i} ", "bold"), (shown_token(text), "green")))
    if len(evidence.ids) > _MOST_IDS:
        parts.append(Text(f"and {len(evidence.ids) - _MOST_IDS} more", "dim"))
    return Text("  ").join(part for part in parts if part)
