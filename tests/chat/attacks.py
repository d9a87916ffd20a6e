# ruff: noqa: E501 - a template is read more easily in one line
"""Templates of attackers, by their purpose. Each must end as an error, at little cost.

The limits come from the operating system, so a few operations of each kind are enough.

The repetitions (``* 400``) are for what one operation does not cost yet.
"""

from __future__ import annotations

from collections.abc import Mapping

LOOP, END = "{% for i in range(19999) %}", "{% endfor %}"


def many(template: str, count: int) -> str:
    """``template`` with the numbers below ``count`` in place of ``#``."""
    return "".join(template.replace("#", str(number)) for number in range(count))


NUMBERS: Mapping[str, str] = {
    "pow": "{{ 9 ** (9 ** 8) }}",
    "powneg": "{{ (2**4000) ** 3 }}",
    "from_bytes": "{{ (1).from_bytes('a'.encode()*4000000,'big') }}",
}
"""Integers that take years to compute or gigabytes to hold."""

LOOPS: Mapping[str, str] = {
    "nested-range": LOOP + "{% for j in range(19999) %}{% endfor %}" + END,
    "macro-rec": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macro-bomb": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "block-rec": "{% block x %}{{ self.x() }}{% endblock %}",
    "buffer-append": "{% set x %}"
    + LOOP
    + LOOP.replace("for i", "for j")
    + "{{ i }}" * 500
    + END
    + END
    + "{% endset %}",
    "gen-exhaust": "{% set g=range(19999)|map('abs') %}{% for a in g %}{% for b in range(19999) %}{% endfor %}{% endfor %}",
}
"""Loops, macros and generators without end."""

SEARCHES: Mapping[str, str] = {
    "in-search": "{% set b='a'*3900000 %}{% set n='a'*1900000 ~ 'b' %}" + "{{ n in b }}" * 400,
    "hash-tuple": "{% set t=(1,)*99999 %}{% set d={} %}" + "{{ d[t] }}" * 400,
    "loop-changed": "{% set s='ab,'*90000 %}{% set l=s.split(',') %}{% set o=s.split(',') %}"
    + LOOP
    + "{% if loop.changed(o if i else l) %}{% endif %}"
    + END,
}
"""Single operations of Python that go through large values, again and again."""

CHAINS: Mapping[str, str] = {
    "chain-mixed": "{% set ns=namespace(g=range(9)) %}"
    + LOOP
    + "{% set ns.g = ns.g|unique|map('int')|batch(1)|rejectattr('x')|map('first') %}"
    + END
    + "{{ ns.g|list }}",
}
"""Iterators that read each other."""

SAME_HASH = f"range(0, 19999 * {2**61 - 1}, {2**61 - 1})"
HASHES: Mapping[str, str] = {
    "hash-fromkeys": "{{ dict.fromkeys(" + SAME_HASH + ")|length }}" * 9,
}
"""Numbers that all have the same hash."""

ATTRIBUTES: Mapping[str, str] = {
    "path-map": "{% for x in range(19999)|map(attribute='a.'*1900000, default='b') %}{% endfor %}",
}
"""Filters that look up an attribute of each item, along a path that the template writes."""

TEXTS: Mapping[str, str] = {
    "lipsum": "{{ lipsum(n=100000) }}",
    "wordwrap2": "{{ ('a ' * 2000000)|wordwrap(1, wrapstring='x'*1000) }}",
    "flood": "{% for i in range(19999) %}{{ 'a' * 100000 }}{% endfor %}",
    "flood2": "{% set x = 'a' * 4000000 %}" + LOOP + "{{ x }}" + END,
    "flood-data": LOOP + "x" * 200000 + END,
    "str-mul": "{{ 'a' * 10**10 }}",
    "expandtabs2": "{{ 'a\\t'.expandtabs(2000000000) }}",
    "replace": "{{ ('a'*1000000).replace('a','b'*1000000) }}",
    "escape-growth": "{% autoescape true %}{% set x='\"'*4000000 %}{{ x }}{{ x ~ x }}{{ x|e|e|e }}{% endautoescape %}",
    "strftime": "{{ strftime_now('%Y'*1000000) }}",
    "punycode": "{% set ns=namespace(s='') %}{% for i in range(9000) %}"
    "{% set ns.s = ns.s ~ '%c'|format(20000 + i) %}{% endfor %}{{ ns.s.encode('punycode')|length }}",
}
"""Texts that grow."""

FORMATS: Mapping[str, str] = {
    "fmt-width": "{{ '{:>3000000000}'.format('a') }}",
    "markup-mul": "{{ ('a'|safe) * 3000000000 }}",
    "pct-prec2": "{{ '%.999999999f' % 1.5 }}",
}
"""Widths in formats."""

LISTS: Mapping[str, str] = {
    "memory-ucs4": many("{% set x# = '\U0001f600' * 4000000 %}", 900),
    "list-mul": "{{ [1] * 10**9 }}",
    "laughs-list": "{% set ns=namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "laughs-ns": "{% set a=namespace(x='a'*1000) %}{% set ns=namespace(a=a) %}{% for i in range(60) %}{% set ns.a = namespace(p=ns.a, q=ns.a) %}{% endfor %}{{ ns }}",
    "deep-list": "{% set ns=namespace(x=[]) %}{% for i in range(19999) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x }}",
    "json-indent": "{{ [1,2,3]|tojson(indent=1000000000) }}",
    "batch-fill": "{{ [1]|batch(1000000000,'x')|list|length }}",
    "sum-lists": "{% set l=[[1]*1000]*3000 %}{{ l|sum(start=[])|length }}",
}
"""Lists and dicts that grow, or hold themselves many times."""

SLOW: Mapping[str, str] = {
    "striptags": "{{ ('<!---->'*500000)|striptags|length }}",
    "pprint": "{{ ([[1]*300]*300)|pprint|length }}",
}
"""Filters that take long."""

ESCAPES: Mapping[str, str] = {
    "attr-class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "attr-filter": "{{ (''|attr('__class__')).x }}",
    "attr-item": "{{ ''['__class__']['__mro__'] }}",
    "globals": "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "joiner-globals": "{{ joiner.__init__.__globals__['os'] }}",
    "namespace-globals": "{{ namespace.__init__.__globals__['x'] }}",
    "self-globals": "{{ self.__init__.__globals__ .x}}",
    "fmt-attr": "{{ '{0.__class__.__mro__}'.format('') }}",
    "fmt-attr2": "{{ '{a.__init__.__globals__}'.format_map({'a': cycler}) }}",
    "fmt-attr3": "{% set f='{0.__class__}'.format %}{{ f('').x }}{{ ['']|map(attribute='__class__')|first|attr('x') }}{{ ''.__class__.x }}",
    "map-attr": "{{ ([''] | map(attribute='__class__')|first).x }}",
    "raise-globals": "{{ raise_exception.__globals__.x }}",
    "range-globals": "{{ range.__globals__.x }}{{ range.__wrapped__.__globals__.x }}",
    "strftime-globals": "{{ strftime_now.__wrapped__.__closure__.x }}",
    "loop-globals": "{% for i in [1] %}{{ loop.__init__.__globals__.x }}{{ loop._iterator.x }}{% endfor %}",
    "macro-globals": "{% macro m() %}{% endmacro %}{{ m._func.__globals__.x }}",
    "gen-frame": "{{ ([1]|map('abs')).gi_frame.f_back.x }}",
    "context": "{{ self._TemplateReference__context.x }}",
    "mro": "{{ dict.mro().x }}",
    "undefined": "{{ nope.__class__.x }}",
    "class-item": "{% set ns=namespace(x=dict) %}{% for i in range(60) %}{% set ns.x = dict[ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "env": "{{ lipsum.__globals__.x }}{{ url_for.__globals__.x }}",
}
"""Ways out of the sandbox."""

MUTATIONS: Mapping[str, str] = {
    "mutate-append": "{{ messages.append(1) }}",
    "mutate-pop": "{{ messages.pop() }}",
    "mutate-clear": "{{ messages[0].clear() }}",
    "mutate-update": "{{ messages[0].update({'a':1}) }}",
    "mutate-setdefault": "{{ messages[0].setdefault('a',1) }}",
    "mutate-popitem": "{{ messages[0].popitem() }}",
    "mutate-attr": "{{ (messages|attr('append'))(1) }}",
    "mutate-map": "{% set x = messages|map(attribute='clear')|first %}{{ x() }}",
    "mutate-set": "{% set messages.x = 1 %}",
    "mutate-sort": "{{ messages.sort() }}",
    "mutate-unbound": "{{ dict.update(messages[0], {'a':1}) }}",
    "mutate-laughs": "{% set d={} %}{% set ns=namespace(x=d) %}{% for i in range(15) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ dict.update(d, {'a': 'a'*1000000}) }}{{ ns.x }}",
    "mutate-unbound-pop": "{{ dict.pop(messages[0], 'role') }}",
    "mutate-unbound-keyword": "{% set f=dict|attr('update') %}{{ f(*messages, a=1) }}",
    "mutate-alias": "{{ dict['x'].setdefault(messages[0], 'a', 1) }}",
    "mutate-alias-call": "{% for f in [dict]|map(attribute='x') %}{{ f.update(messages[0], a=1) }}{% endfor %}",
    "mutate-call": "{% call dict.clear(messages[0]) %}{% endcall %}",
    "mutate-fmt": "{{ '{0.clear}'.format(messages[0]) }}{{ messages.reverse() }}",
}
"""Changes of what the caller passed in."""

LOADS: Mapping[str, str] = {
    "include": "{% include 'x' %}",
    "import": "{% import 'x' as y %}",
    "extends": "{% extends 'x' %}",
    "from": "{% from 'x' import y %}",
    "include-obj": "{% include self %}",
    "include-list": "{% include ['/etc/passwd','x'] %}",
}
"""Other templates."""

SHAPES: Mapping[str, str] = {
    "parens": "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
    "parens-max": "{{ " + "(" * 130000,
    "nots": "{{ " + "not " * 60000 + "1 }}",
    "ifs": "{% if 1 %}" * 20000 + "{% endif %}" * 2000,
    "ternary": "{{ " + "1 if 0 else " * 20000 + "2 }}",
    "plus-chain": "{{ 1" + "+1" * 6000 + " }}",
    "attr-chain": "{{ a" + ".a" * 5000 + " }}",
    "elifs": "{% if 0 %}" + "{% elif 0 %}" * 8000 + "{% endif %}",
    "sets-nested": "{% set x %}" * 20000,
    "comments": "{#" * 100_000,
    "raw": "{% raw %}" * 20000,
    "names": many("{% set v# = 1 %}{% if v# %}{% endif %}", 6000),
    "too-long": "x" * 300_000,
    "many-ifs": "{% if a %}{% set b=1 %}{% endif %}" * 6000,
    "big-int": "{{ 0x" + "f" * 200000 + " }}",
    "deep-loops-names": many("{% for v# in [1] %}", 18)
    + many("{{ v# }}", 18) * 1050
    + "{% endfor %}" * 18,
    "dict-nest-call": "{{ dict(" + "a=dict(" * 200 + ")" * 200 + ") }}",
}
"""Templates that are hard to read or to compile."""

ATTACKS: Mapping[str, str] = {
    **NUMBERS,
    **LOOPS,
    **SEARCHES,
    **CHAINS,
    **HASHES,
    **ATTRIBUTES,
    **TEXTS,
    **FORMATS,
    **LISTS,
    **SLOW,
    **ESCAPES,
    **MUTATIONS,
    **LOADS,
    **SHAPES,
}
"""All of them."""
