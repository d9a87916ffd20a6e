"""The plugin's search for stop strings in SGLang's scheduler, with stand-ins for its classes."""

from __future__ import annotations

import gc
import importlib
import logging
import weakref
from array import array
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plugins.stand_ins import (
    LIBRARY,
    PARENTHESES,
    SGLANG,
    STOP,
    Result,
    encoded,
    in_place,
    plugged,
    sglang_batch,
    sglang_manager,
)

TEXT = "one two 🦉\nUs\nUser: STOP and END."
STOPS = ["\nUser:", "er", "STOP", "END.", "D", "two 🦉", "🦉\n", "missing"]
LEFT = "SGLang's own code finds the stop strings of requests (after a "


@pytest.fixture(scope="module")
def module() -> Iterator[SimpleNamespace]:
    with plugged(SGLANG) as found:
        found.plugin.register()
        found.hooks.apply_hooks()
        yield found


@pytest.fixture
def engine(module: SimpleNamespace, caplog: pytest.LogCaptureFixture) -> SimpleNamespace:
    """SGLang with the plugin, which has logged nothing yet."""
    caplog.set_level(logging.WARNING, "sglang.streamdec")
    module.logs._said.clear()
    return module


def request(
    engine: SimpleNamespace,
    stops: Sequence[Any],
    *,
    regex: Sequence[str] = (),
    tokenizer: Any = None,
    prompt: Sequence[int] = (),
    markers: Any = None,
    streams: bool = True,
) -> Any:
    custom = None if markers is None else {engine.plugin.FIELD: markers}
    params = SimpleNamespace(stop_strs=[*stops], stop_regex_strs=[*regex], custom_params=custom)
    made = engine.req("a", "", array("q", prompt), params, stream=streams)
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


# --- where a request ends -------------------------------------------------------------------------


@given(
    stops=st.lists(st.sampled_from(STOPS), min_size=1, max_size=4, unique=True),
    size=st.integers(1, 5),
)
def test_a_request_ends_where_sglang_ends_it(
    module: SimpleNamespace, stops: list[str], size: int
) -> None:
    plain = request(module, stops)
    plain.__class__ = module.req
    ours = ended(request(module, stops), encoded(TEXT), size)
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
    line, *owl = encoded("\n🦉")  # withheld until the character after it is complete
    _, _, withheld = ended(request(engine, ["\nUser:"]), [line, *owl])
    assert withheld == [*[True] * len(owl), False]


def test_a_stop_is_withheld_while_sglang_may_find_it(engine: SimpleNamespace) -> None:
    """It never does here: the stop has three tokens, and it looks at two."""
    stop, _, withheld = ended(request(engine, ["🦉"]), encoded("a🦉b🦉cd"))
    assert stop is None
    assert withheld == [*[False] * 3, True, True, *[False] * 2, True, True, False]


def test_ids_that_came_without_a_check_are_read(engine: SimpleNamespace) -> None:
    """As on another worker, which gets a request with its first ids."""
    ids = encoded("x\nUs") + encoded("er: y")
    made = request(engine, ["\nUser:"])
    made.output_ids.extend(ids[:-3])
    stop, length, _ = ended(made, ids[-3:])
    assert stop == "\nUser:"
    assert "\nUser:" in LIBRARY.decode(ids[:length])
    assert "\nUser:" not in LIBRARY.decode(ids[: (length or 0) - 1])


@pytest.mark.parametrize(("stops", "regex"), [([], []), (["a"], ["b+"])])
def test_other_requests_keep_the_class_of_sglang(
    engine: SimpleNamespace, stops: list[str], regex: list[str]
) -> None:
    assert type(request(engine, stops, regex=regex)) is engine.req
    assert type(request(engine, ["a"])) is engine.stops.CheckedReq
    assert type(engine.req("a", "", array("q"), SimpleNamespace())) is engine.req  # no such fields


@pytest.mark.parametrize(
    ("stops", "told"),
    [(["a\ufffd"], "U+FFFD"), (["", "x"], "after a ValueError"), ([1], "after a TypeError")],
)
def test_what_is_not_supported_is_left_to_sglang_with_one_line(
    engine: SimpleNamespace, stops: list[Any], told: str, caplog: pytest.LogCaptureFixture
) -> None:
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
    assert told in line


def test_another_tokenizer_is_left_to_sglang(
    engine: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    class Slow:
        def decode(self, *_: Any, **__: Any) -> str:
            return "ab"

    made = request(engine, ["b"], tokenizer=Slow())
    assert ended(made, [1])[:2] == ("b", 1)
    assert type(made) is engine.req
    assert "(Slow: not a fast tokenizer of transformers)" in caplog.text


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


# --- reasoning ------------------------------------------------------------------------------------

LIMIT = object()
"""The reason of a request that has all its ids."""


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
    about: dict[str, Any] = {"regex": regex, "markers": markers, "streams": streams}
    made = request(engine, stops, prompt=encoded(prompt), **about)
    manager = sglang_manager(engine, capacity=9)
    texts: list[str] = []
    for place in range(0, len(ids), size):
        new = ids[place : place + size]
        made.output_ids.extend(new)
        made.update_finish_state(len(new))
        is_end = made.finished() or place + size >= len(ids)
        is_sent = is_end or (not made.check_match_stop_str_prefix() if streams else place % 5 == 0)
        if not is_sent:
            continue
        reason = made.finished_reason.to_json() if made.finished() else None
        if is_end and reason is None:
            reason, made.finished_reason = {"type": "length"}, LIMIT
        sent, number = made.init_incremental_detokenize()
        batch = sglang_batch(
            engine,
            {"a": sent[made.send_decode_id_offset :]},
            read_offsets=[number],
            finished_reasons=[reason],
            no_stop_trim=[no_stop_trim],
        )
        made.send_decode_id_offset = len(sent)
        texts += manager._decode_batch_token_id_output(batch)
        if reason is not None:
            assert {*reason} <= {"type", "matched"}  # nothing private for the client
            length = made.finished_len or len(made.output_ids)
            return Result("".join(texts), length, reason.get("matched"))
    raise AssertionError("a request has steps")


@pytest.mark.parametrize(
    ("rust", "regex", "told"),
    [("", ("b+",), "in requests with stop_regex"), ("1", (), "Rust server")],
)
def test_where_stops_count_between_markers_too(
    engine: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    rust: str,
    regex: tuple[str, ...],
    told: str,
) -> None:
    """One line says so."""
    monkeypatch.setenv("SGLANG_RUST_SERVER", rust)
    for _ in "12":
        found = outcome(engine, encoded("(<think>two"), markers=PARENTHESES, regex=regex)
        assert found.text == "(<think>"
    (line,) = [record.getMessage() for record in caplog.records]
    assert told in line


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
@pytest.mark.parametrize("streams", [True, False])
def test_the_text_is_cut_at_the_stop_that_counts(
    engine: SimpleNamespace,
    given: str,
    stops: tuple[str, ...],
    expected: str,
    size: int,
    streams: bool,
) -> None:
    about: dict[str, Any] = {"size": size, "stops": stops, "streams": streams}
    assert outcome(engine, encoded(given), markers=PARENTHESES, **about).text == expected


def test_a_prompt_with_ids_of_images(engine: SimpleNamespace) -> None:
    prompt = [-101, *encoded("("), -102, 2**30]
    made = request(engine, [STOP], prompt=prompt, markers=PARENTHESES)
    ids = encoded("two)") + encoded(STOP)
    assert ended(made, ids)[:2] == (STOP, len(ids))


@pytest.mark.parametrize(
    ("markers", "streams"), [(None, True), (PARENTHESES, True), (PARENTHESES, False)]
)
def test_sglang_continues_after_an_error(
    engine: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    markers: Any,
    streams: bool,
) -> None:
    """The text is cut at the stop that SGLang finds, not at one that was ignored before."""
    text = f"({STOP if markers else 'x'}) and one more words "
    ids, reads = encoded(text + STOP), len(encoded("(two) and one"))
    begin = engine.stops._after

    def failing(request: Any, read: int) -> Any:
        if read >= reads:
            raise MemoryError
        return begin(request, read)

    monkeypatch.setattr(engine.stops, "_after", failing)
    found = outcome(engine, ids, size=2, markers=markers, streams=streams)
    assert found == Result(text, len(ids), STOP)
    assert [record.getMessage() for record in caplog.records] == [f"{LEFT}MemoryError)"]
