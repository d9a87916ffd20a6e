"""``streamdec preflight``: report what engines will do with a model snapshot."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from streamdec.cli.preflight_sarif import sarif_log
from streamdec.cli.preflight_text import printable, text_report
from streamdec.cli.progress import Progress, say
from streamdec.cli.shared_options import UserPath
from streamdec.cli.statuses import CANNOT_BEGIN, NOT_ALL_IS_WELL
from streamdec.errors import TokenizerLoadError
from streamdec.preflight import Report, inspect
from streamdec.preflight.engine_versions import ENGINES, parse_engine
from streamdec.preflight.preflight_report import SEVERITIES, Severity

USUAL_ENGINES = ("vllm", "sglang", "transformers")
_FORMATS = ("json", "sarif")


def _engines(
    _context: click.Context, _option: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    for name in names:
        try:
            parse_engine(name)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error
    return names or USUAL_ENGINES


@click.command()
@click.option(
    "--engine",
    "engines",
    multiple=True,
    callback=_engines,
    metavar="NAME[@VERSION]",
    help=f"The engines to report on, as in sglang@0.5.10; may be repeated. Known: "
    f"{', '.join(ENGINES)}. Default: {', '.join(USUAL_ENGINES)}.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*reversed(SEVERITIES), "never"]),
    default="error",
    show_default=True,
    help="The exit status is 1 for a finding of this severity or a higher one.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Write the report as JSON; a list for several DIRs."
)
@click.option("--sarif", "as_sarif", is_flag=True, help="Write SARIF 2.1.0, which code hosts show.")
@click.option(
    "--output",
    "-o",
    type=UserPath(dir_okay=False),
    metavar="FILE",
    help="Write to FILE instead of stdout.",
)
@click.option(
    "--render/--no-render",
    default=True,
    help="Whether to render chat templates (the default), in a child process with limited memory "
    "and time.",
)
@click.argument("paths", nargs=-1, required=True, metavar="DIR...", type=UserPath())
def preflight(
    paths: tuple[str, ...],
    engines: tuple[str, ...],
    fail_on: str,
    as_json: bool,
    as_sarif: bool,
    output: str | None,
    render: bool,
) -> None:
    """Report the stops of engines and the problems of the model in each DIR.

    No code of the folder is run except the chat template, which runs in a sandbox. Nothing is
    downloaded. The exit status is 1 for a finding at least as severe as --fail-on, and 2 if a DIR
    is not a folder.

    \b
    Examples:
      streamdec preflight ./model
      streamdec preflight --engine vllm --engine sglang@0.5.10 --fail-on warning ./model
      streamdec preflight --sarif -o preflight.sarif models/*
    """
    asked = [name for name, on in zip(_FORMATS, (as_json, as_sarif), strict=True) if on]
    if len(asked) > 1:
        raise click.UsageError(
            f"--{asked[0]} and --{asked[1]} cannot be combined: choose one format"
        )
    outcomes = list(_inspected(paths, engines, render))
    write = _WRITERS[asked[0]] if asked else _write_text
    write(outcomes, output)
    for outcome in outcomes:
        if outcome.error:
            say(f"Error: {' '.join(outcome.error.split())}")
    click.get_current_context().exit(_status(outcomes, fail_on))


@dataclass(frozen=True)
class _Outcome:
    """The report of one folder, or the error."""

    path: str
    report: Report | None = None
    error: str = ""


def _inspected(paths: Iterable[str], engines: tuple[str, ...], render: bool) -> Iterator[_Outcome]:
    paths = list(dict.fromkeys(paths))
    with Progress(silent=0, quiet=len(paths) < 2) as progress:
        for number, path in enumerate(paths, 1):
            progress(f"{number}/{len(paths)}  {printable(Path(path).name or path)[:40]}")
            try:
                yield _Outcome(path, inspect(path, engines, render=render))
            except TokenizerLoadError as error:
                yield _Outcome(path, error=str(error))


def _status(outcomes: Iterable[_Outcome], fail_on: str) -> int:
    found = list(outcomes)
    if any(outcome.error for outcome in found):
        return CANNOT_BEGIN
    if fail_on == "never":
        return 0
    least: Severity = next(severity for severity in SEVERITIES if severity == fail_on)
    failed = any(o.report is not None and o.report.at_least(least) for o in found)
    return NOT_ALL_IS_WELL if failed else 0


# --- writing --------------------------------------------------------------------------------------


def _reports(outcomes: Iterable[_Outcome]) -> list[Report]:
    return [outcome.report for outcome in outcomes if outcome.report is not None]


def _write_text(outcomes: list[_Outcome], output: str | None) -> None:
    reports = _reports(outcomes)
    if reports:
        _write(text_report(reports, Console() if output is None else None), output)


def _write_json(outcomes: list[_Outcome], output: str | None) -> None:
    told: list[Any] = [
        {"path": o.path, "error": o.error} if o.report is None else o.report.to_dict()
        for o in outcomes
    ]
    _write(_json(told if len(told) > 1 else told[0]), output)


def _write_sarif(outcomes: list[_Outcome], output: str | None) -> None:
    errors = {outcome.path: outcome.error for outcome in outcomes if outcome.error}
    _write(_json(sarif_log(_reports(outcomes), errors)), output)


_WRITERS = {"json": _write_json, "sarif": _write_sarif}


def _json(value: Any) -> str:
    """Return JSON in which unprintable characters are escaped.

    Such characters can move the cursor or reverse text.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text) + "\n"


def _write(text: str, output: str | None) -> None:
    """Write UTF-8 in every locale; the bytes of a path may be escaped."""
    content = text.encode("utf-8", "backslashreplace")
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        Path(output).write_bytes(content)
