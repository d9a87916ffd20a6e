"""Ids of the engine that the tokenizer does not have: what clients get, and who sees them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from click.testing import CliRunner
from openai import OpenAI
from starlette.testclient import TestClient

import streamdec.server
from streamdec.cli.command_group import commands
from streamdec.server import SamplingParams, create_app
from tests.server.serving import served

UNKNOWN = 99_999_999


async def engine(prompt: list[int], _params: SamplingParams) -> AsyncIterator[int]:
    """The prompt, with an unknown id after its first half."""
    half = len(prompt) // 2
    for each in (*prompt[:half], UNKNOWN, *prompt[half:]):
        yield each


def first_half(tokenizer: Any) -> str:
    """The text before the unknown id."""
    ids = tokenizer.encode("OneTwo").ids
    text: str = tokenizer.decode(ids[: len(ids) // 2])
    assert 0 < len(text) < len("OneTwo")
    return text


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize(("policy", "between"), [({}, ""), ({"unknown_ids": "replace"}, "\ufffd")])
def test_unknown_ids_are_skipped_or_replaced(
    tokenizer: Any, policy: dict[str, Any], between: str, is_streamed: bool
) -> None:
    options: Any = {"model": "model", "prompt": "OneTwo", "stream": is_streamed}
    with (
        served(create_app(tokenizer, engine, **policy)) as url,
        OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0) as client,
    ):
        found = client.completions.create(**options)
        parts = list(found) if is_streamed else [found]
    first = first_half(tokenizer)
    expected = first + between + "OneTwo".removeprefix(first)
    assert "".join(each.choices[0].text for each in parts) == expected


@pytest.mark.parametrize("is_streamed", [False, True])
def test_unknown_ids_can_be_an_error_after_the_text_before_them(
    tokenizer: Any, is_streamed: bool
) -> None:
    options: Any = {"model": "model", "prompt": "OneTwo", "stream": is_streamed}
    text = ""
    with (  # noqa: PT012 (what came before counts)
        served(create_app(tokenizer, engine, unknown_ids="error")) as url,
        OpenAI(api_key="none", base_url=f"{url}/v1", max_retries=0) as client,
        pytest.raises(openai.APIError) as caught,
    ):
        for chunk in client.completions.create(**options):
            text += chunk.choices[0].text
    assert text == (first_half(tokenizer) if is_streamed else "")
    assert getattr(caught.value, "code", None) == "error"
    assert str(UNKNOWN) not in str(caught.value)


@pytest.mark.parametrize("policy", ["skip", "replace"])
def test_the_metrics_count_unknown_ids(tokenizer: Any, policy: Any) -> None:
    with TestClient(create_app(tokenizer, engine, unknown_ids=policy)) as client:
        for _ in range(3):
            client.post("/v1/completions", json={"prompt": "OneTwo"})
        lines = client.get("/metrics").text.splitlines()
    counts = [line for line in lines if line.startswith("streamdec_stream_unknown_tokens_total{")]
    assert sum(float(line.rpartition(" ")[2]) for line in counts) == 3


@pytest.mark.parametrize("policy", [None, "error", "replace"])
def test_the_command_has_the_option_unknown_ids(policy: str | None, monkeypatch: Any) -> None:
    given: list[Any] = []

    def create(*_: Any, unknown_ids: str, **__: Any) -> None:
        given.append(unknown_ids)

    monkeypatch.setattr(streamdec.server, "create_app", create)
    monkeypatch.setattr(streamdec.server, "serve", lambda *_, **__: 0)
    result = CliRunner().invoke(
        commands, ["serve"] if policy is None else ["serve", "--unknown-ids", policy]
    )
    assert (result.exit_code, given) == (0, [policy or "skip"])
