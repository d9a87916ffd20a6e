"""What is rendered: templates, conversations and options, for transformers and for us alike.

A case is a call of ``apply_chat_template``: ``template`` (a text, ``@name`` for a file in
``data/templates``, or several), ``messages``, and the other arguments. Transformers is asked by
``scripts/make_chat_goldens.py``, we are by ``test_goldens.py``. ``data/cases.json`` has the cases;
here are those whose values are not JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
GOLDENS = DATA / "goldens.json"
NOW = (2026, 3, 5, 14, 7, 9)
"""What the clock says."""
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}

Case = dict[str, Any]


class Role(str, Enum):  # noqa: UP042 - as most code in use has it
    USER = "user"


class Number(int):
    """A scalar of another class."""


@dataclass
class Message:
    role: str
    content: Any


class Opaque:
    """A value that is not data."""


_CASES = json.loads((DATA / "cases.json").read_text("utf-8"))
CONVERSATIONS: dict[str, Case] = _CASES["conversations"]
SNAPSHOTS: dict[str, dict[str, Any]] = _CASES["snapshots"]
"""Files of snapshots: which template and which special tokens are there."""
HI = [{"role": "user", "content": "Hi"}]

CONTRACT: dict[str, Case] = {
    **_CASES["contract"],
    "tuple": {"template": "{{ x }}{{ x[0] }}{{ x | tojson }}", "x": (1, "a", (2,))},
    "an enum": {"template": "{{ x }}|{{ x.value }}|{{ x ~ '' }}", "x": Role.USER},
    "a subclass of int": {"template": "{{ x }}|{{ x + 1 }}", "x": Number(4)},
    "a dataclass": {"template": "{{ x.role }}|{{ x['content'] }}", "x": Message("r", [1])},
    "a set": {"template": "{{ x is string }}", "x": {1}},
    "an object": {"template": "{{ x is string }}", "x": Opaque()},
    "messages of a dataclass": {
        "template": "{% for m in messages %}{{ m.role }}: {{ m['content'] }}{% endfor %}",
        "messages": [Message("user", "Hi")],
    },
    "tojson of keys": {"template": "{{ x | tojson }}", "x": {2: "a", None: "b", True: "", 0.5: ""}},
    "continue, a tuple of parts": {
        "template": "{{ messages[-1].content }}",
        "messages": [{"role": "assistant", "content": ({"type": "text", "text": "a"},)}],
        "continue_final_message": True,
    },
}


def all_cases() -> Iterator[tuple[str, Case]]:
    """Every case by its name."""
    for name in ("chatml", "alternating", "parts", "tools"):
        for conversation, case in CONVERSATIONS.items():
            yield f"{name}: {conversation}", {"template": f"@{name}", **case}
    yield from CONTRACT.items()


def template_of(case: Case) -> Any:
    """The template of ``case``; that of a file is read from it."""
    template = case["template"]
    if isinstance(template, str) and template.startswith("@"):
        return (DATA / "templates" / f"{template[1:]}.jinja").read_text(encoding="utf-8")
    return template


def call_of(case: Case) -> tuple[Any, Case]:
    """The messages of ``case`` and the other arguments."""
    options = {key: value for key, value in case.items() if key not in ("template", "messages")}
    return case.get("messages", HI), options
