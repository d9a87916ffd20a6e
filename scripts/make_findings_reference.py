"""Writes ``docs/reference/findings.md`` from the rules of a preflight.

Run it after changing a rule: ``python scripts/make_findings_reference.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from streamdec.preflight.engine_versions import ENGINES
from streamdec.preflight.rules import RULES, Rule

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "findings.md"
INTRODUCTION = """\
# Findings of a preflight

After this page you know what a finding of `streamdec preflight` means, and how to fix it.
`streamdec.preflight.inspect(folder)` returns a report with these findings. The last section says
which function returns COMMIT_NOT_REACHABLE and COMMIT_NOT_HEAD. Each finding has a code, the
affected engines, its evidence, an action, and a severity. Most have a reference: the engine's
source file that shows the behaviour.

- `error`: wrong output on an engine, or an engine that does not start;
- `warning`: engines or versions differ;
- `info`: a fact that you should know.

`scripts/make_findings_reference.py` writes this page from `streamdec/preflight/rules.toml`.

The rules come from the source of these versions. For another version, the rules of the newest older
one in the list apply. `2026.11` is not a release: the repository was read in November 2026.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION
    for engine, versions in ENGINES.items():
        yield f"- {engine}: {', '.join(versions)}"
    yield ""
    for title, rules in groupby(RULES.values(), attrgetter("title")):
        yield f"## {title}"
        yield ""
        for rule in rules:
            yield from _rule(rule)


def _rule(rule: Rule) -> Iterator[str]:
    severity = f"{rule.severity}; {rule.or_severity}" if rule.or_severity else rule.severity
    yield f"### {rule.code}"
    yield ""
    yield f"- **Severity**: {severity}"
    yield f"- **When**: {_escaped(rule.when)}"
    yield f"- **Engines**: {', '.join(f'`{name}`' for name in rule.engines)}"
    yield f"- **Action**: {_escaped(rule.action)}"
    if rule.reference:
        yield f"- **Reference**: {'; '.join(f'`{each}`' for each in rule.reference)}"
    yield ""


def _escaped(text: str) -> str:
    return text.replace("<", "\\<").replace("*", "\\*").replace("[", "\\[").replace("|", "\\|")


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(page(), "utf-8")
