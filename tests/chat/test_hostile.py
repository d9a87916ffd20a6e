# ruff: noqa: SIM905 - words in a row are read more easily
"""Hostile templates: isolated, each ends within the limits, and this process is unharmed."""

from __future__ import annotations

import copy
import dataclasses
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
from jinja2 import nodes

from streamdec.chat import ChatTemplate, rendering
from streamdec.chat import isolated as child_process
from streamdec.chat.environment import make_environment
from streamdec.chat.isolated import ChildPool, Rendering, render_isolated
from streamdec.chat.rendering import compile_template, parse_template, render_compiled
from streamdec.children import child as processes
from streamdec.children.child import ChildLimits
from streamdec.errors import ChatTemplateError
from streamdec.locks import forked
from tests.chat import attacks
from tests.platform.test_platform import in_a_fork
from tests.support.pages import ROOT, printed_by
from tests.support.processes import unharmed

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
CONTEXT: dict[str, Any] = {"messages": MESSAGES, "tools": None}
RESOURCE_LIMIT = "CHAT_TEMPLATE_RESOURCE_LIMIT"
FAILS = "CHAT_TEMPLATE_FAILS"
SANDBOX_VIOLATION = "CHAT_TEMPLATE_SANDBOX_VIOLATION"

NOW = datetime(2026, 3, 5, 14, 7, 9)  # noqa: DTZ001 - templates tell local time
ENVIRONMENT: Any = make_environment("classic", now=NOW)
QUICK = ChildLimits(cpu_seconds=1, wall_seconds=0.25, answer=1 << 20)
"""What an attack may take here; the limits are of the same kind as those of users."""
SAMPLE = ("pow buffer-append flood2 parens-max").split()
"""Attacks of each kind, which are tried in each run."""
STOPPED = "pow str-mul flood macro-rec nested-range".split()
"""Attacks that take more than a child may take. The child is not used again."""
REFUSED = sorted(
    {*attacks.ESCAPES, *attacks.MUTATIONS} - {"env", "mutate-set", "class-getitem", "dict-item"}
)


def here(template: str, context: dict[str, Any] = CONTEXT, profile: str = "classic") -> Rendering:
    """The text and the spans of ``template``, rendered in this process."""
    return render_compiled(compile_template(template, make_environment(profile, now=NOW)), context)


# --- attacks --------------------------------------------------------------------------------------


def end_of(pool: ChildPool, name: str) -> ChatTemplateError | None:
    """How an attack ended: None if it rendered a text within the limits."""
    context = copy.deepcopy(CONTEXT)
    try:
        text, _ = render_isolated(
            attacks.ATTACKS[name], context, profile="classic", now=NOW, pool=pool
        )
    except ChatTemplateError as error:
        return error
    finally:
        assert context == CONTEXT
    assert len(text.encode()) <= QUICK.answer
    return None


@pytest.mark.parametrize("profile", ["classic", "hardened"])
@pytest.mark.parametrize(
    "call",
    ["'{0.__class__.__mro__}'.format#('')", "'{a.__class__.__mro__}'.format_map#({'a': ''})"],
)
@pytest.mark.parametrize("path", ["", ".__wrapped__", "['__wrapped__']", "|attr('__wrapped__')"])
def test_formats_read_no_attribute_that_the_sandbox_refuses(
    path: str, call: str, profile: str
) -> None:
    function, arguments = call.split("#")
    with pytest.raises(ChatTemplateError, match="'__class__' of 'str' object is unsafe") as raised:
        here("{{ (" + function + path + ")" + arguments + " }}", CONTEXT, profile)
    assert raised.value.code == SANDBOX_VIOLATION


@pytest.mark.parametrize("pool", [QUICK], indirect=True, ids=[""])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SAMPLE else pytest.mark.thorough)
        for name in sorted(attacks.ATTACKS)
    ],
)
def test_each_attack_ends_within_the_limits(
    pool: ChildPool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of streamdec, or a text that is not larger than allowed.

    An escape is rejected; a change of the messages is rejected, or changes a copy.
    """
    error = end_of(pool, name)
    assert error is None or len(str(error)) < 3_000
    if name in STOPPED:
        assert error is not None
        assert error.code == RESOURCE_LIMIT
        assert not any(child.setup["source"] == attacks.ATTACKS[name] for child in pool._idle)
    if name in REFUSED:
        assert error is None or error.code in (SANDBOX_VIOLATION, RESOURCE_LIMIT, FAILS)
        assert error is not None or name not in attacks.ESCAPES
    monkeypatch.setattr(pool, "limits", ChildLimits())
    text, _ = render_isolated("{{ 1 + 1 }}", {}, profile="classic", pool=pool)
    assert text == "2", "the next rendering is not harmed"


def test_the_output_in_this_process_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendering, "MAX_OUTPUT", 1_000)
    assert here("{{ x }}", {"x": "a" * 1_000})[0] == "a" * 1_000
    for template in ("{{ x }}{{ x }}", "{% for i in range(2000) %}a{% endfor %}"):
        with pytest.raises(ChatTemplateError, match="more than 1,000 characters") as raised:
            here(template, {"x": "a" * 600})
        assert raised.value.code == RESOURCE_LIMIT


# --- the static pass ------------------------------------------------------------------------------


def test_the_static_pass_runs_nothing() -> None:
    tree = parse_template(ENVIRONMENT, "{{ 'a' * 300000000 }}{{ 9 ** (9 ** 8) }}")
    assert tree.find(nodes.Mul)
    assert tree.find(nodes.Pow)
    assert parse_template(ENVIRONMENT, "{{ 1" + "+1" * 97 + "}}").body, "100 levels are allowed"


@pytest.mark.parametrize(
    ("template", "code", "message"),
    [
        ("é" * 140_000, RESOURCE_LIMIT, "280,000 bytes; 262,144 are allowed"),
        ("{{ " + "(" * 3_000 + " }}", RESOURCE_LIMIT, "nested too deeply for the parser"),
        ("{{ 1" + "+1" * 98 + "}}", RESOURCE_LIMIT, "100 levels"),
        ("a\n{% if %}", "CHAT_TEMPLATE_SYNTAX_ERROR", "line 2"),
        ("{{ 'a", "CHAT_TEMPLATE_SYNTAX_ERROR", "line 1"),
        ("{{ " + "9" * 5000 + " }}", "CHAT_TEMPLATE_SYNTAX_ERROR", "4300 digits"),
    ],
)
def test_the_static_pass_says_what_is_wrong(template: str, code: str, message: str) -> None:
    with pytest.raises(ChatTemplateError, match=re.escape(message)) as raised:
        parse_template(ENVIRONMENT, template)
    assert raised.value.code == code


TAKES_PARTS = "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("is_own", [False, True])
def test_an_isolated_template_is_not_parsed_in_this_process(
    monkeypatch: pytest.MonkeyPatch, is_own: bool
) -> None:
    """Not even to find out what it takes as the content of a message.

    The model's own is isolated only if that was asked for.
    """

    def refused(*_: object) -> Iterator[Any]:
        raise AssertionError("a template was read in this process")

    monkeypatch.setattr("jinja2.lexer.Lexer.tokeniter", refused)
    own = ChatTemplate(TAKES_PARTS if is_own else "own", isolate=is_own)
    chosen = None if is_own else TAKES_PARTS
    messages = own.openai_messages(MESSAGES, chat_template=chosen)
    assert messages == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    assert own.render(messages, chat_template=chosen) == "hi"
    with pytest.raises(ChatTemplateError, match="line 1") as raised:
        own.content_format(chat_template="{% if %}")
    assert raised.value.code == "CHAT_TEMPLATE_SYNTAX_ERROR"
    with pytest.raises(AssertionError, match="read in this process"):
        ChatTemplate("here").content_format()


def test_an_invalid_answer_of_a_child_about_the_content_format_raises(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool
) -> None:
    answer = "answer(b'{\"size\": 3}', b'all')"
    monkeypatch.setattr(processes, "BOOT", HOSTILE_CHILD % ("", answer))
    monkeypatch.setattr(child_process, "_own_pool", lambda: pool)
    with pytest.raises(ChatTemplateError, match="invalid answer") as raised:
        ChatTemplate(None).content_format(chat_template="{{ 1 }}")
    assert raised.value.code == "CHAT_TEMPLATE_CHILD_DIED"


# --- the child process ----------------------------------------------------------------------------


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> Iterator[ChildPool]:
    """A pool of two, with the limits of the test; afterwards this process has what it had."""
    with unharmed():
        pool = ChildPool(2, getattr(request, "param", ChildLimits()))
        yield pool
        pool.close()


def idle(pool: ChildPool) -> list[int]:
    """The process ids of the idle children."""
    return [child.process.pid for child in pool._idle]


def rendered(
    pool: ChildPool, template: str, **context: object
) -> tuple[str, list[tuple[int, int]]]:
    return render_isolated(template, {**CONTEXT, **context}, profile="classic", now=NOW, pool=pool)


def test_a_child_renders_what_this_process_renders(pool: ChildPool) -> None:
    template = (
        "{{ messages[0].content }}é\ud800{% generation %}x🗼{% endgeneration %}"
        "{{ strftime_now('%Y-%m-%d %H:%M:%S') }}{{ n|tojson }}{{ f }}"
    )
    context = {**CONTEXT, "n": {"ä": [1, 2.5, None, True]}, "f": float("nan")}
    expected = here(template, context)
    assert rendered(pool, template, n=context["n"], f=context["f"]) == expected
    assert expected[1] == [(4, 6)]
    first = idle(pool)
    assert rendered(pool, template, n=1, f=2)[0].endswith("12")
    assert idle(pool) == first, "the child was kept"


def test_what_is_imported_late_is_there_in_a_child(pool: ChildPool) -> None:
    """A child cannot open the files of modules, so it imports them before its first rendering."""
    codecs = """ascii latin-1 cp1252 idna punycode unicode-escape raw-unicode-escape utf-7 utf-8
    utf-8-sig utf-16 utf-16-le utf-16-be utf-32 utf-32-le utf-32-be""".split()
    template = (
        "{{ '<b>a &amp; b</b>'|striptags }}{{ '&eacute;'|safe|striptags }}"
        "{{ ('&lt;'|safe).unescape() }}{{ lipsum(1) is string }}{{ [1]|pprint }}"
        "{{ 'a b'|wordwrap(1) }}{% for c in codecs %}{{ 'b'.encode(c).decode(c) }}{% endfor %}"
    )
    expected = "a & bé<True[1]a\nb" + "b" * len(codecs)
    assert rendered(pool, template, codecs=codecs)[0] == expected


def test_an_error_of_the_template_is_passed_on_and_the_child_is_kept(pool: ChildPool) -> None:
    template = "{% if x %}\n{{ raise_exception('no ' ~ x) }}{% endif %}{{ 1 / x }}"
    with pytest.raises(ChatTemplateError) as raised:
        rendered(pool, template, x=3)
    assert str(raised.value) == "no 3"
    assert raised.value.line == 2
    assert raised.value.__notes__ == ["said by the chat template, line 2"]
    first = idle(pool)
    with pytest.raises(ChatTemplateError, match="ZeroDivisionError"):
        rendered(pool, template, x=0)
    assert idle(pool) == first


def test_no_two_templates_share_a_child(pool: ChildPool) -> None:
    pids = []
    for template in ("a", "b", "a", "b", "c", "a"):
        assert rendered(pool, template)[0] == template
        pids.append(idle(pool)[-1])
    a, b, again_a, again_b, c, last_a = pids
    assert (again_a, again_b) == (a, b)
    assert len({a, b, c, last_a}) == 4, "the pool has place for two"
    assert len(idle(pool)) == 2


@pytest.mark.parametrize("ends", ["killed", "sends more"])
def test_a_child_that_ended_or_sends_too_much_is_replaced(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool, ends: str
) -> None:
    if ends == "sends more":
        one = "answer(b'{\"size\": 1}', b'a')"
        late = f"{one}; time.sleep(0.1); {one}; time.sleep(9)"
        monkeypatch.setattr(processes, "BOOT", HOSTILE_CHILD % (ends, late))
    assert rendered(pool, "a")[0] == "a"
    (first,) = pool._idle
    if ends == "killed":
        os.kill(first.process.pid, signal.SIGKILL)
    while not processes._has_more(first._out):  # the end of the pipe counts, too
        time.sleep(0.01)
    monkeypatch.undo()
    assert rendered(pool, "a")[0] == "a"
    assert idle(pool) != [first.process.pid]


@pytest.mark.thorough
def test_a_rendering_waits_for_a_child_until_its_timeout() -> None:
    pool = ChildPool(1, ChildLimits(waiting_seconds=0.05, wall_seconds=0.5, cpu_seconds=60))
    endless = threading.Thread(target=end_of, args=(pool, "nested-range"))
    endless.start()
    while not pool._busy:
        time.sleep(0.001)
    with pytest.raises(ChatTemplateError, match="no process was free to render the") as raised:
        rendered(pool, "a")
    assert raised.value.code == child_process.BUSY
    endless.join()
    assert rendered(pool, "a")[0] == "a"
    pool.close()


ANSWERS = {
    "nothing": "",
    "a long head": "answer(b'', size=1 << 20)",
    "half a head": "out.write(b'\\0\\0')",
    "no JSON": "answer(b'{\"size\": 1')",
    "no object": "answer(b'[1]')",
    "deep JSON": "answer(b'[' * 60000)",
    "no UTF-8 in JSON": "answer(b'\\xff\\xfe\\xff')",
    "negative size": "answer(b'{\"size\": -5}')",
    "size of another type": 'answer(b\'{"size": "5"}\')',
    "true as size": "answer(b'{\"size\": true}')",
    "huge text": "answer(b'{\"size\": 99999999999}')",
    "huge spans": 'answer(b\'{"size": 0, "spans": 99999999999}\')',
    "less text": "answer(b'{\"size\": 5}', b'abc')",
    "more text": "answer(b'{\"size\": 2}', b'abc'); time.sleep(9)",
    "another answer": "answer(b'{\"size\": 1}', b'a' + b'\\0\\0\\0\\x02{}')",
    "no UTF-8": "answer(b'{\"size\": 2}', b'\\xff\\xff')",
    "error of another type": 'answer(b\'{"error": [1], "code": {}, "line": [], "note": 5}\')',
    "long error": "answer(json.dumps({'error': 'x' * 60000}).encode())",
    "silence": "time.sleep(60)",
    "silence on Windows": "time.sleep(60)",
    "deafness": "os.close(0); time.sleep(60)",
    "a crash": "os.kill(os.getpid(), 11)",
    "pickle": "import pickle; answer(pickle.dumps({'size': 0}))",
}
HOSTILE_CHILD = """
import json, os, sys, time
out = sys.stdout.buffer
def answer(head, body=b"", size=None):
    out.write((len(head) if size is None else size).to_bytes(8, "big") + head + body)
    out.flush()
if %r != "deafness":
    sys.stdin.buffer.read(8)
%s
"""


@pytest.mark.parametrize("name", ANSWERS)
def test_a_child_that_answers_nonsense_is_an_error(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool, name: str
) -> None:
    """What a template could say that got out of its sandbox and owns the child."""
    monkeypatch.setattr(processes, "BOOT", HOSTILE_CHILD % (name, ANSWERS[name]))
    is_late = name.startswith("silence")
    limits = ChildLimits(wall_seconds=0.3 if is_late or name == "deafness" else 20.0)
    monkeypatch.setattr(pool, "limits", limits)
    if "Windows" in name:  # where no pipe can be polled, and Python 3.11 has no set_blocking
        there = {**vars(os), "name": "nt", "set_blocking": None}
        monkeypatch.setattr(processes, "os", type("os", (), there))
        monkeypatch.delattr("select.poll")
    said = "seconds by the clock" if is_late else "."
    with pytest.raises(ChatTemplateError, match=said) as raised:
        rendered(pool, "a", pad="x" * (1 << 21 if name == "deafness" else 1))
    assert len(str(raised.value)) < 3000
    assert idle(pool) == [] or "error" in name


def test_a_child_has_no_environment_and_no_other_descriptors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pool: ChildPool
) -> None:
    """No environment, no descriptors but its pipes, the root as its folder, and limits."""
    for module in ("json.py", "jinja2.py"):
        (tmp_path / module).write_text("raise SystemExit")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        assert rendered(pool, "a")[0] == "a"
        (pid,) = idle(pool)
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


def test_a_child_ends_with_its_parent() -> None:
    program = """
import os, sys
from streamdec.chat.isolated import ChildPool, render_isolated
pool = ChildPool(1)
render_isolated("a", {}, profile="classic", pool=pool)
print(pool._idle[0].process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    child = Path(f"/proc/{int(run.stdout)}")
    deadline = time.monotonic() + 60  # after which it is taken to hang
    while child.exists() and time.monotonic() < deadline:
        state = (child / "stat").read_text().rpartition(")")[2].split()[0]
        if state == "Z":  # ended; the process that took it over has not asked yet
            return
        time.sleep(0.02)
    assert not child.exists()


def test_a_program_ends_quietly_with_children_of_the_common_pool() -> None:
    program = (
        "from streamdec.chat.isolated import render_isolated\n"
        "print(render_isolated('a', {}, profile='classic')[0])\n"
    )
    assert printed_by(program) == ["a"]


def test_a_pool_is_freed_after_its_use() -> None:
    before = len(forked)
    ChildPool(1)
    assert len(forked) <= before


def test_a_fork_starts_its_own_children(pool: ChildPool) -> None:
    rendered(pool, "a")
    (mine,) = idle(pool)
    found = in_a_fork(lambda: [idle(pool), rendered(pool, "a")[0], idle(pool)])
    assert (found[:2], found[2] == [mine]) == ([[], "a"], False)
    assert rendered(pool, "a")[0] == "a"
    assert idle(pool) == [mine], "the other process left it alone"


@pytest.mark.thorough
def test_threads_share_a_pool_that_is_never_larger_than_it_may_be(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool
) -> None:
    """Counted when a child has just begun: those of the list that still run all ran then."""
    begun: list[subprocess.Popen[bytes]] = []
    counts = []
    start = processes.started

    def started(limits: ChildLimits, environment: Any) -> subprocess.Popen[bytes]:
        begun.append(start(limits, environment))
        counts.append(sum(process.poll() is None for process in list(begun)))
        return begun[-1]

    def one(number: int) -> str:
        return rendered(pool, "{{ x }}" if number % 3 else "{{ x }}!", x=number)[0]

    monkeypatch.setattr(processes, "started", started)
    with ThreadPoolExecutor(6) as threads:
        texts = list(threads.map(one, range(30)))
    assert texts == [f"{number}" if number % 3 else f"{number}!" for number in range(30)]
    assert len(counts) >= 2
    assert max(counts) <= 2


def test_values_reach_the_child_unchanged(pool: ChildPool) -> None:
    template = "{{ x }}{{ x|string|length }}"
    keys = {1: "a", None: 2, False: 3, (1, 2): 4, 1.5: 5}
    values: list[Any] = [(1, ("a",)), keys, 10**50, -0.0, "\ud800", [[]] * 3]
    for value in values:
        expected = here(template, {**CONTEXT, "x": value})
        assert rendered(pool, template, x=value) == expected


def test_values_that_are_not_plain_data_are_rejected(pool: ChildPool) -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    for value in (object(), NOW, lambda: 1, [{"a": Path()}], deep):
        with pytest.raises(ChatTemplateError, match="not plain data"):
            rendered(pool, "a", x=value)


@pytest.mark.parametrize("clock", [lambda: 1 // 0, lambda: "noon", "noon"])
def test_a_broken_clock_raises_a_template_error(pool: ChildPool, clock: Any) -> None:
    with pytest.raises(ChatTemplateError, match="now must be a datetime or a function"):
        render_isolated("a", CONTEXT, profile="classic", now=clock, pool=pool)


def test_the_clock_is_read_in_this_process(
    monkeypatch: pytest.MonkeyPatch, pool: ChildPool
) -> None:
    """The child has no environment, so it would not know the time zone."""
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        template = "{{ strftime_now('%Y-%m-%d %H') }}"
        text, _ = render_isolated(template, {}, profile="classic", pool=pool)
        assert abs(datetime.strptime(text, "%Y-%m-%d %H") - datetime.now()).total_seconds() < 7200  # noqa: DTZ005, DTZ007
        told = render_isolated(template, {}, profile="classic", pool=pool, now=lambda: NOW)[0]
        assert told == "2026-03-05 14"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_the_page_states_the_limits_that_hold() -> None:
    page = (ROOT / "docs/how-to/render-chat-templates.md").read_text("utf-8")
    stated = dict(re.findall(r"^\| `(\w+(?:\.\w+)?)` \| ([\d,.]+) \|", page, re.MULTILINE))
    limits = {
        "static.size": rendering.MAX_SIZE,
        "static.depth": rendering.MAX_DEPTH,
        **{
            f"child.{name}": each
            for name, each in dataclasses.asdict(child_process.CHILD_LIMITS).items()
        },
        "output": rendering.MAX_OUTPUT,
    }
    assert {name: float(value.replace(",", "")) for name, value in stated.items()} == limits
