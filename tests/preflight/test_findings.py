"""Every finding fires in a snapshot made for it, and not in the control or in a near miss."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamdec.preflight import Report, inspect
from streamdec.preflight.preflight_report import RULES, SEVERITIES
from tests.preflight.changes import (
    CASES,
    GRAVER,
    NEAR_MISSES,
    RENDERED,
    both,
    config,
    drop,
    ending,
    file,
    say,
    template,
    without,
)
from tests.preflight.making import CHATML, Parts, control
from tests.preflight.test_evidence import check
from tests.support.pages import Page

NETWORK = {"COMMIT_NOT_REACHABLE", "COMMIT_NOT_HEAD", "COMMIT_UNVERIFIED"}
"""Only the hub can say so."""
MADE_OTHERWISE = {"FILE_OUTSIDE_FOLDER", "CHAT_TEMPLATE_NOT_INSPECTED"}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return inspect(control().write(tmp_path_factory.mktemp("control")))


def test_nothing_is_found_in_the_control(clean: Report) -> None:
    assert [str(finding) for finding in clean.findings] == []
    assert clean.worst is None


@pytest.mark.parametrize("code", CASES)
def test_a_finding_fires_in_the_snapshot_made_for_it(
    code: str, tmp_path: Path, clean: Report
) -> None:
    report = inspect(control(CASES[code]).write(tmp_path), render=code in RENDERED)
    found = [finding for finding in report.findings if finding.code == code]
    assert found[0].severity == GRAVER.get(code, RULES[code].severity)
    assert all(each.engines and each.action and each.evidence for each in found)
    assert code not in clean.codes
    json.dumps(report.to_dict(), allow_nan=False)
    check(tmp_path, report)


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_a_near_miss_is_not_a_finding(name: str, tmp_path: Path) -> None:
    code = name.partition(":")[0]
    report = inspect(control(NEAR_MISSES[name]).write(tmp_path), render=code in RENDERED)
    assert code not in report.codes, [str(f) for f in report.findings if f.code == code]


def test_every_rule_has_a_snapshot() -> None:
    assert set(CASES) | NETWORK | MADE_OTHERWISE == set(RULES)


def test_the_most_severe_findings_are_first(tmp_path: Path) -> None:
    change = both(CASES["PAD_EQUALS_EOS"], CASES["EOS_ID_UNKNOWN"], drop("chat_template"))
    report = inspect(control(change).write(tmp_path), render=False)
    order = [SEVERITIES.index(finding.severity) for finding in report.findings]
    assert order == sorted(order, reverse=True)
    assert report.worst == "error"
    assert {f.code for f in report.at_least("warning")} < report.codes


@pytest.mark.parametrize("engine", ["transformers@4.57.6", "vllm@0.19.1"])
def test_a_fault_of_old_versions_is_an_error_only_for_them(engine: str, tmp_path: Path) -> None:
    folder = control(CASES["EXTRA_SPECIAL_TOKENS_LIST"]).write(tmp_path)
    for asked, severity in ((engine, "error"), ("sglang@0.5.10", "info")):
        [finding] = inspect(folder, engines=(asked,), render=False).findings
        assert (finding.code, finding.severity) == ("EXTRA_SPECIAL_TOKENS_LIST", severity)


def test_a_class_that_builds_from_the_vocabulary_loses_tokens(tmp_path: Path) -> None:
    """Qwen2Tokenizer takes the added tokens that the config declares, and no others."""
    change = both(config(model_type="qwen2"), lambda parts: parts.decoder.pop("259"))
    change = both(change, drop("pad_token"))
    report = inspect(control(change).write(tmp_path), render=False)
    [finding] = [f for f in report.findings if f.code == "ADDED_TOKEN_ID_NOT_HONOURED"]
    assert finding.evidence[0].ids == {259: "<|pad|>"}
    assert "Qwen2Tokenizer" in finding.evidence[0].note


@pytest.mark.parametrize(
    ("name", "other", "severity"),
    [
        ("DebertaV2Tokenizer", "spm.model", "info"),
        ("ProphetNetTokenizer", "prophetnet.tokenizer", "info"),
        ("ByT5Tokenizer", "merges.txt", "info"),
        ("MarianTokenizer", "merges.txt", "error"),
        ("PreTrainedTokenizerFast", "vocab.txt", "error"),
        ("PreTrainedTokenizerFast", "spiece.model", "error"),
        ("PreTrainedTokenizerFast", "tokenizer.model", "info"),
    ],
)
def test_a_missing_tokenizer_json_is_an_error_if_nothing_is_read_instead(
    name: str, other: str, severity: str, tmp_path: Path
) -> None:
    change = both(without("tokenizer"), say(tokenizer_class=name), file(other, "a\n"))
    report = inspect(control(change).write(tmp_path), render=False)
    assert {f.code: f.severity for f in report.findings}["TOKENIZER_JSON_MISSING"] == severity
    # Classes in Python do not read a tokenizer.json.
    report = inspect(control(both(change, with_own)).write(tmp_path), render=False)
    is_missing = "TOKENIZER_JSON_MISSING" in report.codes
    assert is_missing == (name == "MarianTokenizer")


def with_own(parts: Parts) -> None:
    parts.tokenizer = control().tokenizer


@pytest.mark.parametrize("entry", ["<|im_end|>", {"special": True}, {"content": ""}])
def test_an_entry_that_is_not_a_token_is_a_finding(entry: Any, tmp_path: Path) -> None:
    change = both(lambda parts: parts.decoder.update({"270": entry}))
    report = inspect(control(change).write(tmp_path), render=False)
    assert report.codes == {"ADDED_TOKENS_DECODER_SHAPE"}


NOT_LOADED: dict[tuple[str, str], list[Any]] = {
    ("eos_token", "a string or {"): [["x"], {"content": "x"}, 5, False],
    ("pad_token", "a string or {"): [{}],
    ("tokenizer_class", "a string"): [5, [], False, {}],
    ("auto_map", "an object"): ["x", 5, None, ["x"], {"AutoTokenizer": []}],
}
"""Keys and the expected types: values with which transformers 5.24 raises."""


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [(key, v, expected) for (key, expected), values in NOT_LOADED.items() for v in values],
)
def test_a_value_that_transformers_does_not_load(
    key: str, value: Any, expected: str, tmp_path: Path
) -> None:
    report = inspect(control(say(**{key: value})).write(tmp_path), render=False)
    [finding] = [f for f in report.findings if f.code == "TOKENIZER_CONFIG_TYPE"]
    [evidence] = finding.evidence
    assert (evidence.file, evidence.pointer) == ("tokenizer_config.json", f"/{key}")
    assert evidence.note.startswith(f"expected {expected}")
    assert evidence.line is None


def test_without_jinja2_the_report_says_that_the_template_was_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jinja2", None)
    report = inspect(control().write(tmp_path))
    assert report.codes == {"CHAT_TEMPLATE_NOT_INSPECTED"}
    assert "streamdec[chat]" in report.answer


def test_a_failed_child_process_is_not_a_finding_about_the_template(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("subprocess.Popen", refuse)
    [finding] = inspect(control().write(tmp_path)).findings
    assert (finding.code, finding.severity) == ("CHAT_TEMPLATE_NOT_INSPECTED", "warning")
    assert "temporarily unavailable" in finding.evidence[0].note


APPENDING = (  # Kimi K2's own template appends to a list where a tool is called
    "{% set seen = [] %}{% for m in messages %}{% if m.tool_calls %}"
    "{% set _ = seen.append(m) %}{% endif %}{% endfor %}"
)
NAMED = [
    {"name": "default", "template": CHATML},
    {"name": "rag", "template": CHATML + "{{ 'a' * 4000000000 }}"},
]
CALLS_ALONE = "{% for m in messages %}{% if m.tool_calls %}{{ m.content }}{% endif %}{% endfor %}"

PARTS = "{% for m in messages if m.content %}{% for c in m.content %}x{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("change", "code", "pointer", "note"),
    [
        (say(chat_template=NAMED), "CHAT_TEMPLATE_RESOURCE_LIMIT", "/1/template", ""),
        (ending(APPENDING), "CHAT_TEMPLATE_SANDBOX_VIOLATION", "", "a call of a tool; "),
        # What OpenAI's API gives for a message that only calls tools has null content.
        *(
            (template(source), "CHAT_TEMPLATE_NONE_CONTENT_LEAK", "", "")
            for source in (CALLS_ALONE + "{{ add_generation_prompt }}", CALLS_ALONE + PARTS)
        ),
    ],
)
def test_the_place_of_a_fault_in_a_template(
    change: Callable[[Parts], object], code: str, pointer: str, note: str, tmp_path: Path
) -> None:
    report = inspect(control(change).write(tmp_path))
    [finding] = [f for f in report.findings if f.code == code]
    assert finding.evidence[0].pointer == f"/chat_template{pointer}"
    assert finding.evidence[0].note.startswith(note)
    assert {f.code for f in report.at_least("error")} <= {code}


def test_long_texts_are_shortened_where_they_are_shown(tmp_path: Path) -> None:
    text = "y" * 10_000
    report = inspect(control(lambda p: p.say(eos_token=text)).write(tmp_path), render=False)
    shown = json.dumps(report.to_dict(), ensure_ascii=False)
    assert f'"{"y" * 500}…"' in shown
    assert "y" * 501 not in shown


PAGE = Page("docs/how-to/check-a-model.md", until="Run preflight in CI")


def test_the_links_lead_to_the_finding_that_they_name() -> None:
    links = re.findall(r"\[([A-Z0-9_]+)\]\(([^)]+)\)", PAGE.text)
    assert links
    for code, target in links:
        assert code in RULES, code
        assert target == f"#{code.lower()}"
