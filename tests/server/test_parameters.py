"""The tables of parameters are complete, and errors name each rejected parameter."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import openai
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase
from openai import OpenAI
from openai.types import completion_create_params
from openai.types.chat import completion_create_params as chat_create_params

from streamdec.server.parameters import ANTHROPIC, CHAT, COMPLETION, Api
from tests.server.conftest import Served

CHATS, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
HI: Any = [{"role": "user", "content": "Hi"}]
REFUSING = [(CHATS, CHAT, {"messages": HI}), (COMPLETIONS, COMPLETION, {"prompt": "Hi"})]
IGNORED_ONCE = {
    "bad_words": ["no"],
    "allowed_token_ids": [5],
    "truncate_prompt_tokens": 3,
    "prompt_embeds": "AAAA",
    "detokenize": False,
    "return_tokens_as_token_ids": True,
    "length_penalty": 1.5,
    "guided_json": {"type": "object"},
    "prompt_logprobs": 0,
    "stops": ["no"],
    "stop_sequences": ["no"],
}


def known(api: Api) -> set[str]:
    return {*api.read, *api.harmless, *api.refused}


@pytest.mark.parametrize("api", [CHAT, COMPLETION, ANTHROPIC])
def test_a_parameter_is_in_one_table(api: Api) -> None:
    assert not api.read & api.harmless
    assert not (api.read | api.harmless) & api.refused.keys()


@pytest.mark.parametrize(
    ("api", "params"),
    [
        (CHAT, chat_create_params.CompletionCreateParamsBase),
        (COMPLETION, completion_create_params.CompletionCreateParamsBase),
        (ANTHROPIC, MessageCreateParamsBase),
    ],
)
def test_every_parameter_of_a_client_is_known(api: Api, params: Any) -> None:
    assert {*params.__annotations__} - known(api) == set()


@pytest.mark.parametrize(
    ("api", "package", "path", "name"),
    [
        (CHAT, "vllm", "entrypoints/openai/chat_completion/protocol.py", "ChatCompletionRequest"),
        (COMPLETION, "vllm", "entrypoints/openai/completion/protocol.py", "CompletionRequest"),
        (CHAT, "sglang", "srt/entrypoints/openai/protocol.py", "ChatCompletionRequest"),
        (COMPLETION, "sglang", "srt/entrypoints/openai/protocol.py", "CompletionRequest"),
    ],
)
def test_every_parameter_of_an_engines_server_is_known(
    api: Api, package: str, path: str, name: str
) -> None:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed")
    tree = ast.parse((Path(spec.origin).parent / path).read_text(encoding="utf-8"))
    found = {
        line.target.id
        for each in tree.body
        if isinstance(each, ast.ClassDef) and each.name == name
        for line in each.body
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
    }
    assert found
    assert {each for each in found if not each.startswith("_")} - known(api) == set()


@pytest.mark.parametrize(("path", "api", "body"), REFUSING)
def test_a_parameter_that_changes_the_answer_is_rejected(
    server: Served, path: str, api: Api, body: dict[str, Any]
) -> None:
    for name in api.refused.keys() - {"tool_choice"}:
        value = IGNORED_ONCE.get(name, {"some": "value"})
        response = server.post(path, **body, **{name: value})
        error = response.json()["error"]
        assert (response.status_code, error["param"]) == (400, name)
        assert error["code"] == "unsupported_parameter"
        assert error["message"].startswith(f"{name}: ")
    assert server.engine.runs == []


@pytest.mark.parametrize(("path", "api", "body"), REFUSING)
def test_null_and_values_that_change_nothing_are_accepted(
    server: Served, path: str, api: Api, body: dict[str, Any]
) -> None:
    plain = server.post(path, **body).json()["choices"]
    for name in api.refused.keys() - {"tool_choice"}:
        for value in (None, *api.refused[name].unless):
            response = server.post(path, **body, **{name: value})
            assert response.status_code == 200, (name, value, response.text)
            assert response.json()["choices"] == plain, (name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("detokenize", 1), ("use_beam_search", 0), ("min_new_tokens", False), ("bad_words", {})],
)
def test_a_value_of_another_type_is_not_the_default(server: Served, name: str, value: Any) -> None:
    assert server.post(prompt="Hi", **{name: value}).json()["error"]["param"] == name


@pytest.mark.parametrize("name", IGNORED_ONCE)
def test_openais_client_gets_the_error(client: OpenAI, name: str) -> None:
    extra = {name: IGNORED_ONCE[name]}
    with pytest.raises(openai.BadRequestError) as chat:
        client.chat.completions.create(model="tiny", messages=HI, extra_body=extra)
    with pytest.raises(openai.BadRequestError) as completion:
        client.completions.create(model="tiny", prompt="Hi", stream=True, extra_body=extra)
    assert (chat.value.param, completion.value.param) == (name, name)


def test_the_effort_is_a_variable_of_the_template(server: Served, client: OpenAI) -> None:
    client.chat.completions.create(model="tiny", messages=HI, reasoning_effort="high")
    client.chat.completions.create(
        model="tiny",
        messages=HI,
        reasoning_effort="high",
        extra_body={"chat_template_kwargs": {"reasoning_effort": "low"}},
    )
    told = [server.tokenizer.decode(each.prompt) for each in server.engine.runs]
    assert ["effort: high" in told[0], "effort: low" in told[1]] == [True, True]


@pytest.mark.parametrize("name", ["container", "output_config"])
def test_anthropics_parameters(server: Served, name: str) -> None:
    body = {"messages": HI, "max_tokens": 5, "model": "tiny", name: {"type": "other"}}
    response = server.post("/v1/messages", **body)
    assert response.status_code == 400
    assert response.json()["error"]["message"].startswith(f"{name}: ")
    for value in (None, *ANTHROPIC.refused[name].unless):
        assert server.post("/v1/messages", **{**body, name: value}).status_code == 200


MESSAGE: Any = {"messages": HI, "max_tokens": 50, "model": "tiny"}


def test_a_parameter_that_changes_a_message_is_rejected(server: Served) -> None:
    plain = server.post("/v1/messages", **MESSAGE).json()["content"]
    for name, refused in ANTHROPIC.refused.items():
        for value in (None, *refused.unless):
            response = server.post("/v1/messages", **MESSAGE, **{name: value})
            assert response.status_code == 200, (name, value, response.text)
            assert response.json()["content"] == plain, (name, value)
        response = server.post("/v1/messages", **MESSAGE, **{name: IGNORED_ONCE.get(name, 17)})
        assert response.status_code == 400, (name, response.text)
        assert response.json()["error"]["message"].startswith(f"{name}: ")


def test_every_parameter_of_a_chat_is_known_for_messages() -> None:
    assert known(CHAT) - known(ANTHROPIC) == set()


def test_messages_have_the_parameters_of_sampling_and_of_the_template(server: Served) -> None:
    more = {"chat_template_kwargs": {"shout": True}, "skip_special_tokens": False, "seed": 7}
    answer = server.post("/v1/messages", **MESSAGE, **more).json()
    assert answer["content"][0]["text"] == "<|im_start|>user: Hi<|im_end|>!<|im_start|>assistant: "
    assert server.engine.runs[0].params.seed == 7
