"""For any request: an answer or an error of the API, and never an internal error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.server.conftest import Served
from tests.server.test_errors import CHAT, COMPLETIONS, JSON

FIELDS = [
    "prompt", "messages", "system", "model", "n", "best_of", "stop", "stop_token_ids",
    "stop_sequences", "max_tokens", "max_completion_tokens", "min_tokens", "ignore_eos",
    "include_stop_str_in_output", "ignore_stops_between", "starts_inside", "stop_regex", "echo",
    "logprobs", "top_logprobs", "stream",
    "stream_options", "temperature", "top_p", "top_k", "seed", "logit_bias", "tools",
    "tool_choice", "chat_template", "chat_template_kwargs", "add_generation_prompt",
    "continue_final_message", "skip_special_tokens", "return_token_ids", "add_special_tokens",
    "role", "content", "tool_calls", "function", "arguments", "name", "type", "text",
    "include_usage", "reasoning_content", "image_url", "include_reasoning", "separate_reasoning",
    "input", "instructions", "max_output_tokens", "text", "format", "reasoning", "effort",
    "include", "metadata",
]  # fmt: skip
NAMES = st.one_of(st.sampled_from(FIELDS), st.text(max_size=5))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 20),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        ["user", "assistant", "tiny", "text", "stop", "{{ 1 }}", "<|im_end|>", "\ud800"]
    ),
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
BODIES = st.dictionaries(NAMES, VALUES, max_size=7)
DEEP_CALL = {
    "role": "assistant",
    "tool_calls": [{"function": {"name": "f", "arguments": "[" * 9_000 + "]" * 9_000}}],
}
GOOD: dict[str, dict[str, Any]] = {
    COMPLETIONS: {"prompt": "One two", "max_tokens": 5},
    CHAT: {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5},
    "/v1/responses": {"input": "Hi", "max_output_tokens": 5},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses/input_tokens": {"input": "Hi"},
    "/tokenize": {"prompt": "One"},
    "/detokenize": {"tokens": [1]},
}


@settings(max_examples=60)
@given(path=st.sampled_from([*GOOD]), body=BODIES, is_whole=st.booleans())
@example(path=CHAT, body={"continue_final_message": True}, is_whole=True)
@example(path=CHAT, body={"messages": [{"role": "user", "tool_calls": [1]}]}, is_whole=False)
@example(path=CHAT, body={"tools": [{}]}, is_whole=True)
@example(path=CHAT, body={"messages": [DEEP_CALL]}, is_whole=True)
@example(path="/tokenize", body={"messages": [DEEP_CALL]}, is_whole=False)
def test_no_json_body_causes_a_server_error(
    running: Served, path: str, body: dict[str, Any], is_whole: bool
) -> None:
    running.engine.reset()
    body = {**GOOD[path], **body} if is_whole else body
    data = json.dumps(body).encode()
    response = running.http.post(path, content=data, headers=JSON)
    assert response.status_code in (200, 400, 404), response.text
    if response.headers["content-type"].startswith("application/json"):
        response.json()
    else:
        assert response.text.endswith(("data: [DONE]\n\n", "\n\n"))
        assert '"error"' not in response.text


@settings(max_examples=40)
@given(data=st.binary(max_size=40), kind=st.sampled_from(["application/json", "text/html", ";"]))
def test_no_bytes_cause_a_server_error(running: Served, data: bytes, kind: str) -> None:
    response = running.http.post(COMPLETIONS, content=data, headers={"content-type": kind})
    assert response.status_code in (400, 415)
    assert response.json()["error"]["message"]
