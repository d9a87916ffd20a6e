"""No text that a template makes has the address of an object, whatever it takes hold of."""

from __future__ import annotations

import re

import pytest

from streamdec.chat import ChatTemplate
from streamdec.errors import ChatTemplateError

VALUES = (
    *("''.upper", "''['upper']", "''|attr('upper')", "[''].append", "{}.keys", "dict.fromkeys"),
    *("''.format", "''.format_map", "''|e|attr('format')", "(1).bit_length", "1.5.is_integer"),
    *("messages[0].items", "messages.index", "range(3).index", "true.bit_length"),
    *("range", "lipsum", "raise_exception", "strftime_now", "cycler", "joiner", "namespace"),
    *("dict", "cycler('a')", "cycler('a').next", "joiner()", "namespace()", "range(2)"),
    *("namespace(a=''.upper)", "namespace(a=''.upper).a", "{'a': ''.upper}", "dict(a=''.upper)"),
    *("[''.upper, [''.lower]]", "(''.upper, 1)", "[[''.upper]]|map('first')|first"),
    *("['a']|map('upper')", "[1]|select", "[0]|reject", "[1]|reverse", "[1]|unique"),
    *("messages|selectattr('role')", "messages|rejectattr('x')", "{'a': 1}|items", "[1]|batch(1)"),
    *("[1]|slice(1)", "[[1]|map('abs')]", "[['a']]|map('map', 'upper')|first"),
    *("messages|map(attribute='items')|list", "messages|groupby('role')", "{}.items()"),
    *("messages|map(attribute='items')|map('string')|list", "''.upper is callable"),
    *("self", "self.part", "self.part()", "loop", "loop.cycle", "loop.changed", "macro_", "caller"),
    *("varargs", "missing", "missing.upper", "''.__class__", "''.upper.__self__", "''.upper._call"),
    *("''.upper.__name__", "range._call", "([1]|map('abs'))._items", "cycler('a').items"),
    *("joiner.__init__", "namespace.__init__", "''.upper.__call__", "lipsum.__globals__"),
)
TEXTS = (
    *("{{ V }}", "{{ '%r' % (V,) }}", "{{ '{} {!r}'.format(V, V) }}", "{{ raise_exception(V) }}"),
    *("{{ V|string }}", "{{ V ~ '' }}", "{{ '%s' % (V,) }}", "{{ '%s'|format(V) }}", "{{ [V] }}"),
    *("{{ V|list }}", "{{ V|pprint }}", "{{ V|upper }}", "{{ V|trim }}", "{{ V|tojson }}"),
    *("{{ {'a': V} }}", "{{ V|e }}", "{{ V|urlencode }}", "{{ V|replace('a', 'b') }}"),
    *("{{ [V]|join }}", "{{ {}[V] }}", "{{ V.nothing.more }}", "{{ V() }}", "{{ V + 1 }}"),
    *("{{ 'a' + V }}", "{{ V(1, 2, 3, x=4) }}", "{{ V|int + V }}", "{{ V|sum }}"),
    *("{{ V|dictsort }}", "{% set x = V %}{{ x }}", "{% set x %}{{ V }}{% endset %}{{ x }}"),
    "{% for x in V %}{{ x }}{% endfor %}",
)
NUM_QUICK = 4
FRAME = (
    "{%% macro macro_() %%}m{%% endmacro %%}{%% macro calls() %%}{{ caller() }}{%% endmacro %%}"
    "{%% block part %%}p{%% endblock %%}"
    "{%% for each in [1] %%}{%% call calls() %%}%s{%% endcall %%}{%% endfor %%}"
)
ADDRESS = re.compile(r"0x|\b[0-9a-fA-F]{9,}\b")


def check(profile: str, text: str) -> None:
    messages = [{"role": "user", "content": "hi"}]
    for value in VALUES:
        source = FRAME % text.replace("V", f"({value})")
        try:
            found = ChatTemplate(source, profile=profile).render(messages)
        except ChatTemplateError as error:
            found = str(error)
        assert not ADDRESS.search(found), source


@pytest.mark.parametrize("text", TEXTS[:NUM_QUICK])
def test_no_text_and_no_error_has_an_address(text: str) -> None:
    check("classic", text)


@pytest.mark.thorough
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("profile", ["classic", "hardened"])
def test_no_text_of_any_kind_has_an_address(profile: str, text: str) -> None:
    check(profile, text)


def test_what_has_no_address_does_the_same() -> None:
    source = (
        "{{ 'a'.upper() }}{% set up = 'b'.upper %}{{ up() }}{{ ['c', 'd']|map('upper')|join('-') }}"
        "{% set n = namespace(f='{}!'.format) %}{{ n.f('e') }}{% set c = cycler('x', 'y') %}"
        "{{ c.next() }}{{ c.next() }}{% set j = joiner('+') %}{{ j() }}1{{ j() }}2"
        "{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{{ loop.cycle('o', 'e') }}{% endfor %}"
        "{{ [3, 1]|reverse|list }}{{ range(2)|list }}{{ [1, 1]|unique|first }}"
        "{{ dict(self=1).self }}"
    )
    assert ChatTemplate(source).render([]) == "ABC-De!xy1+2a1o[1, 3][0, 1]11"


def test_an_isolated_template_prints_none() -> None:
    source = "{{ ''.upper }}{{ [1]|map('abs') }}{{ joiner() }}"
    found = ChatTemplate(source, isolate=True).render([])
    assert found == "<function><iterator><joiner>"
