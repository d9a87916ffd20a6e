"""A request that was answered leaves nothing for the garbage collector.

A collection examines all objects while running streams wait. A body in a cycle of references would
stay in memory until then.
"""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server.conftest import Served
from tests.server.serving import until
from tests.server.test_errors import CHAT, COMPLETIONS, HI, JSON

MARK = "a field with this name is in no other object"
DEEP = {"role": "assistant", "tool_calls": [{"function": {"arguments": "[" * 99 + "]" * 99}}]}


@pytest.fixture
def _no_collections() -> Iterator[None]:
    gc.disable()
    gc.freeze()  # so that `is_left` looks only at what is made from now on
    yield
    gc.enable()


def is_left() -> bool:
    return any(type(each) is dict and MARK in each for each in gc.get_objects())


@pytest.mark.usefixtures("_no_collections")
@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (COMPLETIONS, {"prompt": "One", "max_tokens": 2}, 200),
        (COMPLETIONS, {"prompt": "One", "max_tokens": 2, "stream": True}, 200),
        (CHAT, {"messages": HI, "max_tokens": 2}, 200),
        (COMPLETIONS, {"prompt": 0}, 400),
        (COMPLETIONS, {"prompt": "One", "max_tokens": 0}, 400),
        (COMPLETIONS, {"prompt": "One", "stop": ""}, 400),
        (COMPLETIONS, {"prompt": "One " * 5_000}, 400),
        (COMPLETIONS, {"prompt": "One", "model": "none"}, 404),
        (CHAT, {"messages": [*HI, DEEP]}, 400),
        (CHAT, {"messages": [*HI, {"role": "user", "content": 1}]}, 400),
        ("/v1/messages", {"messages": HI, "max_tokens": 5, "stop_sequences": [""]}, 400),
        ("/v1/responses", {"input": 1}, 400),
        ("/tokenize", {"prompt": "One"}, 200),
        ("/tokenize", {"prompt": 1}, 400),
    ],
)
def test_a_body_is_freed_without_a_collection(
    server: Served, path: str, body: dict[str, Any], status: int
) -> None:
    for size in (1, 40_000):
        # Python does not track a dict that has only texts.
        data = json.dumps({**body, MARK: [["x" * size]]}).encode()
        response = server.http.post(path, content=data, headers=JSON)
        assert response.status_code == status, response.text
        until(lambda: not is_left())
