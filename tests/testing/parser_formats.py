"""How models write tool calls and reasoning, and which parsers of vLLM and SGLang read it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["ARGUMENTS", "CALLS", "NAME", "ONE_CALL_ONLY", "REASONING", "TOOLS", "Format"]

ARGUMENTS = ({"city": "Paris", "days": 3}, {"city": "Rome", "days": 5})
NAME = "get_weather"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": NAME,
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    }
]


def as_json(arguments: dict[str, Any], key: str = "arguments") -> str:
    return json.dumps({"name": NAME, key: arguments})


def as_elements(arguments: dict[str, Any], element: str) -> str:
    """The arguments one by one: ``element`` has %s for the key and for the value."""
    return "".join(element % each for each in arguments.items())


@dataclass(frozen=True)
class Format:
    """How a model writes calls, or reasoning. ``specials`` are single tokens of the model."""

    vllm: tuple[str, ...]
    sglang: tuple[str, ...]
    specials: tuple[str, ...]
    call: Callable[[dict[str, Any]], str]
    start: str = ""
    separator: str = ""
    end: str = ""
    prose: str = "Hi. "

    def text(self, num_calls: int) -> str:
        calls = self.separator.join(map(self.call, ARGUMENTS[:num_calls]))
        return f"{self.prose}{self.start}{calls}{self.end}"


def _tagged(opening: str, closing: str, body: Callable[[Any], str]) -> dict[str, Any]:
    return {"specials": (opening, closing), "call": lambda each: opening + body(each) + closing}


DEEPSEEK = tuple(
    f"<｜tool▁{name}｜>" for name in ("calls▁begin", "call▁begin", "sep", "call▁end", "calls▁end")
)
STEP = tuple(
    f"<｜tool_{name}｜>" for name in ("calls_begin", "call_begin", "sep", "call_end", "calls_end")
)
KIMI = tuple(
    f"<|tool_call{name}|>"
    for name in ("s_section_begin", "_begin", "_argument_begin", "_end", "s_section_end")
)
XML = "<function=get_weather>\n%s</function>\n"
PARAMETER = "<parameter=%s>\n%s\n</parameter>\n"
INVOKE = '<invoke name="get_weather">\n%s</invoke>\n'
NAMED = '<parameter name="%s">%s</parameter>\n'
GLM_TAGS = ("<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
PYTHON = 'get_weather(city="%(city)s", days=%(days)s)'.__mod__
DSML = '<｜DSML｜invoke name="get_weather">\n%s</｜DSML｜invoke>\n'


def _dsml(arguments: dict[str, Any]) -> str:
    texts = (
        f'<｜DSML｜parameter name="{key}" string="{str(type(value) is str).lower()}">{value}'
        "</｜DSML｜parameter>\n"
        for key, value in arguments.items()
    )
    return DSML % "".join(texts)


CALLS = {
    "JSON in <tool_call>": Format(
        ("hermes", "granite4"),
        ("qwen25", "hermes"),
        separator="\n",
        **_tagged("<tool_call>", "</tool_call>", lambda each: f"\n{as_json(each)}\n"),
    ),
    "JSON in <longcat_tool_call>": Format(
        ("longcat",),
        (),
        separator="\n",
        **_tagged("<longcat_tool_call>", "</longcat_tool_call>", lambda e: f"\n{as_json(e)}\n"),
    ),
    "XML of Qwen3-Coder": Format(
        ("qwen3_coder", "step3p5", "step5"),
        ("qwen3_coder", "step3p5"),
        separator="\n",
        **_tagged("<tool_call>", "</tool_call>", lambda e: f"\n{XML}" % as_elements(e, PARAMETER)),
    ),
    "XML of MiMo": Format(
        ("mimo",),
        ("mimo",),
        separator="\n",
        **_tagged(
            "<tool_call>",
            "</tool_call>",
            lambda e: f"\n{XML}" % as_elements(e, "<parameter=%s>%s</parameter>\n"),
        ),
    ),
    "XML of Seed-OSS": Format(
        ("seed_oss",),
        (),
        separator="\n",
        **_tagged(
            "<seed:tool_call>",
            "</seed:tool_call>",
            lambda e: f"\n{XML}" % as_elements(e, PARAMETER),
        ),
    ),
    "XML of GLM-4.5": Format(
        ("glm45", "poolside_v1", "ling3"),
        ("glm45", "poolside_v1", "ling3", "spark25"),
        GLM_TAGS,
        lambda e: (
            f"<tool_call>{NAME}\n"
            + as_elements(e, "<arg_key>%s</arg_key>\n<arg_value>%s</arg_value>\n")
            + "</tool_call>"
        ),
        separator="\n",
    ),
    "XML of GLM-4.7": Format(
        ("glm47",),
        ("glm47",),
        GLM_TAGS,
        lambda e: (
            f"<tool_call>{NAME}"
            + as_elements(e, "<arg_key>%s</arg_key><arg_value>%s</arg_value>")
            + "</tool_call>"
        ),
    ),
    "XML of MiniMax-M2": Format(
        ("minimax_m2",),
        ("minimax-m2",),
        ("<minimax:tool_call>", "</minimax:tool_call>"),
        lambda e: INVOKE % as_elements(e, NAMED),
        "<minimax:tool_call>\n",
        end="</minimax:tool_call>",
    ),
    "XML of dots": Format(
        ("dots",),
        ("dots",),
        ("<dots_function_call>", "</dots_function_call>"),
        lambda e: INVOKE % as_elements(e, NAMED),
        "<dots_function_call>\n",
        end="</dots_function_call>",
    ),
    "XML of MiniCPM5": Format(
        ("minicpm5",),
        ("minicpm5",),
        (),
        lambda e: (
            f'<function name="{NAME}">'
            + as_elements(e, '<param name="%s">%s</param>')
            + "</function>"
        ),
        separator="\n",
    ),
    "XML of Step3": Format(
        ("step3",),
        ("step3",),
        STEP,
        lambda e: (
            f'{STEP[1]}function{STEP[2]}<steptml:invoke name="{NAME}">'
            + as_elements(e, '<steptml:parameter name="%s">%s</steptml:parameter>')
            + f"</steptml:invoke>{STEP[3]}"
        ),
        STEP[0],
        end=STEP[4],
    ),
    "DeepSeek-V3": Format(
        ("deepseek_v3",),
        ("deepseekv3",),
        DEEPSEEK,
        lambda e: (
            f"{DEEPSEEK[1]}function{DEEPSEEK[2]}{NAME}\n```json\n{json.dumps(e)}\n```{DEEPSEEK[3]}"
        ),
        DEEPSEEK[0],
        "\n",
        DEEPSEEK[4],
    ),
    "DeepSeek-V3.1": Format(
        ("deepseek_v31",),
        ("deepseekv31",),
        DEEPSEEK,
        lambda e: f"{DEEPSEEK[1]}{NAME}{DEEPSEEK[2]}{json.dumps(e)}{DEEPSEEK[3]}",
        DEEPSEEK[0],
        end=DEEPSEEK[4],
    ),
    "DeepSeek-V3.2": Format(
        ("deepseek_v32",),
        ("deepseekv32",),
        ("｜DSML｜",),
        _dsml,
        "<｜DSML｜function_calls>\n",
        end="</｜DSML｜function_calls>",
    ),
    "DeepSeek-V4": Format(
        ("deepseek_v4",),
        ("deepseekv4",),
        ("｜DSML｜",),
        _dsml,
        "<｜DSML｜tool_calls>\n",
        end="</｜DSML｜tool_calls>",
    ),
    "Kimi K2": Format(
        ("kimi_k2",),
        ("kimi_k2",),
        KIMI,
        lambda e: (
            f"{KIMI[1]}functions.{NAME}:{ARGUMENTS.index(e)}{KIMI[2]}{json.dumps(e)}{KIMI[3]}"
        ),
        KIMI[0],
        end=KIMI[4],
    ),
    "JSON list after [TOOL_CALLS]": Format(
        (), ("mistral",), ("[TOOL_CALLS]",), as_json, "[TOOL_CALLS] [", ", ", "]"
    ),
    "Mistral since v11": Format(
        ("mistral",),
        ("mistral",),
        ("[TOOL_CALLS]", "[ARGS]"),
        lambda e: f"[TOOL_CALLS]{NAME}[ARGS]{json.dumps(e)}",
    ),
    "JSON of Llama 3": Format(
        ("llama3_json",),
        ("llama3",),
        ("<|python_tag|>",),
        lambda e: as_json(e, "parameters"),
        "<|python_tag|>",
        "; ",
        prose="",
    ),
    "Python of Llama 4": Format(
        ("llama4_pythonic",),
        (),
        ("<|python_start|>", "<|python_end|>"),
        PYTHON,
        "<|python_start|>[",
        ", ",
        "]<|python_end|>",
        prose="",
    ),
    "Python list": Format(("pythonic",), ("pythonic",), (), PYTHON, "[", ", ", "]", prose=""),
    "Python of Olmo 3": Format(
        ("olmo3",), (), (), PYTHON, "<function_calls>", "\n", "</function_calls>", prose=""
    ),
    "Python of LFM2": Format(
        ("lfm2",),
        ("lfm2",),
        ("<|tool_call_start|>", "<|tool_call_end|>"),
        PYTHON,
        "<|tool_call_start|>[",
        ", ",
        "]<|tool_call_end|>",
    ),
    "InternLM2": Format(
        ("internlm",),
        (),
        ("<|action_start|>", "<|plugin|>", "<|action_end|>"),
        lambda e: f"<|action_start|><|plugin|>{as_json(e, 'parameters')}<|action_end|>",
    ),
    "Intern-S1": Format(
        (),
        ("interns1",),
        ("<|action_start|>", "<|plugin|>", "<|action_end|>"),
        lambda e: f"<|action_start|> <|plugin|>\n{as_json(e, 'parameters')}<|action_end|>",
        separator="\n",
    ),
    "JSON list of Jamba": Format(
        ("jamba",),
        (),
        ("<tool_calls>", "</tool_calls>"),
        as_json,
        "<tool_calls>[\n    ",
        ",\n    ",
        "\n]</tool_calls>",
    ),
    "JSON list of Hunyuan A13B": Format(
        ("hunyuan_a13b",),
        (),
        (),
        as_json,
        "<tool_calls>[",
        ", ",
        "]</tool_calls>",
        prose="",
    ),
    "JSON list of Granite 3": Format(
        ("granite",), (), ("<|tool_call|>",), as_json, "<|tool_call|>[", ", ", "]"
    ),
    "JSON of Granite 20B": Format(
        ("granite-20b-fc",),
        (),
        ("<function_call>",),
        lambda e: f"<function_call> {as_json(e)}",
        separator="\n",
        prose="",
    ),
    "JSON list of xLAM": Format(("xlam",), (), (), as_json, "[", ", ", "]", prose=""),
    "Gemma 4": Format(
        ("gemma4",),
        ("gemma4",),
        ("<|tool_call>", "<tool_call|>", '<|"|>'),
        lambda e: (
            f'<|tool_call>call:{NAME}{{city:<|"|>{e["city"]}<|"|>,days:{e["days"]}}}<tool_call|>'
        ),
    ),
    "FunctionGemma": Format(
        ("functiongemma",),
        (),
        ("<start_function_call>", "<end_function_call>", "<escape>"),
        lambda e: (
            f"<start_function_call>call:{NAME}{{city:<escape>{e['city']}<escape>,"
            f"days:<escape>{e['days']}<escape>}}<end_function_call>"
        ),
    ),
    "Apertus": Format(
        ("apertus",),
        ("apertus2509",),
        ("<|tools_prefix|>", "<|tools_suffix|>"),
        lambda e: json.dumps({NAME: e}),
        "<|tools_prefix|>[",
        ", ",
        "]<|tools_suffix|>",
    ),
    "GigaChat 3": Format(
        ("gigachat3",),
        ("gigachat3",),
        ("<|role_sep|>", "<|function_call|>"),
        as_json,
        "<|function_call|>",
    ),
    "ERNIE 4.5": Format(
        ("ernie45",),
        (),
        separator="\n",
        prose="",
        start="</think>\n\n",
        end="\n",
        **_tagged("<tool_call>", "</tool_call>", lambda each: f"\n{as_json(each)}\n"),
    ),
    "Hunyuan 3": Format(
        ("hy_v3",),
        ("hunyuan",),
        (*GLM_TAGS, "<tool_calls>", "</tool_calls>", "<tool_sep>"),
        lambda e: (
            f"<tool_call>{NAME}<tool_sep>\n"
            + as_elements(e, "<arg_key>%s</arg_key>\n<arg_value>%s</arg_value>\n")
            + "</tool_call>\n"
        ),
        "<tool_calls>\n",
        end="</tool_calls>",
    ),
}
ONE_CALL_ONLY = ("GigaChat 3",)

THINK = ("<think>", "</think>")
REASONING: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], str]] = {
    "<think>": (
        (
            *(
                "qwen3",
                "deepseek_r1",
                "glm45",
                "kimi_k2",
                "mimo",
                "nemotron_v3",
                "step3",
                "step3p5",
            ),
            *("olmo3", "ernie45", "minimax_m2", "poolside_v1", "ling3", "hy_v3"),
        ),
        (
            *("deepseek-r1", "qwen3", "glm45", "kimi_k2", "mimo", "step3", "nemotron_3", "ling3"),
            *("minimax", "interns1", "poolside_v1", "hunyuan"),
        ),
        THINK,
        "<think>\nOne, two.\n</think>\n\nThree.",
    ),
    "Seed-OSS": (
        ("seed_oss",),
        (),
        ("<seed:think>", "</seed:think>"),
        "<seed:think>One, two.</seed:think>Three.",
    ),
    "Mistral": (
        ("mistral",),
        ("mistral",),
        ("[THINK]", "[/THINK]"),
        "[THINK]One, two.[/THINK]Three.",
    ),
    "Kimi-VL": ((), ("kimi",), ("◁think▷", "◁/think▷"), "◁think▷One, two.◁/think▷Three."),
    "Gemma 4": (
        ("gemma4",),
        ("gemma4",),
        ("<|channel>", "<channel|>"),
        "<|channel>thought\nOne, two.<channel|>Three.",
    ),
    "Granite 3": (
        ("granite",),
        (),
        (),
        "Here is my thought process: One, two. Here is my response: Three.",
    ),
    "Hunyuan A13B": (
        ("hunyuan_a13b",),
        (),
        (),
        "<think>\nOne, two.\n</think>\n<answer>\nThree.\n</answer>",
    ),
}
