"""Each case gives the same text as in transformers, and so do templates of real models."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from streamdec.chat.sources import from_snapshot, special_tokens_of
from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError
from tests.chat import cases
from tests.support.files import SHARED, write_files

NOW = datetime(*cases.NOW)  # noqa: DTZ001 - templates get the local time
CASES = dict(cases.all_cases())
GOLDENS = json.loads(cases.GOLDENS.read_text(encoding="utf-8"))
PROFILES = ("classic", "hardened")
pytestmark = pytest.mark.filterwarnings("ignore:the chat template has no")
TEMPLATES: dict[tuple[str, str], ChatTemplate] = {}


def test_every_case_has_a_golden_of_both_profiles() -> None:
    assert GOLDENS["transformers"] == {"classic": "5.19.0", "hardened": "5.24.0"}
    assert set(GOLDENS["cases"]) == set(CASES)
    assert set(GOLDENS["snapshots"]) == set(cases.SNAPSHOTS)
    for group in ("cases", "snapshots"):
        assert {tuple(sorted(answers)) for answers in GOLDENS[group].values()} == {PROFILES}


@pytest.mark.parametrize("name", CASES)
def test_a_case_gives_what_transformers_gives(name: str) -> None:
    for profile in PROFILES:
        check(name, profile)


def check(name: str, profile: str) -> None:
    golden = GOLDENS["cases"][name][profile]
    messages, options = cases.call_of(CASES[name])
    template = template_of(name, profile)
    if "error" in golden:
        with pytest.raises(ChatTemplateError) as raised:
            template.render(messages, **options)
        if golden["said"] is not None:
            assert str(raised.value) == golden["said"]
    elif options.get("continue_final_message"):
        assert template.render(messages, **options) == golden["output"]
    else:
        text, spans = template.render_with_spans(messages, **options)
        assert text == golden["output"]
        assert [list(span) for span in spans] == golden["spans"]


def template_of(name: str, profile: str) -> ChatTemplate:
    """The template of a case; that of a file once, since compiling is what takes the time."""
    named = name.partition(": ")[0]
    key = (named if str(CASES[name]["template"]).startswith("@") else name, profile)
    if key not in TEMPLATES:
        template = cases.template_of(CASES[name])
        TEMPLATES[key] = ChatTemplate(
            template, special_tokens=cases.TOKENS, profile=profile, now=NOW
        )
    return TEMPLATES[key]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", cases.SNAPSHOTS)
def test_a_snapshot_has_the_template_and_the_tokens_that_transformers_finds(
    name: str, profile: str, tmp_path: Path
) -> None:
    golden = GOLDENS["snapshots"][name][profile]
    found = from_snapshot(write_files(tmp_path, cases.SNAPSHOTS[name]))
    assert found.templates == golden["chat_template"]
    assert special_tokens_of(tmp_path) == golden["special_tokens"]


FOLDER = SHARED.parent / "chat-goldens"
RENDERS = sorted(path.name for path in FOLDER.glob("renders/*.json"))


def read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text("utf-8"))


def arguments_of(case: dict[str, Any]) -> dict[str, Any]:
    """What ``render`` is given."""
    named = {key: value for key, value in case.items() if key not in ("id", "kwargs")}
    return {**named, **case.get("kwargs", {})}


@pytest.mark.parametrize(
    "profile",
    # test_goldens.py has the differences between the profiles.
    ["classic", pytest.param("hardened", marks=pytest.mark.thorough)],
)
@pytest.mark.parametrize("name", RENDERS)
def test_a_real_template_renders_as_transformers_renders_it(name: str, profile: str) -> None:
    golden = read(f"renders/{name}")
    conversations = {case["id"]: arguments_of(case) for case in read("conversations.json")["cases"]}
    template = ChatTemplate(
        (FOLDER / "templates" / f"{golden['template']}.jinja").read_text("utf-8"),
        special_tokens=golden["special_tokens"],
        profile=profile,
        now=datetime.fromisoformat(golden["frozen_now"]),
    )
    assert golden["cases"]
    for case in golden["cases"]:
        expected = case["expect"][profile]
        if "error" not in expected:
            assert template.render(**conversations[case["id"]]) == expected["output"], case["id"]
            continue
        with pytest.raises(ChatTemplateError) as raised:
            template.render(**conversations[case["id"]])
        if expected["error"]["type"] == "TemplateError":
            assert str(raised.value) == expected["error"]["message"]
    for case in golden.get("assistant_spans", []):
        output, spans = template.render_with_spans(**conversations[case["id"]])
        expected = case["expect"][profile]
        assert (output, [list(span) for span in spans]) == (expected["output"], expected["spans"])
