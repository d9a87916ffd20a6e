# ruff: noqa: E501 - a template is read more easily in one line
"""No text of a template has the address of an object, or the order that hashes give to a set.

A family of templates is drawn: each way to get an object, and each way to turn it into text. In
jinja2's own sandbox many of them show an address.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.exceptions import TemplateError
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Cycler, Joiner, Namespace, pass_context
from markupsafe import Markup

from streamdec.chat.environment import make_environment
from streamdec.chat.isolated import render_isolated
from streamdec.chat.rendering import render_once
from streamdec.errors import ChatTemplateError

PROFILES = ("classic", "hardened")
FAILURES = (AssertionError, AttributeError, LookupError, TemplateError, TypeError, ValueError)
"""What the filters of jinja2 raise for other values than theirs."""
ADDRESS = re.compile(r"0x[0-9a-f]{5}", re.IGNORECASE)
CONTEXT = {"messages": [{"role": "user", "content": "hi"}]}
FRAME = (
    "{% block x %}{% endblock %}{% macro m() %}{% for i in [1] %}{{ caller() }}HERE"
    "{% endfor %}{% endmacro %}{% call m() %}y{% endcall %}"
)
"""Where a macro, its caller, a loop and a block are known."""
FRAMED = re.compile(r"\b(?:m|caller|loop|self)\b")
"""What needs the frame, which takes most of the time of a rendering."""

VALUES: dict[str, object] = {
    "''": str,
    "1": int,
    "true": bool,
    "1.5": float,
    "[1]": list,
    "(1,)": tuple,
    "messages[0]": dict,
    "''.encode()": bytes,
    "range(3)": range,
    "(''|e)": Markup,
    "{}.keys()": {}.keys(),
    "{}.items()": {}.items(),
    "{}.values()": {}.values(),
    "{}.keys().mapping": {}.keys().mapping,
    "dict['x']": dict[str, str],
    "dict": dict,
    "namespace": Namespace,
    "namespace(a=1)": Namespace,
    "cycler": Cycler,
    "cycler('a')": Cycler,
    "joiner": Joiner,
    "joiner()": Joiner,
    "loop": LoopContext,
    "m": Macro,
    "caller": Macro,
    "self": None,
    "self.x": None,
    "nope": None,
    "range": None,
    "lipsum": None,
    "raise_exception": None,
    "strftime_now": None,
    **{f"([1]|{name})": None for name in sorted(make_environment("classic").filters)},
    "([[1, 2]]|batch(1))": None,
    "([1]|slice(1))": None,
    "([1]|map('abs'))": None,
    "([{'a': ''.upper}]|map(attribute='a'))": None,
    "({'a': 1}|items)": None,
    "({'a': 1}|groupby('a'))": None,
    "(''|attr('upper'))": None,
    "''['upper']": None,
}
"""Expressions, and what has their attributes."""
OBJECTS = [
    f"{expression}{attribute}"
    for expression, owner in VALUES.items()
    for attribute in (
        "",
        ".super",
        *(f".{name}" for name in dir(owner) if owner is not None and name[0] != "_"),
    )
]
OTHERS = [
    *("''.format.__wrapped__", "[''.upper]|map(attribute='__self__')", "''.upper.__self__"),
    *("''.upper._call", "range._call", "([1]|map('abs'))._items", "''.upper.__call__"),
    *("joiner.__init__", "lipsum.__globals__", "''.__class__", "x.y.z"),
    *("namespace(a=''.upper)", "namespace(a=''.upper).a", "dict(a=''.upper)", "(''.upper, [1])"),
    *("([[1]|map('abs')])", "(['a']|map('map', 'upper')|first)", "(messages|groupby('role'))"),
    *("(messages|map(attribute='items')|list)", "(messages|selectattr('role'))", "varargs"),
]

TEXTS = [
    "{{ X }}",
    "{{ X ~ '' }}",
    "{{ '%s'|format(X) }}",
    "{{ '%s %r' % (X, [X]) }}",
    "{{ ('%s'|e) % X }}",
    "{{ '{} {!r}'.format(X, X) }}",
    "{{ '{a}'.format_map({'a': X}) }}",
    "{{ ('{}'|e).format(X) }}",
    "{{ [X, (X,), {'a': X}] }}",
    "{{ [X]|join }}",
    "{{ X|string }}",
    "{{ (X|string)[3:]|list|join(' ')|replace(' ', '') }}",
    "{{ [X]|pprint }}",
    "{{ X|e }}",
    "{{ X|tojson }}",
    "{{ {X: 1}|tojson }}",
    "{{ {X: 1} }}",
    "{{ raise_exception(X) }}",
    "{{ {}[X].x }}",
    "{{ namespace(a=X) }}",
    "{% set ns = namespace() %}{% set ns.a = X %}{{ ns }}{{ ns.a }}",
    "{{ X|urlencode }}",
    "{{ {'a': X}|xmlattr }}",
    "{{ X|replace('', '-')|replace('-', '') }}",
    "{% set y %}{{ X }}{% endset %}{{ y }}",
    "{% filter upper %}{{ X }}{% endfilter %}",
    "{{ [1].index(X) }}",
    "{{ X() }}",
    "{{ X(1) }}",
    "{{ X('a') }}",
    "{{ X + 1 }}",
    "{{ X - {}.keys() }}",
    "{{ X|list }}",
    "{{ X|map('string')|join }}",
    "{{ [[X]]|first }}",
    "{{ [X, X]|unique|list }}",
    "{{ dict.fromkeys([X]) }}",
    "{{ dict[X] }}",
    "{{ cycler(X).current }}",
    "{{ nope|default(X) }}",
    "{{ X.x.y }}",
    "{{ X[1] }}{{ X['a'] }}",
    "{% for y in X %}{{ y }}{% endfor %}",
    "{% include X %}",
    "{{ [X, 1]|sort }}",
    "{{ 'a' + X }}",
    "{{ X(1, 2, 3, x=4) }}",
    "{{ X|sum }}",
    "{{ X|dictsort }}",
]


def told(source: str, profile: str) -> str:
    """The text of a rendering, or that of its error."""
    try:
        return render_once(source, CONTEXT, profile=profile)[0]
    except ChatTemplateError as error:
        return str(error)


def in_frame(text: str, expression: str) -> str:
    source = text.replace("X", expression)
    return FRAME.replace("HERE", source) if FRAMED.search(expression) else source


@pytest.mark.parametrize("profile", PROFILES)
@given(expression=st.sampled_from(OBJECTS + OTHERS), text=st.sampled_from(TEXTS))
def test_no_rendered_text_has_a_memory_address(profile: str, expression: str, text: str) -> None:
    assert not ADDRESS.search(told(in_frame(text, expression), profile))


@pytest.mark.thorough
@pytest.mark.parametrize("profile", PROFILES)
def test_no_rendered_object_has_a_memory_address(profile: str) -> None:
    for expression in OBJECTS:
        shown = told(in_frame("{{ [X] }}", expression), profile)
        assert not ADDRESS.search(shown), (expression, shown)


@pytest.mark.thorough
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("profile", PROFILES)
def test_no_object_has_a_memory_address_in_any_text(profile: str, text: str) -> None:
    """Each text is tried with each tenth object, and each object with four texts or more."""
    for expression in [*OBJECTS, *OTHERS][TEXTS.index(text) % 10 :: 10]:
        shown = told(in_frame(text, expression), profile)
        assert not ADDRESS.search(shown), (expression, shown)


@pytest.mark.thorough
def test_in_jinja2s_own_sandbox_these_texts_show_addresses() -> None:
    """In jinja2's own sandbox, through each of the first ten texts."""
    environment = ImmutableSandboxedEnvironment()
    for text in TEXTS[:10]:
        shown = environment.from_string(in_frame(text, "''.upper")).render()
        assert ADDRESS.search(shown), text
    showing = 0
    for expression in OBJECTS:
        try:
            shown = environment.from_string(in_frame("{{ [X] }}", expression)).render(CONTEXT)
        except FAILURES:
            continue
        showing += bool(ADDRESS.search(shown))
    assert showing > 150


def test_an_isolated_template_shows_no_address() -> None:
    source = "{{ [''.upper, [1]|map('abs'), joiner(), range] }}"
    text, _ = render_isolated(source, {}, profile="classic")
    assert text == "[<function>, <iterator>, <joiner>, <function>]"


@pytest.mark.parametrize("name", sorted(make_environment("classic").filters))
def test_no_filter_returns_a_value_with_an_address(name: str) -> None:
    seen: list[object] = []
    environment = make_environment("classic")
    for arguments in ("", "(1)", "(2)", "('abs')", "(1, 2)"):
        for value in ([1], {"a": 1}, "a", 1.5):
            source = "{{ f(x|" + name + arguments + ") }}"
            context = {"x": value, "f": seen.append}
            try:
                environment.from_string(source).render(context)
            except FAILURES:
                continue
    assert seen
    assert not any(ADDRESS.search(repr(found)) for found in seen)


class Model:
    """An object with methods that no template may call."""

    def save(self) -> str:
        """A method that Django marks."""
        return "saved"

    def reload(self) -> str:
        """A method that jinja2 marks."""
        return "reloaded"

    save.alters_data = True  # type: ignore[attr-defined]
    reload.unsafe_callable = True  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["save", "reload"])
@pytest.mark.parametrize("expression", ["x.NAME()", "x['NAME']()", "(x|attr('NAME'))()"])
def test_methods_that_are_marked_as_unsafe_are_not_called(name: str, expression: str) -> None:
    source = "{{ " + expression.replace("NAME", name) + " }}"
    with pytest.raises(ChatTemplateError, match="not safely callable") as raised:
        render_once(source, {"x": Model()}, profile="classic")
    assert raised.value.code == "CHAT_TEMPLATE_SANDBOX_VIOLATION"
    assert not ADDRESS.search(str(raised.value))


def test_a_method_that_takes_the_context_is_given_it() -> None:
    class Roles:
        @pass_context
        def first(self, context: Context) -> str:
            return str(context["messages"][0]["role"])

    source = "{{ x.first() }}"
    assert render_once(source, {**CONTEXT, "x": Roles()}, profile="classic")[0] == "user"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ messages[0].items()|list }}", "[('role', 'user'), ('content', 'hi')]"),
        ("{% set f = 'ab'.upper %}{{ f() }}{{ f is callable }}{{ f is defined }}", "ABTrueTrue"),
        ("{{ messages[0]['items']()|length }}{{ (''|attr('join'))(['a']) }}", "2a"),
        ("{% set g = [1, 2, 3]|map('string') %}{% for x in g %}{{ loop.last }}{% endfor %}{{ g|list }}",
         "FalseFalseTrue[]"),
        ("{% set g = [1, 2]|select %}{{ g|first }}{{ g|first }}{{ g is iterable }}", "12True"),
        ("{% set a, b = [2, 1]|reverse %}{{ a }}{{ b }}{{ '%s%s' % ([1, 2]|map('abs')|list)|batch(9)|first|join(',') }}", None),
        ("{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.current }}", "aba"),
        ("{% set j = joiner(',') %}{{ j() }}a{{ j() }}", "a,"),
        ("{% for x in [1] %}{{ loop.cycle('a') }}{{ loop.changed(1) }}{% endfor %}", "aTrue"),
        ("{% block x %}b{% endblock %}{{ self.x() }}", "bb"),
        ("{{ '{0.role}{1}'.format(messages[0], 2) }}{{ '{a}'.format_map({'a': 1}) }}", "user21"),
        ("{{ {'a': 1}.items is defined }}{{ {'items': 1}['items'] }}{{ {'items': 1}.items() }}", "True1dict_items([('items', 1)])"),
        ("{{ 3 - 1 }}{{ 1.5 - 1 }}", "20.5"),
        ("{% set n = namespace(f='{}!'.format) %}{{ n.f('e') }}{{ dict(self=1).self }}", "e!1"),
    ],
)  # fmt: skip
def test_the_objects_work_as_before(source: str, expected: str | None, profile: str) -> None:
    shown = told(source, profile)
    before = ImmutableSandboxedEnvironment().from_string(source)
    if expected is None:
        with pytest.raises(TypeError):
            before.render(CONTEXT)
        assert "TypeError" in shown
    else:
        assert shown == before.render(CONTEXT) == expected


KEYS = st.lists(st.text(max_size=3), unique=True, max_size=12)


@pytest.mark.parametrize("view", ["x.keys()", "x.items()"])
@given(first=KEYS, second=KEYS)
def test_keys_less_others_keep_their_order(view: str, first: list[str], second: list[str]) -> None:
    """A set would list them in the order of their hashes, which show the seed of the process."""
    shown: list[Any] = []
    context = {
        "x": dict.fromkeys(first),
        "y": second,
        "z": dict.fromkeys(second),
        "f": shown.extend,
    }
    is_items = view == "x.items()"
    other = view.replace("x", "z")
    expected = [key for key in first if key not in second]
    for source in (
        f"({view} - {other})",
        f"({view} - {other} - [])",
        f"({view}|list - {other})",
        f"({view}|map('list')|map('first') - z.keys())" if is_items else "(x.keys() - y)",
    ):
        render_once("{{ f(" + source + ") }}", context, profile="classic")
        assert [key if isinstance(key, str) else key[0] for key in shown] == expected
        shown.clear()
