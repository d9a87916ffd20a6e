# ruff: noqa: SIM905 - words in a row are read more easily
"""Hostile templates: each ends as an error at little cost, and what is around it is unharmed."""

from __future__ import annotations

import dataclasses
import gc
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.exceptions import SecurityError

from streamdec.chat import _child
from streamdec.chat._child import ChildLimits, ChildPool, render_in_child
from streamdec.chat._guard import error_code, guarded_environment, request_kwargs
from streamdec.chat._meter import ITEM, LIMITS, Limits
from streamdec.chat._static_check import StaticLimits, check_template
from streamdec.chat.environment import PROFILES, make_environment
from streamdec.chat.rendering import compile_template, render_compiled, render_once
from streamdec.errors import ChatTemplateError
from tests.chat import attacks

ROOT = Path(__file__).resolve().parents[2]
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
CONTEXT: dict[str, Any] = {"messages": MESSAGES, "tools": None}
RESOURCE_LIMIT = "CHAT_TEMPLATE_RESOURCE_LIMIT"
SANDBOX_VIOLATION = "CHAT_TEMPLATE_SANDBOX_VIOLATION"

AT_FULL_LIMITS = (
    "pow pow2 str-mul300 center-const nested-range macro-bomb buffer-append flood2 flood-data "
    "laughs-eq laughs-tuple-hash in-search forceescape parens-max"
).split()
"""Attacks of each kind that are tried with the limits that users have; the others with a 64th of
the work, as it is the same rule that ends them."""
OTHERWISE_ENDED = frozenset(
    ("lipsum", "pct-lmod", "unpack-str", "zlib", "comments", "quotes", "raw", "big-dec")
)
"""Attacks that the language itself refuses: they are no templates, or name what there is not."""
COSTLY = (
    frozenset(attacks.ATTACKS)
    - OTHERWISE_ENDED
    - {name for group in (attacks.ESCAPES, attacks.MUTATIONS, attacks.LOADS) for name in group}
)
NO_GUARD = Limits(
    static=StaticLimits(nodes=1 << 40),
    work=1 << 60,
    value=1 << 60,
    output=1 << 60,
    items=1 << 60,
    range=1 << 60,
    int_bits=1 << 60,
    width=1 << 60,
    seconds=1e9,
)
"""As if the guard had holes: what is left is the child process."""


# --- in this process ------------------------------------------------------------------------------


def attacked(names: list[str], **limits: int) -> dict[str, dict[str, Any]]:
    """How the attacks ended, from a process of their own."""
    asked = json.dumps({"names": names, "limits": limits})
    run = subprocess.run(
        [sys.executable, "-m", "tests.chat.attack_runner"],
        input=asked,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
        timeout=300,
    )
    rows = [json.loads(line) for line in run.stdout.splitlines()]
    return {row["name"]: row for row in rows}


@pytest.fixture(scope="module")
def ended() -> dict[str, dict[str, Any]]:
    """All attacks: those of AT_FULL_LIMITS at the limits of users, the others at less work."""
    others = [name for name in attacks.ATTACKS if name not in AT_FULL_LIMITS]
    with ThreadPoolExecutor(2) as threads:
        full = threads.submit(attacked, list(AT_FULL_LIMITS))
        return attacked(others, work=LIMITS.work // 64) | full.result()


@pytest.mark.parametrize("name", attacks.ATTACKS)
def test_an_attack_ends_as_an_error_at_little_cost(
    ended: dict[str, dict[str, Any]], name: str
) -> None:
    """The bounds are those of the page, with a margin for a machine that does other things."""
    end = ended[name]
    assert end["error"] is not None, "it rendered"
    assert end["code"] != "none of ours", end["error"]
    assert end["unchanged"]
    assert end["seconds"] < 10
    assert end["megabytes"] < 400
    if name in COSTLY:
        assert end["code"] == RESOURCE_LIMIT, end["error"]


@pytest.mark.parametrize("name", [*attacks.ESCAPES, *attacks.MUTATIONS])
def test_what_the_sandbox_refuses_is_told_as_that(
    ended: dict[str, dict[str, Any]], name: str
) -> None:
    if name not in ("env", "mutate-set"):  # these name what there is not
        assert ended[name]["code"] == SANDBOX_VIOLATION


def test_the_recursion_limit_of_the_program_does_not_matter() -> None:
    """A program with a high limit would otherwise end by a crash of the C stack."""
    program = """
import sys
sys.setrecursionlimit(10**7)
from streamdec.chat._guard import guarded_environment
from streamdec.chat.environment import make_environment
from streamdec.errors import ChatTemplateError
from tests.chat.attacks import ATTACKS
environment = guarded_environment(make_environment("classic"))
for name in sys.argv[1:]:
    try:
        environment.from_string(ATTACKS[name]).render(messages=[])
    except ChatTemplateError as error:
        print(name, error.code)
"""
    names = ["parens", "parens-max", "nots", "negs", "ternary", "ifs", "plus-chain", "call-chain"]
    names += ["macro-rec", "block-rec", "loop-rec", "caller-rec", "deep-tuple-hash", "deep-varargs"]
    run = subprocess.run(
        [sys.executable, "-c", program, *names],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert run.stdout.split("\n") == [f"{name} {RESOURCE_LIMIT}" for name in names] + [""], (
        run.stderr
    )


# --- honest templates -----------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
ATOMS = st.sampled_from(
    "x y messages messages[0].content messages[-1]['role'] 'a' \"b\\n\" 3 0 -1 2.5 none true [] {} "
    "x.a x['a'] x[0] y[1:] y[::-1] ns.n loop.index [x,y] (x,1) {'k':x} range(3) nope".split(" ")
)
FILTERS = (
    "abs batch(2)|list capitalize default('d') dictsort e first float format(1) groupby('a')|list "
    "indent(2,true) int items|list join(',') last length list lower map('string')|list max min "
    "pprint reject('none')|list replace('a','bc') reverse|list|string round select|list "
    "slice(2)|list sort string striptags sum title tojson tojson(indent=2) trim truncate(3) "
    "unique|list upper urlencode wordcount wordwrap(3) xmlattr center(9) forceescape safe"
).split(" ")
METHODS = (
    "upper() strip() split() split('a') replace('a','b') center(9) ljust(9,'-') zfill(7) "
    "join(['p','q']) format(x) splitlines() expandtabs(4) partition('a') startswith('a') "
    "items()|list get('a') title() encode()|length count('a') rsplit('a',1) translate({97:'z'}) "
    "keys()|list"
).split(" ")


def expressions(depth: int = 2) -> st.SearchStrategy[str]:
    if not depth:
        return ATOMS
    inner = expressions(depth - 1)
    return st.one_of(
        ATOMS,
        st.tuples(inner, st.sampled_from(FILTERS)).map(lambda two: f"({two[0]})|{two[1]}"),
        st.tuples(inner, st.sampled_from(METHODS)).map(lambda two: f"({two[0]}).{two[1]}"),
        st.tuples(
            inner,
            st.sampled_from("+ - * / // % ** ~ == != < >= in and or is".split()),
            inner,
        ).map(lambda three: f"({three[0]}) {three[1]} ({three[2]})".replace("is (", "is eq (")),
        st.tuples(inner, inner, inner).map("({0[0]} if {0[1]} else {0[2]})".format),
    )


STATEMENTS = st.recursive(
    st.one_of(expressions().map(lambda e: "{{ " + e + " }}"), TEXTS.filter(lambda t: "{" not in t)),
    lambda inner: st.one_of(
        st.tuples(expressions(1), inner).map(
            lambda two: "{% for x in " + two[0] + " %}" + two[1] + "{{ loop.last }}{% endfor %}"
        ),
        st.tuples(expressions(1), inner, inner).map(
            lambda three: (
                "{% if " + three[0] + " %}" + three[1] + "{% else %}" + three[2] + "{% endif %}"
            )
        ),
        st.tuples(inner, expressions(1)).map(
            lambda two: "{% macro m(x) %}" + two[0] + "{% endmacro %}{{ m(" + two[1] + ") }}"
        ),
        st.tuples(inner).map(lambda one: "{% set y %}" + one[0] + "{% endset %}{{ y }}"),
        expressions(1).map(lambda e: "{% set ns.n = " + e + " %}{{ ns.n }}"),
        st.tuples(inner, inner).map("".join),
        inner.map(lambda one: "{% generation %}" + one + "{% endgeneration %}"),
        inner.map(lambda one: "{% autoescape true %}" + one + "{% endautoescape %}"),
        inner.map(lambda one: "{% filter upper %}" + one + "{% endfilter %}"),
    ),
    max_leaves=5,
)
NOW = datetime(2026, 3, 5, 14, 7, 9)  # noqa: DTZ001 - templates tell local time
PLAIN: dict[str, Any] = {profile: make_environment(profile, now=NOW) for profile in PROFILES}
GUARDED: dict[str, Any] = {profile: guarded_environment(PLAIN[profile]) for profile in PROFILES}


def outcome(environment: Any, template: str, context: dict[str, Any]) -> object:
    try:
        return render_once(template, context, profile="", environment=environment)
    except ChatTemplateError as error:
        return re.sub(r" at 0x\w+", "", str(error))


@settings(max_examples=200, deadline=None)
@given(STATEMENTS, VALUES, VALUES, st.sampled_from(PROFILES))
def test_an_honest_template_renders_as_without_the_guard(
    statements: str, x: object, y: object, profile: str
) -> None:
    """The same text and spans, or the same error, for whatever a template may be written of."""
    template = "{% set ns = namespace(n=1) %}" + statements
    context = {"messages": MESSAGES, "x": x, "y": y}
    plain, guarded = (outcome(each[profile], template, context) for each in (PLAIN, GUARDED))
    if isinstance(guarded, tuple) and " at 0x" in guarded[0]:
        return  # a function or a generator was written out, with its address
    assert guarded == plain


class _Texts(dict[str, Any]):
    """A dict of a caller's own kind."""

    def get(self, key: str, default: Any = None) -> Any:
        return f"its own {key}"


@pytest.mark.parametrize("owner", ["d", "own", "{'a': 1}"])
@pytest.mark.parametrize(
    "expression",
    [
        *("D.get('a')", "D.get('z', 5)", "D.get()", "D.get('a', d=1)", "D.get(['a'])"),
        *("D.get(*['a'])", "D.get(**{'a': 1})", "D.get('a', loop=1)", "D['get']('a')"),
        *("D.items() | list", "D.keys(1)", "D.get.__self__", "D.pop('a')", "D['pop']"),
        *("D['a']", "D['z']", "D[['a']]", "D['items']() | list", "D['__class__']"),
    ],
)
def test_a_dict_is_asked_as_without_the_guard(owner: str, expression: str) -> None:
    """In a loop and in a call block too, where jinja2 passes more than is written."""
    asked = expression.replace("D", owner)
    context = {"d": {"a": 1, "keys": 2}, "own": _Texts(a=1)}
    for template in (
        "{{ " + asked + " }}",
        "{% for i in [1] %}{% set j = i %}{{ " + asked + " }}{% endfor %}",
        "{% call " + asked + " %}x{% endcall %}" if asked.endswith(")") else "",
    ):
        plain, guarded = (outcome(each["classic"], template, context) for each in (PLAIN, GUARDED))
        assert guarded == plain


def test_texts_that_are_joined_reach_the_limits_of_a_value_and_of_work() -> None:
    doubled = (
        "{% set ns = namespace(t='xx') %}"
        "{% for i in range(8) %}{% set ns.t = ns.t + ns.t %}{% endfor %}{{ ns.t | length }}"
    )
    largest = 512 + ITEM
    enough, less = (
        guarded_environment(PLAIN["classic"], dataclasses.replace(LIMITS, value=value))
        for value in (largest, largest // 2)
    )
    assert outcome(enough, doubled, {}) == ("512", [])
    assert f"a text of {largest}" in str(outcome(less, doubled, {}))

    joined = "{% set a = '" + "x" * 1_000 + "' %}"
    joined += "{% for i in range(100) %}{% set t = a + a %}{% endfor %}done"
    work = 100 * (2_000 + 2 * ITEM)  # and as much again for the passes, at most
    enough, less = (
        guarded_environment(PLAIN["classic"], dataclasses.replace(LIMITS, work=units))
        for units in (2 * work, work)
    )
    assert outcome(enough, joined, {}) == ("done", [])
    assert f"more work than {work:,}" in str(outcome(less, joined, {}))


def test_the_limits_grow_with_what_the_caller_passes_in() -> None:
    """Long conversations are no attack: 30 million characters, each handled several times."""
    template = (
        "{% set ns = namespace(all=[]) %}{% for m in messages %}"
        "{% set c = m.content.strip().replace('a', 'b') | trim %}{{ '<' ~ c + '>' }}"
        "{% set ns.all = ns.all + [m] %}{% if 'zz' in c %}!{% endif %}"
        "{% endfor %}{{ messages[1:]|map(attribute='content')|join(',')|length }}"
    )
    content = " a" + "x" * 10_000_000
    context = {"messages": [{"role": "user", "content": content}] * 3}
    text, _ = render_once(template, context, profile="", environment=GUARDED["classic"])
    assert len(text) == 3 * (len(content) + 1) + 8
    many = {"messages": [{"role": "user", "content": "x"}] * 30_000}
    walk = "{% for i in range(messages|length) %}{{ messages[i].content }}{% endfor %}"
    assert len(render_once(walk, many, profile="", environment=GUARDED["classic"])[0]) == 30_000


def test_one_compiled_template_renders_in_many_threads_with_a_meter_for_each() -> None:
    limits = dataclasses.replace(LIMITS, work=200_000)
    template = compile_template(
        "{% for i in range(n) %}{{ i }}{% endfor %}",
        guarded_environment(make_environment("classic"), limits),
    )

    def rendered(n: int) -> str:
        try:
            return render_compiled(template, {"n": n})[0]
        except ChatTemplateError as error:
            return str(error.code)

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(rendered, [1000, 9000] * 40))
    assert results[::2] == ["".join(map(str, range(1000)))] * 40
    assert results[1::2] == [RESOURCE_LIMIT] * 40


# --- the static pass ------------------------------------------------------------------------------


def test_the_static_pass_tells_what_a_template_calls() -> None:
    template = (
        "{{ strftime_now('%d') }}{{ x.items()|list }}{% if x is mapping %}{{ x._y }}{{ x['__z'] }}"
        "{{ x|attr('_w') }}{% endif %}"
    )
    report = check_template(PLAIN["classic"], template)
    assert report.called_names == {"strftime_now", "items"}
    assert report.filter_names == {"list", "attr"}
    assert report.test_names == {"mapping"}
    assert report.private_names == {"_y", "__z", "_w"}
    assert report.size == len(template)
    assert report.depth == 6


def test_the_static_pass_runs_nothing() -> None:
    check_template(PLAIN["classic"], "{{ 'a' * 300000000 }}{{ 9 ** (9 ** 8) }}")


@pytest.mark.parametrize(
    ("template", "code", "message"),
    [
        ("é" * 140_000, RESOURCE_LIMIT, "280,000 bytes; 262,144 are allowed"),
        ("{{ " + "(" * 41 + " }}", RESOURCE_LIMIT, "nested 41 deep; 40 are allowed"),
        ("{{ x }}" * 9_999, None, ""),
        ("{{ x }}" * 30_000, RESOURCE_LIMIT, "words and signs"),
        ("{{x}}," * 15_000, RESOURCE_LIMIT, "more than 20,000 nodes"),
        ("{{ 1" + "+1" * 200 + "}}", RESOURCE_LIMIT, "100 levels"),
        (attacks.many("{{ v# }}", 1001), RESOURCE_LIMIT, "1,001 variables"),
        (
            "{{ 0x" + "f" * 1025 + " }}",
            RESOURCE_LIMIT,
            "line 1: an integer of more than 4,096 bits",
        ),
        ("a\n{% if %}", "CHAT_TEMPLATE_SYNTAX_ERROR", "line 2"),
        ("{{ 'a", "CHAT_TEMPLATE_SYNTAX_ERROR", "line 1"),
        ("{{ " + "9" * 5000 + " }}", "CHAT_TEMPLATE_SYNTAX_ERROR", "4300 digits"),
    ],
)
def test_the_static_pass_says_what_is_wrong(template: str, code: str | None, message: str) -> None:
    if code is None:
        assert check_template(PLAIN["classic"], template).node_count == 10_001
        return
    with pytest.raises(ChatTemplateError, match=re.escape(message)) as raised:
        check_template(PLAIN["classic"], template)
    assert raised.value.code == code


def test_errors_are_told_by_their_findings() -> None:
    assert error_code(SecurityError("x")) == SANDBOX_VIOLATION
    assert error_code(RecursionError()) == error_code(MemoryError()) == RESOURCE_LIMIT
    assert error_code(ChatTemplateError("x", code="y")) == "y"
    assert error_code(KeyError("x")) is None


def test_a_request_does_not_choose_the_template() -> None:
    assert request_kwargs({"enable_thinking": False}) == {"enable_thinking": False}
    assert request_kwargs(None) == {}
    for name in ("chat_template", "tokenize"):
        with pytest.raises(ChatTemplateError, match=name) as raised:
            request_kwargs({"a": 1, name: "{{ 9 ** 9 }}"})
        assert raised.value.code == "CHAT_TEMPLATE_FROM_REQUEST"


# --- the child process ----------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def old_objects_are_left_alone() -> Iterator[None]:
    """What health() collects is what a test made, not what pytest has."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    """A pool of two; afterwards this process has what it had before."""
    before = health()
    pool = ChildPool(2)
    yield pool
    pool.close()
    assert health() == before


def health() -> tuple[int, list[int], int]:
    """Open descriptors, children (ended ones included) and threads of this process."""
    gc.collect()
    descriptors = len([*Path("/proc/self/fd").iterdir()]) if Path("/proc/self/fd").exists() else 0
    return descriptors, children_of(os.getpid()), threading.active_count()


def children_of(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == parent:
            found.append(int(stat.parent.name))
    return sorted(found)


def rendered(
    pool: ChildPool, template: str, **context: object
) -> tuple[str, list[tuple[int, int]]]:
    return render_in_child(template, {**CONTEXT, **context}, profile="classic", now=NOW, pool=pool)


def test_a_child_renders_what_this_process_renders(pool: ChildPool) -> None:
    template = (
        "{{ messages[0].content }}é\ud800{% generation %}x🗼{% endgeneration %}"
        "{{ strftime_now('%Y-%m-%d %H:%M:%S') }}{{ n|tojson }}{{ f }}"
    )
    context = {**CONTEXT, "n": {"ä": [1, 2.5, None, True]}, "f": float("nan")}
    here = render_once(template, context, profile="classic", now=NOW)
    assert rendered(pool, template, n=context["n"], f=context["f"]) == here
    assert here[1] == [(4, 6)]
    first = pool.idle
    assert rendered(pool, template, n=1, f=2)[0].endswith("12")
    assert pool.idle == first, "the child was kept"


def test_a_templates_own_error_crosses_whole_and_the_child_is_kept(pool: ChildPool) -> None:
    template = "{% if x %}\n{{ raise_exception('no ' ~ x) }}{% endif %}{{ 1 / x }}"
    with pytest.raises(ChatTemplateError) as raised:
        rendered(pool, template, x=3)
    assert str(raised.value) == "no 3"
    assert raised.value.line == 2
    assert raised.value.__notes__ == ["said by the chat template, line 2"]
    first = pool.idle
    with pytest.raises(ChatTemplateError, match="ZeroDivisionError"):
        rendered(pool, template, x=0)
    assert pool.idle == first


def test_no_two_templates_share_a_child(pool: ChildPool) -> None:
    pids = []
    for template in ("a", "b", "a", "b", "c", "a"):
        assert rendered(pool, template)[0] == template
        pids.append(pool.idle[-1])
    a, b, again_a, again_b, c, last_a = pids
    assert (again_a, again_b) == (a, b)
    assert len({a, b, c, last_a}) == 4, "the pool has place for two"
    assert len(pool.idle) == 2


def test_a_child_that_died_is_replaced(pool: ChildPool) -> None:
    rendered(pool, "a")
    (first,) = pool.idle
    os.kill(first, signal.SIGKILL)
    while "Z" not in Path(f"/proc/{first}/stat").read_text().rpartition(")")[2]:
        time.sleep(0.01)
    assert rendered(pool, "a")[0] == "a"
    assert pool.idle != [first]


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("pow", ChildLimits(cpu_seconds=1, guard=NO_GUARD)),
        ("str-mul", ChildLimits(guard=NO_GUARD)),
        ("laughs-list", ChildLimits(guard=NO_GUARD)),
        ("flood", ChildLimits(answer=1 << 20, guard=NO_GUARD)),
        ("macro-rec", ChildLimits(guard=NO_GUARD)),
        ("nested-range-big", ChildLimits(cpu_seconds=60, wall_seconds=1.0, guard=NO_GUARD)),
        ("str-mul300", ChildLimits()),
        ("flood2", ChildLimits()),
        ("globals", ChildLimits()),
    ],
)
def test_an_attack_in_a_child_leaves_this_process_as_it_was(name: str, limits: ChildLimits) -> None:
    """Also where the guard lets everything pass: then the limits of the process end it."""
    before, memory = health(), resident()
    attacker = ChildPool(1, limits)
    start = time.monotonic()
    with pytest.raises(ChatTemplateError) as raised:
        rendered(attacker, attacks.ATTACKS[name])
    assert time.monotonic() - start < limits.wall_seconds + 5
    if name != "globals":
        assert raised.value.code == RESOURCE_LIMIT
        assert attacker.idle == [], "its child is not used again"
    assert rendered(attacker, "{{ 1 + 1 }}")[0] == "2", "the next rendering gets another child"
    attacker.close()
    assert health() == before
    assert resident() - memory < 50 << 20


def resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


ANSWERS = {
    "nothing": "",
    "a long head": "answer(b'', size=1 << 20)",
    "half a head": "out.write(b'\\0\\0')",
    "no JSON": "answer(b'{\"text\": 1')",
    "no object": "answer(b'[1]')",
    "deep JSON": "answer(b'[' * 60000)",
    "no UTF-8 in JSON": "answer(b'\\xff\\xfe\\xff')",
    "negative size": "answer(b'{\"text\": -5}')",
    "size of another type": 'answer(b\'{"text": "5"}\')',
    "true as size": "answer(b'{\"text\": true}')",
    "huge text": "answer(b'{\"text\": 99999999999}')",
    "huge spans": 'answer(b\'{"text": 0, "spans": 99999999999}\')',
    "less text": "answer(b'{\"text\": 5}', b'abc')",
    "more text": "answer(b'{\"text\": 2}', b'abc'); time.sleep(9)",
    "another answer": "answer(b'{\"text\": 1}', b'a' + b'\\0\\0\\0\\x02{}')",
    "no UTF-8": "answer(b'{\"text\": 2}', b'\\xff\\xff')",
    "error of another type": 'answer(b\'{"error": [1], "code": {}, "line": [], "note": 5}\')',
    "long error": "answer(json.dumps({'error': 'x' * 60000}).encode())",
    "silence": "time.sleep(60)",
    "deafness": "os.close(0); time.sleep(60)",
    "a crash": "os.kill(os.getpid(), 11)",
    "pickle": "import pickle; answer(pickle.dumps({'text': 0}))",
}
HOSTILE_CHILD = """
import json, os, sys, time
out = sys.stdout.buffer
def answer(head, body=b"", size=None):
    out.write((len(head) if size is None else size).to_bytes(4, "big") + head + body)
    out.flush()
if %r != "deafness":
    sys.stdin.buffer.read(4)
%s
"""


@pytest.mark.parametrize("name", ANSWERS)
def test_a_child_that_answers_nonsense_is_an_error(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a template could say that got out of its sandbox and owns the child."""
    before = health()
    monkeypatch.setattr(_child, "BOOT", HOSTILE_CHILD % (name, ANSWERS[name]))
    pool = ChildPool(1, ChildLimits(wall_seconds=1.0 if name in ("silence", "deafness") else 20.0))
    try:
        with pytest.raises(ChatTemplateError) as raised:
            rendered(pool, "a", pad="x" * (1 << 21 if name == "deafness" else 1))
        assert len(str(raised.value)) < 3000
        assert pool.idle == [] or "error" in name
    finally:
        pool.close()
    assert health() == before


def test_a_child_that_says_more_than_it_was_asked_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool
) -> None:
    one = "answer(b'{\"text\": 1}', b'a')"
    late = f"{one}; time.sleep(0.1); {one}; time.sleep(9)"
    monkeypatch.setattr(_child, "BOOT", HOSTILE_CHILD % ("late", late))
    assert rendered(pool, "x")[0] == "a"
    (first,) = pool.idle
    time.sleep(0.5)
    monkeypatch.undo()
    assert rendered(pool, "x")[0] == "x"
    assert pool.idle != [first]


def test_what_a_child_has() -> None:
    """No environment, no descriptors but its pipes, the root as its folder, and limits."""
    secret, descriptor = os.pipe()
    os.set_inheritable(descriptor, True)
    pool = ChildPool(1)
    try:
        rendered(pool, "a")
        (pid,) = pool.idle
        folder = Path(f"/proc/{pid}")
        assert (folder / "environ").read_bytes() == b""
        assert sorted(each.name for each in (folder / "fd").iterdir()) == ["0", "1", "2"]
        assert (folder / "cwd").readlink() == Path("/")
        limits = (folder / "limits").read_text()
        assert re.search(r"Max address space +536870912 +536870912", limits)
        assert re.search(r"Max cpu time +[34] ", limits)
        assert re.search(r"Max open files +3 +3", limits)
        assert re.search(r"Max core file size +0 +0", limits)
        assert re.search(r"Max file size +0 +0", limits)
    finally:
        pool.close()
        os.close(secret)
        os.close(descriptor)


def test_a_child_needs_no_folder_and_no_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pool: ChildPool
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit")
    (tmp_path / "jinja2.py").write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSTARTUP", str(tmp_path / "json.py"))
    assert rendered(pool, "a")[0] == "a"


def test_a_child_ends_with_its_parent() -> None:
    program = """
import os, sys
from streamdec.chat._child import ChildPool, render_in_child
pool = ChildPool(1)
render_in_child("a", {}, profile="classic", pool=pool)
print(*pool.idle, flush=True)
os.kill(os.getpid(), 9)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    child = Path(f"/proc/{int(run.stdout)}")
    deadline = time.monotonic() + 10
    while child.exists() and time.monotonic() < deadline:
        state = (child / "stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":  # ended; whoever took it over has not asked yet
            return
        time.sleep(0.02)
    assert not child.exists()


def test_a_program_ends_quietly_with_children_of_the_common_pool() -> None:
    program = """
import warnings
warnings.simplefilter("error")
from streamdec.chat._child import render_in_child
print(render_in_child("a", {}, profile="classic")[0])
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (run.stdout, run.stderr, run.returncode) == ("a\n", "", 0)


def test_a_fork_starts_children_of_its_own(pool: ChildPool) -> None:
    rendered(pool, "a")
    (mine,) = pool.idle
    fork = os.fork()
    if fork == 0:
        right = False
        try:
            right = pool.idle == [] and rendered(pool, "a")[0] == "a" and pool.idle != [mine]
            pool.close()
        finally:
            os._exit(0 if right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]) == 0
    assert rendered(pool, "a")[0] == "a"
    assert pool.idle == [mine], "the other process left it alone"


def test_threads_share_a_pool_that_is_never_larger_than_it_may_be(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool
) -> None:
    """Counted when a child has just begun: those of the list that still run all ran then."""
    begun: list[subprocess.Popen[bytes]] = []
    counts = []
    start = _child._started

    def started(limits: ChildLimits) -> subprocess.Popen[bytes]:
        begun.append(start(limits))
        counts.append(sum(process.poll() is None for process in list(begun)))
        return begun[-1]

    def one(number: int) -> str:
        return rendered(pool, "{{ x }}" if number % 3 else "{{ x }}!", x=number)[0]

    monkeypatch.setattr(_child, "_started", started)
    with ThreadPoolExecutor(6) as threads:
        texts = list(threads.map(one, range(30)))
    assert texts == [f"{number}" if number % 3 else f"{number}!" for number in range(30)]
    assert len(counts) >= 2
    assert max(counts) <= 2


@pytest.mark.parametrize(
    "value",
    [(1, ("a",)), {1: "a", None: 2, False: 3, (1, 2): 4, 1.5: 5}, 10**50, -0.0, "\ud800", [[]] * 3],
    ids=repr,
)
def test_values_cross_as_they_are(pool: ChildPool, value: object) -> None:
    template = "{{ x }}{{ x|string|length }}"
    here = render_once(template, {**CONTEXT, "x": value}, profile="classic")
    assert rendered(pool, template, x=value) == here


def test_what_is_no_plain_data_does_not_cross(pool: ChildPool) -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (object(), NOW, lambda: 1, [{"a": Path()}], deep):
        with pytest.raises(ChatTemplateError, match="no plain data"):
            rendered(pool, "a", x=value)


@pytest.mark.parametrize("clock", [lambda: 1 // 0, lambda: "noon", "noon"])
def test_a_clock_that_does_not_go_is_an_error_of_ours(pool: ChildPool, clock: Any) -> None:
    with pytest.raises(ChatTemplateError, match="the clock: "):
        render_in_child("a", CONTEXT, profile="classic", now=clock, pool=pool)


def test_a_context_that_is_too_large_for_the_child_is_an_error() -> None:
    pool = ChildPool(1, ChildLimits(memory=80 << 20))
    with pytest.raises(ChatTemplateError):
        rendered(pool, "{{ x|length }}", x="x" * (40 << 20))
    pool.close()


def test_the_clock_is_asked_in_this_process(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool
) -> None:
    """The child has no environment, so it would not know the time zone."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        template = "{{ strftime_now('%Y-%m-%d %H') }}"
        text, _ = render_in_child(template, {}, profile="classic", pool=pool)
        assert abs(datetime.strptime(text, "%Y-%m-%d %H") - datetime.now()).total_seconds() < 7200  # noqa: DTZ005, DTZ007
        told = render_in_child(template, {}, profile="classic", pool=pool, now=lambda: NOW)[0]
        assert told == "2026-03-05 14"
    finally:
        monkeypatch.undo()
        time.tzset()


# --- the page -------------------------------------------------------------------------------------


def test_the_page_states_the_limits_that_hold() -> None:
    page = (ROOT / "docs/explanation/hostile-templates.md").read_text("utf-8")
    stated = dict(re.findall(r"^\| `(\w+(?:\.\w+)?)` \| ([^|]+) \|", page, re.MULTILINE))
    limits = {
        **{f"static.{name}": value for name, value in dataclasses.asdict(LIMITS.static).items()},
        **{name: value for name, value in dataclasses.asdict(LIMITS).items() if name != "static"},
        **{
            f"child.{name}": value
            for name, value in dataclasses.asdict(_child.CHILD_LIMITS).items()
            if name != "guard"
        },
    }
    assert {name: float(value.replace(",", "")) for name, value in stated.items()} == limits
