"""Preflight reports as SARIF 2.1.0 (OASIS standard).

Code hosts show them beside the files.

In: reports. Out: a log of one run, with the rules that fired and a result for each finding. A
result has the file and line of the evidence.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from streamdec.cli.preflight_text import as_sentence, printable
from streamdec.preflight import Evidence, Finding, Report
from streamdec.preflight.preflight_report import Severity
from streamdec.preflight.snapshot import Snapshot

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
LEVELS: Mapping[Severity, str] = {"error": "error", "warning": "warning", "info": "note"}
HOMES = ("config.json", "tokenizer_config.json", "generation_config.json", "tokenizer.json")
"""Where to show a finding about a missing file: the first of these that exists."""
MOST_CHARACTERS = 4_000_000
"""The most bytes of a JSON file that are searched for a line."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


def sarif_log(reports: Sequence[Report], errors: Mapping[str, str]) -> dict[str, Any]:
    """Return the log.

    ``errors`` maps each folder that was not inspected to the reason.
    """
    rules: dict[str, Finding] = {}
    for report in reports:
        for finding in report.findings:
            rules.setdefault(finding.code, finding)
    codes = sorted(rules)
    driver = {
        "name": "streamdec",
        "semanticVersion": version("streamdec"),
        "rules": [_rule(rules[code]) for code in codes],
    }
    results = [
        _result(report, snapshot, finding, codes.index(finding.code))
        for report, snapshot in ((each, Snapshot(Path(each.path))) for each in reports)
        for finding in report.findings
    ]
    notifications = [
        {"level": "error", "message": {"text": printable(message)}} for message in errors.values()
    ]
    invocation: dict[str, Any] = {"executionSuccessful": not errors}
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(finding: Finding) -> dict[str, Any]:
    references = "; ".join(str(each) for each in finding.reference)
    sentence = as_sentence(finding.when)
    return {
        "id": finding.code,
        "name": finding.code.title().replace("_", ""),
        "shortDescription": {"text": sentence},
        "fullDescription": {"text": sentence},
        "help": {"text": finding.action + (f"\n\nRead in {references}." if references else "")},
        "defaultConfiguration": {"level": LEVELS[finding.severity]},
    }


def _result(report: Report, snapshot: Snapshot, finding: Finding, index: int) -> dict[str, Any]:
    seen = [each for each in finding.evidence if each.file and each.file in snapshot]
    places = [_location(report, snapshot, each) for each in seen]
    if not places:
        home = next((name for name in HOMES if name in snapshot), "")
        places = [{"physicalLocation": {"artifactLocation": _artifact(report.path, home)}}]
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": LEVELS[finding.severity],
        "message": {"text": _message(finding)},
        "locations": places[:1],
        "partialFingerprints": {"finding/v1": _fingerprint(report, finding)},
        "properties": {
            "engines": list(finding.engines),
            "evidence": [each.to_dict() for each in finding.evidence],
            "action": finding.action,
        },
    }
    if places[1:]:
        result["relatedLocations"] = [{"id": i, **each} for i, each in enumerate(places[1:], 1)]
    return result


def _message(finding: Finding) -> str:
    seen = "; ".join(printable(str(each)) for each in finding.evidence[:6])
    told = as_sentence(finding.when)
    return f"{told} {finding.action}" + (f" Seen: {seen}" if seen else "")


def _fingerprint(report: Report, finding: Finding) -> str:
    """Return a hash of the rule, the folder's name and the places of the evidence."""
    places = [f"{each.file}#{each.pointer}" for each in finding.evidence]
    told = "\n".join((Path(report.path).name, finding.code, *sorted(set(places))))
    return hashlib.sha256(told.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def _location(report: Report, snapshot: Snapshot, evidence: Evidence) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(report.path, evidence.file)}
    line = evidence.line
    if line is None and evidence.pointer:
        line = line_of_pointer(_text(snapshot, evidence.file), evidence.pointer)
    if line is not None and line > 0:
        physical["region"] = {"startLine": line}
    found: dict[str, Any] = {
        "physicalLocation": physical,
        "message": {"text": printable(str(evidence)) or "here"},
    }
    if evidence.pointer:
        found["logicalLocations"] = [{"fullyQualifiedName": evidence.pointer, "kind": "member"}]
    return found


def _text(snapshot: Snapshot, name: str) -> str:
    content = snapshot.content(name) or b""
    return content[:MOST_CHARACTERS].decode("utf-8", "replace")


def _artifact(folder: str, name: str) -> dict[str, str]:
    """Return the location of a file.

    Code hosts want it relative to the working directory.
    """
    path = Path(os.path.abspath(folder)) / name  # noqa: PTH100 - links are kept as they are named
    here = Path.cwd()
    if path.is_relative_to(here) and path != here:
        return {"uri": _quoted(path.relative_to(here).as_posix()), "uriBaseId": "%SRCROOT%"}
    return {"uri": "file://" + _quoted(path.as_posix())}


def _quoted(path: str) -> str:
    return quote(os.fsencode(path))


# --- the lines of values in a JSON file -----------------------------------------------------------


def line_of_pointer(text: str, pointer: str) -> int | None:
    """Return the line, from 1, of the value at ``pointer`` (RFC 6901) in a JSON text.

    None if there is no such value. The text is scanned, not parsed: after the value it may be
    invalid.
    """
    wanted = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    for path, start in _values(text):
        if path == wanted:
            return text.count("\n", 0, start) + 1
    return None


def _values(text: str) -> Iterator[tuple[list[str], int]]:
    """Yield each value's path and the index of its first character."""
    path: list[str] = []
    kinds: list[str] = []
    is_key = False
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "]}":
            if kinds:
                kinds.pop()
                path.pop()
            is_key = False
        elif first == ",":
            if kinds and kinds[-1] == "[":
                path[-1] = str(int(path[-1]) + 1)
            is_key = bool(kinds) and kinds[-1] == "{"
        elif first == ":":
            is_key = False
        elif is_key:
            path[-1] = _unescaped(token.group())
        else:
            yield list(path), token.start()
            if first in "[{":
                kinds.append(first)
                path.append("0" if first == "[" else "")
                is_key = first == "{"


def _unescaped(literal: str) -> str:
    try:
        return str(json.loads(literal))
    except ValueError:
        return literal
