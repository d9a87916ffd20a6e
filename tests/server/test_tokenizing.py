"""What people expect of such a server besides answers: tokens, health, and ids of requests."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from anthropic import Anthropic
from click.testing import CliRunner

import streamdec.server
from streamdec.cli.command_group import commands
from streamdec.server import create_app
from tests.server.conftest import LIMITS, Served
from tests.server.serving import EchoEngine, served, until

TEXT = "One 🦉<|im_end|>"
HI = [{"role": "user", "content": "Hi 🦉"}]


def test_a_text_becomes_ids_and_the_ids_the_text(server: Served) -> None:
    ids = list(server.tokenizer.encode(TEXT).ids)
    found = server.post("/tokenize", prompt=TEXT, model="tiny", return_token_strs=True).json()
    assert found == {
        "count": len(ids),
        "max_model_len": LIMITS.prompt_tokens,
        "tokens": ids,
        "token_strs": [server.tokenizer.id_to_token(each) for each in ids],
    }
    assert server.post("/tokenize", prompt=TEXT).json()["token_strs"] is None
    assert server.post("/detokenize", tokens=ids).json() == {"prompt": TEXT}
    assert server.post("/detokenize", tokens=[]).json() == {"prompt": ""}
    assert server.engine.runs == []


def test_a_conversation_has_the_ids_that_the_engine_gets(server: Served) -> None:
    found = server.post("/tokenize", messages=HI).json()
    server.post("/v1/chat/completions", messages=HI)
    assert found["tokens"] == server.engine.runs[0].prompt
    shorter = server.post("/tokenize", messages=HI, add_generation_prompt=False).json()
    assert shorter["count"] < found["count"]


def test_anthropics_client_counts_the_tokens(server: Served) -> None:
    options: Any = {"model": "tiny", "messages": HI, "system": "Be kind."}
    with Anthropic(api_key="none", base_url=server.url, max_retries=0) as client:
        counted = client.messages.count_tokens(**options).input_tokens
        answer = client.messages.create(max_tokens=500, **options)
    assert counted == answer.usage.input_tokens == len(server.engine.runs[0].prompt)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        ("/tokenize", {}, "prompt must be a string"),
        ("/tokenize", {"prompt": "a" * 9_000}, "the limit is 2000"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "/v1/models lists the models"),
        (
            "/tokenize",
            {"messages": HI, "chat_template": "{{ 1 }}"},
            "not render templates of requests",
        ),
        ("/tokenize", {"messages": []}, "at least one message"),
        ("/tokenize", {"messages": HI, "documents": [{"a": "b"}]}, "does not render documents"),
        ("/tokenize", {"messages": HI, "add_special_tokens": True}, "the chat template writes"),
        ("/tokenize", {"prompt": "a", "truncate_prompt_tokens": 1}, "does not truncate prompts"),
        ("/detokenize", {}, "tokens must be a list of token ids"),
        ("/detokenize", {"tokens": [1, -1]}, "tokens: a token id must be from 0"),
        ("/detokenize", {"tokens": [1] * 2_001}, "the limit is 2000"),
        ("/v1/messages/count_tokens", {}, "messages must be a list"),
        (
            "/v1/messages/count_tokens",
            {"messages": HI, "model": "other"},
            "/v1/models lists the models",
        ),
        (
            "/v1/messages/count_tokens",
            {"messages": HI, "container": "a"},
            "has no such service",
        ),
    ],
)
def test_malformed_requests_to_tokenize_are_named(
    server: Served, path: str, body: dict[str, Any], told: str
) -> None:
    response = server.post(path, **body)
    assert response.status_code in (400, 404)
    assert told in response.json()["error"]["message"]
    assert (response.json().get("type") == "error") == path.startswith("/v1/messages")


def test_tokens_need_a_key_and_health_does_not(tokenizer: Any) -> None:
    app = create_app(tokenizer, EchoEngine(), api_keys=["key"])
    with served(app) as url, httpx.Client(base_url=url) as http:
        for path in ("/tokenize", "/detokenize", "/v1/messages/count_tokens"):
            assert http.post(path, json={}).status_code == 401
        for path in ("/health", "/ready", "/live", "/ping"):
            assert http.get(path).status_code == 200
        assert http.post("/ping").status_code == 200
        app.state.front.slots.close()
        codes = [http.get(path).status_code for path in ("/health", "/ready", "/ping", "/live")]
        assert codes == [503, 503, 503, 200]


@pytest.mark.parametrize("own", ["mine", "a-1.b:c_9", "x" * 128])
def test_the_id_of_a_client_is_in_the_answer_and_the_log(
    server: Served, own: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.engine.then = "breaks"
    headers = {"x-request-id": own}
    response = server.http.post("/v1/completions", json={"prompt": "One"}, headers=headers)
    assert response.headers["x-request-id"] == own
    until(lambda: f"request {own}: the engine failed" in caplog.text)
    server.engine.then = "ends"
    response = server.http.post("/v1/completions", json={"prompt": "One"}, headers=headers)
    assert response.json()["id"] == f"cmpl-{own}"


@pytest.mark.parametrize("own", ["", "a b", "x" * 129, "a\tb", b"\xe9", "a;b", '"'])
def test_an_id_that_a_log_cannot_have_is_replaced(server: Served, own: Any) -> None:
    found = server.http.get("/health", headers={"x-request-id": own}).headers["x-request-id"]
    assert len(found) == 24
    assert found.isalnum()


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ([], False),
        (["--host", "::1"], False),
        (["--host", "0.0.0.0"], True),
        (["--host", "192.0.2.1"], True),
        (["--host", "0.0.0.0", "--api-key", "key"], False),
    ],
)
def test_a_server_without_a_key_that_others_can_reach_warns(
    options: list[str], warns: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamdec.server, "serve", lambda *_, **__: 0)
    monkeypatch.delenv("STREAMDEC_API_KEY", raising=False)
    result = CliRunner().invoke(commands, ["serve", *options])
    assert result.exit_code == 0
    assert ("Warning: anyone who can reach" in result.stderr) == warns
