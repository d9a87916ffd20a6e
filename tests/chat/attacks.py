"""Templates of attackers, by their purpose. Each must end as an error, at little cost.

The limits come from the operating system, so a few operations of each kind are enough. Short ones
are in ``data/attacks.json``, long ones are made here. The repetitions (``* 400``) are for what one
operation does not cost yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

SHORT: Mapping[str, Mapping[str, str]] = json.loads(
    (Path(__file__).parent / "data" / "attacks.json").read_text("utf-8")
)
ESCAPES = SHORT["escapes"]
"""Ways out of the sandbox."""
MUTATIONS = SHORT["mutations"]
"""Changes of what the caller passed in."""
LOOP, END = "{% for i in range(19999) %}", "{% endfor %}"


def many(template: str, count: int) -> str:
    """``template`` with the numbers below ``count`` in place of ``#``."""
    return "".join(template.replace("#", str(number)) for number in range(count))


LARGE: Mapping[str, str] = {
    "buffer-append": "{% set x %}" + LOOP * 2 + "{{ i }}" * 500 + END * 2 + "{% endset %}",
    "in-search": "{% set b='a'*3900000 %}{% set n='a'*1900000 ~ 'b' %}" + "{{ n in b }}" * 400,
    "hash-tuple": "{% set t=(1,)*99999 %}{% set d={} %}" + "{{ d[t] }}" * 400,
    "flood-data": LOOP + "x" * 200000 + END,
    "memory-ucs4": many("{% set x# = '\U0001f600' * 4000000 %}", 900),
}
"""Templates that repeat what one operation does not cost yet."""

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
    **{name: text for group in SHORT.values() for name, text in group.items()},
    **LARGE,
    **SHAPES,
}
"""All of them."""
