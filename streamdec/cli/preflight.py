"""``streamdec preflight``: report what engines will do with a model snapshot."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streamdec.cli import shared
from streamdec.cli.preflight_text import report_lines
from streamdec.preflight import inspect
from streamdec.preflight.engine_versions import ENGINES, parse_engine
from streamdec.preflight.examples import EXAMPLES, write_example
from streamdec.preflight.preflight_report import SEVERITIES, Severity


@click.command()
@click.argument("model", type=click.Path(), required=False)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    metavar="NAME[@VERSION]",
    help=f"The engines to report on, as in sglang@0.5.10; may be repeated. The default is "
    f"{', '.join(ENGINES)}.",
)
@click.option(
    "--fail-on",
    type=click.Choice([*reversed(SEVERITIES), "never"]),
    default="error",
    show_default=True,
    help="The exit status is 1 for a finding of this severity or a higher one.",
)
@click.option("--verbose", is_flag=True, help="Show findings that are only infos, too.")
@click.option("--json", "as_json", is_flag=True, help="Write the report as JSON.")
@click.option(
    "--example",
    type=click.Choice([*EXAMPLES, "all"]),
    help="Instead, make a model of the documentation as a folder in the current folder.",
)
def preflight(
    model: str | None,
    engines: tuple[str, ...],
    fail_on: Severity,
    verbose: bool,
    as_json: bool,
    example: str | None,
) -> None:
    """Report where engines stop, and the problems of a model.

    MODEL is its folder. The first line answers whether the engines stop at the end of a turn of the
    chat template.

    No code of the folder is run except the chat template, which runs in a child process with
    limited memory and time. Nothing is downloaded. The exit status is 1 for a finding at least as
    severe as --fail-on, and 2 if MODEL is not the folder of a model.

    \b
    Examples:
      streamdec preflight ./model
      streamdec preflight ./model --engine sglang@0.5.10 --fail-on warning
      streamdec preflight --example all
    """
    if (model is None) == (example is None):
        raise click.UsageError("give either the folder of a model or --example")
    if model is None:
        for name in EXAMPLES if example == "all" else (str(example),):
            if example == "all" and Path(name).exists():
                shared.write(f"{name} (it exists already)\n")
            else:
                shared.write(f"{write_example(name)}\n")
        return
    with shared.wrong_usage():
        for engine in engines:
            parse_engine(engine)
    report = inspect(model, engines or ENGINES)
    if as_json:
        text = json.dumps(report.to_dict(), indent=2, ensure_ascii=False)
        # Unprintable characters can move the cursor or reverse text.
        safe = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
        shared.write("".join(safe) + "\n")
    else:
        shared.show(*report_lines(report, with_infos=verbose))
    shared.exit_with(int(fail_on in SEVERITIES and bool(report.at_least(fail_on))))
