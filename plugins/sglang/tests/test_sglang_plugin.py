"""The plugin in SGLang: its own detokenizer manager, scheduler output and plugin loader."""

from __future__ import annotations

import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

if find_spec("sglang") is None or find_spec("streamdec_sglang") is None:
    pytest.skip(
        "SGLang or the plugin is not installed: see the dependency group sglang in pyproject.toml",
        allow_module_level=True,
    )

import sglang_on_cpu
from sglang_on_cpu import SHARED, Script
from sglang_texts import BYTE_LETTERS, Oracle, Source, compare, outcomes

HERE = Path(__file__).resolve().parent
if not SHARED.exists():
    pytest.skip(f"no real tokenizers in {SHARED}", allow_module_level=True)
sglang_on_cpu.load()

import streamdec_sglang  # noqa: E402
from sglang.srt.plugins.hook_registry import HookRegistry  # noqa: E402
from streamdec_sglang import SWITCH, TRIED, detokenizer, logs, patch, register  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")

_LETTERS = {byte: letter for letter, byte in BYTE_LETTERS.items()}
BYTE_LEVEL, BYTE_FALLBACK = ("qwen3", "deepseek-v3", "gpt2"), ("phi-3-vision", "yi")
Manager = Any


@pytest.fixture
def tokenizer() -> Any:
    return sglang_on_cpu.tokenizer("qwen3")


@pytest.fixture
def manager(tokenizer: Any) -> Manager:
    return sglang_on_cpu.make_manager(tokenizer)


@pytest.fixture(autouse=True)
def said(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Forget what was logged once, and record what is logged."""
    logs._said.clear()
    with caplog.at_level(logging.INFO, "sglang.streamdec"):
        yield caplog


def lines(said: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in said.records if each.name == "sglang.streamdec"]


def text_of(
    tokenizer: Any, prompt: str, ids: Sequence[int], size: int = 1, **params: Any
) -> tuple[str, str]:
    """Return the text of one request from SGLang's own code, and from the plugin."""
    steps = [ids[place : place + size] for place in range(0, len(ids), size)]
    script = Script(encoded(tokenizer, prompt), steps, params=params)
    (outcome,) = outcomes([script], tokenizer)
    return "".join(outcome.texts["SGLang"]), "".join(outcome.texts["plugin"])


def encoded(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def batch(rids: Sequence[str], ids: Sequence[Sequence[int]], **fields: Any) -> SimpleNamespace:
    """Return a batch as the scheduler sends it; without ``fields``, of requests without prompts."""
    number = len(rids)
    values: dict[str, Any] = {
        "decode_ids": [array("q", each) for each in ids],
        "read_offsets": [0] * number,
        "decoded_texts": [""] * number,
        "finished_reasons": [None] * number,
        "skip_special_tokens": [True] * number,
        "spaces_between_special_tokens": [True] * number,
        "no_stop_trim": [False] * number,
    }
    return SimpleNamespace(rids=[*rids], **(values | fields))


# --- loading --------------------------------------------------------------------------------------


def test_sglang_loads_the_plugin_and_applies_its_hook() -> None:
    method = sglang_on_cpu.load().detokenizer.DetokenizerManager._decode_batch_token_id_output
    assert method.__wrapped__ is sglang_on_cpu.stock()
    ((_, hook, source),) = HookRegistry._hooks[patch.TARGET]
    assert hook is detokenizer.decode_batch
    assert source == ("streamdec", "streamdec-sglang")


SHOW = """
import sys, sglang_on_cpu
method = sglang_on_cpu.load().detokenizer.DetokenizerManager._decode_batch_token_id_output
print(hasattr(method, "__wrapped__"), "streamdec" in sys.modules)
"""


@pytest.mark.parametrize(("name", "value"), [(SWITCH, "off"), ("SGLANG_PLUGINS", "another")])
def test_a_variable_turns_it_off(name: str, value: str) -> None:
    """With the plugin switched off, streamdec is not imported."""
    environment = {**os.environ, name: value, "PYTHONPATH": str(HERE)}
    finished = subprocess.run(
        [sys.executable, "-c", SHOW], env=environment, capture_output=True, check=True, text=True
    )
    assert finished.stdout.split() == ["False", "False"]


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record which hooks are registered, in a process in which none is."""
    found: list[str] = []
    monkeypatch.setattr(patch, "_is_applied", False)
    monkeypatch.setattr(HookRegistry, "register", lambda target, *_: found.append(target))
    # The hook is around the method by now, and has other parameters.
    manager = sglang_on_cpu.load().detokenizer.DetokenizerManager
    monkeypatch.setattr(manager, "_decode_batch_token_id_output", sglang_on_cpu.stock())
    return found


@pytest.mark.parametrize("build", ["", ".post1", ".post2+cu130", "+cu130"])
def test_a_version_that_was_tried_is_changed_once(
    build: str, hooks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamdec_sglang, "version", lambda _: TRIED[0] + build)
    register()
    register()
    assert hooks == [patch.TARGET, patch.REQUEST, patch.TRIM]


@pytest.mark.parametrize("other", ["0.6.0", "0.5.23rc1", "0.5.230"])
@pytest.mark.parametrize("switch", ["", "on"])
def test_another_version_is_changed_only_on_request(
    switch: str,
    other: str,
    hooks: list[str],
    monkeypatch: pytest.MonkeyPatch,
    said: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(streamdec_sglang, "version", lambda _: other)
    monkeypatch.setenv(SWITCH, switch)
    register()
    assert hooks == ([patch.TARGET, patch.REQUEST, patch.TRIM] if switch else [])
    assert [f"{SWITCH}=on to use it" in line for line in lines(said)] == ([] if switch else [True])


def test_classes_that_look_different_are_never_changed(
    hooks: list[str], monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    manager = sglang_on_cpu.load().detokenizer.DetokenizerManager
    monkeypatch.setattr(manager, "trim_matched_stop", lambda _self, output: output)
    monkeypatch.setenv(SWITCH, "on")
    register()
    assert hooks == []
    (line,) = lines(said)
    assert "DetokenizerManager.trim_matched_stop takes _self, output" in line


def test_an_error_while_registering_is_logged(
    hooks: list[str], monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(streamdec_sglang, "version", lambda _: 1 / 0)
    register()
    assert hooks == []
    assert lines(said) == ["streamdec-sglang could not be set up; SGLang decodes as without it"]


PROCESS = """
import sys
from types import SimpleNamespace
import sglang_on_cpu
manager = sglang_on_cpu.load().detokenizer
from sglang.srt.server_args import ServerArgs
model, backend, scheduler, tokenizer = sys.argv[1:]
ports = SimpleNamespace(detokenizer_ipc_name=scheduler, tokenizer_ipc_name=tokenizer)
arguments = ServerArgs(model_path=model, device="cpu", tokenizer_backend=backend)
manager.run_detokenizer_process(arguments, ports)
"""


@pytest.mark.parametrize("backend", ["huggingface", "fastokens"])
def test_sglangs_detokenizer_process(backend: str, tokenizer: Any, tmp_path: Path) -> None:
    """Started as SGLang starts it: its own configuration, tokenizer, sockets and event loop."""
    import zmq

    for path in (SHARED / "qwen3").glob("*.json"):
        shutil.copy(path, tmp_path)
    config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
    scheduler, client = (f"ipc://{tmp_path}/{name}" for name in ("scheduler", "client"))
    context = zmq.Context()
    send, receive = context.socket(zmq.PUSH), context.socket(zmq.PULL)
    send.connect(scheduler)
    receive.bind(client)
    failed: list[int] = []
    before = signal.signal(signal.SIGQUIT, lambda *_: failed.append(1))  # sent if it fails
    log = tmp_path / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(tmp_path), backend, scheduler, client],
            env={**os.environ, "PYTHONPATH": str(HERE)},
            stdout=file,
            stderr=file,
        )
    try:
        io, texts = sglang_on_cpu.load().io, []
        ids = encoded(tokenizer, "A 🦉 flies.")
        for each in sglang_on_cpu.batches({"a": Script([1], [[i] for i in ids])}, tokenizer):
            io.sock_send(send, each)
            assert receive.poll(120_000), log.read_text()
            texts += io.sock_recv(receive).output_strs
    finally:
        process.terminate()
        process.wait()
        signal.signal(signal.SIGQUIT, before)
        context.destroy(linger=0)
    assert not failed
    assert "".join(texts) == "A 🦉 flies."
    assert "streamdec 0.1.0 decodes the text of requests" in log.read_text()


# --- texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*BYTE_LEVEL, *BYTE_FALLBACK])
def test_random_requests_have_the_text_of_the_oracle(name: str) -> None:
    """And each difference from SGLang's own text has a known cause. See ``sglang_texts.py``."""
    counts, _ = compare(name, 150, random.randrange(2**32))
    assert not [kind for kind in counts if kind.startswith("unexplained")], counts
    assert counts["alike"] > 30, counts  # so that most of what is drawn is real text


def _zoo() -> list[str]:
    return sorted(path.parent.name for path in SHARED.glob("*/tokenizer.json"))


@pytest.mark.parametrize("name", _zoo())
def test_a_text_without_a_prompt_is_the_full_decode(name: str) -> None:
    tokenizer = sglang_on_cpu.tokenizer(name)
    ids = encoded(tokenizer, "Well, we don't know: 1,000 naïve 🦉 owls . ok?  Yes !")
    expected = tokenizer.decode(ids, skip_special_tokens=True)
    assert text_of(tokenizer, "", ids)[1] == expected
    assert text_of(tokenizer, "", ids, size=3)[1] == expected


def test_any_batch_gives_the_same_text(tokenizer: Any) -> None:
    source, draw = Source(tokenizer), random.Random(5)
    scripts = [source.script(draw) for _ in range(256)]
    oracle = Oracle(tokenizer)
    together = outcomes(scripts, tokenizer)
    assert len(together) == 256
    for outcome in together[:40]:
        (alone,) = outcomes([outcome.script], tokenizer)
        assert alone.texts["plugin"] == outcome.texts["plugin"]
        if "stop" not in outcome.script.params and "stop_regex" not in outcome.script.params:
            assert "".join(outcome.texts["plugin"]) == oracle.expected(outcome)


def test_a_prompt_that_ends_inside_a_character(tokenizer: Any) -> None:
    ids = encoded(tokenizer, "ok 🦉 done")
    split = next(n for n in range(1, len(ids)) if tokenizer.decode(ids[:n]).endswith("\ufffd"))
    script = Script(ids[:split], [[each] for each in ids[split:]])
    (outcome,) = outcomes([script], tokenizer)
    assert "".join(outcome.texts["plugin"]) == "🦉 done"
    assert "".join(outcome.texts["SGLang"]) != "🦉 done"


def test_stray_bytes_are_output_at_once(tokenizer: Any) -> None:
    stray = tokenizer.convert_tokens_to_ids("ī")  # 0x89
    script = Script([], [[stray]] * 50)
    (outcome,) = outcomes([script], tokenizer)
    assert outcome.texts["plugin"] == ["\ufffd"] * 50
    assert outcome.texts["SGLang"] == [""] * 49 + ["\ufffd" * 50]


@pytest.mark.parametrize(("text", "ends"), [("你好，世", (5, 10)), ("A 世好a世", (6, 10))])
def test_no_text_is_output_twice(tokenizer: Any, text: str, ends: tuple[int, int]) -> None:
    """SGLang repeats text if steps end inside characters and their printable part gets shorter."""
    ids = [tokenizer.convert_tokens_to_ids(_LETTERS[byte]) for byte in text.encode()]
    steps = [ids[: ends[0]], ids[ends[0] : ends[1]], ids[ends[1] :]]
    found: dict[str, str] = {}
    for name, method in (("plugin", None), ("SGLang", sglang_on_cpu.stock())):
        given = [batch(["a"], [step]) for step in steps]
        given.append(batch(["a"], [[]], finished_reasons=[{}]))
        manager = sglang_on_cpu.make_manager(tokenizer)
        found[name] = "".join(sglang_on_cpu.run(manager, given, method)["a"])
    assert found["plugin"] == text
    assert len(found["SGLang"]) > len(text)


def test_a_character_that_the_limit_cuts_becomes_a_replacement(tokenizer: Any) -> None:
    ids = encoded(tokenizer, "ok 🦉")
    assert text_of(tokenizer, "x", ids[:-1]) == ("ok \ufffd", "ok \ufffd")


def test_an_unknown_id_has_no_text(tokenizer: Any) -> None:
    ids = [*encoded(tokenizer, "a"), len(tokenizer) + 7, *encoded(tokenizer, "b")]
    assert text_of(tokenizer, "x", ids) == ("a!b", "ab")


def test_invalid_ids_in_the_prompt_are_only_context(tokenizer: Any) -> None:
    """Placeholders of images are negative."""
    given = batch(["a"], [[-101, -102, *encoded(tokenizer, "ok")]], read_offsets=[2])
    assert sglang_on_cpu.make_manager(tokenizer)._decode_batch_token_id_output(given) == ["ok"]


@pytest.mark.parametrize("skip", [True, False])
@pytest.mark.parametrize("spaces", [True, False])
def test_special_tokens(tokenizer: Any, skip: bool, spaces: bool) -> None:
    ids = encoded(tokenizer, "a<|im_start|><|im_end|>b")
    params = {"skip_special_tokens": skip, "spaces_between_special_tokens": spaces}
    theirs, ours = text_of(tokenizer, "x", ids, **params)
    assert theirs == ours == ("ab" if skip else "a<|im_start|><|im_end|>b")


# --- stops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"stop": "END"}, "one two "),
        ({"stop": "END", "no_stop_trim": True}, "one two END"),
        ({"stop": ["nothing", "wo E"]}, "one t"),
        ({"stop_token_ids": "END"}, "one two"),
        ({"stop_token_ids": "END", "no_stop_trim": True}, "one two END"),
    ],
)
@pytest.mark.parametrize("size", [1, 3])
def test_stops_are_cut_as_sglang_cuts_them(
    tokenizer: Any, params: dict[str, Any], expected: str, size: int
) -> None:
    if "stop_token_ids" in params:
        (token_id,) = encoded(tokenizer, " END")
        params = {**params, "stop_token_ids": [token_id]}
    ids = encoded(tokenizer, "one two END three")
    assert text_of(tokenizer, "x", ids, size, **params) == (expected, expected)


@pytest.mark.parametrize("name", ["gpt2", "phi-3-vision"])
@pytest.mark.parametrize("stop", ["🦉🦉", "世界", "é🦉"])
def test_no_part_of_a_stop_is_output_early(name: str, stop: str) -> None:
    """SGLang's scheduler lets go of a possible stop when a character of it is unfinished."""
    tokenizer = sglang_on_cpu.tokenizer(name)
    ids = encoded(tokenizer, f"ok{stop} more")
    assert text_of(tokenizer, "x", ids, stop=stop)[1].strip() == "ok"


def test_withheld_text_is_output_if_no_stop_follows() -> None:
    tokenizer = sglang_on_cpu.tokenizer("phi-3-vision")
    ids = encoded(tokenizer, "ok 🦉🐍 more")
    assert text_of(tokenizer, "x", ids, stop="🦉🦉")[1] == " ok 🦉🐍 more"


def test_text_is_not_withheld_for_long(tokenizer: Any) -> None:
    """Each step of two tokens ends inside a character."""
    (word,), byte = encoded(tokenizer, " word"), tokenizer.convert_tokens_to_ids("ð")
    manager = sglang_on_cpu.make_manager(tokenizer)
    texts = [
        manager._decode_batch_token_id_output(batch(["a"], [[word, byte]]))[0] for _ in range(100)
    ]
    given = "".join(texts)
    assert given.count(" word") >= 100 - detokenizer._MAX_LATE // len(" word")


@pytest.mark.parametrize("is_gpt_oss", [True, False])
def test_a_stop_token_that_closes_a_tool_call_stays(tokenizer: Any, is_gpt_oss: bool) -> None:
    (word,) = encoded(tokenizer, "word")
    for theirs in (True, False):
        manager = sglang_on_cpu.make_manager(tokenizer)
        manager.tool_close_token_ids = frozenset() if is_gpt_oss else frozenset({word})
        given = batch(["a"], [[word, word]], finished_reasons=[{"matched": word}])
        decode = sglang_on_cpu.stock() if theirs else type(manager)._decode_batch_token_id_output
        assert decode(manager, given) == ["word" if is_gpt_oss else "wordword"]


def test_an_aborted_request_gets_all_its_text(tokenizer: Any) -> None:
    ids = encoded(tokenizer, "one two three four")
    script = Script([1, 2], [[each] for each in ids], abort_at=2)
    (outcome,) = outcomes([script], tokenizer)
    assert outcome.reason["type"] == "abort"
    assert "".join(outcome.texts["plugin"]) == "one two three"


# --- states ---------------------------------------------------------------------------------------


def test_a_health_check_leaves_no_state(manager: Manager) -> None:
    """It is one token after the prompt [0], and the client has often gone."""
    script = Script([0], [[11]])
    rid = sglang_on_cpu.load().detokenizer.HEALTH_CHECK_RID_PREFIX + "_1"
    texts = sglang_on_cpu.run(manager, sglang_on_cpu.batches({rid: script}, manager.tokenizer))
    assert texts == {rid: [","]}
    assert not manager.decode_status


def test_a_batch_of_more_requests_than_states(tokenizer: Any) -> None:
    """SGLang's own code raises RuntimeError, and the server ends."""
    ids = encoded(tokenizer, "one two three")
    named = {f"{number}": Script([1] * 5, [[each] for each in ids]) for number in range(8)}
    given = [*sglang_on_cpu.batches(named, tokenizer)]
    small = sglang_on_cpu.make_manager(tokenizer, capacity=4)
    with pytest.raises(RuntimeError, match="Decode status not found"):
        sglang_on_cpu.run(small, given, sglang_on_cpu.stock())
    texts = sglang_on_cpu.run(sglang_on_cpu.make_manager(tokenizer, capacity=4), given)
    assert {*map("".join, texts.values())} == {"one two three"}


def test_two_requests_with_one_name_in_a_batch(manager: Manager) -> None:
    """SGLang's own code raises RuntimeError, and the server ends."""
    given = batch(["a", "a"], [[40], [41]], finished_reasons=[{}, {}])
    with pytest.raises(RuntimeError, match="Decode status not found"):
        sglang_on_cpu.stock()(sglang_on_cpu.make_manager(manager.tokenizer), given)
    assert manager._decode_batch_token_id_output(given) == ["I", "J"]


def test_a_finish_without_new_ids_outputs_the_held_text(manager: Manager) -> None:
    byte = manager.tokenizer.convert_tokens_to_ids("ð")  # 0xF0
    assert manager._decode_batch_token_id_output(batch(["a"], [[40, byte]])) == [""]
    last = batch(["a"], [[]], finished_reasons=[{"type": "abort"}])
    assert manager._decode_batch_token_id_output(last) == ["I\ufffd"]
    assert not manager.decode_status


def test_a_request_name_can_be_used_again(manager: Manager) -> None:
    for _ in range(2):
        given = batch(["a"], [[40]], finished_reasons=[{"type": "length"}])
        assert manager._decode_batch_token_id_output(given) == ["I"]


# --- what SGLang decodes --------------------------------------------------------------------------


def test_a_tokenizer_that_is_not_supported(said: pytest.LogCaptureFixture) -> None:
    class Letters:
        is_fast = True

        def __len__(self) -> int:
            return 256

        def batch_decode(self, ids: list[list[int]], **_: object) -> list[str]:
            return [bytes(each).decode() for each in ids]

    manager = sglang_on_cpu.make_manager(Letters())
    for number in range(2):
        assert manager._decode_batch_token_id_output(batch([f"{number}"], [[104, 105]])) == ["hi"]
    (line,) = lines(said)
    assert "(Letters: not a fast tokenizer of transformers)" in line


def test_a_tokenizer_that_overrides_decode(
    monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    upper = sglang_on_cpu.tokenizer("gpt2")
    monkeypatch.setattr(upper, "batch_decode", lambda ids, **_: ["OWN" for _ in ids], raising=False)
    manager = sglang_on_cpu.make_manager(upper)
    given = batch(["a"], [[40]], finished_reasons=[{}])
    assert manager._decode_batch_token_id_output(given) == ["OWN"]
    (line,) = lines(said)
    assert "it has its own batch_decode()" in line


def test_clean_up_is_sglangs(
    monkeypatch: pytest.MonkeyPatch, said: pytest.LogCaptureFixture
) -> None:
    tokenizer = sglang_on_cpu.tokenizer("bert-base-uncased")
    monkeypatch.setattr(tokenizer, "clean_up_tokenization_spaces", True)
    ids = encoded(tokenizer, "do n ' t")
    expected = tokenizer.decode(ids)
    given = batch(["a"], [ids], finished_reasons=[{}])
    manager = sglang_on_cpu.make_manager(tokenizer)
    assert manager._decode_batch_token_id_output(given) == [expected]
    (line,) = lines(said)
    assert "clean_up_tokenization_spaces" in line


def test_another_tokenizer_is_detected(manager: Manager) -> None:
    given = batch(["a"], [[40]], finished_reasons=[{}])
    assert manager._decode_batch_token_id_output(given) == ["I"]
    manager.tokenizer = sglang_on_cpu.tokenizer("gpt2")
    manager.vocab_size = len(manager.tokenizer)
    assert manager._decode_batch_token_id_output(given) == [manager.tokenizer.decode([40])]


def test_a_request_that_begins_with_a_text_is_sglangs(
    manager: Manager, said: pytest.LogCaptureFixture
) -> None:
    given = batch(["a", "b"], [[40], [41]], decoded_texts=["before", ""])
    assert manager._decode_batch_token_id_output(given) == ["I", "J"]
    given = batch(["a", "b"], [[40], [41]], finished_reasons=[{}, {}])
    assert manager._decode_batch_token_id_output(given) == ["I", "J"]
    assert [line for line in lines(said) if "begin with a text" in line]


# --- failures -------------------------------------------------------------------------------------


def failing(request: Any, after: int) -> None:
    """Make the decoding of ``request`` fail after a number of ids."""
    step, left = request.step, iter(range(after))

    def broken(token_id: int) -> str:
        if next(left, None) is None:
            raise MemoryError("no more")
        return str(step(token_id))

    request.step = broken


@pytest.mark.parametrize("size", [1, 3, 4])
def test_sglang_takes_over_a_request_that_fails(
    tokenizer: Any, size: int, said: pytest.LogCaptureFixture
) -> None:
    """At any id, also inside a character; and the other requests continue."""
    text = "a 🦉🦉 naïve 世界🦉"
    ids = encoded(tokenizer, text)
    steps = [ids[place : place + size] for place in range(0, len(ids), size)]
    named = {name: Script(encoded(tokenizer, "hello"), steps) for name in "abc"}
    given = [*sglang_on_cpu.batches(named, tokenizer)]
    for after in range(len(ids) - size):
        logs._said.clear()
        said.clear()
        manager = sglang_on_cpu.make_manager(tokenizer)
        texts = sglang_on_cpu.run(manager, given[:1])
        failing(manager.decode_status["b"], after)
        for rid, more in sglang_on_cpu.run(manager, given[1:]).items():
            texts[rid] += more
        assert {rid: "".join(each) for rid, each in texts.items()} == dict.fromkeys(named, text)
        assert not manager.decode_status
        assert len([line for line in lines(said) if "MemoryError" in line]) == 1


def test_a_request_that_cannot_begin_is_sglangs(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(detokenizer.BatchDecoder, "_begun", broken)
    assert manager._decode_batch_token_id_output(batch(["a"], [[40]])) == ["I"]
    assert manager._decode_batch_token_id_output(batch(["a"], [[41]])) == ["J"]


def test_a_request_that_sglang_cannot_decode_either_fails_alone(
    manager: Manager, said: pytest.LogCaptureFixture
) -> None:
    names = ["a", "b"]
    assert manager._decode_batch_token_id_output(batch(names, [[40], [40]])) == ["I", "I"]
    ids = [[None], [41]]
    given = batch(names, [[], []], decode_ids=ids)
    assert manager._decode_batch_token_id_output(given) == ["", "J"]
    last = batch(names, [[41], [41]], finished_reasons=[{}, {}])
    assert manager._decode_batch_token_id_output(last)[1] == "J"
    assert not manager.decode_status
    assert len([line for line in lines(said) if "a request gets no text" in line]) == 1


# --- the README -----------------------------------------------------------------------------------


def test_the_readme_names_what_was_tried() -> None:
    page = (HERE.parent / "README.md").read_text("utf-8")
    assert f"SGLang {', '.join(TRIED)}" in page
    assert f"`{SWITCH}=off`" in page


def test_the_classes_of_differences_are_in_the_readme() -> None:
    """Each class that ``sglang_texts.py`` knows is a row."""
    page = (HERE.parent / "README.md").read_text("utf-8")
    for words in (
        "ends inside a character",
        "does not have",
        "not UTF-8",
        "repeats text",
        "part of the stop",
    ):
        assert words in page
