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
RENDERS = sorted(path.name for path in FOLDER.glob("renders/*.json"))
pytestmark = pytest.mark.filterwarnings("ignore:the chat template has no")


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
