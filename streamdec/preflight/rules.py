"""The rules of a preflight, read from the data file beside this module.

In: ``rules.toml``. Out: a :class:`Rule` for each code. The documentation is written from them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files

from streamdec.preflight.preflight_report import Evidence, Finding, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """What all findings of one code have in common. Call it to make a finding."""

    title: str
    """The subject, a heading of the reference page."""
    code: str
    severity: Severity
    when: str
    """When it fires, as a clause."""
    engines: tuple[str, ...]
    """The engines that it affects."""
    action: str
    """What to do."""
    reference: tuple[str, ...] = ()
    or_severity: str = ""
    """When the severity is another one, in words."""
    compares_files: bool = False
    """Whether it compares one file with another."""

    def __call__(
        self,
        *evidence: Evidence,
        severity: Severity | None = None,
        engines: Iterable[str] | None = None,
    ) -> Finding:
        """Return the finding, with what was seen."""
        affected = self.engines if engines is None else tuple(engines)
        severity = severity or self.severity
        return Finding(
            self.code, severity, affected, evidence, self.action, self.reference, self.when
        )


def _read() -> Mapping[str, Rule]:
    data = tomllib.loads(files("streamdec.preflight").joinpath("rules.toml").read_text("utf-8"))

    def reference(said: str) -> str:
        name, _, file = said.partition(" ")
        engine, _, version = name.partition("@")
        return f"{engine} {version or data['versions'][engine]}: {file}"

    found = {}
    for row in data["rules"]:
        row["engines"] = tuple(row["engines"])
        row["reference"] = tuple(reference(each) for each in row.get("reference", ()))
        found[row["code"]] = Rule(**row)
    return found


RULES: Mapping[str, Rule] = _read()
"""Every rule by its code, in the order of the reference page."""
