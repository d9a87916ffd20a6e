"""What is rendered: templates, conversations and options, for transformers and for us alike.

A case is a call of ``apply_chat_template``: ``template`` (a text, ``@name`` for a file in
``data/templates``, or several), ``messages``, and the other arguments. Transformers is asked by
``scripts/make_chat_goldens.py``, we are by ``test_goldens.py``.
"""

from __future__ import annotations

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


USER = [{"role": "user", "content": "What is 2+2?"}]
SYSTEM = {"role": "system", "content": "You are terse."}
TURNS = [
    *USER,
    {"role": "assistant", "content": "  Four. "},
    {"role": "user", "content": "And 3+3?\n"},
]
CLOSED = [SYSTEM, *TURNS, {"role": "assistant", "content": "Six."}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": '城市天气 🌦️ <b>&amp;</b> "now"',
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}},
            "required": ["city"],
        },
    },
}


def call(arguments: Any) -> list[dict[str, Any]]:
    """A conversation in which a tool was called with ``arguments``."""
    called = {"type": "function", "function": {"name": "get_weather", "arguments": arguments}}
    return [
        {"role": "user", "content": "Weather in 東京?"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "name": "get_weather", "content": '{"temp": 21.5}'},
    ]


CONVERSATIONS: dict[str, Case] = {
    "user": {"messages": USER},
    "prompt": {"messages": USER, "add_generation_prompt": True},
    "system": {"messages": [SYSTEM, *USER], "add_generation_prompt": True},
    "turns": {"messages": TURNS, "add_generation_prompt": True},
    "closed": {"messages": CLOSED},
    "continued": {"messages": CLOSED, "continue_final_message": True},
    "tools": {"messages": USER, "tools": [WEATHER], "add_generation_prompt": True},
    "no tools": {"messages": USER, "tools": []},
    "called": {"messages": call({"city": "東京", "days": 2}), "tools": [WEATHER]},
    "called with a string": {"messages": call('{"city": "Paris"}'), "tools": [WEATHER]},
    "documents": {
        "messages": USER,
        "documents": [{"title": "A <b>", "text": "x\ny"}, {"title": "B", "text": ""}],
    },
    "parts": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Describe "},
                    {"type": "image"},
                    {"type": "text", "text": "a cat."},
                ],
            }
        ]
    },
    "continued parts": {
        "messages": [
            *USER,
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "It is "}, {"type": "image"}],
            },
        ],
        "continue_final_message": True,
    },
    "unicode": {
        "messages": [
            {
                "role": "user",
                "content": "naïve 👩‍👩‍👧 שלום <|end|> {{ x }} {% if %} \u200b\ufeff\u2028",
            }
        ]
    },
    "thinking": {
        "messages": [*USER, {"role": "assistant", "content": "4", "reasoning_content": "Two."}],
    },
    "thinking by another name": {
        "messages": [*USER, {"role": "assistant", "content": "4", "reasoning": "Two."}],
    },
    "no thinking": {"messages": USER, "add_generation_prompt": True, "enable_thinking": False},
    "null content": {"messages": [*USER, {"role": "assistant", "content": None}]},
    "null fields": {
        "messages": [
            {"role": "user", "content": "Hi", "name": None},
            {"role": "assistant", "content": "Yes", "tool_calls": None, "reasoning_content": None},
        ]
    },
    "whitespace": {"messages": [{"role": "user", "content": "  \n a \t\n"}]},
    "empty": {"messages": [{"role": "user", "content": ""}]},
    "none at all": {"messages": []},
    "two users": {"messages": [*USER, *USER]},
    "continue and prompt": {
        "messages": CLOSED,
        "continue_final_message": True,
        "add_generation_prompt": True,
    },
}

HI = [{"role": "user", "content": "Hi"}]
LAST = [*HI, {"role": "assistant", "content": "A start "}]
OPEN = {"messages": LAST, "continue_final_message": True}
OF_PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
OF_STRINGS = "{% for m in messages %}{{ m.content }}{% endfor %}"

CONTRACT: dict[str, Case] = {
    # White space.
    "trim_blocks": {"template": "{% if true %}\nA\n{% endif %}\nB"},
    "lstrip_blocks": {"template": "x\n   {% if true %}A{% endif %}\n   y"},
    "lstrip not for variables": {"template": "   {{ 'v' }}"},
    "plus": {"template": "  {%+ if true %}a{% endif %}\n{% if true +%}\nb{% endif %}"},
    "one new line at the end": {"template": "a\n"},
    "two new lines at the end": {"template": "a\n\n"},
    "carriage returns": {"template": "a\r\nb\rc{{ '\r\n' }}d"},
    "byte order mark": {"template": "\ufeffa{{ bos_token }}"},
    "comments": {"template": "a\n{# b #}\nc{#- d -#}\ne"},
    "raw": {"template": "{% raw %}{{ x }}\n{% endraw %}\ny"},
    # Values.
    "print": {
        "template": "{{ x }}|{{ none }}|{{ 1.0 }}|{{ 1e20 }}|{{ 7 // 2 }}|{{ 0.1 + 0.2 }}",
        "x": {"a": 1, "b": None, "c": ["d'", 2.5, True]},
    },
    "undefined": {"template": "[{{ nope }}][{{ nope is defined }}][{{ x.nope }}]", "x": {}},
    "attribute of undefined": {"template": "a\n{{ nope.x }}"},
    "tuple": {"template": "{{ x }}{{ x[0] }}{{ x | tojson }}", "x": (1, "a", (2,))},
    "absent tools": {"template": "{{ tools }}{{ documents }}{{ add_generation_prompt }}"},
    "tools of none": {"template": "{{ tools is none }}{{ tools is defined }}"},
    "an enum": {"template": "{{ x }}|{{ x.value }}|{{ x ~ '' }}", "x": Role.USER},
    "a subclass of int": {"template": "{{ x }}|{{ x + 1 }}", "x": Number(4)},
    "a dataclass": {"template": "{{ x.role }}|{{ x['content'] }}", "x": Message("r", [1])},
    "a set": {"template": "{{ x is string }}", "x": {1}},
    "an object": {"template": "{{ x is string }}", "x": Opaque()},
    "messages of a dataclass": {
        "template": "{% for m in messages %}{{ m.role }}: {{ m['content'] }}{% endfor %}",
        "messages": [Message("user", "Hi")],
    },
    "special tokens": {"template": "{{ bos_token }}{{ eos_token }}{{ unk_token }}{{ pad_token }}"},
    "special tokens overridden": {"template": "{{ bos_token }}{{ eos_token }}", "bos_token": "B"},
    "a special token as none": {"template": "{{ bos_token }}", "bos_token": None},
    # tojson.
    "tojson": {"template": "{{ x | tojson }}", "x": {"b": "é東😀<&'\"\u2028", "a": [1, 2.0, None]}},
    "tojson options": {
        "template": "{{ x | tojson(indent=2) }}{{ x | tojson(true, '\t') }}"
        "{{ x | tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true) }}",
        "x": {"é": [], "a": {}},
    },
    "tojson of a value that is not a number": {
        "template": "{{ x | tojson }}",
        "x": [float("nan"), float("inf")],
    },
    "tojson of undefined": {"template": "{{ nope | tojson }}"},
    "tojson of keys": {"template": "{{ x | tojson }}", "x": {2: "a", None: "b", True: "", 0.5: ""}},
    "tojson of a lone surrogate": {
        "template": "{{ x | tojson(ensure_ascii=true) }}",
        "x": "\ud83d",
    },
    # Functions.
    "raise_exception": {"template": "\n{{ raise_exception('no: ' ~ 7) }}"},
    "raise_exception of a number": {"template": "{{ raise_exception(7) }}"},
    "strftime_now": {"template": "{{ strftime_now('%d %b %Y %H:%M:%S %A %-d %j %%') }}"},
    "range": {"template": "{% for i in range(3) %}{{ i }}{% endfor %}"},
    "a large range": {"template": "{% for i in range(100001) %}{% endfor %}"},
    "dict": {
        "template": "{{ dict(a=1, **{'b': 2}) }}{{ dict([('c', 3)]) }}{{ dict.fromkeys('ab', 0) }}"
    },
    "methods of dict": {"template": "{{ dict.get({'a': 1}, 'a') }}"},
    "namespace": {"template": "{% set n = namespace(a=1) %}{% set n.b = n.a + 1 %}{{ n.b }}"},
    "namespace of a dict": {
        "template": "{% set n = namespace({'a': 1}, self=2) %}{{ n.a }}{{ n.self }}"
    },
    "namespace with an underscore": {"template": "{% set n = namespace(_a=1) %}{{ n._a }}x"},
    "underscore set in a namespace": {"template": "{% set n = namespace() %}{% set n._a = 1 %}x"},
    "cycler and joiner": {
        "template": "{% set c = cycler('a', 'b') %}{% set j = joiner(', ') %}"
        "{% for i in range(3) %}{{ j() }}{{ c.next() }}{% endfor %}"
    },
    "no from_json": {"template": "{{ '1' | from_json }}"},
    # Statements.
    "break and continue": {
        "template": "{% for i in range(9) %}{% if i is odd %}{% continue %}{% endif %}"
        "{% if i > 5 %}{% break %}{% endif %}{{ i }}{% endfor %}"
    },
    "loop": {
        "template": "{% for i in 'abc' %}{{ loop.index }}{{ loop.last }}{{ loop.previtem }}"
        "{{ loop.nextitem }}{{ loop.cycle('x', 'y') }}{% else %}none{% endfor %}"
    },
    "recursive loop": {
        "template": "{% for i in x recursive %}{{ i.a }}{{ loop(i.b) if i.b }}{% endfor %}",
        "x": [{"a": 1, "b": [{"a": 2, "b": []}]}, {"a": 3}],
    },
    "macro": {
        "template": "{% macro f(a, b=2) %}{{ a }}-{{ b }}{{ caller() if caller }}{{ varargs }}"
        "{% endmacro %}{{ f(1, 3, 4) }}{% call f('x') %}y{% endcall %}"
    },
    "set block": {"template": "{% set x %}a\nb{% endset %}[{{ x | upper }}]"},
    "filter block": {"template": "{% filter upper %}a{{ 'b' }}{% endfilter %}"},
    "with": {"template": "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}"},
    "scope of a loop": {
        "template": "{% set n = 0 %}{% for i in 'ab' %}{% set n = 1 %}{% endfor %}{{ n }}"
    },
    "include": {"template": "{% include 'x' %}"},
    "unknown tag": {"template": "{% nope %}"},
    "not closed": {"template": "a\nb {% if true %}"},
    # The sandbox.
    "append": {"template": "{% set x = [] %}{{ x.append(1) }}"},
    "pop of messages": {"template": "{{ messages.pop() }}"},
    "update": {"template": "{{ messages[0].update({'a': 1}) }}"},
    "underscores": {"template": "[{{ ''.__class__ }}]"},
    "more underscores": {"template": "{{ ''.__class__.__mro__ }}"},
    "format": {"template": "{{ '{0.__class__}'.format(1) }}|{{ '%s-%05.1f' | format('a', 2.25) }}"},
    "autoescape": {"template": "{{ '<a>' }}{{ x }}{{ '<' | escape }}{{ '<' | safe }}", "x": "&"},
    # Filters, tests and methods of real templates.
    "selectattr": {
        "template": "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content')"
        " | join(',') }}{{ messages | map(attribute='role') | unique | list }}"
    },
    "dictsort": {"template": "{{ x | dictsort }}{{ x | items | list }}", "x": {"b": 1, "A": 2}},
    "strings": {
        "template": "{{ ' a,b '.strip().split(',') }}{{ 'a'.startswith('a') }}{{ 'ab'[::-1] }}"
        "{{ 'ab' | replace('a', 'c') | capitalize | indent(2, true) | wordcount }}{{ 'x' in 'xy' }}"
    },
    "tests": {
        "template": "{{ 's' is string }}{{ {} is mapping }}{{ [] is sequence }}"
        "{{ 's' is iterable }}"
        "{{ 1 is number }}{{ none is none }}{{ true is boolean }}{{ x is defined }}"
        "{{ 2 is divisibleby 2 }}"
    },
    "numbers": {
        "template": "{{ 7 / 2 }}{{ 2 ** 10 }}{{ -7 % 3 }}{{ 3.7 | int }}{{ 2.5 | round }}"
        "{{ '3' | int + 1 }}"
    },
    "slices": {"template": "{{ x[-1] }}{{ x[:2] }}{{ x[::-1] }}{{ x | first }}", "x": [1, 2, 3]},
    "groupby": {
        "template": "{% for r, g in messages | groupby('role') %}"
        "{{ r }}{{ g | length }}{% endfor %}"
    },
    # Spans.
    "span": {"template": "ab{% generation %}cd{{ 1 }}{% endgeneration %}e"},
    "two spans": {
        "template": "{% for i in 'ab' %}-{% generation %}{{ i }}é😀{% endgeneration %}{% endfor %}"
    },
    "an empty span": {"template": "a{% generation %}{% endgeneration %}b"},
    "spans and white space": {
        "template": "a \n  {%- generation -%}  \n b \n {%- endgeneration -%}  \n c\n"
        "  {% generation %}\n d\n  {% endgeneration %}\n e"
    },
    "nested spans": {
        "template": "a{% generation %}bc{% generation %}d{% endgeneration %}e{% endgeneration %}f"
    },
    "a span in a macro": {
        "template": "a{% macro f() %}b{% generation %}c{% endgeneration %}{% endmacro %}{{ f() }}d"
    },
    "a span in a variable": {
        "template": "a{% set x %}b{% generation %}c{% endgeneration %}{% endset %}d{{ x }}"
    },
    "a span in a branch": {
        "template": "{% if true %}ab{% generation %}c{% endgeneration %}{% endif %}"
    },
    "a span that is not closed": {"template": "a{% generation %}b"},
    "a variable of a span": {
        "template": "{% set x = 1 %}{% generation %}{% set x = 2 %}"
        "{{ x }}{% endgeneration %}{{ x }}"
    },
    # To go on with the last message.
    "continue": {"template": OF_STRINGS + "!", **OPEN},
    "continue, trimmed": {
        "template": "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}",
        **OPEN,
    },
    "continue, upper": {"template": "{{ messages[-1].content | upper }}", **OPEN},
    "continue, not shown": {"template": "{{ messages[0].content }}", **OPEN},
    "continue, not mentioned": {"template": "{{ messages[0]['con' ~ 'tent'] }}", **OPEN},
    "continue, shown twice": {"template": f"{OF_STRINGS}|{OF_STRINGS}|", **OPEN},
    "continue, the text earlier too": {
        "template": OF_STRINGS + "|end",
        "messages": [{"role": "user", "content": "A start A start"}, LAST[1]],
        "continue_final_message": True,
    },
    "continue, empty": {
        "template": OF_STRINGS + "|",
        "messages": [*HI, {"role": "assistant", "content": ""}],
        "continue_final_message": True,
    },
    "continue, blank": {
        "template": "{% for m in messages %}<{{ m.content | trim }}>{% endfor %}",
        "messages": [*HI, {"role": "assistant", "content": " \n "}],
        "continue_final_message": True,
    },
    "continue, null": {
        "template": OF_STRINGS,
        "messages": [*HI, {"role": "assistant", "content": None}],
        "continue_final_message": True,
    },
    "continue, no content": {
        "template": OF_STRINGS,
        "messages": [*HI, {"role": "assistant"}],
        "continue_final_message": True,
    },
    "continue, a number": {
        "template": OF_STRINGS,
        "messages": [*HI, {"role": "assistant", "content": 7}],
        "continue_final_message": True,
    },
    "continue, parts": {
        "template": OF_PARTS + "|",
        "messages": [
            {
                "role": "assistant",
                "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b "}],
            }
        ],
        "continue_final_message": True,
    },
    "continue, a tuple of parts": {
        "template": "{{ messages[-1].content }}",
        "messages": [{"role": "assistant", "content": ({"type": "text", "text": "a"},)}],
        "continue_final_message": True,
    },
    "continue, a text that is a number": {
        "template": OF_PARTS,
        "messages": [{"role": "assistant", "content": [{"text": "a"}, {"text": 7}]}],
        "continue_final_message": True,
    },
    "continue, the word itself": {
        "template": OF_STRINGS + "|",
        "messages": [{"role": "assistant", "content": "CONTINUE_FINAL_MESSAGE_TAG x"}],
        "continue_final_message": True,
    },
    "continue, parts without text": {
        "template": OF_PARTS,
        "messages": [{"role": "assistant", "content": [{"type": "image"}]}],
        "continue_final_message": True,
    },
    "continue, no parts": {
        "template": OF_PARTS,
        "messages": [{"role": "assistant", "content": []}],
        "continue_final_message": True,
    },
    "continue, none": {"template": OF_STRINGS, "messages": [], "continue_final_message": True},
    "continue the reasoning": {
        "template": "{{ messages[-1].reasoning_content }}|{{ messages[-1].content }}",
        "messages": [{"role": "assistant", "content": "c", "reasoning_content": "Two and "}],
        "continue_final_message": "reasoning_content",
    },
    "continue the thinking": {
        "template": "{{ messages[-1].thinking }}|{{ messages[-1].content }}",
        "messages": [{"role": "assistant", "content": "c", "thinking": "Two and "}],
        "continue_final_message": "thinking",
    },
    "continue the other reasoning": {
        "template": "{{ messages[-1].reasoning_content }}|{{ messages[-1].reasoning }}",
        "messages": [{"role": "assistant", "content": "c", "reasoning": "Two and "}],
        "continue_final_message": "reasoning",
    },
    "all names of reasoning": {
        "template": "{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}|"
        "{{ messages[0].reasoning }}",
        "messages": [{"role": "assistant", "reasoning": "a", "thinking": "b", "content": ""}],
    },
    "reasoning by two names": {
        "template": "{{ messages[0].thinking }}{{ messages[0].keys() | list }}",
        "messages": [{"reasoning_content": "a", "role": "assistant", "thinking": "b"}],
    },
    "reasoning and its place": {
        "template": "{{ messages[0] }}",
        "messages": [{"role": "assistant", "reasoning": "a", "content": "b"}],
    },
    # Which of several.
    "one, by a name": {"template": "S", "chat_template": "default"},
    "a literal": {"template": {"default": "D"}, "chat_template": "L{{ 1 }}"},
    "the default": {"template": {"tool_use": "T", "default": "D"}},
    "for tools": {"template": {"default": "D", "tool_use": "T"}, "tools": [WEATHER]},
    "for no tools": {"template": {"default": "D", "tool_use": "T"}, "tools": []},
    "tools without their template": {"template": {"default": "D", "rag": "R"}, "tools": [WEATHER]},
    "by its name": {"template": {"default": "D", "rag": "R"}, "chat_template": "rag", "tools": []},
    "no default": {"template": {"rag": "R"}},
    "no default, for tools": {"template": {"rag": "R", "tool_use": "T"}, "tools": []},
    "none in a mapping": {"template": {}},
    "none": {"template": None},
    "none, with a literal": {"template": None, "chat_template": "L"},
    "an empty one": {"template": ""},
    "an empty literal": {"template": "S", "chat_template": ""},
    # Bad input.
    "tools of strings": {"template": "{{ tools }}", "tools": ["get_weather"]},
    "documents of strings": {"template": "{{ documents }}", "documents": ["a"]},
    "recursion": {"template": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"},
}

SNAPSHOTS: dict[str, dict[str, Any]] = {
    "inline": {"tokenizer_config.json": {"chat_template": "I"}},
    "inline list": {
        "tokenizer_config.json": {
            "chat_template": [
                {"name": "default", "template": "D"},
                {"name": "tool_use", "template": "T"},
            ]
        }
    },
    "file over inline": {
        "tokenizer_config.json": {"chat_template": "I"},
        "chat_template.jinja": "F\r\n{{ 'é' }}\r",
    },
    "files over inline list": {
        "tokenizer_config.json": {"chat_template": [{"name": "rag", "template": "R"}]},
        "chat_template.jinja": "F",
        "additional_chat_templates/tool_use.jinja": "T",
    },
    "inline lost": {
        "tokenizer_config.json": {"chat_template": "I"},
        "additional_chat_templates/rag.jinja": "R",
    },
    "two defaults": {
        "tokenizer_config.json": {},
        "chat_template.jinja": "F",
        "additional_chat_templates/default.jinja": "A",
    },
    "an empty file": {
        "tokenizer_config.json": {"chat_template": "I"},
        "chat_template.jinja": "",
    },
    "byte order mark": {"tokenizer_config.json": {}, "chat_template.jinja": "\ufeffF"},
    "no template": {"tokenizer_config.json": {"chat_template": None}},
    "tokens": {
        "tokenizer_config.json": {
            "chat_template": "I",
            "bos_token": "<s>",
            "eos_token": {"__type": "AddedToken", "content": "</s>", "lstrip": False},
            "pad_token": None,
            "image_token": "<img>",
            "extra_special_tokens": {"sound_token": "<snd>"},
            "added_tokens_decoder": {"0": {"content": "a", "special": True}},
        },
        "special_tokens_map.json": {"bos_token": "<other>", "unk_token": "<other>"},
    },
    "tokens of the map": {
        "tokenizer_config.json": {"chat_template": "I", "bos_token": "<s>", "eos_token": "</s>"},
        "special_tokens_map.json": {
            "bos_token": "<other>",
            "unk_token": {"content": "<unk>", "lstrip": False},
        },
    },
    "tokens of a class": {
        "tokenizer_config.json": {
            "chat_template": "I",
            "tokenizer_class": "GPT2TokenizerFast",
            "bos_token": None,
        }
    },
}
"""Files of snapshots: which template and which special tokens are there."""


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
