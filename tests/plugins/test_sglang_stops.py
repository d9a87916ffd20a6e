"""The plugin's search for stop strings, with stand-ins for SGLang's classes."""

from __future__ import annotations

import gc
import importlib
import logging
import weakref
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.stand_ins import in_place
from tests.support.zoo import ZOO

LIBRARY = ZOO["byte_level_trained"]()
TEXT = "one two 🦉\nUs\nUser: STOP and END."
STOPS = ["\nUser:", "er", "STOP", "END.", "D", "two 🦉", "🦉\n", "missing"]


def encoded(text: str) -> list[int]:
    return list(LIBRARY.encode(text, add_special_tokens=False).ids)


@pytest.fixture(scope="module")
def engine() -> Iterator[SimpleNamespace]:
    """SGLang with the plugin."""
    with in_place(), pytest.MonkeyPatch.context() as patch:
        plugin = importlib.import_module("streamdec_sglang")
        patch.delenv(plugin.SWITCH, raising=False)
        patch.delenv(plugin.STOPS_SWITCH, raising=False)
        batch = importlib.import_module("sglang.srt.managers.schedule_batch")
        found = SimpleNamespace(plugin=plugin, req=batch.Req)
        plugin.register()
        found.hooks = importlib.import_module("sglang.srt.plugins.hook_registry").HookRegistry
        found.hooks.apply_hooks()
        found.stops = importlib.import_module("streamdec_sglang.stops")
        found.logs = importlib.import_module("streamdec_sglang.logs")
        tokenizer = importlib.import_module("transformers").PreTrainedTokenizerFast
        found.tokenizer = tokenizer(tokenizer_object=LIBRARY, clean_up_tokenization_spaces=False)
        yield found


def request(
    engine: SimpleNamespace,
    stops: Sequence[str],
    *,
    regex: Sequence[str] = (),
    tokenizer: Any = None,
) -> Any:
    params = SimpleNamespace(stop_strs=[*stops], stop_regex_strs=[*regex], custom_params=None)
    made = engine.req("a", "", [], params)
    made.tokenizer = tokenizer or engine.tokenizer
    return made


def ended(
    made: Any, ids: Sequence[int], size: int = 1
) -> tuple[str | None, int | None, list[bool]]:
    """Step ``size`` ids at a time; return the stop, the length, and what was withheld."""
    withheld: list[bool] = []
    for place in range(0, len(ids), size):
        made.output_ids.extend(ids[place : place + size])
        made.update_finish_state(len(ids[place : place + size]))
        if made.finished():
            return made.finished_reason.matched, made.finished_len, withheld
        withheld.append(made.check_match_stop_str_prefix())
    return None, None, withheld


@given(
    stops=st.lists(st.sampled_from(STOPS), min_size=1, max_size=4, unique=True),
    size=st.integers(1, 5),
)
def test_a_request_ends_where_sglang_ends_it(
    engine: SimpleNamespace, stops: list[str], size: int
) -> None:
    plain = request(engine, stops)
    plain.__class__ = engine.req
    ours = ended(request(engine, stops), encoded(TEXT), size)
    theirs = ended(plain, encoded(TEXT), size)
    assert ours[:2] == theirs[:2]
    # Of a stop's beginning, also with a character after it that is not complete.
    assert [a or b for a, b in zip(ours[2], theirs[2], strict=True)] == ours[2]


def test_the_beginning_of_a_stop_is_withheld(engine: SimpleNamespace) -> None:
    ids = encoded("ab\nUser? c")
    _, _, withheld = ended(request(engine, ["\nUser:"]), ids)
    texts = [LIBRARY.decode(ids[:size]) for size in range(1, len(ids) + 1)]
    begun = [any("\nUser:".startswith(text[at:]) for at in range(len(text))) for text in texts]
    assert withheld == begun
    assert any(begun)


@pytest.mark.parametrize(("stops", "regex"), [([], []), (["a"], ["b+"])])
def test_other_requests_keep_the_class_of_sglang(
    engine: SimpleNamespace, stops: list[str], regex: list[str]
) -> None:
    assert type(request(engine, stops, regex=regex)) is engine.req
    assert type(request(engine, ["a"])) is engine.stops.CheckedReq


def test_ids_that_came_without_a_check_are_read(engine: SimpleNamespace) -> None:
    """As on another worker, which gets a request with its first ids."""
    ids = encoded("x\nUs") + encoded("er: y")
    made = request(engine, ["\nUser:"])
    made.output_ids.extend(ids[:-3])
    stop, length, _ = ended(made, ids[-3:])
    assert stop == "\nUser:"
    assert "\nUser:" in LIBRARY.decode(ids[:length])
    assert "\nUser:" not in LIBRARY.decode(ids[: (length or 0) - 1])


@pytest.mark.parametrize(
    ("stops", "told"),
    [(["a\ufffd"], "U+FFFD"), (["", "x"], "after a ValueError"), ([1], "after a TypeError")],
)
def test_what_is_not_supported_is_left_to_sglang_with_one_line(
    engine: SimpleNamespace, stops: list[Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine.logs._said.clear()
    with caplog.at_level(logging.WARNING, "sglang.streamdec"):
        for _ in range(2):
            made = request(engine, stops)
            made.output_ids.append(encoded("b")[0])
            if stops == [1]:
                with pytest.raises(TypeError, match="'int'"):  # as without the plugin
                    made.update_finish_state()
            else:
                made.update_finish_state()
            assert type(made) is engine.req
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("SGLang's own code finds the stop strings of requests")
    assert told in line


def test_another_tokenizer_is_left_to_sglang(engine: SimpleNamespace) -> None:
    made = request(engine, ["b"], tokenizer=SimpleNamespace(decode=lambda *_, **__: "ab"))
    made.output_ids.append(1)
    made.update_finish_state()
    assert type(made) is engine.req
    assert (made.finished_reason.matched, made.finished_len) == ("b", 1)


def test_an_error_of_streamdec_does_not_reach_the_scheduler(
    engine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine.logs._said.clear()

    class Broken:
        finished = False

        def __init__(self, *_: Any, **__: Any) -> None:
            self.jailed = ""

        def feed(self, _: Any) -> None:
            pass

        def step(self, _: int) -> None:
            raise RuntimeError("broken")

    monkeypatch.setattr(engine.stops, "StopSequenceDecoder", Broken)
    ids = encoded("no\nUser: x")
    with caplog.at_level(logging.WARNING, "sglang.streamdec"):
        stop, length, _ = ended(request(engine, ["\nUser:"]), ids)
    assert stop == "\nUser:"
    assert "\nUser:" in LIBRARY.decode(ids[:length])
    assert [record.getMessage() for record in caplog.records] == [
        "SGLang's own code finds the stop strings of requests (after a RuntimeError)"
    ]


def test_the_decoder_is_freed_with_its_request(engine: SimpleNamespace) -> None:
    made = request(engine, ["x"])
    ended(made, encoded("abc"))
    decoder = weakref.ref(made.streamdec)
    gc.disable()
    try:
        del made
        assert decoder() is None
    finally:
        gc.enable()
    made = request(engine, ["b"])
    assert ended(made, encoded("ab"))[0] == "b"
    assert made.streamdec is None


def test_the_switch_leaves_the_scheduler_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    with in_place():
        plugin = importlib.import_module("streamdec_sglang")
        monkeypatch.setenv(plugin.STOPS_SWITCH, "off")
        plugin.register()
        patch = importlib.import_module("streamdec_sglang.patch")
        assert [*patch.HookRegistry._hooks] == [patch.TARGET]
