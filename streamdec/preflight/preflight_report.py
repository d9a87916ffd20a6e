"""The report of a preflight: answer, findings, evidence; and the rules.

In: ``rules.toml``, and the findings of the modules of ``streamdec.preflight.findings``. Out: a
:class:`~streamdec.preflight.Report`: plain data, and JSON. The documentation of the findings is
written from the rules, too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from importlib.resources import files
from math import isfinite
from typing import Any, Literal

from streamdec.preflight.stop_tokens import StopTokens

MAX_SHOWN = 500
"""The most characters of a text in a report."""
_MOST_ITEMS = 50

Severity = Literal["info", "warning", "error"]
"""How much a finding matters; ``Finding.severity`` says what each means."""
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")


def shown(value: Any) -> Any:
    """Return a value of a file as short, strict JSON.

    A value with more than one level, or with many items, is replaced by its type and size.
    """
    is_short = isinstance(value, list) and len(value) <= _MOST_ITEMS
    if is_short and not any(isinstance(each, list | dict) for each in value):
        return [shown(each) for each in value]
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, int) and abs(value) >= 2**63:
        return "a huge number"
    # JSON has neither NaN nor infinity, but Python reads both.
    return repr(value) if isinstance(value, float) and not isfinite(value) else value


def _as_json(value: Any) -> Any:
    if is_dataclass(value):
        return {each.name: _as_json(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, str):
        return value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}…"
    if isinstance(value, Mapping):
        return {str(key): _as_json(each) for key, each in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_as_json(each) for each in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class Evidence:
    """One observation and its place.

    >>> from streamdec.preflight import Evidence
    >>> print(Evidence("config.json", "/eos_token_id", value=2, ids={2: "</s>"}))
    config.json#/eos_token_id 2 2 '</s>'
    """

    file: str = ""
    """The file of the snapshot; empty for a computed value."""
    pointer: str = ""
    """The place in a JSON file (RFC 6901), such as ``/eos_token_id``."""
    line: int | None = None
    """The line in a text file, from 1."""
    value: Any = None
    """The value at that place, or a computed one; JSON."""
    ids: Mapping[int, str | None] = field(default_factory=dict)
    """Token ids and their texts; None for an unknown text."""
    note: str = ""
    """The meaning, in words."""

    @property
    def place(self) -> str:
        """The file with the pointer or the line; empty for a computed value."""
        place = self.file + (f"#{self.pointer}" if self.pointer else "")
        return place if self.line is None else f"{place}:{self.line}"

    def __str__(self) -> str:
        value = "" if self.value is None else f"{self.value!r:.120}"
        ids = ", ".join(f"{i} {text!r:.60}" for i, text in list(self.ids.items())[:8])
        return " ".join(part for part in (self.place, self.note, value, ids) if part)


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of a preflight: plain data; ``str()`` is one line.

    >>> from streamdec.preflight import inspect
    >>> finding = inspect("path/to/model").findings[-1]
    >>> finding.code, finding.severity
    ('PAD_EQUALS_EOS', 'info')
    """

    code: str
    """Its name, which does not change: ``EOS_SOURCES_DISAGREE``."""
    severity: Severity
    """``"error"``: wrong output or no start; ``"warning"``: engines or versions differ; ``"info"``:
    worth knowing."""
    engines: tuple[str, ...]
    """The affected engines and other programs that read the files, with a range of versions
    (``transformers>=5.0``) if only some versions are affected."""
    evidence: tuple[Evidence, ...]
    """The observations, at least one."""
    action: str
    """The recommended action."""
    reference: tuple[str, ...]
    """The sources of the behaviour: ``vllm 0.33.0: vllm/sampling_params.py``."""
    when: str = ""
    """The condition of the rule."""

    def __str__(self) -> str:
        seen = "; ".join(str(each) for each in self.evidence)
        return f"{self.severity}: {self.code}: {seen}"


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


@dataclass(frozen=True, slots=True)
class Report:
    """The answer, and all findings of a snapshot; plain data.

    >>> from streamdec.preflight import inspect
    >>> report = inspect("path/to/model")
    >>> report.stops_at_end_of_turn
    True
    >>> print(report.answer)
    yes: vLLM, SGLang and transformers stop at the template's end of turn, 2 <|im_end|>
    """

    path: str
    """The folder."""
    engines: tuple[str, ...]
    """The requested engines with their versions: ``sglang@0.5.23``."""
    stops_at_end_of_turn: bool | None
    """Whether all of the engines stop at the template's end of turn; None if it is unknown."""
    answer: str
    """The same in a sentence, which begins with ``yes``, ``no`` or ``unknown``."""
    findings: tuple[Finding, ...]
    """The most severe first, then by code."""
    stop_tokens: Mapping[str, StopTokens] = field(default_factory=dict)
    """The effective stop tokens of each of the engines."""

    @property
    def codes(self) -> frozenset[str]:
        """The codes of all findings."""
        return frozenset(finding.code for finding in self.findings)

    @property
    def worst(self) -> Severity | None:
        """The highest severity; None if there is no finding."""
        return max((f.severity for f in self.findings), key=SEVERITIES.index, default=None)

    def at_least(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of ``severity`` and more severe ones, the most severe first.

        Raises ValueError for an unknown severity.
        """
        least = SEVERITIES.index(severity)
        return tuple(f for f in self.findings if SEVERITIES.index(f.severity) >= least)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        found: dict[str, Any] = _as_json(self)
        return found
