"""Templates of real models: what transformers made of them, where those files are at hand."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError
from tests.support.files import SHARED

FOLDER = SHARED.parent / "chat-goldens"
PROFILES = ("classic", "hardened")
pytestmark = pytest.mark.filterwarnings("ignore:the chat template has no")


def read(name: str) -> dict[str, Any]:
    """A file of the folder; an empty one if it is not at hand."""
    path = FOLDER / name
    found: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"cases": []}
    return found


CONVERSATIONS = {case["id"]: case for case in read("conversations.json")["cases"]}
RENDERS = sorted(path.name for path in FOLDER.glob("renders/*.json"))
CONTRACT = {case["id"]: case for case in read("contract.json")["cases"]}
SELECTION = {case["id"]: case for case in read("selection.json")["cases"]}
EXPECTED = {
    name: {case["id"]: case["expect"] for case in read(f"{name}_expected.json")["cases"]}
    for name in ("contract", "selection")
}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", RENDERS)
def test_a_real_template_renders_as_transformers_renders_it(name: str, profile: str) -> None:
    golden = read(f"renders/{name}")
    text = (FOLDER / "templates" / f"{golden['template']}.jinja").read_text("utf-8")
    template = ChatTemplate(
        text,
        special_tokens=golden["special_tokens"],
        profile=profile,
        now=datetime.fromisoformat(golden["frozen_now"]),
    )
    assert golden["cases"]
    for case in golden["cases"]:
        assert_same(template, CONVERSATIONS[case["id"]], case["expect"][profile], case["id"])
    for case in golden.get("assistant_spans", []):
        arguments = arguments_of(CONVERSATIONS[case["id"]])
        output, spans = template.render_with_spans(**arguments)
        expected = case["expect"][profile]
        assert (output, [list(span) for span in spans]) == (expected["output"], expected["spans"])


@pytest.mark.parametrize("name", CONTRACT)
def test_the_environment_is_that_of_transformers(name: str) -> None:
    for profile in PROFILES:
        check(name, profile)


def check(name: str, profile: str) -> None:
    case = CONTRACT[name]
    now = datetime(2026, 3, 5, 14, 7, 9)  # noqa: DTZ001 - templates get the local time
    context = {"messages": [], **case.get("context", {})}
    template = ChatTemplate(case["template"], profile=profile, now=now)
    asked = {"messages": context.pop("messages"), "kwargs": context}
    assert_same(template, asked, EXPECTED["contract"][name][profile], name)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SELECTION)
def test_the_template_that_is_chosen_is_that_of_transformers(name: str, profile: str) -> None:
    case, expected = SELECTION[name], EXPECTED["selection"][name][profile]
    template = ChatTemplate(case["chat_template"], profile=profile)
    options = {"tools": case.get("tools"), "chat_template": case.get("request")}
    messages = [{"role": "user", "content": "Hi"}]
    if "error" in expected:
        with pytest.raises(ChatTemplateError, match="no chat template"):
            template.render(messages, **options)
    else:
        # The templates of the cases are their own rendering, except the literal.
        chosen = {"{{ 1 }}": "1"}.get(expected["chosen"], expected["chosen"])
        assert template.render(messages, **options) == chosen


def arguments_of(case: dict[str, Any]) -> dict[str, Any]:
    """What ``render`` is given."""
    named = {key: value for key, value in case.items() if key not in ("id", "kwargs")}
    return {**named, **case.get("kwargs", {})}


def assert_same(
    template: ChatTemplate, case: dict[str, Any], expected: dict[str, Any], name: str
) -> None:
    """The same text, or an error where there was one."""
    if "error" not in expected:
        assert template.render(**arguments_of(case)) == expected["output"], name
        return
    with pytest.raises(ChatTemplateError) as raised:
        template.render(**arguments_of(case))
    if expected["error"]["type"] == "TemplateError":
        assert str(raised.value) == expected["error"]["message"]
