"""The report of a preflight: findings, their evidence and deciding files.

A deciding file is the one that decided a question.

In: the findings of the modules of ``streamdec.preflight.findings``. Out: a
:class:`~streamdec.preflight.Report`: plain data, and JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal

from streamdec.preflight.stop_tokens import StopTokens, fields_as_json, shortened

_MOST_ITEMS = 50

Severity = Literal["info", "warning", "error"]
"""How much a finding matters; ``SEVERITIES`` says what each means."""
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
"""In ascending order. ``info``: worth knowing. ``warning``: engines or versions differ. ``error``:
wrong output, or the engine does not start."""


def shown(value: Any) -> Any:
    """Return a value of a file as short, strict JSON.

    A value with more than one level, or with many items, is replaced by its type and size.
    """
    if isinstance(value, list) and len(value) <= _MOST_ITEMS and all(map(_is_scalar, value)):
        return [shown(each) for each in value]
    if isinstance(value, list | dict):
        return f"{'a list' if isinstance(value, list) else 'an object'} of {len(value)}"
    if isinstance(value, str):
        return shortened(value)
    is_huge = isinstance(value, int) and abs(value) >= 2**63
    return "a huge number" if is_huge else repr(value) if _is_odd(value) else value


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_odd(value: Any) -> bool:
    """Return whether ``value`` is NaN or infinite.

    JSON has neither, but Python reads both.
    """
    return isinstance(value, float) and not isfinite(value)


@dataclass(frozen=True, slots=True)
class Reference:
    """The source of a behaviour: an ``engine``, its ``version`` and a ``file`` in it.

    >>> from streamdec.preflight import Reference
    >>> print(Reference("vllm", "0.33.0", "vllm/sampling_params.py"))
    vllm 0.33.0: vllm/sampling_params.py
    """

    engine: str
    version: str
    file: str

    def __str__(self) -> str:
        return f"{self.engine} {self.version}: {self.file}".replace(" : ", ": ")


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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dict of JSON values, without empty ones."""
        found = fields_as_json(self)
        return {key: value for key, value in found.items() if value not in ("", None, {})}

    def __str__(self) -> str:
        place = self.file + (f"#{self.pointer}" if self.pointer else "")
        place += f":{self.line}" if self.line is not None else ""
        value = "" if self.value is None else f"{self.value!r:.120}"
        ids = ", ".join(f"{i} {text!r:.60}" for i, text in list(self.ids.items())[:8])
        return " ".join(part for part in (place, self.note, value, ids) if part)


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
    reference: tuple[Reference, ...]
    """The sources of the behaviour."""
    when: str = ""
    """The condition of the rule."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {**fields_as_json(self), "reference": [str(each) for each in self.reference]}

    def __str__(self) -> str:
        shown = "; ".join(str(each) for each in self.evidence)
        return f"{self.severity}: {self.code}: {shown}"


@dataclass(frozen=True, slots=True)
class SpecialToken:
    """A token with a role: its ``text``, and its ``id`` if the files tell it.

    >>> from streamdec.preflight import inspect
    >>> token = inspect("path/to/model", render=False).special_tokens["eos_token"]
    >>> token.text, token.id, token.source
    ('<|im_end|>', 2, 'tokenizer_config.json')
    """

    text: str
    id: int | None
    resolved: bool
    """Whether ``id`` is known. ``id`` is the one after loading with transformers 5."""
    source: str
    """The file that declares the text, or the tokenizer class whose default it is."""
    resolved_by: str
    """The file in which the id was searched."""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings of a snapshot, and the files that decided; plain data.

    >>> from streamdec.preflight import inspect
    >>> report = inspect("path/to/model", render=False)
    >>> sorted(report.codes)
    ['ADDED_TOKENS_DECODER_ABSENT', 'PAD_EQUALS_EOS']
    >>> report.at_least("warning"), report.sources["chat_template"]
    ((), 'tokenizer_config.json')
    """

    path: str
    """The folder."""
    engines: tuple[str, ...]
    """The requested engines with their versions: ``sglang@0.5.23``."""
    findings: tuple[Finding, ...]
    """The most severe first, then by code."""
    sources: Mapping[str, str]
    """For each question (``eos_token``, ``chat_template``, ``added_tokens`` …), the file or files
    that decided it, for people. A value may also be ``none`` or have a reason in parentheses."""
    stop_tokens: Mapping[str, StopTokens] = field(default_factory=dict)
    """The effective stop tokens of each of the engines."""
    special_tokens: Mapping[str, SpecialToken] = field(default_factory=dict)
    """The tokens with a role, by its name: ``eos_token``."""

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
        return fields_as_json(self)
