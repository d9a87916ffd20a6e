"""Parsers of vLLM and SGLang with the interface that ``check_text_parser`` needs.

They make the same calls as the engine's server for a streaming chat request. The fields are
``reasoning``, ``content``, ``tool_calls[0].name`` and ``tool_calls[0].arguments``.
Neither engine is imported here. Tested with vLLM 0.33.0 and SGLang 0.5.23.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["SglangReasoningParser", "SglangToolParser", "VllmParser"]


class VllmParser:
    """A parser of vLLM.

    Args:
        parser: a ``vllm.parser.abstract_parser.Parser``, new for each stream; the class is what
            ``ParserManager.get_parser`` returns.
        request: the ``ChatCompletionRequest``.
        tokenizer: has ``encode(text, add_special_tokens=False)``. Many parsers look for the ids of
            special tokens, so each piece of text comes with its ids.
        prompt_token_ids: the ids of the prompt. Some parsers look there for an open section.

    >>> from types import SimpleNamespace
    >>> from streamdec.testing.parser_adapters import VllmParser
    >>> class Echo:  # in the place of vLLM's
    ...     def parse_delta(self, text, ids, request, prompt_token_ids, *, finished):
    ...         return SimpleNamespace(reasoning=None, content=text, tool_calls=[])
    >>> tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: [1])
    >>> VllmParser(Echo(), None, tokenizer).step("Hi")
    {'content': 'Hi'}
    """

    def __init__(
        self, parser: Any, request: Any, tokenizer: Any, prompt_token_ids: Sequence[int] = ()
    ) -> None:
        self._parser = parser
        self._request = request
        self._tokenizer = tokenizer
        self._prompt_token_ids = [*prompt_token_ids]

    def step(self, text: str) -> dict[str, str]:
        """Parse ``text``, the next piece."""
        ids = self._tokenizer.encode(text, add_special_tokens=False)
        return self._parsed(text, ids, finished=False)

    def flush(self) -> dict[str, str]:
        """Parse the last output, which has no text: its only id ended the request."""
        return self._parsed("", [], finished=True)

    def _parsed(self, text: str, ids: list[int], *, finished: bool) -> dict[str, str]:
        delta = self._parser.parse_delta(
            text, ids, self._request, self._prompt_token_ids, finished=finished
        )
        if delta is None:
            return {}
        calls = [
            (call.index, function.name, function.arguments)
            for call in delta.tool_calls or ()
            if (function := call.function) is not None
        ]
        return _fields(calls, reasoning=delta.reasoning, content=delta.content)


class SglangToolParser:
    """A parser of tool calls of SGLang.

    Args:
        parser: a ``FunctionCallParser``, new for each stream.

    >>> from types import SimpleNamespace
    >>> from streamdec.testing.parser_adapters import SglangToolParser
    >>> call = SimpleNamespace(tool_index=0, name="f", parameters="{}")
    >>> parser = SimpleNamespace(parse_stream_chunk=lambda text: (text, [call]))  # as SGLang's
    >>> SglangToolParser(parser).step("Hi")
    {'content': 'Hi', 'tool_calls[0].name': 'f', 'tool_calls[0].arguments': '{}'}
    """

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def step(self, text: str) -> dict[str, str]:
        """Parse ``text``, the next piece."""
        return _sglang_fields(*self._parser.parse_stream_chunk(text))

    def flush(self) -> dict[str, str]:
        """Return what the server outputs at the end.

        It includes arguments that were not output before.
        """
        content, calls = self._parser.parse_stream_end()
        return _sglang_fields(content, [*calls], self._rest())

    def _rest(self) -> tuple[int, str] | None:
        """The last call, and its arguments that were parsed and not output."""
        detector = self._parser.detector
        known = getattr(detector, "prev_tool_call_arr", None) or []
        given = getattr(detector, "streamed_args_for_tool", None) or []
        last = len(known) - 1
        if not 0 <= last < len(given):
            return None
        arguments = known[last].get("arguments", {})
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        if not arguments.startswith(given[last]):
            return None
        return last, arguments[len(given[last]) :]


class SglangReasoningParser:
    """A parser of reasoning of SGLang.

    Args:
        parser: a ``ReasoningParser``, new for each stream.

    >>> from types import SimpleNamespace
    >>> from streamdec.testing.parser_adapters import SglangReasoningParser
    >>> parser = SimpleNamespace(parse_stream_chunk=lambda text: (text, None))  # as SGLang's
    >>> SglangReasoningParser(parser).step("Hm")
    {'reasoning': 'Hm'}
    """

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def step(self, text: str) -> dict[str, str]:
        """Parse ``text``, the next piece."""
        reasoning, content = self._parser.parse_stream_chunk(text)
        return _fields((), reasoning=reasoning, content=content)

    def flush(self) -> dict[str, str]:
        """Return what the parser withheld."""
        reasoning, content = self._parser.parse_stream_end()
        return _fields((), reasoning=reasoning, content=content)


def _sglang_fields(
    content: str | None, calls: Iterable[Any], rest: tuple[int, str] | None = None
) -> dict[str, str]:
    found = [(call.tool_index, call.name, call.parameters) for call in calls]
    if rest is not None:
        found.append((rest[0], None, rest[1]))
    return _fields(found, content=content)


def _fields(
    calls: Iterable[tuple[int, str | None, str | None]], **texts: str | None
) -> dict[str, str]:
    """Return the new text of each field."""
    fields = {name: text for name, text in texts.items() if text}
    for index, name, arguments in calls:
        for part, text in (("name", name), ("arguments", arguments)):
            field = f"tool_calls[{index}].{part}"
            fields[field] = fields.get(field, "") + (text or "")
    return fields
