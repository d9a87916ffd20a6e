"""``ChatTemplate``: arguments are not changed, errors name the line, threads may share it."""

# mypy: disable-error-code="arg-type, dict-item, list-item"
# Some calls are wrong on purpose.

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import jinja2
import pytest

from streamdec import chat, load_tokenizer
from streamdec.chat.template import ChatTemplate
from streamdec.errors import ChatTemplateError, MissingExtraError, StreamdecError, StreamdecWarning
from tests.chat import cases

USER = [{"role": "user", "content": "Hi"}]
NOW = datetime(2026, 3, 5, 14, 7, 9)  # noqa: DTZ001 - templates get the local time
CHATML = (cases.DATA / "templates" / "chatml.jinja").read_text("utf-8")
PROFILES = ("classic", "hardened")
TEXT = ChatTemplate("x")
OF_PROFILE = {profile: ChatTemplate(CHATML, profile=profile) for profile in PROFILES}
HARDENED = OF_PROFILE["hardened"]


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("a\n\n{{ nope.x }}\n", 3),
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


def test_an_error_without_a_text_ends_with_its_class() -> None:
    with pytest.raises(ChatTemplateError, match=r"line 1: MemoryError$"):
        ChatTemplate("{{ 'a' * 10**18 }}").render(USER)


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "\n{{ nope.x }}",
            "the chat template chat_template.jinja, line 2: UndefinedError: 'nope' is undefined",
        ),
        ("{{ raise_exception('no') }}", "no"),
        ("{% if %}", "the template cannot be read, line 1: Expected an expression, got 'end of"),
        ("{{ 1" + "+1" * 200 + " }}", "the template is nested more than 100 levels deep"),
    ],
)
def test_the_path_of_the_template_is_in_a_note_and_not_in_the_message(
    source: str, told: str, isolate: bool, tmp_path: Path
) -> None:
    """A server may send the message to its client."""
    path = tmp_path / "chat_template.jinja"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate.from_snapshot(tmp_path, isolate=isolate).render(USER)
    assert str(raised.value).startswith(told)
    assert str(tmp_path) not in str(raised.value)
    assert raised.value.__notes__[-1] == f"the chat template was read from {path}"


@pytest.mark.parametrize("isolate", [False, True])
@pytest.mark.parametrize("value", ["dict(a=1)", "range(3)", "range(0)", "namespace()"])
def test_output_that_is_not_text_raises_a_template_error(value: str, isolate: bool) -> None:
    """A call block outputs the result of the call."""
    with pytest.raises(ChatTemplateError, match="TypeError") as raised:
        ChatTemplate("a{% call " + value + " %}{% endcall %}", isolate=isolate).render(USER)
    assert raised.value.code != "CHAT_TEMPLATE_CHILD_DIED"


def test_the_error_is_a_streamdec_error_and_can_be_pickled() -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate({"default": "\n{{ [].append(1) }}"}).render(USER)
    assert isinstance(raised.value, StreamdecError)
    assert isinstance(raised.value, ValueError)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (ChatTemplateError, str(raised.value))
    told = ("'default'", 2, "CHAT_TEMPLATE_SANDBOX_VIOLATION")
    assert (again.template, again.line, again.code) == told


def test_a_long_message_is_cut() -> None:
    with pytest.raises(ChatTemplateError) as raised:
        ChatTemplate("{{ raise_exception('x' * 5000) }}").render(USER)
    assert len(str(raised.value)) == 1001


class Model:
    def model_dump(self) -> Any:
        raise KeyError("gone")


def broken() -> Iterator[Any]:
    yield USER[0]
    raise OSError("the disk is gone")


LOOP: dict[str, Any] = {"role": "user", "content": "a"}
LOOP["more"] = LOOP
LISTED = "a list of objects with 'name' and 'template'"
RESERVED = (
    *("chat_template", "tokenize", "messages", "tools", "documents"),
    *("add_generation_prompt", "continue_final_message"),
)

WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: ChatTemplate("", profile="modern"), "profile must be 'classic' or 'hardened', not 'm"),
    (lambda: ChatTemplate("", isolate="yes"), "isolate must be True or False, not 'yes'"),
    (lambda: ChatTemplate(7), "must be a str, a mapping of names to str or a list"),
    (lambda: ChatTemplate(b"a"), "must be a str, a mapping of names to str or a list"),
    (lambda: ChatTemplate({"default": 7}), "the template 'default' must be a str"),
    (lambda: ChatTemplate({7: "a"}), "the template 7 must be a str"),
    (lambda: ChatTemplate(["a"]), LISTED),
    (lambda: ChatTemplate([{"name": "a"}]), LISTED),
    (lambda: ChatTemplate(None).render(USER), "no chat template: none was given"),
    (
        lambda: ChatTemplate({"default": "", "tool_use": "{{ x.y }}"}).render(USER, tools=[]),
        "the chat template 'tool_use', line 1",
    ),
    (lambda: TEXT.render(USER, chat_template="{{ x.y }}"), "for this rendering, line 1"),
    (lambda: HARDENED.render([*USER, "Hi"]), "message 1 must be a dict"),
    (lambda: HARDENED.render([LOOP]), "contains itself"),
    (lambda: HARDENED.render([Model()]), "messages, tools or variables: KeyError: 'gone'"),
    (lambda: HARDENED.render(broken()), "messages, tools or variables: OSError: the disk is gone"),
    (lambda: TEXT.render(USER, tools={"type": "a"}), "tools must be a list of dicts, not dict"),
    (
        lambda: TEXT.render(USER, tools=[len]),
        "not builtin_function_or_method; transformers.utils.get_json_schema",
    ),
    (lambda: TEXT.render(USER, documents={"a": 1}), "documents must be a list of dicts, not dict"),
    (lambda: TEXT.render(USER, documents=["a"]), r"documents\[0\] must be a dict, not str"),
    (lambda: TEXT.render(USER, chat_template=7), "chat_template must be a name or a text, not int"),
    (
        lambda: TEXT.render_with_spans(USER, continue_final_message=True),
        "continue_final_message: a message left open has no span",
    ),
]


@pytest.mark.parametrize(("call", "told"), WRONG, ids=[told for _, told in WRONG])
def test_a_wrong_call_says_what_was_expected(call: Callable[[], object], told: str) -> None:
    with pytest.raises((ValueError, TypeError), match=told):
        call()


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
    template = OF_PROFILE[profile]
    with pytest.raises(ChatTemplateError, match=told):
        template.render(messages)
    with pytest.raises(ChatTemplateError, match=told):
        template.render(template.openai_messages(messages))


@pytest.mark.parametrize("name", RESERVED)
def test_a_request_can_only_add_variables(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=f"must not have '{name}'") as raised:
        TEXT.render(USER, template_kwargs={"a": 1, name: "{{ 1 }}"})
    assert raised.value.code == "CHAT_TEMPLATE_FROM_REQUEST"
    assert ChatTemplate("{{ a }}").render(USER, template_kwargs={"a": 1}) == "1"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", cases.CONVERSATIONS)
def test_arguments_are_not_changed(name: str, profile: str) -> None:
    case = cases.CONVERSATIONS[name]
    messages, options = cases.call_of(case)
    before = copy.deepcopy((messages, options))
    template = OF_PROFILE[profile]
    try:
        template.openai_messages(messages)
        template.render(messages, **options)
    except ChatTemplateError:
        pass
    assert (messages, options) == before


def test_the_time_is_the_local_one_if_none_is_given() -> None:
    before = datetime.now().replace(microsecond=0)  # noqa: DTZ005 - as templates get it
    told = ChatTemplate("{{ strftime_now('%Y-%m-%dT%H:%M:%S') }}").render(USER)
    assert before <= datetime.fromisoformat(told) <= datetime.now()  # noqa: DTZ005


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
    assert pickle.loads(pickle.dumps(ChatTemplate("x", isolate=True))).isolate


def test_an_isolated_template_sees_plain_data() -> None:
    apart = ChatTemplate("{{ x }}{{ messages[0].role }}", isolate=True)
    message = cases.Message("user", "Hi")
    assert apart.render([message], x=cases.Opaque()) == "<Opaque>user"


def test_without_jinja2_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = load_tokenizer("demo", fast="off")
    monkeypatch.setitem(sys.modules, "jinja2", None)
    told = r"^chat templates need the library jinja2: pip install 'streamdec\[chat\]'$"
    ask_module = partial(chat.__getattr__, "ChatTemplate")
    ask_tokenizer = partial(tokenizer.apply_chat_template, USER)
    for call in (ask_module, ask_tokenizer, tokenizer.get_chat_template):
        with pytest.raises(MissingExtraError, match=told):
            call()


def test_an_old_jinja2_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("3.1.5", "2.11", "3.0.9"):
        monkeypatch.setattr(jinja2, "__version__", version)
        with pytest.raises(MissingExtraError, match=r"need jinja2 3\.1\.6 or later"):
            chat.require_jinja2()
    for version in ("3.1.6", "3.2.0", "4.0"):
        monkeypatch.setattr(jinja2, "__version__", version)
        chat.require_jinja2()
