"""Messages of OpenAI's clients become what vLLM and SGLang hand to a template."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamdec.chat.content_format import content_format_of
from streamdec.chat.environment import make_environment
from streamdec.chat.messages import ContentFormat, openai_messages
from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError, StreamdecWarning
from tests.chat import cases
from tests.support.files import SHARED

PARTS = [{"type": "text", "text": "Describe"}, {"type": "input_text", "text": "a cat."}]


def called(arguments: Any) -> list[dict[str, Any]]:
    function = {"name": "f", "arguments": arguments}
    return [{"role": "assistant", "tool_calls": [{"id": "1", "function": function}]}]


def arguments_of(messages: list[dict[str, Any]]) -> Any:
    return messages[0]["tool_calls"][0]["function"]["arguments"]


# --- tool calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ('{"city": "東京", "n": [1, 2.5, null]}', {"city": "東京", "n": [1, 2.5, None]}),
        ({"city": "Paris"}, {"city": "Paris"}),
        ("{}", {}),
        ("", {}),
        ("  ", {}),
        (None, {}),
        ("[1]", [1]),
    ],
)
def test_tool_arguments_are_parsed(given: Any, expected: Any) -> None:
    assert arguments_of(openai_messages(called(given))) == expected


@pytest.mark.parametrize("given", ['{"city": ', "Paris"])
def test_tool_arguments_that_are_not_json_become_empty_with_a_warning(given: str) -> None:
    with pytest.warns(StreamdecWarning, match=r"arguments of tool call 0 \('f'\) are not JSON"):
        assert arguments_of(openai_messages(called(given))) == {}


@pytest.mark.parametrize(("before", "after"), [("[", "]"), ('{"a":', "}")])
def test_tool_arguments_that_are_nested_too_deeply_are_an_error(before: str, after: str) -> None:
    arguments = before * 100_000 + "1" + after * 100_000
    with pytest.raises(ChatTemplateError, match="message 0: it is nested too deeply"):
        openai_messages(called(arguments))


@pytest.mark.parametrize("calls", [None, []])
def test_an_empty_list_of_tool_calls_is_removed(calls: Any) -> None:
    message = {"role": "assistant", "content": "a", "tool_calls": calls, "name": None}
    assert openai_messages([message]) == [{"role": "assistant", "content": "a"}]


# --- content --------------------------------------------------------------------------------------


TEXTS = [{"type": "text", "text": "Describe"}, {"type": "text", "text": "a cat."}]


@pytest.mark.parametrize(
    ("content", "format_", "expected"),
    [
        (PARTS, "string", "Describe\na cat."),
        (PARTS, "parts", TEXTS),
        (PARTS, "parts only", TEXTS),
        ("a", "string", "a"),
        ("a", "parts", "a"),
        ("a", "parts only", [{"type": "text", "text": "a"}]),
    ],
)
def test_content_takes_the_form_that_the_template_reads(
    content: Any, format_: ContentFormat, expected: Any
) -> None:
    found = openai_messages([{"role": "user", "content": content}], format_)
    assert found[0]["content"] == expected


def test_the_separator_of_sglang() -> None:
    found = openai_messages([{"role": "user", "content": PARTS}], separator=" ")
    assert found[0]["content"] == "Describe a cat."


@pytest.mark.parametrize(
    "message", [{"content": None}, {"tool_calls": called("{}")[0]["tool_calls"]}]
)
def test_null_content_depends_on_the_profile(message: dict[str, Any]) -> None:
    given = {"role": "assistant", **message}
    assert openai_messages([given])[0]["content"] == ""
    assert "content" not in openai_messages([given], profile="hardened")[0]


def test_media_parts_have_the_names_that_templates_use() -> None:
    content = [
        {"type": "image_url", "image_url": {"url": "data:…"}},
        {"type": "input_audio", "input_audio": {}},
        {"type": "video_url", "video_url": {}},
        {"type": "refusal", "refusal": "No."},
        {"type": "tool_reference", "name": "f"},
        "text",
    ]
    assert openai_messages([{"role": "user", "content": content}], "parts")[0]["content"] == [
        {"type": "image"},
        {"type": "audio"},
        {"type": "video"},
        {"type": "text", "text": "No."},
        {"type": "tool_reference", "name": "f"},
        {"type": "text", "text": "text"},
    ]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


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
        ({"role": 5, "content": "Hi"}, "role must be a string, not int"),
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


@pytest.mark.parametrize("field", ["refusal", "function_call"])
def test_an_assistants_message_may_have_another_field_than_content(field: str) -> None:
    message = {"role": "assistant", field: "a"}
    assert openai_messages([message]) == [message]


def test_objects_are_messages_too() -> None:
    found = openai_messages([cases.Message("user", [{"type": "text", "text": "a"}])])
    assert found == [{"role": "user", "content": "a"}]


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
            (
                "{% for m in messages %}{% for k, v in m.tool_calls[0].function.arguments.items() "
                "%}{% endfor %}{% endfor %}"
            ),
            called('{"a": 1}'),
            "message 0 has tool arguments that are a string",
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
        ("{{ messages[0].nothing.there }}", called({"a": 1})),
        ("{{ raise_exception('no') }}", called('{"a": 1}')),
        ("{% for part in messages[0].content %}{{ part.x.y }}{% endfor %}", [{"content": PARTS}]),
        ("{{ messages[0].nothing.there }}", [5, {"tool_calls": 5}, {"tool_calls": [{}, 5]}]),
    ],
)
def test_other_errors_of_a_template_do_not_name_openai(source: str, messages: Any) -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate(source).render(messages)
    assert "openai" not in str(raised.value)


# --- what a template takes ------------------------------------------------------------------------

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
    f"{TURNS}{{% set c = m.content %}}{{% for p in c %}}{END}{END}": "parts only",
    f"{TURNS}{{% set c = m.content %}}{{% set d = c | list %}}{{% for p in d %}}{END}{END}": (
        "parts only"
    ),
    f"{{% for p in messages[0].content %}}{END}": "parts only",
    "{% macro f(content) %}{% for p in content %}{% endfor %}{% endmacro %}"
    f"{TURNS}{{{{ f(m.content) }}}}{END}": "parts only",
    f"{TURNS}{{% for p in m.content if p.text %}}{END}{END}": "parts only",
    # Something else that is called content, or something else of a message.
    f"{TURNS}{{% for c in m.tool_calls %}}{{{{ c.content }}}}{END}{END}": "string",
    f"{{% for m in documents %}}{LOOP}{END}{{{{ messages[0].content }}}}": "string",
    f"{TURNS}{{% for line in m.content.split('x') %}}{END}{END}": "string",
    "": "string",
}


@pytest.mark.parametrize(("source", "expected"), FORMATS.items())
def test_the_accepted_forms_are_read_from_the_template(source: str, expected: str) -> None:
    assert content_format_of(make_environment("classic").parse(source)) == expected
    assert ChatTemplate(source).content_format() == expected


def test_a_chosen_template_is_the_one_that_is_read() -> None:
    takes = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"
    template = ChatTemplate({"default": "{{ messages[0].content }}", "tool_use": takes})
    assert template.content_format() == "string"
    assert template.content_format(with_tools=True) == "parts only"
    assert template.content_format(chat_template=takes) == "parts only"


REAL = {
    "deepseek-v3.1": "string",
    "gemma-2-2b-it": "string",
    "gemma-3n": "parts",
    "glm-4.6": "parts",
    "gpt-oss-120b": "string",
    "llama-3.1-8b-instruct": "string",
    "mistral-small-3.2-24b": "parts",
    "qwen3-0.6b": "string",
}
TEMPLATES = {
    path.stem: path
    for path in (SHARED.parent / "chat-goldens" / "templates").glob("*.jinja")
    if path.stem in REAL
}


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_real_templates_have_their_known_content_format(name: str) -> None:
    template = ChatTemplate(TEMPLATES[name].read_text("utf-8"))
    assert template.content_format() == REAL[name]
    messages = [{"role": "user", "content": json.loads(json.dumps(PARTS))}]
    text = template.render(template.openai_messages(messages, separator=" "))
    expected = "Describea cat." if REAL[name] == "parts" else "Describe a cat."
    assert expected in text.replace("Describe\n\na", "Describea")
