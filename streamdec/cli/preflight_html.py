"""A preflight as one page for browsers: no scripts, nothing fetched, light and dark.

In: reports. Out: HTML, with everything that the page needs in it. What is shown is text from files
of strangers: all of it is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

from streamdec.cli.preflight_text import (
    as_sentence,
    counts_of,
    decided_by,
    printable,
    says_more,
    sources_of,
)
from streamdec.preflight import Evidence, Finding, Report, StopTokens
from streamdec.preflight.report import SEVERITIES

__all__ = ["html_page"]

MOST_VALUE = 2_000
MOST_TOKEN = 48
STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --ink: #1b1f24; --soft: #5b6570; --line: #dfe3e8; --chip: #eef1f4;
  --error: #c4212f; --warning: #9a6200; --info: #1f66b5; --good: #1a7f43;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #101316; --card: #181c20; --ink: #e6e9ec; --soft: #98a2ad; --line: #2a3036;
    --chip: #232930;
    --error: #ff7078; --warning: #e3a93f; --info: #6fb1f5; --good: #57c584;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; margin: 0; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 0; overflow-wrap: anywhere; }
h3 { font-size: .8rem; font-weight: 600; color: var(--soft); margin: 1.75rem 0 .6rem;
  text-transform: uppercase; letter-spacing: .06em; }
p { margin: .35rem 0; }
a { color: inherit; text-decoration-color: var(--line); text-underline-offset: .2em; }
code, .mono { font: .87em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.soft { color: var(--soft); }
.head { display: flex; flex-wrap: wrap; gap: .4rem 1.5rem; align-items: baseline;
  justify-content: space-between; }
.filter { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1.25rem 0 0; padding: 0; border: 0; }
.filter label { display: inline-flex; gap: .45rem; align-items: center;
  padding: .2rem .8rem .2rem .6rem; border: 1px solid var(--line); border-radius: 1rem;
  background: var(--card); cursor: pointer; }
.filter input { accent-color: currentColor; margin: 0; }
.count { font-weight: 600; white-space: nowrap; }
.error { color: var(--error); } .warning { color: var(--warning); } .info { color: var(--info); }
.good { color: var(--good); }
section { background: var(--card); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.4rem 1.5rem 1.5rem; margin-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; vertical-align: top; padding: .3rem 1.2rem .3rem 0;
  border-top: 1px solid var(--line); font-weight: inherit; overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
tr.more > * { border-top: 0; padding-top: 0; }
td.id { text-align: right; font-variant-numeric: tabular-nums; font-weight: 600;
  white-space: nowrap; }
td.text .token { white-space: pre; overflow-wrap: normal; }
td.note { font-size: .87em; color: var(--soft); }
th.engine { white-space: nowrap; }
.wide { overflow-x: auto; }
.token { background: var(--chip); border-radius: .3rem; padding: .08rem .4rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
article { border-left: 3px solid; padding: .1rem 0 .1rem 1rem; margin: 1.1rem 0 0; }
article > * { color: var(--ink); }
article .code { font-weight: 600; font-size: .95em; }
article .severity { color: inherit; font-weight: 600; }
article header { display: flex; flex-wrap: wrap; gap: .1rem .7rem; align-items: baseline; }
article.error > header .severity { color: var(--error); }
article.warning > header .severity { color: var(--warning); }
article.info > header .severity { color: var(--info); }
article ul { margin: .4rem 0; padding: 0; list-style: none; }
article li { padding: .12rem 0; overflow-wrap: anywhere; }
article .place { margin-right: .6rem; }
article .action { margin: .45rem 0 0; }
article .action::before { content: "→ "; }
article .read { font-size: .85em; color: var(--soft); }
details { margin-top: 1.5rem; } summary { cursor: pointer; color: var(--soft); }
.list { margin-top: 1.5rem; } .list td:last-child { padding-right: 0; text-align: right; }
footer { margin-top: 2rem; font-size: .87em; color: var(--soft); }
body:has(#show-error:not(:checked)) article.error,
body:has(#show-warning:not(:checked)) article.warning,
body:has(#show-info:not(:checked)) article.info { display: none; }
@media (max-width: 44rem) {
  main { padding: 1.5rem .75rem 3rem; } section { padding: 1.1rem; }
  .stops tr { display: flex; flex-wrap: wrap; gap: 0 .8rem; border-top: 1px solid var(--line); }
  .stops tr > * { border: 0; padding: .15rem 0; }
  .stops tr:first-child, .stops tr.more { border: 0; }
  .stops th, .stops td:last-child { flex-basis: 100%; } .stops tr.more > :empty { display: none; }
}
@media print { .filter { display: none; } section { break-inside: avoid; } }
"""


def html_page(reports: Sequence[Report], errors: Mapping[str, str]) -> str:
    """The page. ``errors`` are what hindered a folder from being inspected, by its path."""
    body = "\n".join(_body(reports, errors))
    text = f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{_title(reports)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
    return text.encode("utf-8", "backslashreplace").decode()


def _title(reports: Sequence[Report]) -> str:
    names = [_text(Path(report.path).name or report.path) for report in reports]
    return f"Preflight: {names[0]}" if len(names) == 1 else f"Preflight: {len(names)} models"


def _body(reports: Sequence[Report], errors: Mapping[str, str]) -> Iterator[str]:
    engines = list(dict.fromkeys(e.replace("@", " ") for r in reports for e in r.engines))
    yield '<div class="head"><h1>Preflight</h1>'
    yield f'<span class="soft">{_text(", ".join(engines))}</span></div>'
    total = {s: sum(counts_of(report)[s] for report in reports) for s in reversed(SEVERITIES)}
    yield '<fieldset class="filter" aria-label="Which findings are shown">'
    for severity, count in total.items():
        yield (
            f'<label class="{severity}"><input type="checkbox" id="show-{severity}" checked>'
            f'<span class="count">{_counted(count, severity)}</span></label>'
        )
    yield "</fieldset>"
    for message in errors.values():
        yield f'<section><p class="error">{_text(message)}</p></section>'
    if len(reports) > 1:
        yield '<section class="list"><div class="wide"><table>'
        for number, report in enumerate(reports):
            counts = " &nbsp; ".join(_counts(report))
            name = f'<a href="#m{number}">{_text(report.path)}</a>'
            yield f"<tr><td>{name}</td><td>{counts}</td></tr>"
        yield "</table></div></section>"
    for number, report in enumerate(reports):
        yield from _report(report, f"m{number}")
    yield f"<footer>streamdec {_text(version('streamdec'))}</footer>"


def _counted(count: int, severity: str) -> str:
    return f"{count} {severity}" + ("s" if count != 1 and severity != "info" else "")


def _counts(report: Report) -> Iterator[str]:
    found = {severity: count for severity, count in counts_of(report).items() if count}
    for severity, count in found.items():
        yield f'<span class="count {severity}">{_counted(count, severity)}</span>'
    if not found:
        yield '<span class="count good">no findings</span>'


def _report(report: Report, anchor: str) -> Iterator[str]:
    yield f'<section id="{anchor}"><div class="head"><h2>{_text(report.path)}</h2>'
    yield f"<span>{' &nbsp; '.join(_counts(report))}</span></div>"
    yield '<h3>Stops on</h3><div class="wide"><table class="stops">'
    for stop in report.stop_tokens.values():
        yield from _stops(stop)
    yield "</table></div>"
    if report.findings:
        yield "<h3>Findings</h3>"
    for finding in report.findings:
        yield from _finding(finding)
    yield '<details><summary>Which file decided what</summary><div class="wide"><table>'
    for file, decided in decided_by(report).items():
        yield f'<tr><th>{_text(", ".join(decided))}</th><td class="soft">{_text(file)}</td></tr>'
    yield "</table></div></details></section>"


def _stops(stop: StopTokens) -> Iterator[str]:
    rows = [
        (str(i), _token(stop.texts.get(i)), _text(sources_of(stop, i))) for i in sorted(stop.ids)
    ]
    rows += [
        ('<span class="error">?</span>', _token(s.text), _text(f"{s.file}: no file tells its id"))
        for s in stop.unresolved
    ]
    rows = rows or [('<span class="error">none</span>', "", "")]
    for number, (token_id, text, sources) in enumerate(rows):
        engine = _text(f"{stop.engine} {stop.version}") if not number else ""
        kind = ' class="more"' if number else ""
        yield (
            f'<tr{kind}><th class="engine">{engine}</th><td class="id">{token_id}</td>'
            f'<td class="text">{text}</td><td class="soft">{sources}</td></tr>'
        )
    for note in stop.notes:
        yield f'<tr class="more"><td></td><td class="note" colspan="3">{_text(note)}</td></tr>'


def _finding(finding: Finding) -> Iterator[str]:
    yield f'<article class="{finding.severity}">'
    yield f'<header><span class="severity">{finding.severity}</span>'
    yield f'<span class="code mono">{_text(finding.code)}</span>'
    yield f'<span class="soft">{_text(", ".join(finding.engines))}</span></header>'
    yield f"<p>{_text(as_sentence(finding.when))}</p><ul>"
    for evidence in finding.evidence:
        yield f"<li>{_evidence(evidence)}</li>"
    yield f'</ul><p class="action">{_text(finding.action)}</p>'
    if finding.reference:
        told = "; ".join(str(each) for each in finding.reference)
        yield f'<p class="read mono">{_text(told)}</p>'
    yield "</article>"


def _evidence(evidence: Evidence) -> str:
    place = evidence.file + (f"#{evidence.pointer}" if evidence.pointer else "")
    place += f":{evidence.line}" if evidence.line is not None else ""
    parts = []
    if place:
        parts.append(f'<code class="place">{_text(place)}</code>')
    if evidence.note:
        parts.append(f"<span>{_text(evidence.note)}</span>")
    if says_more(evidence):
        parts.append(f'<code class="token">{_text(_value(evidence.value))}</code>')
    parts += [
        f'<span class="mono">{i}</span>' + (f" {_token(text)}" if text is not None else "")
        for i, text in evidence.ids.items()
    ]
    return " ".join(parts)


def _value(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, default=str)
    return shown if len(shown) <= MOST_VALUE else f"{shown[:MOST_VALUE]}…"


def _token(text: str | None) -> str:
    if text is None:
        return ""
    shown = text if text and text.strip() == text else repr(text)
    shown = shown if len(shown) <= MOST_TOKEN else f"{shown[:MOST_TOKEN]}…"
    return f'<code class="token">{_text(shown)}</code>'


def _text(text: str) -> str:
    """``text`` for HTML: escaped, and without what hides or turns around what is shown."""
    return escape(printable(text))
