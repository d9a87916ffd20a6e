"""Messages of OpenAI's clients become what vLLM and SGLang hand to a template."""

from __future__ import annotations

from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from streamdec.chat.messages import openai_messages
from streamdec.chat.plain import plain
from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError, StreamdecWarning
from tests.chat import cases

PARTS = [{"type": "text", "text": "Describe"}, {"type": "input_text", "text": "a cat."}]
TEXTS = [{"type": "text", "text": "Describe"}, {"type": "text", "text": "a cat."}]
NAMED: list[tuple[Any, dict[str, Any]]] = [
    ({"type": "image_url", "image_url": {"url": "data:…"}}, {"type": "image"}),
    ({"type": "input_audio", "input_audio": {}}, {"type": "audio"}),
    ({"type": "video_url", "video_url": {}}, {"type": "video"}),
    ({"type": "refusal", "refusal": "No."}, {"type": "text", "text": "No."}),
    ({"type": "tool_reference", "name": "f"}, {"type": "tool_reference", "name": "f"}),
    ("text", {"type": "text", "text": "text"}),
]
"""Parts of a content, and what a template takes in their place."""


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", **fields}


def result(content: Any) -> dict[str, Any]:
    return {"role": "tool", "content": content}


def called(arguments: Any, **fields: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return assistant(tool_calls=[{"id": "1", "function": function}], **fields)


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        # Arguments of tools; a message without content has an empty one in one profile.
        (called('{"n": ["東京", 2.5, null]}'), {}, called({"n": ["東京", 2.5, None]}, content="")),
        (called({"city": "Paris"}), {}, called({"city": "Paris"}, content="")),
        (called("{}"), {"profile": "hardened"}, called({})),
        (called(""), {}, called({}, content="")),
        (called("  "), {}, called({}, content="")),
        (called(None), {}, called({}, content="")),
        (assistant(content=None), {}, assistant(content="")),
        (assistant(content=None), {"profile": "hardened"}, assistant()),
        # Fields without a value, and fields in place of content.
        (assistant(content="a", tool_calls=None, name=None), {}, assistant(content="a")),
        (assistant(content="a", tool_calls=[]), {}, assistant(content="a")),
        (assistant(refusal="a"), {}, assistant(refusal="a")),
        # Content has the form that the template reads.
        (user(PARTS), {}, user("Describe\na cat.")),
        (user(PARTS), {"separator": " "}, user("Describe a cat.")),  # as SGLang
        (user(PARTS), {"content_format": "parts"}, user(TEXTS)),
        (user("a"), {}, user("a")),
        (user("a"), {"content_format": "parts"}, user("a")),
        (user("a"), {"content_format": "parts only"}, user([{"type": "text", "text": "a"}])),
        *((user([part]), {"content_format": "parts"}, user([named])) for part, named in NAMED),
        # The result of a tool is a string, unless a part of it is not text.
        (result("a"), {"content_format": "parts only"}, result("a")),
        (result(PARTS), {"content_format": "parts"}, result("Describe\na cat.")),
        (result([NAMED[4][0]]), {"content_format": "parts"}, result([NAMED[4][1]])),
        (cases.Message("user", [{"type": "text", "text": "a"}]), {}, user("a")),
    ],
)
def test_a_message_becomes_what_a_template_takes(
    given: Any, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert openai_messages([given], **options) == [expected]


def test_tool_arguments_that_are_no_object_become_empty_with_a_warning() -> None:
    """It has one text, of which nothing is the client's: Python keeps every text."""
    wrong = ['{"city": ', "Paris", "[1]", "42", '"{}"', [1]]
    messages = [called(wrong[0]), called("")]
    messages[1]["tool_calls"] = [{"function": {"name": "f", "arguments": one}} for one in wrong]
    with pytest.warns(StreamdecWarning) as warned:
        first, second = openai_messages(messages)
    assert first == called({}, content="")
    assert [each["function"]["arguments"] for each in second["tool_calls"]] == [{}] * 6
    assert [str(each.message) for each in warned] == [
        "the arguments of a tool call are not a JSON object; they become {}"
    ] * 7


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_tool_arguments_that_are_nested_too_deeply_are_an_error(before: str, after: str) -> None:
    arguments = before * 100_000 + "1" + after * 100_000
    with pytest.raises(ChatTemplateError, match="message 0: it is nested too deeply"):
        openai_messages([called(arguments)])


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Hi", "must be a dict, not str"),
        ({"role": "user"}, "content is missing"),
        ({"role": "tool", "tool_call_id": "call_1"}, "content is missing"),
        ({"role": "assistant", "name": "Ada"}, "content is missing"),
        ({"role": "assistant", "tool_calls": []}, "content is missing"),
        ({"content": "Hi"}, "role is missing"),
        ({"role": None, "content": "Hi"}, "role must be a string, not NoneType"),
        (
            user([{"type": "image_url"}]),
            "the template accepts only text, but the content has a part 'image'",
        ),
        (user([{"type": "text"}]), "part 0 of the content has no text"),
        (user([{"type": "text", "text": None}]), "part 0 of the content has no text"),
        (user([{"image": "a"}]), "part 0 of the content has no type"),
        (user([7]), "part 0 of the content must be a dict, not int"),
        (user(7), "content must be a string or a list, not int"),
        (user({"type": "text"}), "content must be a string or a list, not dict"),
    ],
)
def test_a_message_that_cannot_be_given_is_an_error(message: Any, told: str) -> None:
    with pytest.raises(ChatTemplateError) as raised:
        openai_messages([user("Hi"), message])
    assert str(raised.value) == f"message 1: {told}"


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_has_both_names_for_the_template(name: str) -> None:
    """As in vLLM, whose clients send back ``reasoning``."""
    template = ChatTemplate("{{ messages[0].reasoning_content }} {{ messages[0].reasoning }}")
    messages = template.openai_messages([{"role": "assistant", "content": "4", name: "2+2"}])
    assert template.render(messages) == "2+2 2+2"


ADVICE = "; to convert such messages, pass openai=True, or --openai in a shell"


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(
    ("source", "messages", "told"),
    [
        (
            "{% for m in messages %}{{ m.content.strip() }}{% endfor %}",
            [{"role": "user", "content": "a"}, {"role": "user", "content": PARTS}],
            "the content of message 1 is a list of parts, and the template takes only text",
        ),
        (
            "{{ messages[0].tool_calls[0].function.arguments.items() | list }}",
            [called('{"a": 1}')],
            "message 0 has tool arguments that are a string",
        ),
        (
            "{{ messages[0].content.strip() }}",
            [assistant(content=None)],
            "the content of message 0 is null",
        ),
        (
            "{% for p in messages[0].content %}{{ p.text.strip() }}{% endfor %}",
            [user("a")],
            "the content of message 0 is a string, and the template takes only a list of parts",
        ),
    ],
)
def test_an_error_names_openai_if_messages_were_not_converted(
    source: str, messages: Any, told: str, isolate: bool
) -> None:
    template = ChatTemplate(source, isolate=isolate)
    with pytest.raises(ChatTemplateError) as raised:
        template.render(messages)
    message = str(raised.value)
    assert message.startswith("the chat template, line 1: UndefinedError: ")
    assert message.endswith(f"; {told}{ADVICE}")
    assert raised.value.line == 1
    template.render(template.openai_messages(messages))


@pytest.mark.parametrize(
    ("source", "messages"),
    [
        ("{{ messages[0].nothing.there }}", [{"role": "user", "content": "a"}]),
        ("{{ messages[0].nothing.there }}", [called({"a": 1})]),
        ("{{ raise_exception('no') }}", [called('{"a": 1}')]),
        ("{% for p in messages[0].content %}{{ p.x.y }}{% endfor %}", [user(PARTS), result("a")]),
        ("{{ messages[0].nothing.there }}", [5, {"tool_calls": 5}, {"tool_calls": [{}, 5]}]),
    ],
)
def test_other_errors_of_a_template_do_not_name_openai(source: str, messages: Any) -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate(source).render(messages)
    assert "openai" not in str(raised.value)


def test_a_developer_is_the_system_of_a_template_that_does_not_name_one() -> None:
    messages = [{"role": "developer", "content": "Be brief."}, user("Hi")]
    for known, role in (("", "system"), ("{{ m.role == 'developer' }}", "developer")):
        converted = ChatTemplate(f"{TURNS}{known}{END}").openai_messages(messages)
        assert converted == [{**messages[0], "role": role}, user("Hi")]


TURNS = "{% for m in messages %}"
LOOP = "{% for p in m.content %}{{ p.text }}{% endfor %}"
END = "{% endfor %}"

FORMATS = {
    f"{TURNS}{{{{ m.content }}}}{END}": "string",
    f"{TURNS}{LOOP}{END}": "parts only",
    f"{TURNS}{{% for p in m['content'] %}}{END}{END}": "parts only",
    f"{TURNS}{{% if m.content is string %}}{{% else %}}{LOOP}{{% endif %}}{END}": "parts",
    f"{{% for m in messages[1:] %}}{{% for p in m.content | list %}}{END}{END}": "parts only",
    f"{{% set all = messages %}}{{% for m in all %}}{LOOP}{END}": "parts only",
    "{% set turns = messages[1:] if x else messages %}"
    f"{{% for m in turns %}}{LOOP}{END}": "parts only",
    f"{TURNS}{{% set content = m.content %}}{{% for p in content %}}{END}{END}": "parts only",
    f"{{% for p in messages[0].content %}}{END}": "parts only",
    "{% macro f(content) %}{% for p in content %}{% endfor %}{% endmacro %}"
    f"{TURNS}{{{{ f(m.content) }}}}{END}": "parts only",
    f"{TURNS}{{% for p in m.content if p.text %}}{END}{END}": "parts only",
    # Something else that is called content, or something else of a message.
    f"{TURNS}{{% for c in m.tool_calls %}}{{{{ c.content }}}}{END}{END}": "string",
    f"{{% for m in documents %}}{LOOP}{END}{{{{ messages[0].content }}}}": "string",
    f"{TURNS}{{% for line in m.content.split('x') %}}{END}{END}": "string",
    # Mistral's templates with tools take a list of calls as content.
    f"{TURNS}{{% set calls = m.content %}}{{% for c in calls %}}{END}{END}": "string",
    "": "string",
}


@pytest.mark.parametrize(("source", "expected"), FORMATS.items())
def test_the_accepted_forms_are_read_from_the_template(source: str, expected: str) -> None:
    assert ChatTemplate(source).content_format() == expected


def test_a_chosen_template_is_the_one_that_is_read() -> None:
    takes = TURNS + LOOP + END
    template = ChatTemplate({"default": "{{ messages[0].content }}", "tool_use": takes})
    assert template.content_format() == "string"
    assert template.content_format(with_tools=True) == "parts only"
    assert template.content_format(chat_template=takes) == "parts only"


class Model:
    """As pydantic's models look to others."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def model_dump(self) -> dict[str, Any]:
        return dict(self.__dict__)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, True),
        (type("Ratio", (float,), {})(1.5), 1.5),
        (np.float64(1.5), 1.5),
        (np.int64(3), 3),
        (np.bool_(False), False),
        (np.array([1]), "<ndarray>"),
        (cases.Message, "<type>"),
        ([cases.Message("a", cases.Role.USER)], [{"role": "a", "content": "user"}]),
        ((1, [np.int64(2)]), (1, [2])),
        (OrderedDict(a=1), {"a": 1}),
        (
            MappingProxyType({cases.Role.USER: [cases.Message("a", 1)]}),
            {"user": [{"role": "a", "content": 1}]},
        ),
        (Model(role="user", content=Model(a=1)), {"role": "user", "content": {"a": 1}}),
    ],
)
def test_each_value_becomes_plain_data(value: Any, expected: Any) -> None:
    assert repr(plain(value)) == repr(expected)  # 1, 1.0 and True are equal


def test_only_hardened_hides_what_objects_can_do() -> None:
    class Dangerous:
        def delete(self) -> str:
            return "deleted"

    source = "{{ x.delete() }}"
    assert ChatTemplate(source).render([{"role": "user"}], x=Dangerous()) == "deleted"
    hardened = ChatTemplate("{{ x }}", profile="hardened")
    assert hardened.render([{"role": "user"}], x=Dangerous()) == "<Dangerous>"
