"""``ChatTemplate``: arguments are not changed, errors name the line, threads may share it."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError, StreamdecError, StreamdecWarning
from tests.chat import cases

USER = [{"role": "user", "content": "Hi"}]
NOW = datetime(2026, 3, 5, 14, 7, 9)  # noqa: DTZ001 - templates get the local time
CHATML = (cases.DATA / "templates" / "chatml.jinja").read_text("utf-8")
PROFILES = ("classic", "hardened")


# --- errors ---------------------------------------------------------------------------------------


def test_the_message_of_a_template_is_the_message_of_the_error() -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate("a\n\n{{ raise_exception('Roles must alternate') }}").render(USER)
    assert str(raised.value) == "Roles must alternate"
    assert raised.value.line == 3
    assert raised.value.__notes__ == ["said by the chat template, line 3"]


def test_an_error_says_the_line_and_the_template(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("a\n\n{{ nope.x }}\n", encoding="utf-8")
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate.from_snapshot(tmp_path).render(USER)
    name = "chat_template.jinja"
    expected = f"the chat template {name}, line 3: UndefinedError: 'nope' is undefined"
    assert str(raised.value) == expected
    assert (raised.value.template, raised.value.line) == (name, 3)


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(
    "source", ["{{ nope.x }}", "{{ raise_exception('no') }}", "{% if %}", "{{ 'a' * 68_000_000 }}"]
)
def test_the_path_of_the_template_is_in_a_note_and_not_in_the_message(
    source: str, isolate: bool, tmp_path: Path
) -> None:
    """A server may send the message to its client."""
    (tmp_path / "chat_template.jinja").write_text(source, encoding="utf-8")
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate.from_snapshot(tmp_path, isolate=isolate).render(USER)
    assert str(tmp_path) not in str(raised.value)
    path = tmp_path / "chat_template.jinja"
    assert raised.value.__notes__[-1] == f"the chat template was read from {path}"


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a\n{{ 1 // 0 }}", 2),
        ("{% macro f() %}\n\n{{ 1 // 0 }}{% endmacro %}\n{{ f() }}", 3),
        ("{% for i in [1] %}\n{{ i.x.y }}{% endfor %}", 2),
        ("a\n{% if %}", 2),
        ("a\n\n{{ x | nope }}", 3),
        ("a\n{% generation %}b", 2),
        ("\n{{ {} < 1 }}", 2),
        ("\n{{ [].append(1) }}", 2),
    ],
)
def test_the_line_is_that_of_the_template(source: str, line: int) -> None:
    with pytest.raises(ChatTemplateError, match=f"line {line}"):
        ChatTemplate(source).render(USER)


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("value", ["dict(a=1)", "range(3)", "range(0)", "namespace()"])
def test_output_that_is_not_text_raises_a_template_error(value: str, isolate: bool) -> None:
    """A call block outputs the result of the call."""
    with pytest.raises(ChatTemplateError, match="TypeError") as raised:
        ChatTemplate("a{% call " + value + " %}{% endcall %}", isolate=isolate).render(USER)
    assert raised.value.code != "CHAT_TEMPLATE_CHILD_DIED"


def test_one_of_several_templates_is_named_in_the_error() -> None:
    with pytest.raises(ChatTemplateError, match="the chat template 'tool_use', line 1"):
        ChatTemplate({"default": "", "tool_use": "{{ x.y }}"}).render(USER, tools=[])
    with pytest.raises(ChatTemplateError, match="given for this rendering, line 1"):
        ChatTemplate("").render(USER, chat_template="{{ x.y }}")


def test_the_error_is_a_streamdec_error_and_can_be_pickled() -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate({"default": "\n{{ [].append(1) }}"}).render(USER)
    error = raised.value
    assert isinstance(error, StreamdecError)
    assert isinstance(error, ValueError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is ChatTemplateError
    assert str(again) == str(error)
    told = ("'default'", 2, "CHAT_TEMPLATE_SANDBOX_VIOLATION")
    assert (again.template, again.line, again.code) == told


def test_a_long_message_is_cut() -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate("{{ raise_exception('x' * 5000) }}").render(USER)
    assert len(str(raised.value)) == 1001


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"profile": "modern"}, "profile must be 'classic' or 'hardened', not 'modern'"),
        ({"isolate": "yes"}, "isolate must be True or False, not 'yes'"),
    ],
)
def test_a_bad_option_is_rejected(options: dict[str, Any], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        ChatTemplate("", **options)


@pytest.mark.parametrize(
    ("template", "told"),
    [
        (7, "must be a str, a mapping of names to str or a list"),
        (b"a", "must be a str, a mapping of names to str or a list"),
        ({"default": 7}, "the template 'default' must be a str"),
        ({7: "a"}, "the template 7 must be a str"),
        (["a"], "a list of objects with 'name' and 'template'"),
        ([{"name": "a"}], "a list of objects with 'name' and 'template'"),
    ],
)
def test_objects_that_are_not_templates_are_rejected(template: Any, told: str) -> None:
    with pytest.raises(ChatTemplateError, match=told):
        ChatTemplate(template)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ("Hi", "messages must be a list of messages, not str"),
        (USER[0], "messages must be a list of messages, not dict"),
        (None, "messages must be a list of messages, not NoneType"),
        ([USER, USER], "one conversation, not a list of several"),
        ([], "at least one message"),
    ],
)
def test_objects_that_are_not_conversations_are_rejected(
    messages: Any, told: str, profile: str
) -> None:
    with pytest.raises(ChatTemplateError, match=told):
        ChatTemplate(CHATML, profile=profile).render(messages)


def test_the_hardened_profile_rejects_a_message_that_is_not_a_dict() -> None:
    with pytest.raises(ChatTemplateError, match="message 1 must be a dict"):
        ChatTemplate(CHATML, profile="hardened").render([*USER, "Hi"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"tools": {"type": "function"}}, "tools must be a list of dicts, not dict"),
        (
            {"tools": [len]},
            "not builtin_function_or_method; transformers.utils.get_json_schema",
        ),
        ({"documents": {"title": "a"}}, "documents must be a list of dicts, not dict"),
        ({"documents": ["a"]}, r"documents\[0\] must be a dict, not str"),
        ({"chat_template": 7}, "chat_template must be a name or a text, not int"),
    ],
)
def test_bad_arguments_are_rejected(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ChatTemplateError, match=told):
        ChatTemplate("x").render(USER, **options)


def test_an_error_of_a_callers_object_becomes_a_template_error() -> None:
    class Model:
        def model_dump(self) -> Any:
            raise KeyError("gone")

    def broken() -> Any:
        yield USER[0]
        raise OSError("the disk is gone")

    template = ChatTemplate("{{ messages }}", profile="hardened")
    with pytest.raises(ChatTemplateError, match="messages, tools or variables: KeyError: 'gone'"):
        template.render([Model()])
    with pytest.raises(
        ChatTemplateError, match="messages, tools or variables: OSError: the disk is gone"
    ):
        template.render(broken())


def test_rendering_without_a_template_raises() -> None:
    with pytest.raises(ChatTemplateError, match="no chat template: none was given"):
        ChatTemplate(None).render(USER)


def test_data_that_contains_itself_raises() -> None:
    message: dict[str, Any] = {"role": "user", "content": "a"}
    message["more"] = message
    with pytest.raises(ChatTemplateError, match="contains itself"):
        ChatTemplate("{{ messages[0].role }}", profile="hardened").render([message])


# --- arguments are not changed --------------------------------------------------------------------


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", cases.CONVERSATIONS)
def test_arguments_are_not_changed(name: str, profile: str) -> None:
    case = cases.CONVERSATIONS[name]
    messages, options = cases.call_of(case)
    before = copy.deepcopy((messages, options))
    template = ChatTemplate(CHATML, profile=profile)
    try:
        template.openai_messages(messages)
        template.render(messages, **options)
    except ChatTemplateError:
        pass
    assert (messages, options) == before


def test_messages_may_be_any_iterable_or_have_them() -> None:
    class Conversation:
        messages = USER

    template = ChatTemplate(
        "{% for m in messages %}{{ m.content }}{% endfor %}{{ messages | length }}"
    )
    for messages in (USER, tuple(USER), iter(USER), Conversation()):
        assert template.render(messages) == "Hi1"  # type: ignore[arg-type]


# --- variables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["chat_template", "tokenize", "messages", "tools", "documents", "add_generation_prompt"],
)
def test_a_request_can_only_add_variables(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=f"template_kwargs must not have '{name}'"):
        ChatTemplate("x").render(USER, template_kwargs={name: "{{ 1 }}"})


# --- the clock ------------------------------------------------------------------------------------


def test_the_time_can_be_passed() -> None:
    source = "{{ strftime_now('%H:%M') }}"
    assert ChatTemplate(source, now=NOW).render(USER) == "14:07"
    times = iter([NOW, NOW + timedelta(minutes=1)])
    ticking = ChatTemplate(source, now=lambda: next(times))
    assert [ticking.render(USER), ticking.render(USER)] == ["14:07", "14:08"]


def test_the_time_is_the_local_one_if_none_is_given() -> None:
    before = datetime.now().replace(microsecond=0)  # noqa: DTZ005 - as templates get it
    told = ChatTemplate("{{ strftime_now('%Y-%m-%dT%H:%M:%S') }}").render(USER)
    assert before <= datetime.fromisoformat(told) <= datetime.now()  # noqa: DTZ005


# --- shared by threads ----------------------------------------------------------------------------


def test_threads_share_a_template_and_its_spans_are_their_own() -> None:
    template = ChatTemplate(
        "{% for m in messages %}{{ m.role }}"
        "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    together = threading.Barrier(4)

    def work(size: int) -> bool:
        together.wait()
        messages = [{"role": "a" * size, "content": "b" * size}] * 20
        expected = [(size * (2 * i + 1), size * (2 * i + 2)) for i in range(20)]
        return all(template.render_with_spans(messages)[1] == expected for _ in range(30))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, [1, 2, 3, 4]))


def test_a_rendering_within_a_rendering_has_its_own_spans() -> None:
    inner = ChatTemplate("ab{% generation %}c{% endgeneration %}")
    found: list[Any] = []

    def now() -> datetime:
        found.append(inner.render_with_spans(USER))
        return NOW

    outer = ChatTemplate("x{{ strftime_now('%Y') }}{% generation %}y{% endgeneration %}", now=now)
    assert outer.render_with_spans(USER) == ("x2026y", [(5, 6)])
    assert found == [("abc", [(2, 3)])]


@pytest.mark.parametrize("isolate", [False, True])
def test_a_template_without_generation_tags_warns_that_it_has_no_spans(isolate: bool) -> None:
    template = ChatTemplate("{{ add_generation_prompt }}", isolate=isolate)
    with pytest.warns(StreamdecWarning, match="has no {% generation %} tags"):
        assert template.render_with_spans(USER) == ("False", [])


def test_a_message_left_open_has_no_spans() -> None:
    with pytest.raises(ChatTemplateError, match="continue_final_message"):
        ChatTemplate("x").render_with_spans(USER, continue_final_message=True)


def test_a_template_can_be_sent_to_another_process() -> None:
    template = ChatTemplate(
        {"default": "{{ bos_token }}{{ strftime_now('%Y') }}"},
        special_tokens={"bos_token": "<s>"},
        profile="hardened",
        now=NOW,
    )
    again = pickle.loads(pickle.dumps(template))
    assert again.render(USER) == template.render(USER) == "<s>2026"
    assert (again.profile, again.isolate, again.origin) == ("hardened", False, template.origin)


# --- in its own process ---------------------------------------------------------------------------


def test_an_isolated_template_sees_plain_data_in_both_profiles() -> None:
    class Opaque:
        pass

    for profile in PROFILES:
        apart = ChatTemplate("{{ x }}{{ messages[0].role }}", isolate=True, profile=profile)
        assert apart.render([cases.Message("user", "Hi")], x=Opaque()) == "<Opaque>user"


# --- without jinja2 -------------------------------------------------------------------------------

WITHOUT = """
import sys
sys.modules["jinja2"] = None
import streamdec, streamdec.chat
tokenizer = streamdec.load_tokenizer({path!r})
calls = [
    lambda: streamdec.chat.ChatTemplate("x"),
    lambda: tokenizer.apply_chat_template([]),
    lambda: tokenizer.get_chat_template(),
]
for call in calls:
    try:
        call()
    except streamdec.errors.MissingExtraError as error:
        print(error)
"""


def test_without_jinja2_only_templates_fail_and_the_error_says_what_to_install() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(path="demo")],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    told = "chat templates need the library jinja2: pip install 'streamdec[chat]'"
    assert run.stdout.splitlines() == [told] * 3


def test_an_old_jinja2_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    import jinja2

    from streamdec.chat import require_jinja2
    from streamdec.errors import MissingExtraError

    for version in ("3.1.5", "2.11", "3.0.9"):
        monkeypatch.setattr(jinja2, "__version__", version)
        with pytest.raises(MissingExtraError, match=r"need jinja2 3\.1\.6 or later"):
            require_jinja2()
    for version in ("3.1.6", "3.2.0", "4.0"):
        monkeypatch.setattr(jinja2, "__version__", version)
        require_jinja2()
