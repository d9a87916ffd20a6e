"""Check the parsers of an engine's wheel, and print a table: what is on the page is made with it.

    python -m tests.testing.parser_findings vllm      # beside vLLM's wheel
    python -m tests.testing.parser_findings sglang    # beside SGLang's wheel

Each parser reads text in the format of its model. The text is cut where a tokenizer could end a
token: special tokens stay whole, and so do words. A parser is judged if at least one cut gives the
right calls (or the right reasoning); otherwise the text is not in its format.
"""

# ruff: noqa: T201 (it is a command)

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from streamdec.testing.parser_adapters import SglangReasoningParser, SglangToolParser, VllmParser
from streamdec.testing.text_parsers import TextParser, outcomes_of
from tests.testing.parser_formats import ARGUMENTS, CALLS, NAME, ONE_CALL_ONLY, REASONING, TOOLS

MOST_SHOWN = 5
"""The most results of a parser that are printed."""


def pieces_of(text: str, specials: Sequence[str]) -> list[str]:
    """Divide a text where a tokenizer could end a token."""
    known = "|".join(map(re.escape, sorted(specials, key=len, reverse=True)))
    words = r"\w+|\s+|[^\w\s]"
    return re.findall(f"{known}|{words}" if known else words, text)


# --- engines --------------------------------------------------------------------------------------


@cache
def tokenizer_with(specials: tuple[str, ...]) -> Any:
    """A tokenizer of bytes in which ``specials`` are single tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({each: i for i, each in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(each, normalized=False) for each in specials])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def vllm_parser(name: str, specials: tuple[str, ...], *, reasons: bool) -> Callable[[], TextParser]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager

    made = ParserManager.get_parser(
        tool_parser_name=None if reasons else name,
        reasoning_parser_name=name if reasons else None,
        enable_auto_tools=True,
    )
    tokenizer = tokenizer_with(specials)

    def make() -> TextParser:
        request = ChatCompletionRequest(
            messages=[{"role": "user", "content": "?"}],
            model="model",
            tools=None if reasons else TOOLS,
        )
        return VllmParser(made(tokenizer, request.tools), request, tokenizer)

    return make


def sglang_parser(
    name: str, specials: tuple[str, ...], *, reasons: bool
) -> Callable[[], TextParser]:
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    tokenizer = tokenizer_with(specials)
    if reasons:
        return lambda: SglangReasoningParser(ReasoningParser(name, tokenizer=tokenizer))
    tools = [Tool(**each) for each in TOOLS]
    return lambda: SglangToolParser(FunctionCallParser(tools, name, tokenizer=tokenizer))


# --- the table ------------------------------------------------------------------------------------


def is_right(fields: dict[str, str], num_calls: int) -> bool:
    """Whether these are the calls of a text, or its reasoning."""
    if not num_calls:
        found = fields.get("reasoning", "").strip(), fields.get("content", "").strip()
        return found == ("One, two.", "Three.")
    for index in range(num_calls):
        try:
            arguments = json.loads(fields.get(f"tool_calls[{index}].arguments", ""))
        except ValueError:
            return False
        name = fields.get(f"tool_calls[{index}].name")
        if name != NAME or {**arguments, "days": int(arguments.get("days", 0))} != ARGUMENTS[index]:
            return False
    return f"tool_calls[{num_calls}].name" not in fields


def cases(engine: str) -> Iterator[tuple[str, str, tuple[str, ...], str, int]]:
    """The parser, the format, its special tokens, a text, and the number of calls."""
    for title, each in CALLS.items():
        for name in getattr(each, engine):
            for num_calls in (1, 2)[: 1 if title in ONE_CALL_ONLY else 2]:
                yield name, title, each.specials, each.text(num_calls), num_calls
    for title, (vllm, sglang, specials, text) in REASONING.items():
        for name in vllm if engine == "vllm" else sglang:
            yield name, title, specials, text, 0


def main(engine: str) -> None:
    """Print each parser with the results of its texts."""
    if engine == "sglang":
        sys.path.insert(0, str(Path(__file__).parents[2] / "plugins" / "sglang" / "tests"))
        __import__("sglang_on_cpu").load()
    make_parser = {"vllm": vllm_parser, "sglang": sglang_parser}[engine]
    for name, title, specials, text, num_calls in cases(engine):
        what = f"{num_calls} call{'s' * (num_calls > 1)}" if num_calls else "reasoning"
        pieces = pieces_of(text, specials)
        try:
            make = make_parser(name, specials, reasons=not num_calls)
            found = outcomes_of(make, pieces)
        except Exception as error:  # noqa: BLE001 (the others are still checked)
            print(f"{name:18}{what:11}not checked: {type(error).__name__}: {error!s:.90}")
            continue
        right = [each for each in found if not each.error and is_right({**each.fields}, num_calls)]
        num_ways = sum(each.count for each in found)
        num_wrong = num_ways - sum(each.count for each in right)
        fields = joined(make, pieces)
        if not right:
            print(f"{name:18}{what:11}not judged: no cut gives what the text says ({title})")
            print(f"    {fields}")
        elif len(found) == 1:
            print(f"{name:18}{what:11}the same from {num_ways} cuts")
        else:
            by_token = "right" if is_right(fields, num_calls) else "wrong"
            print(
                f"{name:18}{what:11}{len(found)} results; wrong from {num_wrong} of {num_ways} "
                f"cuts; token by token {by_token}"
            )
            for each in found[:MOST_SHOWN]:
                mark = "right" if each in right else "wrong"
                print(f"    {mark} {each.count:4} {each.groups}")
                print(f"         {each.error or each.fields}")


def joined(make: Callable[[], TextParser], pieces: Sequence[str]) -> dict[str, str]:
    """The result of all pieces one by one."""
    fields: dict[str, str] = {}
    try:
        parser = make()
        for new in (*map(parser.step, pieces), parser.flush()):
            for name, text in (new or {}).items():
                fields[name] = fields.get(name, "") + text
    except Exception as error:  # noqa: BLE001 (it is the result)
        fields["raised"] = f"{type(error).__name__}: {error}"
    return fields


if __name__ == "__main__":
    main(sys.argv[1])
