# ruff: noqa: E501 - a template is read more easily in one line
"""Templates of attackers, by what they are after. Each must end as an error, at little cost.

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
    "pow2": "{{ 9 ** 9 ** 9 ** 9 ** 9**9**9 }}",
    "powneg": "{{ (2**4000) ** 3 }}",
    "round": "{{ 3|round(1000000000) }}",
    "round-ceil": "{{ 3|round(1000000000,'ceil') }}",
    "round-floor": "{{ 3|round(method='floor',precision=100000000) }}",
    "int-huge": "{{ ('f'*4000000)|int(base=16) }}",
    "int-dec": "{{ ('9'*4000000)|int }}",
    "float": "{{ ('9'*4000000)|float }}",
    "from_bytes": "{{ (1).from_bytes('a'.encode()*4000000,'big') }}",
    "fromhex": "{{ (1.0).fromhex('f'*4000000) }}",
}
"""Integers that take years to compute or gigabytes to hold."""

LOOPS: Mapping[str, str] = {
    "nested-range": LOOP + "{% for j in range(19999) %}{% endfor %}" + END,
    "nested-range-big": "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
    "filtered-loop": LOOP + "{% for j in range(19999) if false %}{% endfor %}" + END,
    "macro-rec": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macro-bomb": "{% macro m(n) %}{% if n %}{{ m(n-1) }}{{ m(n-1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "macro-mutual": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "caller-rec": "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{% call m() %}x{% endcall %}",
    "block-rec": "{% block x %}{{ self.x() }}{% endblock %}",
    "loop-rec": "{% for i in [1] recursive %}{{ loop([i]) }}{% endfor %}",
    "loop-rec2": "{% for i in [1,1] recursive %}{{ loop([1,1]) }}{% endfor %}",
    "buffer-append": "{% set x %}"
    + LOOP
    + LOOP.replace("for i", "for j")
    + "{{ i }}" * 500
    + END
    + END
    + "{% endset %}",
    "sort": "{{ (range(19999)|map('string')|list * 5)|sort|length }}" * 300,
    "unique": "{{ range(19999)|unique|list|length }}" * 300,
    "gen-chain": "{{ range(19999)|map('abs')|map('abs')|map('abs')|sum }}" * 300,
    "gen-select": "{{ range(19999)|select('none')|list }}" * 300,
    "minmax": "{{ range(19999)|max }}" * 400,
    "gen-exhaust": "{% set g=range(19999)|map('abs') %}{% for a in g %}{% for b in range(19999) %}{% endfor %}{% endfor %}",
    "macro-args": "{% macro m("
    + many("a#='x',", 900)[:-1]
    + ") %}{% endmacro %}"
    + LOOP
    + "{{ m() }}" * 20
    + END,
    "loop-length-gen": "{% for i in range(19999)|map('abs') %}{{ loop.length }}{% for j in range(19999) %}{{ loop.changed(j) }}{% endfor %}{% endfor %}",
}
"""Loops, macros and generators without end."""

SEARCHES: Mapping[str, str] = {
    "in-search": "{% set b='a'*3900000 %}{% set n='a'*1900000 ~ 'b' %}" + "{{ n in b }}" * 400,
    "count-search": "{% set b='a'*3900000 %}" + "{{ b.count('ab') }}" * 400,
    "cmp": "{% set a='a'*3900000 %}{% set b='a'*3900000 %}" + "{{ a == b }}" * 400,
    "cmp-list": "{% set a=['a']*99999 %}{% set b=['a']*99999 %}" + "{{ a == b }}" * 400,
    "test-eq": "{% set a=['a']*99999 %}{% set b=['a']*99999 %}" + "{{ a is eq b }}" * 400,
    "hash-tuple": "{% set t=(1,)*99999 %}{% set d={} %}" + "{{ d[t] }}" * 400,
    "isalpha": "{% set b='a'*3900000 %}" + "{{ b.isalpha() }}{{ b.isidentifier() }}" * 400,
    "startswith-tuple": "{% set t=('a'*1000000,)*9999 %}{% set b='a'*1000000 %}"
    + "{{ b.startswith(t) }}" * 300,
    "dict-views": "{% set d=dict.fromkeys(range(19999)) %}" + "{{ d.keys() - d.keys() }}" * 400,
    "hash-get": "{% set t=(1,)*99999 %}{% set d={} %}" + "{{ d.get(t) }}" * 400,
    "rfind": "{{ ('a'*3900000).rfind('ab'+'a'*1900000) }}",
    "rindex-again": LOOP + "{{ ('a'*100000).rindex('ab'+'a'*50000, 1) }}" + END,
    "rsplit": "{{ ('a'*3900000).rsplit('ab'+'a'*1900000)|length }}",
    "rsplit-keyword": "{{ ('a'*3900000).rsplit(sep='ab'+'a'*1900000)|length }}",
    "rpartition": "{{ ('a'*3900000).rpartition('ab'+'a'*1900000)|length }}",
    "rfind-bytes": "{{ ('a'*3900000).encode().rfind(('ab'+'a'*1900000).encode()) }}",
    "strip": "{{ ('a'*1900000).strip('bcdefgh'*100000 + 'a') }}",
    "rstrip-ucs2": "{{ ('\u0161'*1900000).rstrip('\u0261'*1000000 + '\u0161') }}",
    "trim": "{{ ('\u0161'*1900000)|trim('\u0261'*1000000 + '\u0161') }}",
    "trim-keyword": "{{ ('\u0161'*1900000)|trim(chars='\u0261'*1000000 + '\u0161') }}",
    "in-range": LOOP + "{% if 'a' in range(19999) %}{% endif %}" + END,
    "in-range-test": LOOP + "{% if ['a']|select('in', range(19999))|list %}{% endif %}" + END,
    "range-count": LOOP + "{{ range(19999).count('a') }}" + END,
    "in-values": "{% set d=dict.fromkeys(range(19999)) %}"
    + LOOP
    + "{% if 'a' in d.values() %}{% endif %}"
    + END,
    "equal-keys": "{% set d=dict.fromkeys(range(19999)) %}"
    + LOOP
    + "{% if d.keys() == d.keys() %}{% endif %}"
    + END,
    "list-count": "{% set s='ab,'*90000 %}{% set l=[s.split(',')] %}{% set o=s.split(',') %}"
    + LOOP
    + "{{ l.count(o) }}"
    + END,
    "tuple-index": "{% set s='ab,'*90000 %}{% set l=(s.split(','), 1) %}{% set o=s.split(',') %}"
    + LOOP
    + "{{ l.index(o) }}"
    + END,
    "loop-changed": "{% set s='ab,'*90000 %}{% set l=s.split(',') %}{% set o=s.split(',') %}"
    + LOOP
    + "{% if loop.changed(o if i else l) %}{% endif %}"
    + END,
}
"""Single operations of Python that go through large values, again and again."""

CHAINS: Mapping[str, str] = {
    "chain-map": "{% set ns=namespace(g=range(9)) %}"
    + LOOP
    + "{% set ns.g = ns.g|map('int') %}"
    + END,
    "chain-select": "{% set ns=namespace(g=range(9)) %}"
    + LOOP
    + "{% set ns.g = ns.g|select %}"
    + END
    + "{{ ns.g|first }}",
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
    "hash-fromkeys-gen": "{{ {}.fromkeys(" + SAME_HASH + "|map('abs'))|length }}" * 9,
    "hash-dict": "{{ dict(" + SAME_HASH + "|map('abs')|batch(1)|map('list')|map('batch', 2, 1)"
    "|map('first'))|length }}" * 9,
    "hash-unique": "{{ " + SAME_HASH + "|unique|list|length }}" * 9,
    "hash-unique-attribute": "{{ " + SAME_HASH + "|unique(attribute='real')|list|length }}" * 9,
    "hash-keys": "{{ ({}.keys() - " + SAME_HASH + ")|length }}" * 9,
}
"""Numbers that all have the same hash."""

ATTRIBUTES: Mapping[str, str] = {
    "path-map": "{% for x in range(19999)|map(attribute='a.'*1900000, default='b') %}{% endfor %}",
    "path-select": "{{ ['a']|selectattr('0.'*1900000 + '0')|list }}",
    "path-reject": "{{ ['a']|rejectattr('0.'*1900000 + '0', 'eq', 1)|list }}",
    "path-sum": "{{ range(19999)|sum('real.'*100000 + 'real') }}",
    "path-sort": "{{ (['a']*9999)|sort(false, false, '0,'*10000 + '0')|length }}",
    "path-unique": "{{ (['a']*9999)|unique(attribute='0.'*10000 + '0')|list|length }}",
    "path-max": "{{ (['a']*9999)|max(attribute='0.'*10000 + '0') }}",
    "path-min": "{{ (['a']*9999)|min(false, '0.'*10000 + '0') }}",
    "path-group": "{{ (['a']*9999)|groupby('0.'*10000 + '0')|length }}",
    "path-join": "{{ (['a']*9999)|join('', '0.'*10000 + '0')|length }}",
}
"""Filters that look up an attribute of each item, along a path that the template writes."""

TEXTS: Mapping[str, str] = {
    "lipsum": "{{ lipsum(n=100000) }}",
    "wordwrap": "{{ ('a' * 4000000)|wordwrap(1) }}",
    "wordwrap2": "{{ ('a ' * 2000000)|wordwrap(1, wrapstring='x'*1000) }}",
    "flood": "{% for i in range(19999) %}{{ 'a' * 100000 }}{% endfor %}",
    "flood2": "{% set x = 'a' * 4000000 %}" + LOOP + "{{ x }}" + END,
    "flood-data": LOOP + "x" * 200000 + END,
    "str-mul": "{{ 'a' * 10**10 }}",
    "str-mul300": "{{ 'a' * 300000000 }}",
    "ljust": "{{ 'a'.ljust(10**10) }}",
    "rjust": "{{ 'a'.rjust(300000000) }}",
    "center-m": "{{ 'a'.center(300000000) }}",
    "zfill": "{{ 'a'.zfill(300000000) }}",
    "center": "{{ 'a'|center(300000000) }}",
    "center-const": "{{ 'a'|center(width=300000000) }}",
    "bytes-ljust": "{{ 'a'.encode().ljust(300000000)|length }}",
    "bytes-mul": "{{ ('a'.encode() * 3000000000)|length }}",
    "to_bytes": "{{ (5).to_bytes(3000000000,'big')|length }}",
    "to_bytes-keyword": "{{ (5).to_bytes(length=3000000000,byteorder='big')|length }}",
    "expandtabs": "{{ ('\\t'*1000).expandtabs(1000000) }}",
    "expandtabs2": "{{ 'a\\t'.expandtabs(2000000000) }}",
    "concat": "{% set ns=namespace(x='aaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x|length }}",
    "plus": "{% set ns=namespace(x='aaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|length }}",
    "indent": "{{ ('\\n'*100000)|indent(1000000) }}",
    "indent-str": "{{ ('\\n'*100000)|indent('a'*1000000) }}",
    "indent900": "{{ ('\\n'*90000)|indent(900,true,true) }}",
    "replace": "{{ ('a'*1000000).replace('a','b'*1000000) }}",
    "replace-f": "{{ ('a'*1000000)|replace('a','b'*1000000) }}",
    "replace-empty": "{{ ('a'*1000000).replace('','b'*1000) }}",
    "join": "{{ ('a'*1000000).join('b'*1000000) }}",
    "join-defaults": "{% set b='a'*3900000 %}"
    "{{ ''.join(range(19999)|map(attribute='x', default=b))|length }}",
    "join-f": "{{ range(19999)|join('a'*1000000) }}",
    "join-gen": "{{ ('a'*1000000).join(range(19999)|map('string')) }}",
    "translate": "{{ ('a'*1000000).translate({97:'b'*1000000}) }}",
    "maketrans": "{{ ('a').maketrans({'a':'b'*1000000}) }}{{ ('a'*1000000).translate('a'.maketrans({'a':'b'*1000000}))|length }}",
    "set-block-bomb": "{% set x %}aaaaaaaaaa{% endset %}"
    + "".join("{% set x %}{{x}}{{x}}{{x}}{{x}}{% endset %}" for _ in range(30))
    + "{{ x|length }}",
    "set-block-in": "{% set x %}" + LOOP + "x" * 100000 + END + "{% endset %}{{ x|length }}",
    "filter-block": "{% filter upper %}" + LOOP + "x" * 100000 + END + "{% endfilter %}",
    "escape-growth": "{% autoescape true %}{% set x='\"'*4000000 %}{{ x }}{{ x ~ x }}{{ x|e|e|e }}{% endautoescape %}",
    "forceescape": "{{ ('\"'*4000000)" + "|forceescape" * 60 + "|length }}",
    "urlencode": "{{ ('%'*1000000)" + "|urlencode" * 60 + "|length }}",
    "slices": "{% set b='a'*3900000 %}{% set ns=namespace() %}" + many("{% set x# = b[1:] %}", 900),
    "trim-copies": "{% set b=' '+'a'*3900000 %}" + many("{% set x# = b|trim %}", 900),
    "strftime": "{{ strftime_now('%Y'*1000000) }}",
    "strftime-w": "{{ strftime_now('%999999999Y') }}",
    "strftime-w2": "{{ strftime_now('%0100000d'*100) }}",
    "str-list": "{% set l=['\\x00'*1000]*4000 %}" + "{{ l }}" * 2000,
    "str-list-buffer": "{% set l=['\\x00'*1000]*4000 %}{% set x %}"
    + "{{ l }}" * 2000
    + "{% endset %}",
    "str-doubling-join": "{% set ns=namespace(x='aaaaaaaaaa') %}{% for i in range(60) %}{% set ns.x = [ns.x,ns.x]|join %}{% endfor %}",
    "macro-doubling": "{% macro m(x) %}{{x}}{{x}}{% endmacro %}{% set ns=namespace(x='a'*10) %}{% for i in range(60) %}{% set ns.x=m(ns.x) %}{% endfor %}",
    "encode-utf32": "{{ ('a'*4000000).encode('utf-32').decode('latin-1').encode('utf-32').decode('latin-1').encode('utf-32')|length }}",
    "zlib": "{{ ('a'*100).encode('latin-1').decode('zlib') }}",
    "uni-escape": "{{ ('\u4e00'*4000000).encode('unicode-escape').decode('latin-1').encode('utf-32')|length }}",
    "xmlcharref": "{{ ('\u4e00'*4000000).encode('ascii','xmlcharrefreplace')|length }}",
    "punycode": "{% set ns=namespace(s='') %}{% for i in range(9000) %}"
    "{% set ns.s = ns.s ~ '%c'|format(20000 + i) %}{% endfor %}{{ ns.s.encode('punycode')|length }}",
    "punycode-back": "{{ ('a'*300000 + '-' + '99a'*100000).encode().decode(encoding='PunyCode')|length }}",
    "namereplace": "{{ ('\ufdfa'*4000000).encode('ascii','namereplace')|length }}",
}
"""Texts that grow."""

FORMATS: Mapping[str, str] = {
    "fmt-width": "{{ '{:>3000000000}'.format('a') }}",
    "fmt-nested": "{{ '{:>{}}'.format('a', 3000000000) }}",
    "fmt-map": "{{ '{a:>3000000000}'.format_map({'a':1}) }}",
    "fmt-prec": "{{ '{:.999999999f}'.format(1.5) }}",
    "fmt-many": "{% set b='a'*1000000 %}{{ ('{0}'*100000).format(b) }}",
    "fmt-r": "{% set b='\\x00'*1000000 %}{{ ('{0!r}'*1000).format(b) }}",
    "markup-mul": "{{ ('a'|safe) * 3000000000 }}",
    "markup-format": "{{ ('{:>3000000000}'|safe).format(1) }}",
    "markup-percent": "{{ ('%3000000000s'|safe) % 'a' }}",
    "markup-join": "{{ (('<'*1000000)|safe).join(['<'*9]*99999) }}",
    "markup-pad": "{{ ('a'|safe).ljust(3000000000) }}",
    "format-item": "{{ '{0[0]:>{0[1]}}'.format(['a',99999999]) }}",
    "pct-width": "{{ '%3000000000s' % 'a' }}",
    "pct-star": "{{ '%*s' % (3000000000,'a') }}",
    "pct-prec": "{{ '%.3000000000d' % 5 }}",
    "pct-prec2": "{{ '%.999999999f' % 1.5 }}",
    "pct-many": "{% set b='a'*1000000 %}{{ ('%(x)s'*100000) % {'x': b} }}",
    "pct-filter": "{{ '%300000000s'|format('a') }}",
    "pct-map": "{{ '%(a)300000000s' % {'a':1} }}",
    "pct-nest": "{{ '%((a))300000000s' % {'(a)':1} }}",
    "pct-lmod": "{{ '%l300000000s' % 1 }}",
    "pct-bytes": "{{ (('%300000000s'.encode()) % ('a'.encode(),))|length }}",
}
"""Widths in formats."""

LISTS: Mapping[str, str] = {
    "memory-ucs4": many("{% set x# = '\U0001f600' * 4000000 %}", 900),
    "memory-recursion": "{% macro m(n, s) %}{{ m(n+1, s ~ n) }}{% endmacro %}{{ m(0, '\U0001f600'*4000000) }}",
    "memory-split": many("{% set x# = ('\U0001f600,' * 90000).split(',') %}", 900),
    "list-mul": "{{ [1] * 10**9 }}",
    "list-mul2": "{{ ([1,2] * 50000) * 50000 }}",
    "laughs-list": "{% set ns=namespace(x=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    "laughs-tuple-hash": "{% set ns=namespace(x=('a',)) %}{% for i in range(60) %}{% set ns.x = (ns.x, ns.x) %}{% endfor %}{{ {ns.x: 1}|length }}",
    "laughs-items": "{% set ns=namespace(x='a') %}{% for i in range(60) %}{% set ns.x = {'a':ns.x,'b':ns.x}.items() %}{% endfor %}{{ ns.x }}",
    "laughs-values": "{% set ns=namespace(x='a') %}{% for i in range(60) %}{% set ns.x = {'a':ns.x,'b':ns.x}.values() %}{% endfor %}{{ ns.x == ns.x }}",
    "laughs-proxy": "{% set ns=namespace(x='a') %}{% for i in range(60) %}{% set ns.x = {'a':ns.x,'b':ns.x}.keys().mapping %}{% endfor %}{{ ns.x }}",
    "laughs-dict-json": "{% set ns=namespace(x={'a':1}) %}{% for i in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x|tojson }}",
    "laughs-eq": "{% set ns=namespace(x=['a'],y=['a']) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
    "laughs-macro-varargs": "{% macro m() %}{% if varargs|length > 0 and ns.n < 40 %}{% set ns.n = ns.n + 1 %}{{ m(varargs, varargs) }}{% else %}{{ varargs }}{% endif %}{% endmacro %}{% set ns=namespace(n=0) %}{{ m(1,2) }}",
    "laughs-cycler": "{% set ns=namespace(x='a') %}{% for i in range(60) %}{% set ns.x = cycler(ns.x, ns.x).items %}{% endfor %}{{ ns.x }}",
    "laughs-dictcall": "{% set ns=namespace(x='a') %}{% for i in range(60) %}{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x }}",
    "laughs-map": "{% set b = 'a'*4000000 %}{{ range(19999)|map('default', b, true)|list|string|length }}",
    "laughs-mapjoin": "{% set b = 'a'*4000000 %}{{ 'abcdefghijklmnop'|list|map('replace','a',b)|join }}",
    "laughs-fromkeys": "{% set b = 'a'*400000 %}{{ dict.fromkeys(range(19999), b) }}",
    "laughs-fromkeys2": "{% set b = 'a'*400000 %}{{ {}.fromkeys(range(19999), b) }}",
    "laughs-ns": "{% set a=namespace(x='a'*1000) %}{% set ns=namespace(a=a) %}{% for i in range(60) %}{% set ns.a = namespace(p=ns.a, q=ns.a) %}{% endfor %}{{ ns }}",
    "deep-list": "{% set ns=namespace(x=[]) %}{% for i in range(19999) %}{% set ns.x=[ns.x] %}{% endfor %}{{ ns.x }}",
    "deep-tuple-hash": "{% set ns=namespace(x=()) %}{% for k in range(10) %}{% for i in range(19999) %}{% set ns.x=(ns.x,) %}{% endfor %}{% endfor %}{{ {ns.x: 1} }}",
    "deep-varargs": "{% macro m() %}{% set ns.x=varargs %}{% endmacro %}{% set ns=namespace(x=()) %}{% for k in range(10) %}{% for i in range(19999) %}{{ m(ns.x) }}{% endfor %}{% endfor %}{{ {ns.x: 1} }}",
    "deep-kwargs": "{% macro m() %}{% set ns.x=kwargs %}{% endmacro %}{% set ns=namespace(x=1) %}{% for k in range(10) %}{% for i in range(19999) %}{{ m(a=ns.x) }}{% endfor %}{% endfor %}{{ ns.x|tojson }}",
    "json-indent": "{{ [1,2,3]|tojson(indent=1000000000) }}",
    "json-indent-str": "{{ [1,2]|tojson(indent='a'*3000000) }}",
    "json-sep": "{{ ([1]*50000)|tojson(separators=('a'*400000,':')) }}",
    "json-indent-deep": "{% set ns=namespace(x=[]) %}{% for i in range(90) %}{% set ns.x=[ns.x] %}{% endfor %}{{ [ns.x]|batch(1)|list|tojson(indent=900)|length }}{{ ([ns.x]*900)|tojson(indent=999)|length }}",
    "split-chars": "{{ ('a,'*2000000).split(',')|length }}",
    "list-chars": "{{ ('\u4e00'*4000000)|list|length }}",
    "split-ws": "{{ ('a '*2000000).split()|length }}",
    "splitlines": "{{ ('a\\n'*2000000).splitlines()|length }}",
    "batch-fill": "{{ [1]|batch(1000000000,'x')|list|length }}",
    "const-lists": "{% set ns=namespace(x=[]) %}{% for i in range(19999) %}{% set ns.x = ns.x + ["
    + "[]," * 4000
    + "] %}{% endfor %}",
    "slice-many": "{{ [1]|slice(1000000000)|list|length }}",
    "sum-lists": "{% set l=[[1]*1000]*3000 %}{{ l|sum(start=[])|length }}",
    "slices-list": "{% set b=[1]*99999 %}" + many("{% set x# = b[1:] %}", 900) * 8,
    "star-args": "{% macro m() %}{{ varargs|length }}{% endmacro %}{{ m(*('a'*4000000)) }}",
    "star-gen": "{% macro m() %}{{ varargs|length }}{% endmacro %}{{ m(*range(19999)|map('string')) }}"
    * 300,
    "star-range": "{{ cycler(*range(100000)).next() }}" * 400,
    "unpack-str": "{% set a,b = 'a'*4000000 %}",
    "dict-many": "{% set ns=namespace(x={}) %}{% for i in range(19999) %}{% set ns.x = dict(ns.x, **{i|string: 'a'*1000}) %}{% endfor %}",
    "items-held": "{% set ns=namespace(x=[]) %}{% for i in range(19999) %}{% set ns.x = ns.x + ['a'*100000 ~ i] %}{% endfor %}",
    "ns-attrs-held": "{% set ns=namespace() %}{% for i in range(19999) %}{% set ns.x = {'p': ns.x, 's': 'a'*100000 ~ i} %}{% endfor %}",
}
"""Lists and dicts that grow, or hold themselves many times."""

SLOW: Mapping[str, str] = {
    "striptags": "{{ ('<!---->'*500000)|striptags|length }}",
    "urlize": "{{ ('a@a.a'*500000)|urlize|length }}",
    "urlize2": "{{ ('http://a.bc '*200000)|urlize(rel='x'*100000)|length }}",
    "title": "{{ ('a '*2000000)|title|length }}",
    "pprint": "{{ ([[1]*300]*300)|pprint|length }}",
    "xmlattr": "{{ {'a':'\"'*4000000}|xmlattr|length }}",
    "wordcount": "{{ ('a '*2000000)|wordcount }}",
    "truncate": "{{ ('a'*4000000)|truncate(3,true,'x'*4000000)|length }}",
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
    "lists": "{{ " + "[" * 100000 + " }}",
    "nots": "{{ " + "not " * 60000 + "1 }}",
    "negs": "{{ " + "-" * 200000 + "1 }}",
    "ifs": "{% if 1 %}" * 20000 + "{% endif %}" * 2000,
    "fors": "{% for i in [1] %}" * 30 + "x" + "{% endfor %}" * 30,
    "fors200": "{% for i in [1] %}" * 200 + "x" + "{% endfor %}" * 200,
    "ternary": "{{ " + "1 if 0 else " * 20000 + "2 }}",
    "plus-chain": "{{ 1" + "+1" * 6000 + " }}",
    "attr-chain": "{{ a" + ".a" * 5000 + " }}",
    "filter-chain": "{{ a" + "|abs" * 5000 + " }}",
    "call-chain": "{{ a" + "()" * 5000 + " }}",
    "item-chain": "{{ a" + "[0]" * 5000 + " }}",
    "and-chain": "{{ 1" + " and 1" * 5000 + " }}",
    "pow-chain": "{{ 1" + "**1" * 5000 + " }}",
    "elifs": "{% if 0 %}" + "{% elif 0 %}" * 8000 + "{% endif %}",
    "tests-chain": "{{ 1" + " is eq 1" * 4000 + " }}",
    "else-ifs": "{% if 0 %}{% else %}" * 10000,
    "dots": "{{ " + "{'a':" * 60000 + " }}",
    "sets-nested": "{% set x %}" * 20000,
    "macros-nested": "{% macro a() %}" * 15000,
    "comments": "{#" * 100_000,
    "quotes": "{{ '" + "\\'" * 100000 + " }}",
    "raw": "{% raw %}" * 20000,
    "names": many("{% set v# = 1 %}{% if v# %}{% endif %}", 6000),
    "too-long": "x" * 300_000,
    "many-ifs": "{% if a %}{% set b=1 %}{% endif %}" * 6000,
    "big-int": "{{ 0x" + "f" * 200000 + " }}",
    "big-dec": "{{ " + "9" * 200000 + " }}",
    "unterminated": "{% " + "a " * 40000,
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
