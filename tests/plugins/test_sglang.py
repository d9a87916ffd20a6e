"""The plugin of SGLang, with stand-ins for SGLang's classes."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import pytest

from tests.plugins.stand_ins import (
    LIBRARY,
    PLUGINS,
    SGLANG,
    differences,
    encoded,
    plugged,
    sglang_manager,
)
from tests.plugins.stand_ins import sglang_batch as batch

METHOD = "_decode_batch_token_id_output"


@pytest.fixture
def engine() -> Iterator[SimpleNamespace]:
    """SGLang and the plugin, which is not registered yet."""
    with plugged(SGLANG) as found:
        yield found


@pytest.fixture
def on(engine: SimpleNamespace) -> SimpleNamespace:
    engine.plugin.register()
    engine.hooks.apply_hooks()
    return engine


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "sglang.streamdec")
    return caplog


def texts(
    engine: SimpleNamespace,
    ids: Sequence[int],
    size: int,
    reason: dict[str, Any],
    manager: Any = None,
    decode: Any = None,
    prompt: Sequence[int] = (),
    no_stop_trim: bool = False,
) -> list[str]:
    """Return the texts of a request with steps of ``size`` ids; the last step has ``reason``."""
    manager = manager or sglang_manager(engine)
    decode = decode or getattr(type(manager), METHOD)
    found = []
    for place in range(0, len(ids), size):
        is_first, is_last = place == 0, place + size >= len(ids)
        given = batch(
            engine,
            {"a": [*(prompt if is_first else ()), *ids[place : place + size]]},
            read_offsets=[len(prompt)],
            finished_reasons=[reason if is_last else None],
            no_stop_trim=[no_stop_trim],
        )
        found += decode(manager, given)
    assert not manager.decode_status
    return found


TEXT = "one two 🦉 STOP"
LENGTH: dict[str, Any] = {"type": "length"}
STOP = {"type": "stop", "matched": "STOP"}
(END,) = encoded("P")
CASES: dict[str, tuple[str, dict[str, Any], bool, str]] = {
    "the limit": (TEXT, LENGTH, False, TEXT),
    "an abort": ("one two 🦉", {"type": "abort"}, False, "one two 🦉"),
    "a stop": (TEXT, STOP, False, "one two 🦉 "),
    "a visible stop": (TEXT + "!", STOP, True, TEXT),
    "a stop token": (TEXT, {"type": "stop", "matched": END}, False, TEXT[:-1]),
    "a visible stop token": (TEXT, {"type": "stop", "matched": END}, True, TEXT),
    "a stop that is not in the text": ("one", STOP, False, "one"),
}
"""Names; the text, why it ends, whether the stop is shown, and the text that clients get."""


def cases(engine: SimpleNamespace, decode: Any = None) -> dict[str, str]:
    """Return the text of each case, in steps of one, of two and of twenty ids."""
    return {
        f"{name}, {size} ids": "".join(
            texts(engine, encoded(text), size, reason, None, decode, (1, 2), shows)
        )
        for name, (text, reason, shows, _) in CASES.items()
        for size in (1, 2, 20)
        # SGLang sends the ids of a possible stop at once; with one id a step it is out already.
        if reason is not STOP or size == 20
    }


# --- texts ----------------------------------------------------------------------------------------


def test_texts_are_those_of_sglang(engine: SimpleNamespace) -> None:
    expected = cases(engine)
    engine.plugin.register()
    engine.hooks.apply_hooks()
    assert cases(engine) == expected
    assert {name.partition(",")[0]: text for name, text in expected.items()} == {
        name: text for name, (_, _, _, text) in CASES.items()
    }


def test_a_prompt_that_ends_inside_a_character_and_a_cut(on: SimpleNamespace) -> None:
    *ids, last = encoded("a 🦉")
    assert texts(on, [last], 1, LENGTH, prompt=ids) == ["🦉"]
    assert "".join(texts(on, ids, 1, LENGTH)) == "a \ufffd"
    invalid_prompt = [-101, -102]  # the ids of an image
    assert "".join(texts(on, ids, 9, LENGTH, prompt=invalid_prompt)) == "a \ufffd"


def test_text_waits_until_the_character_after_it_is_complete(on: SimpleNamespace) -> None:
    """The scheduler gives a possible stop away when a character after it begins."""
    manager = sglang_manager(on)
    ids = encoded("ok 🦉")
    decode = getattr(manager, METHOD)
    assert decode(batch(on, {"a": ids[:-1]})) == [""]
    assert decode(batch(on, {"a": ids[-1:]})) == ["ok 🦉"]
    assert decode(batch(on, {"b": ids[:-1] * 9})) != [""]


def test_requests_of_a_batch_begin_and_end_independently(on: SimpleNamespace) -> None:
    manager = sglang_manager(on, capacity=2)
    decode = getattr(manager, METHOD)
    one, two = encoded("one"), encoded(" two")
    rows = dict.fromkeys("abc", one)
    assert decode(batch(on, rows)) == ["one"] * 3
    rows = dict.fromkeys("bcd", two)
    ends = [LENGTH, None, {"type": "abort"}]
    assert decode(batch(on, rows, finished_reasons=ends)) == [" two"] * 3
    assert [*manager.decode_status] == ["c"]


def test_special_tokens(on: SimpleNamespace) -> None:
    ids = encoded("<eos>a")
    for skip, expected in ((True, "a"), (False, "<eos>a")):
        given = batch(on, {"a": ids}, skip_special_tokens=[skip], finished_reasons=[LENGTH])
        assert getattr(sglang_manager(on), METHOD)(given) == [expected]


# --- requests that SGLang decodes -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("batch_decode", lambda ids, **_: ["own" for _ in ids], "it has its own batch_decode()"),
        ("clean_up_tokenization_spaces", True, "clean_up_tokenization_spaces"),
    ],
)
def test_tokenizers_that_are_not_supported(
    on: SimpleNamespace, log: pytest.LogCaptureFixture, name: str, value: Any, reason: str
) -> None:
    manager = sglang_manager(on)
    setattr(manager.tokenizer, name, value)
    expected = texts(on, encoded(TEXT), 1, LENGTH, manager, _stock(on))
    assert texts(on, encoded(TEXT), 1, LENGTH, manager) == expected
    assert f"(TokenizersBackend: {reason})" in log.text


def _stock(engine: SimpleNamespace) -> Any:
    method = getattr(engine.manager.DetokenizerManager, METHOD)
    return getattr(method, "__wrapped__", method)


def test_another_kind_of_tokenizer_and_a_new_one(
    on: SimpleNamespace, log: pytest.LogCaptureFixture
) -> None:
    manager = sglang_manager(on)
    ours, manager.tokenizer = manager.tokenizer, object()
    with pytest.raises(AttributeError, match="batch_decode"):  # from SGLang's own code
        texts(on, encoded("one"), 9, LENGTH, manager)
    assert "(object: not a fast tokenizer of transformers)" in log.text
    manager.decode_status.clear()
    manager.tokenizer = ours
    assert texts(on, encoded("one"), 9, LENGTH, manager) == ["one"]
    assert "STREAMDEC_SGLANG=off turns it off" in log.text


def test_a_request_that_begins_with_a_text(
    on: SimpleNamespace, log: pytest.LogCaptureFixture
) -> None:
    decode = getattr(sglang_manager(on), METHOD)
    rows = {"a": encoded("one"), "b": encoded("one")}
    assert decode(batch(on, rows, decoded_texts=["before", ""])) == ["one", "one"]
    assert decode(batch(on, rows, finished_reasons=[LENGTH] * 2)) == ["one", "one"]
    assert "begin with a text" in log.text


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("text", ["a 🦉🦉 naïve 世界🦉", "<eos>🦉<eos><eos>é"])
def test_sglang_continues_after_an_error(
    on: SimpleNamespace, log: pytest.LogCaptureFixture, size: int, text: str
) -> None:
    """At any id, also inside a character."""
    ids = encoded(text)
    expected = LIBRARY.decode(ids)
    for after in range(len(ids) - size):
        manager = sglang_manager(on)
        found = getattr(manager, METHOD)(batch(on, {"a": [1, 2, 3, *ids[:size]]}, read_offsets=[3]))
        fail(manager.decode_status["a"], after)
        found += texts(on, ids[size:], size, LENGTH, manager)
        assert "".join(found) == expected, after
    assert "continues with a request after a MemoryError" in log.text


def fail(request: Any, after: int) -> None:
    step, left = request.step, iter(range(after))

    def fails(token_id: int) -> str:
        if next(left, None) is None:
            raise MemoryError
        return str(step(token_id))

    request.step = fails


def test_a_request_that_cannot_begin(on: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on.ours.BatchDecoder, "_begun", lambda *_: 1 / 0)
    assert "".join(texts(on, encoded("one"), 1, LENGTH)) == "one"


def test_a_request_that_sglang_cannot_decode_either(
    on: SimpleNamespace, log: pytest.LogCaptureFixture
) -> None:
    manager = sglang_manager(on)
    decode = getattr(manager, METHOD)
    one = encoded("one")
    assert decode(batch(on, {"a": one, "b": one})) == ["one", "one"]
    assert decode(batch(on, {"a": [], "b": []}, decode_ids=[[None], one])) == ["", "one"]
    ends = batch(on, {"a": one, "b": one}, finished_reasons=[LENGTH] * 2)
    assert decode(ends)[1] == "one"
    assert "a request gets no text" in log.text
    assert not manager.decode_status


def test_a_state_that_was_dropped(on: SimpleNamespace, log: pytest.LogCaptureFixture) -> None:
    manager = sglang_manager(on, capacity=1)
    decode = getattr(manager, METHOD)
    one = encoded("one")
    given = batch(on, {"a": [1, 2, *one], "b": [1, 2, *one]}, read_offsets=[2, 2])
    assert decode(given) == ["one", "one"]
    assert decode(batch(on, {"a": one[:1]}, read_offsets=[2])) == [LIBRARY.decode(one[:1])]
    assert "SGLANG_DETOKENIZER_MAX_STATES" in log.text


def test_the_hook_is_registered_once(engine: SimpleNamespace) -> None:
    before = _stock(engine)
    for _ in range(2):
        engine.plugin.register()
    ((_, hook, _),) = engine.hooks._hooks[engine.patch.TARGET]
    assert hook is engine.ours.decode_batch
    assert getattr(engine.manager.DetokenizerManager, METHOD) is before
    engine.hooks.apply_hooks()
    assert getattr(engine.manager.DetokenizerManager, METHOD).__wrapped__ is before


def test_batches_without_a_field_are_left_alone(
    engine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(engine.batch, "no_stop_trim")
    engine.plugin.register()
    assert "BatchTokenIDOutput has no no_stop_trim" in log.text
    assert not engine.hooks._hooks


@pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang is not installed: nox -s sglang")
@pytest.mark.filterwarnings("default")
def test_the_stand_ins_are_like_sglang(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures, fields, and the text of each case."""
    monkeypatch.syspath_prepend(str(PLUGINS / "sglang/tests"))
    importlib.import_module("sglang_on_cpu").load()
    assert differences("sglang") == []
    with plugged(SGLANG) as stand_in:
        expected = cases(stand_in)
    managers = "sglang.srt.managers"
    tokenizer = importlib.import_module("transformers").PreTrainedTokenizerFast
    sglang = SimpleNamespace(
        manager=importlib.import_module(f"{managers}.detokenizer_manager"),
        batch=SimpleNamespace,  # SGLang's own class has more fields that must be given
        tokenizer=tokenizer(tokenizer_object=LIBRARY, clean_up_tokenization_spaces=False),
    )
    assert cases(sglang, _stock(sglang)) == expected
