"""Which program serves a tokenizer: verified, shared by threads, kept as long as it lives."""

from __future__ import annotations

import gc
import random
import sys
import warnings
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Barrier
from typing import Any, cast

import pytest

from streamdec import DecodeStream, HuggingFaceTokenizer, MockTokenizer
from streamdec.core import programs
from streamdec.core.program import DEFAULT_OPTIONS, Options, Program
from streamdec.core.programs import program_for, route_of
from streamdec.core.window_program import WindowProgram
from streamdec.errors import StreamdecWarning
from tests.support.zoo import UNCOMPILED, ZOO


def compiled(tokenizer: MockTokenizer, options: Options = DEFAULT_OPTIONS) -> Program:
    found = program_for(tokenizer, options)
    assert isinstance(found, Program)
    return found


def test_a_tokenizer_and_its_options_have_one_program() -> None:
    tokenizer, twin = (MockTokenizer.from_tokens([b"a"]) for _ in range(2))
    assert compiled(tokenizer) is compiled(tokenizer)
    assert compiled(tokenizer) is not compiled(twin)
    assert compiled(tokenizer, Options(unknown_ids="error")) is not compiled(tokenizer)


def test_programs_of_one_tokenizer_share_their_table() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a"])
    strict = compiled(tokenizer, Options(unknown_ids="error"))
    assert strict.token_bytes is compiled(tokenizer).token_bytes
    unskipped = compiled(tokenizer, Options(skip_special_tokens=False))
    assert unskipped.token_bytes is not strict.token_bytes


def test_a_tokenizer_has_as_many_programs_as_options_were_asked_for() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a"], decoder="byte_fallback")
    combinations = [
        Options(*values)  # type: ignore[arg-type]
        for values in product(
            (True, False), ("eager", "exact"), ("skip", "error", "replace"), (True, False)
        )
    ]
    made = [compiled(tokenizer, options) for options in combinations]
    assert [compiled(tokenizer, options) for options in combinations] == made
    assert len({id(program) for program in made}) == len(combinations)


# --- verification ---------------------------------------------------------------------------------


class Lying(MockTokenizer):
    """Its ``decode`` says of id 3 what its table does not."""

    def decode(self, token_ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        text = super().decode(token_ids, skip_special_tokens=skip_special_tokens)
        return text.replace("d", "D")


@pytest.mark.parametrize("missing", ["decode", "piece", "is_skipped", "sample_ids"])
def test_rules_without_the_rest_of_a_table_are_an_error_that_says_what_is_missing(
    missing: str,
) -> None:
    whole = MockTokenizer.from_tokens([b"a"])
    has = {"decode", "piece", "is_skipped", "sample_ids", "rules"} - {missing}
    tokenizer = type("Half", (), {name: getattr(whole, name) for name in has})()
    with pytest.raises(TypeError, match=rf"Half .*has rules, .* has not: {missing}$"):
        DecodeStream(tokenizer)


def test_a_table_that_differs_from_decode_is_warned_of_by_id_and_not_used() -> None:
    tokenizer = Lying.from_tokens([b"a", b"b", b"c", b"d", b"e"])
    with pytest.warns(
        StreamdecWarning, match=r"<Lying: .*differs from decode\(\) at id 3;"
    ) as seen:
        stream = DecodeStream(tokenizer)
    assert len(seen) == 1
    assert stream.route == route_of(tokenizer) == "window"
    assert "".join(stream.step_batch([0, 3, 4])) == "aDe"


def test_the_warning_points_at_the_line_that_began_the_stream() -> None:
    with pytest.warns(StreamdecWarning) as seen:
        DecodeStream(Lying.from_tokens([b"d"]))
    assert seen[0].filename == __file__


def test_that_is_said_once_for_a_tokenizer() -> None:
    tokenizer = Lying.from_tokens([b"d"])
    with pytest.warns(StreamdecWarning):
        DecodeStream(tokenizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DecodeStream(tokenizer, skip_special_tokens=False).step(0) == "D"


def test_a_special_that_decode_treats_otherwise_is_noticed() -> None:
    class Skipping(MockTokenizer):
        def is_skipped(self, token_id: int) -> bool:
            return token_id == 1

    with pytest.warns(StreamdecWarning, match="at id 1;"):
        assert route_of(Skipping.from_tokens([b"a", b"b"])) == "window"


@pytest.mark.parametrize("name", ["byte_level", "wordpiece", "byte_fallback_strip"])
def test_a_tokenizer_with_rules_takes_the_bytes_route_without_a_word(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert route_of(HuggingFaceTokenizer(ZOO[name]())) == "bytes"


@pytest.mark.parametrize("name", UNCOMPILED)
def test_a_tokenizer_without_rules_takes_the_window_without_a_word(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer = HuggingFaceTokenizer(UNCOMPILED[name]())
        assert isinstance(program_for(tokenizer), WindowProgram)


def test_what_cannot_decode_is_a_type_error() -> None:
    for wrong in (None, "gpt2", object()):
        with pytest.raises(TypeError, match="must have decode"):
            program_for(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["path/to/model", Path("path/to/model")])
def test_a_path_is_no_tokenizer_and_is_told_what_makes_one(path: Any) -> None:
    with pytest.raises(TypeError, match=r"path/to/model.* has not; load_tokenizer\(\) makes one"):
        DecodeStream(path)


class Slotted:
    """A table of one word that nothing may refer to weakly, as some extension types are."""

    __slots__ = ("_inner",)

    def __init__(self) -> None:
        self._inner = MockTokenizer.from_tokens([b"a"])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(("is_fast", "told"), [(True, 1), (False, 0)])
def test_a_tokenizer_of_transformers_is_told_what_is_better(is_fast: bool, told: int) -> None:
    body = {"decode": MockTokenizer.decode, "is_fast": is_fast, "__module__": "transformers.x"}
    tokenizer = type("AnyTokenizer", (), body)()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert DecodeStream(tokenizer).route == "window"
    assert [(each.category, each.filename) for each in caught] == [
        (StreamdecWarning, __file__)
    ] * told
    for each in caught:
        assert "a transformers.AnyTokenizer streams over" in str(each.message)
        assert "streamdec.HuggingFaceTokenizer(tokenizer)" in str(each.message)


def test_a_tokenizer_without_weak_references_is_served() -> None:
    assert DecodeStream(cast(MockTokenizer, Slotted())).step(0) == "a"


# --- lifetime -------------------------------------------------------------------------------------


def test_a_tokenizer_and_its_programs_go_when_the_last_stream_does() -> None:
    tokenizer = MockTokenizer.from_tokens([b"a", "é".encode()])
    key = id(tokenizer)
    streams = [DecodeStream(tokenizer, unknown_ids="replace") for _ in range(9)]
    for stream in streams:
        stream.step_batch([0, 1, 0])
    gone: list[weakref.ref[Any]] = [
        weakref.ref(tokenizer),
        weakref.ref(compiled(tokenizer).token_bytes),
    ]
    del tokenizer, stream
    gc.collect()
    assert streams[0].step(0) == "a"
    assert all(ref() is not None for ref in gone)
    del streams
    gc.collect()
    assert all(ref() is None for ref in gone)
    assert key not in programs._compiled


def test_a_library_tokenizer_goes_as_well() -> None:
    tokenizer = HuggingFaceTokenizer(ZOO["byte_fallback_strip"]())
    known = [i for i in tokenizer.sample_ids() if tokenizer.piece(i) is not None]
    DecodeStream(tokenizer, known[:3], byte_fallback="exact").step_batch(known)
    gone = weakref.ref(tokenizer)
    del tokenizer
    gc.collect()
    assert gone() is None


# --- threads --------------------------------------------------------------------------------------


@pytest.fixture
def hasty_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


THREADS = 8


@pytest.mark.usefixtures("hasty_switches")
@pytest.mark.parametrize("max_entries", [None, 40])
def test_threads_that_share_a_tokenizer_say_what_each_would_alone(max_entries: int | None) -> None:
    """From a cold start, and while rows are forgotten all the time."""
    tokens = [bytes([byte]) for byte in range(256)] + [b"<s>"]

    def fresh() -> MockTokenizer:
        return MockTokenizer.from_tokens(tokens, special_ids=[256])

    chooser = random.Random(0)
    text = "naïve 你好 😀\ufffd".encode()
    jobs = [
        [chooser.choice([*text, 256, 999, chooser.randrange(256)]) for _ in range(3000)]
        for _ in range(THREADS)
    ]
    expected = [DecodeStream(fresh()).step_batch(job) for job in jobs]
    for _ in range(3):
        tokenizer = fresh()
        if max_entries is not None:
            compiled(tokenizer)._max_entries = max_entries
        together = Barrier(THREADS)

        def work(
            job: list[int], tokenizer: MockTokenizer = tokenizer, together: Barrier = together
        ) -> list[str]:
            together.wait()
            texts: list[str] = []
            stream = DecodeStream(tokenizer)
            for start in range(0, len(job), 500):
                stream = stream.fork()
                texts += stream.step_batch(job[start : start + 500])
            return texts

        with ThreadPoolExecutor(THREADS) as pool:
            assert [*pool.map(work, jobs)] == expected
