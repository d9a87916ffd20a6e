"""The adapters of engines' parsers: their calls, and how they read the answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamdec.testing.parser_adapters import SglangReasoningParser, SglangToolParser, VllmParser


def delta(reasoning: str | None = None, content: str | None = None, *calls: Any) -> Any:
    return SimpleNamespace(reasoning=reasoning, content=content, tool_calls=[*calls])


def call(index: int, name: str | None = None, arguments: str | None = None) -> Any:
    return SimpleNamespace(index=index, function=SimpleNamespace(name=name, arguments=arguments))


class Vllm:
    """Answers with a script, and records its calls."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = iter(answers), list[Any]()

    def parse_delta(self, *asked: Any, finished: bool) -> Any:
        self.asked.append((*asked, finished))
        return next(self.answers)


class Letters:
    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [*map(ord, text)]


def test_vllm_gets_text_with_ids_and_at_the_end_none() -> None:
    theirs = Vllm(None, delta(content="!"))
    parser = VllmParser(theirs, "request", Letters(), (7,))
    assert parser.step("ab") == {}
    assert parser.flush() == {"content": "!"}
    assert theirs.asked == [("ab", [97, 98], "request", [7], False), ("", [], "request", [7], True)]


def test_vllm_s_delta_is_a_text_for_each_field() -> None:
    unnamed = SimpleNamespace(index=0, function=None)
    answer = delta("Hm", "Hi", call(0, "f", "{"), call(0, None, "}"), call(1, "g"), unnamed)
    fields = VllmParser(Vllm(answer), None, Letters()).step("a")
    assert {name: text for name, text in fields.items() if text} == {
        "reasoning": "Hm",
        "content": "Hi",
        "tool_calls[0].name": "f",
        "tool_calls[0].arguments": "{}",
        "tool_calls[1].name": "g",
    }


class Sglang:
    def __init__(self, known: list[Any], given: list[str]) -> None:
        self.detector = SimpleNamespace(prev_tool_call_arr=known, streamed_args_for_tool=given)

    def parse_stream_chunk(self, text: str) -> tuple[str, list[Any]]:
        return text, [SimpleNamespace(tool_index=1, name=None, parameters='{"a"')]

    def parse_stream_end(self) -> tuple[str, list[Any]]:
        return "late", []


def test_sglang_s_calls_are_fields() -> None:
    fields = SglangToolParser(Sglang([], [])).step("Hi")
    assert {name: text for name, text in fields.items() if text} == {
        "content": "Hi",
        "tool_calls[1].arguments": '{"a"',
    }


@pytest.mark.parametrize(
    ("known", "given", "rest"),
    [
        ([{"arguments": {"ä": 1}}], ['{"ä"'], {"tool_calls[0].arguments": ": 1}"}),
        ([{"arguments": '{"a": 1}'}], ['{"a"'], {"tool_calls[0].arguments": ": 1}"}),
        ([{}, {"arguments": {}}], ["", ""], {"tool_calls[1].arguments": "{}"}),
        ([{"arguments": {"a": 1}}], ['{"b"'], {}),  # not a beginning of them
        ([{"arguments": {"a": 1}}], [], {}),
        ([], ["{"], {}),
    ],
)
def test_sglang_s_server_outputs_the_rest_of_the_last_arguments(
    known: list[Any], given: list[str], rest: dict[str, str]
) -> None:
    fields = SglangToolParser(Sglang(known, given)).flush()
    assert {name: text for name, text in fields.items() if text} == {"content": "late", **rest}


def test_sglang_s_reasoning_and_content_are_fields() -> None:
    theirs = SimpleNamespace(
        parse_stream_chunk=lambda text: (text, None), parse_stream_end=lambda: (None, "late")
    )
    parser = SglangReasoningParser(theirs)
    assert (parser.step("Hm"), parser.flush()) == ({"reasoning": "Hm"}, {"content": "late"})
