"""Stops that are ignored in reasoning, by the plugin of SGLang with stand-ins for its classes."""

from __future__ import annotations

import importlib
import logging
from array import array
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.plugins.stand_ins import in_place
from tests.support.zoo import ZOO

LIBRARY = ZOO["byte_level_trained"]()
STOP = "two"


def encoded(text: str) -> list[int]:
    return list(LIBRARY.encode(text, add_special_tokens=False).ids)


@pytest.fixture(scope="module")
def module() -> Iterator[SimpleNamespace]:
    """SGLang with the plugin."""
    with in_place(), pytest.MonkeyPatch.context() as patch:
        plugin = importlib.import_module("streamdec_sglang")
        for name in (plugin.SWITCH, plugin.STOPS_SWITCH):
            patch.delenv(name, raising=False)
        plugin.register()
        importlib.import_module("sglang.srt.plugins.hook_registry").HookRegistry.apply_hooks()
        managers = "sglang.srt.managers"
        found = SimpleNamespace(
            plugin=plugin,
            manager=importlib.import_module(f"{managers}.detokenizer_manager"),
            req=importlib.import_module(f"{managers}.schedule_batch").Req,
            serving=importlib.import_module("sglang.srt.runtime_context").get_serving(),
            stops=importlib.import_module("streamdec_sglang.stops"),
            ours=importlib.import_module("streamdec_sglang.detokenizer"),
            logs=importlib.import_module("streamdec_sglang.logs"),
            reasoning=importlib.import_module("streamdec_sglang.reasoning"),
        )
        tokenizer = importlib.import_module("transformers").PreTrainedTokenizerFast
        found.tokenizer = tokenizer(tokenizer_object=LIBRARY, clean_up_tokenization_spaces=False)
        yield found


@pytest.fixture
def engine(
    module: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[SimpleNamespace]:
    """SGLang with the plugin, without markers and without a parser."""
    caplog.set_level(logging.WARNING, "sglang.streamdec")
    monkeypatch.delenv(module.plugin.MARKERS, raising=False)
    monkeypatch.setattr(module.serving, "reasoning_parser", None)

    def forget() -> None:
        module.logs._said.clear()
        module.reasoning._setting.cache_clear()
        module.reasoning._parser_markers.cache_clear()

    forget()
    yield module
    forget()


LIMIT = object()
"""The reason of a request that has all its ids."""


class Result(NamedTuple):
    """What the client of a request has in the end."""

    text: str
    num_tokens: int
    stop: str | None


def outcome(
    engine: SimpleNamespace,
    ids: list[int],
    *,
    size: int = 1,
    stops: tuple[str, ...] = (STOP,),
    prompt: str = "a",
    markers: Any = None,
    streams: bool = True,
    no_stop_trim: bool = False,
    regex: tuple[str, ...] = (),
) -> Result:
    """Step through ``ids`` in the scheduler, and decode what it sends in the detokenizer."""
    params = SimpleNamespace(stop_strs=[*stops], stop_regex_strs=[*regex], custom_params=None)
    if markers is not None:
        params.custom_params = {engine.plugin.FIELD: markers}
    request = engine.req("a", "", array("q", encoded(prompt)), params, stream=streams)
    request.tokenizer = engine.tokenizer
    manager = engine.manager.DetokenizerManager.__new__(engine.manager.DetokenizerManager)
    manager.tokenizer, manager.vocab_size = engine.tokenizer, len(engine.tokenizer)
    manager.decode_status = engine.manager.LimitedCapacityDict(capacity=9)
    manager.tool_close_token_ids = frozenset()
    texts: list[str] = []
    for place in range(0, len(ids), size):
        new = ids[place : place + size]
        request.output_ids.extend(new)
        request.update_finish_state(len(new))
        is_end = request.finished() or place + size >= len(ids)
        is_sent = is_end or (
            not request.check_match_stop_str_prefix() if streams else place % 5 == 0
        )
        if not is_sent:
            continue
        reason = request.finished_reason.to_json() if request.finished() else None
        if is_end and reason is None:
            reason, request.finished_reason = {"type": "length"}, LIMIT
        sent, number = request.init_incremental_detokenize()
        batch = SimpleNamespace(
            rids=["a"],
            decode_ids=[array("q", sent[request.send_decode_id_offset :])],
            read_offsets=[number],
            decoded_texts=[""],
            finished_reasons=[reason],
            skip_special_tokens=[True],
            spaces_between_special_tokens=[True],
            no_stop_trim=[no_stop_trim],
        )
        request.send_decode_id_offset = len(sent)
        texts += manager._decode_batch_token_id_output(batch)
        if reason is not None:
            assert {*reason} <= {"type", "matched"}  # nothing private for the client
            length = request.finished_len or len(request.output_ids)
            return Result("".join(texts), length, reason.get("matched"))
    raise AssertionError("a request has steps")


CASES = [
    ("a", "<think>b two</think> one two", "<think>b two</think> one "),
    ("a", "one two three", "one "),
    (
        "a",
        "<think>two</think>one<think>two</think> two",
        "<think>two</think>one<think>two</think> ",
    ),
    ("a", "<think>b two three", "<think>b two three"),
    ("a<think>", "b two</think> one two", "b two</think> one "),
    ("a<think></think>", "one two three", "one "),
]
"""The prompt, what the model generates, and the text of the client."""


@pytest.mark.parametrize("by_request", [True, False])
@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(("prompt", "given", "expected"), CASES)
def test_the_markers_of_the_reasoning_parser(
    engine: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    by_request: bool,
    streams: bool,
    size: int,
    prompt: str,
    given: str,
    expected: str,
) -> None:
    monkeypatch.setattr(engine.serving, "reasoning_parser", "qwen3")
    options: dict[str, Any] = {"prompt": prompt, "size": size, "streams": streams}
    ids = encoded(given)
    before = outcome(engine, ids, **options)
    assert before.text == given.partition(STOP)[0]  # off by default
    if by_request:
        options["markers"] = "auto"
    else:
        monkeypatch.setenv(engine.plugin.MARKERS, "auto")
        engine.reasoning._setting.cache_clear()
    found = outcome(engine, ids, **options)
    assert found.text == expected
    assert found.stop == (STOP if given != expected else None)
    assert LIBRARY.decode(ids[: found.num_tokens]).startswith(expected)
    shown = outcome(engine, ids, **options, no_stop_trim=True)
    assert shown.text == expected + STOP * (given != expected)
    if not by_request:
        assert outcome(engine, ids, **options, markers=[]) == before


@pytest.mark.parametrize(
    ("parser", "message"),
    [
        (None, "without a reasoning parser"),
        ("nameless", "names no markers"),
        ("unknown", "the parser unknown failed"),
    ],
)
def test_a_parser_without_markers(
    engine: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    parser: str | None,
    message: str,
) -> None:
    monkeypatch.setattr(engine.serving, "reasoning_parser", parser)
    for _ in "12":
        assert outcome(engine, encoded("<think>two"), markers="auto").text == "<think>"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("stops count in the reasoning, too")
    assert message in line


def test_your_own_markers(engine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = encoded("(two) one two")
    (opening,), (closing,) = encoded("("), encoded(")")
    for markers in (["(", ")"], [opening, closing], ["<a>", "<b>", "(", ")"]):
        assert outcome(engine, ids, markers=markers).text == "(two) one "
    monkeypatch.setenv(engine.plugin.MARKERS, '["(", ")"]')
    engine.reasoning._setting.cache_clear()
    assert outcome(engine, ids).text == "(two) one "


@pytest.mark.parametrize("markers", ["think", ["<think>"], 3, [1.5, 2]])
def test_invalid_markers_of_a_request(
    engine: SimpleNamespace, caplog: pytest.LogCaptureFixture, markers: Any
) -> None:
    assert outcome(engine, encoded("<think>two"), markers=markers).text == "<think>"
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("SGLang's own code finds the stop strings of requests (after a ")


@pytest.mark.parametrize("value", ["think", '["<think>"]', '["a", "a"]'])
def test_invalid_markers_of_the_variable(
    engine: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    value: str,
) -> None:
    monkeypatch.setenv(engine.plugin.MARKERS, value)
    engine.reasoning._setting.cache_clear()
    assert outcome(engine, encoded("one two")).text == "one "
    assert "must be auto or a list" in caplog.text


def test_where_the_stops_of_a_request_count_everywhere(
    engine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ids, markers = encoded("(two) two"), ["(", ")"]
    assert outcome(engine, ids, markers=markers, regex=("b+",)).text == "("
    assert "in requests with stop_regex" in caplog.text
    monkeypatch.setenv("SGLANG_RUST_SERVER", "1")
    assert outcome(engine, ids, markers=markers).text == "("
    assert "Rust server" in caplog.text


@pytest.mark.parametrize(
    ("given", "stops", "expected"),
    [
        # The token of the stop has more text, or a part of a character.
        ("(a) 🦉a🦉b", ("🦉a",), "(a) "),
        ("(x STOP) STOP!!!", ("ST", "STOP"), "(x STOP) "),
        # An ignored stop, or its beginning, is next to the one that counts.
        ("(twotwo)twotwo", (STOP,), "(twotwo)"),
        ("(tw)o two", (STOP,), "(tw)o "),
        # A stop that SGLang knows, and that clients do not see.
        ("(<eos>) a<eos>b", ("a<eos>",), "() a"),
        # A missing stop.
        ("(two) 🦉", ("three",), "(two) 🦉"),
    ],
)
@pytest.mark.parametrize("size", [1, 4, 50])
def test_the_text_is_cut_at_the_stop_that_counts(
    engine: SimpleNamespace, given: str, stops: tuple[str, ...], expected: str, size: int
) -> None:
    markers = ["(", ")"]
    for streams in (True, False):
        found = outcome(
            engine, encoded(given), size=size, stops=stops, markers=markers, streams=streams
        )
        assert found.text == expected


def test_a_prompt_with_ids_of_images(engine: SimpleNamespace) -> None:
    params = SimpleNamespace(
        stop_strs=[STOP], stop_regex_strs=[], custom_params={engine.plugin.FIELD: ["(", ")"]}
    )
    request = engine.req("a", "", array("q", [-101, *encoded("("), -102, 2**30]), params)
    request.tokenizer = engine.tokenizer
    for text in ("two", ")", "two"):
        request.output_ids.extend(encoded(text))
        request.update_finish_state(len(encoded(text)))
    assert request.finished_len == len(encoded("two)")) + len(encoded("two"))


@pytest.mark.parametrize("streams", [True, False])
def test_sglang_continues_after_an_error(
    engine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    """The text is cut at the stop that SGLang finds, not at one that was ignored before."""
    text = "(two) and one more words "
    ids, markers, reads = encoded(text + STOP), ["(", ")"], len(encoded("(two) and one"))
    begin = engine.stops._after

    def failing(request: Any, read: int) -> Any:
        if read >= reads:
            raise MemoryError
        return begin(request, read)

    monkeypatch.setattr(engine.stops, "_after", failing)
    found = outcome(engine, ids, size=2, markers=markers, streams=streams)
    assert found == Result(text, len(ids), STOP)
