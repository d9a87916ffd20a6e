"""The streamer without transformers and torch: rows, readers, and what is rejected."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamdec import HuggingFaceTokenizer, MockTokenizer, StopConditions, StopSequenceDecoder
from streamdec.integrations.transformers import GenerateStreamer
from tests.hooks.recording import recording
from tests.integrations.transformers.tensors import Model, Tensor
from tests.integrations.vocabularies import VOCABULARIES, spelled
from tests.server.serving import until
from tests.streams.engines import BoomError

# --- rows -----------------------------------------------------------------------------------------


ENDS = (2, 40)
PAD = spelled("byte_level", "x")[0]


def ids() -> st.SearchStrategy[int]:
    letters = spelled("byte_level", "ab.😀ß ")
    return st.sampled_from([*letters, *ENDS]) | st.integers(0, 450)


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Prompts of one length, rows of one length, and after how many tokens the criteria are asked.

    After its end a row is padded.
    """
    num_rows = draw(st.integers(1, 4))
    length = draw(st.integers(1, 24))
    num_prompt = draw(st.integers(0, 5))
    rows = [draw(st.lists(ids(), min_size=length, max_size=length)) for _ in range(num_rows)]
    for row in rows:
        end = next((place for place, each in enumerate(row) if each in ENDS), length)
        row[end + 1 :] = [PAD] * (length - end - 1)
    prompts = [
        draw(st.lists(ids(), min_size=num_prompt, max_size=num_prompt)) for _ in range(num_rows)
    ]
    sizes = draw(st.lists(st.integers(1, 4), min_size=length, max_size=length))
    return prompts, rows, [cut for cut in accumulate(sizes) if cut < length] + [length]


@given(batch=batches(), kind=st.sampled_from(["byte_level", "byte_fallback"]), data=st.data())
def test_each_row_equals_a_decoder(batch: Any, kind: str, data: st.DataObject) -> None:
    prompts, rows, cuts = batch
    tokenizer = HuggingFaceTokenizer(VOCABULARIES[kind]())
    conditions = [
        StopConditions(
            data.draw(st.lists(st.text("ab.ß", min_size=1, max_size=3), max_size=2)),
            min_tokens=data.draw(st.integers(0, 3)),
            max_tokens=data.draw(st.none() | st.integers(3, 20)),
        )
        for _ in rows
    ]
    streamer = GenerateStreamer(tokenizer, conditions, eos_token_ids=ENDS, return_token_ids=True)
    streamer.put(Tensor(prompts))
    everything = Tensor([a + b for a, b in zip(prompts, rows, strict=True)])
    num_prompt = len(prompts[0])
    num_asked = 0
    for cut in cuts:
        ended = streamer(everything[:, : num_prompt + cut], None).tolist()
        num_asked += 1
        if all(ended):
            break
    streamer.end()
    found = [*streamer]
    for place, row in enumerate(rows):
        expected = StopSequenceDecoder(tokenizer, conditions[place], prompts[place])
        text, covered, reason = "", [], "length"
        for each in row[: cuts[num_asked - 1]]:
            if each in ENDS and expected.num_tokens >= conditions[place].min_tokens:
                text += expected.flush("stop").text
                covered.append(each)
                break
            text += expected.step(each).text
            covered.append(each)
            if expected.finished or each in ENDS:
                reason = "stop"
                break
        text += expected.flush("stop" if reason == "stop" else "length").text
        mine = [chunk for at, chunk in found if at == place]
        assert "".join(chunk.text for chunk in mine) == text
        assert mine[-1].finish_reason == expected.finish_reason
        assert mine[-1].stop_reason == (expected.match.stop if expected.match else None)
        assert [each for chunk in mine for each in chunk.token_ids] == covered


def test_the_rows_of_a_prompt_have_its_conditions() -> None:
    tokenizer = HuggingFaceTokenizer(VOCABULARIES["byte_level"]())
    comma, dot, x = spelled("byte_level", ",.x")
    two = [StopConditions(","), StopConditions(".")]
    streamer = GenerateStreamer(tokenizer, two, eos_token_ids=())
    streamer.put(Tensor([[x]] * 4))
    assert streamer(Tensor([[x, comma]] * 4)).tolist() == [True, True, False, False]
    assert streamer(Tensor([[x, comma, dot]] * 4)).tolist() == [True] * 4


# --- readers --------------------------------------------------------------------------------------


TOKENIZER = MockTokenizer.from_tokens([*(bytes([byte]) for byte in range(256)), b"b>c"])
LONG = b"abcdefghijklmnopqrstuvwxyz" * 4


def failing(error: BaseException, *rows: bytes) -> Model:
    """A model that raises before its token 3."""
    model = Model(*rows)

    def fail(step: int) -> None:
        if step == 3:
            raise error

    model.at_step = fail
    return model


def started(model: Model, **options: Any) -> GenerateStreamer:
    streamer = GenerateStreamer(TOKENIZER, **options)
    streamer.start(model)
    return streamer


def leave_at(step: int, *rows: bytes) -> GenerateStreamer:
    """A reader who leaves after its first chunk, while that token is made."""
    model, streamer = Model(*rows), GenerateStreamer(TOKENIZER)
    is_reached, has_left = threading.Event(), threading.Event()

    def wait(at: int) -> None:
        if at == step:
            is_reached.set()
            assert has_left.wait(60)

    def close_and_go_on() -> None:
        close()
        has_left.set()

    model.at_step = wait
    close = streamer._feed.close
    streamer._feed.close = close_and_go_on  # type: ignore[method-assign]
    streamer.start(model)
    with streamer:
        next(streamer)
        assert is_reached.wait(60)
    return streamer


def test_chunks_come_while_generate_runs() -> None:
    """Each token waits until the reader has the text of the one before."""
    model, texts = Model(b"abcdef"), list[str]()
    model.at_step = lambda step: until(lambda: len(texts) >= step)
    with started(model) as streamer:
        for chunk in streamer:
            texts.append(chunk.text)
    assert texts == [*"abcdef", ""]


@pytest.mark.parametrize("end", [StopIteration(1), StopAsyncIteration(), SystemExit(3), None])
def test_an_error_of_generate_is_raised_after_the_text_before_it(end: BaseException | None) -> None:
    """Errors that a loop would take for its end are the cause of another."""
    boom = end or BoomError("no memory")
    texts: list[str] = []
    with started(failing(boom, b"abcdef"), stop="bcd") as streamer:
        with pytest.raises(Exception, match="generate ended with" if end else "no memory") as e:
            texts.extend(each.text for each in streamer)
        assert (e.value.__cause__ if end else e.value) is boom
        assert [*streamer] == []
    assert texts == ["a", "bc"]
    assert streamer.decoders[0].finish_reason == "error"
    with pytest.raises(type(e.value)):
        streamer.result()


def test_hooks_are_called_for_each_row() -> None:
    """Of rows that end by themselves, by an error of generate, and because the reader leaves."""
    with recording() as told:
        for model in (Model(b"ab", b"abcd"), failing(BoomError(), b"ab", b"abcd")):
            with suppress(BoomError), started(model, stop="d") as streamer:
                list(streamer)
        leave_at(4, LONG, b"ab")
    reasons = [each.finish_reason for each in told.streams]
    assert reasons == ["stop", "stop", "stop", "error", "stop", "abort"]


def test_a_reader_who_leaves_ends_generate_at_its_next_token() -> None:
    """It leaves while token 4 is made; that one is the last."""
    streamer = leave_at(4, LONG, LONG)
    assert streamer.result().shape == (2, 1 + 5)
    assert [*streamer] == []
    assert [each.finish_reason for each in streamer.decoders] == ["abort", "abort"]


def test_closing_wakes_a_reader() -> None:
    streamer = GenerateStreamer(TOKENIZER, eos_token_ids=())
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append([*streamer]))
    thread.start()
    streamer.close()
    thread.join(60)
    assert found == [[]]


def test_a_row_with_a_bad_id_ends_and_the_others_continue() -> None:
    model = Model([*b"ab", 500, 30], b"abcdef")
    with started(model, unknown_ids="error") as streamer:
        found = [*streamer]
    texts = ["".join(each.text for each in found if each.row == row) for row in (0, 1)]
    assert texts == ["ab", "abcdef"]
    assert [each.finish_reason for each in streamer.decoders] == ["error", "stop"]
    (error,) = streamer.errors.values()
    assert (error.token_id, error.index) == (500, 2)  # type: ignore[attr-defined]


def test_each_chunk_is_in_one_section() -> None:
    streamer = started(Model([*b"a<", 256], b"x"), sections={"reasoning": ("<", ">")})
    assert [(row, each.text, each.section) for row, each in streamer if each.text] == [
        *((0, "a", None), (1, "x", None), (0, "b", "reasoning"), (0, "c", None))
    ]


# --- what is rejected -----------------------------------------------------------------------------


USED = "a streamer works for one call of generate; make a new one"


def raises(kind: type[Exception], message: str) -> Any:
    """Expect an error whose message has ``message``."""
    return pytest.raises(kind, match=re.escape(message))


def ended(streamer: GenerateStreamer, num_rows: int = 1, *args: Any, **kwargs: Any) -> None:
    """Run a ``generate`` with this number of rows to its end."""
    streamer.start(Model(*[()] * num_rows), *args, **kwargs)
    streamer.result()


@pytest.mark.parametrize(
    ("args", "options", "kind", "message"),
    [
        ((), {"stopp": "a"}, TypeError, "unexpected keyword argument 'stopp'"),
        ((), {"chunk_by": "token"}, TypeError, "unexpected keyword argument 'chunk_by'"),
        ((), {"eos_token_ids": "x"}, TypeError, "eos_token_ids"),
        (([],), {}, TypeError, "conditions must be StopConditions, not []"),
        (("ab",), {}, TypeError, "not 'ab'; write stop=..."),
        ((StopConditions(),), {"stop": "a"}, TypeError, "got conditions and stop"),
    ],
)
def test_wrong_options_raise_an_error_at_once(
    args: Any, options: Any, kind: type[Exception], message: str
) -> None:
    with raises(kind, message):
        GenerateStreamer(TOKENIZER, *args, **options)


def test_what_generate_did_not_pass_is_named() -> None:
    with raises(ValueError, "got 2 conditions for a batch of 3 rows"):
        ended(GenerateStreamer(TOKENIZER, [StopConditions()] * 2), 3)
    with raises(ValueError, "eos_token_ids is missing; pass model.generation_config.eos_token_id"):
        Model(()).generate(streamer=GenerateStreamer(TOKENIZER, stop="x"))
    with raises(RuntimeError, "the prompt is not known; pass generate(streamer=...) too"):
        GenerateStreamer(TOKENIZER, eos_token_ids=())(Tensor([[0, 1]]))


def test_a_streamer_works_for_one_call() -> None:
    streamer = GenerateStreamer(TOKENIZER)
    ended(streamer)
    with raises(RuntimeError, USED):
        ended(streamer)
    with raises(RuntimeError, USED):
        Model(()).generate(streamer=streamer)
    with raises(RuntimeError, "use the return value of generate"):
        GenerateStreamer(TOKENIZER).result()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"streamer": object()}, "start() does not take streamer: pass stop="),
        ({"stop_strings": ["a"]}, "start() does not take stop_strings: pass stop= to the"),
        ({"stopping_criteria": [bool]}, "start() does not take stopping_criteria: pass stop="),
        (
            {"generation_config": SimpleNamespace(stop_strings=["a"])},
            "the generation_config has stop_strings; pass stop= to the streamer",
        ),
    ],
)
def test_arguments_of_generate_that_the_streamer_replaces_raise_an_error(
    kwargs: Any, message: str
) -> None:
    with raises(TypeError, message):
        GenerateStreamer(TOKENIZER).start(Model(()), **kwargs)


@pytest.mark.parametrize("num_tokens", [1, 2])
def test_a_streamer_that_is_no_criterion_does_not_end_without_text(num_tokens: int) -> None:
    streamer = GenerateStreamer(TOKENIZER, eos_token_ids=())
    message = "no text was decoded; pass stopping_criteria=[streamer] too"
    streamer.put(Tensor([[0]]))
    with raises(RuntimeError, message):
        for _ in range(num_tokens):
            streamer.put(Tensor([97]))
        streamer.end()
    with raises(RuntimeError, message):  # in the thread of the reader
        list(streamer)


def test_ids_must_continue_those_of_the_call_before() -> None:
    message = "the ids do not begin with the 2 ids of the call before; use a new streamer"
    streamer = GenerateStreamer(TOKENIZER, eos_token_ids=())
    streamer.put(Tensor([[0]]))
    assert streamer(Tensor([[0, 0]])).tolist() == [False]
    with raises(RuntimeError, message):
        streamer(Tensor([[1, 1, 1]]))
    assert [each.finish_reason for each in streamer.decoders] == ["error"]
