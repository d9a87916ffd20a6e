"""Findings that are checked against what a load gives, what an engine reads, or a rendering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamdec import load_tokenizer
from streamdec.preflight import inspect
from tests.preflight.changes import both, config, entry, own, say, template
from tests.preflight.making import CHATML, control


@pytest.mark.parametrize("key", ["extra_special_tokens", "additional_special_tokens"])
@pytest.mark.parametrize("model_type", ["llama", "qwen2"])
@pytest.mark.parametrize("form", ["list", "object"])
def test_a_token_that_is_called_special_is_checked_after_loading(
    form: str, model_type: str, key: str, tmp_path: Path
) -> None:
    """An object makes its tokens special, a list does only in some classes."""
    listed: Any = ["<u>"] if form == "list" else {"u_token": "<u>"}
    change = both(
        own(260, "<u>", special=False),
        entry(260, "<u>", special=False),
        say(**{key: listed}),
        config(model_type=model_type),
    )
    report = inspect(control(change).write(tmp_path), render=False)
    loaded = load_tokenizer(tmp_path, fast="off")
    is_printed = loaded.decode([260]) == "<u>"
    is_called_special = form == "list" or key == "extra_special_tokens"
    assert ("EXTRA_SPECIAL_NOT_SKIPPED" in report.codes) == (is_printed and is_called_special)
    assert ("SPECIAL_FLAG_DRIFT" in report.codes) == (not is_printed)


@pytest.mark.parametrize(
    ("added_text", "code", "said"),
    [
        pytest.param(
            "{{ lipsum(1000000000) }}",
            "CHAT_TEMPLATE_RESOURCE_LIMIT",
            "ended early",
            marks=pytest.mark.thorough,
        ),
        ("{{ messages.append(1) }}", "CHAT_TEMPLATE_SANDBOX_VIOLATION", "unsafe"),
        ("{% include 'a' %}", "CHAT_TEMPLATE_FAILS", "loader"),
        ("{{ 1 / 0 }}", "CHAT_TEMPLATE_FAILS", "ZeroDivisionError"),
        ("{{ messages.gone.x }}", "CHAT_TEMPLATE_FAILS", "UndefinedError"),
        ("{{ raise_exception('not today') }}", "CHAT_TEMPLATE_REFUSES", "not today"),
    ],
)
def test_every_failure_to_render_is_a_finding(
    added_text: str, code: str, said: str, tmp_path: Path
) -> None:
    report = inspect(control(template(CHATML + added_text)).write(tmp_path))
    [finding] = [f for f in report.findings if f.code == code]
    assert finding.severity == ("warning" if code == "CHAT_TEMPLATE_REFUSES" else "error")
    assert said in finding.evidence[0].note
